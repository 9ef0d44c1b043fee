/**
 * A stream over a log: from a cursor, or after a snapshot, then live, without a gap. What the log contains, and what is
 * sent of it, is decided by its source.
 *
 * Modes of a stream:
 * - start: nothing was sent yet. Without a snapshot it leads to replay at once, at the cursor or at the head.
 * - waiting: a snapshot was requested; it leads to snapshot when it is taken.
 * - snapshot: everything that matches as of one position; it leads to replay at that position.
 * - replay: the cursor is behind the head. Rows come from the tail's memory, or from the table.
 * - live: the cursor is at the head. New rows lead to replay.
 * - ended: by a reset. The reasons: the cursor is invalid, the next rows are deleted, a snapshot was not read in time,
 *   the access of the caller has changed (in any mode, at once), or the process shuts down.
 *
 * A stream that catches up, in the modes snapshot and replay, takes turns with the others (turns.ts).
 *
 * In every mode a bookmark is sent when nothing else was sent for ten seconds.
 */
import { whenReady } from "../runtime/awaitable.ts";
import type { Awaitable } from "../runtime/awaitable.ts";
import type { LogCursor } from "../store/log/transitions.ts";
import { pulled } from "./pull.ts";
import type { Pause, Producer, Requester } from "./pull.ts";
import type { Claim } from "./log/snapshots.ts";
import type { Tail } from "./log/tail.ts";

/** Why a stream ended. */
export const RESET_REASONS = {
  CURSOR_EXPIRED:
    "The cursor is older than the retained log, or not from this log (like HTTP 410 of a Kubernetes watch).",
  TOO_SLOW: "The client read so slowly that the next items are no longer kept.",
  ACCESS_CHANGED:
    "What the caller may do has changed, or its credential has ended; subscribe again with the last cursor.",
  SHUTTING_DOWN: "The process is shutting down; subscribe again at once with the last cursor.",
} as const;
export type ResetReason = keyof typeof RESET_REASONS;

export interface Bookmark<Cursor> {
  readonly kind: "bookmark";
  readonly cursor: Cursor;
  readonly at: Date;
  readonly snapshotComplete: boolean;
  readonly caughtUp: boolean;
}

export interface Reset<Cursor> {
  readonly kind: "reset";
  readonly cursor: Cursor;
  readonly reason: ResetReason;
}

/** An item of a source. */
interface ItemAt<Cursor> {
  readonly kind: string;
  readonly cursor: Cursor;
}

type StreamItem<Item, Cursor> = Item | Bookmark<Cursor> | Reset<Cursor>;

/** Items up to a cursor. */
export interface LogPage<Item, Cursor> {
  readonly items: readonly Item[];
  readonly cursor: Cursor;
}

/** Everything that matches, as of a cursor. */
interface SnapshotOf<Row, Cursor> {
  readonly cursor: Cursor;
  readonly rows: readonly Row[];
}

export interface Source<Row, Item extends ItemAt<Cursor>, Cursor extends LogCursor> {
  readonly beforeFirst: Cursor;
  /** Position of the newest row that this process has seen. */
  readonly head: number;
  onAdvance(listener: () => void): () => void;
  /** Whether the rows after a position are in memory. */
  isRecent(after: number): boolean;
  newest(): Promise<Cursor>;
  check(cursor: LogCursor): Promise<{ readonly isValid: boolean; readonly earliest: Cursor; readonly newest: number }>;
  /** Items after a cursor, at least up to some later one; null if rows after it are deleted. */
  read(after: Cursor, newest: number): Awaitable<LogPage<Item, Cursor> | null>;
  claim(): Claim<Row, SnapshotOf<Row, Cursor>>;
  snapshotItem(row: Row, cursor: Cursor): Item;
}

export interface StreamRequest<Cursor> {
  /** Cursor of the last item received; absent: from now on. */
  readonly after?: Cursor | undefined;
  readonly snapshot: boolean;
}

export const BATCH = 100;
/** Longest time without an item. */
const BOOKMARK_MS = 10_000;
/** Bookmarks of all streams are due at the same moments, so that a process wakes up for many at once. */
const BOOKMARK_GRID_MS = 1_000;
/** How long a snapshot is held for its reader; after that the stream ends with TOO_SLOW. */
const SNAPSHOT_HELD_MS = 300_000;

/** The members of the tail that a stream uses. */
type StreamTail = Pick<Tail, "turns" | "closed" | "onReset">;

export function streamOf<Row, Item extends ItemAt<Cursor>, Cursor extends LogCursor>(
  tail: StreamTail,
  source: Source<Row, Item, Cursor>,
  request: StreamRequest<Cursor>,
): AsyncIterableIterator<StreamItem<Item, Cursor>> {
  return pulled(new Stream(tail, source, request));
}

class Stream<Row, Item extends ItemAt<Cursor>, Cursor extends LogCursor> implements Producer<StreamItem<Item, Cursor>> {
  readonly #tail: StreamTail;
  readonly #source: Source<Row, Item, Cursor>;
  readonly #request: StreamRequest<Cursor>;
  /** Null in the modes start and waiting. */
  #cursor: Cursor | null = null;
  /** Newest position when the stream began; it may be ahead of the tail's head. */
  #goal = 0;
  #claim: Claim<Row, SnapshotOf<Row, Cursor>> | null = null;
  /** The rest of a snapshot in the mode snapshot: `index` is the next row. */
  #snapshot: { readonly rows: readonly Row[]; index: number } | null = null;
  /** The cursor of that snapshot, and of its rows. */
  #snapshotCursor: Cursor | null = null;
  #snapshotTimer: NodeJS.Timeout | undefined;
  /** Items of a page that wait for the next turn. */
  #held: readonly StreamItem<Item, Cursor>[] = [];
  #failure: { readonly error: unknown } | null = null;
  #isTooSlow = false;
  /** Everything that existed when the stream began was sent. */
  #hasCaughtUp = false;
  #wasLive = false;
  #isOver = false;
  #sentAt = performance.now();

  constructor(tail: StreamTail, source: Source<Row, Item, Cursor>, request: StreamRequest<Cursor>) {
    this.#tail = tail;
    this.#source = source;
    this.#request = request;
  }

  onChange(listener: () => void): () => void {
    return this.#source.onAdvance(listener);
  }

  /** The next items, or how long there will be none. Empty at the end of the stream. */
  produce(requester: Requester): Awaitable<readonly StreamItem<Item, Cursor>[] | Pause> {
    if (this.#isOver) return [];
    if (this.#isTooSlow) return this.#endTooSlow();
    return whenReady(this.#step(requester), (items) => this.#itemsOrPause(items));
  }

  #itemsOrPause(found: readonly StreamItem<Item, Cursor>[]): readonly StreamItem<Item, Cursor>[] | Pause {
    const caughtUp = this.#caughtUp();
    const sent = caughtUp ? [...found, caughtUp] : found;
    const items = sent.length > 0 ? sent : this.#markers();
    if (items.length === 0) return { pauseMs: this.#isBehind ? 0 : this.#bookmarkInMs };
    this.#sentAt = performance.now();
    return items;
  }

  /** Releases the snapshot. */
  release(): void {
    this.#snapshot = null;
    clearTimeout(this.#snapshotTimer);
    this.#claim?.release();
    this.#claim = null;
  }

  /** The reset of a stream whose caller's access has changed. */
  last(received: StreamItem<Item, Cursor> | null): Reset<Cursor> | null {
    if (received?.kind === "reset") return null;
    return this.#end(this.#cursorAfter(received), "ACCESS_CHANGED")[0];
  }

  /** Where a reader continues that has everything up to an item; at the beginning if its snapshot is not complete. */
  #cursorAfter(received: StreamItem<Item, Cursor> | null): Cursor {
    const { beforeFirst } = this.#source;
    if (received === null) return this.#request.after ?? beforeFirst;
    const isOfSnapshot = received.kind !== "bookmark" && received.cursor === this.#snapshotCursor;
    return isOfSnapshot ? beforeFirst : received.cursor;
  }

  /** Items of the present mode; empty if there are none yet. A stream that catches up waits for a slot. */
  #step(requester: Requester): Awaitable<readonly StreamItem<Item, Cursor>[]> {
    if (!this.#isCatchingUp) return this.#read(requester);
    return this.#tail.turns.take(async () => {
      if (requester.left) return [];
      const page = this.#held.length > 0 ? this.#held : await this.#read(requester);
      const { items } = this.#tail.turns;
      this.#held = page.slice(items);
      return page.slice(0, items);
    });
  }

  #read(requester: Requester): Awaitable<readonly StreamItem<Item, Cursor>[]> {
    if (this.#snapshot) return this.#snapshotItems();
    if (this.#cursor !== null) return this.#advance(this.#cursor);
    return this.#request.snapshot ? this.#awaitSnapshot(requester) : this.#begin();
  }

  /** The bookmark after what existed when the stream began, also while more is being written; null if it is not due. */
  #caughtUp(): Bookmark<Cursor> | null {
    if (this.#hasCaughtUp || this.#isOver || this.#snapshot || this.#held.length > 0) return null;
    if (this.#cursor === null || this.#cursor.position < this.#goal) return null;
    this.#hasCaughtUp = true;
    return bookmark(this.#cursor, { caughtUp: true });
  }

  /** Items sent between rows: the end at a shutdown, or a bookmark. */
  #markers(): readonly (Bookmark<Cursor> | Reset<Cursor>)[] {
    const isSilent = this.#bookmarkInMs <= 0;
    if (this.#cursor === null) {
      if (this.#tail.closed) return this.#end(this.#source.beforeFirst, "SHUTTING_DOWN");
      return isSilent ? [bookmark(this.#source.beforeFirst)] : [];
    }
    this.#wasLive ||= !this.#isBehind;
    if (!this.#isBehind && this.#tail.closed) return this.#end(this.#cursor, "SHUTTING_DOWN");
    return isSilent ? [bookmark(this.#cursor)] : [];
  }

  get #bookmarkInMs(): number {
    const due = this.#sentAt + BOOKMARK_MS;
    return due - (due % BOOKMARK_GRID_MS) - performance.now();
  }

  get #newest(): number {
    return Math.max(this.#source.head, this.#goal);
  }

  get #isBehind(): boolean {
    return this.#cursor !== null && this.#cursor.position < this.#newest;
  }

  /** Whether a snapshot or old rows are due, which may wait for other work. */
  get #isCatchingUp(): boolean {
    if (this.#held.length > 0 || this.#snapshot) return true;
    if (this.#cursor === null || !this.#isBehind) return false;
    return !this.#wasLive || !this.#source.isRecent(this.#cursor.position);
  }

  /** Ends at the earliest cursor after which everything is kept. */
  async #endTooSlow(): Promise<readonly Reset<Cursor>[]> {
    const { earliest } = await this.#source.check(this.#source.beforeFirst);
    return this.#end(earliest, "TOO_SLOW");
  }

  #end(cursor: Cursor, reason: ResetReason): readonly [Reset<Cursor>] {
    this.#isOver = true;
    this.#tail.onReset(reason);
    return [{ kind: "reset", cursor, reason }];
  }

  async #begin(): Promise<readonly (Bookmark<Cursor> | Reset<Cursor>)[]> {
    const { after } = this.#request;
    if (after === undefined) {
      const newest = await this.#source.newest();
      this.#cursor = newest;
      this.#hasCaughtUp = true;
      this.#wasLive = true;
      return [bookmark(newest, { caughtUp: true })];
    }
    const { isValid, earliest, newest } = await this.#source.check(after);
    if (!isValid) return this.#end(earliest, "CURSOR_EXPIRED");
    this.#cursor = after;
    this.#goal = newest;
    return [];
  }

  /** Requests a snapshot the first time. */
  #awaitSnapshot(requester: Requester): readonly never[] {
    if (this.#failure) throw this.#failure.error;
    if (this.#claim) return [];
    this.#claim = this.#source.claim();
    this.#claim.taken.then(
      (taken) => {
        if (this.#claim) this.#hold(taken);
        requester.wake();
      },
      (error: unknown) => {
        this.#failure = { error };
        requester.wake();
      },
    );
    return [];
  }

  #hold({ cursor, rows }: SnapshotOf<Row, Cursor>): void {
    this.#cursor = cursor;
    this.#snapshot = { rows, index: 0 };
    this.#snapshotCursor = cursor;
    if (rows.length <= BATCH) return;
    this.#snapshotTimer = setTimeout(() => {
      this.release();
      this.#isTooSlow = true;
    }, SNAPSHOT_HELD_MS).unref();
  }

  #snapshotItems(): readonly (Item | Bookmark<Cursor>)[] {
    const snapshot = this.#snapshot;
    const cursor = this.#cursor;
    if (!snapshot || cursor === null) return [];
    const page = snapshot.rows.slice(snapshot.index, snapshot.index + BATCH);
    snapshot.index += BATCH;
    const isComplete = snapshot.index >= snapshot.rows.length;
    if (isComplete) this.release();
    const items = page.map((row) => this.#source.snapshotItem(row, cursor));
    return isComplete ? [...items, bookmark(cursor, { snapshotComplete: true })] : items;
  }

  /** Items after the cursor. The cursor also moves over rows that have none. */
  #advance(from: Cursor): Awaitable<readonly (Item | Reset<Cursor>)[]> {
    if (from.position >= this.#newest) return [];
    return whenReady(this.#source.read(from, this.#newest), (page): Awaitable<readonly (Item | Reset<Cursor>)[]> => {
      if (page === null) return this.#endTooSlow();
      this.#cursor = page.cursor;
      return page.items;
    });
  }
}

function bookmark<Cursor>(
  cursor: Cursor,
  flags: { readonly snapshotComplete?: boolean; readonly caughtUp?: boolean } = {},
): Bookmark<Cursor> {
  return {
    kind: "bookmark",
    cursor,
    at: new Date(),
    snapshotComplete: flags.snapshotComplete ?? false,
    caughtUp: flags.caughtUp ?? false,
  };
}
