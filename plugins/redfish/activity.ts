/** Work of a machine that must not be cut: updates, tasks, and operations of its drives. */
import { RedfishError, unsupported } from "./error.ts";
import { findDrives } from "./drives.ts";
import { at, items, link, number, text } from "./resource.ts";
import type { Resource } from "./resource.ts";
import type { RedfishService } from "./service.ts";
import type { RedfishSettings } from "./settings.ts";
import { findSystem, lastPart, managersOf } from "./system.ts";
import type { Located } from "./system.ts";
import { stateOf } from "./messages.ts";
import { hasEnd, isEndState, isFull, isIdleState, isOver } from "./task.ts";

export interface ActiveTask {
  readonly id: string;
  readonly name: string;
  /** In lower case. */
  readonly state: string;
}

const TEXT_MAX = 200;

/**
 * The work in words; null if the machine reports that it does nothing of this kind. Throws if it does not report it.
 * `counts`: which of its tasks count.
 */
export async function readActivity(
  service: RedfishService,
  settings: RedfishSettings,
  counts: (task: ActiveTask) => boolean = () => true,
): Promise<string | null> {
  const update = await readUpdate(service);
  if (update !== null) return update;
  const system = await findSystem(service, settings);
  const tasks = (await activeTasks(service, system)).filter(counts);
  if (tasks[0]) return `runs the task ${JSON.stringify(tasks[0].name.slice(0, TEXT_MAX / 2))} (${tasks[0].state})`;
  const drives = await drivesAtWork(service, system);
  return drives.length > 0 ? `is at an operation of its drives ${drives.join(", ")}`.slice(0, TEXT_MAX) : null;
}

/** `UNREPORTED`: the BMC has nothing to report it by. `UNKNOWN`: it did not answer, or not with what was asked for. */
export type Activity = "NONE" | "SOME" | "UNREPORTED" | "UNKNOWN";

/** As `readActivity`. Rejects only when the call ends. */
export async function activityOf(...given: Parameters<typeof readActivity>): Promise<Activity> {
  try {
    return (await readActivity(...given)) === null ? "NONE" : "SOME";
  } catch (error) {
    if (!(error instanceof RedfishError)) throw error;
    return error.kind === "UNSUPPORTED" ? "UNREPORTED" : "UNKNOWN";
  }
}

/** Whether the machine may be taken for at rest: it reports no such work, or has nothing to report it by. */
export async function isAtRest(service: RedfishService, settings: RedfishSettings): Promise<boolean> {
  const activity = await activityOf(service, settings);
  return activity === "NONE" || activity === "UNREPORTED";
}

/** Whether a drive or another resource is at an operation, as of its erasure (DSP0268, `Operations`). */
export function isAtWork(resource: Resource): boolean {
  return items(resource, "Operations").length > 0;
}

async function readUpdate(service: RedfishService): Promise<string | null> {
  const path = link(await service.root(), "UpdateService");
  if (path === undefined) return null;
  const found = await service.get(path, "update service");
  const states = [text(at(found, "Status"), "State"), ...vendorParts(found).map((part) => text(part, "State"))];
  const state = states.find((one) => one !== undefined && /^(updat|upload|verify|writ|flash|section ?eras)/i.test(one));
  return state === undefined ? null : `updates its firmware (${state.slice(0, TEXT_MAX / 2)})`;
}

/** The tasks and jobs that have begun and not ended. */
async function activeTasks(service: RedfishService, system: Located): Promise<ActiveTask[]> {
  const root = await service.root();
  const lists: string[] = [];
  for (const [name, list] of [
    ["Tasks", "Tasks"],
    ["JobService", "Jobs"],
  ] as const) {
    const path = link(root, name);
    const listed = path === undefined ? undefined : link(await service.get(path, "list of tasks"), list);
    if (path !== undefined && listed === undefined) throw unreported(service, path);
    if (listed !== undefined) lists.push(listed);
  }
  if (lists.length === 0) throw unsupported(service.bmc, "does not report its tasks.");
  const managers = await managersOf(service, system);
  lists.push(
    ...managers.flatMap(({ resource }) => vendorParts(at(resource, "Links")).flatMap((one) => link(one, "Jobs") ?? [])),
  );
  const tasks: ActiveTask[] = [];
  for (const list of new Set(lists))
    for (const one of (await tasksIn(service, list)).filter(isActive)) {
      const task = taskOf(one);
      if (!isFull(one) || !(isOld(one) || (await isOver(service, task.id)))) tasks.push(task);
    }
  return tasks;
}

/** For a task at 100 % that does not end. */
const OLD_MS = 3_600_000;

function isOld(task: Resource): boolean {
  return Date.parse(text(task, "StartTime") ?? "") < Date.now() - OLD_MS;
}

/** All tasks of a list: one that cannot be read may be the one that runs. */
async function tasksIn(service: RedfishService, list: string): Promise<Resource[]> {
  const listed = await service.get(list, "list of tasks");
  const count = Math.max(number(listed, "Members@odata.count") ?? 0, items(listed, "Members").length);
  if (count === 0 && Array.isArray(listed["Members"])) return [];
  const tasks = await service.members(list, "tasks");
  if (tasks.length === 0 || tasks.length < count || tasks.some((one) => stateOf(one) === undefined))
    throw unreported(service, list);
  return tasks;
}

function taskOf(task: Resource): ActiveTask {
  const id = text(task, "Id") ?? lastPart(text(task, "@odata.id") ?? "");
  return { id, name: text(task, "Name") ?? id, state: stateOf(task) ?? "" };
}

function isActive(task: Resource): boolean {
  const state = stateOf(task) ?? "";
  const isScheduled =
    (state === "new" || state === "starting") &&
    [text(task, "Message"), ...items(task, "Messages").map((one) => text(one, "Message"))].some((one) =>
      /\bscheduled\b/i.test(one ?? ""),
    );
  const isStateless = state === "" && isFull(task);
  return !isEndState(state) && !isIdleState(state) && !isScheduled && !isStateless && !hasEnd(task);
}

async function drivesAtWork(service: RedfishService, system: Located): Promise<string[]> {
  const { drives, unread } = await findDrives(service, system);
  if (unread[0] !== undefined) throw unreported(service, unread[0]);
  return drives.filter(isAtWork).map((one) => text(one, "Id") ?? "unknown");
}

function vendorParts(resource: Resource): Resource[] {
  return Object.values(at(resource, "Oem")).map((part) => at({ part }, "part"));
}

function unreported(service: RedfishService, path: string): RedfishError {
  const message = `BMC ${service.bmc} does not report its tasks at ${path}; restart the BMC.`;
  return new RedfishError({ kind: "OTHER", retryable: true, message });
}
