/** Starts a worker process: its command line, environment, user and parent-death guard. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { DriverPermission } from "../driver.ts";
import { permissionFlags } from "./worker-permissions.ts";
import type { FileServers } from "../../runtime/file-servers.ts";
import { compileFolder } from "../../runtime/compile-cache.ts";
import type { EgressLimits, Marks } from "../egress.ts";
import type { Log } from "../../log.ts";
import { isSecretVariable } from "../../runtime/hidden-secrets.ts";
import { findGuard } from "./parent-death-guard.ts";
import { userFor } from "./worker-user.ts";
import type { WorkerUser } from "./worker-user.ts";

const PROGRAM = fileURLToPath(new URL("worker.ts", import.meta.url));
/** Heap of a worker, in MiB. */
export const HEAP_MB = 256;
/** Half of the young generation of a worker's heap, in MiB. V8 would let it grow to 16. */
const YOUNG_MB = 1;

interface LaunchedPlugin {
  /** URL of the module. */
  readonly module: string;
  readonly hash: string | null;
  readonly permissions: readonly DriverPermission[];
  readonly egress: EgressLimits | null;
}

/** The second argument of a worker. */
export interface WorkerOptions {
  /** Expected hash of the plugin's module; null: not checked. */
  readonly hash: string | null;
  /** Limits of the addresses of calls (`listed`: see `IpNetworks`, `files`: see `FileServers`); null: none. */
  readonly egress: {
    readonly listed: readonly string[] | null;
    readonly files: Pick<FileServers, "listed" | "own">;
    readonly marked: Marks;
  } | null;
}

/** The place of worker processes in the system. */
export interface WorkerPlace {
  /** A folder that workers may not read, such as that of the database; null if there is none. */
  readonly hidden: string | null;
  /** Their user; null: that of the service. */
  readonly user: WorkerUser | null;
}

export const PLAIN_PLACE: WorkerPlace = { hidden: null, user: null };

/** Starts a worker process; file descriptor 3 is its channel. */
export function launch(
  { module, hash, permissions, egress }: LaunchedPlugin,
  { hidden, user: wanted }: WorkerPlace,
  log: Log,
): ChildProcess {
  // A driver that may read and write any file has the rights of the service's user.
  const user = wanted === null || permissions.includes("FILES") ? null : userFor(module, wanted, PROGRAM, log);
  const compiled = cacheOf(module, user);
  const [program, ...rest] = [
    ...capabilityWords(user),
    ...guardWords(log),
    process.execPath,
    `--max-old-space-size=${HEAP_MB}`,
    `--max-semi-space-size=${YOUNG_MB}`,
    ...permissionFlags(permissions, { module, compiled, hidden }),
    PROGRAM,
    module,
    JSON.stringify({
      hash,
      egress: egress && {
        listed: egress.networks.listed,
        files: { listed: egress.files.listed, own: egress.files.own },
        marked: egress.marked,
      },
    } satisfies WorkerOptions),
  ];
  // Detached: its own process group, which can be killed as one and does not receive Ctrl-C.
  const child = spawn(program, rest, {
    stdio: ["ignore", "pipe", "pipe", "pipe"],
    detached: true,
    env: environmentOf(process.env, compiled),
    ...user,
  });
  // Without free descriptors the streams may be missing, and no later listener is attached.
  child.on("error", () => {});
  raiseOomScore(child.pid);
  return child;
}

/** The environment of drivers: the service's, without its secrets and with a compile cache of their own. */
function environmentOf(variables: NodeJS.ProcessEnv, compiled: string | null): NodeJS.ProcessEnv {
  const { NODE_COMPILE_CACHE: _, ...rest } = variables;
  return {
    ...Object.fromEntries(Object.entries(rest).filter(([name]) => !isSecretVariable(name))),
    ...(compiled !== null && { NODE_COMPILE_CACHE: compiled }),
  };
}

let guard: readonly string[] | undefined;

/** Command-line prefix that ends the worker when this process dies; empty if that is not supported. */
function guardWords(log: Log): readonly string[] {
  if (guard) return guard;
  const found = findGuard(process.env["PATH"] ?? "");
  if ("problem" in found) log.warn(`Driver processes that loop may outlive a killed service: ${found.problem}.`);
  guard = "words" in found ? found.words : [];
  return guard;
}

/** A process that a user other than root starts as another user keeps ambient capabilities, and could signal all. */
function capabilityWords(user: WorkerUser | null): readonly string[] {
  return user === null || process.getuid?.() === 0 ? [] : ["setpriv", "--inh-caps=-all", "--ambient-caps=-all", "--"];
}

/**
 * The kernel's first victim when memory runs out: the heap limit covers only part of it. Inherited by child processes.
 */
const OOM_SCORE = "1000";

function raiseOomScore(pid: number | undefined): void {
  try {
    if (pid !== undefined) writeFileSync(`/proc/${pid}/oom_score_adj`, OOM_SCORE);
  } catch {
    // Not available on this system, or the process has ended.
  }
}

/** The folder for the compile cache of a plugin's workers, so that no plugin writes code that another one runs. */
function cacheOf(module: string, user: WorkerUser | null): string | null {
  const name = createHash("sha256").update(module).digest("hex").slice(0, 16);
  let folder = compiledFolders.get(name);
  if (folder === undefined) compiledFolders.set(name, (folder = compileFolder(name, user)));
  return folder;
}

const compiledFolders = new Map<string, string | null>();
