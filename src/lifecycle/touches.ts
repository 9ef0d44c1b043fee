/**
 * The parts of a machine that steps change: for the point of no return, and for the condition after an abort. A driver
 * declares them per step; for a step without a declaration, the phase decides.
 */
import type { Stage } from "./cluster-state.ts";
import type { Interruptible } from "./interrupts.ts";
import type { NodeState } from "./node-states.ts";
import type { LegPhase } from "./verbs.ts";

/** Parts of a machine that a step can change. */
export const TOUCHES = {
  DISKS: "Contents of its disks.",
  FIRMWARE: "Firmware of its BIOS, controllers and adapters.",
  NETWORK: "Networks that it is attached to.",
} as const;

export type Touch = keyof typeof TOUCHES;

export interface TouchingStep {
  readonly phase: LegPhase;
  /** Declared parts; absent or null without a declaration. */
  readonly touches?: readonly Touch[] | null;
  /** Completed by an earlier run, and not repeated. */
  readonly kept: boolean;
}

/** Parts that the steps of a phase change without a declaration. */
const OF_PHASE: Readonly<Record<LegPhase, readonly Touch[]>> = {
  verify: [],
  inspect: [],
  clean: ["DISKS"],
  deploy: ["DISKS"],
  undeploy: ["DISKS"],
  power: [],
};

/** Parts whose previous contents are lost. */
const FOR_GOOD: readonly Touch[] = ["DISKS", "FIRMWARE"];

export function touchesOf({ phase, touches }: Pick<TouchingStep, "phase" | "touches">): readonly Touch[] {
  return touches ?? OF_PHASE[phase];
}

/**
 * Whether the machine must not be touched after a failure of the step, before its end is known: it may still be writing
 * its firmware, or erasing its disks on its own.
 */
export function mustNotBeCut(
  step: Pick<TouchingStep, "phase" | "touches"> & {
    readonly interruptible: Interruptible;
    readonly worksAlone?: true;
  },
): boolean {
  const touches = touchesOf(step);
  return (
    step.interruptible === "NEVER" ||
    touches.includes("FIRMWARE") ||
    (step.worksAlone === true && touches.includes("DISKS"))
  );
}

/** Index of the first planned step that changes disks or firmware; null if there is none. */
export function pointOfNoReturn(steps: readonly TouchingStep[]): number | null {
  const index = steps.findIndex((step) => !step.kept && touchesOf(step).some((touch) => FOR_GOOD.includes(touch)));
  return index < 0 ? null : index;
}

/**
 * Whether a node loses data by the steps that run. An AVAILABLE node without a system was cleaned, so it has none to
 * lose; nor has a node that the same work has erased. `kept`: steps that the earlier work completed.
 */
export function erasesData(
  { state, stage }: { readonly state: NodeState; readonly stage: Stage },
  steps: readonly TouchingStep[],
  kept: readonly TouchingStep[],
): boolean {
  if (state === "AVAILABLE" && stage === "NONE") return false;
  const changesDisks = (step: TouchingStep) => touchesOf(step).includes("DISKS");
  const changing = steps.filter((step) => !step.kept && changesDisks(step));
  const isErased = kept.some((step) => step.phase === "clean" && changesDisks(step));
  return changing.some(({ phase }) => !isErased || phase === "clean");
}

/** The parts changed by the steps at the indexes `begun`, and by kept steps. */
export function touchedBy(steps: readonly TouchingStep[], begun: ReadonlySet<number>): ReadonlySet<Touch> {
  return new Set(steps.filter(({ kept }, index) => kept || begun.has(index)).flatMap(touchesOf));
}
