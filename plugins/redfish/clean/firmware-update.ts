/**
 * Updates firmware, one component after the other: the BMC fetches the image, or is sent it where it cannot. A
 * component counts as updated when the machine reports another version, after a restart of the machine where it needs
 * one. If the request names no version, the image may be of the same one: then it counts as updated when its task has
 * ended and the machine still reports the version after a restart.
 */
import { isIP } from "node:net";
import type { LookupFunction } from "node:net";
import { Readable } from "node:stream";
import { Agent, request } from "undici";
import { lazySchema } from "../../lazy-schema.ts";
import type { Output } from "../../lazy-schema.ts";
import type { DriverMemory, StepResult } from "../../../src/drivers/driver.ts";
import { RedfishError, unsupported } from "../error.ts";
import { componentOf, softwareOf, updateService } from "../firmware.ts";
import { text } from "../resource.ts";
import type { Resource } from "../resource.ts";
import type { Outcome, RedfishService } from "../service.ts";
import { action, allowedValues } from "../system.ts";
import { POLL_SECONDS, failed, onService, readTasks } from "./clean-step.ts";
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

/** How far the update is. `before`: the version of the component at its beginning. */
const memoSchema = lazySchema((z) =>
  z.object({
    index: z.int().min(0),
    state: z.enum(["SENT", "RESTARTED"]),
    before: z.string().nullable(),
    task: z.string(),
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
  const { task = "" } = await send(service, call, { ...component, software });
  call.log(`The update of ${found.name} (${found.version ?? "unknown version"}) has begun.`);
  const memo: Memo = { index, state: "SENT", before: found.version, task, checks: 0, updated };
  return { kind: "wait", seconds: POLL_SECONDS, memo };
}

async function follow(service: RedfishService, call: CleanCall<Args>, memo: Memo): Promise<StepResult> {
  const component = call.args.components[memo.index];
  if (!component) return { kind: "done", output: { updated: memo.updated } };
  const wait = (next: Partial<Memo>): StepResult => ({
    kind: "wait",
    seconds: POLL_SECONDS,
    memo: { ...memo, ...next },
  });
  if (memo.task !== "") {
    const { running, failures } = await readTasks(service, call, { [component.id]: memo.task });
    if (failures.length > 0) return failed(failures.join(" "));
    if (Object.keys(running).length > 0) return wait({});
  }
  const found = await versionOf(service, component.id);
  // The BMC restarts with its new firmware; the timeout of the step limits that.
  if (found === "NO_ANSWER") return wait({});
  const { version } = found;
  const isNew = component.version === null ? version !== memo.before : version === component.version;
  if (version !== null && isNew) {
    const done = { id: component.id, from: memo.before, to: version };
    call.log(`${component.id} has version ${version} now.`);
    return begin(service, call, { index: memo.index + 1, updated: [...memo.updated, done] });
  }
  const isUnverified = memo.state === "RESTARTED" && component.version === null;
  const checksMax = isUnverified ? UNVERIFIED_CHECKS : CHECKS[memo.state];
  if (memo.checks < checksMax) return wait({ task: "", checks: memo.checks + 1 });
  if (isUnverified) {
    const same = version ?? "unknown";
    call.log(
      `The update of ${component.id} has ended; it reports version ${same} as before. No version was requested.`,
    );
    const done = { id: component.id, from: memo.before, to: version };
    return begin(service, call, { index: memo.index + 1, updated: [...memo.updated, done] });
  }
  if (memo.state === "RESTARTED")
    return failed(
      `${component.id} reports version ${version ?? "unknown"} after the update and a restart, not ${component.version ?? "another one"}.`,
    );
  await call.power.set("REBOOT");
  return wait({ task: "", state: "RESTARTED", checks: 0 });
}

async function versionOf(
  service: RedfishService,
  id: string,
): Promise<"NO_ANSWER" | { readonly version: string | null }> {
  try {
    const software = await findSoftware(service, id);
    return { version: software ? componentOf(software).version : null };
  } catch (error) {
    if (error instanceof RedfishError && error.retryable) return "NO_ANSWER";
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
    const body = { ImageURI: url, ...(protocols?.includes(protocol) && { TransferProtocol: protocol }) };
    const target = text(software, "@odata.id");
    if (target === undefined) return service.post(simple.target, body, what);
    return service.post(simple.target, { ...body, Targets: [target] }, what).catch((error: unknown) => {
      // Some BMCs find the component in the image, and refuse targets.
      if (!(error instanceof RedfishError) || error.status !== 400) throw error;
      return service.post(simple.target, body, what);
    });
  }
  const push = text(resource, "MultipartHttpPushUri");
  if (push === undefined) throw unsupported(service.bmc, "offers neither SimpleUpdate nor a multipart upload.");
  return pushImage(service, { push, url, address, what });
}

/** The address of the server of an image; undefined if addresses are not limited. Throws if it may not be used. */
function checkedAddress({ addresses }: CleanCall<Args>, url: string): string | undefined {
  if (!addresses || url in addresses) return addresses?.[url];
  const message = `File server ${new URL(url).host} is not on the list of file servers any more. See OSTLER_FILE_SERVERS.`;
  throw new RedfishError({ kind: "REFUSED", message });
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
    throw new RedfishError({ kind: "OTHER", message });
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
