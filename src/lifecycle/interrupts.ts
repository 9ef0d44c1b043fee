/**
 * Interrupts: the effect of an abort or a stop on a run in its present state. One rule for all phases.
 *
 * An interrupt is stored first. The worker that has claimed the run carries it out: at once if no step is running, by the
 * step's abort signal if the step can be canceled, otherwise when the step has ended.
 */
import type { Refusal } from "../errors.ts";
import type { RunState, Interrupt } from "./operation-states.ts";

export type Interruptible = "ALWAYS" | "AT_BOUNDARY" | "NEVER";

/** Effect of an abort while a step runs that cannot be canceled. */
export const ABORT_MODES = {
  NOW: "Refuse the abort for this node.",
  AFTER_STEP: "Accept the abort and carry it out when the step has ended.",
} as const;

export type AbortMode = keyof typeof ABORT_MODES;

/** The state of a run for which an abort is judged. */
export interface RunFacts {
  readonly state: RunState;
  readonly interrupt: Interrupt | null;
  /** The step that has started and not ended, if any. */
  readonly step: {
    readonly name: string;
    readonly interruptible: Interruptible;
    /** A driver is working on it; otherwise it is parked. */
    readonly running: boolean;
    /** Whether the step's interface supports abort. */
    readonly supportsAbort: boolean;
  } | null;
}

/**
 * When an accepted abort takes effect. `BEFORE_START`: at once, no step has run, and the node stays in its state. `NOW`: at
 * once. `PENDING`: when `afterStep` has ended.
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
        message: `Node ${node.name} is running ${name}, and its driver cannot abort this phase. Stop the work instead, or wait for it.`,
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
        message: `Node ${node.name} is running ${name}, which must not be interrupted. Use mode: AFTER_STEP to abort when it has ended.`,
        nodeId: node.id,
        step: name,
      },
    };
  }
  const atOnce = interruptible === "ALWAYS" || (interruptible === "AT_BOUNDARY" && !running);
  return { accepted: true, effect: atOnce ? "NOW" : "PENDING", afterStep: atOnce ? null : name };
}

/**
 * Action of a worker on a run between two steps, or when a parked run continues.
 * An abort takes precedence over everything, even a last step that succeeded. A stop applies only while work remains.
 */
export type Boundary = "GO_ON" | "ABORT" | "STOP" | "FINISH";

export function atBoundary(run: { readonly interrupt: Interrupt | null; readonly workLeft: boolean }): Boundary {
  if (run.interrupt === "ABORT") return "ABORT";
  if (!run.workLeft) return "FINISH";
  return run.interrupt === "STOP" ? "STOP" : "GO_ON";
}
