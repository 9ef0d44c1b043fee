/** The short form of `npm run model`: one round of it. */
import { expect, test } from "vitest";
import { runModel } from "../durability/model.ts";
import { testDatabase } from "../support/database.ts";

const SEED = 20_261;

test("random requests, faults and deaths of processes lead where the model says, and end", { timeout: 240_000 }, async () => {
  await using database = await testDatabase();
  console.log(`model: seed ${SEED}`);
  const { counts, flaws, stories, history } = await runModel(database.connection, { seed: SEED, actions: 150, round: 150, nodes: 14, killEvery: 60 });
  expect([...flaws, ...stories, ...history]).toEqual([]);
  const total = (pattern: RegExp) => Object.entries(counts).reduce((sum, [what, count]) => sum + (pattern.test(what) ? count : 0), 0);
  expect({ accepted: total(/accepted$/) > 20, refused: total(/refused$/) > 10, interrupted: total(/^(ABORT|STOP) told (NOW|PENDING|yes|BEFORE_START)$/) > 5, killed: total(/^kills/), faults: total(/^faults$/) > 10 }).toEqual({ accepted: true, refused: true, interrupted: true, killed: 2, faults: true });
});
