/** Creates the files of the embedded database, and the password that its socket requires. */
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { environment } from "./embedded-programs.ts";
import type { Programs, Unprivileged } from "./embedded-programs.ts";

export const USER = "ostler";
/** In the format of libpq, for PGPASSFILE. */
const PASSWORD_FILE = "pgpass";

export function initialize(programs: Programs, data: string, { prefix, identity }: Unprivileged): void {
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
export function requirePassword(
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

export function passwordOf(folder: string): string | null {
  const file = join(folder, PASSWORD_FILE);
  return existsSync(file) ? (readFileSync(file, "utf8").trim().split(":").at(-1) ?? null) : null;
}
