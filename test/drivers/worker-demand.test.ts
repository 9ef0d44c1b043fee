/** How many worker processes the waiting calls of a driver need. */
import { describe, expect, test } from "vitest";
import { CallDurations, neededWorkers } from "../../src/drivers/isolation/worker-demand.ts";
import type { WorkerDemand } from "../../src/drivers/isolation/worker-demand.ts";

const waiting = (count: number, waited = 100) => Array.from({ length: count }, () => waited);
/** Adds processes until none is needed; as many as there are then. */
function settledWith(demand: Omit<WorkerDemand, "processes" | "prompt" | "blocked">, processes = 2): number {
  const more = neededWorkers({ ...demand, processes, prompt: processes, blocked: 0 });
  return more === 0 ? processes : settledWith(demand, processes + more);
}

describe("demand of worker processes", () => {
  test.each([
    { what: "first call of a driver needs one at once", waited: [0], processes: 0, prompt: 0, typical: 0, needed: 1 },
    {
      what: "call beside a first one waits for a moment",
      waited: [0, 0],
      processes: 0,
      prompt: 0,
      typical: 0,
      needed: 1,
    },
    { what: "second process needs no long call", waited: [60], processes: 1, prompt: 1, typical: 0, needed: 1 },
    {
      what: "call that has waited for a moment only needs none",
      waited: [10],
      processes: 1,
      prompt: 0,
      typical: 0,
      needed: 0,
    },
    {
      what: "calls that end at once need no third process",
      waited: waiting(30),
      processes: 2,
      prompt: 2,
      typical: 1,
      needed: 0,
    },
    {
      what: "calls behind hanging ones need one each",
      waited: waiting(30),
      processes: 8,
      prompt: 0,
      typical: 1,
      needed: 30,
    },
    {
      what: "calls that last long need one each",
      waited: waiting(30),
      processes: 2,
      prompt: 2,
      typical: 10_000,
      needed: 30,
    },
  ])("$what [R-607]", ({ waited, processes, prompt, typical, needed }) => {
    expect(neededWorkers({ waitedMs: waited, processes, prompt, blocked: 0, typicalMs: typical })).toBe(needed);
  });

  test("steps that hold all processes while their nested calls wait need one more, and not one each [R-695]", () => {
    const demand = { waitedMs: waiting(32), processes: 8, prompt: 0, typicalMs: 1 };
    expect(neededWorkers({ ...demand, blocked: 8 })).toBe(1);
    expect(neededWorkers({ ...demand, blocked: 0 })).toBe(32);
  });

  test("nested calls that wait beside a free process need none, nor the calls behind them [R-695]", () => {
    const demand = { waitedMs: waiting(32), processes: 3, prompt: 1, blocked: 2, typicalMs: 1 };
    expect(neededWorkers(demand)).toBe(0);
  });

  test("calls of 20 ms get as many processes as let none wait for more than 50 ms [R-607]", () => {
    expect(settledWith({ waitedMs: waiting(30), typicalMs: 20 })).toBe(12);
  });

  test("duration of the recent calls is their median, so that one that hung does not count", () => {
    const durations = new CallDurations();
    expect(durations.typicalMs).toBe(0);
    for (const ms of [1, 2, 3, 60_000]) durations.note(ms);
    durations.note(2);
    expect(durations.typicalMs).toBe(2);
    for (let count = 0; count < 31; count += 1) durations.note(500);
    expect(durations.typicalMs).toBe(500);
  });
});
