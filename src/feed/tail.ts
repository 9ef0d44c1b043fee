/**
 * The tail of the log: one reader of new transitions per process, for all its streams. It reads after each notification
 * and, in case one was lost, once a second, and keeps the newest rows in memory. A stream near the head takes rows from
 * memory; one that is behind reads the table. No stream has a queue. Facts of nodes and snapshots are shared between
 * streams as well.
 */
import type { Log } from "../log.ts";
import { noopObserver } from "../observer.ts";
import type { Observer } from "../observer.ts";
import type { Notifier } from "../store/postgres/notifier.ts";
import type { Database } from "../store/postgres/database.ts";
import { nodeFacts } from "../store/node-facts.ts";
import type { NodeFacts } from "../store/node-facts.ts";
import type { NodeFilter } from "../store/node-filter.ts";
import { newestCursor, transitionsAfter } from "../store/transitions.ts";
import type { LogCursor, TransitionRow } from "../store/transitions.ts";
import { createFacts } from "./facts.ts";
import { createSnapshots } from "./snapshots.ts";
import type { Claim } from "./snapshots.ts";
import { createTurns } from "./turns.ts";
import type { Turns } from "./turns.ts";

export interface Tail extends AsyncDisposable {
  /** Position of the newest transition that this process has seen. */
  readonly head: number;
  /** Cursor of that transition. */
  readonly newest: LogCursor;
  /** True when the tail has ended because the process shuts down. */
  readonly closed: boolean;
  /** Up to `limit` rows after a position; null if they are not in memory any more. */
  recent(after: number, limit: number): readonly TransitionRow[] | null;
  /** Facts of the node of each of these recent rows, in their order; null for a deleted node. */
  facts(rows: readonly TransitionRow[]): Promise<readonly (NodeFacts | null)[]>;
  /** Claims a snapshot of all matching nodes. Snapshots are taken in the order of the requests. */
  snapshot(filter: NodeFilter | undefined): Claim;
  /** Turns of the streams that catch up. */
  readonly turns: Turns;
  /** Calls `listener` when the head has advanced and when the tail ends. */
  onAdvance(listener: () => void): () => void;
  /** Calls `listener` when any row may have been written and when the tail ends. */
  onWrite(listener: () => void): () => void;
  /** Counts a stream that ends with a reset of this code. */
  onReset(code: string): void;
  /** Ends all streams with a reset. */
  close(): void;
}

const RECENT_MAX = 8_192;
const PAGE = 500;
const POLL_MS = 1_000;

export interface TailParts {
  readonly database: Database;
  readonly notifier: Notifier;
  readonly log: Log;
  readonly observer?: Observer;
}

export async function createTail(parts: TailParts): Promise<Tail> {
  const { database, notifier, observer = noopObserver } = parts;
  const writeListeners = new Set<() => void>();
  const reader = new LogReader(parts, await newestCursor(database.reader));
  const facts = createFacts((ids) => nodeFacts(database.reader, ids));
  const look = () => {
    if (reader.isClosed) return;
    notifyAll(writeListeners);
    reader.readNew();
  };
  const unsubscribe = notifier.subscribe(look);
  const poll = setInterval(look, POLL_MS);
  const close = () => {
    reader.close();
    notifyAll(writeListeners);
  };
  return {
    get head() {
      return reader.newest.position;
    },
    get newest() {
      return reader.newest;
    },
    get closed() {
      return reader.isClosed;
    },
    recent: (after, limit) => reader.recent(after, limit),
    facts: (rows) => facts(rows, reader.newest.position),
    snapshot: createSnapshots(database),
    turns: createTurns({ isBusy: () => database.isWriting() }),
    onAdvance: (listener) => subscribe(reader.advanceListeners, listener),
    onWrite: (listener) => subscribe(writeListeners, listener),
    onReset: (code) => observer.streamReset(code),
    close,
    async [Symbol.asyncDispose]() {
      unsubscribe();
      clearInterval(poll);
      close();
      await reader.settled();
    },
  };
}

/** Reads new transitions and keeps the newest in memory. */
class LogReader {
  readonly advanceListeners = new Set<() => void>();
  readonly #database: Database;
  readonly #log: Log;
  readonly #observer: Observer;
  /** The newest rows, oldest first; their positions have no holes. */
  #recentRows: TransitionRow[] = [];
  #newest: LogCursor;
  #isClosed = false;
  #reading: Promise<void> | null = null;
  #readsAgain = false;

  constructor({ database, log, observer = noopObserver }: TailParts, newest: LogCursor) {
    this.#database = database;
    this.#log = log;
    this.#observer = observer;
    this.#newest = newest;
  }

  get newest(): LogCursor {
    return this.#newest;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  recent(after: number, limit: number): readonly TransitionRow[] | null {
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
    this.#reading ??= this.#read()
      .catch((error: unknown) => this.#log.warn({ err: error }, "the log cannot be read; retrying"))
      .finally(() => {
        this.#reading = null;
      });
  }

  close(): void {
    this.#isClosed = true;
    notifyAll(this.advanceListeners);
  }

  /** Waits for the read under way. */
  async settled(): Promise<void> {
    await this.#reading;
  }

  async #read(): Promise<void> {
    do {
      this.#readsAgain = false;
      const rows = await transitionsAfter(this.#database.reader, { after: this.#newest.position, limit: PAGE });
      const [newest] = rows.slice(-1);
      if (newest) {
        this.#recentRows.push(...rows);
        if (this.#recentRows.length > 2 * RECENT_MAX) this.#recentRows = this.#recentRows.slice(-RECENT_MAX);
        this.#newest = newest;
        this.#observer.streamLag((Date.now() - newest.at.getTime()) / 1_000);
        notifyAll(this.advanceListeners);
      }
      if (rows.length === PAGE) this.#readsAgain = true;
    } while (this.#readsAgain && !this.#isClosed);
  }
}

function subscribe(listeners: Set<() => void>, listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

function notifyAll(listeners: ReadonlySet<() => void>): void {
  for (const listener of listeners) listener();
}
