/** The release from which upgrades are tested. */
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { MIGRATIONS } from "../../src/store/postgres/migrations.ts";

/**
 * The newest tag of this history; before the first one, the commit that added the first migration. Null if this clone
 * has no history, or not all of it.
 */
export function olderRelease(): string | null {
  if (git("rev-parse", "--is-shallow-repository") !== "false") return null;
  // A preview comes before its release.
  const sorted = ["--merged", "HEAD", "--sort=-version:refname", "--list", "v[0-9]*"];
  const [newest] = git("-c", "versionsort.suffix=-", "tag", ...sorted)?.split("\n") ?? [];
  if (newest !== undefined) return newest;
  const [first] = readdirSync(MIGRATIONS)
    .filter((name) => /^\d{14}_/.test(name))
    .toSorted();
  return git("log", "-1", "--diff-filter=A", "--format=%h", "--", `drizzle/${first}`);
}

function git(...args: readonly string[]): string | null {
  const cwd = fileURLToPath(new URL("../..", import.meta.url));
  return spawnSync("git", args, { cwd, encoding: "utf8" }).stdout?.trim() || null;
}
