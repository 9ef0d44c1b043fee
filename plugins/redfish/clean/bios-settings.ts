/** Changes BIOS attributes: checked against the machine's registry, sent, applied by a restart where needed, verified. */
import * as z from "zod";
import type { BiosAttribute, BiosValue, DriverMemory, StepResult } from "../../../src/drivers/driver.ts";
import { applyTimes, biosAttributes, findBios } from "../bios.ts";
import type { RedfishService } from "../service.ts";
import { POLL_SECONDS, failed, onService } from "./clean-step.ts";
import type { CleanCall, CleanStep } from "./clean-step.ts";

const args = z.strictObject({
  settings: z
    .record(z.string().min(1).max(256), z.union([z.string().max(1024), z.number(), z.boolean()]))
    .refine((settings) => Object.keys(settings).length > 0, "names no attribute")
    .meta({ description: "New values by the name of the BIOS attribute." }),
});

type Args = z.output<typeof args>;

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
  const attributes = new Map((await biosAttributes(service, bios)).map((one) => [one.name, one]));
  const flaws = Object.entries(settings).flatMap(([name, value]) => flawOf(name, value, attributes) ?? []);
  if (flaws.length > 0) return failed(`The BIOS of this machine does not accept: ${flaws.join("; ")}.`);
  const changes = Object.fromEntries(
    Object.entries(settings).filter(([name, value]) => attributes.get(name)?.value !== value),
  );
  if (Object.keys(changes).length === 0) return { kind: "done", output: { changed: namesOf(call.memo) } };
  if (isRestarted(call.memo)) return { kind: "wait", seconds: POLL_SECONDS, memo: call.memo };
  const isPending = (name: string) => attributes.get(name)?.pending === changes[name];
  if (!Object.keys(changes).every(isPending)) {
    const onReset = applyTimes(bios)?.includes("OnReset") === true;
    const body = { Attributes: changes, ...(onReset && { "@Redfish.SettingsApplyTime": { ApplyTime: "OnReset" } }) };
    // The ETag of the resource that is changed has to be known.
    await service.find(bios.settingsPath, "pending BIOS settings");
    await service.patch(bios.settingsPath, body, "change BIOS settings");
  }
  call.log(`Changed for the next start: ${Object.keys(changes).join(", ")}.`);
  if (bios.pending) await call.power.set("REBOOT");
  return { kind: "wait", seconds: POLL_SECONDS, memo: { restarted: true, changed: Object.keys(changes) } };
}

function flawOf(name: string, value: BiosValue, attributes: ReadonlyMap<string, BiosAttribute>): string | undefined {
  const attribute = attributes.get(name);
  if (!attribute) return `${name} is not one of its attributes`;
  const { type, allowedValues, minimum, maximum, readOnly } = attribute;
  if (readOnly && attribute.value !== value) return `${name} is read-only`;
  if (type === "WHOLE" && !Number.isInteger(value)) return `${name} is a whole number`;
  if (type === "TRUTH" && typeof value !== "boolean") return `${name} is true or false`;
  if ((type === "TEXT" || type === "CHOICE") && typeof value !== "string") return `${name} is a text`;
  if (allowedValues && !allowedValues.includes(String(value))) return `${name} is one of ${allowedValues.join(", ")}`;
  if (minimum !== undefined && Number(value) < minimum) return `${name} is at least ${minimum}`;
  if (maximum !== undefined && Number(value) > maximum) return `${name} is at most ${maximum}`;
  return undefined;
}

const memoSchema = z.object({ restarted: z.literal(true), changed: z.array(z.string()) });

function isRestarted(memo: unknown): boolean {
  return memoSchema.safeParse(memo).success;
}

function namesOf(memo: unknown): string[] {
  return memoSchema.safeParse(memo).data?.changed ?? [];
}
