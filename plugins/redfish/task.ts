/**
 * Tasks that a BMC runs after it has accepted a request (DSP0268, Task and Job; DSP0266, 12.2). Only the task's own
 * word ends it: a resource with a state that says so, or the final answer of its monitor. Another answer in its place,
 * as of a gateway, a login page or a BMC that restarts, leaves it as it is, to be asked again.
 */
import type { HttpAnswer } from "./connection.ts";
import { RedfishError, onlyFailed } from "./error.ts";
import { messagesOf, reportsError, resourceOf, saysWhy, stateOf } from "./messages.ts";
import { items, links, number, text } from "./resource.ts";
import type { Resource } from "./resource.ts";
import type { RedfishService } from "./service.ts";
import { lastPart } from "./system.ts";

/** How far a task is. */
export type TaskProgress =
  | {
      readonly kind: "RUNNING";
      readonly percent: number | null;
      readonly message: string | null;
      /** Whether it waits for something, such as a restart of the machine. */
      readonly isIdle: boolean;
      /** Whether all is done by its numbers, although its state is not that of an end. */
      readonly isFull: boolean;
    }
  | { readonly kind: "SUCCEEDED" }
  | { readonly kind: "FAILED"; readonly reason: string }
  /** The BMC has no such resource: it has forgotten the task, as some do when it ends or when they restart. */
  | { readonly kind: "GONE" }
  | { readonly kind: "UNKNOWN"; readonly reason: string; readonly isLogin: boolean };

/** As `stateOf` gives them, also those of vendors. All other states may be of a task that runs. */
const FAILED_STATES: ReadonlySet<string> = new Set([
  "exception",
  "killed",
  "cancelled",
  "failed",
  "completedwitherrors",
  "aborted",
  "canceled",
  "error",
  "failure",
  "rebootfailed",
]);
const SUCCEEDED_STATES: ReadonlySet<string> = new Set([
  "completed",
  "complete",
  "completedok",
  "completedsuccessfully",
  "success",
  "successful",
  "succeeded",
  "finished",
  "done",
  "rebootcompleted",
]);

export function isEndState(state: string): boolean {
  return SUCCEEDED_STATES.has(state) || FAILED_STATES.has(state);
}

/** Of tasks that wait for something, such as a restart of the machine, or that do not end. */
const IDLE_STATES: ReadonlySet<string> = new Set([
  "pending",
  "scheduled",
  "downloaded",
  "readyforexecution",
  "rebootpending",
  "pendingreboot",
  "service",
]);

export function isIdleState(state: string): boolean {
  return IDLE_STATES.has(state);
}

/** Reads a task where the BMC has named it, and else where BMCs keep tasks. No answer of the BMC makes it reject. */
export async function readTask(service: RedfishService, named: readonly string[]): Promise<TaskProgress> {
  let progress: TaskProgress = { kind: "GONE" };
  for await (const path of placesOf(service, named)) {
    const found = await readAt(service, path, named.includes(path));
    if (found.kind === "GONE") continue;
    if (found.kind !== "UNKNOWN") return found;
    if (progress.kind === "GONE") progress = found;
    // Other places would take as long, or count as further failed logins.
    if (found.isLogin || found.isSilent === true) break;
  }
  return progress;
}

/**
 * Where a BMC may have a task, also after a restart: where it has named it, then by the usual names. Another service
 * counts its own tasks, so only an ID that is not a mere number is looked for there.
 */
async function* placesOf(service: RedfishService, named: readonly string[]): AsyncGenerator<string> {
  const seen = new Set(named);
  yield* named;
  const ids = new Set(named.flatMap((path) => /\/(?:Tasks|TaskMonitors|Jobs)\/([^/]+)/i.exec(path)?.[1] ?? []));
  for (const id of ids) {
    const isNumber = /^\d+$/.test(id);
    const tasks = [`/redfish/v1/TaskService/Tasks/${id}`, `/redfish/v1/TaskService/TaskMonitors/${id}`];
    if (!isNumber || named.some((path) => /\/TaskService\//i.test(path))) yield* tasks.filter((one) => !seen.has(one));
    if (isNumber) continue;
    const managers = await service.find("/redfish/v1/Managers", "list of managers").catch(onlyFailed);
    const owners = ["/redfish/v1/JobService", ...links(managers ?? {}, "Members")];
    yield* owners.map((owner) => `${owner.replace(/\/$/, "")}/Jobs/${id}`).filter((one) => !seen.has(one));
  }
}

/** `isNamed`: the BMC has named this path, so an answer without a state can be the final one of its monitor. */
async function readAt(
  service: RedfishService,
  path: string,
  isNamed: boolean,
): Promise<TaskProgress & { readonly isSilent?: boolean }> {
  const answer = await service.ask(path, "progress of a task").catch((error: unknown) => {
    if (error instanceof RedfishError) return error;
    throw error;
  });
  if (answer instanceof RedfishError) {
    const { kind, message: reason } = answer;
    return {
      kind: "UNKNOWN",
      reason,
      isLogin: kind === "AUTHENTICATION",
      isSilent: kind === "UNREACHABLE" || kind === "TIMEOUT",
    };
  }
  const { status } = answer;
  const body = resourceOf(answer.body);
  const state = body && stateOf(body);
  if (body && state !== undefined) return ofState(body, state);
  if (status === 404 || status === 410) return { kind: "GONE" };
  if (isNamed && status === 202) return running(body ?? {});
  if (isNamed && isSuccess(path, answer, body)) return { kind: "SUCCEEDED" };
  const isEnd =
    isNamed && body && !FROM_ELSEWHERE.has(status) && saysWhy(body) && (status >= 400 || reportsError(body));
  if (isEnd) return { kind: "FAILED", reason: `it ended with status ${status}: ${messagesOf(body).join(" ")}` };
  const reason = `BMC ${service.bmc} does not report the task at ${path} (${status}).`;
  return { kind: "UNKNOWN", reason, isLogin: status === 401 };
}

/** Statuses of a login, a path, a method, a gateway or a BMC that is busy. */
const FROM_ELSEWHERE: ReadonlySet<number> = new Set([401, 403, 405, 407, 408, 429, 502, 503, 504]);

function ofState(body: Resource, state: string): TaskProgress {
  if (!isEndState(state)) return running(body);
  const health = text(body, "TaskStatus") ?? text(body, "JobStatus") ?? "OK";
  if (SUCCEEDED_STATES.has(state) && health !== "Critical") return { kind: "SUCCEEDED" };
  const reason = [...taskMessages(body), ...messagesOf(body)].join(" ");
  const ended = text(body, "TaskState") ?? text(body, "JobState");
  return { kind: "FAILED", reason: `it ended as ${ended} (${health}): ${reason || "no message"}` };
}

/** Whether an answer is the success of the operation: without content, with its message, or the changed resource. */
function isSuccess(path: string, { status, body: whole }: HttpAnswer, body: Resource | undefined): boolean {
  if (status === 204) return whole === "";
  if (status >= 300 || !body || reportsError(body)) return false;
  const type = text(body, "@odata.type") ?? "";
  const isOfService = /Collection\b|^#(ServiceRoot|\w*Service|Session|Task|Job)\./.test(type);
  const isResource = type !== "" && text(body, "@odata.id") !== undefined && !isOfService;
  return saysWhy(body) || (isResource && !/\/(Tasks|Jobs)\/[^/]+\/?$/i.test(path));
}

/** `what`: the end of "the BMC was asked to …". */
export function taskFailure(service: RedfishService, what: string, reason: string): RedfishError {
  return new RedfishError({ kind: "REFUSED", message: `BMC ${service.bmc} was asked to ${what}: ${reason}` });
}

function running(body: Resource): Extract<TaskProgress, { readonly kind: "RUNNING" }> {
  return {
    kind: "RUNNING",
    percent: number(body, "PercentComplete") ?? null,
    message: taskMessages(body).at(-1) ?? null,
    isIdle: isIdleState(stateOf(body) ?? ""),
    isFull: isFull(body) || hasEnd(body),
  };
}

export function isFull(task: Resource): boolean {
  return (number(task, "PercentComplete") ?? 0) >= 100;
}

/** Notes a task that is full and does not end, so that it no longer counts as work of the machine. */
export async function rememberAsOver(service: RedfishService, paths: readonly string[]): Promise<void> {
  for (const path of paths) await service.remember(`full task ${lastPart(path)}`, true);
}

export async function isOver(service: RedfishService, id: string): Promise<boolean> {
  return (await service.recall(`full task ${id}`)) === true;
}

/** A task whose state was never brought up to date: it has an end. Some BMCs show one before the beginning. */
export function hasEnd(task: Resource): boolean {
  const [begin, end] = ["StartTime", "EndTime"].map((name) => Date.parse(text(task, name) ?? ""));
  return end !== undefined && end > 0 && end <= Date.now() && !(begin !== undefined && begin >= end);
}

function taskMessages(body: Resource): string[] {
  return items(body, "Messages").flatMap((one) => text(one, "Message") ?? text(one, "MessageId") ?? []);
}
