/**
 * A gate before a pool of connections: as many statements run as there are connections, and the others wait here, in
 * order, for as long as a statement may take. What waited longer is refused and never sent.
 *
 * postgres.js itself would hand a statement to a busy connection, behind whatever runs there: one slow statement delays
 * others although connections are free, and statements that nobody waits for any more are sent all the same, one after
 * another for as long as it takes.
 *
 * It ends a statement before it takes the connection back, so the next is let through a moment later: after an answer as soon
 * as what is being done now is done; after an error when this turn of the event loop is over, because a socket that was lost
 * is closed at its end. One that is let through at once goes to a connection that is busy, or to the lost one and is never answered.
 */
import type { Sql } from "postgres";

/** What postgres.js keeps of a statement; it sends it by `handler` when somebody first waits for it. */
interface Statement {
  handler: (statement: Statement) => void;
  resolve: (rows: unknown) => void;
  reject: (error: unknown) => void;
  /** Asks the server to cut it, on a connection made for that. */
  canceller(statement: Statement): Promise<void>;
}

/** A statement that did not come to run in time. */
export class StatementTimeoutError extends Error {
  constructor(seconds: number) {
    super(`The statement waited ${seconds} s for a connection.`);
    this.name = "WaitedTooLong";
  }
}

/** A statement to which nothing came: the connection is lost, as its code says, though nobody has said so. */
export class ConnectionUnresponsiveError extends Error {
  readonly code = "ETIMEDOUT";
  constructor(seconds: number) {
    super(`The database has not answered a statement within ${seconds} s.`);
    this.name = "Unanswered";
  }
}

/** So much later than a statement has to have ended nobody waits for it any more, in seconds. */
const REFUSE_SECONDS = 2;
/** And so much later its connection is found dead, one way or another: others go there no more, and its place is free. */
const GIVE_UP_SECONDS = 25;

/** `isCut`: whether what runs longer is cut here too, as the server itself does where it can be told to. */
export function limitStatements(
  sql: Sql,
  { atOnce, seconds, isCut = false }: { readonly atOnce: number; readonly seconds: number; readonly isCut?: boolean },
): Sql {
  const waiting = new Set<() => void>();
  let running = 0;

  const pass = (statement: Statement) => {
    const { handler, resolve, reject } = statement;
    let isRunning = false;
    // A statement may be ended twice: one that a lost connection failed is ended again when that connection is made anew.
    let overdue: NodeJS.Timeout | undefined;
    const after = (more: number, what: () => void) => void (overdue = setTimeout(what, more * 1_000));
    const release = () => {
      if (!isRunning) return;
      isRunning = false;
      running -= 1;
      const [next] = waiting;
      next?.();
    };
    const send = () => {
      isRunning = true;
      running += 1;
      after(seconds, () => {
        // Where that fails, the statement goes on, and is refused in a moment.
        if (isCut) statement.canceller(statement).catch(() => {});
        after(REFUSE_SECONDS, () => {
          reject(new ConnectionUnresponsiveError(seconds + REFUSE_SECONDS));
          after(GIVE_UP_SECONDS, release);
        });
      });
      Object.assign(statement, {
        resolve(rows: unknown) {
          clearTimeout(overdue);
          queueMicrotask(release);
          resolve(rows);
        },
        reject(error: unknown) {
          clearTimeout(overdue);
          setImmediate(setImmediate, release);
          reject(error);
        },
      });
      handler(statement);
    };
    if (running < atOnce) return send();
    const late = setTimeout(() => {
      waiting.delete(start);
      reject(new StatementTimeoutError(seconds));
    }, seconds * 1_000);
    const start = () => {
      clearTimeout(late);
      waiting.delete(start);
      send();
    };
    waiting.add(start);
  };

  const unsafe = sql.unsafe.bind(sql);
  const held = (...given: Parameters<Sql["unsafe"]>) => {
    const query = unsafe(...given);
    const statement = query as unknown as Statement;
    const { handler } = statement;
    // A statement is held by its handler, which keeps what else hangs on it.
    statement.handler = Object.assign((one: Statement) => pass(Object.assign(one, { handler })), handler);
    return query;
  };
  return Object.assign(sql, { unsafe: held });
}
