/** Starts a worker process: its command line, environment and parent-death guard. */
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

/** Starts a worker process; file descriptor 3 is its channel. */
export function launch(module: string, log: Log): ChildProcess {
  const [program, ...rest] = [...guardWords(log), process.execPath, `--max-old-space-size=${HEAP_MB}`, PROGRAM, module];
  // Detached: its own process group, which can be killed as one and does not receive Ctrl-C.
  const child = spawn(program, rest, {
    stdio: ["ignore", "pipe", "pipe", "pipe"],
    detached: true,
    env: environmentOf(process.env),
  });
  // Without free descriptors the streams may be missing, and no later listener is attached.
  child.on("error", () => {});
  return child;
}

/** The service's token, database credentials, and credentials for trace collectors. */
const SECRET_VARIABLES = /^(OSTLER_TOKEN|OSTLER_LISTEN_URL|DATABASE_URL|PG[A-Z]+|OTEL_.*HEADERS)$/;

/** The environment of drivers: the service's, without its secrets. */
function environmentOf(variables: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const compiled = compileFolder();
  return {
    ...(compiled !== null && { NODE_COMPILE_CACHE: compiled }),
    ...Object.fromEntries(Object.entries(variables).filter(([name]) => !SECRET_VARIABLES.test(name))),
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

let compiled: string | null | undefined;

/** A folder for the compile cache that only this user can write to; null if there is none, and workers start slower. */
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
