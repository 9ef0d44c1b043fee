/**
 * Progress of work and the time that is left, from estimates of its steps. Pure, and rough: estimates are medians of
 * the past.
 */
import { isUnfinished } from "./operation-states.ts";
import type { RunState } from "./operation-states.ts";

/** The part of a plan that progress depends on: the steps that run, in order. */
export interface StepWeight {
  /** Position in the plan. */
  readonly index: number;
  /** Expected duration; null if the step never succeeded before. */
  readonly seconds: number | null;
}

/** Runs of one operation that are equally far. */
export interface WorkGroup {
  readonly state: RunState;
  readonly wave: number;
  readonly position: number;
  readonly steps: readonly StepWeight[];
  readonly count: number;
}

/** Share of the steps that have ended, 0 to 1, each weighted by its expected duration. */
export function progressOf({ state, position, steps }: Pick<WorkGroup, "state" | "position" | "steps">): number {
  if (state === "SUCCEEDED") return 1;
  if (state === "UNDONE") return 0;
  const known = steps.flatMap(({ seconds }) => (seconds === null ? [] : [seconds]));
  // A step without a past counts like the average of the others.
  const usual = known.length === 0 ? 1 : sum(known) / known.length;
  const weightOf = ({ seconds }: StepWeight) => Math.max(seconds ?? usual, LEAST_SECONDS);
  const total = sum(steps.map(weightOf));
  return total === 0 ? 0 : sum(steps.filter(({ index }) => index < position).map(weightOf)) / total;
}

/** A step of no measurable duration counts all the same. */
const LEAST_SECONDS = 0.001;

/** How an operation starts its nodes. */
export interface Pace {
  readonly maxParallel: number | null;
  /** Pause before each next wave; null if the operation has no waves. */
  readonly pauseSeconds: number | null;
}

/**
 * Expected seconds until the last run ends: the waves one after the other, in each the nodes side by side as far as
 * `maxParallel` allows. Limits of the site and of replicas are not considered. Null if a step has no past.
 */
export function secondsLeft(groups: readonly WorkGroup[], { maxParallel, pauseSeconds }: Pace): number | null {
  const left = groups.flatMap(({ state, wave, position, steps, count }) => {
    if (!isUnfinished(state)) return [];
    const open = steps.filter(({ index }) => index >= position);
    return [{ wave: pauseSeconds === null ? 0 : wave, seconds: open.map(({ seconds }) => seconds), count }];
  });
  if (left.some(({ seconds }) => seconds.includes(null))) return null;
  const waves = [...Map.groupBy(left, ({ wave }) => wave).values()].map((inWave) => {
    const runs = inWave.map(({ seconds, count }) => ({ seconds: sum(seconds.map((one) => one ?? 0)), count }));
    const side = Math.min(maxParallel ?? Number.POSITIVE_INFINITY, sum(runs.map(({ count }) => count)));
    const longest = Math.max(...runs.map(({ seconds }) => seconds));
    return Math.max(longest, sum(runs.map(({ seconds, count }) => seconds * count)) / side);
  });
  return Math.ceil(sum(waves) + (pauseSeconds ?? 0) * Math.max(0, waves.length - 1));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
