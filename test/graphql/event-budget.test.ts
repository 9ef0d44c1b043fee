/** Subscriptions pay for the executions of their events over time. */
import { afterEach, expect, test, vi } from "vitest";
import { BURST_COST, COST_PER_SECOND, createEventBudget } from "../../src/graphql/execution/event-budget.ts";

afterEach(() => void vi.useRealTimers());

test("subscriptions that execute each event again are delayed beyond the budget of their connection [R-205]", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const waits: number[] = [];
  const budget = createEventBudget(async (milliseconds) => {
    waits.push(milliseconds);
    vi.advanceTimersByTime(Math.ceil(milliseconds));
  });
  let executions = 0;
  while (budget.paid() === undefined) {
    budget.spend(4_300);
    executions += 1;
  }
  expect(executions).toBe(Math.ceil(BURST_COST / 4_300));
  waits.length = 0;
  vi.advanceTimersByTime(1_000);
  for (let index = 0; index < 20; index += 1) {
    await budget.paid();
    budget.spend(4_300);
  }
  const waited = waits.reduce((sum, one) => sum + one, 0);
  expect(waited).toBeGreaterThan(((14 * 4_300) / COST_PER_SECOND) * 1_000);
});
