/**
 * Forecasts: the effects of an abort, a stop, a withdrawal, the end of holds, and of requests about waves, in a dry
 * run.
 */
import type { ForecastEntry, InterruptForecast, SubmitAnswer } from "../../../engine/input/answers.ts";
import type { WavesForecast } from "../../../engine/scheduling/waves.ts";
import { refusalGroups } from "../../../engine/views.ts";
import { WORK_EFFECTS } from "../../../lifecycle/forecast.ts";
import { existing } from "../../base/batching.ts";
import { builder, enumValues, wholeSeconds } from "../../base/builder.ts";
import type { Context } from "../../base/context.ts";
import { MachinePartEnum, NodeStateEnum, RunStateEnum, WaveStateEnum } from "../../base/enums.ts";
import { NodeRef } from "../../base/refs.ts";
import { InterruptPayloadRef, InterruptResultRef } from "../work/node-work.ts";
import { RefusalGroupRef, exampleArgs, examplesOf } from "./plan-summary.ts";
import { WavesPayloadRef } from "../work/waves.ts";

const WorkEffectEnum = builder.enumType("WorkEffect", {
  description: "When a request takes effect on a run. New values may be added.",
  values: enumValues(WORK_EFFECTS),
});

/** Seconds until a run ends; null if unknown. `deadline`: null if the run does not wait for a step. */
interface EndTime {
  readonly expected: number | null;
  readonly upper: number | null;
  readonly deadline: number | null;
}

/** Entries with the same effect, by the time of their ends. */
interface EffectGroup extends Omit<ForecastEntry, "answer" | "count"> {
  readonly entries: readonly (readonly [ForecastEntry, EndTime])[];
  readonly timeoutSeconds: number | null;
}

const AT_ONCE: EndTime = { expected: 0, upper: 0, deadline: null };

/** The groups of a forecast, those that end first before the others, and those that do not end last. */
async function effectGroups(
  { entries, timeoutSeconds }: InterruptForecast,
  context: Context,
): Promise<readonly EffectGroup[]> {
  const timed = await Promise.all(entries.map(async (entry) => [entry, await endTime(entry, context)] as const));
  const groups = Map.groupBy(timed, ([{ answer: _answer, count: _count, step, ...same }]) =>
    JSON.stringify([same, step?.label]),
  );
  const made = [...groups.values()].flatMap((same): EffectGroup[] => {
    const sorted = same.toSorted(([, a], [, b]) => order(a) - order(b));
    const [first] = sorted;
    return first ? [{ ...first[0], entries: sorted, timeoutSeconds }] : [];
  });
  const rank = ({ effect, entries: [first] }: EffectGroup) =>
    effect === "NONE" || effect === "CONTINUES" ? Number.POSITIVE_INFINITY : order(first?.[1] ?? AT_ONCE);
  return made.toSorted((a, b) => compare(rank(a), rank(b)) || countOf(b) - countOf(a));
}

/** The difference of two infinities is NaN. */
function compare(a: number, b: number): number {
  return a === b ? 0 : a - b;
}

/** A run whose end is unknown comes after all others, by its deadline. */
function order({ expected, deadline }: EndTime): number {
  return expected ?? 1e9 + (deadline ?? 0);
}

function countOf({ entries }: EffectGroup): number {
  return entries.reduce((sum, [{ count }]) => sum + count, 0);
}

/** When a run ends that waits for a step, from the durations of earlier attempts and the time that it has taken. */
async function endTime({ effect, step }: ForecastEntry, { load }: Context): Promise<EndTime> {
  if (!step || effect === "NOW" || effect === "BEFORE_START") return AT_ONCE;
  const { driver, label, model, elapsedSeconds, leftSeconds } = step;
  const history = await load.history.load({ driver, label, model });
  const left = (seconds: number | undefined) =>
    seconds === undefined || seconds <= elapsedSeconds ? null : Math.min(seconds - elapsedSeconds, leftSeconds);
  const upper = left(history?.p90Seconds);
  // A step that has taken longer than usual is expected to end like the slow ones.
  return { expected: left(history?.medianSeconds) ?? upper, upper, deadline: leftSeconds };
}

/** The latest of the runs of a group; null if that of one is unknown. */
function latest({ entries }: EffectGroup, which: keyof EndTime): number | null {
  const times = entries.map(([, end]) => end[which]);
  return times.includes(null) ? null : wholeSeconds(times.reduce<number>((most, one) => Math.max(most, one ?? 0), 0));
}

const WorkEffectGroupRef = builder.objectRef<EffectGroup>("WorkEffectGroup").implement({
  description: "Runs on which a request would have the same effect.",
  fields: (t) => ({
    effect: t.expose("effect", { type: WorkEffectEnum, description: "When it takes effect." }),
    count: t.int({
      description: "Number of nodes; for a discovery, number of addresses without a result.",
      resolve: countOf,
    }),
    endsAs: t.expose("endsAs", {
      type: RunStateEnum,
      nullable: true,
      description:
        "State in which the runs end, or ended. With PENDING, that of a step that succeeds. Null if they continue.",
    }),
    nodeState: t.expose("nodeState", {
      type: NodeStateEnum,
      nullable: true,
      description: "State of the nodes after the end of their runs; null for addresses and for runs that have ended.",
    }),
    step: t.string({
      nullable: true,
      description: "Step that has begun and not ended, as `interface.name`; null if there is none.",
      resolve: ({ step }) => step?.label ?? null,
    }),
    cutsStep: t.exposeBoolean("cutsStep", {
      description: "Whether the step is cut off half way, and undone as far as its driver can.",
    }),
    powersOff: t.exposeBoolean("powersOff", {
      nullable: true,
      description: "Whether the machines are powered off; null if their power is not known afterwards.",
    }),
    changedParts: t.expose("changed", {
      type: [MachinePartEnum],
      description:
        "Parts of the machines that the steps so far have changed, the running one included: what would be left changed. All parts if nothing is known of the machines.",
    }),
    conditionKnown: t.exposeBoolean("isConditionKnown", {
      description: "Whether the condition of the machines is known afterwards; false for a forced abort.",
    }),
  }),
});

builder.objectFields(WorkEffectGroupRef, (t) => ({
  soonestSeconds: t.int({
    nullable: true,
    description:
      "Seconds until the first of the runs is expected to end, 0 if it ends at once, without its clean-up. Null if unknown.",
    resolve: ({ entries: [first] }) => (first?.[1].expected == null ? null : wholeSeconds(first[1].expected)),
  }),
  expectedSeconds: t.int({
    nullable: true,
    description:
      "Seconds until all of them are expected to have ended, from earlier durations of the steps and the time they have taken. Null if unknown for one of them.",
    resolve: (group) => latest(group, "expected"),
  }),
  upperSeconds: t.int({
    nullable: true,
    description: "The same from 90th percentiles; null if unknown, or if a step has taken longer already.",
    resolve: (group) => latest(group, "upper"),
  }),
  deadlineSeconds: t.int({
    nullable: true,
    description: "Seconds until the timeouts of all their steps have passed; null if they wait for no step.",
    resolve: (group) => latest(group, "deadline"),
  }),
  timeoutCount: t.int({
    description:
      "For a stop: number of runs whose step is expected to take longer than `timeoutSeconds`, so that they would fail with STOP_TIMEOUT. Steps without an estimate do not count. 0 for other requests.",
    resolve: ({ entries, timeoutSeconds }) =>
      timeoutSeconds === null ? 0 : entries.filter(([, { expected }]) => (expected ?? 0) > timeoutSeconds).length,
  }),
  examples: t.field({
    type: [InterruptResultRef],
    description: "Some of the nodes, those that are expected to end first before the others.",
    args: exampleArgs(t.arg),
    resolve: ({ entries }, { first }) =>
      examplesOf(
        entries.flatMap(([{ answer }]) => (answer ? [answer] : [])),
        first,
      ),
  }),
}));

type Foreseen = SubmitAnswer & { readonly forecast: InterruptForecast };

const InterruptForecastRef = builder.objectRef<Foreseen>("InterruptForecast").implement({
  description:
    "What an abort, a stop, withdrawAbort or releaseHolds would do, by effect. It is decided by the same rules as the request; what happens until the request is sent changes it.",
  fields: (t) => ({
    effects: t.field({
      type: [WorkEffectGroupRef],
      description:
        "Accepted nodes by effect: those that end first before the others, and those that do not end last. It covers the nodes that are not refused themselves, also if the request is refused as a whole.",
      resolve: ({ forecast }, _args, context) => effectGroups(forecast, context),
    }),
    refusals: t.field({
      type: [RefusalGroupRef],
      description: "Refused nodes by code, largest group first.",
      resolve: ({ results }) => refusalGroups(results),
    }),
  }),
});

builder.interfaceField(InterruptPayloadRef, "forecast", (t) =>
  t.field({
    type: InterruptForecastRef,
    nullable: true,
    description:
      "With `dryRun`: what the request would do. Null without it, and if the request itself is invalid or concerns no unfinished work.",
    resolve: (answer) => (answer.forecast ? { ...answer, forecast: answer.forecast } : null),
  }),
);

// ---- waves

const WavesForecastRef = builder.objectRef<WavesForecast>("WavesForecast").implement({
  description: "What advanceWaves, haltWaves or resumeWaves would do.",
  fields: (t) => ({
    state: t.expose("waveState", {
      type: WaveStateEnum,
      description: "State of the waves afterwards.",
    }),
    wave: t.int({
      description: "Number of the newest started wave afterwards, from 1.",
      resolve: ({ wave }) => wave + 1,
    }),
    startingCount: t.int({
      description:
        "Number of nodes that start, as far as `maxParallel` allows. Some of them may have to wait for a slot of a capacity limit, or for a worker.",
      resolve: ({ counts }) => counts.starting,
    }),
    withdrawnCount: t.int({
      description: "With haltWaves: number of nodes that wait for a worker now and would not start.",
      resolve: ({ counts }) => counts.withdrawn,
    }),
    activeCount: t.int({
      description: "Number of nodes on which work has begun; it continues.",
      resolve: ({ counts }) => counts.active,
    }),
    waitingCount: t.int({
      description: "Number of nodes that stay QUEUED.",
      resolve: ({ counts }) => counts.waiting,
    }),
    forgivenFailures: t.exposeInt("forgivenFailures", {
      description: "Number of failures that no longer count toward `maxFailures`.",
    }),
    examples: t.field({
      type: [NodeRef],
      description: "The first nodes that start, or with haltWaves that would not start, in the order of the request.",
      args: exampleArgs(t.arg),
      resolve: ({ counts: { nodeIds } }, { first }, { load }) => existing(load.node, examplesOf(nodeIds, first)),
    }),
  }),
});

builder.interfaceField(WavesPayloadRef, "forecast", (t) =>
  t.field({
    type: WavesForecastRef,
    nullable: true,
    description: "What the request would do; null without `dryRun`, and if it would be refused.",
    resolve: ({ forecast }) => forecast ?? null,
  }),
);
