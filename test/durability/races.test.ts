/** A hundred races with a fixed seed. `races.long.test.ts` runs a thousand, the tool `races` as many as one likes. */
import { expect, test } from "vitest";
import { testDatabase } from "../support/database.ts";
import { runRaces } from "./races.ts";

const SEED = 20_261;
const ROUNDS_MAX = 4;
/** The commonest kinds of race; the long form expects all of them. */
const KINDS = ["runs SUCCEEDED", "runs ABORTED", "runs STOPPED", "aborts answered NOW", "runs whose step was cut"];

test(
  "races: a hundred aborts, withdrawals and stops at the end of a step have one outcome each [R-097]",
  { timeout: 120_000 },
  async () => {
    const seen = new Set<string>();
    // Which kinds of race occur depends on the machine's speed, so further rounds are played until each has.
    for (let round = 0; round < ROUNDS_MAX && !KINDS.every((kind) => seen.has(kind)); round += 1) {
      await using database = await testDatabase();
      const { races, counts, faults } = await runRaces(database.connection, {
        seed: SEED + round,
        count: 100,
        lanes: 20,
      });
      for (const { story } of faults) console.log(story.join("\n"));
      expect(faults.flatMap(({ flaws }) => flaws)).toEqual([]);
      expect(races).toBe(100);
      for (const [kind, count] of Object.entries(counts)) if (count > 0) seen.add(kind);
    }
    for (const kind of KINDS) expect(seen).toContain(kind);
  },
);
