/** The connection that listens: it proves itself, is made again for as long as it takes, and a start without it is refused. */
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
let heard: string[] = [];
let errors: unknown[] = [];
/** Where connections are made to, and whether what is sent arrives. */
let url = given.url;
let isCarried = true;
beforeEach(() => {
  [opened, heard, errors, url, isCarried] = [[], [], [], given.url, true];
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
  onNotify: (payload) => void heard.push(payload),
  onError: (error) => void errors.push(error),
  proofMs: 300,
  everyMs: 100,
};

const isHeard = (payload: string) =>
  eventually("it is heard", async () => {
    await given.sql.notify(CHANNEL, payload);
    return heard.includes(payload);
  });

test("hears what is sent, and nothing of its own proofs", async () => {
  await using ears = new AsyncDisposableStack();
  ears.use(await listenOn(parts));
  await isHeard("news");
  expect(heard.filter((payload) => payload !== "news")).toEqual([""]);
  expect(opened).toHaveLength(1);
});

test("is refused at the start where notifications do not come, with what to do", async () => {
  isCarried = false;
  const error: unknown = await listenOn(parts).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(ListenerTimeoutError);
  expect(String(error)).toMatch(/LISTEN does not work.*OSTLER_LISTEN_URL/);
});

test("is refused at the start where nobody answers", async () => {
  url = "postgres://ostler@127.0.0.1:1/none";
  expect(await listenOn(parts).catch((thrown: unknown) => thrown)).toMatchObject({ code: "ECONNREFUSED" });
});

test("is made again, however often that fails, and tells that something may have been missed", async () => {
  await using ears = new AsyncDisposableStack();
  ears.use(await listenOn(parts));
  url = "postgres://ostler@127.0.0.1:1/none";
  await given.sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query ilike 'listen%'`;
  await eventually("it has failed more than once", () => errors.length >= 3);
  expect(heard).toEqual([""]);
  url = given.url;
  await eventually("it is back", () => heard.length === 2);
  await isHeard("news");
});

test("is made again when it has gone deaf without a word", async () => {
  await using ears = new AsyncDisposableStack();
  ears.use(await listenOn(parts));
  isCarried = false;
  await eventually("it has noticed", () => errors.some((error) => error instanceof ListenerTimeoutError));
  isCarried = true;
  await isHeard("news");
});

test("is made again when what proves it is sent on a connection that died without a word", async () => {
  await using ears = new AsyncDisposableStack();
  let isHung = false;
  ears.use(await listenOn({ ...parts, notify: (payload) => (isHung ? new Promise(() => {}) : parts.notify(payload)) }));
  isHung = true;
  await eventually("it has noticed", () => errors.some((error) => error instanceof ListenerTimeoutError));
  isHung = false;
  await isHeard("news");
});
