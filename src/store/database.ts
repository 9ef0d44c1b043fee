/**
 * The one place that opens the database: PostgreSQL, embedded or served, through one driver and one set of migrations.
 * Everything else in this room takes a `Reader` (any connection) or a `Tx` (an open transaction) and asks one question.
 */
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { sql as sqlText } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { drizzle } from "drizzle-orm/postgres-js";
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js";
import { migrate } from "drizzle-orm/postgres-js/migrator";
import postgres from "postgres";
import type { Sql, TransactionSql } from "postgres";
import { gated } from "./gate.ts";
import { createPreparing } from "./prepared.ts";

/** Where a server listens. `host` may be the folder of a Unix socket. */
export type Connection = { readonly url: string } | { readonly host: string; readonly port: number; readonly user: string; readonly database: string };

/** What reads are made through: the pool or a transaction. */
export type Reader = Pick<PostgresJsDatabase, "select" | "selectDistinct" | "execute" | "$count">;

/** An open transaction. Only the engine opens one. */
export type Tx = Parameters<Parameters<PostgresJsDatabase["transaction"]>[0]>[0];

export interface Database extends AsyncDisposable {
  readonly reader: Reader;
  /** For reads on somebody's behalf: each statement is cut after ten seconds, whether or not anybody still waits, and waits no longer than that for a connection. */
  readonly bounded: Reader;
  readonly connection: Connection;
  /**
   * Runs `work` in a transaction and commits it. Serialisation failures and deadlocks run it again, up to five times,
   * so `work` must have no effect outside the database before it returns.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** Runs `work` in a read-only transaction that sees one moment of the database, on one of a few connections of its own: writers wait for none. */
  snapshot<T>(work: (reader: Reader) => Promise<T>): Promise<T>;
  /**
   * Calls `onNotify` at every notification of `channel`, and with "" each time the connection was lost and is back:
   * notifications in between are gone. A hint, never the only way to find work.
   */
  listen(channel: string, onNotify: (payload: string) => void): Promise<{ unlisten(): Promise<void> }>;
  notify(channel: string, payload: string): Promise<void>;
}

export interface DatabaseOptions {
  readonly connection: Connection;
  /** Size of the pool; bounded reads have half as many connections of their own, snapshots three. */
  readonly connectionsMax?: number;
  /** How long a statement of a bounded read may take, and may wait, in seconds. */
  readonly readSeconds?: number;
  /** Called with the text of each statement of a bounded read: for those who count them. */
  readonly onStatement?: (text: string) => void;
}

const MIGRATIONS = fileURLToPath(new URL("../../drizzle", import.meta.url));
/** Any number that no other program takes for its advisory lock on the same database. */
const MIGRATION_LOCK = 7_246_519_203;
const SERVER_VERSION_MIN = 150_000;
const RETRIED = new Set(["40001", "40P01"]);
const TRIES = 5;
/** How long a statement of a bounded read may take: as long as a query of the API may. */
const READ_SECONDS = 10;
/** Snapshots that are open at a time; one more waits. */
const SNAPSHOTS_MAX = 3;
/** How long statements may go on when the database is closed. */
const END_SECONDS = 2;

export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const { onStatement, connectionsMax = 20, readSeconds: seconds = READ_SECONDS } = options;
  const sql = connect(options.connection, connectionsMax);
  const db = drizzle({ client: sql, jit: true });
  const atOnce = Math.ceil(connectionsMax / 2);
  const boundedSql = gated(connect(options.connection, atOnce, { seconds, onStatement }), { atOnce, seconds });
  const snapshotSql = connect(options.connection, SNAPSHOTS_MAX, { seconds });
  const snapshots = drizzle({ client: snapshotSql, jit: true });
  try {
    await requireVersion(sql);
  } catch (error) {
    await sql.end({ timeout: 1 });
    throw error;
  }
  return {
    reader: db,
    bounded: drizzle({ client: boundedSql, jit: true }),
    connection: options.connection,
    async transaction(work) {
      for (let tried = 1; ; tried += 1) {
        try {
          return await db.transaction(work);
        } catch (error) {
          if (tried >= TRIES || !RETRIED.has(sqlState(error) ?? "")) throw error;
        }
      }
    },
    snapshot: (work) => snapshots.transaction(work, { isolationLevel: "repeatable read", accessMode: "read only" }),
    async listen(channel, onNotify) {
      const { unlisten } = await sql.listen(channel, onNotify, () => onNotify(""));
      return { unlisten };
    },
    async notify(channel, payload) {
      await sql.notify(channel, payload);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([sql, boundedSql, snapshotSql].map((one) => one.end({ timeout: END_SECONDS })));
    },
  };
}

/**
 * Brings the database to the newest migration. Processes that start together take turns: Drizzle itself takes no lock,
 * and of eight at once seven failed.
 */
export async function migrateDatabase(connection: Connection): Promise<void> {
  const sql = connect(connection, 1);
  try {
    await requireVersion(sql);
    await sql`select pg_advisory_lock(${MIGRATION_LOCK})`;
    await migrate(drizzle({ client: sql }), { migrationsFolder: MIGRATIONS });
  } finally {
    await sql.end({ timeout: 5 });
  }
}

function connect(connection: Connection, max: number, statements: { readonly seconds?: number; readonly onStatement?: DatabaseOptions["onStatement"] | undefined } = {}): Sql {
  const { seconds, onStatement } = statements;
  const options = {
    max,
    ...(onStatement && { debug: (_connection: number, text: string) => onStatement(text) }),
    onnotice: () => {},
    connect_timeout: 10,
    // With the default of 100, a BEGIN that fills a connection's pipeline leaves the connection in an open transaction
    // in the pool: what it acknowledges afterwards is lost (postgres.js issues 823, 1189, 1210).
    max_pipeline: 1e9,
    connection: { application_name: "ostler", ...(seconds !== undefined && { statement_timeout: seconds * 1_000 }) },
  };
  return sparedAfterLoss("url" in connection ? postgres(connection.url, options) : postgres({ ...connection, ...options }));
}

/**
 * postgres.js 3.4.9 writes to a connection that was lost under a transaction, its own ROLLBACK first of all: an exception
 * that nobody can catch, and the process dies. So a transaction whose connection is gone issues nothing any more, and
 * its end is left to postgres.js, which rejects it when the connection closes.
 */
function sparedAfterLoss(sql: Sql): Sql {
  const begin = sql.begin.bind(sql) as (options: string, work: (tx: TransactionSql) => unknown) => Promise<unknown>;
  const spared = async (...given: [string, (tx: TransactionSql) => unknown] | [(tx: TransactionSql) => unknown]) => {
    const [options, work] = given.length === 1 ? ["", given[0]] : given;
    let lost: unknown;
    const guard = (tx: TransactionSql): TransactionSql =>
      new Proxy(tx, {
        get(target, key) {
          if (lost !== undefined && key === "unsafe") throw lost;
          return Reflect.get(target, key, target) as unknown;
        },
      });
    const ended = begin(options, async (tx) => {
      try {
        return await work(guard(tx));
      } catch (error) {
        if (!isConnectionLoss(error)) throw error;
        lost ??= error;
        return new Promise<never>(() => {});
      }
    });
    ended.catch((error: unknown) => {
      lost ??= error;
    });
    return ended;
  };
  return Object.assign(sql, { begin: spared });
}

async function requireVersion(sql: Sql): Promise<void> {
  const [row] = await sql`select current_setting('server_version_num')::int as version`;
  const version = Number(row?.["version"]);
  if (version < SERVER_VERSION_MIN) throw new Error(`Ostler needs PostgreSQL 15 or later; this server is ${Math.floor(version / 10_000)}.`);
}

/** SQLSTATE of what the database refused, looked for along the chain of causes. */
export function sqlState(error: unknown): string | undefined {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const { code } = at as { code?: unknown };
    if (typeof code === "string" && /^[0-9A-Z]{5}$/.test(code)) return code;
  }
  return undefined;
}

/** Name of the constraint that a write violated, if that is why it failed. */
export function violatedConstraint(error: unknown): string | undefined {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const { constraint_name: name } = at as { constraint_name?: unknown };
    if (typeof name === "string") return name;
  }
  return undefined;
}

/** Runs the text of another library's statement inside our transaction. Values are bound, arrays included. */
export async function runStatement(tx: Tx, text: string, values: readonly unknown[] = []): Promise<{ rows: Record<string, unknown>[] }> {
  // Drizzle shows neither its session nor that session's client in its types.
  const { client } = (tx as unknown as { session: { client: Sql } }).session;
  const rows = await client.unsafe(text, values as Parameters<Sql["unsafe"]>[1], { prepare: false });
  return { rows: [...rows] as Record<string, unknown>[] };
}

/** What Drizzle does not show of a reader in its types. */
interface Inner {
  readonly session: { readonly client: Sql };
  readonly dialect: { sqlToQuery(statement: SQL): { readonly sql: string; readonly params: readonly unknown[] } };
}

/** A piece of SQL without values as its text, for what is used again and again: Drizzle makes the text anew each time. */
export function fixed(reader: Reader, piece: SQL): SQL {
  const { sql: text, params } = (reader as unknown as Inner).dialect.sqlToQuery(piece);
  if (params.length > 0) throw new Error("A piece of SQL with values has no fixed text.");
  return sqlText.raw(text);
}

/** A statement with longer values is planned for them: of a plan for all values, PostgreSQL would look through a long list again for each row. In characters. */
const PREPARED_VALUE_MAX = 1_000;
const isPrepared = createPreparing();

/**
 * Runs a statement that may come again and again: then it is prepared, and from the second time on a connection it is
 * neither parsed nor described, which is one way to the database in place of two.
 */
export async function runPrepared(reader: Reader, statement: SQL): Promise<Record<string, unknown>[]> {
  const { session, dialect } = reader as unknown as Inner;
  const { sql: text, params } = dialect.sqlToQuery(statement);
  const isLong = params.some((value) => typeof value === "string" && value.length > PREPARED_VALUE_MAX);
  return [...(await session.client.unsafe(text, params as Parameters<Sql["unsafe"]>[1], { prepare: !isLong && isPrepared(text) }))];
}

/** A stable hash of a JSON value: the same for objects that differ only in the order of their keys. */
export function hashOf(value: unknown): string {
  return createHash("sha256").update(canonical(value)).digest("hex");
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value).filter(([, member]) => member !== undefined).toSorted(([a], [b]) => (a < b ? -1 : 1));
    return `{${entries.map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`).join(",")}}`;
  }
  return JSON.stringify(value ?? null);
}

const CONNECTION_LOSS = new Set(["CONNECTION_CLOSED", "CONNECTION_ENDED", "CONNECTION_DESTROYED", "CONNECT_TIMEOUT", "ECONNREFUSED", "ECONNRESET", "ENOENT", "EPIPE", "57P01", "57P02", "57P03", "53300"]);

/** Whether a statement failed because the database was not there, so that it may succeed later. */
export function isConnectionLoss(error: unknown): boolean {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const { code } = at as { code?: unknown };
    if (typeof code === "string" && (CONNECTION_LOSS.has(code) || code.startsWith("08"))) return true;
  }
  return false;
}
