/** Bounded reads: their statements time out, wait in order, and are not sent after waiting too long. */
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { sql as text } from "drizzle-orm";
import { afterAll, describe, expect, inject, test, vi } from "vitest";
import postgres from "postgres";
import { isConnectionLoss, sqlState } from "../../src/store/postgres/connection-errors.ts";
import { openDatabase } from "../../src/store/postgres/database.ts";
import type { Connection } from "../../src/store/postgres/database.ts";
import { lazySnapshot } from "../../src/store/postgres/lazy-snapshot.ts";
import { ConnectionUnresponsiveError, limitStatements } from "../../src/store/postgres/workarounds/statement-queue.ts";
import { cutter } from "../support/cutter.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { urlOf } from "../support/global-setup.ts";

const parts = new AsyncDisposableStack();
const database = parts.use(await testDatabase());
/** Two connections for bounded reads. */
const opened = parts.use(await openDatabase({ connection: database.connection, connectionsMax: 4, readSeconds: 1 }));
const { bounded, reader } = opened;
afterAll(() => parts.disposeAsync());

const isAnswering = async () => true;
const outcome = (read: PromiseLike<unknown>) =>
  Promise.resolve(read).then(
    () => "read",
    (error: Error & { cause?: Error }) => sqlState(error) ?? error.cause?.name ?? error.name,
  );
const runningCount = async () =>
  Number(
    (
      await reader.execute<{ count: number }>(
        "select count(*)::int as count from pg_stat_activity where datname = current_database() and state = 'active' and query like 'select pg_sleep%'",
      )
    )[0]?.["count"],
  );

test("bounded read that takes too long is cancelled, and its connection serves the next", async () => {
  expect(await outcome(bounded.execute("select pg_sleep(60)"))).toBe("57014");
  expect(await runningCount()).toBe(0);
  expect(await outcome(bounded.execute("select 1"))).toBe("read");
});

test("bounded read that takes too long is cancelled behind a pooler too, which does not pass on the setting", async () => {
  const plain = postgres(database.url, { max: 2 });
  parts.defer(() => plain.end());
  const cutting = limitStatements(plain, { concurrency: 2, seconds: 1, cancels: true, isAnswering });
  expect(
    await Promise.all([
      outcome(cutting.unsafe("select pg_sleep(60)")),
      outcome(cutting.unsafe("select pg_sleep(60)")),
      outcome(cutting.unsafe("select nonsense")),
    ]),
  ).toEqual(["57014", "57014", expect.stringMatching(/^(42703|StatementTimeoutError)$/)]);
  expect(await runningCount()).toBe(0);
  expect(await Promise.all(Array.from({ length: 20 }, () => outcome(cutting.unsafe("select pg_sleep(0.01)"))))).toEqual(
    Array.from({ length: 20 }, () => "read"),
  );
});

test("snapshots of requests take one slot each, and wait for it like statements", async () => {
  const snapshots = Array.from({ length: 3 }, () => opened.lazySnapshot());
  const reads = snapshots.map(({ reader: one }) => outcome(one.execute("select 1")));
  expect(await Promise.all(reads.slice(0, 2))).toEqual(["read", "read"]);
  const waiting = outcome(bounded.execute("select 1"));
  expect(await reads[2]).toBe("StatementTimeoutError");
  expect(await waiting).toBe("StatementTimeoutError");
  for (const { close } of snapshots) close();
  expect(await outcome(bounded.execute("select 1"))).toBe("read");
});

test("snapshot of a request times out behind a pooler too, which does not pass on the setting", async () => {
  const plain = postgres(database.url, { max: 1 });
  parts.defer(() => plain.end());
  const sql = limitStatements(plain, { concurrency: 1, seconds: 5, cancels: true, isAnswering });
  const { reader: slow, close } = lazySnapshot(sql, 1);
  expect(await outcome(slow.execute("select pg_sleep(60)"))).toBe("57014");
  close();
  expect(await sql.unsafe("show statement_timeout")).toEqual([{ statement_timeout: "0" }]);
  expect(await sql.unsafe("show transaction_isolation")).toEqual([{ transaction_isolation: "read committed" }]);
});

test("snapshot whose connection is lost releases its slot", async () => {
  const { reader: one, close } = opened.lazySnapshot();
  const [row] = await one.execute<{ pid: number }>("select pg_backend_pid() as pid");
  await reader.execute(text`select pg_terminate_backend(${row?.pid})`);
  expect(await outcome(one.execute("select 1"))).not.toBe("read");
  close();
  await eventually("two reads run at the same time", async () => {
    const reads = [bounded.execute("select pg_sleep(0.2)"), bounded.execute("select pg_sleep(0.2)")].map(outcome);
    const isParallel = (await runningCount()) === 2;
    return (await Promise.all(reads)).every((ended) => ended === "read") && isParallel;
  });
});

test("snapshot whose connection was lost left its later statements unanswered forever, and a stream that read in it silent", async () => {
  await using own = await openDatabase({ connection: database.connection, connectionsMax: 4 });
  const { reader: one, close } = own.lazySnapshot();
  const [row] = await one.execute<{ pid: number }>("select pg_backend_pid() as pid");
  const running = outcome(one.execute(text`select pg_sleep(${60})`));
  // Its parameters keep postgres.js from sending it before the first one is answered.
  const waiting = outcome(one.execute(text`select ${1}::int`));
  await eventually("the first statement runs", async () => (await runningCount()) === 1);
  await reader.execute(text`select pg_terminate_backend(${row?.pid})`);
  expect(await Promise.all([running, waiting])).not.toContain("read");
  expect(await outcome(one.execute("select 1"))).not.toBe("read");
  close();
  expect(await outcome(own.bounded.execute("select 1"))).toBe("read");
});

test("bounded reads run on the available connections only, and are not sent after waiting too long", async () => {
  const reads = Array.from({ length: 12 }, () => outcome(bounded.execute("select pg_sleep(60)")));
  const quick = outcome(bounded.execute("select 'never sent'"));
  await eventually("two statements run", async () => (await runningCount()) === 2);
  const outcomes = await Promise.all(reads);
  expect(new Set(outcomes)).toEqual(new Set(["57014", "StatementTimeoutError"]));
  expect(["StatementTimeoutError", "read"]).toContain(await quick);
  expect(await outcome(bounded.execute("select 1"))).toBe("read");
  expect(await runningCount()).toBe(0);
});

test("bounded reads at the same time all return their own rows", async () => {
  const rows = await Promise.all(
    Array.from(
      { length: 100 },
      async (_, at) => (await bounded.execute<{ at: number }>(text`select ${at}::int as at`))[0]?.at,
    ),
  );
  expect(rows).toEqual(Array.from({ length: 100 }, (_, at) => at));
});

test("bounded read that fails releases its connection for the next", async () => {
  const failed = await Promise.all(Array.from({ length: 20 }, () => outcome(bounded.execute("select nonsense"))));
  expect(new Set(failed)).toEqual(new Set(["42703"]));
  expect(await outcome(bounded.execute("select 1"))).toBe("read");
});

describe("bounded reads on four open connections", () => {
  const CONNECTIONS = 4;
  const opening = async (connection: Connection) => {
    const own = await openDatabase({ connection, connectionsMax: 2 * CONNECTIONS });
    await Promise.all(Array.from({ length: CONNECTIONS }, async () => own.bounded.execute("select pg_sleep(0.05)")));
    return own;
  };

  test("bounded reads that are fast pass slow ones as long as a connection is free", async () => {
    await using own = await opening(database.connection);
    const ended: string[] = [];
    const read = async (name: string, statement: string) => {
      await own.bounded.execute(statement);
      ended.push(name);
    };
    await database.sql`select pg_advisory_lock(1)`;
    const slow = Array.from({ length: CONNECTIONS - 1 }, async () => read("slow", "select pg_advisory_lock_shared(1)"));
    const quick = Array.from({ length: 20 }, async () => read("quick", "select pg_sleep(0.002)"));
    await Promise.race([Promise.all(quick), ...slow]);
    await database.sql`select pg_advisory_unlock(1)`;
    await Promise.all([...quick, ...slow]);
    expect(ended).toEqual([...quick.map(() => "quick"), ...slow.map(() => "slow")]);
  });

  /** Ends the sessions of running statements, as an administrator does. */
  const end = async () =>
    void (await database.sql`select pg_terminate_backend(pid) from pg_stat_activity where query like 'select pg_sleep(60)%' and state = 'active' and datname = current_database()`);

  test("bounded reads that run when all connections close fail, waiting ones are read, and the capacity is as before", async () => {
    await using way = await cutter(inject("server").url);
    const [row] = await database.sql`select current_database() as name`;
    const url = new URL(urlOf(inject("server").url, String(row?.["name"])));
    url.host = new URL(way.url).host;
    await using own = await opening({ url: url.href });
    const long = () => outcome(own.bounded.execute("select pg_sleep(60)"));
    const allBusy = async () => (await runningCount()) === CONNECTIONS;
    for (let round = 0; round < 3; round += 1) {
      const lost = Array.from({ length: CONNECTIONS }, long);
      await eventually("all connections are busy", allBusy);
      const later = Array.from({ length: 3 * CONNECTIONS }, () =>
        outcome(own.bounded.execute("select pg_sleep(0.001)")),
      );
      way.cut();
      expect(await Promise.all(lost)).not.toContain("read");
      expect(await Promise.all(later)).toEqual(later.map(() => "read"));
      // The server does not notice the loss.
      await end();
    }
    const lost = Array.from({ length: 2 * CONNECTIONS }, long);
    await eventually("all connections are busy and the other reads wait", allBusy);
    await end();
    expect(await Promise.all(lost)).not.toContain("read");
    const again = Promise.all(Array.from({ length: 2 * CONNECTIONS }, long));
    await eventually("as many connections are busy again", allBusy);
    const over = again.then(() => true);
    await eventually("all have ended", async () => {
      await end();
      return Promise.race([over, Promise.resolve(false)]);
    });
  });
});

test("bounded read that is never answered is refused, and its connection is released when it is closed", async () => {
  await using way = await cutter(database.url);
  const url = new URL(database.url);
  url.host = new URL(way.url).host;
  const plain = postgres(url.href, { max: 2 });
  parts.defer(() => plain.end({ timeout: 0 }));
  const reads = limitStatements(plain, { concurrency: 2, seconds: 1, isAnswering });
  const both = () => Promise.all([outcome(reads.unsafe("select 1")), outcome(reads.unsafe("select 2"))]);
  expect(await both()).toEqual(["read", "read"]);
  expect(way.forget()).toBe(2);
  expect(await both()).toEqual(["ConnectionUnresponsiveError", "ConnectionUnresponsiveError"]);
  expect(isConnectionLoss(new ConnectionUnresponsiveError(1))).toBe(true);
  way.cut();
  await eventually("both places are free", async () => (await both()).every((what) => what === "read"), 10_000);
});

describe("bounded read that a server does not serve because it hangs has lost its connection, and is not one that took too long [R-825]", () => {
  const causeOf = (read: PromiseLike<unknown>) => Promise.resolve(read).then(() => "read", isConnectionLoss);

  test("while it waits for a connection", async () => {
    await using way = await cutter(database.url);
    const url = new URL(database.url);
    url.host = new URL(way.url).host;
    await using own = await openDatabase({ connection: { url: url.href }, connectionsMax: 2, readSeconds: 1 });
    expect(await outcome(own.bounded.execute("select 1"))).toBe("read");
    const resume = way.stall();
    const reads = Array.from({ length: 5 }, () => causeOf(own.bounded.execute("select 1")));
    expect(await Promise.all(reads)).toEqual(reads.map(() => true));
    resume();
  });

  test("when it is cancelled long after its time, because the server has returned", async () => {
    const query = {
      handler: vi.fn<(one: unknown) => void>(),
      reject: vi.fn<(error: unknown) => void>(),
      canceller: async () => {},
    };
    const limited = limitStatements({ unsafe: () => query, begin() {} } as unknown as postgres.Sql, {
      concurrency: 1,
      seconds: 1,
      isAnswering,
    });
    const { reject } = query;
    vi.useFakeTimers();
    try {
      void limited.unsafe("select 1");
      query.handler(query);
      await vi.advanceTimersByTimeAsync(2_500);
      query.reject(Object.assign(new Error("canceled"), { code: "57014" }));
      expect(isConnectionLoss(reject.mock.calls[0]?.[0])).toBe(true);
    } finally {
      vi.useRealTimers();
    }
  });
});

test("bounded read that takes too long is refused if no other connection is available to cancel it, and leaves no unhandled error", async () => {
  const sockets: Socket[] = [];
  const { hostname, port, pathname, username } = new URL(database.url);
  const front = createServer((near) => {
    const far = connect({ host: hostname, port: Number(port) });
    sockets.push(near, far);
    near
      .on("error", () => {})
      .pipe(far)
      .on("error", () => {})
      .pipe(near);
  });
  await new Promise<void>((listening) => void front.listen(0, "127.0.0.1", listening));
  const plain = postgres({
    host: "127.0.0.1",
    port: (front.address() as AddressInfo).port,
    database: pathname.slice(1),
    username,
    max: 1,
  });
  const cutting = limitStatements(plain, { concurrency: 1, seconds: 0.3, cancels: true, isAnswering });
  expect(await outcome(cutting.unsafe("select 1"))).toBe("read");
  front.close();
  expect(await outcome(cutting.unsafe("select pg_sleep(5)"))).toBe("ConnectionUnresponsiveError");
  await plain.end({ timeout: 0 });
  for (const socket of sockets) socket.destroy();
});

test("reads that are not bounded have no timeout", async () => {
  expect(await outcome(reader.execute("select pg_sleep(1.5)"))).toBe("read");
});

test("reads that arrive together begin three at a time, and after 50 ms all for which the pool has connections [R-710]", async () => {
  vi.useFakeTimers();
  try {
    const begin = vi.fn<() => Promise<never>>(() => new Promise(() => {}));
    const pool = { unsafe: vi.fn<() => void>(), begin };
    const limited = limitStatements(pool as unknown as postgres.Sql, { concurrency: 10, seconds: 10, isAnswering });
    const reads = Array.from({ length: 16 }, () => outcome(limited.begin(async () => {})));
    await vi.advanceTimersByTimeAsync(49);
    expect(begin).toHaveBeenCalledTimes(3);
    await vi.advanceTimersByTimeAsync(2);
    expect(begin).toHaveBeenCalledTimes(10);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await Promise.all(reads.slice(10))).toEqual(Array.from({ length: 6 }, () => "StatementTimeoutError"));
  } finally {
    vi.useRealTimers();
  }
});

test("reads that arrive together open no connection after a moment in which the process was busy: results are read first", async () => {
  const plain = postgres(database.url, { max: 10, fetch_types: false });
  parts.defer(() => plain.end());
  const limited = limitStatements(plain, { concurrency: 10, seconds: 10, isAnswering });
  const read = (count: number) =>
    Promise.all(
      Array.from({ length: count }, async () => (await limited.unsafe("select pg_backend_pid() as pid"))[0]?.["pid"]),
    );
  const before = await read(3);
  const reads = read(6);
  // The statements are written when this turn of the event loop is over.
  await turn();
  await turn();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
  expect(new Set(await reads)).toEqual(new Set(before));
});

test("reads that arrive together begin at once where the pool has connections that it has not closed yet [R-710]", async () => {
  vi.useFakeTimers();
  try {
    let end: (() => void)[] = [];
    const begin = vi.fn<() => Promise<void>>(() => new Promise((resolve) => end.push(resolve)));
    const pool = { unsafe: vi.fn<() => void>(), begin };
    const limits = { concurrency: 10, seconds: 10, unusedSeconds: 5, isAnswering };
    const limited = limitStatements(pool as unknown as postgres.Sql, limits);
    /** How many of eight reads begin within a millisecond; all end afterwards. */
    const beginAtOnce = async () => {
      begin.mockClear();
      const reads = Array.from({ length: 8 }, () => limited.begin(async () => {}));
      await vi.advanceTimersByTimeAsync(1);
      const count = begin.mock.calls.length;
      await vi.advanceTimersByTimeAsync(60);
      for (const one of end) one();
      end = [];
      await Promise.all(reads);
      return count;
    };
    expect(await beginAtOnce()).toBe(3);
    expect(await beginAtOnce()).toBe(8);
    await vi.advanceTimersByTimeAsync(4_900);
    expect(await beginAtOnce()).toBe(8);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(await beginAtOnce()).toBe(3);
  } finally {
    vi.useRealTimers();
  }
});
