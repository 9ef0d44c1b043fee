/** Long work on many nodes holds nobody up. */
import { expect, test } from "vitest";
import { createYielding } from "../../src/runtime/yielding.ts";

test("long work on many nodes lets others have their turn, and short work is not held up", async () => {
  let turns = 0;
  const others = setInterval(() => (turns += 1), 0);
  const mayBreak = createYielding();
  expect(mayBreak()).toBeUndefined();
  // However fast the machine is, it is at work until somebody else has been.
  while (turns < 3) await mayBreak();
  clearInterval(others);
});
