/**
 * Reads of one request that see one moment of the database: they run in one read-only transaction, which the first
 * statement opens.
 *
 * Modes:
 * - unopened: no connection is used. Left by the first statement.
 * - open: the transaction holds a connection. A failed statement ends its use: later ones fail with the same error. If
 *   the connection is lost, all statements without an answer fail.
 * - closed: entered by `close`. The transaction ends after the statements that were sent; later ones are refused.
 */
import { drizzle } from "drizzle-orm/postgres-js";
import type { PendingQuery, Sql, TransactionSql } from "postgres";
import type { Reader } from "./connect.ts";
import { sqlState } from "./connection-errors.ts";

export interface LazySnapshot {
  readonly reader: Reader;
  /** Whether a statement was sent: the snapshot is then of a moment in the past. */
  isOpen(): boolean;
  /** Releases the connection as soon as the statements that were sent have ended. */
  close(): void;
}

type Given = Parameters<Sql["unsafe"]>;
type Rows = PendingQuery<Record<string, unknown>[]>;

const OPTIONS = "isolation level repeatable read read only";
/** A statement after one that failed. */
const TRANSACTION_ABORTED = "25P02";

/** A snapshot on the pool `sql`. `statementSeconds`: the timeout of a statement, if the server has none. */
export function lazySnapshot(sql: Sql, statementSeconds?: number): LazySnapshot {
  const closing = Promise.withResolvers<void>();
  // Without a transaction, nothing waits for it.
  closing.promise.catch(() => {});
  // postgres.js 3.4.9 keeps statements of a transaction that wait behind another, and never settles them if the
  // connection is lost. The end of the transaction does.
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {});
  let opened: Promise<TransactionSql> | undefined;
  let isClosed = false;
  let failure: unknown;

  function open(): Promise<TransactionSql> {
    const { promise, resolve, reject } = Promise.withResolvers<TransactionSql>();
    sql
      .begin(OPTIONS, (tx) => {
        if (statementSeconds !== undefined)
          void tx.unsafe(`set local statement_timeout = ${statementSeconds * 1_000}`).execute();
        resolve(tx);
        return closing.promise;
      })
      .catch((error: unknown) => {
        reject(error);
        failed.reject(error);
      });
    return promise;
  }

  async function send<Answer>(given: Given, answerOf: (query: Rows) => PromiseLike<Answer>): Promise<Answer> {
    if (isClosed) throw new Error("The request is over; its snapshot of the database is closed.");
    const tx = await (opened ??= open());
    if (isClosed) throw new Error("The request is over; its snapshot of the database is closed.");
    try {
      return await Promise.race([answerOf(tx.unsafe(...given)), failed.promise]);
    } catch (error) {
      failure ??= error;
      throw sqlState(error) === TRANSACTION_ABORTED ? failure : error;
    }
  }

  // The part of a client that Drizzle and `runPrepared` use. Both take a whole client and await a query, or its
  // `values()`. A promise in place of the query would send it before `values()` could choose the form of its rows, and
  // the client of a transaction, which Drizzle takes too, exists only after its begin: hence the thenable and the cast.
  const client = {
    options: sql.options,
    unsafe: (...given: Given) => ({
      // oxlint-disable-next-line unicorn/no-thenable -- like a query of postgres.js, which is sent when it is awaited
      then: (...settle: Parameters<Rows["then"]>) => send(given, (query) => query).then(...settle),
      values: () => send(given, (query) => query.values()),
    }),
  };
  return {
    reader: drizzle({ client: client as unknown as Sql, jit: true }),
    isOpen: () => opened !== undefined,
    close() {
      if (isClosed) return;
      isClosed = true;
      // If a connection was lost, the end of its transaction must know.
      if (failure === undefined) closing.resolve();
      else closing.reject(failure);
    },
  };
}
