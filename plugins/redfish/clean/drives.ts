/** Erases drives by their own means (DSP0268, Drive.SecureErase), and removes RAID volumes. */
import type { DiskAccount, DriverMemory, StepResult } from "../../../src/drivers/driver.ts";
import { activityOf, isAtRest, isAtWork } from "../activity.ts";
import { findDrives, isMedium, serialOf, wwnOf } from "../drives.ts";
import { lazySchema } from "../../lazy-schema.ts";
import type { Output } from "../../lazy-schema.ts";
import { RedfishError, unsupported } from "../error.ts";
import { link, number, text } from "../resource.ts";
import type { Resource } from "../resource.ts";
import type { Outcome, RedfishService } from "../service.ts";
import type { RedfishSettings } from "../settings.ts";
import { action, findSystem } from "../system.ts";
import { POLL_SECONDS, failed, locationsSchema, onService, readTasks, restart } from "./clean-step.ts";
import type { CleanCall, CleanStep } from "./clean-step.ts";

const ERASE_SECONDS = 24 * 3600;

export function secureErase(memory: DriverMemory | undefined): CleanStep {
  return {
    name: "secure_erase",
    title: "Erase all drives by the secure erase that they offer",
    phase: "clean",
    priority: 10,
    group: "storage",
    interruptible: "AT_BOUNDARY",
    timeoutSeconds: ERASE_SECONDS,
    idempotent: true,
    touches: ["DISKS"],
    worksAlone: true,
    erases: true,
    run: onService(memory, erase),
  };
}

export function resetRaid(memory: DriverMemory | undefined): CleanStep {
  return {
    name: "reset_raid",
    title: "Remove all RAID volumes",
    phase: "clean",
    priority: 0,
    group: "raid",
    interruptible: "AT_BOUNDARY",
    timeoutSeconds: 3600,
    idempotent: true,
    touches: ["DISKS"],
    worksAlone: true,
    run: onService(memory, removeVolumes),
  };
}

async function erase(service: RedfishService, call: CleanCall): Promise<StepResult> {
  const memo = memoSchema.safeParse(call.memo).data;
  if (!memo) return beginErase(service, call);
  const unfinished = await unfinishedTasks(service, call, memo);
  if (unfinished) return unfinished;
  const drives = await drivesOf(service, call.settings);
  if (drives.some(isAtWork)) return waitFor({ left: memo.left });
  const left = drives.filter((one) => memo.left.includes(driveName(one)));
  if (left.length > 0) return eraseDrives(service, call, left);
  return { kind: "done", output: { disks: drives.map(accountOf) } };
}

function accountOf(drive: Resource): DiskAccount & { readonly means?: string } {
  const [serial, wwn, sizeBytes] = [text(drive, "SerialNumber"), wwnOf(drive), number(drive, "CapacityBytes")];
  const disk = {
    id: text(drive, "Id") ?? text(drive, "Name") ?? "unknown",
    ...(serial !== undefined && { serial }),
    ...(wwn !== undefined && { wwn }),
    ...(sizeBytes !== undefined && { sizeBytes }),
  };
  if (isMedium(drive)) return { ...disk, erased: false, reason: "it is a medium of the BMC", medium: true };
  return { ...disk, erased: true, means: "SECURE_ERASE" };
}

/** The drives of the machine; throws UNSUPPORTED if it has none, or if one of them has no secure erase. */
export async function secureErasable(service: RedfishService, settings: RedfishSettings): Promise<Resource[]> {
  const drives = (await drivesOf(service, settings)).filter((one) => !isMedium(one));
  if (drives.length === 0)
    throw unsupported(
      service.bmc,
      "lists no drives. Erase the disks by another driver, such as the agent; if the machine has none, set diskless with updateNodes.",
    );
  const locked = drives.filter((one) => !action(one, "Drive.SecureErase")).map(driveName);
  if (locked.length === 0) return drives;
  const message = `has drives without secure erase: ${locked.join(", ")}. Erase them by another driver.`;
  throw unsupported(service.bmc, message);
}

async function beginErase(service: RedfishService, call: CleanCall): Promise<StepResult> {
  // A machine without disks has nothing to erase; on any other, the BMC does not show what there is.
  if (call.node.diskless && (await drivesOf(service, call.settings)).every(isMedium)) return waitFor({});
  return eraseDrives(service, call, await secureErasable(service, call.settings));
}

async function eraseDrives(service: RedfishService, call: CleanCall, drives: readonly Resource[]): Promise<StepResult> {
  // A drive that is being erased already: an earlier entry of this step was cut off.
  const changes = drives
    .filter((one) => !isAtWork(one))
    .map((drive) => {
      const name = driveName(drive);
      const target = action(drive, "Drive.SecureErase")?.target ?? "";
      return { name, make: () => service.post(target, {}, `erase drive ${name}`) };
    });
  return begin(service, call, changes, "is being erased");
}

interface Change {
  readonly name: string;
  readonly make: () => Promise<Outcome>;
}

/**
 * Makes changes one after the other. One that may have been made, or may be made later, is left with those after it for
 * another entry. A refusal fails the step, but not before the others have ended.
 */
async function begin(
  service: RedfishService,
  call: CleanCall,
  changes: readonly Change[],
  happens: string,
): Promise<StepResult> {
  const tasks: Record<string, string[]> = {};
  for (const [index, { name, make }] of changes.entries()) {
    const outcome = await make().catch((error: unknown) => {
      const isFirst = call.memo === null && !service.hasChanged;
      if (error instanceof RedfishError && !isFirst) return error;
      throw error;
    });
    if (outcome instanceof RedfishError) {
      call.log(outcome.message);
      const isRefused = outcome.effect === "NONE" && !outcome.retryable;
      if (isRefused) return waitFor({ tasks, failures: [outcome.message] });
      return waitFor({ tasks, left: changes.slice(index).map((one) => one.name) });
    }
    call.log(`${name} ${happens}.`);
    if (outcome.isRunning) tasks[name] = outcome.tasks;
  }
  return waitFor({ tasks });
}

async function removeVolumes(service: RedfishService, call: CleanCall): Promise<StepResult> {
  const memo = memoSchema.safeParse(call.memo).data;
  return (memo && (await unfinishedTasks(service, call, memo))) ?? removeRest(service, call);
}

/** Removes the volumes that are left, and waits; done when there are none. */
async function removeRest(service: RedfishService, call: CleanCall): Promise<StepResult> {
  const changes: Change[] = [];
  for (const storage of await storagesOf(service, call.settings))
    for (const volume of await service.members(link(storage, "Volumes"), "RAID volumes")) {
      const path = text(volume, "@odata.id");
      if (path === undefined || !isRaid(volume)) continue;
      const name = `RAID volume ${text(volume, "Name") ?? path} (${path})`;
      changes.push({ name, make: () => service.remove(path, `remove ${name}`) });
    }
  return changes.length === 0 ? { kind: "done" } : begin(service, call, changes, "is being removed");
}

/** A single drive that the controller passes through is a volume on some machines. */
function isRaid(volume: Resource): boolean {
  return text(volume, "RAIDType") !== "None" && text(volume, "VolumeType") !== "RawDevice";
}

/** Reads in a row that find the machine at nothing, before what has become of forgotten tasks is looked at. */
const CHECKS = 6;

/** The result while tasks of the memo may run, or when all have ended and one has failed; else undefined. */
async function unfinishedTasks(service: RedfishService, call: CleanCall, memo: Memo): Promise<StepResult | undefined> {
  const tasks = await readTasks(service, call, memo.tasks, memo.checks);
  const { unfinished, gone, idle, seconds } = tasks;
  const failures = [...memo.failures, ...tasks.failures];
  const now = { ...memo, tasks: { ...unfinished }, failures };
  const running = Object.keys(unfinished).length - gone.length;
  if (running > 0) {
    const isHeld = running === idle.length && !memo.restarted && (await isAtRest(service, call.settings));
    // The BMC begins at a restart.
    if (isHeld && memo.checks >= CHECKS) return waitFor({ ...now, checks: 0, restarted: await restart(call) });
    return waitFor({ ...now, checks: isHeld ? memo.checks + 1 : tasks.checks }, seconds);
  }
  // A forgotten task or a lost answer leaves it open; the machine's activity decides.
  if (gone.length > 0 || memo.left.length > 0) {
    const isIdle = (await activityOf(service, call.settings)) === "NONE";
    if (!isIdle || memo.checks < CHECKS) return waitFor({ ...now, checks: isIdle ? memo.checks + 1 : 0 });
  }
  if (failures.length === 0) return undefined;
  return failed(failures.join(" "), await isAtRest(service, call.settings));
}

/**
 * `left`: changes that are not known to be made. `checks`: reads that found the machine at nothing. `restarted`: for
 * tasks that wait for it.
 */
const memoSchema = lazySchema((z) =>
  z.object({
    tasks: z.record(z.string(), locationsSchema.zod),
    left: z.array(z.string()).default([]),
    failures: z.array(z.string()).default([]),
    checks: z.int().min(0).default(0),
    restarted: z.boolean().default(false),
  }),
);

type Memo = Output<typeof memoSchema>;

function waitFor(memo: Partial<Memo>, seconds = POLL_SECONDS): StepResult {
  return { kind: "wait", seconds, memo: { tasks: {}, left: [], failures: [], checks: 0, restarted: false, ...memo } };
}

async function storagesOf(service: RedfishService, settings: RedfishSettings): Promise<Resource[]> {
  const { resource } = await findSystem(service, settings);
  const collection = link(resource, "Storage");
  if (collection === undefined) throw unsupported(service.bmc, "does not report the storage of this machine.");
  const storages = await service.members(collection, "storage controllers");
  if (storages.length === 0) throw unsupported(service.bmc, "lists no storage controllers of this machine.");
  return storages;
}

/** All drives; an error if one of them cannot be read, so that none is taken for erased unseen. */
async function drivesOf(service: RedfishService, settings: RedfishSettings): Promise<readonly Resource[]> {
  const { drives, unread } = await findDrives(service, await findSystem(service, settings));
  if (unread.length === 0) return drives;
  const message = `links to drives or storage controllers that it does not have, or not describe: ${unread.join(", ")}. Restart the BMC.`;
  throw new RedfishError({ kind: "REFUSED", message: `BMC ${service.bmc} ${message}`, retryable: true });
}

/** Of each drive of a machine another one. */
function driveName(drive: Resource): string {
  const id = text(drive, "Id") ?? text(drive, "Name") ?? "unknown";
  const serial = serialOf(drive);
  const mark = serial === undefined ? text(drive, "@odata.id") : `serial ${serial}`;
  return mark === undefined ? id : `${id} (${mark})`;
}
