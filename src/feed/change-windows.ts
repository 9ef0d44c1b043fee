/**
 * Pages of the log for a reader that is far behind. It reads a window of the log merged (merged-changes.ts): each
 * object with all its changes of the window, in the order of the first one, so that it is one item, however often it
 * changed there. A page has the objects whose first change comes before those of all others that were not sent, so its
 * cursor has no gap: a reader that resumes there repeats what has changed again, and misses nothing.
 *
 * Modes of a reader:
 * - no window: the next page opens one at the cursor of the reader, or has the changes one by one if there are few.
 * - in a window: the next page has its next objects, of the rows that are held, or else of the table.
 */
import { CHANGE_LOG, changeCursor, changesAfter } from "../store/log/changes.ts";
import type { ChangeCursor, ChangeFilter } from "../store/log/changes.ts";
import { changeTimes, mergedChanges } from "../store/log/merged-changes.ts";
import type { ChangeMerge, MergedChange } from "../store/log/merged-changes.ts";
import type { Reader } from "../store/postgres/database.ts";
import type { PageRows } from "./change-items.ts";
import { logTable } from "./log/log-table.ts";
import type { LogRange } from "./log/log-table.ts";

/** A page with a text that is equal for pages of the same changes. */
export interface KeyedPage extends PageRows {
  readonly key: string;
}

export interface WindowLimits {
  /** Number of changes up to which a reader that is behind reads them one by one. */
  readonly single: number;
  /** Positions of a window, which bounds the duration of its statement. */
  readonly positions: number;
  /** Rows that are held for a reader. */
  readonly rows: number;
  /** Objects on a page. */
  readonly objects: number;
}

const LIMITS: WindowLimits = { single: 1_000, positions: 50_000, rows: 5_000, objects: 1_000 };

/** The rest of a window after a position. */
interface Rest {
  readonly from: number;
  readonly until: number;
  readonly begun: number;
  readonly rows: readonly MergedChange[];
  /** There are no others in the window. */
  readonly isAll: boolean;
}

export function createChangeWindows(
  reader: Reader,
  { reads, merge }: { readonly reads: ChangeFilter; readonly merge: ChangeMerge },
  limits: WindowLimits = LIMITS,
) {
  const table = logTable(reader, changeCursor, CHANGE_LOG);
  let open: Rest | null = null;

  /** The changes until a position, one by one; null if some are deleted. */
  async function readSingly(after: ChangeCursor, until: number): Promise<KeyedPage | null> {
    const { position } = after;
    const rowsIn = (range: LogRange) => changesAfter(reader, { ...range, filter: reads });
    const page = await table.page(position, { until, limit: limits.single, rowsIn });
    return page && { after, ...page, key: `${position} ${until}` };
  }

  /** Null if changes after `begun` are deleted. */
  async function readRest({ from, until, begun }: Pick<Rest, "from" | "until" | "begun">): Promise<Rest | null> {
    const range = { after: from, until, begun };
    const { rows, isAll } = await mergedChanges(reader, range, { filter: reads, merge, limit: limits.rows });
    if (await table.hasGap(begun, rows[0]?.begin)) return null;
    return { from, until, begun, rows, isAll };
  }

  function restAt(position: number): Rest | null {
    return open?.begun === position ? open : null;
  }

  return {
    /** Whether the next page after this position continues a window. */
    isOpenAt: (position: number) => restAt(position) !== null,
    /** The next page; null if changes after the cursor are deleted. */
    async read(after: ChangeCursor, newest: number): Promise<KeyedPage | null> {
      const { position } = after;
      const known = restAt(position);
      if (!known && newest - position <= limits.single) return readSingly(after, newest);
      open = null;
      const window = known ?? { from: position, until: Math.min(newest, position + limits.positions), begun: position };
      const rest = known && known.rows.length > 0 ? known : await readRest(window);
      if (!rest) return null;
      const { from, until } = rest;
      const size = objectsEnd(rest.rows, limits.objects);
      const taken = rest.rows.slice(0, size);
      const isEnd = rest.isAll && size === rest.rows.length;
      const end = isEnd ? until : (taken.at(-1)?.begin ?? until);
      const positions = new Set([...taken.flatMap((row) => [row.begin, row.position]), end]);
      const times = await changeTimes(reader, [...positions]);
      if (times.size < positions.size) return null;
      const timed = (at: number) => changeCursor({ position: at, at: times.get(at) ?? null });
      const cursor = timed(end);
      if (!isEnd) open = { ...rest, begun: end, rows: rest.rows.slice(size) };
      const rows = taken.flatMap(({ begin, ...row }) => {
        const at = times.get(row.position);
        return at ? { ...row, at, begin: timed(begin) } : [];
      });
      return { after, rows, cursor, key: `${from} ${until} ${position} ${end}` };
    },
  };
}

/** The number of rows of the first objects. */
function objectsEnd(rows: readonly MergedChange[], objects: number): number {
  let begun = 0;
  let size = 0;
  for (let last = 0; size < rows.length; size += 1) {
    const begin = rows[size]?.begin ?? last;
    if (begin !== last) begun += 1;
    if (begun > objects) return size;
    last = begin;
  }
  return size;
}
