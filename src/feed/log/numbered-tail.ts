/**
 * The tail of a log whose rows are numbered after their commit: changes, and the audit. It numbers the rows that have
 * committed, then reads what is new, for all streams of a process.
 *
 * Modes:
 * - idle: no stream. Once a second it numbers what this or another replica has written.
 * - following: there are streams. It numbers and reads after each notification, at most every 20 ms, and once a second
 *   in case one was lost.
 */
import type { Log } from "../../log.ts";
import { createSpacedCalls } from "../../runtime/spaced-calls.ts";
import type { LogCursor } from "../../store/log/transitions.ts";
import { LogReader } from "./log-reader.ts";

interface NumberedLog<Row> {
  /** Numbers up to `limit` rows, and returns their number. */
  readonly number: (limit: number) => Promise<number>;
  readonly newest: () => Promise<LogCursor>;
  readonly rowsAfter: (after: number, limit: number) => Promise<readonly Row[]>;
  readonly log: Log;
}

/** The position of the log is locked for as long as this many take, about 20 ms. */
const NUMBERED_AT_ONCE = 1_000;
/** Each numbering is a transaction. */
const NUMBER_EVERY_MS = 20;

export function createNumberedTail<Row extends { readonly position: number; readonly at: Date }>({
  number,
  newest,
  rowsAfter,
  log,
}: NumberedLog<Row>) {
  // What was written while there was no stream is read from the table, by those who ask for it.
  let isIdle = true;
  let numbering: Promise<void> | null = null;
  const numberAll = async () => {
    while ((await number(NUMBERED_AT_ONCE)) === NUMBERED_AT_ONCE && !reader.isClosed);
  };
  const reader = new LogReader<Row>(
    {
      log,
      async rowsAfter(after, limit) {
        await numberAll();
        if (isIdle) {
          const cursor = await newest();
          isIdle = false;
          reader.skipTo(cursor);
          return [];
        }
        return rowsAfter(after, limit);
      },
    },
    { position: 0, at: null },
  );
  const reads = createSpacedCalls(NUMBER_EVERY_MS, () => {
    if (!reader.isClosed) reader.readNew();
  });
  const look = () => {
    if (!reader.isClosed && reader.advanceListeners.size > 0) reads.request();
  };
  const live = {
    get position(): number {
      return isIdle ? 0 : reader.newest.position;
    },
    get isClosed(): boolean {
      return reader.isClosed;
    },
    onAdvance(listener: () => void) {
      const unsubscribe = reader.advanceListeners.add(listener);
      look();
      return unsubscribe;
    },
  };
  return {
    /** The newest row that this process has seen; behind while there is no stream. */
    live,
    /** Up to `limit` rows after a position; null if they are not in memory any more. */
    recent: (after: number, limit: number) => (isIdle ? null : reader.recent(after, limit)),
    /** Numbers all rows that have committed. */
    numberAll,
    /** There may be new rows. */
    look,
    /** A second has passed. */
    poll(): void {
      if (reader.isClosed) return;
      if (reader.advanceListeners.size > 0) return look();
      isIdle = true;
      // One at a time: while the position is locked elsewhere, each would hold a connection.
      numbering ??= numberAll()
        .catch((error: unknown) => log.warn({ err: error }, "rows of a log cannot be numbered; retrying"))
        .finally(() => {
          numbering = null;
        });
    },
    close(): void {
      reads.cancel();
      reader.close();
    },
    async settled(): Promise<void> {
      await Promise.all([reader.settled(), numbering]);
    },
  };
}
