/**
 * postgres.js 3.4.9 with its default `max_pipeline`: a BEGIN that fills the pipeline of a connection leaves that
 * connection in an open transaction in the pool, and what it acknowledges afterwards is lost (its issues 823, 1189,
 * 1210). These tests fail when src/store/postgres/connect.ts leaves the option out.
 */
import { sql } from "drizzle-orm";
import { afterAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/store/postgres/database.ts";
import { testDatabase } from "../support/database.ts";

const given = await testDatabase();
afterAll(() => given[Symbol.asyncDispose]());
await given.sql`create table kept (line int, id int, primary key (line, id))`;

/** Lets every request reach the pool, and no answer return. */
async function handOver(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
}

describe("transaction behind a series of queries", () => {
  // Around the default of 100 for each of two connections: with it, 200 and 201 fail.
  test.each([199, 200, 201, 202])(
    "transaction behind %i queries leaves no connection in an open transaction, and no acknowledged write is lost",
    async (length) => {
      await using database = await openDatabase({ connection: given.connection, connectionsMax: 2 });
      const { reader } = database;
      // Queries that wait until a connection is open are divided by chance, and its pipeline is seldom just full.
      await Promise.all([1, 2].map(async () => reader.execute(sql`select pg_sleep(0.05)`)));
      const line = Array.from({ length }, async () => reader.execute(sql`select 1`));
      await handOver();
      const inside = database.transaction(async (tx) => {
        await tx.execute(sql`insert into kept values (${length}, 0)`);
      });
      await Promise.all([...line, inside]);
      for (let id = 1; id <= 20; id += 1) await reader.execute(sql`insert into kept values (${length}, ${id})`);
      expect(await given.sql`select count(*)::int from kept where line = ${length}`).toEqual([{ count: 21 }]);
      expect(
        await given.sql`select query from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`,
      ).toHaveLength(0);
    },
  );
});
