/**
 * `npm run tool -- stalled-changes`: readers of `nodeChanges` that stop reading beside 50,000 changes. Half of them use
 * WebSocket, half server-sent events; each has a filter of its own, so that nothing is shared, and every third one
 * stops in the middle of a snapshot. Some read on after two seconds, the others only when the service has disconnected
 * them. Two healthy readers follow meanwhile, and requests are made one after the other.
 *
 * Memory of the service is bounded, the healthy readers and the requests are not slower than without stopped readers,
 * and in the end each reader has exactly what the list has: the early ones over their connection, the others after they
 * have subscribed again with their last cursor.
 *
 * Options: --readers 20 --changes 50000 --nodes 200.
 */
import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { percentile } from "../chaos/checker/intervals.ts";
import { ask } from "../support/ask.ts";
import { eventually } from "../support/eventually.ts";
import { check, prove } from "../support/proof.ts";
import { positionOf, readList } from "./change-follower.ts";
import type { Followed, Row } from "./change-follower.ts";
import { ChangeReader } from "./change-reader.ts";
import type { Ending } from "./change-reader.ts";
import { openServedLab } from "./served-lab.ts";
import type { ServedLab } from "./served-lab.ts";

export interface StalledChangesOptions {
  readonly readers: number;
  readonly changes: number;
  readonly nodes: number;
  /** Characters of each item beside the node itself. */
  readonly ballast: number;
  /** When the early readers read on, in milliseconds. */
  readonly earlyMs: number;
  /** Called now and then while changes are written. */
  readonly sample?: (phase: "alone" | "beside") => Promise<void>;
  /** Settles when the late readers may read on; absent: at once. `connected`: how many streams are not theirs. */
  readonly beforeReading?: (connected: number) => Promise<unknown>;
  readonly say?: (line: string) => void;
}

/** Milliseconds. */
interface Waits {
  readonly edits: readonly number[];
  readonly queries: readonly number[];
  /** From the request of an edit to a healthy reader. */
  readonly deliveries: readonly number[];
}

export interface StalledChangesReport {
  /** Without stopped readers, and beside them. */
  readonly alone: Waits;
  readonly beside: Waits;
  /** How the connections of early and late readers ended. */
  readonly early: readonly Ending[];
  readonly late: readonly Ending[];
  /** Items that a correct stream does not send. */
  readonly faults: readonly string[];
  /** Nodes that a reader has otherwise than the list. */
  readonly differences: readonly string[];
}

const AT_ONCE = 100;
const SAMPLE_EVERY = 20;
const CLUSTER = "stalled";
const LABEL = "edit";
const LATE_MS = 300_000;
const FIELDS = "id name revision state description labels { key value } cluster { id variables }";
const SUBSCRIPTION = `subscription Stalled($after: String, $snapshot: Boolean!, $filter: NodeFilter) {
  items: nodeChanges(after: $after, snapshot: $snapshot, filter: $filter) {
    __typename
    ... on NodeUpserted { cursor changed row: node { ${FIELDS} } }
    ... on NodeLeft { cursor id name deleted }
    ... on StreamBookmark { cursor snapshotComplete caughtUp }
    ... on StreamReset { cursor code }
  }
}`;
const LIST = `query List($page: String, $filter: NodeFilter) {
  list: nodes(first: 100, after: $page, filter: $filter) {
    asOf nodes { ${FIELDS} } pageInfo { hasNextPage endCursor }
  }
}`;

const nameOf = (index: number) => `stalled-${index}`;

/** All nodes, by a filter of its own. */
function followedBy(title: string): Followed {
  return {
    title,
    subscription: SUBSCRIPTION,
    list: LIST,
    variables: { filter: { not: { hostGroup: title } } },
    mayLeave: ({ name }) => `${name ?? "A node"} left, although it always matched.`,
  };
}

export async function runStalledChanges(url: string, options: StalledChangesOptions): Promise<StalledChangesReport> {
  const { readers, changes, earlyMs, say = () => {} } = options;
  await registerNodes(url, options);
  const writer = new Writer(url, options);
  const healthy = (["WebSocket", "server-sent events"] as const).map((transport) => {
    return new ChangeReader(url, { transport, followed: followedBy("healthy"), onRow: writer.delivered });
  });
  for (const one of healthy) await one.open();
  await Promise.all(healthy.map((one) => one.resume(0)));
  say("changes without stopped readers");
  const alone = await writer.write("alone", Math.ceil(changes / 5));

  const stopped = await openStopped(url, readers);
  const [early, late] = [stopped.slice(0, readers / 5), stopped.slice(readers / 5)];
  say(`changes beside ${readers} stopped readers`);
  const resumed = delay(earlyMs).then(async () => {
    const position = await newestPosition(url);
    return Promise.all(early.map((one) => one.resume(position)));
  });
  const beside = await writer.write("beside", changes);
  const earlyEndings = await resumed;
  await options.beforeReading?.(healthy.length + early.length);
  say("all read on");
  const all = [...healthy, ...stopped];
  const { position, rows } = await readList(url, followedBy("list"));
  const endings = new Map<ChangeReader, Ending>();
  await Promise.all(all.map(async (one) => endings.set(one, await one.catchUp(position))));
  for (const one of all) one.end();
  return {
    alone,
    beside,
    early: earlyEndings,
    late: late.map((one) => endings.get(one) ?? null),
    faults: all.flatMap(({ title, state }) => state.faults.map((fault) => `${title}: ${fault}`)),
    differences: all.flatMap((one) => differencesOf(one, rows)),
  };
}

/** Every third one stops in the middle of a snapshot, the others when they are live. */
async function openStopped(url: string, count: number): Promise<readonly ChangeReader[]> {
  const stopped: ChangeReader[] = [];
  for (let index = 0; index < count; index += 1) {
    const transport = index % 2 === 0 ? "WebSocket" : "server-sent events";
    const one = new ChangeReader(url, { transport, followed: followedBy(`reader-${index}`) });
    await one.open();
    if (index % 3 > 0) await one.resume(0);
    one.stop();
    stopped.push(one);
  }
  return stopped;
}

function differencesOf({ title, state }: ChangeReader, listed: ReadonlyMap<string, Row>): readonly string[] {
  return [...new Set([...state.rows.keys(), ...listed.keys()])].flatMap((id) => {
    const [row, wanted] = [state.rows.get(id), listed.get(id)];
    if (isDeepStrictEqual(row, wanted)) return [];
    return [`${title} has revision ${row?.revision} of ${row?.name ?? id}, and the list ${wanted?.revision}`];
  });
}

// ---- changes

type GrowingWaits = { readonly [What in keyof Waits]: number[] };

/** Edits the labels of a hundred nodes at a time, and measures. */
class Writer {
  readonly #url: string;
  readonly #options: StalledChangesOptions;
  /** By edit. */
  readonly #beganAt: number[] = [];
  #waits: GrowingWaits = { edits: [], queries: [], deliveries: [] };

  constructor(url: string, options: StalledChangesOptions) {
    this.#url = url;
    this.#options = options;
  }

  async write(phase: "alone" | "beside", changes: number): Promise<Waits> {
    const { nodes, sample } = this.#options;
    const waits: GrowingWaits = { edits: [], queries: [], deliveries: [] };
    this.#waits = waits;
    for (let written = 0; written < changes; written += Math.min(AT_ONCE, nodes)) {
      const edit = this.#beganAt.push(performance.now()) - 1;
      const from = (edit * AT_ONCE) % nodes;
      const names = Array.from({ length: Math.min(AT_ONCE, nodes - from) }, (_, index) => nameOf(from + index));
      waits.edits.push(await timed(() => this.#edit(names, edit)));
      waits.queries.push(await timed(() => ask(this.#url, "{ nodes(first: 20) { nodes { id name state } } }")));
      if (edit % SAMPLE_EVERY === 0) await sample?.(phase);
    }
    return waits;
  }

  /** A healthy reader has received a node. The first node of an edit stands for all. */
  readonly delivered = (row: Row & { readonly labels?: readonly { key: string; value: string }[] }): void => {
    const edit = Number(row.labels?.find(({ key }) => key === LABEL)?.value ?? Number.NaN);
    const beganAt = this.#beganAt[edit];
    if (beganAt === undefined || row.name !== nameOf((edit * AT_ONCE) % this.#options.nodes)) return;
    this.#waits.deliveries.push(performance.now() - beganAt);
  };

  async #edit(names: readonly string[], edit: number): Promise<void> {
    const input = { nodes: { names }, setLabels: [{ key: LABEL, value: String(edit) }] };
    const { updateNodes } = await ask<{ updateNodes: { changedCount: number } }>(
      this.#url,
      "mutation Edit($input: UpdateNodesInput!) { updateNodes(input: $input) { changedCount errors { message } } }",
      { variables: { input } },
    );
    if (updateNodes.changedCount !== names.length) throw new Error(`Edit ${edit} changed ${updateNodes.changedCount}.`);
  }
}

async function timed(call: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await call();
  return performance.now() - began;
}

async function registerNodes(url: string, { nodes, ballast }: StalledChangesOptions): Promise<void> {
  const names = Array.from({ length: nodes }, (_, index) => nameOf(index));
  for (let from = 0; from < nodes; from += 500)
    await ask(
      url,
      "mutation Add($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }",
      {
        variables: { input: { nodes: names.slice(from, from + 500).map((name) => ({ name, driver: { fake: {} } })) } },
      },
    );
  await ask(
    url,
    "mutation Create($input: CreateClusterInput!) { createCluster(input: $input) { errors { message } } }",
    {
      variables: { input: { name: CLUSTER, variables: { ballast: "x".repeat(ballast) }, nodes: { names } } },
    },
  );
}

async function newestPosition(url: string): Promise<number> {
  const { nodes } = await ask<{ nodes: { asOf: string } }>(url, "{ nodes(first: 1) { asOf } }");
  return positionOf(nodes.asOf);
}

// ---- the long form

const MB_PER_READER_MAX = 3;
const GROWTH_MB_MAX = 30;
const RELEASED_MS = 5_000;

function shown(values: readonly number[]): string {
  return `p50 ${percentile(values, 0.5)?.toFixed(1)} ms, p99 ${percentile(values, 0.99)?.toFixed(1)} ms`;
}

function counted(endings: readonly Ending[]): string {
  return [...Map.groupBy(endings, String)].map(([ending, of]) => `${of.length} × ${ending}`).join(", ");
}

async function memoryOf(lab: ServedLab): Promise<number> {
  const { heap, buffers } = await lab.memory();
  return heap + buffers;
}

/** The number of streams that the service has. */
async function openStreams(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return [...text.matchAll(/^ostler_streams_open\{[^}]*\} (\d+)$/gm)].reduce(
    (sum, [, count]) => sum + Number(count),
    0,
  );
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      readers: { type: "string", default: "20" },
      changes: { type: "string", default: "50000" },
      nodes: { type: "string", default: "200" },
    },
  });
  const [readers, changes, nodes] = [Number(values.readers), Number(values.changes), Number(values.nodes)];
  await using lab = await openServedLab();
  const before = await memoryOf(lab);
  const most = { alone: before, beside: before };
  const report = await runStalledChanges(lab.url, {
    readers,
    changes,
    nodes,
    ballast: 2_000,
    earlyMs: 2_000,
    async sample(phase) {
      most[phase] = Math.max(most[phase], await memoryOf(lab));
    },
    beforeReading: (connected) =>
      eventually(
        "the stopped readers are disconnected",
        async () => (await openStreams(lab.url)) <= connected,
        LATE_MS,
      ),
    say: (line) => console.log(`     ${line}`),
  });
  await eventually("all streams have ended", async () => (await openStreams(lab.url)) === 0, LATE_MS);
  const isReleased = async () => (await memoryOf(lab)) - before < GROWTH_MB_MAX;
  // Streams share rows and results, which are dropped a quarter of a second later.
  await eventually("memory is released", isReleased, RELEASED_MS).catch(() => {});
  const after = await memoryOf(lab);
  for (const phase of ["alone", "beside"] as const) {
    const { edits, queries, deliveries } = report[phase];
    console.log(`     ${phase}: edits ${shown(edits)}; queries ${shown(queries)}; deliveries ${shown(deliveries)}`);
    console.log(`     ${phase}: at most ${most[phase].toFixed(1)} MB of heap and buffers`);
  }
  console.log(`     before ${before.toFixed(1)} MB, after ${after.toFixed(1)} MB`);
  console.log(`     late readers: ${counted(report.late)}`);
  const { early, faults, differences } = report;
  const each = (most.beside - most.alone) / readers;
  check("no object went back, and none left", faults.length === 0, faults.slice(0, 5).join("; "));
  check("each reader has what the list has", differences.length === 0, differences.slice(0, 5).join("; "));
  check(
    "early readers kept their connection",
    early.every((ending) => ending === null),
    counted(early),
  );
  check("a stopped reader costs a bounded amount of memory", each < MB_PER_READER_MAX, `${each.toFixed(2)} MB each`);
  check("memory is released", after - before < GROWTH_MB_MAX, `${(after - before).toFixed(1)} MB more`);
  for (const what of ["edits", "queries", "deliveries"] as const) {
    const [alone = Number.NaN, beside = Number.NaN] = [report.alone, report.beside].map((waits) =>
      percentile(waits[what], 0.5),
    );
    check(
      `${what} take less than twice as long`,
      beside < 2 * alone,
      `${alone.toFixed(1)} and ${beside.toFixed(1)} ms`,
    );
  }
}

if (import.meta.main) await prove(main);
