/** Opens pools of connections through postgres.js, with the settings and workarounds that all of them need. */
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js";
import postgres from "postgres";
import type { Sql } from "postgres";
import { ARRAY_TYPES } from "./array-types.ts";
import { useNewestConnection } from "./workarounds/newest-connection.ts";
import { failTransactionsOnLoss } from "./workarounds/transaction-loss.ts";
import { createWatchdogSocket } from "./workarounds/watchdog-socket.ts";
import type { Target } from "./workarounds/watchdog-socket.ts";

/** Where a server listens. `host` may be the directory of a Unix socket. */
export type Connection =
  | { readonly url: string }
  | {
      readonly host: string;
      readonly port: number;
      readonly user: string;
      readonly database: string;
      /** Absent: the server requires none. */
      readonly password?: string;
    };

/** Runs queries: a pool or a transaction. */
export type Reader = Pick<PostgresJsDatabase, "select" | "selectDistinct" | "execute" | "$count">;

/** An open transaction. Only the engine opens one. */
export type Tx = Parameters<Parameters<PostgresJsDatabase["transaction"]>[0]>[0];

/**
 * Indexes are used in small tables too. PostgreSQL would read a small table as a whole, and go on so in each connection
 * when it has thousands of rows: it plans again only after the table is analyzed, a minute later or more. Before
 * version 18 a table without a suitable index counts as so expensive that the statement would be compiled (`jit`).
 */
const GENERIC_PLANS = { plan_cache_mode: "force_generic_plan", enable_seqscan: "off", jit: "off" };

/** Idle time before the kernel sends TCP keep-alive probes. */
const KEEP_ALIVE_SECONDS = 10;
/** Time between attempts to reconnect. */
const RECONNECT_SECONDS = 0.5;
const CONNECT_SECONDS = 10;
/** How long running statements may take when a pool is closed. */
const END_SECONDS = 2;

export interface PoolOptions {
  readonly max: number;
  readonly prepare: boolean;
  /** Settings of each session; a pooler rejects most. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Timeout of a statement, enforced by the server. */
  readonly statementSeconds?: number;
  /**
   * Statements are planned for all values at once, so that prepared ones are not planned again. Each must have a plan
   * that suits all values, and large tables too: a plan is kept while a table grows, until it is analyzed.
   */
  readonly hasGenericPlans?: boolean;
  /** How long a transaction may wait for its next statement, enforced by the server. */
  readonly idleSeconds?: number;
  /** Time without a statement after which a connection is closed; absent or 0: it stays open. */
  readonly unusedSeconds?: number;
  /** Time without an answer after which a connection counts as lost; absent: unlimited, as a migration needs. */
  readonly silentSeconds?: number;
  readonly onStatement?: ((text: string) => void) | undefined;
  /** Further options of postgres.js. */
  readonly more?: Readonly<Record<string, unknown>>;
}

export function connect(connection: Connection, pool: PoolOptions): Sql {
  const { max, prepare, settings, hasGenericPlans, statementSeconds, idleSeconds, onStatement, more } = pool;
  const { unusedSeconds, silentSeconds } = pool;
  const open = (options: object) =>
    "url" in connection ? postgres(connection.url, options) : postgres({ ...connection, ...options });
  const options = {
    max,
    prepare,
    fetch_types: false,
    types: ARRAY_TYPES,
    ...(onStatement && { debug: (_connection: number, text: string) => onStatement(text) }),
    onnotice: () => {},
    connect_timeout: CONNECT_SECONDS,
    keep_alive: KEEP_ALIVE_SECONDS,
    ...(unusedSeconds !== undefined && { idle_timeout: unusedSeconds }),
    // With the default of 100, a BEGIN that fills a connection's pipeline leaves the connection in the pool with an
    // open transaction, and later writes on it are lost (postgres.js issues 823, 1189, 1210;
    // test/store/pipeline.test.ts).
    max_pipeline: 1e9,
    // The delay is shared by all connections of a pool. By default it grows to 20 s within seven failed attempts, and
    // runs would stop for that long after the database is back.
    backoff: () => RECONNECT_SECONDS,
    connection: {
      application_name: "ostler",
      ...settings,
      ...(hasGenericPlans === true && GENERIC_PLANS),
      ...(statementSeconds !== undefined && { statement_timeout: statementSeconds * 1_000 }),
      ...(idleSeconds !== undefined && { idle_in_transaction_session_timeout: idleSeconds * 1_000 }),
    },
    // postgres.js parses the address; this pool opens no connection.
    ...(silentSeconds !== undefined && {
      socket: createWatchdogSocket(open({ max: 1 }).options as unknown as Target, silentSeconds * 1_000),
      ssl: false,
    }),
    ...more,
  };
  const sql = open(options);
  return failTransactionsOnLoss(max > 1 ? useNewestConnection(sql) : sql);
}

export async function closePool(sql: Sql): Promise<void> {
  await sql.end({ timeout: END_SECONDS });
}

/** A pool for `await using`. */
export function disposable(sql: Sql): Sql & AsyncDisposable {
  return Object.assign(sql, { [Symbol.asyncDispose]: () => closePool(sql) });
}
