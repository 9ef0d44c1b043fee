/** The step of a run that an interrupt has to end, or to wait for. */
import type { RunFacts } from "../../lifecycle/interrupts.ts";
import { attemptsUnderWay } from "../../store/runs/attempts.ts";
import type { AttemptRow } from "../../store/runs/attempts.ts";
import { plansByHashes } from "../../store/runs/plans.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { PlannedStep } from "../../store/records.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { idsOf } from "../input/ids.ts";
import { stepLabel } from "../plans/plan.ts";

/**
 * The step that has begun and not ended, as `judgeAbort` needs it; null between two steps, while it is being undone,
 * and while its controller is away.
 */
export function stepUnderWay(
  step: PlannedStep | undefined,
  attempt: Pick<AttemptRow, "state" | "part" | "failure"> | undefined,
): RunFacts["step"] {
  if (!step || !attempt || (attempt.state !== "RUNNING" && attempt.state !== "WAITING")) return null;
  if (attempt.part === "ABORT" || (attempt.state === "WAITING" && attempt.failure !== null)) return null;
  return {
    name: stepLabel(step) ?? "",
    interruptible: step.interruptible,
    supportsAbort: step.supportsAbort,
  };
}

interface StepOfRun {
  readonly step: PlannedStep | undefined;
  readonly attempt: AttemptRow | undefined;
}

/** The steps that runs are at, by run. */
export async function stepsOfRuns(
  reader: Reader,
  some: readonly (RunRow | undefined)[],
): Promise<ReadonlyMap<string, StepOfRun>> {
  const runs = some.flatMap((run) => run ?? []);
  const plans = await plansByHashes(reader, [...new Set(runs.map(({ planHash }) => planHash))]);
  const attempts = await attemptsUnderWay(reader, idsOf(runs));
  return new Map(
    runs.map(({ id, planHash, position }) => [
      id,
      { step: plans.get(planHash)?.steps[position], attempt: attempts.get(id) },
    ]),
  );
}
