/** Opening, migrating and transactions: the base of every query of the store. */
import { randomUUID } from "node:crypto";
import { globSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { sql } from "drizzle-orm";
import { describe, expect, test, onTestFinished, vi } from "vitest";
import { createNotifier } from "../../src/store/postgres/notifier.ts";
import { connectionsTaken, migrateDatabase, openDatabase } from "../../src/store/postgres/database.ts";
import { hashOf } from "../../src/runtime/canonical-json.ts";
import { isConnectionLoss, sqlState, violatedConstraint } from "../../src/store/postgres/connection-errors.ts";
import { plans } from "../../src/store/tables.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const MIGRATIONS = globSync("*/migration.sql", {
  cwd: fileURLToPath(new URL("../../drizzle", import.meta.url)),
}).length;

describe("migration of a database", () => {
  test("migration of a database runs once, however many processes start at the same time", async () => {
    await using empty = await testDatabase({ empty: true });
    await Promise.all(Array.from({ length: 8 }, () => migrateDatabase(empty.connection)));
    expect(await empty.sql`select count(*)::int from drizzle.__drizzle_migrations`).toEqual([{ count: MIGRATIONS }]);
    expect(await empty.sql`select position::int from feed_position`).toEqual([{ position: 0 }]);
  });

  test("migration of a current database changes nothing", async () => {
    await using filled = await testDatabase();
    await migrateDatabase(filled.connection);
    expect(await filled.sql`select count(*)::int from drizzle.__drizzle_migrations`).toEqual([{ count: MIGRATIONS }]);
  });
});

describe("transaction", () => {
  test("transaction that throws leaves no trace", async () => {
    await using given = await testDatabase();
    await using database = await openDatabase({ connection: given.connection });
    await given.sql`create table t (id int)`;
    const failed = database.transaction(async (tx) => {
      await tx.execute(sql`insert into t values (1)`);
      throw new Error("no");
    });
    await expect(failed).rejects.toThrow("no");
    expect(await given.sql`select * from t`).toHaveLength(0);
  });

  test("transaction that runs into a deadlock is retried", async () => {
    await using given = await testDatabase();
    await using database = await openDatabase({ connection: given.connection });
    await given.sql`create table t (id int primary key, n int default 0)`;
    await given.sql`insert into t values (1), (2)`;
    let tries = 0;
    const bothHold = Promise.withResolvers<void>();
    let holding = 0;
    const crossing = ([first, second]: readonly [number, number]) =>
      database.transaction(async (tx) => {
        tries += 1;
        await tx.execute(sql`update t set n = n + 1 where id = ${first}`);
        if ((holding += 1) === 2) bothHold.resolve();
        await bothHold.promise;
        await tx.execute(sql`update t set n = n + 1 where id = ${second}`);
      });
    await Promise.all([crossing([1, 2]), crossing([2, 1])]);
    expect(tries).toBeGreaterThan(2);
    expect(await given.sql`select n from t`).toEqual([{ n: 2 }, { n: 2 }]);
  });

  test("transaction that violates a constraint reports its name and code", async () => {
    await using given = await testDatabase();
    await using database = await openDatabase({ connection: given.connection });
    const clash = database.transaction((tx) => tx.execute(sql`insert into plans values ('a', '{}'), ('a', '{}')`));
    const error: unknown = await clash.catch((thrown: unknown) => thrown);
    expect([violatedConstraint(error), sqlState(error), isConnectionLoss(error)]).toEqual([
      "plans_pkey",
      "23505",
      false,
    ]);
  });
});

test("snapshot transaction sees one moment and cannot write", async () => {
  await using given = await testDatabase();
  await using database = await openDatabase({ connection: given.connection });
  const counts = await database.snapshot(async (reader) => {
    const first = await reader.$count(plans);
    await given.sql`insert into plans values ('a', '{}')`;
    return [first, await reader.$count(plans)];
  });
  expect(counts).toEqual([0, 0]);
  const written: unknown = await database
    .snapshot((reader) => reader.execute(sql`insert into plans values ('b', '{}')`))
    .catch((thrown: unknown) => thrown);
  expect(sqlState(written)).toBe("25006");
  expect(await database.reader.$count(plans)).toBe(1);
});

test("transaction that is idle between two statements is ended after a limit", async () => {
  await using given = await testDatabase();
  await using database = await openDatabase({ connection: given.connection, connectionsMax: 4 });
  const idle = async (reader: Pick<typeof database.reader, "execute">) =>
    [
      ...(await reader.execute<{ idle: string }>(
        "select current_setting('idle_in_transaction_session_timeout') as idle",
      )),
    ][0]?.idle;
  expect(await database.transaction(idle)).toBe("30s");
});

test("a new connection sends no statement of its own: a read of its types, lost with it, would be an error without a receiver", async () => {
  await using given = await testDatabase();
  const texts: string[] = [];
  await using database = await openDatabase({ connection: given.connection, onStatement: (text) => texts.push(text) });
  const [row] = await database.bounded.execute(sql`select array['a', null] as words, array[1.5::real] as numbers`);
  expect(row).toEqual({ words: ["a", null], numbers: [1.5] });
  expect(texts).toHaveLength(1);
});

test("settings that the code relies on hold in every session, whatever the defaults of the role and the database are [R-781]", async () => {
  await using given = await testDatabase();
  const [row] = await given.sql`select current_database() as name`;
  const name = given.sql(String(row?.["name"]));
  const hostile = {
    default_transaction_isolation: "serializable",
    default_transaction_read_only: "on",
    lock_timeout: "1234",
    transaction_timeout: "5s",
    DateStyle: "German",
    extra_float_digits: "-15",
    array_nulls: "off",
    gin_fuzzy_search_limit: "1",
    exit_on_error: "on",
    synchronous_commit: "off",
  };
  for (const [setting, value] of Object.entries(hostile))
    await given.sql.unsafe(`alter database "${String(row?.["name"])}" set ${setting} = '${value}'`);
  await using database = await openDatabase({ connection: given.connection });
  const shown = sql`select current_setting('transaction_isolation') as isolation, current_setting('transaction_read_only') as only,
    now()::date::text as today, current_setting('lock_timeout') as wait, current_setting('transaction_timeout') as whole,
    123456::float8 as position, '{NULL}'::text[] as nothing, current_setting('gin_fuzzy_search_limit') as fuzzy,
    current_setting('exit_on_error') as exits, current_setting('synchronous_commit') as commit`;
  for (const rows of [
    await database.reader.execute(shown),
    await database.bounded.execute(shown),
    await database.claims.execute(shown),
  ])
    expect([...rows]).toMatchObject([
      {
        isolation: "read committed",
        only: "off",
        today: expect.stringMatching(/^\d{4}-/),
        wait: "0",
        whole: "0",
        position: 123_456,
        nothing: [null],
        fuzzy: "0",
        exits: "off",
        commit: "on",
      },
    ]);
  await given.sql`alter database ${name} reset all`;
});

test.each(["LATIN1", "SQL_ASCII"])(
  "database with the encoding %s is refused with the remedy [R-781]",
  async (encoding) => {
    await using given = await testDatabase();
    const name = `encoded_${randomUUID()}`;
    await given.sql.unsafe(`create database "${name}" encoding '${encoding}' locale 'C' template template0`);
    try {
      const connection = { url: given.url.replace(/[^/]+$/, name) };
      await expect(openDatabase({ connection })).rejects.toThrow(`encoding UTF8; this one has ${encoding}`);
    } finally {
      await given.sql`drop database ${given.sql(name)} with (force)`;
    }
  },
);

test("database whose triggers do not run is refused with the remedy [R-781]", async () => {
  await using given = await testDatabase();
  const [row] = await given.sql`select current_database() as name`;
  const name = given.sql(String(row?.["name"]));
  await given.sql`alter database ${name} set session_replication_role = replica`;
  await expect(openDatabase({ connection: given.connection })).rejects.toThrow(
    "set session_replication_role = 'origin'",
  );
  await given.sql`alter database ${name} reset all`;
});

test("connections that the database allows are those that the pools are compared with", async () => {
  await using given = await testDatabase();
  const [row] = await given.sql`select current_database() as name`;
  const name = given.sql(String(row?.["name"]));
  await given.sql`alter database ${name} connection limit 7`;
  await using database = await openDatabase({ connection: given.connection });
  expect(database.serverConnectionsMax).toBe(7);
  await given.sql`alter database ${name} connection limit -1`;
});

test("pooler is not detected without one", async () => {
  await using given = await testDatabase();
  await using database = await openDatabase({ connection: given.connection, connectionsMax: 20 });
  expect([database.isPooled, connectionsTaken(database, true), connectionsTaken(database, false)]).toEqual([
    false,
    37,
    23,
  ]);
  expect(database.serverConnectionsMax).toBeGreaterThan(10);
});

test("database that is unavailable is distinguished from a query that is wrong", async () => {
  const error: unknown = await openDatabase({ connection: { url: "postgres://ostler@127.0.0.1:1/none" } }).catch(
    (thrown: unknown) => thrown,
  );
  expect(isConnectionLoss(error)).toBe(true);
});

test("notifier reaches its own process and others, and again after its connection was lost", async () => {
  await using given = await testDatabase();
  await using one = await openDatabase({ connection: given.connection, connectionsMax: 2 });
  await using two = await openDatabase({ connection: given.connection, connectionsMax: 2 });
  await using here = await createNotifier(one, () => {});
  await using there = await createNotifier(two, () => {});
  const heard = { here: 0, there: 0 };
  here.subscribe(() => (heard.here += 1));
  there.subscribe(() => (heard.there += 1));
  here.notify();
  await eventually("both hear the notifier", () => heard.here > 0 && heard.there > 0);
  const before = heard.there;
  expect(heard.here).toBeGreaterThan(0);
  await given.sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query ilike 'listen%'`;
  await eventually("the loss of the connection rings, for what was missed", () => heard.there > before);
  const restored = heard.there;
  await eventually("a ring is heard again", () => {
    here.notify();
    return heard.there > restored;
  });
});

test("notifier sends the first notification at once, and one for all that follow within 20 ms", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const sent: string[] = [];
  const listening: AsyncDisposable = { [Symbol.asyncDispose]: async () => {} };
  {
    await using notifier = await createNotifier(
      { listen: async () => listening, notify: async (channel) => void sent.push(channel) },
      () => {},
    );
    notifier.notify();
    expect(sent).toHaveLength(1);
    for (let commit = 0; commit < 10; commit += 1) notifier.notify();
    expect(sent).toHaveLength(1);
    vi.advanceTimersByTime(20);
    expect(sent).toHaveLength(2);
    notifier.notify();
  }
  expect(sent, "what is due is sent when the process ends").toHaveLength(3);
});

test("notification that is sent just before its process ends reaches the others", async () => {
  await using given = await testDatabase();
  await using one = await openDatabase({ connection: given.connection, connectionsMax: 2 });
  await using two = await openDatabase({ connection: given.connection, connectionsMax: 2 });
  const leaving = await createNotifier(one, () => {});
  await using staying = await createNotifier(two, () => {});
  let heard = 0;
  staying.subscribe(() => (heard += 1));
  staying.notify();
  await eventually("it receives its own notification and the one of its start", () => heard > 0);
  heard = 0;
  leaving.notify();
  await leaving[Symbol.asyncDispose]();
  await eventually("it is heard", () => heard > 0);
});

describe("hash of a value", () => {
  test.each([
    ["the order of keys", { a: 1, b: { c: 2, d: 3 } }, { b: { d: 3, c: 2 }, a: 1 }],
    ["undefined members", { a: 1, b: undefined }, { a: 1 }],
    ["undefined or null", undefined, null],
  ])("hash of a value does not depend on %s", (_what, one, other) => {
    expect(hashOf(one)).toBe(hashOf(other));
  });

  test.each([
    ["values", { a: 1 }, { a: 2 }],
    ["types", { a: 1 }, { a: "1" }],
    ["the order of a list", [1, 2], [2, 1]],
    ["the nesting", { a: { b: 1 } }, { a: 1, b: 1 }],
    ["keys that need quotes", { 'a":1,"b': 1 }, { a: 1, b: 1 }],
    ["null in place of absent", { a: null }, {}],
    ["an empty list in place of an empty object", [], {}],
  ])("hash of a value depends on %s", (_what, one, other) => {
    expect(hashOf(one)).not.toBe(hashOf(other));
  });
});
