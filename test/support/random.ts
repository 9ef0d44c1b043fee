/** Random numbers of a test, from a seed that is printed if the test fails. */
import { onTestFailed } from "vitest";
import { anySeed, chance } from "../durability/lab.ts";
import type { Chance } from "../durability/lab.ts";

/** To repeat a test, set `TEST_SEED` to the printed number. Call it inside of the test. */
export function randomOfTest(): Chance {
  const seed = Number(process.env["TEST_SEED"] ?? anySeed());
  onTestFailed(() => console.error(`The random numbers of this test had the seed: TEST_SEED=${seed}`));
  return chance(seed);
}
