/** Long loops over many nodes yield to the event loop. */
import { expect, test } from "vitest";
import { createYielding } from "../../src/runtime/yielding.ts";

test("yielding lets timers run during long work, and does not delay short work", async () => {
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 0);
  const mayYield = createYielding();
  expect(mayYield()).toBeUndefined();
  // However fast the machine is, the loop runs until the timer has fired three times.
  while (turns < 3) await mayYield();
  clearInterval(timer);
});
