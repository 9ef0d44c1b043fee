/**
 * The number of connections of a replica: each pool within its bounds, the sum by which servers and poolers are sized,
 * and no more open ones than its work needs.
 */
import { sql } from "drizzle-orm";
import { afterAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/store/postgres/database.ts";
import type { Database } from "../../src/store/postgres/database.ts";
import { connectionsOf, poolsOf } from "../../src/store/postgres/pools.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

test.each([
  { writers: 4, pools: { writers: 4, readers: 2, snapshots: 3, claims: 2 }, serving: 13, working: 7 },
  { writers: 20, pools: { writers: 20, readers: 10, snapshots: 3, claims: 2 }, serving: 37, working: 23 },
  { writers: 200, pools: { writers: 200, readers: 100, snapshots: 3, claims: 2 }, serving: 307, working: 203 },
])(
  "pools with $writers writers have $serving connections in all, and $working without request serving",
  ({ writers, pools, serving, working }) => {
    expect(poolsOf(writers)).toEqual(pools);
    expect([connectionsOf(pools, true), connectionsOf(pools, false)]).toEqual([serving, working]);
  },
);

const given = await testDatabase();
afterAll(() => given[Symbol.asyncDispose]());

type Work = (reader: Pick<Database["reader"], "execute">) => Promise<unknown>;
interface PoolUse {
  /** Uses one connection until the work is done. */
  hold(database: Database, work: Work): Promise<unknown>;
  /** The same, and the connection is back in the pool when it resolves. */
  use(database: Database, work: Work): Promise<unknown>;
}
const transaction = (database: Database, work: Work) => database.transaction(work);
const snapshot = (database: Database, work: Work) => database.snapshot(work);
const POOLS: Readonly<Record<string, PoolUse>> = {
  transactions: { hold: transaction, use: transaction },
  snapshots: { hold: snapshot, use: snapshot },
  "reads of requests": {
    async hold(database, work) {
      const { reader, close } = database.lazySnapshot();
      await work(reader);
      close();
    },
    use: (database, work) => work(database.bounded),
  },
};
const BURST = 3;

/** Occupies three connections of a pool at the same time. */
async function burst(database: Database, { hold }: PoolUse): Promise<void> {
  const all = Promise.withResolvers<void>();
  let open = 0;
  const work: Work = async (reader) => {
    await reader.execute(sql`select 1`);
    open += 1;
    if (open === BURST) all.resolve();
    await all.promise;
  };
  await Promise.all(Array.from({ length: BURST }, () => hold(database, work)));
}

/** The sessions that ten statements use, one after the other. */
async function sessionsOfTen(database: Database, { use }: PoolUse): Promise<number> {
  const used = new Set<unknown>();
  for (let turn = 0; turn < 10; turn += 1)
    await use(database, async (reader) => {
      const [row] = await reader.execute<{ pid: number }>(sql`select pg_backend_pid() as pid`);
      used.add(row?.pid);
    });
  return used.size;
}

async function openSessions(): Promise<number> {
  const [row] = await given.sql`
    select count(*)::int from pg_stat_activity where datname = current_database() and application_name = 'ostler'`;
  return Number(row?.["count"]);
}

describe.each(Object.entries(POOLS))("pool for %s", (name, pool) => {
  test(`pool for ${name} uses the connection that was used last [R-697]`, async () => {
    await using database = await openDatabase({ connection: given.connection, connectionsMax: 6 });
    await burst(database, pool);
    // The transactions of reads end after the work of their requests.
    await eventually("one session serves ten statements", async () => (await sessionsOfTen(database, pool)) === 1);
    expect(await openSessions()).toBe(BURST);
  });

  test(`pool for ${name} closes connections that a burst has left unused [R-697]`, async () => {
    await using database = await openDatabase({ connection: given.connection, connectionsMax: 6, unusedSeconds: 0.2 });
    await burst(database, pool);
    await eventually("no connection is left", async () => (await openSessions()) === 0);
    await burst(database, pool);
    expect(await openSessions()).toBe(BURST);
  });
});

const sleeping = (database: Database) => database.bounded.execute(sql`select pg_sleep(0.2)`);

test("pool for reads of requests uses the connection that was used last also without a transaction, in which it used all in turn [R-697]", async () => {
  await using database = await openDatabase({ connection: given.connection, connectionsMax: 6 });
  await Promise.all(Array.from({ length: BURST }, () => sleeping(database)));
  const use = POOLS["reads of requests"]?.use ?? transaction;
  await eventually(
    "one session serves ten statements",
    async () => (await sessionsOfTen(database, { hold: use, use })) === 1,
  );
  expect(await openSessions()).toBe(BURST);
});
