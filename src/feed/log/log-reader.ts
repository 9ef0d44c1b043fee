/**
 * One reader of the new rows of a log per process, for all its streams: it keeps the newest rows in memory. A stream
 * near the head takes rows from there; one that is behind reads the table.
 */
import type { Log } from "../../log.ts";
import type { LogCursor } from "../../store/log/transitions.ts";
import { Listeners } from "../listeners.ts";

interface Position {
  readonly position: number;
  readonly at: Date;
}

interface LogReaderOptions<Row> {
  /** Up to `limit` rows after a position, oldest first, without holes. */
  readonly rowsAfter: (after: number, limit: number) => Promise<readonly Row[]>;
  readonly onRows?: (rows: readonly Row[]) => void;
  readonly log: Log;
}

const RECENT_MAX = 8_192;
const PAGE = 500;

export class LogReader<Row extends Position> {
  readonly advanceListeners = new Listeners();
  readonly #options: LogReaderOptions<Row>;
  /** The newest rows, oldest first; their positions have no holes. */
  #recentRows: Row[] = [];
  #newest: LogCursor;
  #isClosed = false;
  #reading: Promise<void> = Promise.resolve();
  #isReading = false;
  #readsAgain = false;

  constructor(options: LogReaderOptions<Row>, newest: LogCursor) {
    this.#options = options;
    this.#newest = newest;
  }

  get newest(): LogCursor {
    return this.#newest;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Up to `limit` rows after a position; null if they are not in memory any more. */
  recent(after: number, limit: number): readonly Row[] | null {
    const [oldest] = this.#recentRows;
    if (after >= this.#newest.position) return [];
    if (!oldest || oldest.position > after + 1) return null;
    // Positions have no holes, so the index follows from the position.
    const from = after + 1 - oldest.position;
    return this.#recentRows.slice(from, from + limit);
  }

  /** Starts a read, or repeats the one under way. */
  readNew(): void {
    this.#readsAgain = true;
    if (!this.#isReading) this.#reading = this.#read();
  }

  /** Continues at a later position, without the rows up to it. */
  skipTo(newest: LogCursor): void {
    this.#recentRows = [];
    this.#newest = newest;
    this.advanceListeners.notify();
  }

  close(): void {
    this.#isClosed = true;
    this.advanceListeners.notifyAtOnce();
  }

  /** Waits for the read under way. */
  async settled(): Promise<void> {
    await this.#reading;
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    try {
      do {
        this.#readsAgain = false;
        if (await this.#readPage()) this.#readsAgain = true;
      } while (this.#readsAgain && !this.#isClosed);
    } catch (error) {
      this.#options.log.warn({ err: error }, "the log cannot be read; retrying");
    } finally {
      // In the turn in which the loop ends: a call of `readNew` in between would be forgotten.
      this.#isReading = false;
    }
  }

  /** Whether there may be more. */
  async #readPage(): Promise<boolean> {
    const rows = await this.#options.rowsAfter(this.#newest.position, PAGE);
    const [newest] = rows.slice(-1);
    if (!newest) return false;
    this.#recentRows.push(...rows);
    if (this.#recentRows.length > 2 * RECENT_MAX) this.#recentRows = this.#recentRows.slice(-RECENT_MAX);
    this.#newest = newest;
    this.#options.onRows?.(rows);
    this.advanceListeners.notify();
    return rows.length === PAGE;
  }
}
