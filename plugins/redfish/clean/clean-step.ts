/** Parts that the clean steps of this driver share. */
import type { DriverMemory, Json, Step, StepArgs, StepCall, StepResult } from "../../../src/drivers/driver.ts";
import { RedfishError } from "../error.ts";
import { withService } from "../service.ts";
import type { RedfishService } from "../service.ts";
import type { RedfishSettings } from "../settings.ts";
import { asResult } from "../step-result.ts";
import { readTask } from "../task.ts";

export type CleanCall<Args extends StepArgs = StepArgs> = StepCall<RedfishSettings, Args>;
export type CleanStep<Args extends StepArgs = StepArgs> = Step<RedfishSettings, Args>;

/** The `run` of a step: its work on the service, with the failure of a request as its result. */
export function onService<Args extends StepArgs>(
  memory: DriverMemory | undefined,
  work: (service: RedfishService, call: CleanCall<Args>) => Promise<StepResult>,
): (call: CleanCall<Args>) => Promise<StepResult> {
  return (call) => asResult(call, () => withService(call, memory, (service) => work(service, call)));
}

export function failed(reason: string): StepResult {
  return { kind: "failed", reason, retryable: false, errorKind: "REFUSED" };
}

/** Tasks of a BMC by what they work on; the memo of a step that waits for them. */
export type Tasks = Readonly<Record<string, string>>;

export const POLL_SECONDS = 10;

/**
 * Reads tasks until none is running. Returns those that still run and those that failed; a BMC that does not answer for
 * a while, as after an update of its own firmware, has its tasks counted as running.
 */
export async function readTasks(
  service: RedfishService,
  call: CleanCall,
  tasks: Tasks,
): Promise<{ readonly running: Tasks; readonly failures: readonly string[] }> {
  const running: Record<string, string> = {};
  const failures: string[] = [];
  const percents: number[] = [];
  for (const [subject, path] of Object.entries(tasks)) {
    const progress = await readTask(service, path).catch((error: unknown) => {
      if (error instanceof RedfishError && error.retryable) return { kind: "RUNNING" as const, percent: null };
      throw error;
    });
    if (progress.kind === "FAILED") failures.push(`${subject}: ${progress.reason}`);
    if (progress.kind !== "RUNNING") continue;
    running[subject] = path;
    percents.push(progress.percent ?? 0);
  }
  if (percents.length > 0) call.progress(Math.min(...percents), `${percents.length} tasks are running`);
  return { running, failures };
}

/** The tasks in a memo. */
export function tasksOf(memo: Json): Tasks {
  if (typeof memo !== "object" || memo === null || Array.isArray(memo)) return {};
  const { tasks = {} } = memo as Readonly<Record<string, Json>>;
  if (typeof tasks !== "object" || tasks === null || Array.isArray(tasks)) return {};
  return Object.fromEntries(
    Object.entries(tasks).flatMap(([name, path]) => (typeof path === "string" ? [[name, path]] : [])),
  );
}
