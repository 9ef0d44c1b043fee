/**
 * Subject `latency`: from the moment a commit is acknowledged to the moment a subscriber of the node stream holds the
 * transition; in the process that wrote it, and in one that hears of it through PostgreSQL alone. The second is played
 * by a doorbell and a tail of their own in this process. The socket to a client is not part of it.
 */
import { setTimeout as delay } from "node:timers/promises";
import { createTransact, move } from "../src/engine/transaction.ts";
import { nodeStream } from "../src/feed/node-stream.ts";
import { createTail } from "../src/feed/tail.ts";
import { createLog } from "../src/log.ts";
import { createNotifier } from "../src/store/postgres/notifier.ts";
import type { Notifier } from "../src/store/postgres/notifier.ts";
import { openDatabase } from "../src/store/postgres/database.ts";
import { nodeKeys } from "../src/store/nodes.ts";
import { percentile, printTable, shown } from "./figures.ts";
import { openFleet, registerFleet } from "./fleet.ts";
import type { Site } from "./site.ts";

type Where = "same process" | "another process";

const EVERY_MS = 15;

export async function measureLatency(
  site: Site,
  { subscribers, transitions }: { readonly subscribers: readonly number[]; readonly transitions: number },
): Promise<void> {
  const rows: string[][] = [];
  for (const where of ["same process", "another process"] as const) {
    for (const count of subscribers) {
      const all = await latenciesMs(site, { where, subscribers: count, transitions });
      rows.push([
        `${where}, ${count}`,
        shown(percentile(all, 0.5)),
        shown(percentile(all, 0.99)),
        shown(Math.max(...all)),
      ]);
    }
  }
  console.log(`  ${transitions} transitions, one each ${EVERY_MS} ms`);
  printTable(["subscribers", "p50 ms", "p99 ms", "worst ms"], rows);
}

async function latenciesMs(
  site: Site,
  options: { readonly where: Where; readonly subscribers: number; readonly transitions: number },
): Promise<number[]> {
  await using made = await site.database("served");
  const { connection } = made;
  {
    await using fleet = await openFleet({ connection, concurrency: 1 });
    await registerFleet(fleet.engine, 100);
  }
  const log = createLog("error");
  await using database = await openDatabase({ connection });
  await using writerBell = await createNotifier(database, () => {});
  await using readerBell = await createNotifier(database, () => {});
  await using tail = await createTail({
    database,
    notifier: options.where === "same process" ? writerBell : readerBell,
    log,
  });
  const committedAt: number[] = [];
  const watched: Notifier = {
    ...writerBell,
    notify() {
      committedAt.push(performance.now());
      writerBell.notify();
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
      // Read before the writer itself was told of its commit: as early as can be.
      latencies.push(Math.max(0, performance.now() - (committedAt[seen] ?? Number.POSITIVE_INFINITY)));
      seen += 1;
      if (seen === options.transitions) return;
    }
  });
  while (ready < options.subscribers) await delay(5);
  for (let index = 0; index < options.transitions; index += 1) {
    const node = nodes[index % nodes.length];
    if (node)
      await transact((work) => move(work, [node.id], { from: "ENROLLED", event: "recover" }, { actor: "benchmark" }));
    await delay(EVERY_MS);
  }
  await Promise.all(readers);
  return latencies;
}
