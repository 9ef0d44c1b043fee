/**
 * Lookups of single nodes in one turn of the event loop become one query, whose data is never older than the lookup.
 */
import { expect, test } from "vitest";
import { createBatchLoader } from "../../src/runtime/batch-loader.ts";

test("batch loader asks for all ids of one turn of the event loop together, each id once", async () => {
  const asked: (readonly string[])[] = [];
  const lengthOf = createBatchLoader(async (ids) => {
    asked.push(ids);
    return new Map(ids.map((id) => [id, id.length]));
  });
  expect(await Promise.all([lengthOf("a"), lengthOf("bcd"), lengthOf("a")])).toEqual([1, 3, 1]);
  expect(asked).toEqual([["a", "bcd"]]);
});

test("batch loader does not answer a lookup from a batch that was already being read", async () => {
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  let reads = 0;
  const readOf = createBatchLoader(async (ids) => {
    reads += 1;
    const read = reads;
    if (read === 1) {
      late = readOf("a");
      await answered;
    }
    return new Map(ids.map((id) => [id, read]));
  });
  let late: Promise<number | undefined> = Promise.resolve(0);
  const early = readOf("a");
  await new Promise((turn) => setImmediate(turn));
  expect(await late).toBe(2);
  answer();
  expect(await early).toBe(1);
});

test("batch loader fails every lookup of a failed batch, and no later one", async () => {
  let tries = 0;
  const of = createBatchLoader(async (ids) => {
    tries += 1;
    if (tries === 1) throw new Error("the database is away");
    return new Map(ids.map((id) => [id, tries]));
  });
  const both = await Promise.allSettled([of("a"), of("b")]);
  expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(await of("a")).toBe(2);
});
