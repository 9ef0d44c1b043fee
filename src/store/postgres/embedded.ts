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
import { closeSync, existsSync, openSync, readFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { createFolderDurably, writeDurably } from "../../runtime/durable-files.ts";
import { sqlState } from "./connection-errors.ts";
import type { Connection } from "./database.ts";
import { OWNER_FILE, claimFolder, findOrphan, isAlive, socketFolderOf } from "./embedded-folder.ts";
import { environment, findPrograms, unprivileged } from "./embedded-programs.ts";
import type { Programs, Unprivileged } from "./embedded-programs.ts";
import { USER, initialize, passwordOf, setPassword } from "./embedded-setup.ts";

interface EmbeddedOptions {
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

interface EmbeddedDatabase extends AsyncDisposable {
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

const PORT = 5432;
const WRONG_PASSWORD = "28P01";
const START_MS = 60_000;
/** Pause before a restart: child processes of the postmaster need a moment to end. */
const RESTART_MS = 1_000;
const LOG = "postgres.log";
const SOCKET_ACCESS = "local all all scram-sha-256\n";
/** For tests. Without this line, a port that the server listens on by mistake accepts nothing. */
const TCP_ACCESS = "host all all 127.0.0.1/32 trust\n";

/** Starts the database of `folder`. Its errors say what to do. */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
  const folder = resolve(options.folder);
  const programs = findPrograms();
  createFolderDurably(folder, 0o700);
  const data = join(folder, "data");
  claimFolder(folder);
  const socketFolder = socketFolderOf(folder);
  const orphan = await findOrphan(data, socketFolder);
  const asUser = unprivileged([folder, socketFolder]);
  const begin = () => launched(launch(programs, { data, socketFolder, folder, options, asUser }), join(folder, LOG));
  if (orphan === null) {
    if (!existsSync(join(data, "PG_VERSION"))) initialize(programs, data, asUser);
    prepare({ renew: false });
  }
  let connection = connectionOf();
  let postmaster = orphan === null ? begin() : adopted(orphan);
  await postmaster.ready;
  if (!(await accepts(postmaster, connection))) {
    // The password file is damaged or of another database.
    await endPostmaster(postmaster);
    prepare({ renew: true });
    connection = connectionOf();
    postmaster = begin();
    await postmaster.ready;
  }
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
      rmSync(join(folder, OWNER_FILE), { force: true });
    },
  };

  function prepare({ renew }: { readonly renew: boolean }): void {
    if (renew || passwordOf(folder) === null) setPassword(programs, { folder, data, asUser });
    // At every start: the file may be of an earlier release, or of a test.
    const access = SOCKET_ACCESS + (options.tcpPort === undefined ? "" : TCP_ACCESS);
    writeDurably(join(data, "pg_hba.conf"), access, 0o600);
  }

  function connectionOf(): SocketConnection {
    const password = passwordOf(folder);
    const place = { host: socketFolder, port: options.tcpPort ?? PORT, user: USER, database: "postgres" };
    return password === null ? place : { ...place, password };
  }

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
function adopted(pid: number): Postmaster {
  return { pid, ready: Promise.resolve(), ended: () => untilEnded(pid), send: (name) => signal(pid, name) };
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
    // Processes that an embedded database does not need: its tables fit into memory, and it has no subscriptions.
    io_method: "sync",
    max_logical_replication_workers: 0,
  };
  if (at.options.durable === false) Object.assign(settings, { fsync: "off", full_page_writes: "off" });
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
    failed.reject(
      new Error(
        `The embedded PostgreSQL ended (${code}): ${lastLogLines(logFile)} See ${logFile}. If files of the database are damaged, restore its folder from a backup.`,
      ),
    );
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

/** False if the server has another password. */
async function accepts(postmaster: Postmaster, connection: SocketConnection): Promise<boolean> {
  const sql = postgres({ ...connection, max: 1, connect_timeout: 10, onnotice: () => {} });
  try {
    await sql`select 1`;
    return true;
  } catch (error) {
    if (sqlState(error) === WRONG_PASSWORD) return false;
    postmaster.send("SIGQUIT");
    throw error;
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
