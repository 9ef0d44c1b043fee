/** The harness of other tests: databases that are used again are as new ones, and lists of files are up to date. */
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, inject, test } from "vitest";
import { ALICE, engineUnderTest } from "./support/builders.ts";
import { testDatabase } from "./support/database.ts";
import { LONG_FILES } from "./support/longest-first.ts";
import { restored } from "./support/spare-databases.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const { restoration } = inject("server");

test("files that start first exist", () => {
  expect(LONG_FILES.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});

test("files that replace a module are not run in a process that other files share", () => {
  const config = readFileSync(join(ROOT, "vitest.config.ts"), "utf8");
  const files = readdirSync(join(ROOT, "test"), { recursive: true, encoding: "utf8" });
  const replacing = files
    .filter((file) => file.endsWith(".test.ts") && /^vi\.mock\(/m.test(readFileSync(join(ROOT, "test", file), "utf8")))
    .map((file) => basename(file, ".test.ts"));
  expect(replacing).toContain("ipmi-presence");
  for (const name of replacing) expect(config).toMatch(new RegExp(String.raw`!\((.*\|)?${name}[|)]`));
});

test.runIf(restoration)("database that is used again has the rows and sequences of a new one", async () => {
  if (!restoration) return;
  await using ostler = await engineUnderTest({ started: false });
  // The engine has added its data key.
  await ostler.test.sql`delete from secret_keys`;
  const clone = await ostler.dump();
  await ostler.engine.updateSite(ALICE, { controllerLimit: 3 });
  const nodes = await ostler.aNode().in("AVAILABLE").times(3);
  await ostler.begin("CLEAN", nodes);
  expect(await ostler.changesSince(clone)).not.toEqual([]);
  expect(await restored(ostler.test.sql, restoration)).toBe(true);
  expect(await ostler.changesSince(clone)).toEqual([]);
  await ostler.aNode().made();
  const [first] = await ostler.test
    .sql`select min(position)::int as transition, (select min(id)::int from change_inbox) as change from transitions`;
  expect(first).toEqual({ transition: 1, change: 1 });
});

test
  .runIf(restoration)
  .each([
    "alter table nodes disable trigger nodes_recorded_update",
    "create index for_the_test on nodes (name)",
    "create or replace function natural_key(name text) returns text language sql immutable as 'select name'",
    "analyze lifecycle_edges",
    "do $$ begin execute format('alter database %I set search_path = public', current_database()); end $$",
    "alter table clusters rename to hidden_clusters",
    "insert into changes select g, 'NODE', gen_random_uuid(), null, null, 'CHANGED', '{}', null, now() from generate_series(1, 60000) g",
  ])("database is not used again after: %s", async (statement) => {
  if (!restoration) return;
  await using database = await testDatabase();
  expect(await restored(database.sql, restoration)).toBe(true);
  await database.sql.unsafe(statement);
  expect(await restored(database.sql, restoration)).toBe(false);
});
