/**
 * Subject `fleet`: one mutation commissions a whole fleet, over HTTP, in a running service in a separate process.
 * Measures the time to the response, the peak memory of the process, the latency of other clients' requests in the
 * meantime, and the time until the last node is ACTIVE.
 */
import { setTimeout as delay } from "node:timers/promises";
import { countNodes } from "../src/store/nodes/nodes.ts";
import { percentile, printTable, shown } from "./figures.ts";
import { PLUGIN, openFleet, registerFleet } from "./fleet.ts";
import { request } from "./request.ts";
import { startServed } from "./service.ts";
import type { Served } from "./service.ts";
import { cpuMs, rssMb } from "./testbed.ts";
import type { Testbed } from "./testbed.ts";

const MUTATION =
  "mutation { commissionNodes(input: { nodes: { all: true } }) { operation { uuid totalCount } errors { code message } } }";
/** The other clients' request: one row of the database. */
const TRIVIAL = "{ nodes(first: 1) { edges { node { name } } } }";
const REQUEST_PAUSE_MS = 5;
const QUIET_MS = 2_000;
const POLL_MS = 100;

export async function measureWholeFleet(
  testbed: Testbed,
  { nodes, concurrency }: { readonly nodes: number; readonly concurrency: number },
): Promise<void> {
  await using made = await testbed.database("served");
  if (!("url" in made.connection)) throw new Error("A served database has a URL.");
  await using fleet = await openFleet({ connection: made.connection, concurrency: 1 });
  await registerFleet(fleet.engine, nodes);
  await using service = await startServed(testbed, {
    environment: {
      DATABASE_URL: made.connection.url,
      OSTLER_PLUGINS: PLUGIN,
      OSTLER_POWER_SECONDS: "0",
      OSTLER_CONCURRENCY: String(concurrency),
    },
  });
  const before = await latenciesDuring(service, () => delay(QUIET_MS));
  const rssBefore = rssMb(service.pid, "peak");
  const cpuBefore = cpuMs(service.pid);
  const start = performance.now();
  let admittedMs = 0;
  const during = await latenciesDuring(service, async () => {
    const data = await request<{ commissionNodes: { operation: { totalCount: number } | null } }>(service, MUTATION);
    admittedMs = performance.now() - start;
    if (data.commissionNodes.operation?.totalCount !== nodes)
      throw new Error(`Fewer than ${nodes} nodes were admitted: ${JSON.stringify(data)}`);
  });
  const rssAdmitted = rssMb(service.pid, "peak");
  const cpuAdmitted = cpuMs(service.pid);
  const after = await latenciesDuring(service, async () => {
    while ((await countNodes(fleet.database.reader, { states: ["ACTIVE"] })) < nodes) await delay(POLL_MS);
  });
  const allMs = performance.now() - start;
  const rssAll = rssMb(service.pid, "peak");
  const cpuAll = cpuMs(service.pid);
  const cpu = (from: number | null, to: number | null) => shown(from === null || to === null ? null : to - from, 0);
  console.log(
    `  ${nodes} nodes by one commissionNodes, ${concurrency} at a time; other requests for one node in the meantime, latencies in ms`,
  );
  printTable(
    ["", "ms", "service CPU ms", "peak RSS MB", "other requests: p50", "p99", "worst"],
    [
      ["idle", shown(QUIET_MS, 0), "", shown(rssBefore, 0), ...waits(before)],
      ["until the answer", shown(admittedMs, 0), cpu(cpuBefore, cpuAdmitted), shown(rssAdmitted, 0), ...waits(during)],
      ["until all are ACTIVE", shown(allMs, 0), cpu(cpuBefore, cpuAll), shown(rssAll, 0), ...waits(after)],
    ],
  );
}

function waits(all: readonly number[]): string[] {
  return [shown(percentile(all, 0.5)), shown(percentile(all, 0.99)), shown(Math.max(...all))];
}

/** Latencies of another client's requests while `work` runs, in ms. */
async function latenciesDuring(service: Served, work: () => Promise<void>): Promise<number[]> {
  const all: number[] = [];
  let over = false;
  const client = (async () => {
    while (!over) {
      const start = performance.now();
      await request(service, TRIVIAL);
      all.push(performance.now() - start);
      await delay(REQUEST_PAUSE_MS);
    }
  })();
  try {
    await work();
  } finally {
    over = true;
    await client;
  }
  return all;
}
