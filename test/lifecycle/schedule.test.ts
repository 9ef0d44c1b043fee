/** The time of planned runs side by side, below maxParallel and the capacity limits of the site. */
import { describe, expect, test } from "vitest";
import { makespan } from "../../src/lifecycle/schedule.ts";
import type { Lot, SlotLimits } from "../../src/lifecycle/schedule.ts";

const NONE: SlotLimits = { maxParallel: null, phases: {}, perController: null };
const leg = (phase: string, seconds: number) => ({ phase, seconds });
const lot = (count: number, ...legs: Lot["legs"]): Lot => ({ count, legs, controller: null });

const CASES: readonly {
  readonly what: string;
  readonly lots: readonly Lot[];
  readonly limits?: Partial<SlotLimits>;
  readonly seconds: number | null;
  readonly limitedBy?: readonly string[];
}[] = [
  { what: "no run takes no time", lots: [], seconds: 0 },
  {
    what: "runs without a limit take as long as the longest",
    lots: [lot(9, leg("clean", 10)), lot(1, leg("clean", 30))],
    seconds: 30,
  },
  {
    what: "legs follow each other",
    lots: [lot(9, leg("clean", 10), leg("deploy", 20))],
    seconds: 30,
  },
  {
    what: "five equal runs, two at a time, take three times as long",
    lots: [lot(5, leg("deploy", 10))],
    limits: { maxParallel: 2 },
    seconds: 30,
    limitedBy: ["maxParallel"],
  },
  {
    what: "a limit of a phase delays that phase alone",
    lots: [lot(4, leg("clean", 10), leg("deploy", 20))],
    limits: { phases: { deploy: 2 } },
    seconds: 50,
    limitedBy: ["phase:deploy"],
  },
  {
    what: "a run that waits for its second phase has left the first",
    lots: [lot(2, leg("clean", 10), leg("deploy", 30))],
    limits: { phases: { clean: 1, deploy: 1 } },
    seconds: 70,
    limitedBy: ["phase:clean", "phase:deploy"],
  },
  {
    what: "a run that waits for a phase keeps its place in maxParallel",
    lots: [lot(4, leg("clean", 10), leg("deploy", 30))],
    limits: { maxParallel: 2, phases: { deploy: 1 } },
    seconds: 130,
    limitedBy: ["phase:deploy", "maxParallel"],
  },
  {
    what: "a run keeps the slot of its controller until its end",
    lots: [
      { ...lot(2, leg("clean", 10), leg("deploy", 10)), controller: "a" },
      { ...lot(1, leg("clean", 10), leg("deploy", 10)), controller: "b" },
    ],
    limits: { perController: 1 },
    seconds: 40,
    limitedBy: ["controller"],
  },
  {
    what: "a limit that is large enough delays nothing",
    lots: [lot(4, leg("clean", 10))],
    limits: { maxParallel: 4, phases: { clean: 4 }, perController: 1 },
    seconds: 10,
  },
  {
    what: "a limit of none has no time",
    lots: [lot(1, leg("clean", 10))],
    limits: { phases: { clean: 0 } },
    seconds: null,
    limitedBy: ["phase:clean"],
  },
  { what: "runs without a leg take no time", lots: [lot(3)], limits: { maxParallel: 1 }, seconds: 0 },
];

describe("the time of runs side by side", () => {
  test.each(CASES)("$what [R-564]", ({ lots, limits = {}, seconds, limitedBy = [] }) => {
    const made = makespan(lots, { ...NONE, ...limits });
    expect(made.seconds).toBe(seconds);
    expect([...made.limitedBy].toSorted()).toEqual(limitedBy.toSorted());
  });

  test("equal runs in one lot take as long as in lots of one [R-564]", () => {
    const legs = [leg("clean", 7), leg("deploy", 11)];
    const limits = { maxParallel: 6, phases: { clean: 4, deploy: 3 }, perController: null };
    const together = makespan([lot(50, ...legs)], limits).seconds;
    expect(
      makespan(
        Array.from({ length: 50 }, () => lot(1, ...legs)),
        limits,
      ).seconds,
    ).toBe(together);
  });

  // A bound that holds for every schedule: no less than the longest run, and than the work by the slots.
  test("ten thousand runs of many kinds take at least their share of the slots [R-564]", () => {
    const lots = Array.from({ length: 200 }, (_, index) =>
      lot(50, leg("clean", 10 + index), leg("deploy", 5 + (index % 7))),
    );
    const made = makespan(lots, { ...NONE, maxParallel: 100, phases: { clean: 60 } }).seconds ?? 0;
    const clean = lots.reduce((sum, { legs, count }) => sum + (legs[0]?.seconds ?? 0) * count, 0);
    expect(made).toBeGreaterThanOrEqual(clean / 60);
    expect(made).toBeLessThan((clean / 60) * 1.1);
  });
});
