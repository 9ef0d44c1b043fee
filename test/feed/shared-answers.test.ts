/** Streams of answers, with counts as the question: the present ones, then each change, with shared reads. */
import { afterAll, expect, test, vi } from "vitest";
import { SharedAnswers } from "../../src/feed/log/shared-answers.ts";
import type { Question } from "../../src/feed/log/shared-answers.ts";
import { createTail } from "../../src/feed/log/tail.ts";
import type { Tail } from "../../src/feed/log/tail.ts";
import { createLog } from "../../src/log.ts";
import { nodeGroups } from "../../src/store/nodes/node-counts.ts";
import type { NodeGroups } from "../../src/store/nodes/node-counts.ts";
import type { Reader } from "../../src/store/postgres/database.ts";
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
const readRacks: Question<NodeGroups>["read"] = (reader) =>
  nodeGroups(reader, { filter: undefined, by: [{ label: "rack" }], first: 100 });
const countStream = ({ answers }: Tail, read = readRacks) => answers.stream({ key: "by rack", read });

/** A count whose reads are counted, or fail. */
function countedReads() {
  const state = {
    reads: 0,
    fails: false,
    async read(reader: Reader) {
      if (state.fails) throw new Error("The database is away.");
      const racks = await readRacks(reader);
      state.reads += 1;
      return racks;
    },
  };
  return state;
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
  const stream = countStream(tail);
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
  const given = countedReads();
  const streams = Array.from({ length: 50 }, () => countStream(tail, given.read));
  const first = await Promise.all(streams.map(nextOf));
  expect(new Set(first.map((groups) => JSON.stringify(groups))).size).toBe(1);
  expect(given.reads).toBe(1);
  const [name = ""] = (await ostler.aNode().times(1)).map((node) => node.name);
  await setRack(name, "shared");
  const second = await Promise.all(streams.map(nextOf));
  for (const groups of second) expect(groups).toMatchObject({ shared: 1 });
  // The change was committed in two parts, registration and label: one or two updates.
  expect(given.reads).toBeLessThan(5);
  for (const stream of streams) await stream.return?.();
  const other = countStream(tail);
  const seen = given.reads;
  await nextOf(other);
  await setRack(name, "later");
  await nextOf(other);
  expect(given.reads).toBe(seen);
  await other.return?.();
});

test("a count stream ends when the process shuts down, and another one begins with the present counts [R-531]", async () => {
  const leaving = await newTail();
  const stream = countStream(leaving);
  const present = await nextOf(stream);
  const end = stream.next();
  await leaving[Symbol.asyncDispose]();
  expect(await end).toEqual({ done: true, value: undefined });
  const again = countStream(tail);
  expect(await nextOf(again)).toEqual(present);
  await again.return?.();
});

test("an error of a count ends its streams, and a later stream counts again", async () => {
  const given = countedReads();
  given.fails = true;
  const failed = countStream(tail, given.read);
  await expect(failed.next()).rejects.toThrow("The database is away.");
  given.fails = false;
  const again = countStream(tail, given.read);
  expect(Object.keys(await nextOf(again)).length).toBeGreaterThan(0);
  await again.return?.();
});

test("a count stream begins also while no change can be numbered [R-531]", async () => {
  await using own = await newTail();
  const locked = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const holding = sql.begin(async (tx) => {
    await tx`select from change_position for update`;
    locked.resolve();
    await release.promise;
  });
  await locked.promise;
  const stream = countStream(own);
  expect(Object.keys(await nextOf(stream)).length).toBeGreaterThan(0);
  release.resolve();
  await holding;
  await stream.return?.();
});

test("while nothing changes, only what changes with time is read, every ten seconds [R-1399]", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const listeners = new Set<() => void>();
  const head = {
    position: 7,
    isClosed: false,
    onAdvance(listener: () => void) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
  const answers = new SharedAnswers(database.reader, head);
  const reads = { counts: 0, timed: 0 };
  const begin = (key: keyof typeof reads, isTimed: boolean) => {
    const read = async () => ({ reads: (reads[key] += 1), cursor: { position: 0, at: null } });
    const stream = answers.stream({ key, isTimed, read });
    void stream.next();
    return stream;
  };
  const streams = [begin("counts", false), begin("timed", true)];
  try {
    await vi.advanceTimersByTimeAsync(9_900);
    expect(reads).toEqual({ counts: 1, timed: 1 });
    await vi.advanceTimersByTimeAsync(40_200);
    expect(reads).toEqual({ counts: 1, timed: 6 });
    head.position += 1;
    for (const listener of listeners) listener();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(reads).toEqual({ counts: 2, timed: 7 });
  } finally {
    for (const stream of streams) await stream.return?.();
    vi.useRealTimers();
  }
  expect(listeners.size).toBe(0);
});

test("a count that could not be read for ten seconds left later streams silent for a minute and a half", async () => {
  await using own = await newTail();
  const now = performance.now.bind(performance);
  try {
    const hanging = countStream(own, () => {
      vi.spyOn(performance, "now").mockImplementation(() => now() + 10_000);
      throw new Error("The database is away.");
    });
    await expect(hanging.next()).rejects.toThrow("The database is away.");
    const again = countStream(own);
    expect(Object.keys(await nextOf(again)).length).toBeGreaterThan(0);
    await again.return?.();
  } finally {
    vi.restoreAllMocks();
  }
});

test("a read that took long delays the next one by 15 seconds, not by nine times its duration [R-1323]", async () => {
  await using own = await newTail();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  let reads = 0;
  const read = async () => {
    reads += 1;
    await new Promise((resolve) => setTimeout(resolve, 20_000));
    return { reads, cursor: { position: 0, at: null } };
  };
  const stream = own.answers.stream({ key: "slow", isTimed: true, read });
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
