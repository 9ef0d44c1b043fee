/** A hundred races with a fixed seed. `races.long.test.ts` runs a thousand, `npm run races` as many as one likes. */
import { expect, test } from "vitest";
import { testDatabase } from "../support/database.ts";
import { runRaces } from "./races.ts";

const SEED = 20_261;

test(
  "races: a hundred aborts, withdrawals and stops at the end of a step have one outcome each [R-097]",
  { timeout: 120_000 },
  async () => {
    await using database = await testDatabase();
    const { races, counts, faults } = await runRaces(database.connection, { seed: SEED, count: 100, lanes: 20 });
    expect(faults.flatMap(({ flaws, story }) => [...flaws, ...story])).toEqual([]);
    expect(races).toBe(100);
    // The commonest kinds of race have occurred; the long form expects all of them.
    for (const what of [
      "runs SUCCEEDED",
      "runs ABORTED",
      "runs STOPPED",
      "aborts answered NOW",
      "runs whose step was cut",
    ])
      expect(counts[what], what).toBeGreaterThan(0);
  },
);
