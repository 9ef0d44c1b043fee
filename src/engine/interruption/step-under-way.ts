/** The step of a run that an interrupt has to end, or to wait for. */
import type { RunFacts } from "../../lifecycle/interrupts.ts";
import type { AttemptRow } from "../../store/attempts.ts";
import type { PlannedStep } from "../../store/records.ts";
import { stepLabel } from "../plans/plan.ts";

/**
 * The step that has begun and not ended, as `judgeAbort` needs it; null between two steps, and while it is being
 * undone.
 */
export function stepUnderWay(
  step: PlannedStep | undefined,
  attempt: Pick<AttemptRow, "state" | "part"> | undefined,
): RunFacts["step"] {
  if (!step || !attempt || (attempt.state !== "RUNNING" && attempt.state !== "WAITING")) return null;
  if (attempt.part === "ABORT") return null;
  return {
    name: stepLabel(step) ?? "",
    interruptible: step.interruptible,
    supportsAbort: step.supportsAbort,
  };
}
