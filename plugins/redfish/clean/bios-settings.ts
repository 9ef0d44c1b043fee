/**
 * Changes BIOS attributes: checked against the machine's registry, sent, applied by a restart where needed, verified.
 */
import { lazySchema } from "../../lazy-schema.ts";
import type { Output } from "../../lazy-schema.ts";
import type { BiosAttribute, BiosValue, DriverMemory, StepResult } from "../../../src/drivers/driver.ts";
import { applyTimes, biosAttributes, findBios } from "../bios.ts";
import type { Bios } from "../bios.ts";
import type { Resource } from "../resource.ts";
import type { Outcome, RedfishService } from "../service.ts";
import { POLL_SECONDS, failed, onService, readTasks } from "./clean-step.ts";
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

/** Reads after the restart: half an hour. A start with new settings takes minutes. */
const CHECKS_MAX = 180;

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
  if (names.length === 0) return { kind: "done", output: { changed: memo?.changed ?? [] } };
  if (memo) return follow(service, call, memo, names);
  const flaws = Object.entries(settings).flatMap(([name, value]) => flawOf(bios, attributes.get(name), name, value));
  if (flaws.length > 0) return failed(`The BIOS of this machine does not accept: ${flaws.join("; ")}.`);
  const changes = Object.fromEntries(names.map((name) => [name, settings[name]]));
  const isPending = names.every((name) => attributes.get(name)?.pending === changes[name]);
  const task = isPending ? undefined : (await send(service, bios, changes)).task;
  call.log(`BIOS settings for the next start: ${names.join(", ")}.`);
  await call.power.set("REBOOT");
  return wait({ changed: names, task: task ?? "", checks: 0 });
}

async function send(service: RedfishService, bios: Bios, changes: Resource): Promise<Outcome> {
  const onReset = applyTimes(bios)?.includes("OnReset") === true;
  const body = { Attributes: changes, ...(onReset && { "@Redfish.SettingsApplyTime": { ApplyTime: "OnReset" } }) };
  return service.patch(bios.settingsPath, body, "change BIOS settings");
}

/** Waits until the machine has started with the new values. */
async function follow(
  service: RedfishService,
  call: CleanCall<Args>,
  memo: Memo,
  missing: readonly string[],
): Promise<StepResult> {
  const { running, failures } = await readTasks(service, call, memo.task === "" ? {} : { BIOS: memo.task });
  if (failures.length > 0) return failed(failures.join(" "));
  if (memo.checks < CHECKS_MAX) return wait({ ...memo, task: running["BIOS"] ?? "", checks: memo.checks + 1 });
  return failed(`The machine was restarted, but still reports other values of: ${missing.join(", ")}.`);
}

function wait(memo: Memo): StepResult {
  return { kind: "wait", seconds: POLL_SECONDS, memo };
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

/** `changed`: names of attributes. `task`: of the BMC, empty if there is none. */
const memoSchema = lazySchema((z) =>
  z.object({ changed: z.array(z.string()), task: z.string(), checks: z.int().min(0) }),
);

type Memo = Output<typeof memoSchema>;
