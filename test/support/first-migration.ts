/** The commit that added the first migration: it stands for the first release, from which upgrades are tested. */
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { MIGRATIONS } from "../../src/store/postgres/migrations.ts";

/** Null if this clone has no history, or not all of it. */
export function commitOfFirstMigration(): string | null {
  const [first] = readdirSync(MIGRATIONS)
    .filter((name) => /^\d{14}_/.test(name))
    .toSorted();
  if (git("rev-parse", "--is-shallow-repository") !== "false") return null;
  return git("log", "-1", "--diff-filter=A", "--format=%h", "--", `drizzle/${first}`);
}

function git(...args: readonly string[]): string | null {
  const cwd = fileURLToPath(new URL("../..", import.meta.url));
  return spawnSync("git", args, { cwd, encoding: "utf8" }).stdout?.trim() || null;
}
