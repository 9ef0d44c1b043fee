/**
 * Which statements are worth preparing. postgres.js keeps a prepared statement as long as its connection, which is an hour
 * at most, and offers no way to drop one. So there are places for few, and they are given to those that come again and
 * again: at the third use, and the later the more of them are taken. Each hour they are given anew. A connection thus
 * keeps twice as many statements at most as there are places, and who asks for something else each time takes none.
 */

const PLACES = 50;
/** A longer statement is seldom asked twice, and takes each connection megabytes. In characters. */
const LENGTH_MAX = 8_000;
/** How often a statement is used before it has the first place. */
const USES_BEFORE = 2;
/** Statements without a place whose uses are counted: those used last. */
const COUNTED_MAX = 200;
/** As long as postgres.js keeps a connection. */
const PERIOD_MS = 3_600_000;

/** Whether a statement is prepared, asked at each of its uses. `now`: a clock, in milliseconds. */
export function createPreparedPolicy(now: () => number = () => performance.now()): (text: string) => boolean {
  const placed = new Set<string>();
  const uses = new Map<string, number>();
  let since = now();
  return (text) => {
    if (text.length > LENGTH_MAX) return false;
    if (now() - since >= PERIOD_MS) {
      placed.clear();
      uses.clear();
      since = now();
    }
    if (placed.has(text)) return true;
    const before = uses.get(text) ?? 0;
    uses.delete(text);
    if (placed.size < PLACES && before >= USES_BEFORE + placed.size) {
      placed.add(text);
      return true;
    }
    uses.set(text, before + 1);
    const [oldest] = uses.keys();
    if (uses.size > COUNTED_MAX && oldest !== undefined) uses.delete(oldest);
    return false;
  };
}
