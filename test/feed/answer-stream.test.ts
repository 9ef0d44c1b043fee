/** Streams of answers, with counts as the question: the present ones, then each change, with shared reads. */
import { afterAll, expect, test, vi } from "vitest";
import { answerStream } from "../../src/feed/kinds/answer-stream.ts";
import { createTail } from "../../src/feed/log/tail.ts";
import { createLog } from "../../src/log.ts";
import { nodeGroups } from "../../src/store/nodes/node-counts.ts";
import type { NodeGroups } from "../../src/store/nodes/node-counts.ts";
import type { Database } from "../../src/store/postgres/database.ts";
import { createNotifier } from "../../src/store/postgres/notifier.ts";
import { engineUnderTest } from "../support/builders.ts";

const owned = new AsyncDisposableStack();
afterAll(() => owned.disposeAsync());
const ostler = owned.use(await engineUnderTest());
const { database } = ostler;
const { sql } = ostler.test;
const notifier = owned.use(await createNotifier(database, () => {}));
const newTail = () => createTail({ database, notifier, log: createLog("silent") });
const tail = owned.use(await newTail());

/** The numbers of nodes by rack. */
const countStream = (parts: { readonly database: Database; readonly tail: typeof tail }) =>
  answerStream(parts, {
    key: "by rack",
    read: (reader) => nodeGroups(reader, { filter: undefined, by: [{ label: "rack" }], first: 100 }),
  });

/** The database with a reader whose statements are counted, or fail. */
function counted(): { readonly database: Database; statements: number; fails: boolean } {
  const state = { statements: 0, fails: false };
  const reader = new Proxy(database.reader, {
    get(target, name) {
      if (name === "execute") {
        state.statements += 1;
        if (state.fails) throw new Error("The database is away.");
      }
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  return Object.assign(state, { database: { ...database, reader } });
}

async function nextOf(stream: AsyncIterableIterator<NodeGroups>): Promise<Record<string, number>> {
  const { value, done } = (await stream.next()) as IteratorResult<NodeGroups, undefined>;
  if (done) throw new Error("The stream has ended.");
  return Object.fromEntries(value.groups.map(({ values, nodeCount }) => [String(values[0]), nodeCount]));
}

const setRack = (name: string, rack: string) =>
  sql`update nodes set labels = ${sql.json({ rack })} where name = ${name}`;

test("a count stream begins with the present counts and emits each change, at most once a second [R-531]", async () => {
  const [one, two] = await ostler.aNode().times(2);
  await setRack(one?.name ?? "", "1");
  await setRack(two?.name ?? "", "1");
  const stream = countStream({ database, tail });
  expect(await nextOf(stream)).toEqual({ "1": 2 });
  const startedAt = performance.now();
  await setRack(two?.name ?? "", "2");
  expect(await nextOf(stream)).toEqual({ "1": 1, "2": 1 });
  expect(performance.now() - startedAt).toBeGreaterThan(900);
  await setRack(one?.name ?? "", "2");
  await setRack(one?.name ?? "", "3");
  expect(await nextOf(stream)).toEqual({ "2": 1, "3": 1 });
  await stream.return?.();
});

test("equal count streams share their reads, and none is read once all have left [R-532]", async () => {
  const given = counted();
  const streams = Array.from({ length: 50 }, () => countStream({ database: given.database, tail }));
  const first = await Promise.all(streams.map(nextOf));
  expect(new Set(first.map((groups) => JSON.stringify(groups))).size).toBe(1);
  expect(given.statements).toBe(1);
  const [name = ""] = (await ostler.aNode().times(1)).map((node) => node.name);
  await setRack(name, "shared");
  const second = await Promise.all(streams.map(nextOf));
  for (const groups of second) expect(groups).toMatchObject({ shared: 1 });
  // The change was committed in two parts, registration and label: one or two updates.
  expect(given.statements).toBeLessThan(5);
  for (const stream of streams) await stream.return?.();
  const other = countStream({ database, tail });
  const seen = given.statements;
  await nextOf(other);
  await setRack(name, "later");
  await nextOf(other);
  expect(given.statements).toBe(seen);
  await other.return?.();
});

test("a count stream ends when the process shuts down, and another one begins with the present counts [R-531]", async () => {
  const leaving = await newTail();
  const stream = countStream({ database, tail: leaving });
  const present = await nextOf(stream);
  const end = stream.next();
  await leaving[Symbol.asyncDispose]();
  expect(await end).toEqual({ done: true, value: undefined });
  const again = countStream({ database, tail });
  expect(await nextOf(again)).toEqual(present);
  await again.return?.();
});

test("an error of a count ends its streams, and a later stream counts again", async () => {
  const given = counted();
  given.fails = true;
  const failed = countStream({ database: given.database, tail });
  await expect(failed.next()).rejects.toThrow("The database is away.");
  given.fails = false;
  const again = countStream({ database: given.database, tail });
  expect(Object.keys(await nextOf(again)).length).toBeGreaterThan(0);
  await again.return?.();
});

test("a count that could not be read for ten seconds left later streams silent for a minute and a half", async () => {
  const given = counted();
  const now = performance.now.bind(performance);
  const reader = new Proxy(given.database.reader, {
    get(target, name) {
      if (name === "execute") vi.spyOn(performance, "now").mockImplementation(() => now() + 10_000);
      return Reflect.get(target, name) as unknown;
    },
  });
  given.fails = true;
  const hanging = { ...given.database, reader };
  try {
    await expect(countStream({ database: hanging, tail }).next()).rejects.toThrow("The database is away.");
    given.fails = false;
    const again = countStream({ database: hanging, tail });
    expect(Object.keys(await nextOf(again)).length).toBeGreaterThan(0);
    await again.return?.();
  } finally {
    vi.restoreAllMocks();
  }
});

test("a read that took long delays the next one by 15 seconds, not by nine times its duration [R-1323]", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  let reads = 0;
  const read = async () => {
    reads += 1;
    await new Promise((resolve) => setTimeout(resolve, 20_000));
    return { reads, cursor: { position: 0, at: null } };
  };
  const stream = answerStream({ database: { ...database }, tail }, { key: "slow", read });
  try {
    const first = stream.next();
    await vi.advanceTimersByTimeAsync(20_000);
    expect((await first).value).toMatchObject({ reads: 1 });
    const second = stream.next();
    await vi.advanceTimersByTimeAsync(14_000);
    expect(reads).toBe(1);
    await vi.advanceTimersByTimeAsync(21_000);
    expect((await second).value).toMatchObject({ reads: 2 });
  } finally {
    await stream.return?.();
    vi.useRealTimers();
  }
});
