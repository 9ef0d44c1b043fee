/**
 * The duration of a planned request: durations of earlier steps on this site, run through the waves, `maxParallel` and
 * the capacity limits of the site.
 */
import { isHold, plannedRollouts } from "../../../engine/views.ts";
import type { PlanSummary, PlannedRollout, WaveLot } from "../../../engine/admission/plan-summary.ts";
import { makespan } from "../../../lifecycle/schedule.ts";
import type { LegTime, PlannedLimit, SlotLimits } from "../../../lifecycle/schedule.ts";
import { createYielding } from "../../../runtime/yielding.ts";
import type { PlannedStep } from "../../../store/records.ts";
import type { StepHistory } from "../../../store/runs/step-durations.ts";
import type { Context } from "../../base/context.ts";
import { stepName } from "../work/step.ts";
import { stepHistory } from "./step-history.ts";

/** Why a duration is unknown. */
export const UNKNOWN_DURATIONS = {
  NO_HISTORY: "A step has never succeeded on this site: `unknownSteps` names it.",
  HOLD: "A plan has a hold, which lasts until `releaseHolds`.",
  MANUAL_WAVES: "Waves after the first wait for `advanceWaves`.",
  NO_CAPACITY: "A capacity limit of the site lets none of the nodes start.",
} as const;
export type UnknownDuration = keyof typeof UNKNOWN_DURATIONS;

/** In seconds. `least`: as if steps without a history took no time. */
export interface WaveDuration {
  readonly number: number;
  readonly nodeCount: number;
  readonly expected: number | null;
  readonly upper: number | null;
  readonly least: number | null;
}

export interface PlanDuration {
  readonly expected: number | null;
  readonly upper: number | null;
  readonly least: number | null;
  readonly unknownBecause: readonly UnknownDuration[];
  readonly unknownSteps: readonly string[];
  /** Fewest attempts behind a step with a history; null if no step has one. */
  readonly samples: number | null;
  readonly limitedBy: readonly PlannedLimit[];
  /** Of the operation that takes longest. */
  readonly waves: readonly WaveDuration[];
}

type Measure = "expected" | "upper" | "least";

/** The expected duration of all the work of a plan summary; null if no node has a plan. */
export async function planDuration(summary: PlanSummary, context: Context): Promise<PlanDuration | null> {
  const { policy } = await context.load.site.load("policy");
  const rollouts = plannedRollouts(summary, policy);
  if (rollouts.length === 0) return null;
  const historyOf = await stepHistories(rollouts, context);
  const limits = { phases: policy.phaseLimits ?? {}, perController: policy.controllerLimit ?? null };
  const durations: PlanDuration[] = [];
  for (const rollout of rollouts) durations.push(await rolloutDuration(rollout, historyOf, limits));
  const [first, ...others] = durations;
  return first ? others.reduce(longer, first) : null;
}

/** Of two operations that run side by side. */
function longer(a: PlanDuration, b: PlanDuration): PlanDuration {
  const most = (measure: Measure) =>
    a[measure] === null || b[measure] === null ? null : Math.max(a[measure], b[measure]);
  const union = <One>(one: readonly One[], other: readonly One[]) => [...new Set([...one, ...other])];
  return {
    expected: most("expected"),
    upper: most("upper"),
    least: most("least"),
    unknownBecause: union(a.unknownBecause, b.unknownBecause),
    unknownSteps: union(a.unknownSteps, b.unknownSteps),
    samples: a.samples === null ? b.samples : Math.min(a.samples, b.samples ?? a.samples),
    limitedBy: union(a.limitedBy, b.limitedBy),
    waves: (a.least ?? 0) >= (b.least ?? 0) ? a.waves : b.waves,
  };
}

async function rolloutDuration(
  { waves, maxParallel, lots }: PlannedRollout,
  historyOf: HistoryOf,
  limits: Omit<SlotLimits, "maxParallel">,
): Promise<PlanDuration> {
  const limitedBy = new Set<PlannedLimit>();
  const yieldWhenDue = createYielding();
  const found: WaveDuration[] = [];
  for (const [index, inWave] of lots.entries()) {
    const secondsBy = (measure: Measure) => {
      const timed = inWave.map((lot) => ({ lot, legs: legTimes(lot, historyOf, measure) }));
      if (timed.some(({ legs }) => legs === null)) return null;
      const made = makespan(
        timed.map(({ lot: { controller, count }, legs }) => ({ controller, count, legs: legs ?? [] })),
        { ...limits, maxParallel },
      );
      for (const limit of made.limitedBy) limitedBy.add(limit);
      return made.seconds;
    };
    const nodeCount = inWave.reduce((sum, { count }) => sum + count, 0);
    const [expected, upper, least] = [secondsBy("expected"), secondsBy("upper"), secondsBy("least")];
    found.push({ number: index + 1, nodeCount, expected, upper, least });
    await yieldWhenDue();
  }
  const isManual = waves?.manual === true && found.length > 1;
  const pauses = (waves?.pauseSeconds ?? 0) * (found.length - 1);
  const total = (measure: Measure) =>
    found.some((wave) => wave[measure] === null)
      ? null
      : found.reduce((sum, wave) => sum + (wave[measure] ?? 0), isManual ? 0 : pauses);
  const steps = lots.flat().flatMap((lot) => openSteps(lot).map((step) => ({ step, lot })));
  const unknown = steps.filter(({ step, lot }) => historyOf(step, lot) === null);
  const isHeld = unknown.some(({ step }) => isHold(step));
  const withoutHistory = unknown.filter(({ step }) => !isHold(step)).map(({ step }) => stepName(step));
  const samples = steps.flatMap(({ step, lot }) => historyOf(step, lot)?.samples || []);
  const unknownBecause: UnknownDuration[] = [];
  if (withoutHistory.length > 0) unknownBecause.push("NO_HISTORY");
  if (isHeld) unknownBecause.push("HOLD");
  if (isManual) unknownBecause.push("MANUAL_WAVES");
  if (found.some(({ least }) => least === null)) unknownBecause.push("NO_CAPACITY");
  return {
    expected: isManual ? null : total("expected"),
    upper: isManual ? null : total("upper"),
    least: total("least"),
    unknownBecause,
    unknownSteps: [...new Set(withoutHistory)].toSorted(),
    samples: samples.length === 0 ? null : Math.min(...new Set(samples)),
    limitedBy: [...limitedBy],
    waves: found,
  };
}

function openSteps({ plan }: Pick<WaveLot, "plan">): readonly PlannedStep[] {
  return plan.steps.filter(({ kept }) => !kept);
}

/** The legs of a run with their times; null if one is unknown. */
function legTimes(lot: WaveLot, historyOf: HistoryOf, measure: Measure): readonly LegTime[] | null {
  const seconds = new Map<number, number>();
  for (const step of openSteps(lot)) {
    const time = secondsOf(historyOf(step, lot), measure);
    if (time === null) return null;
    seconds.set(step.leg, (seconds.get(step.leg) ?? 0) + time);
  }
  return [...seconds].map(([leg, time]) => ({ phase: lot.plan.legs[leg]?.phase ?? "", seconds: time }));
}

type HistoryOf = (step: PlannedStep, lot: Pick<WaveLot, "model">) => StepHistory | null;

/** The histories of all steps of the plans; each is read once for nodes of the same model. */
async function stepHistories(rollouts: readonly PlannedRollout[], context: Context): Promise<HistoryOf> {
  const known = new Map<PlannedStep, Map<string | null, StepHistory | null>>();
  for (const lot of rollouts.flatMap(({ lots }) => lots.flat()))
    for (const step of openSteps(lot)) known.set(step, (known.get(step) ?? new Map()).set(lot.model, null));
  const reads = [...known].flatMap(([step, byModel]) =>
    [...byModel.keys()].map(async (model) => byModel.set(model, await stepHistory(step, model, context))),
  );
  await Promise.all(reads);
  return (step, { model }) => known.get(step)?.get(model) ?? null;
}

/** The time of a step: typical, of nine in ten, and at least; null if unknown. */
function secondsOf(history: StepHistory | null, measure: Measure): number | null {
  if (!history) return measure === "least" ? 0 : null;
  return measure === "upper" ? history.p90Seconds : history.medianSeconds;
}
