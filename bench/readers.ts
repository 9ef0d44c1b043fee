/**
 * Subject `readers`: the time of a write (a node is registered and deleted, over HTTP) without other load, and while
 * streams catch up over the whole log. Both in turns in the same run: their ratio is what catching-up readers cost
 * others. The writer, the service and the readers are three processes.
 */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { createNotifier } from "../src/store/postgres/notifier.ts";
import { nodeKeys } from "../src/store/nodes/nodes.ts";
import { createTransact } from "../src/engine/transaction.ts";
import { move } from "../test/support/moves.ts";
import { percentile, printTable, shown } from "./figures.ts";
import { PLUGIN, openFleet, registerFleet } from "./fleet.ts";
import type { FromReaders, ReadStream, ToReaders } from "./reader-clients.ts";
import { mutate } from "./request.ts";
import { startServed } from "./service.ts";
import type { Served } from "./service.ts";
import { DRIVER } from "./six-step-driver.ts";
import { end } from "./testbed.ts";
import type { Testbed } from "./testbed.ts";

const FLEET = 1_000;
const STREAMS = ["nodeTransitions", "nodeChanges"] as const satisfies readonly ReadStream[];
/** Number of first writes that are not counted. */
const WARM_UP = 20;

export interface ReadersOptions {
  readonly readers: number;
  /** Transitions that a reader catches up over. */
  readonly log: number;
  readonly writes: number;
  readonly rounds: number;
}

export async function measureReaders(testbed: Testbed, options: ReadersOptions): Promise<void> {
  const { readers, log, writes, rounds } = options;
  await using made = await testbed.database("served");
  const { connection } = made;
  if (!("url" in connection)) throw new Error("A served database is reached by a URL.");
  await fillLog(connection, log);
  await using service = await startServed(testbed, {
    environment: { DATABASE_URL: connection.url, OSTLER_PLUGINS: PLUGIN, OSTLER_POWER_SECONDS: "0" },
  });
  await writeTimes(service, WARM_UP);
  const rows: string[][] = [];
  const passes = Array.from({ length: rounds }, (_, index) => STREAMS.map((stream) => ({ round: index + 1, stream })));
  for (const { round, stream } of passes.flat()) {
    const alone = await writeTimes(service, writes);
    const { times, items, seconds } = await withReaders(testbed, service, { ...options, stream });
    const [p50, p99] = [percentile(times, 0.5), percentile(times, 0.99)];
    const [p50Alone, p99Alone] = [percentile(alone, 0.5), percentile(alone, 0.99)];
    rows.push([
      `${round} ${stream}`,
      ...[p50Alone, p50, p50 / p50Alone, p99Alone, p99, p99 / p99Alone].map((value) => shown(value)),
      shown(items / seconds, 0),
    ]);
  }
  console.log(`  ${writes} writes alone, then beside ${readers} readers that catch up over ${log} transitions`);
  printTable(["round", "p50 ms", "beside", "ratio", "p99 ms", "beside", "ratio", "items/s to readers"], rows);
}

async function fillLog(connection: { readonly url: string }, transitions: number): Promise<void> {
  await using fleet = await openFleet({ connection, concurrency: 1 });
  await registerFleet(fleet.engine, FLEET);
  await using notifier = await createNotifier(fleet.database, () => {});
  const transact = createTransact(fleet.database, notifier);
  const ids = (await nodeKeys(fleet.database.reader, {})).map(({ id }) => id);
  for (let count = FLEET; count < transitions; count += FLEET)
    await transact((transaction) =>
      move(transaction, ids, { from: "ENROLLED", event: "recover" }, { actor: "benchmark" }),
    );
}

interface Beside {
  readonly times: readonly number[];
  readonly items: number;
  readonly seconds: number;
}

async function withReaders(
  testbed: Testbed,
  service: Served,
  { readers, writes, stream }: ReadersOptions & { readonly stream: ReadStream },
): Promise<Beside> {
  await using clients = openReaders(testbed);
  const start = performance.now();
  await clients.ask({ start: { url: socketOf(service), count: readers, stream } });
  const times = await writeTimes(service, writes);
  const { items } = countedOf(await clients.ask({ end: true }));
  return { times, items, seconds: (performance.now() - start) / 1_000 };
}

/** The readers' process. */
export function openReaders(
  testbed: Testbed,
): AsyncDisposable & { readonly ask: (message: ToReaders) => Promise<FromReaders> } {
  const child = fork(fileURLToPath(new URL("reader-clients.ts", import.meta.url)));
  testbed.watch(child);
  return {
    ask: (message) =>
      new Promise((resolve, reject) => {
        child.once("exit", (code) => reject(new Error(`The readers ended with ${code}.`)));
        child.once("message", resolve);
        child.send(message);
      }),
    [Symbol.asyncDispose]: () => end(child),
  };
}

export const socketOf = ({ url }: Served) => `${url.replace("http", "ws")}/graphql`;

export function countedOf(reply: FromReaders): { readonly items: number } {
  if ("reading" in reply) throw new Error("The readers replied out of order.");
  return reply;
}

/** The time of each write: one node registered and deleted. */
async function writeTimes(service: Served, count: number): Promise<number[]> {
  const times: number[] = [];
  for (let index = 0; index < count; index += 1) {
    const start = performance.now();
    await write(service, `write-${index}`);
    times.push(performance.now() - start);
  }
  return times;
}

async function write(service: Served, name: string): Promise<void> {
  await mutate(
    service,
    `mutation { registerNodes(input: { nodes: [{ name: "${name}", driver: { ${DRIVER}: {} } }] }) { errors { message } } }`,
  );
  await mutate(service, `mutation { deleteNodes(input: { nodes: { names: ["${name}"] } }) { errors { message } } }`);
}
