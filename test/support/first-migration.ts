/** The commit that added the first migration: it stands for the first release, from which upgrades are tested. */
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { MIGRATIONS } from "../../src/store/postgres/migrations.ts";

/** Null if this clone has no history. */
export function commitOfFirstMigration(): string | null {
  const [first] = readdirSync(MIGRATIONS)
    .filter((name) => /^\d{14}_/.test(name))
    .toSorted();
  const { stdout } = spawnSync("git", ["log", "-1", "--diff-filter=A", "--format=%h", "--", `drizzle/${first}`], {
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    encoding: "utf8",
  });
  return stdout?.trim() || null;
}
