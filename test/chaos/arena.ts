/**
 * The arena: PostgreSQL, replicas of the service, and the ways between them and to them, all of which can be harmed. PostgreSQL
 * keeps what it acknowledged through a crash (it flushes), and is started again when a caller stopped it; so is each replica.
 */
import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  statfsSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Sql } from "postgres";
import { startEmbedded } from "../../src/store/postgres/embedded.ts";
import { plainSql } from "../durability/lab.ts";
import { TOKEN } from "./asking.ts";
import { startProxy } from "./proxy.ts";
import type { Proxy } from "./proxy.ts";
import { clock } from "./records.ts";
import type { Recorder } from "./records.ts";

const DRIVER = fileURLToPath(new URL("driver/index.mjs", import.meta.url));
const FAKETIME = [
  "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
  "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
].find(existsSync);
/** Ports from here on, below those that the system gives to connections. */
const FIRST_PORT = 12_000;
const PORTS = 20_000;
/** How large the database's disk is when it is not full. */
const DISK_MIB = 6_000;
const AGAIN_MS = 300;
const READY_MS = 60_000;

export interface ArenaOptions {
  readonly folder: string;
  readonly seed: number;
  readonly replicas: number;
  /** Root of the tree that the replicas are run from. */
  readonly service: string;
  /** Nodes that each replica works on at the same time; as many processes of drivers are started with it. */
  readonly concurrency: number;
  readonly recorder: Recorder<"replicas">;
}

export interface Replica {
  readonly name: string;
  /** Where clients reach it: through the proxy `clients`. */
  readonly url: string;
  readonly clients: Proxy;
  readonly database: Proxy;
  /** Whether it has reported ready, for at least the given milliseconds, and has not ended. */
  isReady(sinceMs?: number): boolean;
  /** The process that runs now. */
  pid(): number | null;
  /** Ends it without a word. It is started again. False when there was nothing to end. */
  kill(): boolean;
  /** Asks it to end. Resolves when it has, with how long that took; null when there was nothing to ask. */
  terminate(): Promise<{ readonly tookMs: number; readonly code: number | null } | null>;
  /** Stops it from being given time, until it is thawed or killed. */
  freeze(): boolean;
  thaw(): void;
  isFrozen(): boolean;
  /** Moves its wall clock, in seconds against the true one; false where the means for it is not installed. */
  shiftClock(seconds: number): boolean;
  /** Whether it was sent SIGTERM, and has not yet. */
  isLeaving(): boolean;
}

export interface Database {
  /** Not through a proxy, and as a superuser. */
  readonly sql: Sql;
  readonly url: string;
  /** Ends it at once, without writing anything out. It stays away until it is started. */
  stop(): Promise<void>;
  /** Starts it, if it does not run. */
  start(): Promise<void>;
  isUp(): boolean;
  /** Lets the disk be full, or not. False where the data is on no disk of its own. */
  fill(isFull: boolean): boolean;
}

export interface Arena {
  readonly database: Database;
  readonly replicas: readonly Replica[];
  /** Ends on their own: a replica that ended though no caller had killed it or told it to. */
  readonly unasked: readonly string[];
}

/** What it starts it gives to `parts` at once, so that it is ended also when the start is broken off. */
export async function startArena(options: ArenaOptions, parts: AsyncDisposableStack): Promise<Arena> {
  const ports = await freePorts(options.seed, 1 + options.replicas * 3);
  const database = parts.use(await startDatabase(options.folder, take(ports)));
  const unasked: string[] = [];
  const replicas: Replica[] = [];
  for (let number = 1; number <= options.replicas; number += 1) {
    const [servicePort, databasePort, clientPort] = [take(ports), take(ports), take(ports)];
    const toDatabase = parts.use(await startProxy(databasePort, database.port));
    const clients = parts.use(await startProxy(clientPort, servicePort));
    replicas.push(
      parts.use(
        startReplica(options, { name: `r${number}`, port: servicePort, database: toDatabase, clients, unasked }),
      ),
    );
  }
  await within(READY_MS, "replicas were not ready", () => replicas.every((one) => one.isReady()));
  return { database, replicas, unasked };
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
  const gone = async (pid: number) => within(20_000, "PostgreSQL did not end", () => !isAlive(pid));
  const keepLog = () => appendFileSync(join(folder, "postgres.log"), readFileSync(join(home, "postgres.log")));
  const database = {
    port,
    sql,
    url,
    isUp: () => server !== null && isAlive(server.pid),
    async stop() {
      const running = server;
      server = null;
      if (!running) return;
      signal(running.pid, "SIGQUIT");
      await gone(running.pid);
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

interface Place {
  readonly name: string;
  readonly port: number;
  readonly database: Proxy;
  readonly clients: Proxy;
  readonly unasked: string[];
}

function startReplica(
  { folder, service, concurrency, recorder }: ArenaOptions,
  place: Place,
): Replica & AsyncDisposable {
  const { name, port, database, clients, unasked } = place;
  const clockFile = join(folder, `${name}.clock`);
  writeFileSync(clockFile, "+0\n");
  const log = openSync(join(folder, `${name}.log`), "a");
  let child: ChildProcess | null = null;
  /** When it reported ready. */
  let readyAt: number | null = null;
  let isFrozen = false;
  let isOver = false;
  /** When it was sent SIGTERM. */
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
        OSTLER_PORT: String(port),
        OSTLER_TOKEN: TOKEN,
        OSTLER_LOG: "warn",
        OSTLER_CONCURRENCY: String(concurrency),
        OSTLER_PLUGINS: DRIVER,
        CHAOS_SOCKET: join(folder, "machines.sock"),
        CHAOS_REPLICA: name,
        // Much of a start is reading the code.
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
        const isAsked = wasKilled || terminatedAt !== null || isOver;
        note(pid, "ended", { code, signal: signalName, ...(tookMs !== undefined && { tookMs }) });
        if (!isAsked && readyAt !== null)
          unasked.push(`${name} (process ${pid}) ended with ${String(code ?? signalName)}`);
        [child, readyAt, isFrozen, terminatedAt] = [null, null, false, null];
        ended({ tookMs: tookMs ?? 0, code });
        // One that cannot start, the database being away, is not started in a hurry.
        if (!isOver) setTimeout(() => !isOver && !child && start(), wasKilled ? 0 : AGAIN_MS);
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
    isLeaving: () => terminatedAt !== null,
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

/** Resident bytes and open descriptors of a process; null when it is gone. */
export function sampleOf(pid: number): { readonly memory: number; readonly handles: number } | null {
  try {
    const pages = Number(readFileSync(`/proc/${pid}/statm`, "latin1").split(" ")[1]);
    return { memory: pages * 4096, handles: readdirSync(`/proc/${pid}/fd`).length };
  } catch {
    return null;
  }
}

// ---- small things

/** Waits until it is so; throws a sentence when that takes too long. */
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
