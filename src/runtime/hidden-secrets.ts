/**
 * Hides secrets from the files of this process in /proc, which every process of the same user can read for as long as
 * this one runs: the environment and the command line with which it was started.
 */
import { closeSync, openSync, readFileSync, readSync, writeSync } from "node:fs";

/** The service's token, master keys, database credentials, and credentials for trace collectors. */
const SECRET_VARIABLES = /^(OSTLER_TOKEN|OSTLER_SECRET_KEYS|OSTLER_LISTEN_URL|DATABASE_URL|PG[A-Z]+|OTEL_.*HEADERS)$/;
/** Libraries read the others from the environment when they connect. */
const READ_BY_CONFIG = new Set(["OSTLER_TOKEN", "OSTLER_SECRET_KEYS", "OSTLER_LISTEN_URL", "DATABASE_URL"]);

export function isSecretVariable(name: string): boolean {
  return SECRET_VARIABLES.test(name);
}

/** Places in /proc/self/stat, after the command: `arg_start`, `arg_end`, `env_start` and `env_end` of proc(5). */
const BOUNDS = [45, 46, 47, 48] as const;
/** Shorter texts could be parts of other words. */
const LENGTH_MIN = 8;

/**
 * Overwrites the values of the secret variables, and `others`, where the kernel shows them, and removes the variables
 * that the configuration has read. Returns false if this system does not allow it.
 */
export function hideSecrets(environment: NodeJS.ProcessEnv, others: readonly (string | null)[]): boolean {
  const variables = Object.entries(environment).filter(([name]) => isSecretVariable(name));
  for (const [name, value] of variables) {
    // Assigning copies the value out of the memory that is overwritten below.
    if (READ_BY_CONFIG.has(name)) delete environment[name];
    else environment[name] = value;
  }
  const present = [...variables.map(([, value]) => value), ...others].flatMap((value) =>
    value && value.length >= LENGTH_MIN ? [value] : [],
  );
  if (present.length === 0) return true;
  try {
    overwrite(present);
    return true;
  } catch {
    return false;
  }
}

function overwrite(secrets: readonly string[]): void {
  const fields = readFileSync("/proc/self/stat", "latin1").split(") ").at(-1)?.split(" ") ?? [];
  const [argStart = 0, argEnd = 0, envStart = 0, envEnd = 0] = BOUNDS.map((place) => Number(fields[place]));
  const memory = openSync("/proc/self/mem", "r+");
  try {
    for (const [start, end] of [
      [argStart, argEnd],
      [envStart, envEnd],
    ] as const) {
      const block = Buffer.alloc(Math.max(0, end - start));
      readSync(memory, block, 0, block.length, start);
      for (const secret of secrets)
        for (let at = block.indexOf(secret); at >= 0; at = block.indexOf(secret, at + 1))
          writeSync(memory, "*".repeat(Buffer.byteLength(secret)), start + at);
    }
  } finally {
    closeSync(memory);
  }
}
