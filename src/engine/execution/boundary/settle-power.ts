/** The outcome of a change of power that was forced while a step waited: the step goes on waiting, whatever it was. */
import { sentence } from "../../../runtime/text.ts";
import { latestAttempt } from "../../../store/runs/attempts.ts";
import type { AttemptRow } from "../../../store/runs/attempts.ts";
import { isReservedWait, powerChangeOf } from "../../plans/reserved-steps.ts";
import type { StepOutcome } from "../call/perform-step.ts";
import { RELEASE, notePower, resume } from "../claim/claimed-run.ts";
import type { ClaimedRun, ForcePower, Release, RunContext, RunDirective } from "../claim/claimed-run.ts";
import { enterAgain, parked } from "./boundary.ts";
import { beginAbort } from "./end-run.ts";
import { continueBegunStep, isCancelledBy } from "./settle-step.ts";

/** For the log of the step. */
export function forcedPowerLine({ run: { forcedPower } }: ClaimedRun, outcome: StepOutcome): string {
  const what = `The change of power ${forcedPower ? powerChangeOf(forcedPower.step) : ""} that ${forcedPower?.by} has forced`;
  switch (outcome.kind) {
    case "done":
      return `${what} was carried out. The step goes on waiting.`;
    case "failed":
      return `${what} failed: ${sentence(outcome.reason)} The step goes on waiting.`;
    case "wait":
      return `${what} waits until fewer controllers are without an answer.`;
    default:
      return `${what} was aborted.`;
  }
}

export async function settleForcedPower(
  context: RunContext,
  { attempt }: ForcePower,
  outcome: StepOutcome,
): Promise<RunDirective> {
  const { ledger, claimed, interrupt } = context;
  const { run, plan } = claimed;
  // An earlier commit of this outcome succeeded although its answer was lost.
  if (run.owner === null) return RELEASE;
  if (run.forcedPower === null) return continueBegunStep(context);
  if (outcome.powerState !== null) notePower(context, outcome.powerState);
  const step = plan.steps[attempt.step];
  ledger.changeAttempt(attempt, { recoveries: 0 });
  if (step && isCancelledBy(interrupt, step, run)) {
    const ignoredSignal = outcome.kind === "aborted" && outcome.ignoredSignal;
    ledger.changeRun({ forcedPower: null });
    ledger.changeAttempt(attempt, { part: "ABORT" });
    return beginAbort(claimed, attempt, { ignoredSignal });
  }
  if (outcome.kind === "wait")
    return parkAgain(context, attempt, { dueAt: new Date(ledger.now.getTime() + outcome.seconds * 1000) });
  const waiting = await latestAttempt(ledger.transaction.tx, run.id, attempt.step);
  if (step && waiting && waiting.callback !== null && run.waitReason === "CALLBACK") {
    // It came meanwhile.
    ledger.changeRun({ forcedPower: null });
    resume(context);
    return enterAgain({ ...context, step, attempt: waiting });
  }
  return parkAgain(context, attempt, { forcedPower: null });
}

/** Parks the run as it was before the change of power. */
export function parkAgain(
  { ledger, claimed: { run, plan } }: RunContext,
  attempt: AttemptRow,
  change: { readonly forcedPower: null } | { readonly dueAt: Date },
): Release {
  const { wakeAt, waitingSince, waitReason } = run;
  ledger.changeRun({ ...parked(ledger, waitReason ?? "TIME", null), wakeAt, dueAt: wakeAt, waitingSince, ...change });
  const step = plan.steps[attempt.step];
  if (step && isReservedWait(step)) ledger.wakeIfStopped();
  return RELEASE;
}
