/**
 * The environment of a benchmark: a temporary folder with a durable PostgreSQL that is reached by its socket (as the
 * embedded database is) and by TCP (as a served one is), and a database per measurement, dropped after it. Everything
 * is removed at the end, also when the benchmark is interrupted.
 */
import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import postgres from "postgres";
import { migrateDatabase } from "../src/store/postgres/database.ts";
import type { Connection } from "../src/store/postgres/database.ts";
import { startEmbedded } from "../src/store/postgres/embedded.ts";

/** Connection to a database: `served` by TCP with a URL, `embedded` by the socket. */
export type Way = "served" | "embedded";

export interface Testbed extends AsyncDisposable {
  readonly folder: string;
  /** PostgreSQL's log. */
  readonly logFile: string;
  /** Creates a database with all tables; it is dropped when it is disposed. */
  database(way: Way): Promise<AsyncDisposable & { readonly name: string; readonly connection: Connection }>;
  /** CPU time of all PostgreSQL processes so far, in ms; null if the system does not report it. */
  postgresCpuMs(): number | null;
  /** Ends a child process with the testbed, if it is still running then. */
  watch(child: ChildProcess): void;
}

const TEMPLATE = "bench_template";
/** Time for a child process to end before it is killed. */
const END_MS = 5_000;
/** Unit of CPU times in /proc on all systems that Node supports. */
const TICK_MS = 10;

export async function openTestbed(): Promise<Testbed> {
  const folder = mkdtempSync(join(tmpdir(), "ostler-bench-"));
  const children: ChildProcess[] = [];
  const clear = () => {
    for (const child of children) child.kill("SIGKILL");
    // Retries: a database of a child can still be writing.
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
  await migrateDatabase({ url: urlOf(TEMPLATE) });

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
          // Otherwise a checkpoint would fall into a later measurement.
          await admin`checkpoint`;
        },
      };
    },
    postgresCpuMs: () => cpuMsOfChildren(server.pid),
    watch: (child) => void children.push(child),
    async [Symbol.asyncDispose]() {
      await Promise.all(children.map(end));
      await admin.end({ timeout: 1 });
      await server[Symbol.asyncDispose]();
      clear();
    },
  };
}

/** Ends a child with SIGTERM, and waits for its exit. */
export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise<void>((done) => child.once("exit", () => done()));
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), END_MS);
  await ended;
  clearTimeout(timer);
}

/** CPU time of all children of a process, including those that have ended. */
export function cpuMsOfChildren(parent: number): number | null {
  if (!existsSync(`/proc/${parent}/stat`)) return null;
  const pids = readdirSync("/proc").filter((entry) => /^\d+$/.test(entry));
  return pids.reduce((sum, pid) => {
    const fields = statOf(pid);
    if (Number(pid) === parent) return sum + TICK_MS * (Number(fields[13]) + Number(fields[14]));
    return Number(fields[1]) === parent ? sum + TICK_MS * (Number(fields[11]) + Number(fields[12])) : sum;
  }, 0);
}

/** CPU time of a process so far, in ms; null if the system does not report it. */
export function cpuMs(pid: number): number | null {
  const fields = statOf(String(pid));
  return fields.length === 0 ? null : TICK_MS * (Number(fields[11]) + Number(fields[12]));
}

/** Current or peak memory of a process, in MB; null if the system does not report it. */
export function rssMb(pid: number, which: "now" | "peak" = "now"): number | null {
  try {
    const line = which === "now" ? /^VmRSS:\s+(\d+) kB$/m : /^VmHWM:\s+(\d+) kB$/m;
    const kilobytes = line.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return kilobytes === undefined ? null : Number(kilobytes) / 1024;
  } catch {
    return null;
  }
}

/** Memory of a process and of its children, in MB: a page that several share counts once. */
export function memoryMbOfTree(parent: number): number | null {
  if (!existsSync(`/proc/${parent}/smaps_rollup`)) return null;
  return readdirSync("/proc")
    .filter((entry) => entry === String(parent) || (/^\d+$/.test(entry) && Number(statOf(entry)[1]) === parent))
    .reduce((sum, pid) => sum + pssMb(pid), 0);
}

/** Memory of a process, in MB: its share of the pages that it uses together with others. */
export function pssMb(pid: string): number {
  try {
    return Number(/^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "latin1"))?.[1] ?? 0) / 1024;
  } catch {
    // The process has ended.
    return 0;
  }
}

/** Fields of /proc/<pid>/stat after the name: state, parent, … */
export function statOf(pid: string): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)?.split(" ") ?? [];
  } catch {
    // The process has ended.
    return [];
  }
}

/** A free port below the range that the kernel uses for outgoing connections. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 100; tries += 1) {
    const port = await tryPort(20_000 + Math.floor(Math.random() * 12_000));
    if (port !== null) return port;
  }
  throw new Error(
    "No free port for the benchmark's database was found between 20000 and 32000; close programs that use them.",
  );
}

function tryPort(port: number): Promise<number | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(null));
    server.listen(port, "127.0.0.1", () => {
      const { port: taken } = server.address() as AddressInfo;
      server.close(() => resolve(taken));
    });
  });
}
