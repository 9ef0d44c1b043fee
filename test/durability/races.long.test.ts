/** The short form of `npm run tool -- races`: a thousand races. */
import { expect, test } from "vitest";
import { runRaces } from "./races.ts";
import { testDatabase } from "../support/database.ts";

const SEED = 20_261;

test(
  "races: a thousand aborts, withdrawals and stops at the end of a step have one outcome each, and answers that agree with it [R-097]",
  { timeout: 180_000 },
  async () => {
    await using database = await testDatabase();
    console.log(`races: seed ${SEED}`);
    const { races, counts, faults } = await runRaces(database.connection, { seed: SEED, count: 1_000, lanes: 40 });
    for (const { story } of faults) console.log(story.join("\n"));
    expect(faults.flatMap(({ flaws }) => flaws)).toEqual([]);
    expect(races).toBe(1_000);
    // Each kind of race has occurred.
    for (const what of [
      "runs SUCCEEDED",
      "runs FAILED",
      "runs ABORTED",
      "runs STOPPED",
      "aborts answered NOW",
      "aborts answered PENDING",
      "aborts answered BEFORE_START",
      "aborts answered NOT_INTERRUPTIBLE",
      "aborts answered NOTHING_RUNNING",
      "withdrawals answered NOTHING_RUNNING",
      "runs whose step was cut",
      "stops answered yes",
      "stops answered NOTHING_RUNNING",
      "interrupts during the last step",
    ]) {
      expect(counts[what], what).toBeGreaterThan(0);
    }
  },
);
