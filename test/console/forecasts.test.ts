/** The sentences before a stop, an abort and a restart, from what the service foresees. */
import { expect, test } from "vitest";
import {
  abortSentence,
  progressSentence,
  restartSentence,
  stopSentence,
  wavesSentence,
} from "../../packages/console/src/words/forecasts.ts";
import type { Effect, PlanSummary } from "../../packages/console/src/words/forecasts.ts";

const effect = (count: number, more: Partial<Effect>): Effect => ({
  effect: "NOW",
  count,
  endsAs: null,
  nodeState: null,
  step: null,
  cutsStep: false,
  powersOff: false,
  changedParts: [],
  conditionKnown: true,
  expectedSeconds: null,
  timeoutCount: 0,
  ...more,
});
const refused = (nodeCount: number, code: string) => ({ code, nodeCount, message: "", remedy: "", examples: [] });
const forecast = (effects: readonly Effect[], refusals: readonly ReturnType<typeof refused>[] = []) => ({
  effects,
  refusals,
});

const PENDING = { effect: "PENDING", endsAs: "STOPPED" } as const;
const QUEUED = { effect: "BEFORE_START" } as const;

test.each([
  [
    [
      effect(200, { ...PENDING, expectedSeconds: 240 }),
      effect(12, { ...PENDING, expectedSeconds: 30 }),
      effect(88, QUEUED),
    ],
    "212 nodes finish their step first, the longest in about 4 min; 88 nodes have not begun and stay as they are. Nothing is undone.",
  ],
  [
    [effect(1, { ...PENDING, expectedSeconds: 20 }), effect(1, {}), effect(1, QUEUED)],
    "1 node finishes its step first, in about 20 s; 1 node stops now; 1 node has not begun and stays as it is. Nothing is undone.",
  ],
  [
    [effect(3, { ...PENDING }), effect(2, { ...PENDING, endsAs: "SUCCEEDED", expectedSeconds: 5 })],
    "3 nodes finish their step first, in a time that is not known; 2 nodes at the last step reach the target as if nothing was asked. Nothing is undone.",
  ],
  [
    [effect(4, { ...PENDING, expectedSeconds: 900, timeoutCount: 2 })],
    "4 nodes finish their step first, the longest in about 15 min. 2 nodes are expected to need more than 10 min, and then fail.",
  ],
  [[effect(5, { effect: "NONE" })], "No node has work that a stop would change."],
])("the sentence before a stop counts every node once: case %# [R-1174]", (effects, sentence) => {
  expect(stopSentence(forecast(effects))).toBe(sentence);
});

test.each([
  [
    [
      effect(150, { cutsStep: true, powersOff: true, changedParts: ["DISKS"] }),
      effect(40, { powersOff: true }),
      effect(20, { effect: "PENDING", powersOff: true, changedParts: ["DISKS", "FIRMWARE"], expectedSeconds: 60 }),
    ],
    [refused(2, "NOT_INTERRUPTIBLE")],
    "190 nodes end now, 150 of them in the middle of a step; 20 nodes after their step, the longest in about 1 min; 2 cannot (not interruptible). 210 are powered off. 170 have changed disks. 20 have changed firmware.",
  ],
  [[effect(1, QUEUED)], [], "1 node has not begun and stays as it is."],
  [
    [effect(1, { cutsStep: true, conditionKnown: false, powersOff: null, changedParts: ["DISKS"] })],
    [],
    "1 node ends now, in the middle of a step. The condition of 1 node is unknown afterwards.",
  ],
  [[], [], "No node has work that an abort would change."],
])("the sentence before an abort counts every node once: case %# [R-1174]", (effects, refusals, sentence) => {
  expect(abortSentence(forecast(effects, refusals))).toBe(sentence);
});

const plan = (more: Partial<PlanSummary>): PlanSummary => ({
  nodeCount: 0,
  plannedCount: 0,
  erasesDataCount: 0,
  failureConsequence: null,
  refusals: [],
  duration: null,
  groups: [],
  ...more,
});
const group = (nodeCount: number, ...states: readonly string[]) => ({
  nodeCount,
  steps: states.map((state) => ({ name: "a", interface: "CLEAN", state })),
});

test.each([
  [
    plan({
      plannedCount: 300,
      groups: [group(280, "KEPT", "PENDING"), group(20, "PENDING")],
      duration: { expectedSeconds: 2_400 },
    }),
    "300 nodes continue, in about 40 min; 280 repeat their unfinished stage; 20 begin again. No data is lost.",
  ],
  [
    // The plan has more groups than were read.
    plan({ plannedCount: 300, groups: [group(280, "KEPT")], erasesDataCount: 1, refusals: [refused(2, "BUSY")] }),
    "300 nodes continue. 1 node loses data. 2 nodes cannot (busy).",
  ],
  [plan({ plannedCount: 26, groups: [group(26, "PENDING")] }), "26 nodes continue; all begin again. No data is lost."],
  [
    plan({ plannedCount: 1, groups: [group(1, "KEPT", "PENDING")] }),
    "1 node continues; it repeats its unfinished stage. No data is lost.",
  ],
  [plan({}), "No node has work that a restart would continue."],
])("the sentence before a restart states only what the plan shows: case %#", (summary, sentence) => {
  expect(restartSentence(summary)).toBe(sentence);
});

test("after a stop the page shows what has happened, and what is left", () => {
  const counts = [
    { state: "STOPPED", count: 188 },
    { state: "SUCCEEDED", count: 12 },
    { state: "RUNNING", count: 99 },
    { state: "WAITING", count: 1 },
  ];
  expect(progressSentence(counts)).toBe("So far: 188 stopped, 12 succeeded. 100 nodes of 300 still have work.");
  expect(progressSentence([{ state: "STOPPED", count: 1 }])).toBe("So far: 1 stopped. None is left.");
});

test("the sentence about waves says which nodes are concerned", () => {
  const waves = { activeCount: 1, startingCount: 20, waitingCount: 1_000, wave: 3 };
  expect(wavesSentence("halt", waves)).toBe("1 node has begun and continues; 1,000 wait until the waves are resumed.");
  expect(wavesSentence("advance", waves)).toBe(
    "1 node has begun and continues; 20 start now, in wave 3; 1,000 wait for a later wave.",
  );
  const last = { activeCount: 0, startingCount: 415, waitingCount: 0, wave: 2 };
  expect(wavesSentence("resume", last)).toBe("415 start now, in wave 2.");
  expect(wavesSentence("resume", { ...last, startingCount: 0 })).toBe("0 start now, in wave 2.");
});
