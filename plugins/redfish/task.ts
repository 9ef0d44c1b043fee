/** Tasks that a BMC runs after it has accepted a request (DSP0268, Task and Job). */
import { RedfishError } from "./error.ts";
import { items, number, text } from "./resource.ts";
import type { Resource } from "./resource.ts";
import { messagesOf } from "./service.ts";
import type { RedfishService } from "./service.ts";

/** How far a task is. */
export type TaskProgress =
  | { readonly kind: "RUNNING"; readonly percent: number | null; readonly message: string | null }
  /** `GONE`: the BMC has forgotten the task, as some do when it ends or when they restart. */
  | { readonly kind: "SUCCEEDED" | "GONE" }
  | { readonly kind: "FAILED"; readonly reason: string };

const RUNNING = new Set([
  "New",
  "Starting",
  "Running",
  "Suspended",
  "Pending",
  "Stopping",
  "Interrupted",
  "Service",
  "Cancelling",
  "Scheduled",
  "Waiting",
  "Validating",
  "UserIntervention",
  "Continue",
  "Downloading",
]);

export async function readTask(service: RedfishService, path: string): Promise<TaskProgress> {
  const { status, body } = await service.readTask(path);
  if (status === 404 || status === 410) return { kind: "GONE" };
  const state = text(body, "TaskState") ?? text(body, "JobState");
  if (state === undefined && status >= 400)
    return { kind: "FAILED", reason: `it ended with status ${status}: ${messagesOf(body).join(" ")}` };
  if (state === undefined) return status === 202 ? running(body) : { kind: "SUCCEEDED" };
  if (RUNNING.has(state)) return running(body);
  const health = text(body, "TaskStatus") ?? text(body, "JobStatus") ?? "OK";
  if (state === "Completed" && health !== "Critical") return { kind: "SUCCEEDED" };
  const reason = [...taskMessages(body), ...messagesOf(body)].join(" ");
  return { kind: "FAILED", reason: `it ended as ${state} (${health}): ${reason || "no message"}` };
}

/** `what`: the end of "the BMC was asked to …". */
export function taskFailure(service: RedfishService, what: string, reason: string): RedfishError {
  return new RedfishError({ kind: "REFUSED", message: `BMC ${service.bmc} was asked to ${what}: ${reason}` });
}

function running(body: Resource): TaskProgress {
  return {
    kind: "RUNNING",
    percent: number(body, "PercentComplete") ?? null,
    message: taskMessages(body).at(-1) ?? null,
  };
}

function taskMessages(body: Resource): string[] {
  return items(body, "Messages").flatMap((one) => text(one, "Message") ?? text(one, "MessageId") ?? []);
}
