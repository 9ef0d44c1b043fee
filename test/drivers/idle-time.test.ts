/** How long a call has lasted or waited, as the service can judge it. */
import { describe, expect, test } from "vitest";
import { idleBetween, momentNow } from "../../src/drivers/isolation/idle-time.ts";

const start = { time: 1_000, idleMs: 400, runDelayMs: 20 };

describe("time that counts as waiting", () => {
  test.each([
    { what: "all of it, of a service with nothing to do", idle: 100, delay: 0, other: 0, counts: 100 },
    { what: "what is left, of a service that was busy", idle: 30, delay: 0, other: 0, counts: 30 },
    { what: "none in which the service waited for a processor", idle: 60, delay: 40, other: 0, counts: 20 },
    { what: "none in which the driver's process waited for one", idle: 60, delay: 0, other: 50, counts: 10 },
    { what: "a share, of a service that is never idle", idle: 0, delay: 0, other: 0, counts: 5 },
    { what: "a share, of a machine without processors", idle: 100, delay: 90, other: 500, counts: 5 },
  ])("is $what [R-696]", ({ idle, delay, other, counts }) => {
    const end = { time: start.time + 100, idleMs: start.idleMs + idle, runDelayMs: start.runDelayMs + delay };
    expect(idleBetween(start, end, other)).toBe(counts);
  });

  test("does not grow by more than a share while this process computes [R-696]", () => {
    const from = momentNow();
    while (performance.now() - from.time < 40);
    const to = momentNow();
    expect(idleBetween(from, to)).toBe((to.time - from.time) / 20);
  });
});
