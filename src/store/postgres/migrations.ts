/**
 * Applies pending migrations, and checks whether a database that is newer than this release can be used. All migrations
 * of a start are one transaction with the lock that excludes other replicas: this works through a pooler, and a start
 * that dies leaves nothing behind. Decision 0011 lists what a migration may do.
 *
 * A database at the newest migration is only read: most starts need neither the lock nor the right to change tables.
 */
import { readdirSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { drizzle } from "drizzle-orm/postgres-js";
import { migrate } from "drizzle-orm/postgres-js/migrator";
import type { Sql } from "postgres";
import { sqlState } from "./connection-errors.ts";

export interface Migrated {
  /** Names of the migrations that were applied now. */
  readonly made: readonly string[];
  /** Names of applied migrations that this release does not know: those of a newer release. */
  readonly unknown: readonly string[];
}

export const MIGRATIONS = fileURLToPath(new URL("../../../drizzle", import.meta.url));
/** Any number that other programs on the same database do not use. */
const MIGRATION_LOCK = 7_246_519_203;
/** How long a migration may wait for a table. Other transactions wait behind it meanwhile. */
const LOCK_SECONDS = 5;
const ATTEMPTS_MAX = 20;
/** Pause between two attempts, with up to as much jitter. */
const PAUSE_MS = 2_000;
/** A lock was not available, or a deadlock: running transactions lock the same tables in another order. */
const RETRIED = new Set(["55P03", "40P01"]);

/** `folder`: the directory of the migrations. `onTry`: called when a table was in use for too long, before a retry. */
export async function migrateBy(
  sql: Sql,
  folder = MIGRATIONS,
  onTry: (tried: number) => void = () => {},
): Promise<Migrated> {
  const known = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .toSorted();
  const applied = await appliedMigrations(sql);
  const unknown = applied.filter((name) => !known.includes(name));
  requireReleased(applied, known);
  requireReadable(unknown, known);
  if (known.every((name) => applied.includes(name))) return { made: [], unknown };
  for (let tried = 1; ; tried += 1) {
    try {
      const before = await drizzle({ client: sql }).transaction(async (tx) => {
        await tx.execute(`select pg_advisory_xact_lock(${MIGRATION_LOCK})`);
        // Set only now: the lock above may take as long as another replica needs.
        await tx.execute(`set local lock_timeout = '${LOCK_SECONDS}s'`);
        const present = await appliedMigrations(
          (tx as unknown as { readonly session: { readonly client: Sql } }).session.client,
        );
        await migrate(tx as unknown as ReturnType<typeof drizzle>, { migrationsFolder: folder });
        return present;
      });
      return { made: known.filter((name) => !before.includes(name)), unknown };
    } catch (error) {
      if (!RETRIED.has(sqlState(error) ?? "") || tried >= ATTEMPTS_MAX) throw error;
      onTry(tried);
      await delay(PAUSE_MS * (1 + Math.random()));
    }
  }
}

/** Names of the migrations that the database has, in order. */
async function appliedMigrations(sql: Sql): Promise<string[]> {
  const [made] = await sql.unsafe("select to_regclass('drizzle.__drizzle_migrations') is not null as made");
  if (made?.["made"] !== true) return [];
  return (await sql.unsafe("select name from drizzle.__drizzle_migrations order by name")).map(({ name }) =>
    String(name),
  );
}

/** Previews had other migrations, which are one since the first release. */
function requireReleased(applied: readonly string[], [first]: readonly string[]): void {
  if (first === undefined || applied.length === 0 || applied.includes(first)) return;
  throw new Error(
    "The database was made by a preview of Ostler and cannot be upgraded: start with an empty database, and register the nodes again.",
  );
}

/**
 * A migration that removes something names the migration that a release must know to run on it:
 * `20270301120000_drop_nodes_label__needs_20270101090000`. Other releases are refused.
 */
const NEEDS = /__needs_(\d{14})$/;

function requireReadable(unknown: readonly string[], known: readonly string[]): void {
  const newest = known.at(-1)?.slice(0, 14) ?? "";
  for (const name of unknown) {
    const needed = NEEDS.exec(name)?.[1];
    if (needed !== undefined && needed > newest) {
      throw new Error(
        `The database is too new for this release: its migration ${name} needs a release that knows migration ${needed}, and this one knows those up to ${newest}. Start a newer release; migrations cannot be undone.`,
      );
    }
  }
}
