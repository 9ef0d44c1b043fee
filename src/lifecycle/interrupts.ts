/**
 * Abort and stop: what an interrupt means for a run as it stands. One rule for all phases.
 *
 * An interrupt is recorded first and carried out by whoever holds the run: at once when nothing is being run, at the signal
 * when the running step can be cut, else when that step has ended.
 */
import type { Refusal } from "../errors.ts";
import type { RunState, Interrupt } from "./operation-states.ts";

export type Interruptible = "ALWAYS" | "AT_BOUNDARY" | "NEVER";

/** How an abort is meant where the running step cannot be cut. */
export const ABORT_MODES = {
  NOW: "Refuse the abort for this node.",
  AFTER_STEP: "Accept the abort and carry it out when the step has ended.",
} as const;

export type AbortMode = keyof typeof ABORT_MODES;

/** A run as it stands when an abort is judged. */
export interface RunFacts {
  readonly state: RunState;
  readonly interrupt: Interrupt | null;
  /** The step that has begun and not ended, if any. */
  readonly step: {
    readonly name: string;
    readonly interruptible: Interruptible;
    /** A process is inside it; otherwise it is parked. */
    readonly running: boolean;
    /** Whether the interface it belongs to can be aborted. */
    readonly supportsAbort: boolean;
  } | null;
}

/**
 * When an accepted abort takes effect. `BEFORE_START`: nothing was run, the node stays where it is. `NOW`: at once.
 * `PENDING`: when the step named has ended.
 */
export type AbortEffect = "BEFORE_START" | "NOW" | "PENDING";

export type AbortVerdict =
  | { readonly accepted: true; readonly effect: AbortEffect; readonly afterStep: string | null }
  | { readonly accepted: false; readonly refusal: Refusal };

export function judgeAbort(
  node: { readonly id: string; readonly name: string },
  run: RunFacts,
  mode: AbortMode,
): AbortVerdict {
  if (run.state === "QUEUED") return { accepted: true, effect: "BEFORE_START", afterStep: null };
  if (!run.step) return { accepted: true, effect: "NOW", afterStep: null };
  const { name, interruptible, running, supportsAbort } = run.step;
  if (!supportsAbort) {
    return {
      accepted: false,
      refusal: {
        code: "UNSUPPORTED_BY_DRIVER",
        message: `Node ${node.name} runs ${name}, and its driver cannot abort that phase; stop it instead, or wait.`,
        nodeId: node.id,
        step: name,
      },
    };
  }
  if (interruptible === "NEVER" && mode === "NOW" && run.interrupt !== "ABORT") {
    return {
      accepted: false,
      refusal: {
        code: "NOT_INTERRUPTIBLE",
        message: `Node ${node.name} runs ${name}, which must not be interrupted; ask with mode: AFTER_STEP to abort when it has ended.`,
        nodeId: node.id,
        step: name,
      },
    };
  }
  const atOnce = interruptible === "ALWAYS" || (interruptible === "AT_BOUNDARY" && !running);
  return { accepted: true, effect: atOnce ? "NOW" : "PENDING", afterStep: atOnce ? null : name };
}

/**
 * What a process does with a run between two steps, or when a parked one wakes.
 * An abort outranks everything, even a last step that succeeded; a stop counts only while work is left.
 */
export type Boundary = "GO_ON" | "ABORT" | "STOP" | "FINISH";

export function atBoundary(run: { readonly interrupt: Interrupt | null; readonly workLeft: boolean }): Boundary {
  if (run.interrupt === "ABORT") return "ABORT";
  if (!run.workLeft) return "FINISH";
  return run.interrupt === "STOP" ? "STOP" : "GO_ON";
}
