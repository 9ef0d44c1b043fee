/**
 * Interrupts: the effect of an abort or a stop on a run in its present state. One rule for all phases.
 *
 * An interrupt is stored first. The worker that has claimed the run carries it out: at once if no step is running, by
 * the step's abort signal if the step can be canceled, otherwise when the step has ended.
 */
import type { Refusal } from "../errors.ts";
import type { RunState, Interrupt } from "./operation-states.ts";

export type Interruptible = "ALWAYS" | "AT_BOUNDARY" | "NEVER";

/** How far an abort goes to end the step that has begun. */
export const ABORT_MODES = {
  NOW: "Cancel the step if it can be canceled at any time; wait for its end if it ends at its boundary; refuse the abort if it must not be interrupted.",
  AFTER_STEP: "As NOW, but wait for the end of a step that must not be interrupted.",
  CUT: "As NOW, but cancel a step that ends at its boundary too.",
  FORCE:
    "End the run at once, in every state, without waiting for the step or for the driver: nothing is undone, the power is not changed, and `machineCondition` is unknown. Requires a reason and takes effect only in Ostler: the machine may still be working.",
} as const;

export type AbortMode = keyof typeof ABORT_MODES;

/** Power of a node after a failure. */
export const POWER_ON_FAILURE = {
  OFF: "Power off a node whose cleaning or deployment failed.",
  LEAVE: "Leave the power as it is.",
} as const;

export type PowerOnFailure = keyof typeof POWER_ON_FAILURE;

/** Whether an abort cancels a step that has begun, parked or not; otherwise it waits for the end of the step. */
export function cancels(mode: AbortMode | null, interruptible: Interruptible): boolean {
  return interruptible === "ALWAYS" || (interruptible === "AT_BOUNDARY" && mode === "CUT");
}

/** The state of a run for which an abort is judged. */
export interface RunFacts {
  readonly state: RunState;
  readonly interrupt: Interrupt | null;
  /** Of an abort that was requested before. */
  readonly interruptMode: AbortMode | null;
  /** The step that has started and not ended, and is not being undone, if any. */
  readonly step: {
    readonly name: string;
    readonly interruptible: Interruptible;
    /** Whether the step's interface supports abort. */
    readonly supportsAbort: boolean;
  } | null;
}

/**
 * When an accepted abort takes effect. `BEFORE_START`: at once, no step has run, and the node stays in its state.
 * `NOW`: at once. `PENDING`: when `afterStep` has ended.
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
  if (!run.step || mode === "FORCE") return { accepted: true, effect: "NOW", afterStep: null };
  const { name, interruptible, supportsAbort } = run.step;
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
  if (interruptible === "NEVER" && mode !== "AFTER_STEP" && run.interrupt !== "ABORT") {
    return {
      accepted: false,
      refusal: {
        code: "NOT_INTERRUPTIBLE",
        message: `Node ${node.name} is running ${name}, which must not be interrupted. Use mode: AFTER_STEP to abort when it has ended, or FORCE if it never will.`,
        nodeId: node.id,
        step: name,
      },
    };
  }
  const atOnce = cancels(mode === "CUT" ? mode : run.interruptMode, interruptible);
  return { accepted: true, effect: atOnce ? "NOW" : "PENDING", afterStep: atOnce ? null : name };
}

/** Whether a later abort of a run replaces the interrupt that it has: only if it goes further. */
export function goesFurther(
  { interrupt, interruptMode }: Pick<RunFacts, "interrupt" | "interruptMode">,
  mode: AbortMode,
): boolean {
  return interrupt !== "ABORT" || mode === "FORCE" || (mode === "CUT" && interruptMode !== "CUT");
}

/**
 * Action of a worker on a run between two steps, or when a parked run continues.
 * An abort takes precedence over everything, even a last step that succeeded. A stop applies only while work remains.
 */
type Boundary = "GO_ON" | "ABORT" | "STOP" | "FINISH";

export function atBoundary(run: { readonly interrupt: Interrupt | null; readonly workLeft: boolean }): Boundary {
  if (run.interrupt === "ABORT") return "ABORT";
  if (!run.workLeft) return "FINISH";
  return run.interrupt === "STOP" ? "STOP" : "GO_ON";
}
