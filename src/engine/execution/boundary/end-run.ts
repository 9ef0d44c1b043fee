/** The ends of a run: finished, stopped, failed, or aborted once the abort has been carried out on the machine. */
import { edge } from "../../../lifecycle/machine.ts";
import type { NodeFault } from "../../../lifecycle/faults.ts";
import type { NodeEvent } from "../../../lifecycle/node-states.ts";
import type { AttemptRow } from "../../../store/runs/attempts.ts";
import type { Failure, LeftAs } from "../../../store/records.ts";
import { sentence } from "../../../runtime/text.ts";
import { stepLabel } from "../../plans/plan.ts";
import { UNKNOWN_CONDITION, abortedFailure, isAbortedByCaller } from "../../scheduling/abort-outcome.ts";
import { ENGINE } from "../../scheduling/start-runs.ts";
import { RELEASE, changeNode, isLeftAlone, moveNode, notePower, toFailure } from "../claim/claimed-run.ts";
import type { AbortMachine, ClaimedRun, Release, RunContext } from "../claim/claimed-run.ts";
import type { Fault } from "../call/driver-result.ts";
import { faultChange, faultEnd } from "../../../store/nodes/node-faults.ts";

/**
 * Ends the run without a call of its machine, which cannot be opened; and with it its attempt if that is unfinished.
 */
export function failRun(
  context: RunContext,
  attempt: AttemptRow | null,
  fault: Fault & { readonly message: string },
): Release {
  const { ledger, claimed, interrupt } = context;
  const failure = toFailure(claimed, claimed.plan.steps[claimed.position], fault, fault.message);
  const begun = attempt?.state === "SUCCEEDED" ? null : attempt;
  const mayBeWorking = isLeftAlone({ claimed, attempt: begun, ignoredSignal: true, isStepOver: false });
  if (interrupt === "ABORT" || mayBeWorking) {
    const run = { ...claimed.run, interruptFailure: claimed.run.interruptFailure ?? failure };
    return endAborted(
      interrupt === "ABORT" ? context : { ...context, claimed: { ...claimed, run } },
      { attempt, ignoredSignal: false, isStepOver: false },
      { ...UNKNOWN_CONDITION, mayBeWorking, tearDownError: fault.reason },
    );
  }
  if (attempt && attempt.finishedAt === null)
    ledger.changeAttempt(attempt, { state: "FAILED", failure, finishedAt: ledger.now });
  if (edge(claimed.node.state, "fail")) moveNode(context, "fail", { reason: failure.message }, { lastError: failure });
  else changeNode(context, { lastError: failure });
  if (context.claimed.run.purpose === "CLEAN_UP") noteCleanUp(context, failure.message);
  ledger.endRun("FAILED", { failure });
  return RELEASE;
}

/** `outcome`: of the step that is aborted or has failed. */
export function beginAbort(
  claimed: ClaimedRun,
  attempt: AttemptRow | null,
  outcome: Partial<Pick<AbortMachine, "ignoredSignal" | "power" | "isStepOver">> = {},
): AbortMachine {
  const unknown = { ignoredSignal: false, power: null, isStepOver: false, undone: null };
  return { kind: "ABORT_MACHINE", claimed, attempt, ...unknown, ...outcome };
}

/** Ends the run after its abort, or its failure, was carried out on the machine. */
export function endAborted(
  context: RunContext,
  { attempt, ignoredSignal, isStepOver }: Pick<AbortMachine, "attempt" | "ignoredSignal" | "isStepOver">,
  left: LeftAs,
): Release {
  const { ledger, claimed } = context;
  const { run } = claimed;
  // An abort that a caller was promised is an abort, also if the step has failed meanwhile.
  const failed = run.interruptFailure !== null && !isAbortedByCaller(run);
  const ignoredAbort = ignoredSignal && run.interruptFailure === null && !attempt?.failure;
  const problem = failed ? failureOf(run.interruptFailure, ignoredSignal) : problemOf(context, ignoredAbort, left);
  const step = stepLabel(claimed.plan.steps[claimed.position]);
  const moment = attempt ? "at" : isStepOver ? "after" : "before";
  const plain = problem ?? abortedFailure(run, { by: run.interruptBy, reason: run.interruptReason }, { step, moment });
  const more = [failed ? null : attempt?.failure?.message, left.mayBeWorking ? LEFT_ALONE : null];
  const failure = { ...plain, message: [plain.message, ...more].filter((text) => text).join(" ") };
  if (attempt && attempt.finishedAt === null)
    ledger.changeAttempt(attempt, {
      state: attempt.failure ? "FAILED" : "ABORTED",
      finishedAt: ledger.now,
    });
  const event: NodeEvent = failed ? "fail" : "abort";
  const cause = failed
    ? { reason: failure.message }
    : { actor: run.interruptBy ?? ENGINE, reason: run.interruptReason ?? problem?.message ?? null };
  if (edge(claimed.node.state, event)) moveNode(context, event, cause, { lastError: failure });
  else changeNode(context, { lastError: failure });
  notePower(context, left.power);
  if (left.mayBeWorking) beginFault(context, "MACHINE_BUSY", failure.message);
  else {
    const failedCleanUp = failed && run.purpose === "CLEAN_UP" ? failure.message : null;
    const cleanUpProblem = left.tearDownError ?? (ignoredSignal ? failure.message : failedCleanUp);
    if (cleanUpProblem !== null || (attempt && !failed)) noteCleanUp(context, cleanUpProblem);
  }
  ledger.endRun(failed || ignoredAbort ? "FAILED" : "ABORTED", { failure, leftAs: left });
  return RELEASE;
}

const LEFT_ALONE =
  "The machine may still be at it, so it was left as it is, with its power: do not switch it off before it has ended.";

/** Begins the fault of a clean-up that failed, or ends it after one that succeeded (null). */
function noteCleanUp(context: RunContext, problem: string | null): void {
  if (problem !== null) beginFault(context, "CLEAN_UP_FAILED", sentence(problem));
  else endCleanUpFault(context);
}

/** Ends the fault of a clean-up that failed, if the node has it. */
export function endCleanUpFault(context: RunContext): void {
  changeNode(context, faultEnd(context.claimed.node, "CLEAN_UP_FAILED"));
}

function beginFault(context: RunContext, kind: NodeFault, message: string): void {
  changeNode(context, faultChange(context.claimed.node, kind, message));
}

/** The failure that ends the run. */
function failureOf(failure: Failure | null, ignoredSignal: boolean): Failure | null {
  const stillRuns = "may still be running";
  if (!failure || !ignoredSignal || failure.message.includes(stillRuns)) return failure;
  return { ...failure, message: `${failure.message} The step ignored its abort signal and ${stillRuns}.` };
}

/** The problems of the abort itself; null if it had none. `ignoredAbort`: the step did not end after its signal. */
function problemOf(
  { environment, claimed }: RunContext,
  ignoredAbort: boolean,
  { tearDownError }: LeftAs,
): Failure | null {
  const step = claimed.plan.steps[claimed.run.position];
  const problems = [
    ignoredAbort
      ? `${stepLabel(step)} did not end within ${environment.abortGraceMs / 1000} s of the abort and may still be running`
      : null,
    tearDownError,
  ].filter((text) => text !== null);
  if (problems.length === 0) return null;
  const reason = problems.join("; ");
  return toFailure(
    claimed,
    step,
    { code: ignoredAbort ? "TIMEOUT" : "BACKEND_FAILED", reason, retryable: false },
    `Node ${claimed.node.name} was aborted, but ${reason}. Check the node before you use it again.`,
  );
}
