/** What is wanted of a run: by an interrupt of its own, or by one of its operation. */
import type { Interrupt } from "../../lifecycle/operation-states.ts";
import { lockInterrupts } from "../../store/operations.ts";
import type { RunRow } from "../../store/runs.ts";
import type { Queue } from "../jobs/queue.ts";
import type { Transaction } from "../transaction.ts";

/** A run as far as interrupts go. */
export type WithInterrupt = Pick<RunRow, "id" | "operationId" | "purpose" | "interrupt">;

/**
 * What is wanted of a run. Of its operation's interrupts only a stop counts: an abort is recorded on each run that it concerns, and
 * the operation is read beside the run, not under its lock, so that its abort may have been taken back by now. A clean-up
 * run is a consequence of its operation's stop, so that stop is not for it.
 */
export function interruptOf(
  run: Pick<WithInterrupt, "interrupt" | "purpose">,
  operationInterrupt: Interrupt | null,
): Interrupt | null {
  if (run.interrupt !== null || run.purpose === "CLEAN_UP") return run.interrupt;
  return operationInterrupt === "STOP" ? "STOP" : null;
}

/**
 * Wakes those of some runs, just parked where a stop ends them, that are to end: whoever stops an operation wakes what is parked
 * then, and must not miss these.
 */
export async function wakeStopped(
  transaction: Transaction,
  queue: Queue,
  parked: readonly WithInterrupt[],
): Promise<void> {
  const interrupts = await lockInterrupts(transaction.tx, [...new Set(parked.map(({ operationId }) => operationId))]);
  const stopped = parked.filter((run) => interruptOf(run, interrupts.get(run.operationId) ?? null) !== null);
  await queue.wakeMany(
    transaction,
    stopped.map(({ id }) => id),
    "ending",
  );
}
