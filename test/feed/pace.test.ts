/** The pace of a stream's reads: a rest does not end for a write, and ends at once when the reader leaves. */
import { expect, test, vi } from "vitest";
import { createPace } from "../../src/feed/pace.ts";
import { pulled } from "../../src/feed/pull.ts";

const HOUR_MS = 3_600_000;

/** A stream that emits its number of reads, once an hour. */
function hourly() {
  const tail = { closed: false };
  const listeners = new Set<() => void>();
  const pace = createPace(tail, HOUR_MS);
  let [looks, rests] = [0, 0];
  const counting = (listener: () => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  const items = pulled(counting, async (waiter) => {
    rests += 1;
    await pace.rest(waiter);
    rests -= 1;
    if (waiter.left) return [];
    pace.look();
    return [(looks += 1)];
  });
  const notify = () => {
    for (const listener of listeners) listener();
  };
  return { items, tail, notify, resting: () => rests };
}

test("pace: the first read is at once, and the next waits for the interval, whatever is written", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const { items, notify, resting } = hourly();
  expect((await items.next()).value).toBe(1);
  const next = items.next();
  for (let write = 0; write < 100; write += 1) {
    notify();
    await vi.advanceTimersByTimeAsync(HOUR_MS / 200);
  }
  expect(resting()).toBe(1);
  await vi.advanceTimersByTimeAsync(HOUR_MS / 2);
  expect((await next).value).toBe(2);
  vi.useRealTimers();
});

test("pace: a rest ends when the reader leaves, and no read follows", async () => {
  const { items, resting } = hourly();
  await items.next();
  const next = items.next();
  await items.return?.();
  expect(await next).toEqual({ done: true, value: undefined });
  expect(resting()).toBe(0);
});

test("pace: a rest ends with the tail, and a last read follows", async () => {
  const { items, tail, notify } = hourly();
  await items.next();
  const next = items.next();
  tail.closed = true;
  notify();
  expect((await next).value).toBe(2);
});

test("pace: a clock that is set back does not lengthen a rest", async () => {
  const { now } = Date;
  const tail = { closed: false };
  const pace = createPace(tail, 10);
  pace.look();
  const setBack = vi.spyOn(Date, "now").mockImplementation(() => now() - HOUR_MS);
  const waits: number[] = [];
  await pace.rest({
    left: false,
    wake: () => {},
    wait: async (milliseconds) =>
      void (waits.push(milliseconds), await new Promise((resolve) => setTimeout(resolve, milliseconds))),
  });
  setBack.mockRestore();
  expect(Math.max(0, ...waits)).toBeLessThanOrEqual(10);
});
