/**
 * Updates firmware, one component after the other: the BMC fetches the image, or is sent it where it cannot. A
 * component counts as updated when the machine reports another version, after a restart of the machine where it needs
 * one. If the request names no version, the image may be of the same one: then it counts as updated when its task has
 * ended and the machine still reports the version after a restart.
 *
 * The machine is restarted only when the BMC has reported that the update has ended, or that nothing goes on that must
 * not be cut: an answer that is lost, or a task that the BMC has forgotten, may belong to an update that goes on.
 */
import { isIP } from "node:net";
import type { LookupFunction } from "node:net";
import { Readable } from "node:stream";
import { Agent, request } from "undici";
import { lazySchema } from "../../lazy-schema.ts";
import type { Output } from "../../lazy-schema.ts";
import type { DriverMemory, StepResult } from "../../../src/drivers/driver.ts";
import { RedfishError, unsupported } from "../error.ts";
import { activityOf, isAtRest } from "../activity.ts";
import { componentOf, softwareOf, updateService } from "../firmware.ts";
import { text } from "../resource.ts";
import type { Resource } from "../resource.ts";
import type { Outcome, RedfishService } from "../service.ts";
import { action, allowedValues } from "../system.ts";
import { POLL_SECONDS, failed, locationsSchema, onService, readTasks, restart } from "./clean-step.ts";
import type { CleanCall, CleanStep } from "./clean-step.ts";

const args = lazySchema((z) =>
  z.strictObject({
    components: z
      .array(
        z.strictObject({
          id: z
            .string()
            .min(1)
            .max(256)
            .meta({ description: "Component, as the machine's firmware inventory names it." }),
          url: z
            .url({ protocol: /^https?$/ })
            .max(2048)
            .regex(/^https?:\/\/[^/\\]/i, "names no host")
            .meta({ fileUrl: true, description: "HTTP address of the image." }),
          version: z
            .string()
            .max(256)
            .nullable()
            .default(null)
            .meta({ description: "Version that the image contains, to be verified." }),
        }),
      )
      .min(1)
      .max(50)
      .meta({ description: "Components to update, in order." }),
  }),
);

type Args = Output<typeof args>;

export function updateFirmware(memory: DriverMemory | undefined): CleanStep<Args> {
  return {
    name: "update_firmware",
    title: "Update firmware, component by component",
    phase: "clean",
    priority: 0,
    group: "firmware",
    interruptible: "NEVER",
    timeoutSeconds: 4 * 3600,
    idempotent: false,
    touches: ["FIRMWARE"],
    args,
    run: onService(memory, update),
  };
}

/**
 * How far the update is. `before`: the version of the component at its beginning. `end`: where the BMC has reported
 * the end: in the task, or in an answer without a task; null: nowhere. Memos of earlier releases do not have it.
 */
const memoSchema = lazySchema((z) =>
  z.object({
    index: z.int().min(0),
    state: z.enum(["SENT", "RESTARTED"]),
    before: z.string().nullable(),
    task: locationsSchema.zod,
    end: z.enum(["TASK", "ANSWER"]).nullable().default("ANSWER"),
    checks: z.int().min(0),
    updated: z.array(z.object({ id: z.string(), from: z.string().nullable(), to: z.string().nullable() })),
  }),
);

type Memo = Output<typeof memoSchema>;

/** Reads of an unchanged version after the task has ended, before the machine is restarted, and after that. */
const CHECKS = { SENT: 6, RESTARTED: 90 };
/** Reads after the restart, if the request names no version to wait for. */
const UNVERIFIED_CHECKS = 6;

async function update(service: RedfishService, call: CleanCall<Args>): Promise<StepResult> {
  const memo = memoSchema.safeParse(call.memo).data;
  return memo ? follow(service, call, memo) : begin(service, call, { index: 0, updated: [] });
}

async function begin(
  service: RedfishService,
  call: CleanCall<Args>,
  { index, updated }: Pick<Memo, "index" | "updated">,
): Promise<StepResult> {
  const component = call.args.components[index];
  if (!component) return { kind: "done", output: { updated } };
  const software = await findSoftware(service, component.id);
  if (!software) return failed(`The machine reports no firmware component ${JSON.stringify(component.id)}.`);
  const found = componentOf(software);
  if (found.updateable === false) return failed(`The machine does not accept updates of ${found.name}.`);
  if (component.version !== null && found.version === component.version)
    return begin(service, call, { index: index + 1, updated });
  const sent = await send(service, call, { ...component, software }).catch((error: unknown) => {
    call.signal.throwIfAborted();
    if (!(error instanceof RedfishError)) throw unreadImage(component.url, error);
    if (error.effect !== "UNKNOWN") throw error;
    // The BMC may be writing by now. A second update is not sent.
    call.log(`${error.message} The update may have begun nevertheless.`);
    return null;
  });
  call.log(`The update of ${found.name} (${found.version ?? "unknown version"}) has begun.`);
  const task = sent?.tasks ?? [];
  const end = sent && !sent.isRunning ? "ANSWER" : null;
  return wait({ index, state: "SENT", before: found.version, task, end, checks: 0, updated });
}

function wait(memo: Memo, seconds = POLL_SECONDS): StepResult {
  return { kind: "wait", seconds, memo };
}

/** Begins with the next component. A refusal leaves a machine at rest, whose earlier updates have ended. */
async function beginNext(
  service: RedfishService,
  call: CleanCall<Args>,
  memo: Memo,
  to: string | null,
): Promise<StepResult> {
  const id = call.args.components[memo.index]?.id ?? "";
  const updated = [...memo.updated, { id, from: memo.before, to }];
  return begin(service, call, { index: memo.index + 1, updated }).catch((error: unknown) => {
    if (error instanceof RedfishError && error.effect === "NONE" && !error.retryable) return failed(error.message);
    throw error;
  });
}

async function follow(service: RedfishService, call: CleanCall<Args>, memo: Memo): Promise<StepResult> {
  const component = call.args.components[memo.index];
  if (!component) return { kind: "done", output: { updated: memo.updated } };
  const isFollowed = memo.task.length > 0;
  const tasks = await readTasks(service, call, isFollowed ? { [component.id]: memo.task } : {}, memo.checks);
  if (tasks.failures.length > 0) return failed(tasks.failures.join(" "));
  const isGone = tasks.gone.length > 0;
  if (component.id in tasks.unfinished && !isGone) {
    const isIdle = memo.state === "SENT" && tasks.idle.length > 0 && (await isAtRest(service, call.settings));
    // The BMC makes the update at a restart.
    if (isIdle && memo.checks >= CHECKS.SENT && (await restart(call)))
      return wait({ ...memo, state: "RESTARTED", checks: 0 });
    return wait({ ...memo, checks: isIdle ? memo.checks + 1 : tasks.checks }, tasks.seconds);
  }
  const now: Memo = isFollowed && !isGone ? { ...memo, task: [], end: "TASK" } : memo;
  const version = await versionOf(service, component.id);
  // The BMC may restart with its new firmware, and forget the task; the timeout of the step limits that.
  if (version === undefined) return wait(now);
  // Some BMCs end the task of the transfer, and then write.
  const activity = await activityOf(service, call.settings);
  const isNew = component.version === null ? version !== memo.before : version === component.version;
  const isSure = activity === "NONE" || activity === "UNREPORTED" || memo.checks >= CHECKS.SENT;
  if (version !== null && isNew && !isSure) return wait({ ...now, checks: activity === "SOME" ? 0 : memo.checks + 1 });
  if (version !== null && isNew) {
    call.log(`${component.id} has version ${version} now.`);
    return beginNext(service, call, now, version);
  }
  const hasEnded = activity === "NONE" || (activity === "UNREPORTED" && now.end !== null);
  if (!hasEnded && (memo.state === "SENT" || activity === "SOME")) return wait({ ...now, checks: 0 });
  // Without the BMC's word and without a version, nothing shows that the update was made.
  const isUnverified = memo.state === "RESTARTED" && component.version === null && memo.end !== null;
  const checksMax = isUnverified ? UNVERIFIED_CHECKS : CHECKS[memo.state];
  if (memo.checks < checksMax) return wait({ ...now, checks: memo.checks + 1 });
  if (isUnverified) {
    const same = version ?? "unknown";
    call.log(
      `The update of ${component.id} has ended; it reports version ${same} as before. No version was requested.`,
    );
    return beginNext(service, call, now, version);
  }
  if (memo.state === "RESTARTED")
    return failed(
      `${component.id} reports version ${version ?? "unknown"} after the update and a restart, not ${component.version ?? "another one"}.`,
      hasEnded,
    );
  if (!(await restart(call))) return wait(now);
  // A machine that does nothing any more, and has forgotten the task, has ended it.
  const task = tasks.checks > 0 ? memo.task : [];
  return wait({ ...now, task, end: isGone ? "TASK" : now.end, state: "RESTARTED", checks: 0 });
}

function unreadImage(url: string, error: unknown): RedfishError {
  const reason = error instanceof Error ? error.message : String(error);
  const message = `The image at ${new URL(url).host} cannot be read: ${reason}`;
  return new RedfishError({ kind: "OTHER", retryable: true, effect: "NONE", message });
}

/** Undefined if it cannot be read. */
async function versionOf(service: RedfishService, id: string): Promise<string | null | undefined> {
  try {
    const software = await findSoftware(service, id);
    return software ? componentOf(software).version : null;
  } catch (error) {
    if (error instanceof RedfishError) return undefined;
    throw error;
  }
}

async function findSoftware(service: RedfishService, id: string): Promise<Resource | undefined> {
  return (await softwareOf(service)).find((one) => componentOf(one).id === id);
}

async function send(
  service: RedfishService,
  call: CleanCall<Args>,
  { id, url, software }: Args["components"][number] & { readonly software: Resource },
): Promise<Outcome> {
  const address = checkedAddress(call, url);
  const resource = await updateService(service);
  const simple = action(resource, "UpdateService.SimpleUpdate");
  const what = `update ${id}`;
  if (simple) {
    const protocols = await allowedValues(service, simple.info, "TransferProtocol");
    const protocol = new URL(url).protocol === "https:" ? "HTTPS" : "HTTP";
    // In the form that was checked: BMCs read other notations of a host in their own way.
    const body = { ImageURI: new URL(url).href, ...(protocols?.includes(protocol) && { TransferProtocol: protocol }) };
    const target = text(software, "@odata.id");
    // Some BMCs find the component in the image, and refuse targets.
    const refused = { optional: ["Targets"], spare: { TransferProtocol: protocol } };
    return service.post(simple.target, { ...body, ...(target !== undefined && { Targets: [target] }) }, what, refused);
  }
  const push = text(resource, "MultipartHttpPushUri");
  if (push === undefined) throw unsupported(service.bmc, "offers neither SimpleUpdate nor a multipart upload.");
  return pushImage(service, { push, url, address, what });
}

/** The address of the server of an image; undefined if addresses are not limited. Throws if it may not be used. */
function checkedAddress({ addresses }: CleanCall<Args>, url: string): string | undefined {
  if (!addresses || url in addresses) return addresses?.[url];
  const message = `File server ${new URL(url).host} is not on the list of file servers any more. See OSTLER_FILE_SERVERS.`;
  throw new RedfishError({ kind: "REFUSED", effect: "NONE", message });
}

const IMAGE_BYTES_MAX = 1024 ** 3;
const UPLOAD_SECONDS = 3600;

interface Push {
  readonly push: string;
  readonly url: string;
  readonly address: string | undefined;
  readonly what: string;
}

/** Leads every host name to an address. */
function lookupOf(address: string): LookupFunction {
  const family = isIP(address);
  return (_host, options, callback) =>
    options.all === true ? callback(null, [{ address, family }]) : callback(null, address, family);
}

/** Sends an image to the BMC as it is read (DSP0266, 13.15, multipart HTTP push). */
async function pushImage(service: RedfishService, { push, url, address, what }: Push): Promise<Outcome> {
  if (address !== undefined && isIP(address) === 0)
    throw new RedfishError({
      kind: "UNREACHABLE",
      retryable: true,
      effect: "NONE",
      message: `The name of file server ${address} does not resolve. Check the URL, and the name server of the service's machine.`,
    });
  // Its own agent: the default one may use a proxy. It follows no redirect.
  await using parts = new AsyncDisposableStack();
  const server = new Agent({ connect: address === undefined ? {} : { lookup: lookupOf(address) } });
  parts.defer(() => server.destroy());
  const image = await request(url, { dispatcher: server, headersTimeout: 60_000, bodyTimeout: 60_000 });
  const length = Number(image.headers["content-length"]);
  if (image.statusCode !== 200 || !(length > 0) || length > IMAGE_BYTES_MAX) {
    await image.body.dump();
    const redirect = image.statusCode >= 300 && image.statusCode < 400 ? " (redirects are not followed)" : "";
    const message = `The image at ${new URL(url).host} cannot be used: status ${image.statusCode}${redirect}, ${Number.isNaN(length) ? "unknown size" : `${length} bytes`}.`;
    throw new RedfishError({ kind: "OTHER", effect: "NONE", message });
  }
  const boundary = `ostler-${crypto.randomUUID()}`;
  const head = [
    part(boundary, 'name="UpdateParameters"', "application/json"),
    JSON.stringify({}),
    part(boundary, 'name="UpdateFile"; filename="image.bin"', "application/octet-stream"),
  ].join("\r\n");
  const tail = `\r\n--${boundary}--\r\n`;
  async function* body() {
    yield head;
    yield* image.body;
    yield tail;
  }
  return service.upload(push, {
    body: Readable.from(body()),
    length: Buffer.byteLength(head) + length + Buffer.byteLength(tail),
    type: `multipart/form-data; boundary=${boundary}`,
    task: what,
    seconds: UPLOAD_SECONDS,
  });
}

function part(boundary: string, disposition: string, type: string): string {
  return `--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\nContent-Type: ${type}\r\n\r\n`;
}
