/**
 * Decides which statements are prepared.
 *
 * postgres.js 3.4.9 keeps a prepared statement until its connection ends, at most one hour, and cannot drop one; no
 * upstream issue is known. Drizzle (1.0.0-rc.5, postgres-js adapter) sends its queries unprepared whatever the client's
 * setting (drizzle-orm issue 6096), so recurring statements are sent through `runPrepared`, which asks this policy.
 *
 * A limited number of statements is prepared: at the third use, and the more are prepared already, the later. Each hour
 * the selection starts again. So a connection keeps at most twice the limit, and statements that do not recur take no
 * part of it.
 */
import { LruMap } from "../../../runtime/lru-map.ts";

const PREPARED_MAX = 50;
/** Longer statements seldom recur, and each takes megabytes on each connection. In characters. */
const LENGTH_MAX = 8_000;
/** Uses before the first statement is prepared. */
const USES_BEFORE = 2;
/** Statements whose uses are counted, the most recently used. */
const COUNTED_MAX = 200;
/** The lifetime of a connection in postgres.js. */
const PERIOD_MS = 3_600_000;

/** True if a statement is to be prepared; called at each of its uses. `now`: a clock, in milliseconds. */
export function createPreparedPolicy(now: () => number = () => performance.now()): (text: string) => boolean {
  const prepared = new Set<string>();
  let uses = new LruMap<string, number>(COUNTED_MAX);
  let since = now();
  return (text) => {
    if (text.length > LENGTH_MAX) return false;
    if (now() - since >= PERIOD_MS) {
      prepared.clear();
      uses = new LruMap(COUNTED_MAX);
      since = now();
    }
    if (prepared.has(text)) return true;
    const before = uses.get(text) ?? 0;
    uses.delete(text);
    if (prepared.size < PREPARED_MAX && before >= USES_BEFORE + prepared.size) {
      prepared.add(text);
      return true;
    }
    uses.set(text, before + 1);
    return false;
  };
}
