/** A clock change during a call neither shortens nor lengthens its timeout. */
import { afterEach, expect, test, vi } from "vitest";
import { timeLeft } from "../../plugins/ipmi/time-left.ts";

afterEach(() => void vi.useRealTimers());

test.each([
  ["forward", 3_600_000],
  ["back", -3_600_000],
])("IPMI time left does not change when the clock is set %s by an hour", (_way, jump) => {
  vi.useFakeTimers({ toFake: ["Date", "performance"] });
  const call = { deadline: new Date(Date.now() + 10_000) };
  expect(timeLeft(call)).toBe(10_000);
  vi.advanceTimersByTime(4_000);
  vi.setSystemTime(Date.now() + jump);
  expect(timeLeft(call)).toBe(6_000);
  vi.advanceTimersByTime(7_000);
  expect(timeLeft(call)).toBe(0);
});
