/** The listening connection: it tests itself, reconnects as long as it takes, and a start without it is refused. */
import { afterAll, beforeEach, expect, test } from "vitest";
import type { Sql } from "postgres";
import postgres from "postgres";
import { ListenerTimeoutError, listenOn } from "../../src/store/postgres/listener.ts";
import type { ListenerParts } from "../../src/store/postgres/listener.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const given = await testDatabase();
afterAll(() => given[Symbol.asyncDispose]());

let opened: Sql[] = [];
let received: string[] = [];
let errors: unknown[] = [];
/** The URL of the next connection, and whether what is sent arrives. */
let url = given.url;
let isCarried = true;
beforeEach(() => {
  [opened, received, errors, url, isCarried] = [[], [], [], given.url, true];
});

const CHANNEL = "listener_test";
const parts: ListenerParts = {
  channel: CHANNEL,
  connect({ onNotify, onClose }) {
    const options = {
      max: 1,
      connect_timeout: 2,
      onnotify: (_channel: string, payload: string) => onNotify(payload),
      onclose: onClose,
    };
    const sql = postgres(url, options);
    opened.push(sql);
    return sql;
  },
  notify: async (payload) => void (await given.sql.notify(isCarried ? CHANNEL : "elsewhere", payload)),
  onNotify: (payload) => void received.push(payload),
  onError: (error) => void errors.push(error),
  probeMs: 300,
  everyMs: 100,
};

const isReceived = (payload: string) =>
  eventually("it is heard", async () => {
    await given.sql.notify(CHANNEL, payload);
    return received.includes(payload);
  });

test("listener receives notifications, and not its own probes", async () => {
  await using ears = new AsyncDisposableStack();
  ears.use(await listenOn(parts));
  await isReceived("news");
  expect(received.filter((payload) => payload !== "news")).toEqual([""]);
  expect(opened).toHaveLength(1);
});

test("listener without notifications refuses the start and says what to do", async () => {
  isCarried = false;
  const error: unknown = await listenOn(parts).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ListenerTimeoutError);
  expect(String(error)).toMatch(/LISTEN does not work.*OSTLER_LISTEN_URL/);
});

test("listener without a server refuses the start", async () => {
  url = "postgres://ostler@127.0.0.1:1/none";
  expect(await listenOn(parts).catch((thrown: unknown) => thrown)).toMatchObject({ code: "ECONNREFUSED" });
});

test("listener reconnects after any number of failures, and reports that notifications may be lost", async () => {
  await using ears = new AsyncDisposableStack();
  ears.use(await listenOn(parts));
  url = "postgres://ostler@127.0.0.1:1/none";
  await given.sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query ilike 'listen%'`;
  await eventually("it has failed more than once", () => errors.length >= 3);
  expect(received).toEqual([""]);
  url = given.url;
  await eventually("it is back", () => received.length === 2);
  await isReceived("news");
});

test("listener reconnects when its connection has silently stopped receiving", async () => {
  await using ears = new AsyncDisposableStack();
  ears.use(await listenOn(parts));
  isCarried = false;
  await eventually("it has noticed", () => errors.some((error) => error instanceof ListenerTimeoutError));
  isCarried = true;
  await isReceived("news");
});

test("listener reconnects when its probe was sent on a connection that has silently died", async () => {
  await using ears = new AsyncDisposableStack();
  let isHung = false;
  ears.use(await listenOn({ ...parts, notify: (payload) => (isHung ? new Promise(() => {}) : parts.notify(payload)) }));
  isHung = true;
  await eventually("it has noticed", () => errors.some((error) => error instanceof ListenerTimeoutError));
  isHung = false;
  await isReceived("news");
});
