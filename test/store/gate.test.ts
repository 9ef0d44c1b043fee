/** Bounded reads: their statements end in time, wait in order, and are not sent when they waited too long. */
import { sql as text } from "drizzle-orm";
import { afterAll, expect, test } from "vitest";
import { openDatabase, sqlState } from "../../src/store/database.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const parts = new AsyncDisposableStack();
const database = parts.use(await testDatabase());
/** Two connections for bounded reads. */
const opened = parts.use(await openDatabase({ connection: database.connection, connectionsMax: 4, readSeconds: 1 }));
const { bounded, reader } = opened;
afterAll(() => parts.disposeAsync());

const outcome = (read: PromiseLike<unknown>) => Promise.resolve(read).then(() => "read", (error: Error & { cause?: Error }) => sqlState(error) ?? error.cause?.name ?? error.name);
const atWork = async () => Number((await reader.execute<{ count: number }>("select count(*)::int as count from pg_stat_activity where datname = current_database() and state = 'active' and query like 'select pg_sleep%'"))[0]?.["count"]);

test("a statement that takes too long is cut, and its connection serves the next", async () => {
  expect(await outcome(bounded.execute("select pg_sleep(60)"))).toBe("57014");
  expect(await atWork()).toBe(0);
  expect(await outcome(bounded.execute("select 1"))).toBe("read");
});

test("no more run than there are connections, and what waited too long is not sent at all", async () => {
  const reads = Array.from({ length: 12 }, () => outcome(bounded.execute("select pg_sleep(60)")));
  const quick = outcome(bounded.execute("select 'never sent'"));
  await eventually("two are at work", async () => (await atWork()) === 2);
  const outcomes = await Promise.all(reads);
  expect(new Set(outcomes)).toEqual(new Set(["57014", "WaitedTooLong"]));
  expect(["WaitedTooLong", "read"]).toContain(await quick);
  expect(await outcome(bounded.execute("select 1"))).toBe("read");
  expect(await atWork()).toBe(0);
});

test("many at once are all read, each with its own rows", async () => {
  const rows = await Promise.all(Array.from({ length: 500 }, async (_, at) => (await bounded.execute<{ at: number }>(text`select ${at}::int as at`))[0]?.at));
  expect(rows).toEqual(Array.from({ length: 500 }, (_, at) => at));
});

test("one that fails makes room for the next", async () => {
  const failed = await Promise.all(Array.from({ length: 20 }, () => outcome(bounded.execute("select nonsense"))));
  expect(new Set(failed)).toEqual(new Set(["42703"]));
  expect(await outcome(bounded.execute("select 1"))).toBe("read");
});

test("reads that are not bounded go on as long as they take", async () => {
  expect(await outcome(reader.execute("select pg_sleep(1.5)"))).toBe("read");
});
