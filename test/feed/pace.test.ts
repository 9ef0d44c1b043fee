/** The pace of a stream's reads: a rest does not end for a write, and ends at once when the reader leaves. */
import { expect, test, vi } from "vitest";
import { createPace } from "../../src/feed/pace.ts";
import { Listeners } from "../../src/feed/listeners.ts";
import { pulled } from "../../src/feed/pull.ts";

const HOUR_MS = 3_600_000;

/** A stream that emits its number of reads, once an hour. */
function hourly() {
  const tail = { closed: false };
  const listeners = new Listeners();
  const pace = createPace(tail, HOUR_MS);
  let looks = 0;
  const items = pulled({
    onChange: (listener) => listeners.add(listener),
    produce() {
      if (pace.restMs > 0) return { pauseMs: pace.restMs };
      pace.look();
      return [(looks += 1)];
    },
  });
  return { items, tail, notify: () => listeners.notify(), looks: () => looks };
}

test("pace: the first read is at once, and the next waits for the interval, whatever is written", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const { items, notify, looks } = hourly();
  expect((await items.next()).value).toBe(1);
  const next = items.next();
  for (let write = 0; write < 100; write += 1) {
    notify();
    await vi.advanceTimersByTimeAsync(HOUR_MS / 200);
  }
  expect(looks()).toBe(1);
  await vi.advanceTimersByTimeAsync(HOUR_MS / 2);
  expect((await next).value).toBe(2);
  vi.useRealTimers();
});

test("pace: a rest ends when the reader leaves, and no read follows", async () => {
  const { items, looks } = hourly();
  await items.next();
  const next = items.next();
  await items.return?.();
  expect(await next).toEqual({ done: true, value: undefined });
  expect(looks()).toBe(1);
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
  const pace = createPace(tail, HOUR_MS);
  pace.look();
  const setBack = vi.spyOn(Date, "now").mockImplementation(() => now() - HOUR_MS);
  const { restMs } = pace;
  setBack.mockRestore();
  expect(restMs).toBeGreaterThan(0);
  expect(restMs).toBeLessThanOrEqual(HOUR_MS);
});
