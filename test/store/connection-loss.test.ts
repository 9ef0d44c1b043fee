/**
 * Connections that are cut in the middle of transactions. postgres.js 3.4.9 then writes its ROLLBACK to a socket that is
 * gone, which nobody can catch: the process died of it, or a slot of the pool hung for good. These tests fail so when
 * src/store/database.ts does not keep transactions from their lost connections.
 */
import { setImmediate as turn } from "node:timers/promises";
import { sql } from "drizzle-orm";
import { afterAll, expect, test } from "vitest";
import { isConnectionLoss, openDatabase } from "../../src/store/database.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const given = await testDatabase();
afterAll(() => given[Symbol.asyncDispose]());
await given.sql`create table kept (round int, id int)`;

const CONNECTIONS = 4;

test.each([0, 1, 2, 3, 4, 5, 6, 7])("a cut in the middle of transactions fails them whole, and nothing else (turn %i)", async (after) => {
  await using database = await openDatabase({ connection: given.connection, connectionsMax: CONNECTIONS });
  // Every connection of the pool is made before the cut.
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => database.reader.execute(sql`select pg_sleep(0.05)`)));
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
  await eventually("the transactions are at work", () => statements > 40 + after);
  await given.sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`;
  for (const end of await ends) expect(end).toMatchObject({ status: "rejected" });
  for (const transaction of transactions) expect(isConnectionLoss(await transaction.catch((thrown: unknown) => thrown))).toBe(true);
  expect(await given.sql`select * from kept where round = ${after}`).toHaveLength(0);
  // A connection that was lost unnoticed costs the query that finds out, and no later one.
  await Promise.allSettled(Array.from({ length: CONNECTIONS }, async () => database.reader.execute(sql`select 1`)));
  await database.transaction((tx) => tx.execute(sql`insert into kept values (${after}, 99)`));
  expect(await given.sql`select id from kept where round = ${after}`).toEqual([{ id: 99 }]);
});
