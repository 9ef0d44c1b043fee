/** One short round of the random model with a fixed seed and no kills. `model.long.test.ts` runs whole rounds. */
import { expect, test } from "vitest";
import { testDatabase } from "../support/database.ts";
import { runModel } from "./model.ts";

const SEED = 20_261;

test("model: forty random requests and faults lead where the model says, and end", { timeout: 120_000 }, async () => {
  await using database = await testDatabase();
  const { flaws, stories, history } = await runModel(database.connection, {
    seed: SEED,
    actions: 40,
    round: 40,
    nodes: 8,
    killEvery: 1_000,
  });
  if (flaws.length > 0) console.log([...stories, ...history].join("\n"));
  expect(flaws).toEqual([]);
});
