/** Creates the files of the embedded database, and the password that its socket requires. */
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { renameDurably, writeDurably } from "../../runtime/durable-files.ts";
import { environment } from "./embedded-programs.ts";
import type { Programs, Unprivileged } from "./embedded-programs.ts";

export const USER = "ostler";
/** In the format of libpq, for PGPASSFILE. */
const PASSWORD_FILE = "pgpass";
const PASSWORD_LINE = new RegExp(`^\\*:\\*:\\*:${USER}:([0-9a-f]{64})\\n?$`);

export function initialize(programs: Programs, data: string, { prefix, identity }: Unprivileged): void {
  if (existsSync(data) && readdirSync(data).length > 0)
    throw new Error(
      `${data} is not empty, and is not a database: its file PG_VERSION is missing. Restore the folder from a backup, or move it away to start without data.`,
    );
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
  renameDurably(unfinished, data);
}

/**
 * Gives the server a new password, which its socket requires: every process of the same user can open that, drivers
 * included. Runs at the first start of a folder, also of one from an earlier release, and where the password file
 * cannot be used. The server stores its password when this mode ends, and the password file comes last: after a crash
 * in between, the next start repeats both.
 */
export function setPassword(
  programs: Programs,
  { folder, data, asUser }: { readonly folder: string; readonly data: string; readonly asUser: Unprivileged },
): void {
  rmSync(join(folder, PASSWORD_FILE), { force: true });
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
  writeDurably(join(folder, PASSWORD_FILE), `*:*:*:${USER}:${password}\n`, 0o600);
}

/** Null if the password file is missing or damaged. */
export function passwordOf(folder: string): string | null {
  const file = join(folder, PASSWORD_FILE);
  return existsSync(file) ? (PASSWORD_LINE.exec(readFileSync(file, "latin1"))?.[1] ?? null) : null;
}
