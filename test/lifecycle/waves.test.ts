/** Waves: how many nodes are in each, and what the end of a run means for the next one. */
import { describe, expect, test } from "vitest";
import { WAVE_STATES, countOf, judgeWaves, waveOfEach, waveSizes } from "../../src/lifecycle/waves.ts";
import type { Share, WaveFacts, WaveState } from "../../src/lifecycle/waves.ts";

const count = (number: number): Share => ({ count: number });
const percent = (share: number): Share => ({ percent: share });

describe("the sizes of waves", () => {
  test.each([
    { sizes: [count(1), count(3)], total: 10, waves: [1, 3, 3, 3], what: "counts, the last one repeated" },
    { sizes: [count(1), count(3)], total: 3, waves: [1, 2], what: "what is left, in the last wave" },
    { sizes: [count(5)], total: 5, waves: [5], what: "one, where all fit in" },
    { sizes: [count(100)], total: 5, waves: [5], what: "one, where more would fit in" },
    { sizes: [count(1), count(2), count(4)], total: 2, waves: [1, 1], what: "no more than there are nodes" },
    {
      sizes: [percent(10), percent(50)],
      total: 20,
      waves: [2, 10, 8],
      what: "shares of all nodes, not of what is left",
    },
    { sizes: [percent(1)], total: 5, waves: [1, 1, 1, 1, 1], what: "at least one node, however small the share" },
    { sizes: [percent(34)], total: 10, waves: [4, 4, 2], what: "rounded up" },
    { sizes: [percent(100)], total: 7, waves: [7], what: "one, for all of them" },
    { sizes: [count(1), percent(50)], total: 9, waves: [1, 5, 3], what: "counts and shares together" },
    { sizes: [percent(0.001)], total: 3, waves: [1, 1, 1], what: "not nothing for a share of almost nothing" },
  ])("are $what: $total nodes in $waves", ({ sizes, total, waves }) => {
    expect(waveSizes(sizes, total)).toEqual(waves);
  });

  test("add up to all nodes, whatever the shares", () => {
    for (const sizes of [[count(7)], [percent(3)], [count(1), percent(33)], [percent(12.5), count(9)]]) {
      for (let total = 1; total <= 120; total += 1) {
        const waves = waveSizes(sizes, total);
        expect(
          waves.reduce((sum, size) => sum + size, 0),
          `${JSON.stringify(sizes)} of ${total}`,
        ).toBe(total);
        expect(Math.min(...waves), `${JSON.stringify(sizes)} of ${total}`).toBeGreaterThan(0);
      }
    }
  });

  test("give each place of the request its wave", () => {
    expect(waveOfEach([1, 3, 2])).toEqual([0, 1, 1, 1, 2, 2]);
  });
});

test("a share of failures is rounded down: 10 percent of 15 nodes are one", () => {
  expect([
    countOf(percent(10), 15, "DOWN"),
    countOf(percent(10), 9, "DOWN"),
    countOf(percent(0), 50, "DOWN"),
    countOf(count(2), 1, "DOWN"),
  ]).toEqual([1, 0, 0, 2]);
});

const FACTS: WaveFacts = {
  state: "RUNNING",
  wave: 0,
  waves: 3,
  failures: 0,
  maxFailures: null,
  unfinished: false,
  queued: true,
  manual: false,
  pauseSeconds: 0,
};
const judged = (facts: Partial<WaveFacts>) => judgeWaves({ ...FACTS, ...facts });

describe("the next wave", () => {
  test("begins when the one before has ended, not before", () => {
    expect([judged({}), judged({ unfinished: true })]).toEqual(["OPEN", "NOTHING"]);
  });

  test("waits for the pause, or for somebody to say so, who counts before the pause", () => {
    expect([judged({ pauseSeconds: 1 }), judged({ manual: true }), judged({ manual: true, pauseSeconds: 1 })]).toEqual([
      "PAUSE",
      "AWAIT",
      "AWAIT",
    ]);
  });

  test("is none after the last one, and none where no node is left to begin", () => {
    expect([judged({ wave: 2 }), judged({ queued: false })]).toEqual(["NOTHING", "NOTHING"]);
  });

  test("begins once: while one is paused or awaited nothing else follows", () => {
    for (const state of ["PAUSED", "AWAITING", "HALTED"] as const) expect(judged({ state }), state).toBe("NOTHING");
  });
});

describe("too many failures", () => {
  test("are more than may fail", () => {
    expect([
      judged({ failures: 2, maxFailures: 2 }),
      judged({ failures: 3, maxFailures: 2 }),
      judged({ failures: 1, maxFailures: 0 }),
      judged({ failures: 99 }),
    ]).toEqual(["OPEN", "HALT", "HALT", "OPEN"]);
  });

  test("hold the rest at once, while others of the wave are at work, and in the last wave as well", () => {
    expect([
      judged({ failures: 1, maxFailures: 0, unfinished: true }),
      judged({ failures: 1, maxFailures: 0, wave: 2, unfinished: true }),
    ]).toEqual(["HALT", "HALT"]);
  });

  test("hold nothing where every node has begun", () => {
    expect(judged({ failures: 9, maxFailures: 0, queued: false, unfinished: true, wave: 2 })).toBe("NOTHING");
  });

  test("do not halt what is halted", () => {
    expect(judged({ failures: 9, maxFailures: 0, state: "HALTED" })).toBe("NOTHING");
  });
});

test("every state of waves says what it means", () => {
  for (const state of Object.keys(WAVE_STATES) as WaveState[]) expect(WAVE_STATES[state], state).toMatch(/^[A-Z].+\.$/);
});
