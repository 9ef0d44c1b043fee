/**
 * Subject `fleet`: one mutation commissions a whole fleet, over HTTP, in a service that is a process of its own and at
 * work: how long the answer takes, how much memory the process holds at its peak, how long other clients wait for theirs
 * meanwhile, and when the last node is ACTIVE.
 */
import { setTimeout as delay } from "node:timers/promises";
import { countNodes } from "../src/store/nodes.ts";
import { percentile, printTable, shown } from "./figures.ts";
import { PLUGIN, openFleet, registerFleet } from "./fleet.ts";
import { startServed } from "./service.ts";
import type { Served } from "./service.ts";
import { cpuMs, rssMb } from "./site.ts";
import type { Site } from "./site.ts";

const MUTATION =
  "mutation { commissionNodes(input: { nodes: { filter: {} } }) { operation { uuid totalCount } errors { code message } } }";
/** What the others ask: one row of the database. */
const TRIVIAL = "{ nodes(first: 1) { edges { node { name } } } }";
const ASK_EVERY_MS = 5;
const QUIET_MS = 2_000;
const LOOK_EVERY_MS = 100;

export async function measureWholeFleet(
  site: Site,
  { nodes, concurrency }: { readonly nodes: number; readonly concurrency: number },
): Promise<void> {
  await using made = await site.database("served");
  if (!("url" in made.connection)) throw new Error("A served database has a URL.");
  await using fleet = await openFleet({ connection: made.connection, concurrency: 1 });
  await registerFleet(fleet.engine, nodes);
  await using service = await startServed(site, {
    environment: {
      DATABASE_URL: made.connection.url,
      OSTLER_PLUGINS: PLUGIN,
      OSTLER_POWER_SECONDS: "0",
      OSTLER_CONCURRENCY: String(concurrency),
    },
  });
  const before = await answersWhile(service, () => delay(QUIET_MS));
  const rssBefore = rssMb(service.pid, "peak");
  const cpuBefore = cpuMs(service.pid);
  const begun = performance.now();
  let admittedMs = 0;
  const during = await answersWhile(service, async () => {
    const data = await post<{ commissionNodes: { operation: { totalCount: number } | null } }>(service, MUTATION);
    admittedMs = performance.now() - begun;
    if (data.commissionNodes.operation?.totalCount !== nodes)
      throw new Error(`Not all of ${nodes} nodes were admitted: ${JSON.stringify(data)}`);
  });
  const rssAdmitted = rssMb(service.pid, "peak");
  const cpuAdmitted = cpuMs(service.pid);
  const after = await answersWhile(service, async () => {
    while ((await countNodes(fleet.database.reader, { states: ["ACTIVE"] })) < nodes) await delay(LOOK_EVERY_MS);
  });
  const allMs = performance.now() - begun;
  const rssAll = rssMb(service.pid, "peak");
  const cpuAll = cpuMs(service.pid);
  const cpu = (from: number | null, to: number | null) => shown(from === null || to === null ? null : to - from, 0);
  console.log(
    `  ${nodes} nodes by one commissionNodes, ${concurrency} at a time; others ask for a node meanwhile, each answer's wait in ms`,
  );
  printTable(
    ["", "ms", "service CPU ms", "peak RSS MB", "others' p50", "p99", "worst"],
    [
      ["at rest", shown(QUIET_MS, 0), "", shown(rssBefore, 0), ...waits(before)],
      [
        "until it is answered",
        shown(admittedMs, 0),
        cpu(cpuBefore, cpuAdmitted),
        shown(rssAdmitted, 0),
        ...waits(during),
      ],
      ["until all are ACTIVE", shown(allMs, 0), cpu(cpuBefore, cpuAll), shown(rssAll, 0), ...waits(after)],
    ],
  );
}

function waits(all: readonly number[]): string[] {
  return [shown(percentile(all, 0.5)), shown(percentile(all, 0.99)), shown(Math.max(...all))];
}

/** How long each answer to another client takes until something has been done, in ms. */
async function answersWhile(service: Served, doing: () => Promise<void>): Promise<number[]> {
  const all: number[] = [];
  let over = false;
  const asking = (async () => {
    while (!over) {
      const begun = performance.now();
      await post(service, TRIVIAL);
      all.push(performance.now() - begun);
      await delay(ASK_EVERY_MS);
    }
  })();
  try {
    await doing();
  } finally {
    over = true;
    await asking;
  }
  return all;
}

async function post<Data>({ url }: Served, query: string): Promise<Data> {
  const response = await fetch(`${url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ query }),
  });
  const { data, errors } = (await response.json()) as { data?: Data; errors?: unknown };
  if (errors !== undefined || data === undefined) throw new Error(`The service answered ${JSON.stringify(errors)}.`);
  return data;
}
