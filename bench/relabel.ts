/**
 * Subject `relabel`: the labels of a whole fleet change in one transaction while clients follow it with `nodeChanges`,
 * by ten filters that match a tenth of the nodes each, and ten clients that follow all nodes. Measures the time until
 * each client has exactly its nodes, the CPU and memory that this takes, and how fast the service answers other
 * requests meanwhile. Writer, service and clients are processes of their own.
 */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { numberChanges } from "../src/store/log/changes.ts";
import { percentile, printTable, shown } from "./figures.ts";
import { CALLER, PLUGIN, openFleet } from "./fleet.ts";
import type { Follower, FromClients, ToClients } from "./relabel-clients.ts";
import { mutate, request } from "./request.ts";
import { startServed } from "./service.ts";
import type { Served } from "./service.ts";
import { DRIVER } from "./six-step-driver.ts";
import { cpuMs, end, rssMb } from "./testbed.ts";
import type { Testbed } from "./testbed.ts";

export interface RelabelOptions {
  /** Numbers of clients with one of ten filters. */
  readonly followers: readonly number[];
  readonly nodes: number;
}

interface Figures {
  readonly editSeconds: number;
  readonly firstSeconds: number;
  readonly medianSeconds: number;
  readonly lastSeconds: number;
  readonly serviceCpuMs: number;
  readonly postgresCpuMs: number;
  readonly idleMb: number;
  readonly peakMb: number;
  readonly items: number;
  readonly expected: number;
  readonly surplus: number;
  readonly bytes: number;
  readonly others: readonly number[];
}

const GROUPS = 10;
/** Clients that follow all nodes. */
const OF_ALL = 10;
const REGISTERED_AT_ONCE = 1_000;
const SAMPLE_MS = 100;
/** Between two other requests, so that their CPU is little. */
const PAUSE_MS = 50;
const LABEL = "round";
const QUERY = `subscription Fleet($filter: NodeFilter) {
  nodeChanges(filter: $filter) {
    __typename
    ... on NodeUpserted { cursor changed node { id name state revision labels { key value } } }
    ... on NodeLeft { cursor id }
    ... on StreamBookmark { cursor caughtUp }
    ... on StreamReset { cursor code }
  }
}`;
const EDIT = `mutation {
  updateNodes(input: { nodes: { all: true }, setLabels: [{ key: "${LABEL}", value: "7" }] }) { errors { message } }
}`;
const AWAITED = `{"key":"${LABEL}","value":"7"}`;
const OTHER = "{ nodes(first: 20) { nodes { id name state } } }";

export async function measureRelabel(testbed: Testbed, { followers, nodes }: RelabelOptions): Promise<void> {
  const rows: string[][] = [];
  for (const count of followers) {
    const figures = await measureOne(testbed, count, nodes);
    const { serviceCpuMs, postgresCpuMs, items, expected, surplus, others } = figures;
    rows.push([
      `${count} + ${OF_ALL}`,
      ...[figures.editSeconds, figures.firstSeconds, figures.medianSeconds, figures.lastSeconds].map((s) => shown(s)),
      ...[serviceCpuMs, postgresCpuMs].map((value) => shown(value / 1_000)),
      String(items),
      String(expected - items + surplus),
      String(surplus),
      shown((serviceCpuMs * 1_000) / items),
      shown(figures.bytes / items, 0),
      ...[figures.idleMb, figures.peakMb].map((value) => shown(value, 0)),
      ...[0.5, 0.99, 1].map((share) => shown(percentile(others, share), 0)),
    ]);
  }
  console.log(`  the labels of ${nodes} nodes in one transaction; others: requests for 20 nodes, ${PAUSE_MS} ms apart`);
  const head =
    "clients|edit s|first s|median s|last s|service CPU s|PostgreSQL CPU s|items|missing|surplus|µs per item|bytes";
  printTable([...head.split("|"), "MB before", "MB peak", "others p50 ms", "p99", "max"], rows);
}

async function measureOne(testbed: Testbed, count: number, nodes: number): Promise<Figures> {
  await using made = await testbed.database("served");
  const { connection } = made;
  if (!("url" in connection)) throw new Error("A served database is reached by a URL.");
  await registerGroups(connection, nodes);
  await using service = await startServed(testbed, {
    environment: { DATABASE_URL: connection.url, OSTLER_PLUGINS: PLUGIN, OSTLER_POWER_SECONDS: "0" },
  });
  const child = fork(fileURLToPath(new URL("relabel-clients.ts", import.meta.url)));
  testbed.watch(child);
  try {
    const followers = followersOf(count, nodes);
    const live = replyOf(child);
    send(child, { open: { url: service.url, query: QUERY, followers } });
    await live;
    const idleMb = rssMb(service.pid) ?? Number.NaN;
    const [cpuBefore, postgresBefore] = [cpuMs(service.pid) ?? 0, testbed.postgresCpuMs() ?? 0];
    const all = replyOf(child);
    send(child, { awaited: AWAITED });
    const began = performance.timeOrigin + performance.now();
    const editing = timed(() => mutate(service, EDIT));
    const { peakMb, others } = await watchUntil(service, all);
    const done = await all;
    if ("live" in done) throw new Error("The followers replied out of order.");
    const { firstAt, medianAt, lastAt, items, bytes, surplus } = done;
    return {
      editSeconds: (await editing) / 1_000,
      firstSeconds: (firstAt - began) / 1_000,
      medianSeconds: (medianAt - began) / 1_000,
      lastSeconds: (lastAt - began) / 1_000,
      serviceCpuMs: (cpuMs(service.pid) ?? 0) - cpuBefore,
      postgresCpuMs: (testbed.postgresCpuMs() ?? 0) - postgresBefore,
      idleMb,
      peakMb,
      others,
      items,
      bytes,
      surplus,
      expected: followers.reduce((sum, follower) => sum + follower.nodes, 0),
    };
  } finally {
    await end(child);
  }
}

function followersOf(count: number, nodes: number): readonly Follower[] {
  const ofGroup = (index: number): Follower => ({
    variables: { filter: { labels: [{ key: "group", value: String(index % GROUPS) }] } },
    nodes: Math.floor(nodes / GROUPS) + (index % GROUPS < nodes % GROUPS ? 1 : 0),
  });
  const ofAll: Follower = { variables: { filter: null }, nodes };
  return [
    ...Array.from({ length: count }, (_, index) => ofGroup(index)),
    ...Array.from({ length: OF_ALL }, () => ofAll),
  ];
}

/** Nodes with the label `group` in turns. */
async function registerGroups(connection: { readonly url: string }, nodes: number): Promise<void> {
  await using fleet = await openFleet({ connection, concurrency: 1 });
  for (let from = 0; from < nodes; from += REGISTERED_AT_ONCE) {
    const batch = Array.from({ length: Math.min(REGISTERED_AT_ONCE, nodes - from) }, (_, index) => ({
      name: `n${String(from + index).padStart(5, "0")}`,
      driver: DRIVER,
      labels: { group: String((from + index) % GROUPS) },
    }));
    const { refusals } = await fleet.engine.registerNodes(CALLER, batch);
    if (refusals.length > 0) throw new Error(refusals[0]?.message);
  }
  // Otherwise followers would receive the end of the registration.
  while ((await numberChanges(fleet.database.reader, nodes)) > 0);
}

function send(child: ChildProcess, message: ToClients): void {
  child.send(message);
}

/** The next reply; rejects if the clients end before. */
function replyOf(child: ChildProcess): Promise<FromClients> {
  const ended = once(child, "exit").then(([code]): never => {
    throw new Error(`The followers ended with ${String(code)}.`);
  });
  return Promise.race([once(child, "message").then(([reply]) => reply as FromClients), ended]);
}

/** Peak memory of the service, and the times of small requests, until all clients have everything. */
async function watchUntil(service: Served, all: Promise<unknown>) {
  let isOver = false;
  const over = all.finally(() => {
    isOver = true;
  });
  let peakMb = 0;
  const sampling = setInterval(() => {
    peakMb = Math.max(peakMb, rssMb(service.pid) ?? 0);
  }, SAMPLE_MS);
  const others: number[] = [];
  try {
    while (!isOver) {
      others.push(await timed(() => request(service, OTHER)));
      await delay(PAUSE_MS);
    }
    await over;
  } finally {
    clearInterval(sampling);
  }
  return { peakMb, others };
}

async function timed(call: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await call();
  return performance.now() - began;
}
