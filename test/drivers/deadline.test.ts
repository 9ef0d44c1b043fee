/** Deadlines of calls: the monotonic clock, time on hold, and processes that were paused. */
import { setTimeout as delay } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { Deadline, onHold, whenOver } from "../../src/drivers/deadline.ts";

test("deadline stands still while it is on hold, and so does that of the whole [R-826]", async () => {
  const whole = new Deadline(1_000);
  const part = new Deadline(500, whole);
  const gate = Promise.withResolvers<void>();
  const held = onHold(part, () => gate.promise);
  const left = [part.leftMs, whole.leftMs];
  await delay(5);
  expect([part.leftMs, whole.leftMs]).toEqual(left);
  gate.resolve();
  await held;
  expect(whole.heldMs).toBeGreaterThanOrEqual(4);
  expect(part.heldMs).toBeGreaterThanOrEqual(4);
});

test("result that was on its way when all processes were paused past the deadline is taken first [R-827]", async () => {
  vi.useFakeTimers();
  try {
    const now = performance.now.bind(performance);
    const over = vi.fn<() => void>();
    const stop = whenOver(new Deadline(3_000), over);
    // The machine stands still: afterwards all timers are due, but another process has not yet passed on its result.
    vi.spyOn(performance, "now").mockImplementation(() => now() + 15_000);
    await vi.advanceTimersByTimeAsync(3_000);
    expect(over).not.toHaveBeenCalled();
    stop();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(over).not.toHaveBeenCalled();
    whenOver(new Deadline(3_000), over);
    await vi.advanceTimersByTimeAsync(3_001);
    expect(over).toHaveBeenCalledTimes(1);
  } finally {
    vi.restoreAllMocks();
    vi.useRealTimers();
  }
});
