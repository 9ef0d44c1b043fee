/**
 * What steps change on a machine: from which one on there is no way back, and what an abort leaves changed. A driver says
 * it of each step; of a step that says nothing, the phase does.
 */
import type { LegPhase } from "./verbs.ts";

/** What a step can change. */
export const TOUCHES = {
  DISKS: "Contents of its disks.",
  FIRMWARE: "Firmware of its BIOS, controllers and adapters.",
  NETWORK: "Networks that it is attached to.",
} as const;

export type Touch = keyof typeof TOUCHES;

export interface TouchingStep {
  readonly phase: LegPhase;
  /** As declared. Absent or null: the declaration says nothing. */
  readonly touches?: readonly Touch[] | null;
  /** Done by an earlier run, and not done again. */
  readonly kept: boolean;
}

/** What a phase is taken to change where a step says nothing. */
const OF_PHASE: Readonly<Record<LegPhase, readonly Touch[]>> = {
  verify: [],
  inspect: [],
  clean: ["DISKS"],
  deploy: ["DISKS"],
  undeploy: ["DISKS"],
  power: [],
};

/** What cannot be put back as it was. */
const FOR_GOOD: readonly Touch[] = ["DISKS", "FIRMWARE"];

export function touchesOf({ phase, touches }: Pick<TouchingStep, "phase" | "touches">): readonly Touch[] {
  return touches ?? OF_PHASE[phase];
}

/** Index of the first step to be run after which the machine is not what it was; null when there is none. */
export function pointOfNoReturn(steps: readonly TouchingStep[]): number | null {
  const index = steps.findIndex((step) => !step.kept && touchesOf(step).some((touch) => FOR_GOOD.includes(touch)));
  return index < 0 ? null : index;
}

/** What has been changed when the steps at `begun` have begun. What a kept step changed stays so as well. */
export function touchedBy(steps: readonly TouchingStep[], begun: ReadonlySet<number>): ReadonlySet<Touch> {
  return new Set(steps.filter(({ kept }, index) => kept || begun.has(index)).flatMap(touchesOf));
}
