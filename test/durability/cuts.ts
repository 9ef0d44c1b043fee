/**
 * `npm run tool -- cuts`: 50 clients follow the log, half of them over WebSocket, half over server-sent events, while
 * another process writes 20,000 transitions. 200 times a connection is cut, and its client resumes from its last
 * cursor. Afterwards each client has received every transition once, in the order of the log and of each node.
 *
 * Options: --clients 50 --cuts 200 --transitions 20000 --seed N. Prints the seed and a line per check.
 */
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { Engine } from "../../src/engine/engine.ts";
import { move } from "../support/moves.ts";
import type { Transact } from "../../src/engine/transaction.ts";
import { openServedLab } from "./served-lab.ts";
import { anySeed, chance } from "./lab.ts";
import type { Chance } from "./lab.ts";
import { subscribe } from "./subscriber.ts";
import type { Subscriber, Transport } from "./subscriber.ts";

/** The service, and access to its database. */
export interface CutsSite {
  readonly url: string;
  readonly engine: Engine;
  readonly transact: Transact;
}

export interface CutsOptions {
  readonly seed: number;
  readonly clients: number;
  readonly cuts: number;
  readonly transitions: number;
  readonly say?: (line: string) => void;
}

export interface CutsReport {
  readonly cuts: number;
  readonly written: number;
  readonly seconds: number;
  /** Transitions that a client never received, received twice, or received out of order. */
  readonly missing: number;
  readonly duplicates: number;
  readonly outOfOrder: number;
  readonly outOfOrderInNode: number;
  /** Messages that no client should receive: resets and GraphQL errors. */
  readonly surprises: readonly string[];
}

interface Seen {
  readonly cursor: number;
  readonly node: string;
  readonly sequence: number;
}

const NODES = 200;
const CALLER = { actor: "cuts", project: "default", scope: "ADMIN" as const };
/** Transitions of a node, each in its own transaction. After the last one the node is MANAGEABLE again. */
const PHASES = [
  ["ENROLLED", "verify"],
  ["VERIFYING", "done"],
  ["MANAGEABLE", "clean"],
  ["CLEANING", "done"],
  ["AVAILABLE", "manage"],
] as const;
const MANAGEABLE = 2;
/** Average lead of the writers over the readers; the cuts are to occur while both are active. */
const AHEAD_MAX = 1_000;
/** Time limit for the last reader after the last write. */
const LATE_MS = 60_000;
const QUERY =
  "subscription Follow($after: String) { nodeTransitions(after: $after) { __typename ... on Transition { cursor nodeUuid sequence } ... on StreamReset { code } } }";

interface Item {
  readonly __typename: string;
  readonly cursor?: string;
  readonly nodeUuid?: string;
  readonly sequence?: number;
  readonly code?: string;
}

/** A client that follows the log over its own connection, which can be cut. */
interface Follower extends Subscriber {
  readonly seen: readonly Seen[];
  readonly surprises: readonly string[];
}

export async function runCuts(site: CutsSite, options: CutsOptions): Promise<CutsReport> {
  const { say = () => {} } = options;
  const random = chance(options.seed);
  const began = Date.now();
  const names = Array.from({ length: NODES }, (_, index) => `cut-${index}`);
  const { nodeIds, refusals } = await site.engine.registerNodes(
    CALLER,
    names.map((name) => ({ name, driver: "fake" })),
  );
  if (refusals[0]) throw new Error(refusals[0].message);
  const from = NODES;
  const until = from + options.transitions;
  const followers = await Promise.all(
    Array.from({ length: options.clients }, (_, index) =>
      follow(site.url, index % 2 === 0 ? "WebSocket" : "server-sent events", from),
    ),
  );
  let cuts = 0;
  let written = 0;
  const seenOnAverage = () => followers.reduce((sum, { seen }) => sum + seen.length, 0) / followers.length;
  const writing = write(site.transact, nodeIds, options.transitions, random, {
    isAhead: () => written - seenOnAverage() > AHEAD_MAX,
    onWritten: (count) => {
      written += count;
    },
  });
  // Cuts are spread over the whole duration of the writing.
  const cutting = (async () => {
    while (cuts < options.cuts) {
      if (written < (cuts / options.cuts) * options.transitions) {
        await delay(1);
        continue;
      }
      await delay(random.whole(0, 60));
      if (!random.one(followers).cut()) continue;
      cuts += 1;
      if (cuts % 50 === 0)
        say(
          `${cuts} cuts, ${written} transitions written, ${Math.min(...followers.map(({ seen }) => seen.length))} to ${Math.max(...followers.map(({ seen }) => seen.length))} seen`,
        );
    }
  })();
  await Promise.all([writing, cutting]);
  for (
    const giveUp = Date.now() + LATE_MS;
    followers.some(({ seen }) => seen.at(-1)?.cursor !== until) && Date.now() < giveUp;
  )
    await delay(50);
  for (const follower of followers) await follower.close();
  const sum = (of: (seen: readonly Seen[]) => number) => followers.reduce((total, { seen }) => total + of(seen), 0);
  return {
    cuts,
    written: options.transitions,
    seconds: (Date.now() - began) / 1_000,
    missing: sum((seen) => options.transitions - new Set(seen.map(({ cursor }) => cursor)).size),
    duplicates: sum((seen) => seen.length - new Set(seen.map(({ cursor }) => cursor)).size),
    outOfOrder: sum(
      (seen) => seen.filter(({ cursor }, index) => index > 0 && cursor <= (seen[index - 1]?.cursor ?? 0)).length,
    ),
    outOfOrderInNode: sum(disorderInNodes),
    surprises: followers.flatMap(({ surprises }) => surprises),
  };
}

/** Number of transitions of nodes that do not follow the previous one. Each node starts with its registration. */
function disorderInNodes(seen: readonly Seen[]): number {
  const last = new Map<string, number>();
  return seen.filter(({ node, sequence }) => {
    const follows = sequence === (last.get(node) ?? 1) + 1;
    last.set(node, sequence);
    return !follows;
  }).length;
}

/** Writes the given number of transitions with eight writers, each on its own nodes. */
async function write(
  transact: Transact,
  nodeIds: readonly string[],
  count: number,
  random: Chance,
  pace: { isAhead(): boolean; onWritten(count: number): void },
): Promise<void> {
  let left = count;
  const writers = Array.from({ length: 8 }, (_, writer) => nodeIds.filter((_id, index) => index % 8 === writer));
  await Promise.all(
    writers.map(async (mine) => {
      const at = new Map(mine.map((id) => [id, 0]));
      while (left > 0) {
        if (pace.isAhead()) {
          await delay(5);
          continue;
        }
        const phase = at.get(random.one(mine)) ?? 0;
        const able = mine.filter((id) => at.get(id) === phase);
        const some = random.some(Math.min(left, random.whole(1, 25)), able);
        left -= some.length;
        const [state, event] = PHASES[phase] ?? PHASES[0];
        await transact(async (work) => void (await move(work, some, { from: state, event }, CALLER)));
        pace.onWritten(some.length);
        for (const id of some) at.set(id, phase + 1 === PHASES.length ? MANAGEABLE : phase + 1);
      }
    }),
  );
}

async function follow(url: string, transport: Transport, from: number): Promise<Follower> {
  const seen: Seen[] = [];
  const surprises: string[] = [];
  const subscriber = await subscribe<{ readonly nodeTransitions: Item }>({
    url,
    transport,
    next: () => ({ query: QUERY, variables: { after: String(seen.at(-1)?.cursor ?? from) } }),
    take({ nodeTransitions: { __typename, cursor, nodeUuid, sequence, code } }) {
      if (__typename === "Transition")
        seen.push({ cursor: Number.parseInt(cursor ?? "", 10), node: nodeUuid ?? "", sequence: sequence ?? 0 });
      if (__typename === "StreamReset") surprises.push(`StreamReset ${code}`);
    },
    onFault: (message) => surprises.push(message),
  });
  return { ...subscriber, seen, surprises };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      clients: { type: "string", default: "50" },
      cuts: { type: "string", default: "200" },
      transitions: { type: "string", default: "20000" },
      seed: { type: "string", default: String(anySeed()) },
    },
  });
  const options = {
    seed: Number(values.seed),
    clients: Number(values.clients),
    cuts: Number(values.cuts),
    transitions: Number(values.transitions),
  };
  console.log(
    `seed ${options.seed}: ${options.clients} clients, ${options.cuts} cuts, ${options.transitions} transitions`,
  );
  await using lab = await openServedLab();
  const report = await runCuts(lab, { ...options, say: (line) => console.log(`     ${line}`) });
  console.log(`     ${report.written} transitions written and ${report.cuts} cuts in ${report.seconds.toFixed(1)} s`);
  let failed = 0;
  for (const what of ["missing", "duplicates", "outOfOrder", "outOfOrderInNode"] as const) {
    console.log(
      `${report[what] === 0 ? "ok  " : "FAIL"} ${what}: ${report[what]} of ${report.written * options.clients}`,
    );
    if (report[what] > 0) failed += 1;
  }
  console.log(
    `${report.surprises.length === 0 ? "ok  " : "FAIL"} surprises: ${report.surprises.slice(0, 5).join("; ") || "none"}`,
  );
  process.exitCode = failed === 0 && report.surprises.length === 0 ? 0 : 1;
}

if (import.meta.main) await main();
