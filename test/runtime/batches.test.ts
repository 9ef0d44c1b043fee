/** Batches: what is added together is worked on together, and nothing waits for a slow batch. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { Batches } from "../../src/runtime/batches.ts";

function recorded(
  options: { readonly sizeMax?: number; readonly concurrency?: number; readonly slowMs?: number } = {},
) {
  const batches: string[] = [];
  const ends: (() => void)[] = [];
  const all = new Batches<string>({
    sizeMax: 10,
    slowMs: 10_000,
    concurrency: 2,
    ...options,
    keyOf: (entry) => entry[0],
    work: async (batch) => {
      batches.push(batch.join(" "));
      const { promise, resolve } = Promise.withResolvers<void>();
      ends.push(resolve);
      await promise;
    },
  });
  const add = (...entries: string[]) => {
    for (const entry of entries) all.add(entry);
  };
  const end = async () => {
    ends.shift()?.();
    await nextTurn();
    await nextTurn();
  };
  return { batches, add, end };
}

test("batch has what was added in one turn, and the next one what was added meanwhile", async () => {
  const { batches, add, end } = recorded();
  add("a", "b");
  await nextTurn();
  add("c");
  await nextTurn();
  add("d");
  await nextTurn();
  expect(batches).toEqual(["a b"]);
  await end();
  expect(batches).toEqual(["a b", "c d"]);
});

test("batch has no two entries with one key, and at most its size", async () => {
  const { batches, add, end } = recorded({ sizeMax: 2 });
  add("a1", "a2", "b1", "c1");
  await nextTurn();
  await end();
  expect(batches).toEqual(["a1 b1", "a2 c1"]);
});

test("batch that is slow is not waited for, but counts", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const { batches, add, end } = recorded({ slowMs: 100 });
    add("a");
    await nextTurn();
    add("b");
    await nextTurn();
    vi.advanceTimersByTime(99);
    expect(batches).toEqual(["a"]);
    vi.advanceTimersByTime(1);
    expect(batches).toEqual(["a", "b"]);
    // Both are slow now, and there are as many as may be.
    add("c");
    await nextTurn();
    vi.advanceTimersByTime(100);
    expect(batches).toEqual(["a", "b"]);
    await end();
    expect(batches).toEqual(["a", "b", "c"]);
  } finally {
    vi.useRealTimers();
  }
});
