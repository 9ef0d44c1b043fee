/**
 * Connections that were dropped silently: detected in time while a statement waits on them, and left alone while idle.
 * With TLS too.
 */
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { setImmediate as turn, setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { afterAll, describe, expect, test } from "vitest";
import { connect as connectPool, disposable } from "../../src/store/postgres/connect.ts";
import { isConnectionLoss } from "../../src/store/postgres/connection-errors.ts";
import { openDatabase } from "../../src/store/postgres/database.ts";
import type { Database } from "../../src/store/postgres/database.ts";
import { createWatchdogSocket } from "../../src/store/postgres/workarounds/watchdog-socket.ts";
import type { Target } from "../../src/store/postgres/workarounds/watchdog-socket.ts";
import { cutter } from "../support/cutter.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const parts = new AsyncDisposableStack();
const given = parts.use(await testDatabase());
afterAll(() => parts.disposeAsync());

const by = (address: string, query = "") => {
  const url = new URL(given.url);
  url.host = new URL(address).host;
  return url.href + query;
};
const open = (url: string) =>
  openDatabase({ connection: { url }, connectionsMax: 4, readSeconds: 0.5, writeSeconds: 1 });
const transactions = (database: Database) =>
  Array.from({ length: 4 }, () =>
    database.transaction(async (tx) =>
      tx.execute<{ pid: number }>("select pg_backend_pid() as pid from pg_sleep(0.05)"),
    ),
  );
/** One query on each pool, and as many of it as there are connections. */
const queries = (database: Database) =>
  [
    ...Array.from({ length: 2 }, async () =>
      database.bounded.execute<{ pid: number }>("select pg_backend_pid() as pid from pg_sleep(0.05)"),
    ),
    ...Array.from({ length: 3 }, () =>
      database.snapshot(async (reader) =>
        reader.execute<{ pid: number }>("select pg_backend_pid() as pid from pg_sleep(0.05)"),
      ),
    ),
    ...transactions(database),
  ].map(async (rows) => (await rows)[0]?.pid);

/** All connections are dropped silently: statements on them fail as lost, and later ones get new connections. */
async function losesAndReplaces(database: Database, way: { forget(): number }): Promise<void> {
  expect(way.forget()).toBeGreaterThanOrEqual(9);
  for (const end of await Promise.allSettled(queries(database)))
    expect(end.status === "rejected" && isConnectionLoss(end.reason)).toBe(true);
  await eventually("all are made again", () =>
    Promise.all(queries(database)).then(
      () => true,
      () => false,
    ),
  );
}

test("silently dropped connections fail the statements that wait on them as lost, and are replaced", async () => {
  await using way = await cutter(given.url);
  await using database = await open(by(way.url));
  await Promise.all(queries(database));
  await losesAndReplaces(database, way);
}, 30_000);

test("silently dropped idle connections are closed together with one that was detected", async () => {
  await using way = await cutter(given.url);
  await using database = await open(by(way.url));
  await Promise.all(transactions(database));
  expect(way.forget()).toBe(4);
  const [lost] = await Promise.allSettled([database.transaction((tx) => tx.execute("select 1"))]);
  expect(lost.status).toBe("rejected");
  expect(await Promise.all(transactions(database))).toHaveLength(4);
}, 30_000);

test("idle connection, and one in the middle of a transaction, is left alone", async () => {
  await using database = await open(given.url);
  const pids = () =>
    database.transaction(async (tx) => {
      const [before] = await tx.execute<{ pid: number }>("select pg_backend_pid() as pid");
      await delay(1_500);
      const [after] = await tx.execute<{ pid: number }>("select pg_backend_pid() as pid");
      return [before?.pid, after?.pid];
    });
  const [before, after] = await pids();
  expect(after).toBe(before);
  await delay(1_500);
  expect(await pids()).toEqual([before, before]);
});

test("answer that arrives while the process is suspended is read, however long that takes", async () => {
  const pool = { max: 1, prepare: false, silentSeconds: 0.2 };
  await using sql = disposable(connectPool({ url: given.url }, pool));
  await sql.unsafe("select 1");
  const read = sql.unsafe("select 1 as one from pg_sleep(0.05)").execute();
  // The statement is written when this turn of the event loop is over.
  await turn();
  await turn();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
  expect([...(await read)]).toEqual([{ one: 1 }]);
});

describe("closed socket of a connection", () => {
  /** One connection of postgres.js, and its present socket. */
  const connected = () => {
    let socket: Socket | undefined;
    const make = createWatchdogSocket(postgres(given.url).options as unknown as Target, 10_000);
    const options = {
      max: 1,
      connect_timeout: 1,
      backoff: () => 0,
      ssl: false,
      fetch_types: false,
      socket: async () => (socket = await make()),
    };
    const sql = postgres(given.url, options);
    return { sql, socket: () => socket, [Symbol.asyncDispose]: () => sql.end({ timeout: 0 }) };
  };

  test("closed socket with waiting writes is replaced, and fails nothing else", async () => {
    await using one = connected();
    await one.sql`select 1`;
    // Written after the next turn of the event loop, closed at the end of this one.
    const lost = new Promise(
      (fails) =>
        void setImmediate(() => {
          one.sql`select 1`.catch(fails);
          one.socket()?.destroy();
        }),
    );
    expect(isConnectionLoss(await lost)).toBe(true);
    for (let again = 0; again < 3; again += 1) expect([...(await one.sql`select 1 as one`)]).toEqual([{ one: 1 }]);
  });

  test("closed socket after an error fails what was written in between", async () => {
    await using one = connected();
    await one.sql`select 1`;
    const lost = new Promise((fails) => {
      one.socket()?.once("error", () => void one.sql`select 1`.catch(fails));
      one.socket()?.destroy(new Error("reset"));
    });
    expect(isConnectionLoss(await lost)).toBe(true);
    expect([...(await one.sql`select 1 as one`)]).toEqual([{ one: 1 }]);
  });
});

/** Generated for this test; used nowhere else. */
const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgWMPzInVZP+xKQ5/U
gRovQuzACB2fXmTWU2TysSo9mp+hRANCAARF/ZeNpKfLYMQ6hKVa0EuGxtZIPnQf
NqI0+7CYjxCirGjDN+eBEI1goiMVBsph/57RIVhuf2NZJNAz8Ypjd/Xy
-----END PRIVATE KEY-----
`;
const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBfjCCASWgAwIBAgIUAzXMFkq7RwdsNBIyAexrBBZXJMEwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTE2MzIxNFoYDzIxMjYxMDI4
MTYzMjE0WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAARF/ZeNpKfLYMQ6hKVa0EuGxtZIPnQfNqI0+7CYjxCirGjDN+eBEI1g
oiMVBsph/57RIVhuf2NZJNAz8Ypjd/Xyo1MwUTAdBgNVHQ4EFgQU3tvEeN6O16QJ
K98ZQDaqNs0brXQwHwYDVR0jBBgwFoAU3tvEeN6O16QJK98ZQDaqNs0brXQwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiA+awVeiORb9qFkRpqC8X6V
ltoOYYcuN6Hlpbcsw6T1PAIgfFERgpO3iPT8yPFrpmlF8NCNSc8iOTncK4dQWlxR
HJ8=
-----END CERTIFICATE-----
`;

describe("TLS", () => {
  /** A server that accepts TLS like PostgreSQL, or refuses it, and forwards everything. */
  async function front(answer: "S" | "N" | "nothing") {
    let secured = 0;
    await using stack = new AsyncDisposableStack();
    const back = stack.use(await cutter(given.url));
    const { hostname, port } = new URL(back.url);
    const server = createServer((near) => {
      near.on("error", () => {});
      near.once("data", (request) => {
        expect([...request]).toEqual([0, 0, 0, 8, 4, 210, 22, 47]);
        if (answer === "nothing") return near.destroy();
        near.write(answer);
        if (answer === "S") secured += 1;
        const inner = answer === "S" ? new TLSSocket(near, { isServer: true, key: KEY, cert: CERTIFICATE }) : near;
        const far = connect({ host: hostname, port: Number(port) });
        far.on("error", () => {}).on("close", () => inner.destroy());
        inner.on("error", () => {}).on("close", () => far.destroy());
        inner.pipe(far).pipe(inner);
      });
    });
    await new Promise<void>((listening) => void server.listen(0, "127.0.0.1", listening));
    stack.defer(() => void server.close());
    const kept = stack.move();
    return {
      url: by(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
      secured: () => secured,
      forget: () => back.forget(),
      [Symbol.asyncDispose]: () => kept.disposeAsync(),
    };
  }

  test("TLS connections are watched too", async () => {
    await using way = await front("S");
    await using database = await open(`${way.url}?sslmode=require`);
    await Promise.all(queries(database));
    expect(way.secured()).toBeGreaterThanOrEqual(9);
    await losesAndReplaces(database, way);
  }, 30_000);

  test.each([
    ["S", "verify-full", /self-signed/],
    ["N", "require", /does not accept TLS/],
    ["nothing", "require", /closed during its TLS handshake/],
  ] as const)("TLS to a server that answers %s is refused with %s, repeatedly", async (answer, mode, says) => {
    await using way = await front(answer);
    // By the same connection, which must be free again.
    const pool = { max: 1, prepare: false, silentSeconds: 1 };
    await using sql = disposable(connectPool({ url: `${way.url}?sslmode=${mode}` }, pool));
    for (let tried = 0; tried < 2; tried += 1) await expect(sql.unsafe("select 1")).rejects.toThrow(says);
  });

  test("TLS that is only preferred falls back to a server without TLS", async () => {
    await using way = await front("N");
    await using database = await open(`${way.url}?sslmode=prefer`);
    expect(await Promise.all(queries(database))).toHaveLength(9);
  });
});
