/**
 * Transactions whose connection was lost send nothing more.
 *
 * postgres.js 3.4.9 writes COMMIT or ROLLBACK to the connection of a transaction even if that connection was lost.
 * Without a socket this is an exception that cannot be caught and ends the process (issues 1133 and 1208). If the
 * connection was made again meanwhile, it commits or rolls back another transaction (issues 1204 and 1216; pull request
 * 1215 fixes it upstream). So after a loss, statements of the transaction throw, and its end is left to postgres.js,
 * which rejects it when the connection closes.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Sql, TransactionSql } from "postgres";
import { READ_ONLY, isConnectionLoss, sqlState } from "../connection-errors.ts";

/** A lost connection closes within this time: the close event follows the error of its statement. */
const CLOSES_MS = 1_000;

type Work = (tx: TransactionSql) => unknown;

export function failTransactionsOnLoss(sql: Sql): Sql {
  const begin = sql.begin.bind(sql) as (options: string, work: Work) => Promise<unknown>;
  const guarded = (...given: [string, Work] | [Work]) =>
    given.length === 1 ? runGuarded(begin, "", given[0]) : runGuarded(begin, ...given);
  return Object.assign(sql, { begin: guarded });
}

async function runGuarded(
  begin: (options: string, work: Work) => Promise<unknown>,
  options: string,
  work: Work,
): Promise<unknown> {
  let loss: unknown;
  let isOver = false;
  const guard = (tx: TransactionSql): TransactionSql =>
    new Proxy(tx, {
      get(target, key) {
        if (loss !== undefined && key === "unsafe") throw loss;
        return Reflect.get(target, key, target) as unknown;
      },
    });
  const ended = begin(options, async (tx) => {
    try {
      const answer = await work(guard(tx));
      if (!isOver) return answer;
    } catch (error) {
      if (isConnectionLoss(error) && sqlState(error) !== READ_ONLY) {
        loss ??= error;
        await delay(CLOSES_MS, undefined, { ref: false });
      }
      // The loss may concern another connection that the work used: then this transaction still rolls back.
      if (!isOver) throw error;
    }
    return new Promise<never>(() => {});
  });
  ended.catch((error: unknown) => {
    loss ??= error;
    isOver = true;
  });
  return ended;
}
