/**
 * Brings the database to the newest migration, and judges one that is newer than this release. Migrations and the lock
 * under which replicas that start together take turns are one transaction, so a pooler may lie in between, and a start
 * that dies leaves nothing behind. What a migration may do is told in docs/decisions/0013.
 *
 * A database at the newest migration is only read: most starts need no lock, and no right to change tables.
 */
import { readdirSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { drizzle } from "drizzle-orm/postgres-js";
import { migrate } from "drizzle-orm/postgres-js/migrator";
import type { Sql } from "postgres";
import { sqlState } from "./connection-errors.ts";

export interface Migrated {
  /** Names of the migrations that were made just now. */
  readonly made: readonly string[];
  /** Names of those that the database has and this release does not know: a newer release has made them. */
  readonly unknown: readonly string[];
}

export const MIGRATIONS = fileURLToPath(new URL("../../../drizzle", import.meta.url));
/** Any number that no other program takes for its advisory lock on the same database. */
const MIGRATION_LOCK = 7_246_519_203;
/** How long a migration may wait for a table: so long, at most, others wait behind it. */
const LOCK_SECONDS = 5;
const TRIES = 20;
/** Between two tries, in ms, and up to as much again. */
const REST_MS = 2_000;
const LOCK_NOT_AVAILABLE = "55P03";

/** `folder`: where the migrations are. `onTry`: called when a table was in use for too long and it will be tried again. */
export async function migrateBy(
  sql: Sql,
  folder = MIGRATIONS,
  onTry: (tried: number) => void = () => {},
): Promise<Migrated> {
  const known = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .toSorted();
  const there = await migrationsThere(sql);
  const unknown = there.filter((name) => !known.includes(name));
  requireReadable(unknown, known);
  if (known.every((name) => there.includes(name))) return { made: [], unknown };
  for (let tried = 1; ; tried += 1) {
    try {
      const before = await drizzle({ client: sql }).transaction(async (tx) => {
        await tx.execute(`select pg_advisory_xact_lock(${MIGRATION_LOCK})`);
        // From here on: waiting for the lock above is waiting for another replica's turn, as long as that takes.
        await tx.execute(`set local lock_timeout = '${LOCK_SECONDS}s'`);
        const inTurn = await migrationsThere(
          (tx as unknown as { readonly session: { readonly client: Sql } }).session.client,
        );
        await migrate(tx as unknown as ReturnType<typeof drizzle>, { migrationsFolder: folder });
        return inTurn;
      });
      return { made: known.filter((name) => !before.includes(name)), unknown };
    } catch (error) {
      if (sqlState(error) !== LOCK_NOT_AVAILABLE || tried >= TRIES) throw error;
      onTry(tried);
      await delay(REST_MS * (1 + Math.random()));
    }
  }
}

/** Names of the migrations that the database has, in their order. */
async function migrationsThere(sql: Sql): Promise<string[]> {
  const [made] = await sql.unsafe("select to_regclass('drizzle.__drizzle_migrations') is not null as made");
  if (made?.["made"] !== true) return [];
  return (await sql.unsafe("select name from drizzle.__drizzle_migrations order by name")).map(({ name }) =>
    String(name),
  );
}

/**
 * A migration that takes something away says in its name which one code must know that is to run on it:
 * `20270301120000_drop_nodes_label__needs_20270101090000`. A release that does not know that one is refused.
 */
const NEEDS = /__needs_(\d{14})$/;

function requireReadable(unknown: readonly string[], known: readonly string[]): void {
  const newest = known.at(-1)?.slice(0, 14) ?? "";
  for (const name of unknown) {
    const needed = NEEDS.exec(name)?.[1];
    if (needed !== undefined && needed > newest) {
      throw new Error(
        `The database is too new for this release: its migration ${name} needs a release that knows migration ${needed}, and this one knows those up to ${newest}. Start a newer release; the database cannot be taken back.`,
      );
    }
  }
}
