/**
 * The arena: PostgreSQL, replicas of the service, and proxies between them and in front of them. Faults can be injected
 * into all of them. PostgreSQL runs with fsync, so it keeps acknowledged data across a crash. PostgreSQL and the
 * replicas are restarted after they end.
 */
import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, openSync, readFileSync, statfsSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Sql } from "postgres";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";
import { plainSql } from "../durability/lab.ts";
import { TOKEN } from "./graphql-request.ts";
import { startProxy } from "./proxy.ts";
import type { Proxy } from "./proxy.ts";
import { clock } from "./records.ts";
import type { Recorder } from "./records.ts";

const DRIVER = fileURLToPath(new URL("driver/index.mjs", import.meta.url));
const FAKETIME = [
  "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
  "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
].find(existsSync);
/** First port, below the range that the system assigns to outgoing connections. */
const FIRST_PORT = 12_000;
const PORTS = 20_000;
/** Size of the database's disk while it is not full. */
const DISK_MIB = 6_000;
const RESTART_DELAY_MS = 300;
const READY_MS = 60_000;

export interface ArenaOptions {
  readonly folder: string;
  readonly seed: number;
  readonly replicas: number;
  /** Root of the source tree that the replicas run from. */
  readonly service: string;
  /** Nodes that each replica works on at the same time. A replica starts the same number of driver processes. */
  readonly concurrency: number;
  readonly recorder: Recorder<"replicas">;
}

export interface Replica {
  readonly name: string;
  /** URL for clients, through the proxy `clients`. */
  readonly url: string;
  readonly clients: Proxy;
  readonly database: Proxy;
  /** Whether the process has reported ready, at least the given time ago, and has not ended. */
  isReady(sinceMs?: number): boolean;
  /** Current process; null between two processes. */
  pid(): number | null;
  /** Sends SIGKILL. The replica is restarted. False if no process was running. */
  kill(): boolean;
  /**
   * Sends SIGTERM. Resolves at the end of the process with the duration of its shutdown; null if no process could be
   * asked.
   */
  terminate(): Promise<{ readonly tookMs: number; readonly code: number | null } | null>;
  /** Sends SIGSTOP. The process continues when it is thawed; it may also be killed. */
  freeze(): boolean;
  thaw(): void;
  isFrozen(): boolean;
  /** Sets the offset of its wall clock, in seconds. False if libfaketime is not installed. */
  shiftClock(seconds: number): boolean;
  /** Whether it received SIGTERM and has not ended yet. */
  isTerminating(): boolean;
}

export interface Database {
  /** Direct connection as superuser, not through a proxy. */
  readonly sql: Sql;
  readonly url: string;
  /** Stops PostgreSQL immediately, without a checkpoint. It stays down until `start`. */
  stop(): Promise<void>;
  /** Starts PostgreSQL unless it is running. */
  start(): Promise<void>;
  isUp(): boolean;
  /** Current postmaster; null while it is stopped. */
  pid(): number | null;
  /** Fills the disk, or frees it. False if the data has no disk of its own. */
  fill(isFull: boolean): boolean;
}

export interface Arena {
  readonly database: Database;
  readonly replicas: readonly Replica[];
  /** Replicas that ended although they were neither killed nor sent SIGTERM. */
  readonly unexpectedEnds: readonly string[];
}

/** Adds each part to `parts` as soon as it has started, so that it also ends if the start fails half-way. */
export async function startArena(options: ArenaOptions, parts: AsyncDisposableStack): Promise<Arena> {
  const ports = await freePorts(options.seed, 1 + options.replicas * 3);
  const database = parts.use(await startDatabase(options.folder, take(ports)));
  const unexpectedEnds: string[] = [];
  const replicas: Replica[] = [];
  for (let number = 1; number <= options.replicas; number += 1) {
    const [servicePort, databasePort, clientPort] = [take(ports), take(ports), take(ports)];
    const toDatabase = parts.use(await startProxy(databasePort, database.port));
    const clients = parts.use(await startProxy(clientPort, servicePort));
    replicas.push(
      parts.use(
        startReplica(options, { name: `r${number}`, port: servicePort, database: toDatabase, clients, unexpectedEnds }),
      ),
    );
  }
  await within(READY_MS, "replicas were not ready", () => replicas.every((one) => one.isReady()));
  return { database, replicas, unexpectedEnds };
}

// ---- database

async function startDatabase(
  folder: string,
  port: number,
): Promise<Database & AsyncDisposable & { readonly port: number }> {
  const home = join(folder, "postgres");
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const disk =
    process.getuid?.() === 0 &&
    spawnSync("mount", ["-t", "tmpfs", "-o", `size=${DISK_MIB}m,mode=0700`, "tmpfs", home]).status === 0;
  let server: Awaited<ReturnType<typeof startEmbedded>> | null = await startEmbedded({ folder: home, tcpPort: port });
  const sql = plainSql(server.connection, 4);
  const url = `postgres://ostler@127.0.0.1:${port}/postgres`;
  const fill = (isFull: boolean) => {
    if (!disk) return false;
    const { blocks, bfree, bsize } = statfsSync(home);
    const size = isFull ? (blocks - bfree) * bsize + 64 * 1024 : DISK_MIB * 1024 * 1024;
    return spawnSync("mount", ["-o", `remount,size=${size}`, home]).status === 0;
  };
  const waitForExit = async (pid: number) => within(20_000, "PostgreSQL did not end", () => !isAlive(pid));
  const keepLog = () => appendFileSync(join(folder, "postgres.log"), readFileSync(join(home, "postgres.log")));
  const database = {
    port,
    sql,
    url,
    isUp: () => server !== null && isAlive(server.pid),
    pid: () => server?.pid ?? null,
    async stop() {
      const running = server;
      server = null;
      if (!running) return;
      signal(running.pid, "SIGQUIT");
      await waitForExit(running.pid);
    },
    async start() {
      if (server && isAlive(server.pid)) return;
      keepLog();
      server = await startEmbedded({ folder: home, tcpPort: port });
    },
    fill,
    async [Symbol.asyncDispose]() {
      fill(false);
      await sql.end({ timeout: 1 });
      await server?.[Symbol.asyncDispose]();
      keepLog();
      if (disk) spawnSync("umount", ["--lazy", home]);
    },
  };
  return database;
}

// ---- replicas

interface ReplicaSetup {
  readonly name: string;
  readonly port: number;
  readonly database: Proxy;
  readonly clients: Proxy;
  readonly unexpectedEnds: string[];
}

function startReplica(
  { folder, service, concurrency, recorder }: ArenaOptions,
  setup: ReplicaSetup,
): Replica & AsyncDisposable {
  const { name, port, database, clients, unexpectedEnds } = setup;
  const clockFile = join(folder, `${name}.clock`);
  writeFileSync(clockFile, "+0\n");
  const log = openSync(join(folder, `${name}.log`), "a");
  let child: ChildProcess | null = null;
  let readyAt: number | null = null;
  let isFrozen = false;
  let isOver = false;
  let terminatedAt: number | null = null;
  let wasKilled = false;
  let exited: Promise<{ readonly tookMs: number; readonly code: number | null }> = Promise.resolve({
    tookMs: 0,
    code: 0,
  });

  const note = (
    pid: number,
    what: "started" | "ready" | "killed" | "terminated" | "ended",
    rest: { code?: number | null; signal?: string | null; tookMs?: number } = {},
  ) =>
    recorder.write({
      t: clock(),
      k: "replica",
      name,
      pid,
      what,
      code: rest.code ?? null,
      signal: rest.signal ?? null,
      tookMs: rest.tookMs ?? null,
    });

  function start(): void {
    [readyAt, isFrozen, terminatedAt, wasKilled] = [null, false, null, false];
    const made = spawn(process.execPath, [join(service, "src/main.ts")], {
      cwd: service,
      stdio: ["ignore", "pipe", log],
      env: {
        PATH: process.env["PATH"],
        DATABASE_URL: `postgres://ostler@127.0.0.1:${database.port}/postgres`,
        // The checker computes tokens of callbacks, which needs a key that the history shows.
        OSTLER_SECRET_KEYS: "off",
        OSTLER_PORT: String(port),
        OSTLER_TOKEN: TOKEN,
        OSTLER_LOG: "warn",
        OSTLER_CONCURRENCY: String(concurrency),
        OSTLER_PLUGINS: DRIVER,
        CHAOS_SOCKET: join(folder, "machines.sock"),
        CHAOS_REPLICA: name,
        // Most of a start is spent reading code.
        NODE_COMPILE_CACHE: join(folder, "compiled"),
        ...(FAKETIME && {
          LD_PRELOAD: FAKETIME,
          FAKETIME_TIMESTAMP_FILE: clockFile,
          FAKETIME_DONT_FAKE_MONOTONIC: "1",
          FAKETIME_CACHE_DURATION: "1",
        }),
      },
    });
    child = made;
    const pid = made.pid ?? 0;
    note(pid, "started");
    made.stdout?.setEncoding("utf8").on("data", (text: string) => {
      if (readyAt !== null || !text.includes("is ready")) return;
      readyAt = clock();
      note(pid, "ready");
    });
    exited = new Promise((ended) => {
      made.once("exit", (code, signalName) => {
        const tookMs = terminatedAt === null ? undefined : clock() - terminatedAt;
        const isExpected = wasKilled || terminatedAt !== null || isOver;
        note(pid, "ended", { code, signal: signalName, ...(tookMs !== undefined && { tookMs }) });
        if (!isExpected && readyAt !== null)
          unexpectedEnds.push(`${name} (process ${pid}) ended with ${String(code ?? signalName)}`);
        [child, readyAt, isFrozen, terminatedAt] = [null, null, false, null];
        ended({ tookMs: tookMs ?? 0, code });
        // Wait before a restart: a replica without a database ends again immediately.
        if (!isOver) setTimeout(() => !isOver && !child && start(), wasKilled ? 0 : RESTART_DELAY_MS);
      });
    });
  }

  start();
  return {
    name,
    url: `http://127.0.0.1:${clients.port}`,
    clients,
    database,
    isReady: (sinceMs = 0) => readyAt !== null && clock() - readyAt >= sinceMs,
    isFrozen: () => isFrozen,
    pid: () => child?.pid ?? null,
    isTerminating: () => terminatedAt !== null,
    kill() {
      if (!child?.pid || wasKilled) return false;
      wasKilled = true;
      note(child.pid, "killed");
      return child.kill("SIGKILL");
    },
    async terminate() {
      if (!child?.pid || readyAt === null || wasKilled || terminatedAt !== null || isFrozen) return null;
      terminatedAt = clock();
      note(child.pid, "terminated");
      child.kill("SIGTERM");
      return exited;
    },
    freeze() {
      if (!child?.pid || isFrozen || wasKilled || terminatedAt !== null) return false;
      isFrozen = true;
      return child.kill("SIGSTOP");
    },
    thaw() {
      if (isFrozen) child?.kill("SIGCONT");
      isFrozen = false;
    },
    shiftClock(seconds) {
      writeFileSync(clockFile, `${seconds < 0 ? "-" : "+"}${Math.abs(seconds)}\n`);
      return FAKETIME !== undefined;
    },
    async [Symbol.asyncDispose]() {
      isOver = true;
      if (!child) return;
      child.kill("SIGCONT");
      child.kill("SIGKILL");
      await exited;
    },
  };
}

// ---- small things

/** Waits until `isSo` returns true. Throws `otherwise` as an error after the given time. */
export async function within(
  milliseconds: number,
  otherwise: string,
  isSo: () => boolean | Promise<boolean>,
): Promise<void> {
  for (const until = clock() + milliseconds; !(await isSo()); await delay(50))
    if (clock() > until) throw new Error(`${otherwise} within ${milliseconds / 1000} s.`);
}

/** Whether the process exists and is not a zombie. */
function isAlive(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

function take(ports: number[]): number {
  const port = ports.shift();
  if (port === undefined) throw new Error("There are no ports left.");
  return port;
}

async function freePorts(seed: number, count: number): Promise<number[]> {
  const free: number[] = [];
  for (let port = FIRST_PORT + ((seed * 37 + process.pid) % PORTS); free.length < count; port += 1)
    if (await isFree(FIRST_PORT + (port % PORTS))) free.push(FIRST_PORT + (port % PORTS));
  return free;
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((answer) => {
    server.once("error", () => answer(false));
    server.listen(port, "127.0.0.1", () => server.close(() => answer(true)));
  });
}
