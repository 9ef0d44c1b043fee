/** How long a planned step took before. */
import { isHold, isReservedWait } from "../../../engine/views.ts";
import type { PlannedStep } from "../../../store/records.ts";
import type { StepHistory } from "../../../store/runs/step-durations.ts";
import type { Context } from "../../base/context.ts";
import { stepName } from "../work/step.ts";

/** Null without a history, and for a hold, which lasts until an operator releases it. A wait is of fixed duration. */
export async function stepHistory(
  step: PlannedStep,
  model: string | null,
  { load }: Context,
): Promise<StepHistory | null> {
  if (isHold(step)) return null;
  if (!isReservedWait(step)) return load.history.load({ driver: step.driver, label: stepName(step), model });
  const seconds = Number(step.args["seconds"]);
  return { medianSeconds: seconds, p90Seconds: seconds, samples: 0, model: null };
}
