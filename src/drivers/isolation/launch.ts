/** The process of a worker: what it is started with, what it finds in its environment, and what it dies with. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { lstatSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Log } from "../../log.ts";
import { findGuard } from "./parent-death-guard.ts";

const PROGRAM = fileURLToPath(new URL("worker.ts", import.meta.url));
/** Heap of a worker, in MiB. */
export const HEAP_MB = 256;

/** Starts the process of a worker; the fourth of its descriptors is its channel. */
export function launch(module: string, log: Log): ChildProcess {
  const [program, ...rest] = [...guardWords(log), process.execPath, `--max-old-space-size=${HEAP_MB}`, PROGRAM, module];
  // Detached: a group of its own, which is killed as one, and which no Ctrl-C reaches.
  const child = spawn(program, rest, {
    stdio: ["ignore", "pipe", "pipe", "pipe"],
    detached: true,
    env: environmentOf(process.env),
  });
  // Heard here already, since without descriptors there may be no streams to go on with.
  child.on("error", () => {});
  return child;
}

/** Its token, ways into its database, and what it logs in to collectors of traces with. */
const SECRET_VARIABLES = /^(OSTLER_TOKEN|OSTLER_LISTEN_URL|DATABASE_URL|PG[A-Z]+|OTEL_.*HEADERS)$/;

/** What drivers find in their environment: all of the service's but its own secrets. */
function environmentOf(variables: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const compiled = compileFolder();
  return {
    ...(compiled !== null && { NODE_COMPILE_CACHE: compiled }),
    ...Object.fromEntries(Object.entries(variables).filter(([name]) => !SECRET_VARIABLES.test(name))),
  };
}

let guard: readonly string[] | undefined;

/** What stands before the words of a worker's program, so that it dies with this process, whatever it is doing; nothing where that cannot be had. */
function guardWords(log: Log): readonly string[] {
  if (guard) return guard;
  const found = findGuard(process.env["PATH"] ?? "");
  if ("problem" in found)
    log.warn(`Drivers' processes may outlive a service that is killed while they loop: ${found.problem}.`);
  guard = "words" in found ? found.words : [];
  return guard;
}

let compiled: string | null | undefined;

/** A folder for compiled code that nobody else can write to; null: there is none, and processes start slower. */
function compileFolder(): string | null {
  if (compiled !== undefined) return compiled;
  const uid = process.getuid?.() ?? 0;
  const folder = join(tmpdir(), `ostler-compiled-${uid}`);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const { mode, uid: owner } = lstatSync(folder);
    compiled = owner === uid && (mode & 0o170077) === 0o040000 ? folder : null;
  } catch {
    compiled = null;
  }
  return compiled;
}
