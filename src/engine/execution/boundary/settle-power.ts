/** The outcome of a change of power that was forced while a step waited: the step goes on waiting, whatever it was. */
import { sentence } from "../../../runtime/text.ts";
import { latestAttempt } from "../../../store/runs/attempts.ts";
import { isReservedWait, powerChangeOf } from "../../plans/reserved-steps.ts";
import type { StepOutcome } from "../call/perform-step.ts";
import { RELEASE, notePower, resume } from "../claim/claimed-run.ts";
import type { ClaimedRun, ForcePower, RunContext, RunDirective } from "../claim/claimed-run.ts";
import { enterAgain, parked } from "./boundary.ts";
import { beginAbort } from "./end-run.ts";
import { isCancelledBy } from "./settle-step.ts";

/** For the log of the step. */
export function forcedPowerLine({ run: { forcedPower } }: ClaimedRun, outcome: StepOutcome): string {
  const what = `The change of power ${forcedPower ? powerChangeOf(forcedPower.step) : ""} that ${forcedPower?.by} has forced`;
  switch (outcome.kind) {
    case "done":
      return `${what} was carried out. The step goes on waiting.`;
    case "failed":
      return `${what} failed: ${sentence(outcome.reason)} The step goes on waiting.`;
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
  if (run.owner === null || run.forcedPower === null) return RELEASE;
  if (outcome.powerState !== null) notePower(context, outcome.powerState);
  ledger.changeRun({ forcedPower: null });
  const step = plan.steps[attempt.step];
  if (step && isCancelledBy(interrupt, step, run)) {
    const ignoredSignal = outcome.kind === "aborted" && outcome.ignoredSignal;
    ledger.changeAttempt(attempt, { part: "ABORT" });
    return beginAbort(claimed, attempt, { ignoredSignal });
  }
  const waiting = await latestAttempt(ledger.transaction.tx, run.id, attempt.step);
  if (step && waiting && waiting.callback !== null && run.waitReason === "CALLBACK") {
    // It came meanwhile.
    resume(context);
    return enterAgain({ ...context, step, attempt: waiting });
  }
  const seconds = run.wakeAt === null ? null : Math.max(0, (run.wakeAt.getTime() - ledger.now.getTime()) / 1000);
  ledger.changeRun({ ...parked(ledger, run.waitReason ?? "TIME", seconds), waitingSince: run.waitingSince });
  if (step && isReservedWait(step)) ledger.wakeIfStopped();
  return RELEASE;
}
