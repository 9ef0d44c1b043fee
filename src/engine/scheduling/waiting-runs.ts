/** Parked runs: the interrupt that applies to one, and which of them a stop ends. */
import type { Interrupt } from "../../lifecycle/operation-states.ts";
import { lockInterrupts } from "../../store/operations/operations.ts";
import { PRIORITY, wakeRuns } from "../../store/runs/run-claims.ts";
import { plansByHashes } from "../../store/runs/plans.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { idsOf } from "../input/ids.ts";
import { ENGINE_INTERFACE } from "../plans/reserved-steps.ts";
import type { Transaction } from "../transaction.ts";

/** The part of a run that determines its interrupt. */
type WithInterrupt = Pick<RunRow, "id" | "operationId" | "purpose" | "interrupt">;

/**
 * The interrupt that applies to a run: its own, or the stop of its operation. An abort of the operation does not count:
 * it is recorded on each run that it concerns, and the operation is read without a lock, so that its abort may have
 * been withdrawn meanwhile. The stop of its operation does not apply to a clean-up run, which exists because of that
 * stop.
 */
export function interruptOf(
  run: Pick<WithInterrupt, "interrupt" | "purpose">,
  operationInterrupt: Interrupt | null,
): Interrupt | null {
  if (run.interrupt !== null || run.purpose === "CLEAN_UP") return run.interrupt;
  return operationInterrupt === "STOP" ? "STOP" : null;
}

/**
 * The runs that are parked and that a stop ends at once. The engine's own waits and holds may end early, and between
 * two steps or two attempts nothing is running. A parked step of a driver is waited for.
 */
export async function endedByStop(reader: Reader, runs: readonly RunRow[]): Promise<readonly RunRow[]> {
  const parked = runs.filter(
    ({ state, waitReason }) => (state === "WAITING" || state === "HOLDING") && waitReason !== "CALLBACK",
  );
  const inStep = parked.filter(({ waitReason }) => waitReason === "TIME");
  const plans = await plansByHashes(reader, [...new Set(inStep.map(({ planHash }) => planHash))]);
  return parked.filter(
    ({ waitReason, planHash, position }) =>
      waitReason !== "TIME" || plans.get(planHash)?.steps[position]?.interface === ENGINE_INTERFACE,
  );
}

/**
 * Wakes runs that were just parked although a stop ends them there. A stop wakes the runs that are parked when it is
 * recorded; runs that park at the same moment are found here, under the lock of their operations.
 */
export async function wakeStopped({ tx }: Transaction, parked: readonly WithInterrupt[]): Promise<void> {
  const interrupts = await lockInterrupts(tx, [...new Set(parked.map(({ operationId }) => operationId))]);
  const stopped = parked.filter((run) => interruptOf(run, interrupts.get(run.operationId) ?? null) !== null);
  await wakeRuns(tx, idsOf(stopped), PRIORITY.ending);
}
