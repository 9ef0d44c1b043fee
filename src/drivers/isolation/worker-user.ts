/**
 * The user of worker processes. A process may signal all others of its user, so a driver that runs as the user of the
 * service can end it. A service that may start processes of other users gives its workers one of their own: root does,
 * and a service with the capabilities for it if OSTLER_DRIVER_USER names the user.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Log } from "../../log.ts";

export interface WorkerUser {
  readonly uid: number;
  readonly gid: number;
}

/** The choice of the user of the service itself. */
const SERVICE_USER = "service";
/** Neither Debian nor systemd assigns it, and containers with 65,536 IDs have it. */
const UNUSED_ID = 65_531;
/** CAP_KILL, CAP_SETGID and CAP_SETUID. */
const CAPABILITIES = 0b1110_0000n;
const REMEDY = `or set OSTLER_DRIVER_USER=${SERVICE_USER} to accept it`;

/**
 * The user that was chosen; null: that of the service. `chosen`: a name, a number, `service`, or empty for the default.
 * Throws if the service cannot use a user that was named.
 */
export function findWorkerUser(chosen: string, log: Log): WorkerUser | null {
  if (chosen === SERVICE_USER || (chosen === "" && process.getuid?.() !== 0)) return null;
  const user = chosen === "" ? { uid: UNUSED_ID, gid: UNUSED_ID } : idsOf(chosen);
  const problem = user === null ? "this user does not exist" : problemOf(user);
  if (problem === null) return user;
  if (chosen !== "")
    throw new Error(
      `OSTLER_DRIVER_USER is ${chosen}, but ${problem}. Name another user, or start the service as root or with the capabilities CAP_SETUID, CAP_SETGID and CAP_KILL.`,
    );
  log.warn(`drivers run as the user of the service and can signal it: ${problem}. Start it with all rights, ${REMEDY}`);
  return null;
}

/** IDs of a user, given as name or number. A number need not belong to a user. */
function idsOf(chosen: string): WorkerUser | null {
  if (/^\d+$/.test(chosen)) return { uid: Number(chosen), gid: Number(chosen) };
  const [uid, gid] = ["-u", "-g"].map((flag) => spawnSync("id", [flag, "--", chosen], { encoding: "utf8" }));
  return uid?.status === 0 && gid?.status === 0 ? { uid: Number(uid.stdout), gid: Number(gid.stdout) } : null;
}

/** Why workers of this user would be of no use; null if they can be started and ended. */
function problemOf(user: WorkerUser): string | null {
  if (user.uid === 0 || user.uid === process.getuid?.()) return "it could signal the service";
  const [, effective = "0"] = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "latin1")) ?? [];
  if ((BigInt(`0x${effective}`) & CAPABILITIES) !== CAPABILITIES)
    return "the service may not start and end processes of other users";
  const { error } = spawnSync("true", { stdio: "ignore", ...user });
  return error ? `the service cannot start a process of user ${user.uid}: ${error.message}` : null;
}

const usersOfModules = new Map<string, WorkerUser | null>();

/** The user for the workers of a plugin: the one of the service, with a warning, if the other cannot read its files. */
export function userFor(module: string, user: WorkerUser, program: string, log: Log): WorkerUser | null {
  const known = usersOfModules.get(module);
  if (known !== undefined) return known;
  const files = [process.execPath, program, process.env["NODE_EXTRA_CA_CERTS"] ?? ""];
  if (module.startsWith("file:")) files.push(fileURLToPath(module));
  const read = spawnSync("head", ["-c", "1", "--", ...files.filter((file) => file !== "")], {
    stdio: ["ignore", "ignore", "pipe"],
    encoding: "utf8",
    ...user,
  });
  const found = read.status === 0 ? user : null;
  usersOfModules.set(module, found);
  if (found === null)
    log.warn(
      { module },
      `this driver runs as the user of the service and can signal it: user ${user.uid} cannot read its files (${(read.stderr || String(read.error)).trim()}). Let all users read them, for example below /opt, ${REMEDY}`,
    );
  return found;
}
