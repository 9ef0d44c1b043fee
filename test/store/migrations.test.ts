/** Migrations: what they may do, which process runs them, and which releases may run on their result. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import type { Sql } from "postgres";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { missingStatements, withStatements } from "../../drizzle/node-changes.ts";
import { MIGRATIONS, migrateBy } from "../../src/store/postgres/migrations.ts";
import { testDatabase } from "../support/database.ts";
import type { TestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { flawsOfMigration } from "../support/migration-rules.ts";

const DECISIONS = readdirSync(fileURLToPath(new URL("../../docs/decisions", import.meta.url)));
const isDecided = (number: string) => DECISIONS.some((file) => file.startsWith(`${number}-`));

test("migrations only add, and do not disturb older releases", () => {
  const names = readdirSync(MIGRATIONS).filter((name) => /^\d{14}_/.test(name));
  const flaws = names.flatMap((name) =>
    flawsOfMigration(name, readFileSync(join(MIGRATIONS, name, "migration.sql"), "utf8"), isDecided).map((flaw) => ({
      name,
      ...flaw,
    })),
  );
  expect(
    flaws,
    "Let the migration only add. If a statement must do more, write its decision above it: -- decision 0019: why",
  ).toEqual([]);
});

describe("changes of nodes", () => {
  test("the migrations record changes of nodes as src/store/log/change-fields.ts lists them", () => {
    expect(missingStatements(MIGRATIONS), "Run `npm run tool -- migration --custom --name <what>`.").toEqual([]);
  });

  test("a migration gets the statements that the migrations lack, or had before another one", () => {
    const directory = mkdtempSync(join(tmpdir(), "ostler-node-changes-"));
    const put = (name: string, text: string) => {
      mkdirSync(join(directory, name));
      writeFileSync(join(directory, name, "migration.sql"), text);
    };
    try {
      const [facts = "", record = "", trigger = ""] = missingStatements(directory);
      expect(trigger).toMatch(
        /^-- decision 0037: .*\nCREATE OR REPLACE TRIGGER "nodes_recorded_update" AFTER UPDATE OF /,
      );
      put("1_first", withStatements('ALTER TABLE "nodes" ADD COLUMN "rack" text;', [facts, record, trigger]));
      expect(missingStatements(directory)).toEqual([]);
      const older = record.replace("OLD.name IS DISTINCT", "OLD.stage IS DISTINCT");
      put("2_older", withStatements("-- Custom SQL migration file\n", [older]));
      expect(missingStatements(directory)).toEqual([record]);
      put("3_newest", withStatements("", [record]));
      expect(missingStatements(directory)).toEqual([]);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });
});

describe("migration rules", () => {
  const flaws = (text: string, name = "20270101000000_x") =>
    flawsOfMigration(name, text, (number) => number === "0011").length;

  test.each([
    'ALTER TABLE "nodes" ADD COLUMN "rack" text;',
    'ALTER TABLE "nodes" ADD COLUMN "height" integer DEFAULT 1 NOT NULL;',
    'CREATE TABLE "racks" ("id" uuid PRIMARY KEY, "name" text NOT NULL UNIQUE);--> statement-breakpoint\nCREATE UNIQUE INDEX "racks_name" ON "racks" ("name");--> statement-breakpoint\nALTER TABLE "racks" ADD CONSTRAINT "racks_site" CHECK (true);',
    'CREATE INDEX IF NOT EXISTS "nodes_rack" ON "nodes" ("rack");',
    'DROP INDEX "nodes_created";',
    'ALTER TABLE "nodes" ADD CONSTRAINT "height_sound" CHECK ("height" > 0) NOT VALID;',
    '-- drop table "nodes"\nALTER TABLE "nodes" ADD COLUMN "dropped" boolean;',
    "CREATE FUNCTION height(jsonb) RETURNS int LANGUAGE sql AS $$ select 1 $$;",
  ])("migration may contain %s", (text) => {
    expect(flaws(text)).toBe(0);
  });

  test.each([
    'DROP TABLE "rejected_callbacks";',
    'ALTER TABLE "nodes" DROP COLUMN "labels";',
    'ALTER TABLE "nodes" RENAME COLUMN "labels" TO "marks";',
    'ALTER TABLE "nodes" RENAME TO "machines";',
    'ALTER TABLE "nodes" ALTER COLUMN "name" SET DATA TYPE varchar(9);',
    'ALTER TABLE "nodes" ALTER COLUMN "power" SET NOT NULL;',
    'ALTER TABLE "nodes" ADD COLUMN "height" integer NOT NULL;',
    'ALTER TABLE "nodes" ADD COLUMN "key" uuid DEFAULT gen_random_uuid() NOT NULL;',
    'ALTER TABLE "nodes" ADD CONSTRAINT "height_sound" CHECK ("height" > 0);',
    'CREATE UNIQUE INDEX "nodes_serial" ON "nodes" ("serial");',
    'CREATE INDEX "nodes_rack" ON "nodes" ("rack");',
    'ALTER TABLE "nodes" DROP CONSTRAINT "nodes_cluster_id_clusters_id_fkey";',
    'ALTER TABLE "nodes" DROP CONSTRAINT "nodes_name_key";',
    "UPDATE nodes SET labels = '{}';",
    "CREATE TRIGGER watch BEFORE UPDATE ON nodes FOR EACH ROW EXECUTE FUNCTION x();",
  ])("migration must not contain %s", (text) => {
    expect(flaws(text)).toBe(1);
    expect(flaws(`-- decision 0099: does not exist\n${text}`)).toBe(1);
  });

  test("migration may do more if it names a decision, and remove objects if its name gives the oldest release that works without them", () => {
    expect(flaws('-- decision 0011: the table is small\nCREATE INDEX "nodes_rack" ON "nodes" ("rack");')).toBe(0);
    const drop = '-- decision 0011: unused since 0.9\nALTER TABLE "nodes" DROP COLUMN "labels";';
    expect([flaws(drop), flaws(drop, "20270301000000_drop_labels__needs_20270101000000")]).toEqual([1, 0]);
    const dropConstraint = (name: string) =>
      flaws(`-- decision 0011: why\nALTER TABLE "nodes" DROP CONSTRAINT "${name}";`);
    expect([dropConstraint("nodes_name_key"), dropConstraint("nodes_cluster_id_clusters_id_fkey")]).toEqual([1, 0]);
  });
});

describe("start on a migrated database", () => {
  const parts = new AsyncDisposableStack();
  afterAll(() => parts.disposeAsync());
  let folder: string;
  let sql: Sql;
  let database: TestDatabase;
  beforeEach(async () => {
    const made = mkdtempSync(join(tmpdir(), "ostler-migrations-"));
    parts.defer(() => rmSync(made, { recursive: true }));
    cpSync(MIGRATIONS, made, { recursive: true });
    database = parts.use(await testDatabase());
    const opened = postgres(database.url, { max: 1, onnotice: () => {} });
    parts.defer(() => opened.end());
    [folder, sql] = [made, opened];
  });
  const add = (name: string, text: string) => {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, "migration.sql"), text);
  };

  test("start of a newer release migrates once; the start of an older release continues and logs the newer migrations", async () => {
    add("20990101000000_rack", 'ALTER TABLE "nodes" ADD COLUMN "rack" text;');
    expect(await migrateBy(sql, folder)).toEqual({ made: ["20990101000000_rack"], unknown: [] });
    expect(await migrateBy(sql, folder)).toEqual({ made: [], unknown: [] });
    expect(await migrateBy(sql)).toEqual({ made: [], unknown: ["20990101000000_rack"] });
  });

  test("start of a release that needs a removed object is refused; the start of a release that does not is accepted", async () => {
    const contract = "20990301000000_drop_summary__needs_20990101000000";
    add("20990101000000_without_summary", "SELECT 1;");
    add(contract, "SELECT 1;");
    await migrateBy(sql, folder);
    await expect(migrateBy(sql)).rejects.toThrow(
      /^The database is too new for this release: its migration 20990301000000_drop_summary__needs_20990101000000 needs .* 20990101000000, .* Start a newer release/,
    );
    rmSync(join(folder, contract), { recursive: true });
    expect(await migrateBy(sql, folder)).toEqual({ made: [], unknown: [contract] });
  });

  test("start on a database with names that differ in case only is refused with the names, and changes nothing", async () => {
    const withoutCase = readdirSync(MIGRATIONS).find((name) => name.endsWith("_names_without_case")) ?? "";
    for (const name of readdirSync(folder)) if (name >= withoutCase) rmSync(join(folder, name), { recursive: true });
    await using older = await testDatabase({ empty: true });
    await migrateBy(older.sql, folder);
    await older.sql`insert into clusters (id, name, project, variables) select gen_random_uuid(), name, 'x', '{}' from unnest(array['oslo', 'Berlin', 'berlin']) as name`;
    await expect(migrateBy(older.sql)).rejects.toMatchObject({
      cause: {
        message:
          "The names of the clusters Berlin, berlin differ only in case. Give all but one another name with the release before, then start this one.",
      },
    });
    await older.sql`update clusters set name = 'Bern' where name = 'Berlin'`;
    expect((await migrateBy(older.sql)).made).toContain(withoutCase);
  });

  test("start on the database of a preview is refused, and changes nothing", async () => {
    rmSync(folder, { recursive: true });
    mkdirSync(folder);
    add("20261121060018_spine", 'CREATE TABLE "nodes" ("id" uuid PRIMARY KEY);');
    await using preview = await testDatabase({ empty: true });
    await migrateBy(preview.sql, folder);
    await expect(migrateBy(preview.sql)).rejects.toThrow(
      /^The database was made by a preview of Ostler and cannot be upgraded: start with an empty database, /,
    );
    expect([...(await preview.sql`select relname from pg_stat_user_tables where schemaname = 'public'`)]).toEqual([
      { relname: "nodes" },
    ]);
  });

  test("start waits for a lock on a table only briefly, lets others pass, and retries", async () => {
    add("20990101000000_rack", 'ALTER TABLE "nodes" ADD COLUMN "rack" text;');
    const other = postgres(database.url, { max: 1 });
    parts.defer(() => other.end());
    const [taken, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    parts.defer(held.resolve);
    const holding = other.begin(async (tx) => {
      await tx`lock table nodes in row exclusive mode`;
      taken.resolve();
      await held.promise;
    });
    await taken.promise;
    const tries: number[] = [];
    const migrated = migrateBy(sql, folder, (tried) => {
      tries.push(tried);
      held.resolve();
    });
    expect(await migrated).toEqual({ made: ["20990101000000_rack"], unknown: [] });
    expect(tries[0]).toBe(1);
    await holding;
  });

  test("start whose migration deadlocks with a running transaction is retried", async () => {
    add(
      "20990101000000_rack",
      'LOCK TABLE "nodes"; LOCK TABLE "clusters"; ALTER TABLE "nodes" ADD COLUMN "rack" text;',
    );
    // The migration looks for a deadlock 3 s after it began to wait, the other transaction does not.
    await sql`do $$ begin execute format('alter database %I set deadlock_timeout = 3000', current_database()); end $$`;
    const migrating = postgres(database.url, { max: 1 });
    const other = postgres(database.url, { max: 1, connection: { deadlock_timeout: 60_000 } });
    parts.defer(() => migrating.end());
    parts.defer(() => other.end());
    const taken = Promise.withResolvers<void>();
    const holding = other.begin(async (tx) => {
      await tx`lock table clusters in row exclusive mode`;
      taken.resolve();
      await eventually("the migration waits", async () => {
        const [row] = await sql`
          select exists (
            select from pg_locks join pg_database d on d.oid = database
            where not granted and relation = 'clusters'::regclass and datname = current_database()
          ) as waits`;
        return row?.["waits"] === true;
      });
      await tx`lock table nodes in row exclusive mode`;
    });
    await taken.promise;
    const tries: number[] = [];
    const migrated = await migrateBy(migrating, folder, (tried) => tries.push(tried));
    expect(migrated).toEqual({ made: ["20990101000000_rack"], unknown: [] });
    expect(tries).toEqual([1]);
    await holding;
  });
});
