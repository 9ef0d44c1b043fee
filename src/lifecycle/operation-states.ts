/** States of operations and of their runs, and how the state of an operation follows from its runs. */

/** The first four are unfinished, the others final. */
export const RUN_STATES = {
  QUEUED: "Accepted and stored; no worker has taken it up, and the node is untouched.",
  RUNNING: "A step is running or about to start.",
  WAITING: "Parked until a time or a callback; no process runs it.",
  HOLDING: "On hold by request.",
  SUCCEEDED: "The node reached its target.",
  FAILED: "A step failed.",
  ABORTED: "Ended by an abort.",
  STOPPED: "Ended by a stop; a restart continues from there.",
  UNDONE: "Had succeeded or was stopped, then taken back because another node failed; a restart begins again.",
} as const;

export type RunState = keyof typeof RUN_STATES;

export const UNFINISHED_RUN_STATES = ["QUEUED", "RUNNING", "WAITING", "HOLDING"] as const satisfies readonly RunState[];

export type FinalRunState = Exclude<RunState, (typeof UNFINISHED_RUN_STATES)[number]>;

export function isUnfinished(state: RunState): boolean {
  return (UNFINISHED_RUN_STATES as readonly RunState[]).includes(state);
}

/** The first four are unfinished, the others final. */
export const OPERATION_STATES = {
  QUEUED: "Accepted and stored; from here on it survives a crash.",
  RUNNING: "At least one run has started.",
  STOPPING: "A stop was requested: running steps end, and no further step starts.",
  ABORTING: "An abort was requested and has not been carried out on every node.",
  SUCCEEDED: "Every node reached its target.",
  SUCCEEDED_WITH_ERRORS: "Every node reached its target, but at least one best-effort step failed (decommission).",
  PARTIALLY_SUCCEEDED: "Some nodes reached their target, others failed or were aborted.",
  FAILED:
    "No node reached its target, the failure policy cleaned up all of them, or more nodes of a host group failed than it tolerates.",
  ABORTED: "Ended by an abort.",
  STOPPED: "Ended by a stop with work remaining; a restart continues from there.",
} as const;

export type OperationState = keyof typeof OPERATION_STATES;

export const UNFINISHED_OPERATION_STATES = [
  "QUEUED",
  "RUNNING",
  "STOPPING",
  "ABORTING",
] as const satisfies readonly OperationState[];

export function isFinalOperation(state: OperationState): boolean {
  return !(UNFINISHED_OPERATION_STATES as readonly OperationState[]).includes(state);
}

/** A requested end of unfinished work: stored first, and carried out as soon as the running step allows. */
export type Interrupt = "STOP" | "ABORT";

/** Effect of a failed node on the others, once work has started. */
export const FAILURE_POLICIES = {
  CLEAN_UP_ALL: "Stop the other nodes, then clean up every node on which work had begun.",
  CLEAN_UP_FAILED: "Clean up the failed node, and continue with the others.",
  LEAVE: "Leave the failed node as it is for an operator to inspect, and continue with the others.",
} as const;

export type FailurePolicy = keyof typeof FAILURE_POLICIES;

/** Final states of an operation's runs, without clean-up runs. */
export interface RunCounts {
  readonly succeeded: number;
  /** The succeeded runs in which a best-effort step failed. */
  readonly succeededWithErrors: number;
  readonly failed: number;
  readonly aborted: number;
  readonly stopped: number;
}

/** The final state of an operation whose last run has ended. */
export function outcome(
  counts: RunCounts,
  /** `hasFailed`: a failure has ended the operation as a whole. */
  context: { readonly interrupt: Interrupt | null; readonly hasFailed: boolean },
): OperationState {
  if (context.hasFailed) return "FAILED";
  const { succeeded, failed, aborted, stopped } = counts;
  if (failed + aborted + stopped === 0) return counts.succeededWithErrors > 0 ? "SUCCEEDED_WITH_ERRORS" : "SUCCEEDED";
  if (context.interrupt === "ABORT" && aborted > 0) return "ABORTED";
  if (stopped > 0) return "STOPPED";
  if (succeeded > 0) return "PARTIALLY_SUCCEEDED";
  return failed > 0 ? "FAILED" : "ABORTED";
}
