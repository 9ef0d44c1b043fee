/** A replica that is suspended while it appends to the log. */
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { createTransact } from "../../src/engine/transaction.ts";
import { openDatabase } from "../../src/store/postgres/database.ts";
import { createNotifier } from "../../src/store/postgres/notifier.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { registerNode, startLogWriters } from "../support/log-writers.ts";

const WRITERS = 6;
/** Two times the bound of one writer: the server needs a moment to end its session. */
const BLOCKED_MS_MAX = 10_000;

test("suspended replica blocked the log for five seconds for each of its queued writers: it does so once [R-270]", async () => {
  await using given = await testDatabase();
  await using database = await openDatabase({ connection: given.connection, connectionsMax: 4 });
  await using notifier = await createNotifier(database, () => {});
  const held = Promise.withResolvers<void>();
  const resumed = Promise.withResolvers<void>();
  const holder = given.sql.begin(async (sql) => {
    await sql`select from feed_position for update`;
    held.resolve();
    await resumed.promise;
  });
  await held.promise;
  await using writers = await startLogWriters(given.connection, WRITERS);
  await eventually("a writer waits for the log", async () => {
    const [locks] = await database.reader.execute<{ waiting: number }>(
      "select count(*)::int as waiting from pg_locks where not granted",
    );
    return (locks?.waiting ?? 0) > 0;
  });
  // All of them would be waiting by now.
  await delay(500);
  writers.suspend();
  resumed.resolve();
  await holder;
  const before = performance.now();
  await registerNode(createTransact(database, notifier));
  const blocked = performance.now() - before;
  expect(blocked).toBeGreaterThan(3_000);
  expect(blocked).toBeLessThan(BLOCKED_MS_MAX);
}, 60_000);
