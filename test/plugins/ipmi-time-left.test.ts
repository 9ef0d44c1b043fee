/** A clock that is set while a call is under way neither ends the call nor lets it go on. */
import { afterEach, expect, test, vi } from "vitest";
import { timeLeft } from "../../plugins/ipmi/time-left.ts";

afterEach(() => void vi.useRealTimers());

test.each([
  ["forward", 3_600_000],
  ["back", -3_600_000],
])("set %s by an hour, it leaves a deadline where it was", (_way, jump) => {
  vi.useFakeTimers({ toFake: ["Date", "performance"] });
  const call = { deadline: new Date(Date.now() + 10_000) };
  expect(timeLeft(call)).toBe(10_000);
  vi.advanceTimersByTime(4_000);
  vi.setSystemTime(Date.now() + jump);
  expect(timeLeft(call)).toBe(6_000);
  vi.advanceTimersByTime(7_000);
  expect(timeLeft(call)).toBe(0);
});
