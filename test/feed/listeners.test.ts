/** Listeners of a log: all are called for each advance, thousands of them in slices. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { Listeners } from "../../src/feed/listeners.ts";

const MANY = 1_000;

/** Listeners that count their calls. */
function counted(count: number) {
  const listeners = new Listeners();
  const calls = Array.from({ length: count }, () => 0);
  const removals = calls.map((_, index) =>
    listeners.add(() => {
      calls[index] = (calls[index] ?? 0) + 1;
    }),
  );
  const called = () => calls.filter((times) => times > 0).length;
  const total = () => calls.reduce((sum, times) => sum + times, 0);
  /** Waits until a turn of the event loop calls no listener. */
  const settled = async () => {
    let before: number;
    do {
      before = total();
      await nextTurn();
    } while (total() !== before);
  };
  return { listeners, calls, removals, called, settled };
}

test("a few listeners are called at once", () => {
  const { listeners, calls } = counted(3);
  listeners.notify();
  expect(calls).toEqual([1, 1, 1]);
});

test("of many listeners some are called at once, and the event loop goes round before the last ones", async () => {
  const { listeners, calls, called, settled } = counted(MANY);
  listeners.notify();
  expect(called()).toBeGreaterThan(0);
  expect(called()).toBeLessThan(MANY);
  await settled();
  expect(new Set(calls)).toEqual(new Set([1]));
});

test("notifications during a round lead to one further round, which begins after it", async () => {
  const { listeners, calls, settled } = counted(MANY);
  listeners.notify();
  listeners.notify();
  listeners.notify();
  expect(new Set(calls)).toEqual(new Set([0, 1]));
  await settled();
  expect(new Set(calls)).toEqual(new Set([2]));
});

test("a listener that is removed during a round is not called", async () => {
  const { listeners, calls, removals, settled } = counted(MANY);
  listeners.notify();
  removals.at(-1)?.();
  await settled();
  expect(calls.at(-1)).toBe(0);
  expect(calls.at(-2)).toBe(1);
});

test("notifyAtOnce calls all listeners at once", () => {
  const { listeners, called } = counted(MANY);
  listeners.notifyAtOnce();
  expect(called()).toBe(MANY);
});
