/**
 * Passes of nodes through a cycle, from managed to inspected, available, active and available again, on a service with
 * an embedded database of its own, and what they cost in each process.
 */
import { mkdtempSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { socketFolderOf } from "../src/store/postgres/embedded-folder.ts";
import { USER, passwordOf } from "../src/store/postgres/embedded-setup.ts";
import { sampleOf, withPeak } from "./process-memory.ts";
import { inputTypes, mutate } from "./request.ts";
import { nodeArgsOf, startServed } from "./service.ts";
import type { Served } from "./service.ts";
import { cpuMs, cpuMsOfChildren, memoryMbOfTree, pssMb } from "./testbed.ts";
import type { Testbed } from "./testbed.ts";

export interface PassOptions {
  readonly nodes: number;
  readonly concurrency: number;
  /** Nodes of a pass with one request each. */
  readonly singles: number;
  /** Requests for one node that are in flight at the same time. */
  readonly inFlight: number;
}

/** The checkout of this build. */
export const THIS_CHECKOUT = new URL("../", import.meta.url).pathname;

type Verb = "manageNodes" | "inspectNodes" | "provideNodes" | "commissionNodes" | "deployNodes" | "undeployNodes";
export const MODES = ["bulk", "single"] as const;
export type Mode = (typeof MODES)[number];

/** A node's next request waits for it. */
export const POLL_MS = 5;
const REQUEST_MS = 60_000;
const STARTS_EVERY_MS = 25;

/**
 * Per node and cycle. Memory and processes: at the peak of the pass. Starts of drivers' processes: in the whole pass.
 */
export interface Cost {
  readonly postgresCpuMs: number;
  readonly serviceCpuMs: number;
  readonly driversCpuMs: number;
  readonly walKb: number;
  readonly cyclesPerSecond: number;
  readonly serviceMb: number;
  readonly driversMb: number;
  readonly postgresMb: number;
  readonly driversProcesses: number;
  /** Without the benchmark's own session. */
  readonly postgresProcesses: number;
  readonly starts: number;
}

/** From PostgreSQL's log, per node and cycle. */
interface Counts {
  readonly statements: number;
  readonly commits: number;
}

export interface Build extends AsyncDisposable {
  readonly name: string;
  readonly service: Served;
  readonly sql: postgres.Sql;
  readonly postmaster: number;
  readonly logFile: string;
}

export interface Passes extends PassOptions {
  readonly verbs: readonly Verb[];
}

/**
 * A service on an embedded database of its own, without the power reader, whose work does not belong to the cycle. With
 * `asStarted` it is what `npm start` starts.
 */
export async function openBuild(
  testbed: Testbed,
  name: string,
  checkout: string,
  {
    concurrency,
    asStarted = false,
    environment = {},
  }: {
    readonly concurrency: number;
    readonly asStarted?: boolean;
    readonly environment?: Readonly<Record<string, string>>;
  },
): Promise<Build> {
  const data = mkdtempSync(join(testbed.folder, "cycle-"));
  await using parts = new AsyncDisposableStack();
  const service = parts.use(
    await startServed(testbed, {
      program: join(checkout, "src/main.ts"),
      nodeArgs: asStarted ? nodeArgsOf(checkout) : [],
      environment: {
        OSTLER_DATA: data,
        OSTLER_PLUGINS: "fake",
        ...(!asStarted && { OSTLER_POWER_SECONDS: "0" }),
        OSTLER_CONCURRENCY: String(concurrency),
        ...environment,
      },
    }),
  );
  const folder = join(data, "postgres");
  const password = passwordOf(folder);
  const sql = postgres({
    host: socketFolderOf(folder),
    port: 5432,
    user: USER,
    database: "postgres",
    ...(password !== null && { password }),
    max: 1,
    // Statements of the benchmark are not counted. Its session is one for the whole time, because its CPU time is
    // subtracted.
    connection: { log_statement: "none" },
    max_lifetime: null,
    onnotice: () => {},
  });
  parts.defer(() => sql.end({ timeout: 5 }));
  const postmaster = Number(readFileSync(join(folder, "data", "postmaster.pid"), "latin1").split("\n")[0]);
  const opened = parts.move();
  return {
    name,
    service,
    sql,
    postmaster,
    logFile: join(folder, "postgres.log"),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** Registers the nodes and takes them through a cycle, so that plans, processes and caches are warm. */
export async function enroll(build: Build, passes: Passes): Promise<void> {
  const { nodes } = passes;
  for (let from = 0; from < nodes; from += 500) {
    const list = Array.from({ length: Math.min(500, nodes - from) }, (_, index) => ({
      name: nameOf(from + index),
      driver: { fake: { password: "of-the-benchmark" } },
    }));
    await mutate(
      build.service,
      "mutation ($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }",
      { input: { nodes: list } },
      AbortSignal.timeout(REQUEST_MS),
    );
  }
  await cycleAll(build, passes);
}

/** The verbs of a cycle, which all builds have. */
export async function verbsOf(builds: readonly Build[]): Promise<readonly Verb[]> {
  const has = await Promise.all(builds.map(async ({ service }) => (await inputTypes(service)).has("provideNodes")));
  const provide = has.every(Boolean) ? "provideNodes" : "commissionNodes";
  return ["manageNodes", "inspectNodes", provide, "deployNodes", "undeployNodes"];
}

function nameOf(index: number): string {
  return `n${String(index).padStart(6, "0")}`;
}

// ---- passes

export async function measurePass(build: Build, mode: Mode, options: Passes): Promise<Cost> {
  const { sql } = build;
  await sql`vacuum analyze`;
  await sql`checkpoint`;
  const before = await readCounters(build);
  const start = performance.now();
  const countStarts = watchStarts(build.service.pid);
  const { result: cycles, peak } = await withPeak(
    () => sampleOf(build.service.pid, [before.session]),
    () => runPass(build, mode, options),
  );
  const starts = countStarts();
  const seconds = (performance.now() - start) / 1_000;
  const after = await readCounters(build);
  const each = (field: keyof typeof before) => (after[field] - before[field]) / cycles;
  return {
    postgresCpuMs: each("postgres"),
    serviceCpuMs: each("service"),
    driversCpuMs: each("drivers"),
    walKb: each("wal") / 1_024,
    cyclesPerSecond: cycles / seconds,
    serviceMb: peak.pssMb.service,
    driversMb: peak.pssMb.drivers,
    postgresMb: peak.pssMb.postgres,
    driversProcesses: peak.processes.drivers,
    postgresProcesses: peak.processes.postgres,
    starts,
  };
}

/** Runs a pass with all statements logged, and counts them. */
export async function countPass(build: Build, mode: Mode, options: Passes): Promise<Counts> {
  const { sql, logFile } = build;
  await sql`alter system set log_statement = 'all'`;
  await sql`select pg_reload_conf()`;
  const from = readFileSync(logFile).length;
  const cycles = await runPass(build, mode, options);
  const log = readFileSync(logFile).subarray(from).toString("utf8");
  await sql`alter system reset log_statement`;
  await sql`select pg_reload_conf()`;
  const count = (pattern: RegExp) => (log.match(pattern)?.length ?? 0) / cycles;
  return {
    statements: count(/ LOG: {2}(?:statement|execute [^:]*): /g),
    commits: count(/ LOG: {2}(?:statement|execute [^:]*): commit/gi),
  };
}

/** Returns the number of cycles. */
export async function runPass(build: Build, mode: Mode, passes: Passes): Promise<number> {
  const { nodes, singles } = passes;
  if (mode === "bulk") {
    await cycleAll(build, passes);
    return nodes;
  }
  const count = Math.min(nodes, singles);
  await cycleEach(build, { ...passes, nodes: count });
  return count;
}

/** All nodes through one cycle, with one request for each verb. */
async function cycleAll({ service, sql }: Build, { nodes, verbs }: Passes): Promise<void> {
  const names = Array.from({ length: nodes }, (_, index) => nameOf(index));
  for (const verb of verbs) {
    await submit(service, verb, { names });
    while ((await sql`select 1 from operations where finished_at is null limit 1`).length > 0) await delay(POLL_MS);
  }
}

/** Nodes through one cycle, each with its own requests. */
async function cycleEach({ service, sql }: Build, { nodes, verbs, inFlight }: Passes): Promise<void> {
  const waiting = new Map<string, () => void>();
  let isOver = false;
  const poll = (async () => {
    while (!isOver) {
      const ended =
        await sql`select id from operations where id = any(${[...waiting.keys()]}::uuid[]) and finished_at is not null`;
      for (const { id } of ended) {
        waiting.get(String(id))?.();
        waiting.delete(String(id));
      }
      await delay(POLL_MS);
    }
  })();
  let next = 0;
  const work = async () => {
    for (let index = next++; index < nodes; index = next++) {
      for (const verb of verbs) {
        const id = await submit(service, verb, { names: [nameOf(index)] });
        await new Promise<void>((resolve) => waiting.set(id, resolve));
      }
    }
  };
  try {
    await Promise.race([Promise.all(Array.from({ length: inFlight }, work)), poll]);
  } finally {
    isOver = true;
    await poll;
  }
}

async function submit(service: Served, verb: Verb, nodes: object): Promise<string> {
  const data = await mutate<{ work: { operation: { uuid: string } } }>(
    service,
    `mutation ($input: ${(await inputTypes(service)).get(verb)}!) { work: ${verb}(input: $input) { operation { uuid } errors { code message } } }`,
    { input: { nodes, ...(verb === "commissionNodes" && { until: "AVAILABLE" }) } },
    AbortSignal.timeout(REQUEST_MS),
  );
  return data.work.operation.uuid;
}

// ---- counters

export async function readCounters({ service, sql, postmaster }: Build) {
  const [row] = await sql`select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as wal, pg_backend_pid() as pid`;
  const own = cpuMs(service.pid) ?? Number.NaN;
  // The benchmark's own session asks again and again which operations have ended.
  const asking = cpuMs(Number(row?.["pid"])) ?? Number.NaN;
  return {
    wal: Number(row?.["wal"]),
    session: Number(row?.["pid"]),
    service: own,
    postgres: (cpuMsOfChildren(postmaster) ?? Number.NaN) + (cpuMs(postmaster) ?? 0) - asking,
    // The postmaster is a child of the service as well.
    drivers: (cpuMsOfChildren(service.pid) ?? Number.NaN) - (cpuMs(postmaster) ?? 0),
  };
}

/** Counts the child processes that a service starts, until the returned function is called. */
function watchStarts(pid: number): () => number {
  const known = new Set(childrenOf(pid));
  const before = known.size;
  const note = () => {
    for (const child of childrenOf(pid)) known.add(child);
  };
  const timer = setInterval(note, STARTS_EVERY_MS);
  return () => {
    clearInterval(timer);
    note();
    return known.size - before;
  };
}

function childrenOf(pid: number): readonly string[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").split(" ").filter(Boolean);
}

/** Memory of the service, its drivers and PostgreSQL. The postmaster is a child of the service. */
export function memoryMb({ service, postmaster }: Build): number {
  return (memoryMbOfTree(service.pid) ?? 0) + (memoryMbOfTree(postmaster) ?? 0) - pssMb(String(postmaster));
}
