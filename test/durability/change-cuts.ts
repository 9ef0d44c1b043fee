/**
 * `npm run tool -- change-cuts`: clients follow nodes, operations and clusters with the streams of changes, half of
 * them over WebSocket, half over server-sent events, with filters and without, while others change the fleet in all
 * visible ways. 200 times a connection is cut, also during a snapshot, and its client resumes from its last cursor;
 * five times the service is killed with SIGKILL and started again on its embedded database. Afterwards each client has
 * exactly what the lists have, field by field, no object went back to an earlier revision, and none left that had to
 * stay.
 *
 * Options: --cuts 200 --kills 5 --nodes 150 --seed N. Prints the seed, a line per check, and `N passed, N failed`.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { ask } from "../support/ask.ts";
import { eventually } from "../support/eventually.ts";
import { check, prove } from "../support/proof.ts";
import { followChanges, readList } from "./change-follower.ts";
import type { ChangeFollower, Followed, ListOf, Row } from "./change-follower.ts";
import { allFollowed } from "./change-streams.ts";
import { registerFleet, startWriters } from "./change-writers.ts";
import type { ChangeWriters } from "./change-writers.ts";
import { anySeed, chance } from "./lab.ts";
import type { Chance } from "./lab.ts";

export interface ChangeCutsSite {
  readonly url: string;
  /** Kills the service and starts it again at the same address. */
  killed?(): Promise<void>;
}

export interface ChangeCutsOptions {
  readonly seed: number;
  readonly cuts: number;
  readonly kills: number;
  readonly nodes: number;
  readonly say?: (line: string) => void;
}

export interface ChangeCutsReport {
  readonly cuts: number;
  readonly cutsInSnapshots: number;
  readonly items: number;
  readonly seconds: number;
  /** Mutations of which no request was accepted. */
  readonly unused: readonly string[];
  /** Items that a correct stream does not send. */
  readonly faults: readonly string[];
  /** Objects that a client has otherwise than the list, or that one of both lacks. */
  readonly differences: readonly string[];
}

const STEADY = 10;
/** Requests of the writers between two cuts, and a further pause in milliseconds. */
const REQUESTS_MAX = 6;
const PAUSE_MS_MAX = 20;
/** Share of cuts after which a client begins with a snapshot. */
const SNAPSHOT_SHARE = 0.3;
const LATE_MS = 90_000;
/** Time for items that are under way when a client has caught up. */
const LAST_ITEMS_MS = 5_000;
const MUTATIONS = [
  "updateNodes",
  "setMaintenance",
  "clearMaintenance",
  "setRetired",
  "clearRetired",
  "updateCluster",
  "setPower",
  "readPower",
  "manageNodes",
  "reportPresence",
  "registerNodes",
  "deleteNodes",
];
const OPEN_WORK = `{ operations(filter: { states: [QUEUED, RUNNING, ABORTING, STOPPING] }, first: 1) { nodes { id } } }`;

export async function runChangeCuts(site: ChangeCutsSite, options: ChangeCutsOptions): Promise<ChangeCutsReport> {
  const { seed, nodes, say = () => {} } = options;
  const { url } = site;
  const began = Date.now();
  await registerFleet(url, { nodes, steady: STEADY });
  const followers = await Promise.all(
    (await allFollowed(url)).flatMap((followed) =>
      (["WebSocket", "server-sent events"] as const).map((transport) => followChanges(url, transport, followed)),
    ),
  );
  await eventually("all have a snapshot", () => followers.every(({ counts }) => counts.snapshots > 0), LATE_MS);
  const writers = startWriters(url, { random: chance(seed + 1), nodes, steady: STEADY });
  const cuts = await cutAtRandom({ site, followers, writers }, { ...options, random: chance(seed), say });
  const unused = () => MUTATIONS.filter((mutation) => !writers.accepted.has(mutation));
  await eventually("every kind of change was made", () => unused().length === 0, LATE_MS).catch(() => {});
  await writers.stop();
  await eventually("all work has ended", async () => !(await hasOpenWork(url)), LATE_MS);
  const differences = await compare(url, followers);
  for (const follower of followers) await follower.close();
  return {
    ...cuts,
    items: followers.reduce((sum, { counts }) => sum + counts.items, 0),
    seconds: (Date.now() - began) / 1_000,
    unused: unused(),
    faults: followers.flatMap(({ title, faults }) => faults.map((fault) => `${title}: ${fault}`)),
    differences,
  };
}

async function hasOpenWork(url: string): Promise<boolean> {
  const { operations } = await ask<{ operations: { nodes: readonly unknown[] } }>(url, OPEN_WORK);
  return operations.nodes.length > 0;
}

interface CutParts {
  readonly site: ChangeCutsSite;
  readonly followers: readonly ChangeFollower[];
  readonly writers: ChangeWriters;
}

/** Cuts one connection after the other, and kills the service at even distances in between. */
async function cutAtRandom(
  { site, followers, writers }: CutParts,
  options: ChangeCutsOptions & { readonly random: Chance; readonly say: (line: string) => void },
): Promise<{ readonly cuts: number; readonly cutsInSnapshots: number }> {
  const { random, kills, say } = options;
  const counts = { cuts: 0, cutsInSnapshots: 0 };
  let kill = 0;
  while (counts.cuts < options.cuts) {
    const until = writers.answered + random.whole(0, REQUESTS_MAX);
    await eventually("requests are answered", () => writers.answered >= until, LATE_MS);
    await delay(random.whole(0, PAUSE_MS_MAX));
    if (site.killed && kill < kills && counts.cuts >= ((kill + 1) / (kills + 1)) * options.cuts) {
      kill += 1;
      await site.killed();
      say(`kill ${kill} after ${counts.cuts} cuts`);
    }
    const follower = random.one(followers);
    const isAgain = random.often(SNAPSHOT_SHARE);
    const share = random.next();
    if (follower.isInSnapshot) counts.cutsInSnapshots += 1;
    const isCut = isAgain
      ? follower.startAgain(share, (isInSnapshot) => {
          counts.cuts += 1;
          if (isInSnapshot) counts.cutsInSnapshots += 1;
        })
      : follower.cut();
    if (isCut) counts.cuts += 1;
  }
  return counts;
}

/**
 * Differences between what clients have, after each was cut once more, and what the lists have. `asOf` of a list may be
 * older than its objects, so a client that has caught up to it may still receive what the list has already.
 */
async function compare(url: string, followers: readonly ChangeFollower[]): Promise<readonly string[]> {
  const lists = new Map<Followed, ListOf>();
  for (const { followed } of followers) if (!lists.has(followed)) lists.set(followed, await readList(url, followed));
  for (const follower of followers) follower.cut();
  const differences: string[] = [];
  for (const follower of followers) {
    const list = lists.get(follower.followed);
    if (!list) continue;
    const { title } = follower;
    await eventually(`${title} has caught up`, () => follower.hasCaughtUp(list.position), LATE_MS);
    const remaining = () => differencesOf(follower.rows, list.rows);
    await eventually(`${title} has what the list has`, () => remaining().length === 0, LAST_ITEMS_MS).catch(() => {});
    differences.push(...remaining().map((text) => `${title}: ${text}`));
  }
  return differences;
}

function differencesOf(rows: ReadonlyMap<string, Row>, listed: ReadonlyMap<string, Row>): readonly string[] {
  return [...new Set([...rows.keys(), ...listed.keys()])].flatMap((id) => {
    const [row, wanted] = [rows.get(id), listed.get(id)];
    if (isDeepStrictEqual(row, wanted)) return [];
    return [`has ${JSON.stringify(row) ?? "nothing"}, and the list ${JSON.stringify(wanted) ?? "nothing"}`];
  });
}

interface KillableService extends AsyncDisposable {
  readonly url: string;
  killed(): Promise<void>;
}

/** The service in a process of its own, with an embedded database. */
async function startKillable(seed: number): Promise<KillableService> {
  const folder = mkdtempSync(join(tmpdir(), "ostler-change-cuts-"));
  const port = 20_000 + (seed % 10_000);
  const program = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
  let service: ChildProcess;
  const start = async () => {
    service = spawn(process.execPath, [program, "--data", folder, "--port", String(port), "--log", "error"], {
      env: { PATH: process.env["PATH"], OSTLER_POWER_SECONDS: "0", OSTLER_PLUGINS: "fake" },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const started = service;
    await new Promise<void>((ready, refuse) => {
      started.stdout?.once("data", () => ready());
      started.once("exit", (code) => refuse(new Error(`The service ended (${code}) before it was ready.`)));
    });
  };
  const end = async (signal: NodeJS.Signals) => {
    const gone = once(service, "exit");
    service.kill(signal);
    await gone;
  };
  await start();
  return {
    url: `http://127.0.0.1:${port}`,
    async killed() {
      await end("SIGKILL");
      await start();
    },
    async [Symbol.asyncDispose]() {
      await end("SIGTERM");
      rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      cuts: { type: "string", default: "200" },
      kills: { type: "string", default: "5" },
      nodes: { type: "string", default: "150" },
      seed: { type: "string", default: String(anySeed()) },
    },
  });
  const [seed, cuts, kills, nodes] = [values.seed, values.cuts, values.kills, values.nodes].map(Number) as [
    number,
    number,
    number,
    number,
  ];
  console.log(`seed ${seed}: ${cuts} cuts, ${kills} kills, ${nodes} nodes`);
  await using service = await startKillable(seed);
  const report = await runChangeCuts(service, { seed, cuts, kills, nodes, say: (line) => console.log(`     ${line}`) });
  console.log(`     ${report.items} items in ${report.seconds.toFixed(1)} s`);
  const none = (title: string, list: readonly string[]) =>
    check(
      title,
      list.length === 0,
      list.length === 0 ? "" : `seed ${seed}; ${list.length}: ${list.slice(0, 5).join("; ")}`,
    );
  check(`connections were cut ${cuts} times`, report.cuts >= cuts, `${report.cuts}`);
  check("some of them during a snapshot", report.cutsInSnapshots >= cuts / 20, `${report.cutsInSnapshots}`);
  none("every kind of change was made", report.unused);
  none("no object went back, and none left that had to stay", report.faults);
  none("each client has what the list has, field by field", report.differences);
}

if (import.meta.main) await prove(main);
