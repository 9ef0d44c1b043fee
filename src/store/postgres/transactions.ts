/**
 * Transactions: retries after conflicts, and reconnection after a failover.
 */
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js";
import type { Sql } from "postgres";
import type { Tx } from "./connect.ts";
import { READ_ONLY, sqlState } from "./connection-errors.ts";

/** Serialization failure and deadlock. */
const RETRIED = new Set(["40001", "40P01"]);
const ATTEMPTS_MAX = 5;
/** Shortest time between two closings of all connections. */
const RECONNECT_EVERY_MS = 5_000;
/** Closes the server's connections of this process and of other replicas: they lead to the same standby. */
const TERMINATE_ALL = `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and usename = current_user and application_name like 'ostler%'`;

/** Runs transactions of `db`, whose pool is `sql`; see `Database.transaction`. */
export function createTransactions(db: PostgresJsDatabase, sql: Sql): <T>(work: (tx: Tx) => Promise<T>) => Promise<T> {
  let reconnectedAt = Number.NEGATIVE_INFINITY;

  /**
   * After a failover the pool would keep its connections to a server that is a standby now. New ones may lead to the
   * new primary.
   */
  async function reconnect(): Promise<void> {
    if (performance.now() - reconnectedAt < RECONNECT_EVERY_MS) return;
    reconnectedAt = performance.now();
    await sql.unsafe(TERMINATE_ALL).catch(() => {});
  }

  return async (work) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await db.transaction(work);
      } catch (error) {
        const state = sqlState(error) ?? "";
        if (state === READ_ONLY) await reconnect();
        if (attempt >= ATTEMPTS_MAX || !RETRIED.has(state)) throw error;
      }
    }
  };
}

/**
 * Makes a transaction, before its first statement, one that writes nothing, locks no row, and reads one moment of the
 * database.
 */
export async function keepReadOnly(tx: Tx): Promise<void> {
  await tx.execute("set transaction isolation level repeatable read, read only");
}
