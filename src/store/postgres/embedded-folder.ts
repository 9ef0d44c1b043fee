/** The folder of the embedded database: its owner, lock files that a crash left behind, and the place of its socket. */
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { writeDurably } from "../../runtime/durable-files.ts";

/** The file that names the process to which the folder belongs. */
export const OWNER_FILE = "owner.pid";
/** Above the highest process ID of all kernels. */
const NO_PROCESS = 2_147_483_647;
/** Longest directory for a Unix socket: the limit of all kernels, without PostgreSQL's file name. In bytes. */
const SOCKET_FOLDER_MAX = 85;

/** Throws if another process owns the directory. */
export function claimFolder(folder: string): void {
  const ownerFile = join(folder, OWNER_FILE);
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
export async function findOrphan(data: string, socketFolder: string): Promise<number | null> {
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
 * PostgreSQL finds out whether other processes of that postmaster still use the data. A file without a process ID,
 * which a power cut can leave behind, is deleted: PostgreSQL refuses to start over it.
 */
function disown(lockFile: string): void {
  const pid = readPid(lockFile);
  if (pid === null) rmSync(lockFile, { force: true });
  else if (!mayBePostgres(pid)) {
    // Paths in it are bytes of any encoding.
    const disowned = readFileSync(lockFile, "latin1").replace(/^-?\d+/, String(NO_PROCESS));
    writeDurably(lockFile, Buffer.from(disowned, "latin1"), 0o600);
  }
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
  // PostgreSQL's single-user mode notes a negative one.
  const pid = Math.abs(Number.parseInt(readFileSync(file, "utf8"), 10));
  return pid > 0 ? pid : null;
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
export function isAlive(pid: number): boolean {
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
export function socketFolderOf(folder: string): string {
  if (isSocketFolder(folder)) return folder;
  const note = join(folder, "socket.folder");
  if (existsSync(note)) {
    const noted = readFileSync(note, "utf8").trim();
    if (/^ostler-\w{6}$/.test(basename(noted)) && statSync(noted, { throwIfNoEntry: false })?.isDirectory())
      return noted;
  }
  if (!isSocketFolder(join(tmpdir(), "ostler-......")))
    throw new Error(
      `The path of the data directory ${folder} cannot hold the socket of the embedded database, and neither can ${tmpdir()}: at most ${SOCKET_FOLDER_MAX} bytes, without commas, colons and double quotes. Choose another OSTLER_DATA or TMPDIR.`,
    );
  const made = mkdtempSync(join(tmpdir(), "ostler-"));
  chmodSync(made, 0o700);
  writeDurably(note, made, 0o600);
  return made;
}

function isSocketFolder(path: string): boolean {
  return Buffer.byteLength(path) <= SOCKET_FOLDER_MAX && !/[,:"]/.test(path);
}
