/** Calls that are a minimum time apart: the first at once, later ones together. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createSpacedCalls } from "../../src/runtime/spaced-calls.ts";

const EVERY_MS = 20;

beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => vi.useRealTimers());

function counted() {
  const calls: number[] = [];
  return { calls, spaced: createSpacedCalls(EVERY_MS, () => calls.push(performance.now())) };
}

test("spaced calls make the first call at once and one for all requests in the time after it", () => {
  const { calls, spaced } = counted();
  spaced.request();
  expect(calls).toHaveLength(1);
  for (let request = 0; request < 5; request += 1) spaced.request();
  expect(calls).toHaveLength(1);
  vi.advanceTimersByTime(EVERY_MS);
  expect(calls).toHaveLength(2);
  vi.advanceTimersByTime(10 * EVERY_MS);
  expect(calls).toHaveLength(2);
  spaced.request();
  expect(calls).toHaveLength(3);
});

test("spaced calls stay apart under requests that never pause", () => {
  const { calls, spaced } = counted();
  for (let time = 0; time < 10 * EVERY_MS; time += 1) {
    spaced.request();
    vi.advanceTimersByTime(1);
  }
  expect(calls).toHaveLength(11);
  expect(calls.slice(1).every((at, index) => at - (calls[index] ?? 0) >= EVERY_MS)).toBe(true);
});

test("spaced calls make a due call earlier when flushed, and none if none is due", () => {
  const { calls, spaced } = counted();
  spaced.flush();
  expect(calls).toHaveLength(0);
  spaced.request();
  spaced.request();
  spaced.flush();
  expect(calls).toHaveLength(2);
  vi.advanceTimersByTime(10 * EVERY_MS);
  expect(calls).toHaveLength(2);
});

test("spaced calls that are cancelled make no further call until requested again", () => {
  const { calls, spaced } = counted();
  spaced.request();
  spaced.request();
  spaced.cancel();
  vi.advanceTimersByTime(10 * EVERY_MS);
  expect(calls).toHaveLength(1);
});
