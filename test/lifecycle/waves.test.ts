/** Waves: the number of nodes in each, and what the end of a run means for the next one. */
import { describe, expect, test } from "vitest";
import { WAVE_STATES, countOf, judgeWaves, waveOfEach, waveSizes } from "../../src/lifecycle/waves.ts";
import type { Share, WaveFacts, WaveState } from "../../src/lifecycle/waves.ts";

const count = (number: number): Share => ({ count: number });
const percent = (share: number): Share => ({ percent: share });

describe("wave sizes", () => {
  test.each([
    { sizes: [count(1), count(3)], total: 10, waves: [1, 3, 3, 3], what: "counts, the last one repeated" },
    { sizes: [count(1), count(3)], total: 3, waves: [1, 2], what: "counts, with the rest in the last wave" },
    { sizes: [count(5)], total: 5, waves: [5], what: "a count of all nodes" },
    { sizes: [count(100)], total: 5, waves: [5], what: "a count above the number of nodes" },
    { sizes: [count(1), count(2), count(4)], total: 2, waves: [1, 1], what: "more counts than nodes" },
    {
      sizes: [percent(10), percent(50)],
      total: 20,
      waves: [2, 10, 8],
      what: "shares, which count from all nodes",
    },
    { sizes: [percent(1)], total: 5, waves: [1, 1, 1, 1, 1], what: "a small share, which is at least one node" },
    { sizes: [percent(34)], total: 10, waves: [4, 4, 2], what: "a share, which is rounded up" },
    { sizes: [percent(100)], total: 7, waves: [7], what: "a share of all nodes" },
    { sizes: [count(1), percent(50)], total: 9, waves: [1, 5, 3], what: "counts and shares" },
    { sizes: [percent(0.001)], total: 3, waves: [1, 1, 1], what: "a share near zero" },
  ])("wave sizes from $what: $total nodes in $waves", ({ sizes, total, waves }) => {
    expect(waveSizes(sizes, total)).toEqual(waves);
  });

  test("wave sizes add up to all nodes, whatever the shares", () => {
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

  test("wave sizes give each position of the request its wave", () => {
    expect(waveOfEach([1, 3, 2])).toEqual([0, 1, 1, 1, 2, 2]);
  });
});

test("wave failure share is rounded down: 10 percent of 15 nodes are one", () => {
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
const decide = (facts: Partial<WaveFacts>) => judgeWaves({ ...FACTS, ...facts });

describe("next wave", () => {
  test("next wave starts when the one before has ended, and not earlier", () => {
    expect([decide({}), decide({ unfinished: true })]).toEqual(["OPEN", "NOTHING"]);
  });

  test("next wave waits for the pause, or for advanceWaves, which takes precedence", () => {
    expect([decide({ pauseSeconds: 1 }), decide({ manual: true }), decide({ manual: true, pauseSeconds: 1 })]).toEqual([
      "PAUSE",
      "AWAIT",
      "AWAIT",
    ]);
  });

  test("next wave does not exist after the last one, or if no queued node is left", () => {
    expect([decide({ wave: 2 }), decide({ queued: false })]).toEqual(["NOTHING", "NOTHING"]);
  });

  test("next wave starts once: nothing follows while one is paused or awaited", () => {
    for (const state of ["PAUSED", "AWAITING", "HALTED"] as const) expect(decide({ state }), state).toBe("NOTHING");
  });
});

describe("too many failures", () => {
  test("too many failures are more than maxFailures", () => {
    expect([
      decide({ failures: 2, maxFailures: 2 }),
      decide({ failures: 3, maxFailures: 2 }),
      decide({ failures: 1, maxFailures: 0 }),
      decide({ failures: 99 }),
    ]).toEqual(["OPEN", "HALT", "HALT", "OPEN"]);
  });

  test("too many failures halt the waves at once, during a wave and in the last wave too", () => {
    expect([
      decide({ failures: 1, maxFailures: 0, unfinished: true }),
      decide({ failures: 1, maxFailures: 0, wave: 2, unfinished: true }),
    ]).toEqual(["HALT", "HALT"]);
  });

  test("too many failures do not halt waves of which every node has started", () => {
    expect(decide({ failures: 9, maxFailures: 0, queued: false, unfinished: true, wave: 2 })).toBe("NOTHING");
  });

  test("too many failures do not halt halted waves again", () => {
    expect(decide({ failures: 9, maxFailures: 0, state: "HALTED" })).toBe("NOTHING");
  });
});

test("wave states all have a description", () => {
  for (const state of Object.keys(WAVE_STATES) as WaveState[]) expect(WAVE_STATES[state], state).toMatch(/^[A-Z].+\.$/);
});
