/** Progress and remaining time of work, from estimates. */
import { expect, test } from "vitest";
import { progressOf, secondsLeft } from "../../src/lifecycle/progress.ts";
import type { WorkGroup } from "../../src/lifecycle/progress.ts";

const steps = (...seconds: (number | null)[]) => seconds.map((one, index) => ({ index, seconds: one }));
const group = (change: Partial<WorkGroup>): WorkGroup => ({
  state: "RUNNING",
  wave: 0,
  position: 0,
  steps: steps(10, 30, 60),
  count: 1,
  ...change,
});
const alone = { maxParallel: null, pauseSeconds: null };

test.each([
  { why: "a run that has not begun", run: group({ state: "QUEUED" }), progress: 0 },
  { why: "finished steps by their expected durations", run: group({ position: 2 }), progress: 0.4 },
  { why: "a stopped run by its finished steps", run: group({ state: "STOPPED", position: 1 }), progress: 0.1 },
  { why: "a failed last step as not finished", run: group({ state: "FAILED", position: 2 }), progress: 0.4 },
  { why: "a run without steps that succeeded", run: group({ state: "SUCCEEDED", steps: [] }), progress: 1 },
  { why: "a run without steps that was aborted", run: group({ state: "ABORTED", steps: [] }), progress: 0 },
  {
    why: "a step without a past like the average",
    run: group({ position: 1, steps: steps(null, 10, 30) }),
    progress: 1 / 3,
  },
  { why: "steps without any past equally", run: group({ position: 1, steps: steps(null, null) }), progress: 0.5 },
])("progress counts $why", ({ run, progress }) => {
  expect(progressOf(run)).toBeCloseTo(progress);
});

test.each([
  { why: "nodes side by side", groups: [group({ count: 9 })], pace: alone, left: 100 },
  { why: "maxParallel", groups: [group({ count: 9 })], pace: { ...alone, maxParallel: 3 }, left: 300 },
  {
    why: "the longest run",
    groups: [group({}), group({ position: 2 })],
    pace: { ...alone, maxParallel: 2 },
    left: 100,
  },
  { why: "only unfinished runs", groups: [group({ state: "FAILED" }), group({ position: 2 })], pace: alone, left: 60 },
  {
    why: "waves one after the other",
    groups: [group({}), group({ wave: 1 })],
    pace: { ...alone, pauseSeconds: 5 },
    left: 205,
  },
  { why: "a step without a past as unknown", groups: [group({ steps: steps(1, null) })], pace: alone, left: null },
])("remaining time considers $why", ({ groups, pace, left }) => {
  expect(secondsLeft(groups, pace)).toBe(left);
});
