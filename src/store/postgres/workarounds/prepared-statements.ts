/**
 * Decides which statements are prepared.
 *
 * postgres.js 3.4.9 keeps a prepared statement until its connection ends, at most one hour, and cannot drop one; no
 * upstream issue is known. Drizzle (1.0.0-rc.5, postgres-js adapter) sends its queries unprepared whatever the client's
 * setting (drizzle-orm issue 6096), so this policy is asked for each statement: by `runPrepared` for lists, and by
 * `prepareTransactions` for all that transactions send.
 *
 * A limited number of statements is prepared: at the third use, and the more are prepared already, the later. Each hour
 * the selection starts again. So a connection keeps at most twice the limit, and statements that do not recur take no
 * part of it.
 */
import type { Sql, TransactionSql } from "postgres";
import { LruMap } from "../../../runtime/lru-map.ts";

/** The texts of lists depend on what clients select. */
const PREPARED_MAX = 50;
/** The engine has some eighty statements that recur in transactions. */
const PREPARED_IN_TRANSACTIONS_MAX = 150;
/** Longer statements seldom recur, and each takes megabytes on each connection. In characters. */
const LENGTH_MAX = 8_000;
/** Uses before the first statement is prepared. */
const USES_BEFORE = 2;
/** Statements whose uses are counted, the most recently used, for each that may be prepared. */
const COUNTED_EACH = 4;
/** The lifetime of a connection in postgres.js. */
const PERIOD_MS = 3_600_000;

/**
 * True if a statement is to be prepared; called at each of its uses. `now`: a clock, in milliseconds. `max`: number of
 * statements that are prepared at a time.
 */
export function createPreparedPolicy(
  now: () => number = () => performance.now(),
  max = PREPARED_MAX,
): (text: string) => boolean {
  const prepared = new Set<string>();
  let uses = new LruMap<string, number>(COUNTED_EACH * max);
  let since = now();
  return (text) => {
    if (text.length > LENGTH_MAX) return false;
    if (now() - since >= PERIOD_MS) {
      prepared.clear();
      uses = new LruMap(COUNTED_EACH * max);
      since = now();
    }
    if (prepared.has(text)) return true;
    const before = uses.get(text) ?? 0;
    uses.delete(text);
    if (prepared.size < max && before >= USES_BEFORE + prepared.size) {
      prepared.add(text);
      return true;
    }
    uses.set(text, before + 1);
    return false;
  };
}

type Work = (tx: TransactionSql) => unknown;

/**
 * Lists with more values are long. A plan for all values assumes ten: with thousands it would compare each row of a
 * table with each of them. The changes of a group commit are fewer.
 */
const LIST_MAX = 100;
/** Length of the text of as many UUIDs. */
const TEXT_LIST_MAX = "{}".length + LIST_MAX * '"00000000-0000-0000-0000-000000000000",'.length;

/** For the rest of the transaction. */
const PLANNED_FOR_VALUES =
  "select set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'on', true)";

/** Arrays are sent as such or as their text (array-parameter.ts). A long JSON object counts too, which is harmless. */
function isLongList(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > LIST_MAX;
  return typeof value === "string" && value.length > TEXT_LIST_MAX && value.startsWith('{"');
}

/**
 * Prepares the statements of transactions that recur: Drizzle would have each parsed, described and planned again. Does
 * nothing in a pool that does not prepare. `hasGenericPlans`: as of the connections; a transaction that sends a long
 * list is planned for its values from there on.
 */
export function prepareTransactions(sql: Sql, { hasGenericPlans }: { readonly hasGenericPlans: boolean }): Sql {
  const isPrepared = createPreparedPolicy(undefined, PREPARED_IN_TRANSACTIONS_MAX);
  const begin = sql.begin.bind(sql) as (options: string, work: Work) => Promise<unknown>;
  const preparing = (tx: TransactionSql): TransactionSql => {
    let hasLongList = false;
    const unsafe: TransactionSql["unsafe"] = (text, values = [], options = {}) => {
      if (!hasLongList && values.some(isLongList)) {
        hasLongList = true;
        // Sent before the statement; an error ends the transaction.
        if (hasGenericPlans) void tx.unsafe(PLANNED_FOR_VALUES).execute();
      }
      const isRecurring = options.prepare === true || (values.length > 0 && isPrepared(text));
      // Without that setting PostgreSQL would decide for plans for all values after some uses.
      return tx.unsafe(text, values, { ...options, prepare: isRecurring && (hasGenericPlans || !hasLongList) });
    };
    return new Proxy(tx, {
      get: (target, key) => (key === "unsafe" ? unsafe : (Reflect.get(target, key, target) as unknown)),
    });
  };
  const prepared = (...given: [string, Work] | [Work]) => {
    const [options, work] = given.length === 1 ? ["", given[0]] : given;
    return begin(options, (tx) => work(preparing(tx)));
  };
  return Object.assign(sql, { begin: prepared });
}
