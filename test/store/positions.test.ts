/** Positions of the log follow the order of commits without gaps, with many writers and many rollbacks. */
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { isConnectionLoss } from "../../src/store/postgres/connection-errors.ts";
import { openDatabase } from "../../src/store/postgres/database.ts";
import type { Tx } from "../../src/store/postgres/database.ts";
import type { NumberedRequest } from "../../src/store/postgres/pagination.ts";
import { changeClaimedNodes, insertNodes } from "../../src/store/nodes/nodes.ts";
import {
  appendTransitions,
  BEFORE_FIRST,
  checkCursor,
  newestCursor,
  transitionsAfter,
  transitionsPage,
} from "../../src/store/log/transitions.ts";
import type { NewTransition } from "../../src/store/log/transitions.ts";
import { chance } from "../durability/lab.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { randomOfTest } from "../support/random.ts";

const given = await testDatabase();
const database = await openDatabase({ connection: given.connection, connectionsMax: 14 });
afterAll(async () => {
  await database[Symbol.asyncDispose]();
  await given[Symbol.asyncDispose]();
});

const newestPosition = async () => (await newestCursor(database.reader)).position;

/** Positions of the oldest and of the newest transition that are kept. */
async function keptPositions() {
  const { earliest, newest } = await checkCursor(database.reader, BEFORE_FIRST);
  return { oldest: earliest.position + 1, newest };
}

const row = (nodeId: string, sequence: number, more: Partial<NewTransition> = {}): NewTransition => ({
  nodeId,
  nodeName: "n",
  project: "default",
  fromState: sequence === 1 ? null : "ENROLLED",
  toState: "ENROLLED",
  event: sequence === 1 ? "register" : "recover",
  sequence,
  nodeRevision: sequence,
  target: null,
  operationId: null,
  runId: null,
  step: null,
  actor: "test",
  reason: null,
  ...more,
});

/** A transition of a node that leaves its state. */
async function again(tx: Tx, id: string): Promise<void> {
  await changeClaimedNodes(tx, [{ id, state: "ENROLLED", change: { state: "ENROLLED" } }]);
}

async function register(tx: Tx, ids: readonly string[]): Promise<void> {
  await insertNodes(
    tx,
    ids.map((id) => ({
      id,
      name: id,
      project: "default",
      state: "ENROLLED" as const,
      driver: "fake",
      borrowed: {},
      settings: {},
      labels: {},
      transitionCount: 1,
    })),
  );
  await appendTransitions(
    tx,
    ids.map((id) => row(id, 1)),
  );
}

const WRITERS = 12;
const TRANSACTIONS = 25;

test("positions: a reader never sees a new row at or below a position that it has seen, and sees every row", async () => {
  const random = randomOfTest();
  const nodes = Array.from({ length: WRITERS }, () => randomUUID());
  await database.transaction((tx) => register(tx, nodes));
  let writing = true;
  let rolledBack = 0;
  let givenUp = 0;

  async function write(writer: number): Promise<void> {
    const id = nodes[writer] ?? "";
    const ownRandom = chance(random.whole(0, 999_999));
    for (let turn = 0, sequence = 2; turn < TRANSACTIONS; turn += 1) {
      const rows = 1 + ((writer + turn) % 3);
      const givesUp = (writer * 7 + turn * 3) % 4 === 0;
      givenUp += givesUp ? 1 : 0;
      const done = database.transaction(async (tx) => {
        for (let index = 0; index < rows; index += 1) await again(tx, id);
        await delay(ownRandom.next() * 2);
        await appendTransitions(
          tx,
          Array.from({ length: rows }, (_, index) => row(id, sequence + index)),
        );
        if (givesUp) throw new Error("gives up");
      });
      const committed = await done.then(
        () => true,
        () => false,
      );
      if (committed) sequence += rows;
      else rolledBack += 1;
    }
  }

  async function read(): Promise<number[]> {
    const seen: number[] = [];
    for (;;) {
      const last = !writing;
      const found = await transitionsAfter(database.reader, { after: seen.at(-1) ?? 0, limit: 7 });
      seen.push(...found.map(({ position }) => position));
      if (last && found.length === 0) return seen;
    }
  }

  const readers = [read(), read()];
  await Promise.all(nodes.map((_, writer) => write(writer)));
  writing = false;
  const newest = await newestPosition();
  for (const seen of await Promise.all(readers))
    expect(seen).toEqual(Array.from({ length: newest }, (_, index) => index + 1));
  expect(givenUp).toBeGreaterThan(WRITERS);
  expect(rolledBack).toBe(givenUp);
});

test("positions of rows that are appended together keep their order, and a rollback leaves no gap", async () => {
  const id = randomUUID();
  const before = await newestPosition();
  await database.transaction((tx) => register(tx, [id]));
  await expect(
    database.transaction(async (tx) => {
      await appendTransitions(tx, [row(id, 2), row(id, 3)]);
      throw new Error("gives up");
    }),
  ).rejects.toThrow("gives up");
  await database.transaction(async (tx) => {
    for (let index = 0; index < 3; index += 1) await again(tx, id);
    await appendTransitions(tx, [
      row(id, 2, { reason: "first" }),
      row(id, 3, { reason: 'it\'s "second"' }),
      row(id, 4, { reason: null }),
    ]);
  });
  const rows = await transitionsAfter(database.reader, { after: before, limit: 10 });
  expect(rows.map(({ position, reason }) => [position - before, reason])).toEqual([
    [1, null],
    [2, "first"],
    [3, 'it\'s "second"'],
    [4, null],
  ]);
});

test("log is read by pages, forward and backward, for a node, up to a position", async () => {
  const [one, two] = [randomUUID(), randomUUID()];
  const before = await newestPosition();
  await database.transaction((tx) => register(tx, [one, two]));
  const positions = async (found: Promise<readonly { position: number }[]>) =>
    (await found).map(({ position }) => position - before);
  expect(await positions(transitionsAfter(database.reader, { after: before, limit: 1 }))).toEqual([1]);
  expect(await positions(transitionsAfter(database.reader, { after: before, until: before + 1, limit: 9 }))).toEqual([
    1,
  ]);
  expect(
    await positions(transitionsAfter(database.reader, { after: 0, limit: 9, filter: { nodeIds: [two] } })),
  ).toEqual([2]);
  const page = async (request: NumberedRequest) => (await transitionsPage(database.reader, {}, request)).rows;
  expect(await positions(page({ limit: 2, fromEnd: true }))).toEqual([1, 2]);
  expect(await positions(page({ limit: 1, before: before + 2, fromEnd: true }))).toEqual([1]);
});

test("oldest position is that of the first row that is still kept", async () => {
  const newest = await newestPosition();
  expect(await keptPositions()).toEqual({ oldest: 1, newest });
  await given.sql`delete from transitions where position <= 3`;
  expect(await keptPositions()).toEqual({ oldest: 4, newest });
  await given.sql`delete from transitions`;
  expect(await keptPositions()).toEqual({ oldest: newest + 1, newest });
});

test("replica that sleeps before its commit blocks the transitions of others for five seconds at most [R-222]", async () => {
  const [sleeper, other] = [randomUUID(), randomUUID()];
  const appended = Promise.withResolvers<void>();
  const asleep = Promise.withResolvers<void>();
  const sleeping = database.transaction(async (tx) => {
    await register(tx, [sleeper]);
    appended.resolve();
    await asleep.promise;
  });
  const ended = sleeping.catch(isConnectionLoss);
  await appended.promise;
  const before = performance.now();
  await database.transaction((tx) => register(tx, [other]));
  expect(performance.now() - before).toBeLessThan(15_000);
  asleep.resolve();
  expect(await ended).toBe(true);
  const filter = { nodeIds: [sleeper, other] };
  const written = await transitionsAfter(database.reader, { after: 0, limit: 9, filter });
  expect(written.map(({ nodeId }) => nodeId)).toEqual([other]);
});

test("newest cursor of an empty log is not expired while the log receives its first transitions", async () => {
  await given.sql`delete from transitions`;
  const before = await newestPosition();
  const locked = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const writing = database.transaction(async (tx) => {
    // Every read of the position waits for this lock, until the first transition is committed.
    await tx.execute("lock table feed_position in access exclusive mode");
    locked.resolve();
    await asked.promise;
    await register(tx, [randomUUID()]);
  });
  await locked.promise;
  const reading = keptPositions();
  await eventually("the read waits", async () => {
    const [locks] = await given.sql`select count(*)::int as waiting from pg_locks where not granted`;
    return locks?.["waiting"] === 1;
  });
  asked.resolve();
  await writing;
  expect(await reading).toEqual({ oldest: before + 1, newest: before + 1 });
});
