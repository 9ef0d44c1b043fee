/** How often a stream looks: a rest is for no write, but for nobody who has left either. */
import { expect, test, vi } from "vitest";
import { createPace } from "../../src/feed/pace.ts";
import { pulled } from "../../src/feed/pull.ts";

const HOUR_MS = 3_600_000;

/** A stream that tells how often it has looked, once an hour. */
function hourly() {
  const tail = { closed: false };
  const listeners = new Set<() => void>();
  const pace = createPace(tail, HOUR_MS);
  let [looks, rests] = [0, 0];
  const counting = (listener: () => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  const items = pulled(counting, async (patience) => {
    rests += 1;
    await pace.rest(patience);
    rests -= 1;
    if (patience.left) return [];
    pace.look();
    return [(looks += 1)];
  });
  const tell = () => {
    for (const listener of listeners) listener();
  };
  return { items, tail, tell, resting: () => rests };
}

test("the first look is at once, and the next is not before its time, whatever is written", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const { items, tell, resting } = hourly();
  expect((await items.next()).value).toBe(1);
  const next = items.next();
  for (let write = 0; write < 100; write += 1) {
    tell();
    await vi.advanceTimersByTimeAsync(HOUR_MS / 200);
  }
  expect(resting()).toBe(1);
  await vi.advanceTimersByTimeAsync(HOUR_MS / 2);
  expect((await next).value).toBe(2);
  vi.useRealTimers();
});

test("a rest ends when the reader leaves, and it does not look again", async () => {
  const { items, resting } = hourly();
  await items.next();
  const next = items.next();
  await items.return?.();
  expect(await next).toEqual({ done: true, value: undefined });
  expect(resting()).toBe(0);
});

test("a rest ends with the tail, and there is a last look", async () => {
  const { items, tail, tell } = hourly();
  await items.next();
  const next = items.next();
  tail.closed = true;
  tell();
  expect((await next).value).toBe(2);
});

test("a clock that is set back makes it rest no longer", async () => {
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
