/** Erases drives by their own means (DSP0268, Drive.SecureErase), and removes RAID volumes. */
import type { DiskAccount, DriverMemory, StepResult } from "../../../src/drivers/driver.ts";
import { findDrives, isMedium, wwnOf } from "../drives.ts";
import { RedfishError, unsupported } from "../error.ts";
import { items, link, number, text } from "../resource.ts";
import type { Resource } from "../resource.ts";
import type { RedfishService } from "../service.ts";
import type { RedfishSettings } from "../settings.ts";
import { action, findSystem } from "../system.ts";
import { POLL_SECONDS, failed, onService, readTasks, tasksOf } from "./clean-step.ts";
import type { CleanCall, CleanStep, Tasks } from "./clean-step.ts";

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
    run: onService(memory, removeVolumes),
  };
}

async function erase(service: RedfishService, call: CleanCall): Promise<StepResult> {
  if (call.memo === null) return beginErase(service, call);
  const unfinished = await unfinishedTasks(service, call);
  if (unfinished) return unfinished;
  const drives = await drivesOf(service, call.settings);
  if (drives.some(isBusy)) return waitFor({});
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
      "lists no drives. Erase the disks by another driver, such as the agent; if the machine has none, set diskless with updateNode.",
    );
  const locked = drives.filter((one) => !action(one, "Drive.SecureErase")).map(driveName);
  if (locked.length === 0) return drives;
  const message = `has drives without secure erase: ${locked.join(", ")}. Erase them by another driver.`;
  throw unsupported(service.bmc, message);
}

async function beginErase(service: RedfishService, call: CleanCall): Promise<StepResult> {
  // A machine without disks has nothing to erase; on any other, the BMC does not show what there is.
  if (call.node.diskless && (await drivesOf(service, call.settings)).every(isMedium)) return waitFor({});
  const drives = await secureErasable(service, call.settings);
  const tasks: Record<string, string> = {};
  // A drive that is being erased already: an earlier entry of this step was cut off.
  for (const drive of drives.filter((one) => !isBusy(one))) {
    const target = action(drive, "Drive.SecureErase")?.target ?? "";
    const { task } = await service.post(target, {}, `erase drive ${driveName(drive)}`);
    call.log(`The erasure of drive ${driveName(drive)} has begun.`);
    if (task !== undefined) tasks[driveName(drive)] = task;
  }
  return waitFor(tasks);
}

function isBusy(drive: Resource): boolean {
  return items(drive, "Operations").length > 0;
}

async function removeVolumes(service: RedfishService, call: CleanCall): Promise<StepResult> {
  return (await unfinishedTasks(service, call)) ?? removeRest(service, call);
}

/** Removes the volumes that are left, and waits; done when there are none. */
async function removeRest(service: RedfishService, call: CleanCall): Promise<StepResult> {
  const storages = await storagesOf(service, call.settings);
  const tasks: Record<string, string> = {};
  let removed = 0;
  for (const storage of storages)
    for (const volume of await service.members(link(storage, "Volumes"), "RAID volumes")) {
      const path = text(volume, "@odata.id");
      if (path === undefined || !isRaid(volume)) continue;
      const name = text(volume, "Name") ?? path;
      const { task } = await service.remove(path, `remove RAID volume ${name}`);
      call.log(`RAID volume ${name} is being removed.`);
      removed += 1;
      if (task !== undefined) tasks[name] = task;
    }
  return removed === 0 ? { kind: "done" } : waitFor(tasks);
}

/** A single drive that the controller passes through is a volume on some machines. */
function isRaid(volume: Resource): boolean {
  return text(volume, "RAIDType") !== "None" && text(volume, "VolumeType") !== "RawDevice";
}

/** The result while tasks of the memo run, or when one has failed; undefined when all have succeeded. */
async function unfinishedTasks(service: RedfishService, call: CleanCall): Promise<StepResult | undefined> {
  const { running, failures } = await readTasks(service, call, tasksOf(call.memo));
  if (failures.length > 0) return failed(failures.join(" "));
  return Object.keys(running).length > 0 ? waitFor(running) : undefined;
}

function waitFor(tasks: Tasks): StepResult {
  return { kind: "wait", seconds: POLL_SECONDS, memo: { tasks } };
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
  const message = `links to drives or storage controllers that it does not have: ${unread.join(", ")}. Restart the BMC.`;
  throw new RedfishError({ kind: "REFUSED", message: `BMC ${service.bmc} ${message}`, retryable: true });
}

function driveName(drive: Resource): string {
  const id = text(drive, "Id") ?? text(drive, "Name") ?? "unknown";
  const serial = text(drive, "SerialNumber");
  return serial === undefined ? id : `${id} (serial ${serial})`;
}
