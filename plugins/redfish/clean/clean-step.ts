/** Parts that the clean steps of this driver share. */
import { lazySchema } from "../../lazy-schema.ts";
import type { DriverMemory, Step, StepArgs, StepCall, StepResult } from "../../../src/drivers/driver.ts";
import { isAtRest } from "../activity.ts";
import { RedfishError } from "../error.ts";
import { withService } from "../service.ts";
import type { RedfishService } from "../service.ts";
import type { RedfishSettings } from "../settings.ts";
import { failureOf } from "../step-result.ts";
import { readTask, rememberAsOver } from "../task.ts";

export type CleanCall<Args extends StepArgs = StepArgs> = StepCall<RedfishSettings, Args>;
export type CleanStep<Args extends StepArgs = StepArgs> = Step<RedfishSettings, Args>;

export const POLL_SECONDS = 10;
/** After a refused login: BMCs lock a user after several in a short time. */
const LOGIN_SECONDS = 30;

/**
 * The `run` of a step: its work on the service, with the failure of a request as its result. Once the step has begun, a
 * request that fails and changes nothing ends it no more: the machine continues whether or not the BMC answers, so the
 * step is entered again, until its timeout.
 */
export function onService<Args extends StepArgs>(
  memory: DriverMemory | undefined,
  work: (service: RedfishService, call: CleanCall<Args>) => Promise<StepResult>,
): (call: CleanCall<Args>) => Promise<StepResult> {
  return (call) =>
    withService(call, memory, async (service) => {
      try {
        return await work(service, call);
      } catch (error) {
        if (!(error instanceof RedfishError)) throw error;
        call.log(error.message);
        const mayPass = error.effect === undefined || (error.effect === "NONE" && error.retryable);
        if (call.memo === null || !mayPass)
          return failureOf(
            error,
            call.memo === null && !service.hasChanged && (await leavesAtRest(service, call, error)),
          );
        const seconds = error.kind === "AUTHENTICATION" ? LOGIN_SECONDS : POLL_SECONDS;
        return { kind: "wait", seconds, memo: call.memo };
      }
    });
}

/**
 * Whether the machine is at rest although a request has failed before anything was changed. A BMC also refuses a change
 * because it is at the same work already, of an earlier step or of another client.
 */
async function leavesAtRest(service: RedfishService, call: CleanCall, error: RedfishError): Promise<boolean> {
  return error.effect !== "NONE" || error.status === undefined || isAtRest(service, call.settings);
}

/** A failure after which the machine does nothing for the step, unless `atRest` is false. */
export function failed(reason: string, atRest = true): StepResult {
  return { kind: "failed", reason, retryable: false, errorKind: "REFUSED", ...(atRest && { atRest }) };
}

/** Restarts the machine. False: that failed, and is to be tried again. */
export async function restart(call: CleanCall): Promise<boolean> {
  try {
    await call.power.set("REBOOT");
    return true;
  } catch (error) {
    call.signal.throwIfAborted();
    if (!(error instanceof Error && "retryable" in error && error.retryable === true)) throw error;
    call.log(error.message);
    return false;
  }
}

/** Where a BMC reports a task. Steps of earlier releases have stored a single path, empty if there was none. */
export const locationsSchema = lazySchema((z) =>
  z.union([z.array(z.string()), z.string().transform((path) => (path === "" ? [] : [path]))]),
);

/** Tasks of a BMC by what they work on; the memo of a step that waits for them. */
export type Tasks = Readonly<Record<string, readonly string[]>>;

export interface ReadTasks {
  /** Tasks whose end the BMC has not reported. */
  readonly unfinished: Readonly<Record<string, string[]>>;
  /** Those of them that the BMC has no more, or has shown as full for minutes: the state of the machine decides. */
  readonly gone: readonly string[];
  /** Reads in a row at which one was full. */
  readonly checks: number;
  /** Those of them that wait for something, such as a restart of the machine. */
  readonly idle: readonly string[];
  readonly failures: readonly string[];
  /** Seconds until they are to be read again. */
  readonly seconds: number;
}

/** Reads of a task at 100 % that does not end: five minutes, as a BMC can still be at its last part. */
const FULL_CHECKS = 30;

/** `checks`: those of the read before. */
export async function readTasks(
  service: RedfishService,
  call: CleanCall,
  tasks: Tasks,
  checks: number,
): Promise<ReadTasks> {
  const unfinished: Record<string, string[]> = {};
  const gone: string[] = [];
  const idle: string[] = [];
  const failures: string[] = [];
  const percents: number[] = [];
  let isFull = false;
  let seconds = POLL_SECONDS;
  for (const [subject, locations] of Object.entries(tasks)) {
    const progress = await readTask(service, locations);
    if (progress.kind === "SUCCEEDED") continue;
    if (progress.kind === "FAILED") {
      failures.push(`${subject}: ${progress.reason}`);
      continue;
    }
    unfinished[subject] = [...locations];
    isFull ||= progress.kind === "RUNNING" && progress.isFull;
    if (progress.kind === "GONE" || (progress.kind === "RUNNING" && progress.isFull && checks >= FULL_CHECKS)) {
      gone.push(subject);
      if (progress.kind === "RUNNING") await rememberAsOver(service, locations);
      continue;
    }
    if (progress.kind === "RUNNING" && progress.isIdle) idle.push(subject);
    if (progress.kind === "RUNNING") percents.push(progress.percent ?? 0);
    else {
      call.log(`The task for ${subject} is not known to have ended: ${progress.reason}`);
      if (progress.isLogin) seconds = LOGIN_SECONDS;
    }
  }
  if (percents.length > 0) call.progress(Math.min(...percents), `${percents.length} tasks are running`);
  return { unfinished, gone, checks: isFull ? checks + 1 : 0, idle, failures, seconds };
}
