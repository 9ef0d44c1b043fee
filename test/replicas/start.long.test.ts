/** The database fails during a start: the start is retried and leaves no connections behind. */
import { afterAll, expect, test } from "vitest";
import { startService } from "../../src/app.ts";
import { readConfig } from "../../src/config/config.ts";
import { createLog } from "../../src/log.ts";
import { cutter } from "../support/cutter.ts";
import { testDatabase } from "../support/database.ts";
import { ask, scratch, startReplica } from "./lab.ts";

const place = scratch();
const { folder } = place;
afterAll(() => place[Symbol.dispose]());

/**
 * Starts on an empty database, over a proxy that cuts all connections when the nth opens. Returns the number of
 * connections and of retries.
 */
async function startCut(at: number): Promise<{ readonly connections: number; readonly retries: number }> {
  await using database = await testDatabase({ empty: true });
  let connections = 0;
  await using way = await cutter(database.url, (count) => {
    connections = count;
    if (count === at) setImmediate(() => way.cut());
  });
  const url = new URL(database.url);
  url.host = new URL(way.url).host;
  await using replica = await startReplica(folder, {
    databaseUrl: url.href,
    environment: { OSTLER_DB_POOL: "4", OSTLER_DB_WAIT_SECONDS: "30" },
  });
  const made = connections;
  expect(await ask(replica.url, "{ viewer { subject } }")).toEqual({ viewer: { subject: "anonymous" } });
  expect((await replica.end()).code).toBe(0);
  return {
    connections: made,
    retries: replica.log().split("cannot reach the database yet; retrying").length - 1,
  };
}

test("a start succeeds although any one of its connections is cut when it opens", async () => {
  const { connections, retries } = await startCut(Number.POSITIVE_INFINITY);
  expect(retries).toBe(0);
  const cut = await Promise.all(Array.from({ length: connections }, (_, index) => startCut(index + 1)));
  // The first connections check the database and run the migrations; the start needs them.
  expect(cut.slice(0, 3).map((start) => start.retries)).toEqual([1, 1, 1]);
}, 120_000);

test.each([
  // The connection that checks whether the server answers is counted, but not listed. Only what serves requests has it.
  {
    role: "all",
    listed: { writers: 20, readers: 10, snapshots: 3, claims: 2, listener: 1 },
    unlisted: 1,
    connections: 37,
  },
  { role: "engine", listed: { writers: 20, claims: 2, listener: 1 }, unlisted: 0, connections: 23 },
])(
  "a replica with role $role reports the $connections connections that it may open",
  async ({ role, listed, unlisted, connections }) => {
    await using database = await testDatabase();
    await using replica = await startReplica(folder, { databaseUrl: database.url, environment: { OSTLER_ROLE: role } });
    const lines = replica
      .log()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const {
      level: _level,
      time: _time,
      msg: _msg,
      ...reported
    } = lines.find(({ msg }) => msg === "database connections that this replica may open") ?? {};
    expect(reported).toEqual({ ...listed, connections, isPooled: false });
    expect(Object.values(listed).reduce((sum, some) => sum + some, unlisted)).toBe(connections);
  },
);

test("a start with a LISTEN address that cannot be resolved fails immediately", async () => {
  await using database = await testDatabase();
  const config = readConfig(
    {
      DATABASE_URL: database.url,
      OSTLER_SECRET_KEYS: "off",
      OSTLER_HOST: "nowhere.invalid",
      OSTLER_TOKEN: "a-token-of-some-length",
      OSTLER_PROXIES: "127.0.0.1/32",
    },
    ["--data", folder, "--port", "0"],
  );
  const lines: string[] = [];
  await expect(startService(config, createLog("warn", { write: (line) => void lines.push(line) }))).rejects.toThrow(
    /^Cannot listen on port 0 of nowhere\.invalid: .*OSTLER_HOST/,
  );
  expect(lines).toEqual([]);
});
