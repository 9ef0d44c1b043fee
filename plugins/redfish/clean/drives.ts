/** Erases drives by their own means (DSP0268, Drive.SecureErase), and removes RAID volumes. */
import type { DriverMemory, StepResult } from "../../../src/drivers/driver.ts";
import { items, link, links, text } from "../resource.ts";
import type { Resource } from "../resource.ts";
import type { RedfishService } from "../service.ts";
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
  const drives = await drivesOf(service, call);
  if (call.memo === null) {
    const locked = drives.filter((one) => !action(one, "Drive.SecureErase"));
    if (locked.length > 0)
      return failed(
        `These drives offer no secure erase: ${locked.map(driveName).join(", ")}. Erase them by another driver.`,
      );
    const tasks: Record<string, string> = {};
    for (const drive of drives) {
      const target = action(drive, "Drive.SecureErase")?.target ?? "";
      const { task } = await service.post(target, {}, `erase drive ${driveName(drive)}`);
      call.log(`The erasure of drive ${driveName(drive)} has begun.`);
      if (task !== undefined) tasks[driveName(drive)] = task;
    }
    return { kind: "wait", seconds: POLL_SECONDS, memo: { tasks } };
  }
  const ended = await endOfTasks(service, call);
  if (ended) return ended;
  const busy = drives.filter((one) => items(one, "Operations").length > 0);
  if (busy.length > 0) return { kind: "wait", seconds: POLL_SECONDS, memo: { tasks: {} } };
  const erased = drives.map((one) => ({
    id: text(one, "Id") ?? "",
    serial: text(one, "SerialNumber") ?? null,
    means: "SECURE_ERASE",
  }));
  return { kind: "done", output: { erased } };
}

async function removeVolumes(service: RedfishService, call: CleanCall): Promise<StepResult> {
  if (call.memo !== null) return (await endOfTasks(service, call)) ?? removeRest(service, call);
  return removeRest(service, call);
}

/** Removes what is left, and waits; done when nothing is. */
async function removeRest(service: RedfishService, call: CleanCall): Promise<StepResult> {
  const { resource } = await findSystem(service, call.settings);
  const storages = await service.members(link(resource, "Storage"), "storage controllers");
  const tasks: Record<string, string> = {};
  for (const storage of storages) {
    const volumes = (await service.members(link(storage, "Volumes"), "RAID volumes")).filter(isRaid);
    for (const volume of volumes) {
      const path = text(volume, "@odata.id") ?? "";
      const { task } = await service.remove(path, `remove RAID volume ${text(volume, "Id") ?? path}`);
      call.log(`RAID volume ${text(volume, "Name") ?? path} is being removed.`);
      tasks[path] = task ?? "";
    }
  }
  if (Object.keys(tasks).length === 0) return { kind: "done" };
  const followed = Object.fromEntries(Object.entries(tasks).filter(([, task]) => task !== ""));
  return { kind: "wait", seconds: POLL_SECONDS, memo: { tasks: followed } };
}

/** A single drive that the controller passes through is a volume on some machines. */
function isRaid(volume: Resource): boolean {
  return text(volume, "RAIDType") !== "None" && text(volume, "VolumeType") !== "RawDevice";
}

async function endOfTasks(service: RedfishService, call: CleanCall): Promise<StepResult | undefined> {
  const { running, failures } = await readTasks(service, call, tasksOf(call.memo));
  if (failures.length > 0) return failed(failures.join(" "));
  return Object.keys(running).length > 0 ? waitFor(running) : undefined;
}

function waitFor(tasks: Tasks): StepResult {
  return { kind: "wait", seconds: POLL_SECONDS, memo: { tasks } };
}

async function drivesOf(service: RedfishService, call: CleanCall): Promise<Resource[]> {
  const { resource } = await findSystem(service, call.settings);
  const storages = await service.members(link(resource, "Storage"), "storage controllers");
  return service.all([...new Set(storages.flatMap((one) => links(one, "Drives")))], "drives");
}

function driveName(drive: Resource): string {
  const id = text(drive, "Id") ?? "unknown";
  const serial = text(drive, "SerialNumber");
  return serial === undefined ? id : `${id} (serial ${serial})`;
}
