/**
 * Where a benchmark runs: a folder of its own, in it a durable PostgreSQL that is reached by its socket (as the embedded
 * database is) and by TCP (as a served one is), and databases that are made for one measurement and dropped after it.
 * All of it is gone at the end, also when the benchmark is interrupted.
 */
import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import postgres from "postgres";
import { createEngine } from "../src/engine/engine.ts";
import { createRegistry } from "../src/drivers/registry.ts";
import { createLog } from "../src/log.ts";
import { createNotifier } from "../src/store/postgres/notifier.ts";
import { migrateDatabase, openDatabase } from "../src/store/postgres/database.ts";
import type { Connection } from "../src/store/postgres/database.ts";
import { startEmbedded } from "../src/store/postgres/embedded.ts";

/** How a database is reached: `served` by TCP with a URL, `embedded` by the socket. */
export type Way = "served" | "embedded";

export interface Site extends AsyncDisposable {
  readonly folder: string;
  /** What PostgreSQL has written to its log. */
  readonly logFile: string;
  /** A database with all tables, dropped when it is disposed of. */
  database(way: Way): Promise<AsyncDisposable & { readonly name: string; readonly connection: Connection }>;
  /** CPU time of all of PostgreSQL so far, in ms; null where the system does not tell. */
  postgresCpuMs(): number | null;
  /** Has a child process ended with the site, if it is still there then. */
  watch(child: ChildProcess): void;
}

const TEMPLATE = "bench_template";
/** How long a child may take to end. */
const END_MS = 5_000;
/** The unit of CPU times in /proc, everywhere that Node runs. */
const TICK_MS = 10;

export async function openSite(): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), "ostler-bench-"));
  const children: ChildProcess[] = [];
  const clear = () => {
    for (const child of children) child.kill("SIGKILL");
    // The child's database may be writing its last words.
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  };
  process.once("exit", clear);
  const port = await freePort();
  const server = await startEmbedded({ folder: join(folder, "postgres"), tcpPort: port });
  const { connection: socket } = server;
  if ("url" in socket) throw new Error("The embedded database is reached by its socket.");
  const urlOf = (name: string) => `postgres://${socket.user}@127.0.0.1:${port}/${name}`;
  const admin = postgres(urlOf("postgres"), { max: 1, onnotice: () => {} });
  await admin`create database ${admin(TEMPLATE)}`;
  await fill({ url: urlOf(TEMPLATE) });

  return {
    folder,
    logFile: join(folder, "postgres", "postgres.log"),
    async database(way) {
      const name = `bench_${randomUUID().slice(0, 8)}`;
      await admin`create database ${admin(name)} template ${admin(TEMPLATE)}`;
      return {
        name,
        connection: way === "served" ? { url: urlOf(name) } : { ...socket, database: name },
        async [Symbol.asyncDispose]() {
          await admin`drop database ${admin(name)} with (force)`;
          // Otherwise it comes in the middle of a later measurement.
          await admin`checkpoint`;
        },
      };
    },
    postgresCpuMs: () => cpuMsOfTree(server.pid),
    watch: (child) => void children.push(child),
    async [Symbol.asyncDispose]() {
      await Promise.all(children.map(end));
      await admin.end({ timeout: 1 });
      await server[Symbol.asyncDispose]();
      clear();
    },
  };
}

/** Tells a child to end, and waits until it has. */
export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise<void>((done) => child.once("exit", () => done()));
  child.kill("SIGTERM");
  const insist = setTimeout(() => child.kill("SIGKILL"), END_MS);
  await ended;
  clearTimeout(insist);
}

/** Migrations and the queue's tables. */
async function fill(connection: Connection): Promise<void> {
  await migrateDatabase(connection);
  await using database = await openDatabase({ connection, connectionsMax: 2 });
  await using notifier = await createNotifier(database, () => {});
  await using registry = createRegistry([]);
  const engine = await createEngine({ database, registry, notifier, log: createLog("silent"), concurrency: 1 });
  await engine[Symbol.asyncDispose]();
}

/** CPU of a process's living children and of those that it has seen end. */
function cpuMsOfTree(parent: number): number | null {
  if (!existsSync(`/proc/${parent}/stat`)) return null;
  const pids = readdirSync("/proc").filter((entry) => /^\d+$/.test(entry));
  return pids.reduce((sum, pid) => {
    const fields = statOf(pid);
    if (Number(pid) === parent) return sum + TICK_MS * (Number(fields[13]) + Number(fields[14]));
    return Number(fields[1]) === parent ? sum + TICK_MS * (Number(fields[11]) + Number(fields[12])) : sum;
  }, 0);
}

/** CPU time of a process so far, in ms; null where the system does not tell. */
export function cpuMs(pid: number): number | null {
  const fields = statOf(String(pid));
  return fields.length === 0 ? null : TICK_MS * (Number(fields[11]) + Number(fields[12]));
}

/** Memory that a process holds, or has held at its peak, in MB; null where the system does not tell. */
export function rssMb(pid: number, which: "now" | "peak" = "now"): number | null {
  try {
    const line = which === "now" ? /^VmRSS:\s+(\d+) kB$/m : /^VmHWM:\s+(\d+) kB$/m;
    const kilobytes = line.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return kilobytes === undefined ? null : Number(kilobytes) / 1024;
  } catch {
    return null;
  }
}

/** Fields of /proc/<pid>/stat after the name: state, parent, … */
function statOf(pid: string): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)?.split(" ") ?? [];
  } catch {
    // It has ended.
    return [];
  }
}

/** A port that is free now, below those that the kernel gives to outgoing connections. */
async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries += 1) {
    const port = await tryPort(20_000 + Math.floor(Math.random() * 12_000));
    if (port !== null) return port;
  }
  throw new Error("No free port between 20000 and 32000 was found for the benchmark's database.");
}

function tryPort(port: number): Promise<number | null> {
  return new Promise((answer) => {
    const server = createServer();
    server.once("error", () => answer(null));
    server.listen(port, "127.0.0.1", () => {
      const { port: taken } = server.address() as AddressInfo;
      server.close(() => answer(taken));
    });
  });
}
