/**
 * The short form of `npm run tool -- model`: one round, or a few if random choices and the load of the machine produced
 * too few events.
 */
import { expect, test } from "vitest";
import { runModel } from "./model.ts";
import { testDatabase } from "../support/database.ts";

const SEED = 20_261;
const ROUNDS_MAX = 5;

/** Events that a run must contain; without them a model that reports nothing proves nothing. */
const ENOUGH: readonly (readonly [what: string, pattern: RegExp, times: number])[] = [
  ["accepted", /accepted$/, 20],
  ["refused", /refused$/, 10],
  ["interrupted", /^(ABORT|STOP) answered (NOW|PENDING|yes|BEFORE_START)$/, 5],
  ["faults", /^faults$/, 10],
  ["killed", /^kills/, 2],
];

test(
  "model: random requests, faults and process deaths end as the model predicts [R-014, R-131]",
  { timeout: 600_000 },
  async () => {
    const seen = new Map(ENOUGH.map(([what]) => [what, 0]));
    const missing = () => ENOUGH.filter(([what, , times]) => (seen.get(what) ?? 0) < times).map(([what]) => what);
    for (let round = 0; round < ROUNDS_MAX && missing().length > 0; round += 1) {
      const seed = SEED + round;
      console.log(`model: seed ${seed}`);
      await using database = await testDatabase();
      const { counts, flaws, stories, history } = await runModel(database.connection, {
        seed,
        actions: 150,
        round: 150,
        nodes: 14,
        killEvery: 60,
      });
      if (flaws.length > 0) console.log([...stories, ...history].join("\n"));
      expect(flaws).toEqual([]);
      for (const [what, pattern] of ENOUGH) {
        const times = Object.entries(counts).reduce((sum, [name, count]) => sum + (pattern.test(name) ? count : 0), 0);
        seen.set(what, (seen.get(what) ?? 0) + times);
      }
    }
    expect(missing()).toEqual([]);
  },
);
