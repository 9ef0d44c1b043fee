/**
 * Transactions: retries after conflicts, reconnection after a failover, and the lock that orders the start of replicas.
 */
import { setTimeout as delay } from "node:timers/promises";
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

/** Advisory lock of the start. Any number that other programs on the same database do not use. */
const START_LOCK = 7_246_519_205;
const POLL_MS = 100;
/** Waiting time before `onWait` is called. */
const REPORT_WAIT_MS = 5_000;
/** How long a replica may hold the lock. The server ends the transaction of one that is suspended or lost. */
export const START_LOCK_SECONDS = 120;

export interface StartLockOptions {
  readonly waitSeconds: number;
  /** Called once after five seconds of waiting. */
  readonly onWait: (() => void) | undefined;
}

/** Runs `work` while holding the start lock of the database. */
export async function withStartLock<T>(
  db: PostgresJsDatabase,
  work: () => Promise<T>,
  { waitSeconds, onWait }: StartLockOptions,
): Promise<T> {
  const began = performance.now();
  for (let isReported = false; ;) {
    // Polled: a session that waits for the lock would occupy one of a pooler's few connections.
    const run = await db.transaction(async (tx) => {
      const [row] = await tx.execute<{ acquired: boolean }>(
        `select pg_try_advisory_xact_lock(${START_LOCK}) as acquired`,
      );
      if (row?.acquired !== true) return null;
      await tx.execute(`set local idle_in_transaction_session_timeout = ${START_LOCK_SECONDS * 1_000}`);
      return { answer: await work() };
    });
    if (run) return run.answer;
    const waited = performance.now() - began;
    if (waited > waitSeconds * 1_000)
      throw new Error(
        `Another replica has been starting on this database for more than ${waitSeconds} s. Check whether it hangs; a suspended replica loses the start lock after ${START_LOCK_SECONDS} s.`,
      );
    if (!isReported && waited > REPORT_WAIT_MS) {
      isReported = true;
      onWait?.();
    }
    await delay(POLL_MS);
  }
}
