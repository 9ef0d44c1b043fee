/** The database fails under active replicas and returns: no operation fails, and polling and subscriptions continue. */
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { wholeLog } from "../support/transition-log.ts";
import { ask, commission, entered, follow, operationOf, register, scratch, startReplica, startServer } from "./lab.ts";
import type { Follower, Replica, Server } from "./lab.ts";

const parts = new AsyncDisposableStack();
let server: Server;
let folder: string;
let replicas: readonly Replica[];
let follower: Follower;
const start = async (onLog = (_text: string) => {}) =>
  parts.use(
    await startReplica(folder, {
      databaseUrl: server.url,
      environment: { OSTLER_LOG: "info", OSTLER_DB_POOL: "6" },
      onLog,
    }),
  );
beforeAll(async () => {
  ({ folder } = parts.use(scratch()));
  server = parts.use(await startServer(folder, true));
}, 60_000);
afterAll(() => parts.disposeAsync());

const [one, other] = [() => replicas[0] as Replica, () => replicas[1] as Replica];
const named = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}-${index}`);
const stepsEntered = () => replicas.flatMap((replica) => entered(replica.journal())).length;

/** Commissions slow nodes, disturbs the database in the middle, and expects success. */
async function succeedsThrough(prefix: string, trouble: () => Promise<void>): Promise<void> {
  const names = named(prefix, 16);
  await register(one().url, names, { delayMs: 300, waitSeconds: 1 });
  const before = stepsEntered();
  const operation = await commission(one().url, names);
  await eventually("it is in the middle", () => stepsEntered() > before + 2 * names.length);
  await trouble();
  await eventually(
    "the operation has ended",
    async () => (await operationOf(other().url, operation).catch(() => null))?.finishedAt != null,
    90_000,
  );
  expect((await operationOf(other().url, operation)).state).toBe("SUCCEEDED");
  const log = await wholeLog(other().url);
  expect(log.filter(({ nodeName, to }) => nodeName.startsWith(prefix) && to?.includes("FAILED"))).toEqual([]);
  await eventually("the follower has seen all", () => follower.seen.length >= log.length);
  expect(follower.seen.map(({ cursor }) => Number.parseInt(cursor, 10))).toEqual(log.map((_, index) => index + 1));
}

test("a replica that starts before its database waits and logs it", async () => {
  await server.crash();
  let waiting = 0;
  const onLog = (text: string) => (waiting += text.includes("cannot reach the database yet") ? 1 : 0);
  const early = [start(onLog), start(onLog)];
  await eventually("both wait", () => waiting === 2);
  await server.start();
  replicas = await Promise.all(early);
  follower = follow(other().url);
  parts.defer(() => follower.close());
}, 90_000);

describe("commissions succeed", () => {
  test("after a crash and an outage of the database [R-139]", async () => {
    await succeedsThrough("crashed", async () => {
      await server.crash();
      await delay(8_000);
      await server.start();
    });
  }, 150_000);

  test("after the database was read-only for a while, as in a failover [R-139]", async () => {
    const admin = postgres(server.url, { max: 1, onnotice: () => {} });
    const readOnly = async (how: "on" | "off") => {
      await admin.unsafe("set default_transaction_read_only = off");
      await admin.unsafe(`alter system set default_transaction_read_only = ${how}`);
      await admin`select pg_reload_conf()`;
    };
    try {
      await succeedsThrough("read-only", async () => {
        await readOnly("on");
        await delay(4_000);
        await readOnly("off");
      });
    } finally {
      await admin.end();
    }
  }, 150_000);

  test("an abort after a database outage still reaches the replica that runs the step", async () => {
    await register(one().url, ["stuck"], { steps: { "inspect.collect_inventory": { silent: true } } });
    const operation = await commission(one().url, ["stuck"]);
    const asked = await eventually("the step is entered", () => {
      const isIn = (replica: Replica) => entered(replica.journal()).some(({ node }) => node === "stuck");
      return isIn(one()) ? other() : isIn(other()) && one();
    });
    await ask(
      asked.url,
      "mutation ($id: ID!) { abort(input: { work: { operationId: $id } }) { errors { message } } }",
      { id: operation },
    );
    await eventually(
      "the operation has ended",
      async () => (await operationOf(asked.url, operation)).state === "ABORTED",
    );
    expect((await one().end()).code).toBe(0);
  }, 60_000);

  test("a replica exits with 0 after SIGTERM during a database outage", async () => {
    await server.crash();
    await eventually("it is noticed", async () => (await fetch(`${other().url}/readyz`)).status === 503);
    expect((await other().end()).code).toBe(0);
    expect(other().log()).toContain('"msg":"stopped"');
  }, 60_000);
});
