/**
 * Limits the running statements and transactions of a pool to its connections; further ones wait here in order and time
 * out. A transaction counts as one statement. With three running, one that would open a connection waits for a moment
 * before.
 *
 * postgres.js 3.4.9 sends a statement to a busy connection, behind the statement that runs there, although others are
 * idle (explained in issue 747), and cannot time out a waiting statement (requested in issue 1036): one slow statement
 * delays others, and statements whose callers are gone are still sent, one after another.
 *
 * postgres.js settles a statement before it returns the connection to the pool. So the next statement starts a moment
 * later: after a result at the next microtask; after an error when the turn of the event loop is over, because the
 * socket of a lost connection closes at its end. Released any earlier, the next statement would queue behind a busy
 * connection, or be written to the lost one and never be answered.
 */
import type { Sql } from "postgres";

/** Members of a postgres.js query that its types do not show. The first `then` sends it through `handler`. */
interface Statement {
  handler: (statement: Statement) => void;
  resolve: (rows: unknown) => void;
  reject: (error: unknown) => void;
  /** Asks the server to cancel the statement, on a connection opened for this. */
  canceller(statement: Statement): Promise<void>;
}

/** A statement waited too long for a connection. It was not sent. */
export class StatementTimeoutError extends Error {
  static readonly code = "STATEMENT_TIMEOUT";
  readonly code = StatementTimeoutError.code;
  constructor(seconds: number) {
    super(`The statement waited ${seconds} s for a connection. Retry later, or raise OSTLER_DB_POOL.`);
    this.name = "StatementTimeoutError";
  }
}

/** A statement got no answer, or not in time because the server was away. Its code is that of a lost connection. */
export class ConnectionUnresponsiveError extends Error {
  readonly code = "ETIMEDOUT";
  constructor(seconds: number) {
    super(`The database has not answered a statement within ${seconds} s.`);
    this.name = "ConnectionUnresponsiveError";
  }
}

/**
 * Statements at a time that open connections at once. A further one waits for a moment first: statements that arrive
 * together end within milliseconds, and a session of PostgreSQL takes 2 to 8 MB.
 */
const PROMPT = 3;
/** Time after which a statement gets a connection of its own, as long as the pool has one. */
const PATIENCE_MS = 50;
/** SQLSTATE of a statement that the server has cancelled. */
export const QUERY_CANCELED = "57014";
/** Time after the timeout of a statement at which a server that was away all the while cancels it, in seconds. */
const LATE_SECONDS = 1;
/** Time after its timeout at which a statement that was not answered fails, in seconds. */
const REJECT_SECONDS = 2;
/** Time after that at which its connection has been found dead, so that its slot is free, in seconds. */
const RELEASE_SECONDS = 25;

interface StatementLimits {
  readonly concurrency: number;
  /** Timeout of a statement, and of its wait. */
  readonly seconds: number;
  /** Time without a statement after which the pool closes a connection; absent or 0: it stays open. */
  readonly unusedSeconds?: number;
  /** Whether statements are canceled here at their timeout; false if the server does it. */
  readonly cancels?: boolean;
  /** Whether the server answers now; otherwise a statement that has waited too long is one without an answer. */
  isAnswering(): Promise<boolean>;
}

export function limitStatements(sql: Sql, limits: StatementLimits): Sql {
  const queue = new StatementQueue(limits);
  const unsafe = sql.unsafe.bind(sql);
  const begin = sql.begin.bind(sql) as (...given: readonly unknown[]) => Promise<unknown>;
  const queuedBegin = async (...given: readonly unknown[]) => {
    const release = await queue.acquire();
    try {
      const answer = await begin(...given);
      release();
      return answer;
    } catch (error) {
      setImmediate(setImmediate, release);
      throw error;
    }
  };
  const queued = (...given: Parameters<Sql["unsafe"]>) => {
    const query = unsafe(...given);
    // The BEGIN of a transaction that has its connection already.
    if (given[2] && "onexecute" in given[2]) return query;
    const statement = query as unknown as Statement;
    const { handler } = statement;
    statement.handler = (one) => queue.add(Object.assign(one, { handler }));
    return query;
  };
  return Object.assign(sql, { unsafe: queued, begin: queuedBegin });
}

class StatementQueue {
  readonly #limits: StatementLimits;
  readonly #waiting = new Set<() => void>();
  /** When as many statements as the index ran last, and one more: the pool uses its newest connections first. */
  readonly #usedAt: number[] = [];
  #running = 0;

  constructor(limits: StatementLimits) {
    this.#limits = limits;
  }

  add(statement: Statement): void {
    this.#whenFree(() => this.#send(statement), statement.reject);
  }

  /** Resolves when a connection is available, to the function that returns it. */
  acquire(): Promise<() => void> {
    return new Promise((resolve, reject) => this.#whenFree(() => resolve(this.#acquire()), reject));
  }

  #whenFree(action: () => void, reject: (error: unknown) => void): void {
    const { concurrency, seconds, isAnswering } = this.#limits;
    if (this.#running < concurrency && this.#isConnected()) return action();
    let timer: NodeJS.Timeout | undefined;
    const start = () => {
      clearTimeout(timer);
      this.#waiting.delete(start);
      action();
    };
    const giveUp = async () => {
      this.#waiting.delete(start);
      reject((await isAnswering()) ? new StatementTimeoutError(seconds) : new ConnectionUnresponsiveError(seconds));
    };
    const insist = () => {
      if (!this.#waiting.has(start)) return;
      if (this.#running < concurrency) return start();
      timer = setTimeout(() => void giveUp(), seconds * 1_000);
    };
    // Results that have arrived while this process was busy are read before.
    timer = setTimeout(() => setImmediate(insist), PATIENCE_MS);
    this.#waiting.add(start);
  }

  /** Whether a further statement opens no connection, or one that is opened at once. */
  #isConnected(): boolean {
    if (this.#running < PROMPT) return true;
    const usedAt = this.#usedAt[this.#running];
    const { unusedSeconds = 0 } = this.#limits;
    return usedAt !== undefined && (unusedSeconds === 0 || performance.now() - usedAt < unusedSeconds * 1_000);
  }

  #send(statement: Statement): void {
    const { resolve, reject, handler } = statement;
    const { seconds, cancels = false } = this.#limits;
    let timer: NodeJS.Timeout | undefined;
    const after = (more: number, action: () => void) => void (timer = setTimeout(action, more * 1_000));
    const release = this.#acquire();
    const sentAt = performance.now();
    after(seconds, () => {
      // If this fails, the statement continues and is rejected a moment later.
      if (cancels) statement.canceller(statement).catch(() => {});
      after(REJECT_SECONDS, () => {
        reject(new ConnectionUnresponsiveError(seconds + REJECT_SECONDS));
        after(RELEASE_SECONDS, release);
      });
    });
    Object.assign(statement, {
      resolve(rows: unknown) {
        clearTimeout(timer);
        queueMicrotask(release);
        resolve(rows);
      },
      reject(error: unknown) {
        clearTimeout(timer);
        setImmediate(setImmediate, release);
        // A server that works cancels in time.
        const isLate = performance.now() - sentAt > (seconds + LATE_SECONDS) * 1_000;
        const wasAway = isLate && (error as { readonly code?: unknown }).code === QUERY_CANCELED;
        reject(wasAway ? new ConnectionUnresponsiveError(seconds) : error);
      },
    });
    handler(statement);
  }

  /**
   * Takes a slot. The result releases it once: postgres.js settles a statement twice if its lost connection is made
   * again.
   */
  #acquire(): () => void {
    let isHeld = true;
    this.#usedAt[this.#running] = performance.now();
    this.#running += 1;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#running -= 1;
      this.#usedAt[this.#running] = performance.now();
      const [next] = this.#waiting;
      next?.();
    };
  }
}
