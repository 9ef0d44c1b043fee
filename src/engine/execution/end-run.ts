/** The ends of a run: finished, stopped, failed, or aborted once the abort has been carried out on the machine. */
import { edge } from "../../lifecycle/machine.ts";
import type { NodeEvent } from "../../lifecycle/node-states.ts";
import type { AttemptRow } from "../../store/attempts.ts";
import type { Failure, LeftAs } from "../../store/records.ts";
import { stepLabel } from "../plans/plan.ts";
import { ENGINE } from "../scheduling/start-runs.ts";
import { RELEASE, changeNode, moveNode, notePower, toFailure } from "./claimed-run.ts";
import type { AbortMachine, ClaimedRun, Release, RunContext } from "./claimed-run.ts";
import type { Fault } from "./driver-result.ts";
import type { StepOutcome } from "./perform-step.ts";

export function finishRun(
  { ledger, claimed }: RunContext,
  state: "SUCCEEDED" | "FAILED" | "STOPPED",
  change: { readonly failure?: Failure } = {},
): Release {
  ledger.endJob(claimed.job);
  ledger.endRun(state, change);
  return RELEASE;
}

/** Ends the run, and with it its attempt if that is unfinished. */
export function failRun(context: RunContext, attempt: AttemptRow | null, fault: Fault): Release {
  const { ledger, claimed } = context;
  const failure = toFailure(claimed, claimed.plan.steps[claimed.position], fault);
  if (attempt && attempt.finishedAt === null)
    ledger.changeAttempt(attempt, { state: "FAILED", failure, finishedAt: ledger.now });
  return endFailed(context, failure);
}

export function endFailed(context: RunContext, failure: Failure): Release {
  if (edge(context.claimed.node.state, "fail"))
    moveNode(context, "fail", { reason: failure.message }, { lastError: failure });
  else changeNode(context, { lastError: failure });
  return finishRun(context, "FAILED", { failure });
}

/** `outcome`: of the step that the abort cancelled. */
export function beginAbort(
  claimed: ClaimedRun,
  attempt: AttemptRow | null,
  outcome?: Extract<StepOutcome, { kind: "aborted" }>,
): AbortMachine {
  return {
    kind: "ABORT_MACHINE",
    claimed,
    attempt,
    ignoredSignal: outcome?.ignoredSignal ?? false,
    power: outcome?.powerState ?? null,
  };
}

/** Ends the run after its abort was carried out on the machine. */
export function settleAbort(
  context: RunContext,
  { attempt, ignoredSignal }: Pick<AbortMachine, "attempt" | "ignoredSignal">,
  left: LeftAs,
): Release {
  const { ledger, claimed } = context;
  const { run } = claimed;
  if (attempt && attempt.finishedAt === null)
    ledger.changeAttempt(attempt, { state: "ABORTED", finishedAt: ledger.now });
  const failure = abortFailure(context, ignoredSignal, left);
  const event: NodeEvent = run.interruptFailure ? "fail" : "abort";
  if (edge(claimed.node.state, event))
    moveNode(
      context,
      event,
      { actor: run.interruptBy ?? ENGINE, reason: run.interruptReason ?? failure?.message ?? null },
      { lastError: failure },
    );
  else if (failure) changeNode(context, { lastError: failure });
  notePower(context, left.power);
  ledger.endJob(claimed.job);
  ledger.endRun(run.interruptFailure || ignoredSignal ? "FAILED" : "ABORTED", {
    ...(failure && { failure }),
    leftAs: left,
  });
  return RELEASE;
}

/** The failure that caused the abort, or the problems of the abort itself; null if there are neither. */
function abortFailure(
  { environment, claimed }: RunContext,
  ignoredSignal: boolean,
  { tearDownError }: LeftAs,
): Failure | null {
  const { interruptFailure, position } = claimed.run;
  if (interruptFailure && ignoredSignal)
    return {
      ...interruptFailure,
      message: `${interruptFailure.message} The step ignored its abort signal and may still be running.`,
    };
  if (interruptFailure) return interruptFailure;
  const step = claimed.plan.steps[position];
  const problems = [
    ignoredSignal
      ? `${stepLabel(step)} did not end within ${environment.abortGraceMs / 1000} s of the abort and may still be running`
      : null,
    tearDownError,
  ].filter((text) => text !== null);
  if (problems.length === 0) return null;
  return toFailure(claimed, step, {
    code: ignoredSignal ? "TIMEOUT" : "BACKEND_FAILED",
    reason: `Node ${claimed.node.name} was aborted, but ${problems.join("; ")}. Check the node before you use it again.`,
    retryable: false,
  });
}
