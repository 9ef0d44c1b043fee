/**
 * Subject `latency`: from the acknowledgement of a commit until a subscriber of the node stream receives the
 * transition, in the process that wrote it and in another one, which is notified only through PostgreSQL. A second
 * notifier and tail in this process stand in for the other process. The socket to a client is not included.
 */
import { setTimeout as delay } from "node:timers/promises";
import { createTransact } from "../src/engine/transaction.ts";
import { move } from "../test/support/moves.ts";
import { nodeStream } from "../src/feed/kinds/node-stream.ts";
import { createTail } from "../src/feed/log/tail.ts";
import { createLog } from "../src/log.ts";
import { createNotifier } from "../src/store/postgres/notifier.ts";
import type { Notifier } from "../src/store/postgres/notifier.ts";
import { openDatabase } from "../src/store/postgres/database.ts";
import { nodeKeys } from "../src/store/nodes/nodes.ts";
import { percentile, printTable, shown } from "./figures.ts";
import { openFleet, registerFleet } from "./fleet.ts";
import type { Testbed } from "./testbed.ts";

type Where = "same process" | "another process";

const EVERY_MS = 15;

export async function measureLatency(
  testbed: Testbed,
  { subscribers, transitions }: { readonly subscribers: readonly number[]; readonly transitions: number },
): Promise<void> {
  const rows: string[][] = [];
  for (const where of ["same process", "another process"] as const) {
    for (const count of subscribers) {
      const all = await latenciesMs(testbed, { where, subscribers: count, transitions });
      rows.push([
        `${where}, ${count}`,
        shown(percentile(all, 0.5)),
        shown(percentile(all, 0.99)),
        shown(Math.max(...all)),
      ]);
    }
  }
  console.log(`  ${transitions} transitions, one every ${EVERY_MS} ms`);
  printTable(["subscribers", "p50 ms", "p99 ms", "worst ms"], rows);
}

async function latenciesMs(
  testbed: Testbed,
  options: { readonly where: Where; readonly subscribers: number; readonly transitions: number },
): Promise<number[]> {
  await using made = await testbed.database("served");
  const { connection } = made;
  {
    await using fleet = await openFleet({ connection, concurrency: 1 });
    await registerFleet(fleet.engine, 100);
  }
  const log = createLog("error");
  await using database = await openDatabase({ connection });
  await using writerNotifier = await createNotifier(database, () => {});
  await using readerNotifier = await createNotifier(database, () => {});
  await using tail = await createTail({
    database,
    notifier: options.where === "same process" ? writerNotifier : readerNotifier,
    log,
  });
  const committedAt: number[] = [];
  const watched: Notifier = {
    ...writerNotifier,
    notify() {
      committedAt.push(performance.now());
      writerNotifier.notify();
    },
  };
  const transact = createTransact(database, watched);
  const nodes = await nodeKeys(database.reader, {});
  const latencies: number[] = [];
  let ready = 0;
  const readers = Array.from({ length: options.subscribers }, async () => {
    let seen = 0;
    for await (const item of nodeStream({ database, tail }, { snapshot: false })) {
      if (item.kind === "bookmark") ready += 1;
      if (item.kind !== "transition") continue;
      // The reader can receive the transition before the writer's commit is acknowledged; this counts as 0.
      latencies.push(Math.max(0, performance.now() - (committedAt[seen] ?? Number.POSITIVE_INFINITY)));
      seen += 1;
      if (seen === options.transitions) return;
    }
  });
  while (ready < options.subscribers) await delay(5);
  for (let index = 0; index < options.transitions; index += 1) {
    const node = nodes[index % nodes.length];
    if (node)
      await transact((transaction) =>
        move(transaction, [node.id], { from: "ENROLLED", event: "recover" }, { actor: "benchmark" }),
      );
    await delay(EVERY_MS);
  }
  await Promise.all(readers);
  return latencies;
}
