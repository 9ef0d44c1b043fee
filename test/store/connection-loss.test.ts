/**
 * Connections that are lost during transactions. postgres.js 3.4.9 then writes COMMIT or ROLLBACK to a closed socket,
 * which the caller cannot catch: the process dies, or a slot of the pool hangs indefinitely. Or it writes to the
 * connection that replaced the lost one, and ends another transaction there. These tests fail in that way if
 * src/store/postgres/database.ts does not keep transactions from their lost connections.
 */
import { setImmediate as turn } from "node:timers/promises";
import { sql } from "drizzle-orm";
import { afterAll, describe, expect, test } from "vitest";
import { connect, disposable } from "../../src/store/postgres/connect.ts";
import type { Tx } from "../../src/store/postgres/connect.ts";
import { isConnectionLoss } from "../../src/store/postgres/connection-errors.ts";
import { lazySnapshot } from "../../src/store/postgres/lazy-snapshot.ts";
import { openDatabase } from "../../src/store/postgres/database.ts";
import type { Database } from "../../src/store/postgres/database.ts";
import { cutter } from "../support/cutter.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const given = await testDatabase();
afterAll(() => given[Symbol.asyncDispose]());
await given.sql`create table kept (round int, id int)`;

const CONNECTIONS = 4;
const closeAll = () =>
  given.sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`;

test.each([0, 1, 2, 3, 4, 5, 6, 7])(
  "connection loss during transactions fails exactly those transactions (round %i)",
  async (after) => {
    await using database = await openDatabase({ connection: given.connection, connectionsMax: CONNECTIONS });
    // Every connection of the pool is open before the loss.
    await Promise.all(
      Array.from({ length: CONNECTIONS }, async () => database.reader.execute(sql`select pg_sleep(0.05)`)),
    );
    let statements = 0;
    const transactions = Array.from({ length: CONNECTIONS }, (_, id) =>
      database.transaction(async (tx) => {
        await tx.execute(sql`insert into kept values (${after}, ${id})`);
        for (;;) {
          statements += 1;
          await tx.execute(sql`select 1`);
          for (let wait = 0; wait < id; wait += 1) await turn();
        }
      }),
    );
    const ends = Promise.allSettled(transactions);
    await eventually("the transactions are running", () => statements > 40 + after);
    await closeAll();
    for (const end of await ends) expect(end).toMatchObject({ status: "rejected" });
    for (const transaction of transactions)
      expect(isConnectionLoss(await transaction.catch((thrown: unknown) => thrown))).toBe(true);
    expect(await given.sql`select * from kept where round = ${after}`).toHaveLength(0);
    // A connection that was lost while idle costs the query that finds out, and no later one.
    await Promise.allSettled(Array.from({ length: CONNECTIONS }, async () => database.reader.execute(sql`select 1`)));
    await database.transaction((tx) => tx.execute(sql`insert into kept values (${after}, 99)`));
    expect(await given.sql`select id from kept where round = ${after}`).toEqual([{ id: 99 }]);
  },
);

describe("connection loss while a transaction does not wait for the database", () => {
  const loseWhileBusy = async (database: Database, end: (tx: Tx) => unknown) => {
    const proceed = Promise.withResolvers<void>();
    const working = Promise.withResolvers<void>();
    const hasEnded = Promise.withResolvers<void>();
    const error = database
      .transaction(async (tx) => {
        await tx.execute(sql`select 1`);
        working.resolve();
        await proceed.promise;
        // Nothing is written before this turn of the event loop is over.
        setImmediate(setImmediate, hasEnded.resolve);
        return end(tx);
      })
      .catch((thrown: unknown) => thrown);
    await working.promise;
    await closeAll();
    expect(isConnectionLoss(await error)).toBe(true);
    return () => {
      proceed.resolve();
      return hasEnded.promise;
    };
  };
  const ends = [
    ["done", () => "done"],
    ["refused", () => Promise.reject(new Error("refused"))],
    ["continued", (tx: Tx) => tx.execute(sql`insert into kept values (101, 1)`)],
  ] as const;

  test.each(ends)(
    "connection loss before a transaction is %s writes nothing to the closed connection",
    async (_how, end) => {
      await using database = await openDatabase({ connection: given.connection, connectionsMax: CONNECTIONS });
      const proceed = await loseWhileBusy(database, end);
      await proceed();
      await database.transaction((tx) => tx.execute(sql`select 1`));
    },
  );

  test.each(ends)(
    "connection loss before a transaction is %s ends no other transaction on the new connection",
    async (how, end) => {
      await using database = await openDatabase({ connection: given.connection, connectionsMax: 1 });
      const proceed = await loseWhileBusy(database, end);
      const other = database.transaction(async (tx) => {
        await tx.execute(sql`insert into kept values (100, 1)`);
        await proceed();
        const [row] = await tx.execute<{ count: number }>(
          sql`select count(*)::int as count from kept where round >= 100`,
        );
        expect(row?.count, `the transaction after one that was ${how}`).toBe(1);
        throw new Error("rolled back");
      });
      await expect(other).rejects.toThrow("rolled back");
      expect(await given.sql`select * from kept where round >= 100`).toHaveLength(0);
    },
  );
});

test("connection loss that the server reports to a transaction lets later statements connect again", async () => {
  // Without a watched socket, as for migrations: nothing repairs a connection with a write that waits.
  await using pool = disposable(connect(given.connection, { max: 1, prepare: false }));
  // Ends its own session before it returns a row.
  const lost = pool.begin((tx) =>
    tx.unsafe("do $$ begin perform pg_terminate_backend(pg_backend_pid()), pg_sleep(1); end $$"),
  );
  expect(isConnectionLoss(await lost.catch((thrown: unknown) => thrown))).toBe(true);
  // postgres.js reports the message of the server once more with the next statement.
  await expect(pool.unsafe("select 1")).rejects.toMatchObject({ code: "57P01" });
  expect([...(await pool.unsafe("select 1 as one"))]).toEqual([{ one: 1 }]);
});

test("connection loss by a reset, after which the snapshot of a request is closed at once, writes nothing more to that connection", async () => {
  await using way = await cutter(given.url);
  const url = new URL(given.url);
  url.host = new URL(way.url).host;
  await using pool = disposable(connect({ url: url.href }, { max: 1, prepare: false }));
  const { reader, close } = lazySnapshot(pool);
  const lost = reader.execute("select pg_sleep(60)").then(close, close);
  const running = () =>
    given.sql`select from pg_stat_activity where datname = current_database() and query like 'select pg_sleep(60)%'`;
  await eventually("the statement runs", async () => (await running()).length > 0);
  way.cut();
  await lost;
  expect([...(await pool.unsafe("select 1 as one"))]).toEqual([{ one: 1 }]);
  // The server does not notice the loss.
  await closeAll();
  // A statement that is never answered would keep the pool from ending.
  const began = performance.now();
  await pool.end({ timeout: 10 });
  expect(performance.now() - began).toBeLessThan(5_000);
});

test("connection loss of another connection fails a transaction that learned of it, and not the transaction on its own connection", async () => {
  await using database = await openDatabase({ connection: given.connection, connectionsMax: 1 });
  const pid = () =>
    database.transaction(
      async (tx) => [...(await tx.execute<{ pid: number }>("select pg_backend_pid() as pid"))][0]?.pid,
    );
  const before = await pid();
  const refused = Object.assign(new Error("sorry, too many clients already"), { code: "53300" });
  await expect(database.transaction(() => Promise.reject(refused))).rejects.toThrow("too many clients");
  expect(await pid()).toBe(before);
});

test("snapshot whose server is silent is lost a second after its timeout: one that is back later seems not to be slow [R-881]", async () => {
  await using way = await cutter(given.url);
  const url = new URL(given.url);
  url.host = new URL(way.url).host;
  await using database = await openDatabase({ connection: { url: url.href }, readSeconds: 0.1 });
  let resume = () => {};
  const began = performance.now();
  const lost: unknown = await database
    .snapshot(async (reader) => {
      await reader.execute("select 1");
      resume = way.stall();
      await reader.execute("select 2");
    })
    .catch((error: unknown) => error);
  resume();
  expect(isConnectionLoss(lost)).toBe(true);
  expect(performance.now() - began).toBeLessThan(4_500);
});
