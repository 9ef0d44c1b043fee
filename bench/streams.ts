/**
 * Subject `streams`: from the acknowledgement of a commit until a subscriber receives the transition, socket included,
 * for 1 to 5,000 subscribers of one service; and the service's CPU per transition. The writer, the service and the
 * subscribers are three processes; PostgreSQL notifies the service of commits.
 *
 * Compared in the same minute with subscribers that each send a different document, so that each event is executed for
 * each of them, as Yoga does; and with a bare broadcast of rows over `ws`, without GraphQL.
 */
import { fork } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createTransact, move } from "../src/engine/transaction.ts";
import { createNotifier } from "../src/store/postgres/notifier.ts";
import { openDatabase } from "../src/store/postgres/database.ts";
import { nodeKeys } from "../src/store/nodes.ts";
import { newestCursor } from "../src/store/transitions.ts";
import { printTable, shown } from "./figures.ts";
import { openFleet, registerFleet } from "./fleet.ts";
import { startServed } from "./service.ts";
import { cpuMs, end, rssMb } from "./testbed.ts";
import type { Testbed } from "./testbed.ts";
import type { FromClients, ToClients } from "./stream-clients.ts";

const file = (name: string) => fileURLToPath(new URL(name, import.meta.url));

const WAYS = {
  "shared (Ostler)": { program: "../src/main.ts", query: "shared" },
  "separate (as Yoga)": { program: "../src/main.ts", query: "separate" },
  "bare ws broadcast": { program: "bare-broadcast.ts", query: "shared" },
} as const;
type Way = keyof typeof WAYS;

/** Time between two transitions: one reaches all subscribers before the next is written. */
const spacingMs = (subscribers: number) => Math.max(25, subscribers * 0.15);
/** Number of first transitions that are not counted. */
const WARM_UP = 5;
const SETTLE_MS = 1_000;

export async function measureStreams(
  testbed: Testbed,
  { subscribers, events }: { readonly subscribers: readonly number[]; readonly events: number },
): Promise<void> {
  const rows: string[][] = [];
  for (const count of subscribers) {
    for (const way of Object.keys(WAYS) as Way[]) {
      const { p50, p99, worst, cpu, rss, missing } = await measure(testbed, way, count, events);
      rows.push([
        `${count}, ${way}`,
        shown(p50),
        shown(p99),
        shown(worst),
        shown(cpu),
        shown(cpu === null ? null : (cpu * 1_000) / count),
        shown(rss, 0),
        String(missing),
      ]);
    }
  }
  console.log(`  ${events} transitions each, from commit to subscriber`);
  printTable(
    ["subscribers", "p50 ms", "p99 ms", "worst ms", "CPU ms per event", "CPU µs per delivery", "RSS MB", "missing"],
    rows,
  );
}

interface Figures {
  readonly p50: number;
  readonly p99: number;
  readonly worst: number;
  /** CPU time of the service for one transition, in ms. */
  readonly cpu: number | null;
  readonly rss: number | null;
  readonly missing: number;
}

async function measure(testbed: Testbed, way: Way, count: number, events: number): Promise<Figures> {
  await using made = await testbed.database("served");
  const { connection } = made;
  if (!("url" in connection)) throw new Error("A served database is reached by a URL.");
  {
    await using fleet = await openFleet({ connection, concurrency: 1 });
    await registerFleet(fleet.engine, 100);
  }
  const { program, query } = WAYS[way];
  const isBare = program === "bare-broadcast.ts";
  await using service = await startServed(testbed, {
    program,
    environment: { DATABASE_URL: connection.url, OSTLER_POWER_SECONDS: "0" },
    args: isBare ? [connection.url] : [],
  });
  await using clients = startClients(testbed);
  clients.send({ start: { url: `${service.url.replace("http", "ws")}/graphql`, count, query } });
  await clients.reply();
  await using database = await openDatabase({ connection });
  await using notifier = await createNotifier(database, () => {});
  const transact = createTransact(database, notifier);
  const nodes = await nodeKeys(database.reader, {});
  let { position } = await newestCursor(database.reader);
  const write = async (index: number): Promise<readonly [number, number]> => {
    const id = nodes[index % nodes.length]?.id ?? "";
    await transact((transaction) =>
      move(transaction, [id], { from: "ENROLLED", event: "recover" }, { actor: "benchmark" }),
    );
    return [(position += 1), performance.timeOrigin + performance.now()];
  };
  for (let index = 0; index < WARM_UP; index += 1) {
    await write(index);
    await delay(spacingMs(count));
  }
  await delay(SETTLE_MS);
  const cpuBefore = cpuMs(service.pid);
  const commits: (readonly [number, number])[] = [];
  for (let index = 0; index < events; index += 1) {
    commits.push(await write(index));
    await delay(spacingMs(count));
  }
  await delay(SETTLE_MS);
  const cpuAfter = cpuMs(service.pid);
  clients.send({ commits });
  const reply = await clients.reply();
  if ("live" in reply) throw new Error("The subscribers replied out of order.");
  return {
    ...reply,
    cpu: cpuBefore === null || cpuAfter === null ? null : (cpuAfter - cpuBefore) / events,
    rss: rssMb(service.pid),
  };
}

function startClients(
  testbed: Testbed,
): { send(message: ToClients): void; reply(): Promise<FromClients> } & AsyncDisposable {
  const child = fork(file("stream-clients.ts"));
  testbed.watch(child);
  return {
    send: (message) => void child.send(message),
    reply: () =>
      new Promise((resolve, reject) => {
        const onExit = (code: number | null) => reject(new Error(`The subscribers ended with ${code}.`));
        child.once("exit", onExit);
        child.once("message", (message: FromClients) => {
          child.off("exit", onExit);
          resolve(message);
        });
      }),
    [Symbol.asyncDispose]: () => end(child),
  };
}
