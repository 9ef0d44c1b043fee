/**
 * Opens the database: PostgreSQL, embedded or served, through one driver and one set of migrations. All other files of
 * the store take a `Reader` (a pool or a transaction) or a `Tx` (an open transaction).
 */
import { drizzle } from "drizzle-orm/postgres-js";
import type { Sql } from "postgres";
import { createAnswerCheck } from "./answer-check.ts";
import type { AnswerCheck } from "./answer-check.ts";
import { isConnectionLoss, isDatabaseUnavailable } from "./connection-errors.ts";
import { closePool, connect, disposable } from "./connect.ts";
import type { Connection, Reader, Tx } from "./connect.ts";
import { lazySnapshot } from "./lazy-snapshot.ts";
import type { LazySnapshot } from "./lazy-snapshot.ts";
import { listenOn } from "./listener.ts";
import { migrateBy } from "./migrations.ts";
import type { Migrated } from "./migrations.ts";
import { connectionsOf, poolsOf } from "./pools.ts";
import type { Pools } from "./pools.ts";
import { probe } from "./probe.ts";
import type { Probed } from "./probe.ts";
import { createTransactions } from "./transactions.ts";
import { prepareTransactions } from "./workarounds/prepared-statements.ts";
import { limitStatements } from "./workarounds/statement-queue.ts";

export type { Connection, LazySnapshot, Reader, Tx };

export interface Database extends AsyncDisposable {
  readonly reader: Reader;
  /** For claims and leases, which must not wait for other statements: connections of their own. */
  readonly claims: Reader;
  /**
   * For reads of API requests: a statement is canceled after ten seconds, and waits at most as long for a connection.
   */
  readonly bounded: Reader;
  /** Whether the server answers within a second, on a connection of its own: also while all pools are busy. */
  isAnswering(): Promise<boolean>;
  readonly connection: Connection;
  readonly pools: Pools;
  /** True if the server is reached through a pooler. */
  readonly isPooled: boolean;
  /** How many connections the role may open to the database. */
  readonly serverConnectionsMax: number;
  /**
   * Runs `work` in a transaction and commits it. Serialization failures and deadlocks run it again, up to five times,
   * so `work` must have no effect outside the database before it returns.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** Whether a transaction of this process is open, or ended a moment ago. */
  isWriting(): boolean;
  /** Whether the server refused the last write a moment ago although it answers: its disk is full, or fails. */
  refusesWrites(): boolean;
  /**
   * Runs `work` in a read-only transaction that sees one moment of the database, on connections that writers do not
   * use.
   */
  snapshot<T>(work: (reader: Reader) => Promise<T>): Promise<T>;
  /** A reader for one API request that sees one moment of the database, on one connection of `bounded`. */
  lazySnapshot(): LazySnapshot;
  /**
   * Calls `onNotify` at every notification of `channel`, and with "" after each reconnection: notifications in between
   * are lost. A hint; polling must find the same work. Rejects with an instruction for the operator if notifications do
   * not arrive.
   */
  listen(
    channel: string,
    onNotify: (payload: string) => void,
    onError?: (error: unknown) => void,
  ): Promise<AsyncDisposable>;
  notify(channel: string, payload: string): Promise<void>;
  /**
   * Closes all connections except the one that listens. Running statements fail with a connection error, and so do
   * later ones.
   */
  disconnect(): Promise<void>;
}

interface DatabaseOptions {
  readonly connection: Connection;
  /** Size of the pool for writes; the other pools are derived from it (pools.ts). */
  readonly connectionsMax?: number;
  /** Where the connection that listens leads; absent: `connection`. */
  readonly listenAt?: Connection;
  /** Whether recurring statements are prepared. auto, the default: unless a pooler is used. */
  readonly prepare?: "auto" | "on" | "off";
  /** Timeout of a bounded read, and of its wait for a connection, in seconds. */
  readonly readSeconds?: number;
  /** Time without an answer after which a connection counts as lost, in seconds. */
  readonly writeSeconds?: number;
  /** Time without a statement after which a connection is closed, in seconds; 0: never. */
  readonly unusedSeconds?: number;
  /** Called with the text of each statement on a connection for writes or claims, to look at its plan. */
  readonly onWrite?: (text: string) => void;
  /** Called with the text of each statement of a bounded read, to count statements. */
  readonly onStatement?: (text: string) => void;
}

/** Timeout of a bounded read: that of an API query. */
const READ_SECONDS = 10;
const WRITE_SECONDS = 60;
/** A lost connection is replaced while leases are still valid. */
const CLAIM_SECONDS = 5;
/** Margin between the server's statement timeout and the moment a silent connection counts as lost. */
const SILENT_SECONDS = 5;
/**
 * A replica that is suspended in a transaction keeps its locks. The server ends its transaction after this time, which
 * leaves time to take over its runs; sooner if it holds the lock on the log's position (transitions.ts).
 */
const IDLE_SECONDS = 30;
/**
 * Time without a statement after which a connection is closed. A session of PostgreSQL keeps its plans and caches: some
 * 8 MB.
 */
const UNUSED_SECONDS = 10;
/** Time after a transaction in which the next one is expected, in milliseconds: writers that wait for each answer. */
const BETWEEN_WRITES_MS = 100;
/** Time for which a refused write counts, in milliseconds; then another one may be tried. */
const REFUSED_MS = 10_000;

export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { connection, readSeconds = READ_SECONDS } = options;
  const probed = await inspect(connection);
  const { isPooled } = probed;
  const answerCheck = createAnswerCheck(connection);
  const { pools, sql, claimSql, boundedSql, snapshotSql } = openPools(options, probed, answerCheck);
  const db = drizzle({ client: sql, jit: true });
  const snapshots = drizzle({ client: snapshotSql, jit: true });
  const all = [sql, claimSql, boundedSql, snapshotSql];
  return {
    reader: db,
    claims: drizzle({ client: claimSql, jit: true }),
    bounded: drizzle({ client: boundedSql, jit: true }),
    isAnswering: answerCheck.isAnswering,
    connection,
    pools,
    isPooled,
    serverConnectionsMax: probed.connectionsMax,
    ...watched(createTransactions(db, sql)),
    snapshot: (work) =>
      snapshots.transaction(
        async (tx) => {
          if (isPooled) await tx.execute(`set local statement_timeout = ${readSeconds * 1_000}`);
          return work(tx);
        },
        { isolationLevel: "repeatable read", accessMode: "read only" },
      ),
    lazySnapshot: () => lazySnapshot(boundedSql, isPooled ? readSeconds : undefined),
    listen: (channel, onNotify, onError = () => {}) =>
      listenOn({
        channel,
        onNotify,
        onError,
        connect: (on) => connectListener(options, on, probed),
        notify: async (payload) => void (await sql.notify(channel, payload)),
      }),
    async notify(channel, payload) {
      await sql.notify(channel, payload);
    },
    async disconnect() {
      await Promise.all(all.map((pool) => pool.end({ timeout: 0 })));
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...all.map(closePool), answerCheck[Symbol.asyncDispose]()]);
    },
  };
}

/** Transactions, whether some are under way, and whether the last one was refused. */
function watched(transaction: Database["transaction"]): Pick<Database, "transaction" | "isWriting" | "refusesWrites"> {
  let open = 0;
  let endedAt = Number.NEGATIVE_INFINITY;
  let refusedAt = Number.NEGATIVE_INFINITY;
  return {
    async transaction(work) {
      open += 1;
      try {
        const answer = await transaction(work);
        refusedAt = Number.NEGATIVE_INFINITY;
        return answer;
      } catch (error) {
        if (isDatabaseUnavailable(error) && !isConnectionLoss(error)) refusedAt = performance.now();
        throw error;
      } finally {
        open -= 1;
        endedAt = performance.now();
      }
    },
    isWriting: () => open > 0 || performance.now() - endedAt < BETWEEN_WRITES_MS,
    refusesWrites: () => performance.now() - refusedAt < REFUSED_MS,
  };
}

function openPools(options: DatabaseOptions, probed: Probed, { isAnswering }: Pick<AnswerCheck, "isAnswering">) {
  const { isPooled } = probed;
  const { connection, onStatement, connectionsMax = 20 } = options;
  const { readSeconds = READ_SECONDS, writeSeconds = WRITE_SECONDS, prepare: setting = "auto" } = options;
  const { unusedSeconds = UNUSED_SECONDS } = options;
  const pools = poolsOf(connectionsMax);
  const prepare = setting === "auto" ? !isPooled : setting === "on";
  const hasGenericPlans = prepare && !isPooled;
  // A pooler rejects settings that it does not know, and would pass a session's settings on to other clients. Behind
  // one, the statement queue cancels statements, and a snapshot sets its timeout inside the transaction.
  const settings = isPooled ? {} : probed.settings;
  const session = { prepare, settings, unusedSeconds };
  const idleLimit = isPooled ? {} : { idleSeconds: IDLE_SECONDS };
  const reads = { ...session, ...idleLimit, ...(!isPooled && { statementSeconds: readSeconds }) };
  const writes = { ...session, hasGenericPlans, onStatement: options.onWrite };
  return {
    pools,
    sql: prepareTransactions(
      connect(connection, { ...writes, ...idleLimit, max: pools.writers, silentSeconds: writeSeconds }),
      { hasGenericPlans },
    ),
    claimSql: connect(connection, { ...writes, max: pools.claims, silentSeconds: CLAIM_SECONDS }),
    boundedSql: limitStatements(
      connect(connection, { ...reads, max: pools.readers, silentSeconds: readSeconds + SILENT_SECONDS, onStatement }),
      { concurrency: pools.readers, seconds: readSeconds, unusedSeconds, cancels: isPooled, isAnswering },
    ),
    // A server that works cancels in time. Without this limit, one that was away for longer would seem to be slow.
    snapshotSql: connect(connection, { ...reads, max: pools.snapshots, silentSeconds: readSeconds + 1 }),
  };
}

function connectListener(
  { connection, listenAt = connection, writeSeconds = WRITE_SECONDS }: DatabaseOptions,
  { onNotify, onClose }: { onNotify(payload: string): void; onClose(): void },
  { isPooled, settings }: Probed,
): Sql {
  return connect(listenAt, {
    max: 1,
    prepare: false,
    // `listenAt` leads past the pooler.
    settings: isPooled && listenAt === connection ? {} : settings,
    silentSeconds: writeSeconds,
    more: {
      onnotify: (_channel: string, payload: string) => onNotify(payload),
      onclose: onClose,
      idle_timeout: 0,
      max_lifetime: null,
    },
  });
}

/** Applies all pending migrations; see migrations.ts. */
export async function migrateDatabase(connection: Connection, onTry?: (tried: number) => void): Promise<Migrated> {
  const { isPooled, settings } = await inspect(connection);
  await using sql = disposable(connect(connection, { max: 1, prepare: false, settings: isPooled ? {} : settings }));
  return await migrateBy(sql, undefined, onTry);
}

/** Number of connections that a replica opens at most. `serves`: whether it answers requests. */
export function connectionsTaken({ pools }: Database, serves: boolean): number {
  return connectionsOf(pools, serves);
}

async function inspect(connection: Connection): Promise<Probed> {
  await using sql = disposable(connect(connection, { max: 1, prepare: false, silentSeconds: READ_SECONDS }));
  return await probe(sql);
}
