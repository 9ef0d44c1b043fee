/** Subscribers move from one replica to another with their last cursor: they miss nothing and receive nothing twice. */
import { afterAll, expect, test } from "vitest";
import { createTail } from "../../src/feed/log/tail.ts";
import { nodeStream } from "../../src/feed/kinds/node-stream.ts";
import { createLog } from "../../src/log.ts";
import type { Notifier } from "../../src/store/postgres/notifier.ts";
import { newestCursor } from "../../src/store/log/transitions.ts";
import { engineUnderTest } from "../support/builders.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { wholeLog } from "../support/transition-log.ts";
import { commission, follow, operationOf, register, scratch, startReplica } from "./lab.ts";

const parts = new AsyncDisposableStack();
afterAll(() => parts.disposeAsync());

test("a disconnected subscriber resumes at another replica, which is killed, and then at the first one, without loss or duplicates [R-130]", async () => {
  const database = parts.use(await testDatabase());
  const { folder } = parts.use(scratch());
  const start = async (role: string) =>
    parts.use(
      await startReplica(folder, {
        databaseUrl: database.url,
        environment: { OSTLER_ROLE: role, OSTLER_LOG: "warn", OSTLER_DB_POOL: "6" },
      }),
    );
  const [one, other] = await Promise.all([start("api"), start("api"), start("engine")]);
  const names = Array.from({ length: 24 }, (_, index) => `node-${index}`);
  await register(one.url, names, { delayMs: 120, waitSeconds: 0.3 });
  const followers = [follow(one.url), follow(one.url), follow(other.url)];
  for (const follower of followers) parts.defer(() => follower.close());
  const operation = await commission(one.url, names);
  let moves = 0;
  while ((await operationOf(one.url, operation)).finishedAt === null && moves < 40) {
    const counts = followers.map(({ seen }) => seen.length);
    await eventually(
      "all have seen more, or it is over",
      async () =>
        followers.every(({ seen }, index) => seen.length > (counts[index] ?? 0)) ||
        (await operationOf(one.url, operation)).finishedAt !== null,
    );
    for (const follower of followers) follower.moveTo(follower.url === one.url ? other.url : one.url);
    moves += 1;
  }
  expect(moves).toBeGreaterThan(5);
  for (const follower of followers) follower.moveTo(one.url);
  const again = await commission(other.url, names).catch(() => null);
  expect(again).toBeNull();
  await register(other.url, ["late"], { delayMs: 50 });
  const last = await commission(other.url, ["late"]);
  await one.kill();
  for (const follower of followers) follower.moveTo(other.url);
  await eventually(
    "the last operation has ended",
    async () => (await operationOf(other.url, last)).finishedAt !== null,
  );
  const log = await wholeLog(other.url);
  for (const follower of followers) {
    await eventually("it has seen all", () => follower.seen.length >= log.length);
    expect(follower.seen.map(({ cursor }) => Number.parseInt(cursor, 10))).toEqual(log.map((_, index) => index + 1));
    expect(follower.resets).toEqual([]);
  }
}, 120_000);

test("a replica whose tail lags behind a cursor does not reject it as a cursor of the future [R-130]", async () => {
  const ostler = parts.use(await engineUnderTest({ started: false }));
  const { database } = ostler;
  const deaf: Notifier = { notify() {}, subscribe: () => () => {}, [Symbol.asyncDispose]: async () => {} };
  const tail = parts.use(await createTail({ database, notifier: deaf, log: createLog("silent") }));
  const heard = tail.head;
  await ostler.aNode().times(3);
  const newest = await newestCursor(database.reader);
  const after = newest.position;
  expect(after).toBe(heard + 3);
  const items = nodeStream({ database, tail }, { snapshot: false, after: newest });
  // The tail receives no notifications and has not polled yet, so it is behind the cursor.
  expect((await items.next()).value).toMatchObject({ kind: "bookmark", cursor: newest, caughtUp: true });
  await ostler.aNode().times(2);
  expect([(await items.next()).value, (await items.next()).value]).toMatchObject([
    { kind: "transition", cursor: { position: after + 1 } },
    { kind: "transition", cursor: { position: after + 2 } },
  ]);
  await items.return?.();
});
