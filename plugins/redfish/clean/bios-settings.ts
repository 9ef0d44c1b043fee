/**
 * Changes BIOS attributes: checked against the machine's registry, sent, applied by a restart where needed, verified.
 */
import { lazySchema } from "../../lazy-schema.ts";
import type { Output } from "../../lazy-schema.ts";
import type { BiosAttribute, BiosValue, DriverMemory, StepResult } from "../../../src/drivers/driver.ts";
import { activityOf } from "../activity.ts";
import { RedfishError } from "../error.ts";
import { lastPart } from "../system.ts";
import { applyTimes, biosAttributes, findBios } from "../bios.ts";
import type { Bios } from "../bios.ts";
import type { Resource } from "../resource.ts";
import type { RedfishService } from "../service.ts";
import { POLL_SECONDS, failed, locationsSchema, onService, readTasks, restart } from "./clean-step.ts";
import type { CleanCall, CleanStep } from "./clean-step.ts";

const args = lazySchema((z) =>
  z.strictObject({
    settings: z
      .record(z.string().min(1).max(256), z.union([z.string().max(1024), z.number(), z.boolean()]))
      .refine((settings) => Object.keys(settings).length > 0, "names no attribute")
      .meta({ description: "New values by the name of the BIOS attribute." }),
  }),
);

type Args = Output<typeof args>;

/** Reads after the restart and the end of the BMC's task: half an hour. A start with new settings takes minutes. */
const CHECKS_MAX = 180;
/** Reads for a change of another client that the restart has made, before the own one is sent: five minutes. */
const HELD_CHECKS = 30;

export function applyBiosSettings(memory: DriverMemory | undefined): CleanStep<Args> {
  return {
    name: "apply_bios_settings",
    title: "Change BIOS settings, and restart the machine to apply them",
    phase: "clean",
    priority: 0,
    group: "bios",
    interruptible: "AT_BOUNDARY",
    timeoutSeconds: 3600,
    idempotent: true,
    touches: ["FIRMWARE"],
    args,
    run: onService(memory, apply),
  };
}

async function apply(service: RedfishService, call: CleanCall<Args>): Promise<StepResult> {
  const { settings } = call.args;
  const bios = await findBios(service, call.settings);
  const attributes = new Map(biosAttributes(bios).map((one) => [one.name, one]));
  const memo = memoSchema.safeParse(call.memo).data;
  const names = Object.keys(settings).filter((name) => attributes.get(name)?.value !== settings[name]);
  const isOther = (name: string) => attributes.has(name) && !memo?.changed.includes(name);
  const isPending = names.some((name) => attributes.get(name)?.pending === settings[name]);
  if (memo) return follow(service, call, memo, { missing: names, others: names.filter(isOther), isPending });
  if (names.length === 0) return { kind: "done", output: { changed: [] } };
  const flaws = Object.entries(settings).flatMap(([name, value]) => flawOf(bios, attributes.get(name), name, value));
  if (flaws.length > 0)
    return failed(`The BIOS of this machine does not accept: ${flaws.join("; ")}.`, call.memo === null);
  const changes = Object.fromEntries(names.map((name) => [name, settings[name]]));
  const isSent = names.every((name) => attributes.get(name)?.pending === changes[name]);
  const task = isSent ? [] : await send(service, call, bios, changes).catch(onlyHeld);
  // The answer was lost. The settings for the next start show whether the BMC has the change.
  if (task === null) return { kind: "wait", seconds: POLL_SECONDS, memo: "SENT" };
  const held = task === undefined;
  if (!held) call.log(`BIOS settings for the next start: ${names.join(", ")}.`);
  return restartFor(service, call, {
    changed: names,
    task: task ?? [],
    checks: 0,
    restarted: false,
    resent: false,
    held,
  });
}

/** Undefined for a refusal because an earlier change waits for a restart; other errors are thrown. */
function onlyHeld(error: unknown): undefined {
  const isHeld = error instanceof RedfishError && error.effect === "NONE" && HELD.test(error.message);
  if (!isHeld) throw error;
}

const HELD = /\balready (been )?(committed|scheduled)\b|\bjob .*\b(pending|scheduled|exists)\b/i;

/** The BMC's task; null if it is not known whether the BMC has made the change. */
async function send(
  service: RedfishService,
  call: CleanCall<Args>,
  bios: Bios,
  changes: Resource,
): Promise<string[] | null> {
  const onReset = applyTimes(bios)?.includes("OnReset") === true;
  const body = { Attributes: changes, ...(onReset && { "@Redfish.SettingsApplyTime": { ApplyTime: "OnReset" } }) };
  try {
    const optional = ["@Redfish.SettingsApplyTime"];
    return (await service.patch(bios.settingsPath, body, "change BIOS settings", { optional })).tasks;
  } catch (error) {
    if (!(error instanceof RedfishError) || error.effect !== "UNKNOWN") throw error;
    call.log(error.message);
    return null;
  }
}

/** Restarts the machine, unless it is at something else that must not be cut: then it is tried at the next entry. */
async function restartFor(service: RedfishService, call: CleanCall<Args>, memo: Memo): Promise<StepResult> {
  const own = new Set(memo.task.map(lastPart));
  // Changes of settings that wait for this restart are tasks that have not begun.
  const activity = await activityOf(
    service,
    call.settings,
    ({ id, state }) => !own.has(id) && state !== "new" && state !== "starting",
  );
  const mayCut = activity === "NONE" || activity === "UNREPORTED";
  return wait({ ...memo, restarted: mayCut && (await restart(call)) });
}

interface Differing {
  /** Names of the attributes that have other values than those wanted. */
  readonly missing: readonly string[];
  /** Those of them that were not sent. */
  readonly others: readonly string[];
  /** Whether the next start sets one of them. */
  readonly isPending: boolean;
}

/** Waits until the machine has started with the new values, and the BMC's task has ended. */
async function follow(
  service: RedfishService,
  call: CleanCall<Args>,
  memo: Memo,
  { missing, others, isPending }: Differing,
): Promise<StepResult> {
  if (!memo.restarted && missing.length > 0) return restartFor(service, call, memo);
  const tasks = await readTasks(service, call, memo.task.length === 0 ? {} : { BIOS: memo.task }, memo.checks);
  if (tasks.failures.length > 0) return failed(tasks.failures.join(" "));
  const isGone = tasks.gone.length > 0;
  if ("BIOS" in tasks.unfinished && !isGone) return wait({ ...memo, checks: tasks.checks }, tasks.seconds);
  const activity = memo.task.length > 0 && !isGone ? "NONE" : await activityOf(service, call.settings);
  const hasEnded = activity === "NONE" || activity === "UNREPORTED";
  if (missing.length === 0 && hasEnded) return { kind: "done", output: { changed: memo.changed } };
  // Settings that were not sent can change with those that were; and a machine can take a change, and not make it.
  const mayResend = others.length > 0 || (memo.checks >= (memo.held ? HELD_CHECKS : CHECKS_MAX) && !isPending);
  if (hasEnded && mayResend && !memo.resent) return resend(service, call, memo, missing);
  if (memo.checks < CHECKS_MAX || !hasEnded) return wait({ ...memo, checks: memo.checks + 1 });
  const reason = `The machine was restarted, but still reports other values of: ${missing.join(", ")}.`;
  return failed(reason, activity === "NONE");
}

/** Sends once more what differs and what was sent, and restarts the machine again. */
async function resend(
  service: RedfishService,
  call: CleanCall<Args>,
  memo: Memo,
  missing: readonly string[],
): Promise<StepResult> {
  const changed = [...new Set([...memo.changed, ...missing])];
  const again = { ...memo, checks: 0, resent: true };
  call.log(`The machine reports other values of ${missing.join(", ")}: the settings are sent once more.`);
  try {
    const changes = Object.fromEntries(changed.map((name) => [name, call.args.settings[name]]));
    const task = await send(service, call, await findBios(service, call.settings), changes);
    // Whether the BMC has the change is not known: the machine is restarted at the next entry.
    if (task === null) return wait({ ...again, changed, task: [], restarted: false });
    return await restartFor(service, call, { ...again, changed, task, restarted: false });
  } catch (error) {
    if (!(error instanceof RedfishError) || error.effect !== "NONE") throw error;
    call.log(error.message);
    return wait(again);
  }
}

function wait(memo: Memo, seconds = POLL_SECONDS): StepResult {
  return { kind: "wait", seconds, memo };
}

/** Why the machine would refuse a value; a dependent attribute may be writable after the other changes. */
function flawOf(bios: Bios, attribute: BiosAttribute | undefined, name: string, value: BiosValue): string[] {
  if (!attribute) return [`${name} is not one of its attributes`];
  const { type, allowedValues, minimum, maximum, readOnly } = attribute;
  if (type === "PASSWORD") return [`${name} is a password, which arguments of a step would reveal`];
  if (readOnly && attribute.value !== value && !bios.dependent.has(name)) return [`${name} is read-only`];
  if (type === "INTEGER" && !Number.isInteger(value)) return [`${name} is an integer`];
  if (type === "BOOLEAN" && typeof value !== "boolean") return [`${name} is true or false`];
  if ((type === "STRING" || type === "ENUMERATION") && typeof value !== "string") return [`${name} is a string`];
  if (allowedValues && !allowedValues.includes(String(value))) return [`${name} is one of ${allowedValues.join(", ")}`];
  if (minimum !== undefined && Number(value) < minimum) return [`${name} is at least ${minimum}`];
  return maximum !== undefined && Number(value) > maximum ? [`${name} is at most ${maximum}`] : [];
}

/**
 * `changed`: names of attributes. `task`: of the BMC, empty if there is none. Earlier releases have no `restarted`.
 * `held`: the change was refused, as an earlier one waited for the restart.
 */
const memoSchema = lazySchema((z) =>
  z.object({
    changed: z.array(z.string()),
    task: locationsSchema.zod,
    checks: z.int().min(0),
    restarted: z.boolean().default(true),
    resent: z.boolean().default(false),
    held: z.boolean().default(false),
  }),
);

type Memo = Output<typeof memoSchema>;
