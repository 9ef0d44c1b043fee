/**
 * Subject `behind`: the time and the CPU until readers of `nodeChanges` have caught up over changes of a fleet, and
 * other requests meanwhile. With `--against`, another checkout is measured on the same log, in alternating passes.
 */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "drizzle-orm";
import { logCursorText } from "../src/graphql/base/log-cursor.ts";
import { newestChange, numberChanges } from "../src/store/log/changes.ts";
import { percentile, printTable, shown } from "./figures.ts";
import { PLUGIN, openFleet, registerFleet } from "./fleet.ts";
import { countedOf, openReaders, socketOf } from "./readers.ts";
import { request } from "./request.ts";
import { nodeArgsOf, startServed } from "./service.ts";
import { cpuMs } from "./testbed.ts";
import type { Testbed } from "./testbed.ts";

export interface BehindOptions {
  /** Numbers of readers. */
  readonly behind: readonly number[];
  /** Numbers of nodes that the changes are of. */
  readonly changed: readonly number[];
  readonly rounds: number;
  /** Folder with the checkout of another build; empty: only this one is measured. */
  readonly against: string;
}

/** Changes over which each reader catches up. */
const CHANGES = 50_000;
const OTHER = "{ nodes(first: 20) { nodes { id name state } } }";
/** Between two other requests, so that their CPU is little. */
const PAUSE_MS = 50;
const NUMBERED_AT_ONCE = 10_000;

export async function measureBehind(testbed: Testbed, options: BehindOptions): Promise<void> {
  const builds = ["", ...(options.against ? [options.against] : [])];
  const rows: string[][] = [];
  for (const nodes of options.changed) {
    await using made = await testbed.database("served");
    const { connection } = made;
    if (!("url" in connection)) throw new Error("A served database is reached by a URL.");
    const after = await fillChanges(connection, nodes);
    for (let round = 1; round <= options.rounds; round += 1) {
      for (const readers of options.behind) {
        for (const build of builds) {
          const cells = await measureCatchUp(testbed, { url: connection.url, build, readers, after });
          rows.push([String(nodes), String(readers), build || "this build", ...cells]);
        }
      }
    }
  }
  console.log(`  readers ${CHANGES} changes behind; others: requests for 20 nodes, ${PAUSE_MS} ms apart`);
  const head = "nodes|readers|build|seconds|items|service CPU s|PostgreSQL CPU s|others p50 ms|p99";
  printTable(head.split("|"), rows);
}

/** Labels of all nodes change in turns. Returns the cursor before the first change. */
async function fillChanges(connection: { readonly url: string }, nodes: number): Promise<string> {
  await using fleet = await openFleet({ connection, concurrency: 1 });
  await registerFleet(fleet.engine, nodes);
  const { reader } = fleet.database;
  const numberAll = async () => {
    while ((await numberChanges(reader, NUMBERED_AT_ONCE)) > 0);
  };
  await numberAll();
  const after = logCursorText(await newestChange(reader));
  for (let edit = 0; edit < CHANGES / nodes; edit += 1)
    await reader.execute(
      sql`update nodes set labels = jsonb_build_object('edit', ${String(edit)}::text), revision = revision + 1`,
    );
  await numberAll();
  await reader.execute(sql`analyze changes`);
  return after;
}

interface CatchUp {
  readonly url: string;
  readonly build: string;
  readonly readers: number;
  readonly after: string;
}

async function measureCatchUp(testbed: Testbed, { url, build, readers, after }: CatchUp): Promise<readonly string[]> {
  await using service = await startServed(testbed, {
    ...(build !== "" && { program: join(build, "src/main.ts"), nodeArgs: nodeArgsOf(build) }),
    environment: { DATABASE_URL: url, OSTLER_PLUGINS: PLUGIN, OSTLER_POWER_SECONDS: "0" },
  });
  await using clients = openReaders(testbed);
  await request(service, OTHER);
  const [cpuBefore, postgresBefore] = [cpuMs(service.pid) ?? 0, testbed.postgresCpuMs() ?? 0];
  const began = performance.now();
  let isOver = false;
  const caughtUp = clients.ask({ catchUp: { url: socketOf(service), count: readers, after } }).finally(() => {
    isOver = true;
  });
  const others: number[] = [];
  while (!isOver) {
    const start = performance.now();
    await request(service, OTHER);
    others.push(performance.now() - start);
    await Promise.race([caughtUp, delay(PAUSE_MS)]);
  }
  const { items } = countedOf(await caughtUp);
  return [
    shown((performance.now() - began) / 1_000),
    String(items),
    shown(((cpuMs(service.pid) ?? 0) - cpuBefore) / 1_000),
    shown(((testbed.postgresCpuMs() ?? 0) - postgresBefore) / 1_000),
    ...[0.5, 0.99].map((share) => shown(percentile(others, share), 0)),
  ];
}
