/**
 * `npm run tool -- migration --name <what>`: a migration from src/store/tables.ts, by drizzle-kit, with the SQL that
 * records changes of nodes, if it has changed. The options are those of `drizzle-kit generate`.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { missingStatements, withStatements } from "./node-changes.ts";

const MIGRATIONS = fileURLToPath(new URL(".", import.meta.url));

const before = new Set(readdirSync(MIGRATIONS));
const options = ["generate", "--config", "drizzle/drizzle.config.ts", ...process.argv.slice(2)];
const { status, error } = spawnSync("drizzle-kit", options, { stdio: "inherit" });
if (error) throw error;
if (status !== 0) process.exit(status ?? 1);

const missing = missingStatements(MIGRATIONS);
const made = readdirSync(MIGRATIONS).find((name) => !before.has(name));
if (missing.length > 0 && made === undefined) {
  process.stderr.write(
    "Changes of nodes are recorded in another way, but drizzle-kit made no migration. Run it again with `--custom`.\n",
  );
  process.exit(1);
}
if (missing.length > 0 && made !== undefined) {
  const file = join(MIGRATIONS, made, "migration.sql");
  writeFileSync(file, withStatements(readFileSync(file, "utf8"), missing));
  process.stdout.write(
    `drizzle/${made}/migration.sql also has ${missing.length} statements that record changes of nodes.\n`,
  );
}
