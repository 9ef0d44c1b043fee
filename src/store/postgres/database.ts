/**
 * The one place that opens the database: PostgreSQL, embedded or served, through one driver and one set of migrations.
 * Everything else in this room takes a `Reader` (any connection) or a `Tx` (an open transaction) and asks one question.
 */
import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { sql as sqlText } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { drizzle } from "drizzle-orm/postgres-js";
import type { PostgresJsDatabase } from "drizzle-orm/postgres-js";
import postgres from "postgres";
import type { Sql, TransactionSql } from "postgres";
import { limitStatements } from "./workarounds/statement-queue.ts";
import { listenOn } from "./listener.ts";
import { READ_ONLY, isConnectionLoss, sqlState } from "./connection-errors.ts";
import { migrateBy } from "./migrations.ts";
import type { Migrated } from "./migrations.ts";
import { connectionsOf, poolsOf } from "./pools.ts";
import type { Pools } from "./pools.ts";
import { createPreparedPolicy } from "./workarounds/prepared-statements.ts";
import { probe } from "./probe.ts";
import { createWatchdogSocket } from "./workarounds/watchdog-socket.ts";
import type { Target } from "./workarounds/watchdog-socket.ts";

export { isConnectionLoss, sqlState };

/** Where a server listens. `host` may be the folder of a Unix socket. */
export type Connection =
  | { readonly url: string }
  | { readonly host: string; readonly port: number; readonly user: string; readonly database: string };

/** What reads are made through: the pool or a transaction. */
export type Reader = Pick<PostgresJsDatabase, "select" | "selectDistinct" | "execute" | "$count">;

/** An open transaction. Only the engine opens one. */
export type Tx = Parameters<Parameters<PostgresJsDatabase["transaction"]>[0]>[0];

export interface Database extends AsyncDisposable {
  readonly reader: Reader;
  /** For reads on somebody's behalf: each statement is cut after ten seconds, whether or not anybody still waits, and waits no longer than that for a connection. */
  readonly bounded: Reader;
  readonly connection: Connection;
  readonly pools: Pools;
  /** Whether a pooler stands between us and the server. */
  readonly isPooled: boolean;
  /** How many connections the server takes, from everybody. */
  readonly serverConnectionsMax: number;
  /**
   * Runs `work` in a transaction and commits it. Serialisation failures and deadlocks run it again, up to five times,
   * so `work` must have no effect outside the database before it returns.
   */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** Runs `work` while no other process does so on this database: for what replicas that start together would make twice. */
  inTurn<T>(work: () => Promise<T>): Promise<T>;
  /** Runs `work` in a read-only transaction that sees one moment of the database, on one of a few connections of its own: writers wait for none. */
  snapshot<T>(work: (reader: Reader) => Promise<T>): Promise<T>;
  /**
   * Calls `onNotify` at every notification of `channel`, and with "" each time the connection was lost and is back:
   * notifications in between are gone. A hint, never the only way to find work. Throws a sentence that says what to do
   * where notifications do not come.
   */
  listen(
    channel: string,
    onNotify: (payload: string) => void,
    onError?: (error: unknown) => void,
  ): Promise<AsyncDisposable>;
  notify(channel: string, payload: string): Promise<void>;
  /** Closes all connections but the one that listens. What is still asked on them fails, as if the server had closed them, and so does everything after. */
  giveUp(): Promise<void>;
}

export interface DatabaseOptions {
  readonly connection: Connection;
  /** Size of the pool; the others follow from it (pools.ts). */
  readonly connectionsMax?: number;
  /** Where the one connection that listens goes; absent: where the others go. */
  readonly listenAt?: Connection;
  /** Whether statements that come again and again are prepared. auto, also where nothing is said: not through a pooler. */
  readonly prepare?: "auto" | "on" | "off";
  /** How long a statement of a bounded read may take, and may wait, in seconds. */
  readonly readSeconds?: number;
  /** How long other statements may be without an answer before their connection counts as lost, in seconds. */
  readonly writeSeconds?: number;
  /** How long `inTurn` waits at most, in seconds. */
  readonly turnWaitSeconds?: number;
  /** Called once when it has waited for a while. */
  readonly onTurn?: () => void;
  /** Called with the text of each statement of a bounded read: for those who count them. */
  readonly onStatement?: (text: string) => void;
}

const RETRIED = new Set(["40001", "40P01"]);
const TRIES = 5;
/** How long a statement of a bounded read may take: as long as a query of the API may. */
const READ_SECONDS = 10;
/** How long other statements may be without any: what takes longer is a connection that was lost without a word. */
const WRITE_SECONDS = 60;
/** So much later than the server cuts a statement, a connection counts as lost on which nothing came. */
const SILENT_SECONDS = 5;
/** Before the kernel asks whether the other end is still there, where nothing else is on its way. */
const KEEP_ALIVE_SECONDS = 10;
/**
 * A replica that is suspended in the middle of a transaction keeps its locks, the one of the log's position among them, and
 * everybody waits for it: for so long at most, which leaves time to take its runs over.
 */
const IDLE_SECONDS = 30;
/** How soon a connection that could not be made is tried again. */
const RECONNECT_SECONDS = 0.5;
/** Within this time a connection that was lost is closed: that follows upon the error of the statement that was on it. */
const CLOSES_MS = 1_000;
/** How long statements may go on when the database is closed. */
const END_SECONDS = 2;
/** Any number that no other program takes for its advisory lock on the same database. */
const START_LOCK = 7_246_519_205;
/** How often it is looked whose turn it is. */
const TURN_MS = 100;
/** After so long of waiting it is told. */
const TURN_TOLD_MS = 5_000;
/** How long a turn may go on. The server ends that of a process that is suspended, or lost without a word. */
const TURN_SECONDS = 120;
/** How often connections to a server that takes no writes are given up, at most. */
const GIVE_UP_EVERY_MS = 5_000;
/** Connections of the server that are ours: of this process, and of others, which lead to the same server. */
const GIVE_UP = `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and usename = current_user and application_name like 'ostler%'`;

export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const {
    connection,
    onStatement,
    connectionsMax = 20,
    readSeconds: seconds = READ_SECONDS,
    writeSeconds = WRITE_SECONDS,
    turnWaitSeconds = TURN_SECONDS,
    prepare: prepareSetting = "auto",
  } = options;
  const { isPooled, connectionsMax: serverConnectionsMax } = await lookAt(connection);
  const pools = poolsOf(connectionsMax);
  const prepare = prepareSetting === "auto" ? !isPooled : prepareSetting === "on";
  // A pooler refuses settings that it does not know, and a session's settings would be whoever's comes next: there,
  // statements are cut by us, and snapshots by a setting of their transaction.
  const cutByServer = { ...(!isPooled && { seconds }), silentSeconds: seconds + SILENT_SECONDS };
  const sql = connect(connection, {
    max: pools.writers,
    prepare,
    silentSeconds: writeSeconds,
    ...(!isPooled && { idleSeconds: IDLE_SECONDS }),
  });
  const db = drizzle({ client: sql, jit: true });
  const boundedSql = limitStatements(
    connect(connection, { max: pools.readers, prepare, onStatement, ...cutByServer }),
    {
      atOnce: pools.readers,
      seconds,
      isCut: isPooled,
    },
  );
  const snapshotSql = connect(connection, { max: pools.snapshots, prepare, ...cutByServer });
  const snapshots = drizzle({ client: snapshotSql, jit: true });
  let gaveUpAt = Number.NEGATIVE_INFINITY;

  /** After a failover a pool would keep its connections to what is a standby by now: new ones may lead to the new server. */
  async function giveUpReadOnly(): Promise<void> {
    if (performance.now() - gaveUpAt < GIVE_UP_EVERY_MS) return;
    gaveUpAt = performance.now();
    await sql.unsafe(GIVE_UP).catch(() => {});
  }

  return {
    reader: db,
    bounded: drizzle({ client: boundedSql, jit: true }),
    connection,
    pools,
    isPooled,
    serverConnectionsMax,
    async transaction(work) {
      for (let tried = 1; ; tried += 1) {
        try {
          return await db.transaction(work);
        } catch (error) {
          const state = sqlState(error) ?? "";
          if (state === READ_ONLY) await giveUpReadOnly();
          if (tried >= TRIES || !RETRIED.has(state)) throw error;
        }
      }
    },
    async inTurn(work) {
      const began = performance.now();
      for (let told = false; ;) {
        // Tried rather than waited for: whoever waits would keep one of a pooler's few connections from the other's work.
        const turn = await db.transaction(async (tx) => {
          const [row] = [
            ...(await tx.execute<{ mine: boolean }>(`select pg_try_advisory_xact_lock(${START_LOCK}) as mine`)),
          ];
          if (row?.mine !== true) return null;
          await tx.execute(`set local idle_in_transaction_session_timeout = ${TURN_SECONDS * 1_000}`);
          return { answer: await work() };
        });
        if (turn) return turn.answer;
        const waited = performance.now() - began;
        if (waited > turnWaitSeconds * 1_000)
          throw new Error(
            `Another replica has been starting on this database for more than ${turnWaitSeconds} s. See whether it hangs; one that is suspended keeps its turn for ${TURN_SECONDS} s.`,
          );
        if (!told && waited > TURN_TOLD_MS) {
          told = true;
          options.onTurn?.();
        }
        await delay(TURN_MS);
      }
    },
    snapshot: (work) =>
      snapshots.transaction(
        async (tx) => {
          if (isPooled) await tx.execute(`set local statement_timeout = ${seconds * 1_000}`);
          return work(tx);
        },
        { isolationLevel: "repeatable read", accessMode: "read only" },
      ),
    listen(channel, onNotify, onError = () => {}) {
      const at = options.listenAt ?? connection;
      return listenOn({
        channel,
        onNotify,
        onError,
        connect: ({ onNotify: onnotify, onClose: onclose }) =>
          connect(at, {
            max: 1,
            prepare: false,
            silentSeconds: writeSeconds,
            more: {
              onnotify: (_channel: string, payload: string) => onnotify(payload),
              onclose,
              idle_timeout: 0,
              max_lifetime: null,
              fetch_types: false,
            },
          }),
        notify: async (payload) => void (await sql.notify(channel, payload)),
      });
    },
    async notify(channel, payload) {
      await sql.notify(channel, payload);
    },
    async giveUp() {
      await Promise.all([sql, boundedSql, snapshotSql].map((one) => one.end({ timeout: 0 })));
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([sql, boundedSql, snapshotSql].map((one) => one.end({ timeout: END_SECONDS })));
    },
  };
}

/** Brings the database to the newest migration; see migrations.ts. */
export async function migrateDatabase(connection: Connection, onTry?: (tried: number) => void): Promise<Migrated> {
  await using sql = closing(connect(connection, { max: 1, prepare: false }));
  await probe(sql);
  return await migrateBy(sql, undefined, onTry);
}

/** How many connections a replica takes of the server at most. `serves`: whether it answers requests. */
export function connectionsTaken({ pools }: Database, serves: boolean): number {
  return connectionsOf(pools, serves);
}

async function lookAt(connection: Connection) {
  await using sql = closing(connect(connection, { max: 1, prepare: false, silentSeconds: READ_SECONDS }));
  return await probe(sql);
}

function closing(sql: Sql): Sql & AsyncDisposable {
  return Object.assign(sql, { [Symbol.asyncDispose]: () => sql.end({ timeout: END_SECONDS }) });
}

interface PoolOptions {
  readonly max: number;
  readonly prepare: boolean;
  /** How long the server lets a statement take. */
  readonly seconds?: number;
  /** How long the server lets a transaction wait for its next statement. */
  readonly idleSeconds?: number;
  /** How long a statement may be without an answer; absent: as long as it takes, as a migration may. */
  readonly silentSeconds?: number;
  readonly onStatement?: DatabaseOptions["onStatement"] | undefined;
  readonly more?: Readonly<Record<string, unknown>>;
}

function connect(
  connection: Connection,
  { max, prepare, seconds, idleSeconds, silentSeconds, onStatement, more }: PoolOptions,
): Sql {
  const open = (options: object) =>
    "url" in connection ? postgres(connection.url, options) : postgres({ ...connection, ...options });
  const options = {
    max,
    prepare,
    ...(onStatement && { debug: (_connection: number, text: string) => onStatement(text) }),
    onnotice: () => {},
    connect_timeout: 10,
    keep_alive: KEEP_ALIVE_SECONDS,
    // With the default of 100, a BEGIN that fills a connection's pipeline leaves the connection in an open transaction
    // in the pool: what it acknowledges afterwards is lost (postgres.js issues 823, 1189, 1210).
    max_pipeline: 1e9,
    // Of all connections of a pool together: by default it grows to 20 s within seven vain tries, and so long work would stand
    // still when the database is back.
    backoff: () => RECONNECT_SECONDS,
    connection: {
      application_name: "ostler",
      ...(seconds !== undefined && { statement_timeout: seconds * 1_000 }),
      ...(idleSeconds !== undefined && { idle_in_transaction_session_timeout: idleSeconds * 1_000 }),
    },
    // What leads to the server is read by postgres.js; nothing is opened for that.
    ...(silentSeconds !== undefined && {
      socket: createWatchdogSocket(open({ max: 1 }).options as unknown as Target, silentSeconds * 1_000),
      ssl: false,
    }),
    ...more,
  };
  return sparedAfterLoss(open(options));
}

/**
 * postgres.js 3.4.9 writes the end of a transaction, COMMIT or ROLLBACK, to its connection though that was lost meanwhile.
 * Either nothing is there to be written to: an exception that nobody can catch, and the process dies. Or the connection was
 * made anew, and it is the transaction of somebody else that is ended in its middle. So a transaction whose connection is
 * gone issues nothing any more, and its end is left to postgres.js, which rejects it when the connection closes.
 */
function sparedAfterLoss(sql: Sql): Sql {
  const begin = sql.begin.bind(sql) as (options: string, work: (tx: TransactionSql) => unknown) => Promise<unknown>;
  const spared = async (...given: [string, (tx: TransactionSql) => unknown] | [(tx: TransactionSql) => unknown]) => {
    const [options, work] = given.length === 1 ? ["", given[0]] : given;
    let lost: unknown;
    let isOver = false;
    const guard = (tx: TransactionSql): TransactionSql =>
      new Proxy(tx, {
        get(target, key) {
          if (lost !== undefined && key === "unsafe") throw lost;
          return Reflect.get(target, key, target) as unknown;
        },
      });
    const ended = begin(options, async (tx) => {
      try {
        const answer = await work(guard(tx));
        if (!isOver) return answer;
      } catch (error) {
        if (isConnectionLoss(error) && sqlState(error) !== READ_ONLY) {
          lost ??= error;
          await delay(CLOSES_MS, undefined, { ref: false });
        }
        // What was lost may have been a connection of somebody else, whom the work has asked.
        if (!isOver) throw error;
      }
      return new Promise<never>(() => {});
    });
    ended.catch((error: unknown) => {
      lost ??= error;
      isOver = true;
    });
    return ended;
  };
  return Object.assign(sql, { begin: spared });
}

/** Name of the constraint that a write violated, if that is why it failed. */
export function violatedConstraint(error: unknown): string | undefined {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const { constraint_name: name } = at as { constraint_name?: unknown };
    if (typeof name === "string") return name;
  }
  return undefined;
}

/**
 * Runs a statement inside our transaction, whose text is always the same: ours, or another library's. Values are bound, arrays
 * included. It is prepared where the pool prepares at all: it then goes to the server in one trip, and is not planned anew.
 */
export async function runStatement(
  tx: Tx,
  text: string,
  values: readonly unknown[] = [],
): Promise<{ rows: Record<string, unknown>[] }> {
  // Drizzle shows neither its session nor that session's client in its types.
  const { client } = (tx as unknown as { session: { client: Sql } }).session;
  const rows = await client.unsafe(text, values as Parameters<Sql["unsafe"]>[1], { prepare: true });
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
const isPrepared = createPreparedPolicy();

/**
 * Runs a statement that may come again and again: then it is prepared, and from the second time on a connection it is
 * neither parsed nor described, which is one way to the database in place of two.
 */
export async function runPrepared(reader: Reader, statement: SQL): Promise<Record<string, unknown>[]> {
  const { session, dialect } = reader as unknown as Inner;
  const { sql: text, params } = dialect.sqlToQuery(statement);
  const isLong = params.some((value) => typeof value === "string" && value.length > PREPARED_VALUE_MAX);
  return [
    ...(await session.client.unsafe(text, params as Parameters<Sql["unsafe"]>[1], {
      prepare: !isLong && isPrepared(text),
    })),
  ];
}

/** A stable hash of a JSON value: the same for objects that differ only in the order of their keys. */
export function hashOf(value: unknown): string {
  return createHash("sha256").update(canonical(value)).digest("hex");
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value)
      .filter(([, member]) => member !== undefined)
      .toSorted(([a], [b]) => (a < b ? -1 : 1));
    return `{${entries.map(([key, member]) => `${JSON.stringify(key)}:${canonical(member)}`).join(",")}}`;
  }
  return JSON.stringify(value ?? null);
}
