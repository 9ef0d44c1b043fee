/**
 * The effect of an interrupt, a withdrawal or the end of a hold on a run, foreseen from its present state. Pure. The
 * answers of dry runs are made of it; the rules are those by which workers carry interrupts out (interrupts.ts).
 */
import type { NodeState } from "./node-states.ts";
import { edge } from "./machine.ts";
import { atBoundary, cancels } from "./interrupts.ts";
import type { AbortMode, AbortVerdict, Interruptible } from "./interrupts.ts";
import type { FinalRunState, RunState } from "./operation-states.ts";
import { TOUCHES, touchedBy } from "./touches.ts";
import type { Touch, TouchingStep } from "./touches.ts";
import { isPoweredOffByAbort } from "./verbs.ts";
import type { LegPhase } from "./verbs.ts";

/** When a request takes effect on a run. */
export const WORK_EFFECTS = {
  BEFORE_START: "The run ends at once: no step has run, and the node stays in its state.",
  NOW: "The run ends at once: no step is running, or the running step is canceled.",
  PENDING: "The run ends when the running step has ended.",
  CONTINUES: "The run continues.",
  NONE: "Nothing changes: the run has ended, or an earlier request has the same effect.",
} as const;
export type WorkEffect = keyof typeof WORK_EFFECTS;

/** The present state of a run, its node and its plan. */
export interface ForecastFacts {
  readonly state: RunState;
  /** A step has failed finally, and is being undone. */
  readonly hasFailed: boolean;
  readonly nodeState: NodeState;
  /** State of the node when the run succeeds. */
  readonly target: NodeState | null;
  readonly phase: LegPhase | undefined;
  /** Failed steps are passed over. */
  readonly bestEffort: boolean;
  /** It keeps a system in service, and its power. */
  readonly inService?: true;
  /** No driver of the node can change its power. */
  readonly keepsPower?: true;
  readonly steps: readonly TouchingStep[];
  /** Indexes of the steps that have begun. */
  readonly begun: ReadonlySet<number>;
  /** The step that has begun and not ended. */
  readonly step: { readonly interruptible: Interruptible } | null;
  /** Whether steps are left, from the present position and after the step under way. */
  readonly workLeft: { readonly now: boolean; readonly afterStep: boolean };
  /** Parked where a stop ends it. */
  readonly endsByStop: boolean;
  /** Waits for the next attempt at a step that has failed. */
  readonly retries: boolean;
}

export interface Forecast {
  readonly effect: WorkEffect;
  /** State in which the run ends; null if it continues. */
  readonly endsAs: FinalRunState | null;
  /** State of the node at the end of the run, or now if the run continues; null for an address of a discovery. */
  readonly nodeState: NodeState | null;
  /** The step under way is cut off, and undone as far as its driver can. */
  readonly cutsStep: boolean;
  /** Null if the power is not known afterwards. */
  readonly powersOff: boolean | null;
  /** Parts of the machine that steps have changed by then; all of them if nothing is known of the machine. */
  readonly changed: readonly Touch[];
  /** False if nothing is known of the machine afterwards. */
  readonly isConditionKnown: boolean;
}

const ALL_PARTS = Object.keys(TOUCHES) as readonly Touch[];

/** A run on which the request has no effect. */
export function unchanged(facts: ForecastFacts): Forecast {
  return { ...standing(facts), effect: "NONE", endsAs: null };
}

/** A run that goes on, with the interrupt withdrawn or the hold lifted. */
export function continues(facts: ForecastFacts): Forecast {
  return { ...standing(facts), effect: "CONTINUES", endsAs: null };
}

function standing({ nodeState, steps, begun }: ForecastFacts): Omit<Forecast, "effect" | "endsAs"> {
  const changed = [...touchedBy(steps, begun)];
  return { nodeState, cutsStep: false, powersOff: false, changed, isConditionKnown: true };
}

/** The end of a run by an accepted abort. `powerOff`: as the abort chose. */
export function abortForecast(
  facts: ForecastFacts,
  { effect }: Extract<AbortVerdict, { readonly accepted: true }>,
  { mode, powerOff }: { readonly mode: AbortMode; readonly powerOff: boolean | null },
): Forecast {
  const { state, nodeState, begun } = facts;
  // A hold has nothing to cut.
  const step = state === "HOLDING" ? null : facts.step;
  const rest = { ...standing(facts), effect };
  if (effect === "BEFORE_START") return { ...rest, endsAs: "ABORTED" };
  const aborted = { ...rest, endsAs: "ABORTED", nodeState: edge(nodeState, "abort")?.to ?? nodeState } as const;
  if (mode === "FORCE")
    return { ...aborted, cutsStep: step !== null, powersOff: null, changed: ALL_PARTS, isConditionKnown: false };
  return {
    ...aborted,
    cutsStep: effect === "NOW" && step !== null && cancels(mode, step.interruptible),
    powersOff: begun.size > 0 && isPoweredOffByAbort(powerOff, { ...facts, state: nodeState }),
  };
}

/** The end of a run by a stop. */
export function stopForecast(facts: ForecastFacts): Forecast {
  const { state, nodeState, hasFailed, step, workLeft, endsByStop, retries, bestEffort } = facts;
  const rest = standing(facts);
  if (state === "QUEUED") return { ...rest, effect: "BEFORE_START", endsAs: "STOPPED" };
  if (hasFailed) return { ...failing(facts), effect: "PENDING" };
  if (retries && !bestEffort) return { ...failing(facts), effect: "NOW" };
  const isOver = step === null || endsByStop;
  const isLeft = isOver && !retries ? workLeft.now : workLeft.afterStep;
  const effect = isOver ? "NOW" : "PENDING";
  if (atBoundary({ interrupt: "STOP", workLeft: isLeft }) === "FINISH")
    return { ...rest, effect, endsAs: "SUCCEEDED", nodeState: facts.target ?? nodeState };
  return { ...rest, effect, endsAs: "STOPPED", nodeState: edge(nodeState, "stop")?.to ?? nodeState };
}

/** A run whose step has failed ends as after a failure; the power is set as its request or the site says. */
function failing(facts: ForecastFacts): Omit<Forecast, "effect"> {
  const { nodeState } = facts;
  return { ...standing(facts), endsAs: "FAILED", nodeState: edge(nodeState, "fail")?.to ?? nodeState, powersOff: null };
}
