/** A log in its table, as streams read it. */
import { BEFORE_FIRST, checkCursor, cursorAt, newestCursor } from "../../store/log/transitions.ts";
import type { LogCursor } from "../../store/log/transitions.ts";
import type { Reader } from "../../store/postgres/database.ts";

/** Up to `limit` rows after a position, up to a position. */
export interface LogRange {
  readonly after: number;
  readonly until: number;
  readonly limit: number;
}

interface PageRequest<Row> extends Omit<LogRange, "after"> {
  /** Matching rows in this range, oldest first. */
  readonly rowsIn: (range: LogRange) => Promise<readonly Row[]>;
}

/** `cursorOf`: makes a cursor of this log. `tables`: absent for the log of transitions. */
export function logTable<Cursor extends LogCursor>(
  reader: Reader,
  cursorOf: (row: LogCursor) => Cursor,
  tables?: Parameters<typeof checkCursor>[2],
) {
  /** Whether rows after a position are deleted; `first`: position of the first one that was read after it. */
  async function hasGap(after: number, first: number | undefined): Promise<boolean> {
    // Positions have no holes, so a row directly after the cursor proves that none is missing. Otherwise the log
    // decides.
    return first !== after + 1 && (await checkCursor(reader, BEFORE_FIRST, tables)).earliest.position > after;
  }

  return {
    beforeFirst: cursorOf(BEFORE_FIRST),
    newest: async () => cursorOf(await newestCursor(reader, tables)),
    async check(cursor: LogCursor) {
      const checked = await checkCursor(reader, cursor, tables);
      return { ...checked, earliest: cursorOf(checked.earliest) };
    },
    hasGap,
    /** Rows after a position, and the cursor up to which they are all; null if earlier ones are deleted. */
    async page<Row extends LogCursor>(after: number, { until, limit, rowsIn }: PageRequest<Row>) {
      const rows = await rowsIn({ after, until, limit });
      if (await hasGap(after, rows[0]?.position)) return null;
      const last = rows.at(-1);
      const isAtLast = last !== undefined && (rows.length === limit || last.position === until);
      return { rows, cursor: cursorOf(isAtLast ? last : await cursorAt(reader, until, tables)) };
    },
  };
}
