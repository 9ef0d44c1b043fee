/**
 * The stream of transitions: from a cursor, or after a snapshot, then live, without a gap and without a repetition.
 *
 * Modes of a stream:
 * - start: nothing was sent yet. Without a snapshot it leads to replay at once, at the cursor or at the head.
 * - waiting: a snapshot was requested; it leads to snapshot when it is taken.
 * - snapshot: all matching nodes as of one position; it leads to replay at that position.
 * - replay: the cursor is behind the head. Transitions come from the tail's memory, or from the table.
 * - live: the cursor is at the head. New transitions lead to replay.
 * - ended: by a reset. The reasons: the cursor is invalid, the next transitions are deleted, a snapshot was not read in
 *   time, or the process shuts down.
 *
 * A stream that catches up, in the modes snapshot and replay, takes turns with the others (turns.ts).
 *
 * In every mode a bookmark is sent when nothing else was sent for ten seconds.
 */
import { nodeCondition, nodeTest } from "../store/node-filter.ts";
import type { NodeFilter } from "../store/node-filter.ts";
import type { NodeRow } from "../store/nodes.ts";
import type { Database } from "../store/postgres/database.ts";
import { BEFORE_FIRST, checkCursor, cursorAt, newestCursor, transitionsAfter } from "../store/transitions.ts";
import type { LogCursor, TransitionFilter, TransitionRow } from "../store/transitions.ts";
import { pulled } from "./pull.ts";
import type { Waiter } from "./pull.ts";
import type { Claim, Snapshot } from "./snapshots.ts";
import type { Tail } from "./tail.ts";

/** Why a stream ended. */
export const RESET_REASONS = {
  CURSOR_EXPIRED:
    "The cursor is older than the retained log, or not from this log (like HTTP 410 of a Kubernetes watch).",
  TOO_SLOW: "The client read so slowly that the next items are no longer kept.",
  ACCESS_CHANGED: "The credential expired or lost its scope.",
  SHUTTING_DOWN: "The process is shutting down; subscribe again at once with the last cursor.",
} as const;
export type ResetReason = keyof typeof RESET_REASONS;

export type NodeStreamItem =
  | { readonly kind: "snapshot"; readonly cursor: LogCursor; readonly node: NodeRow }
  | { readonly kind: "transition"; readonly cursor: LogCursor; readonly row: TransitionRow }
  | {
      readonly kind: "bookmark";
      readonly cursor: LogCursor;
      readonly at: Date;
      readonly snapshotComplete: boolean;
      readonly caughtUp: boolean;
    }
  | { readonly kind: "reset"; readonly cursor: LogCursor; readonly reason: ResetReason };

export interface NodeStreamRequest {
  readonly filter?: NodeFilter | undefined;
  /** Cursor of the last item received; absent: from now on. */
  readonly after?: LogCursor | undefined;
  readonly snapshot: boolean;
}

const BATCH = 100;
/** Items that a stream sends in one turn: about a millisecond of work. */
const TURN = 20;
/** Longest time without an item. */
const BOOKMARK_MS = 10_000;
/** Positions that one statement of a filtered stream reads, which bounds its duration. */
const WINDOW = 10_000;
/** How long a snapshot is held for its reader; after that the stream ends with TOO_SLOW. */
const SNAPSHOT_HELD_MS = 300_000;

export function nodeStream(
  parts: { readonly database: Database; readonly tail: Tail },
  request: NodeStreamRequest,
): AsyncIterableIterator<NodeStreamItem> {
  const stream = new NodeStream(parts, request);
  return pulled(
    parts.tail.onAdvance,
    (waiter) => stream.produce(waiter),
    () => stream.release(),
  );
}

class NodeStream {
  readonly #database: Database;
  readonly #tail: Tail;
  readonly #request: NodeStreamRequest;
  readonly #filter: TransitionFilter | undefined;
  readonly #choose: TransitionChoice | null;
  /** Null in the modes start and waiting. */
  #cursor: LogCursor | null = null;
  /** Newest position when the stream began; it may be ahead of the tail's head. */
  #goal = 0;
  #claim: Claim | null = null;
  /** The rest of a snapshot in the mode snapshot: `index` is the next node. */
  #snapshot: { readonly nodes: readonly NodeRow[]; index: number } | null = null;
  #snapshotTimer: NodeJS.Timeout | undefined;
  /** Items of a page that wait for the next turn. */
  #held: readonly NodeStreamItem[] = [];
  #failure: { readonly error: unknown } | null = null;
  #isTooSlow = false;
  #hasCaughtUp = false;
  #isOver = false;
  #sentAt = performance.now();

  constructor({ database, tail }: { readonly database: Database; readonly tail: Tail }, request: NodeStreamRequest) {
    this.#database = database;
    this.#tail = tail;
    this.#request = request;
    this.#filter = transitionFilter(request.filter);
    this.#choose = transitionChoice(tail, request.filter);
  }

  /** The next items; waits until there are some. Empty at the end of the stream. */
  async produce(waiter: Waiter): Promise<readonly NodeStreamItem[]> {
    for (;;) {
      if (this.#isOver || waiter.left) return [];
      if (this.#isTooSlow) return this.#end(await this.#earliest(), "TOO_SLOW");
      let items = await this.#step(waiter);
      if (items.length === 0) items = this.#markers();
      if (items.length > 0) {
        this.#sentAt = performance.now();
        return items;
      }
      if (!this.#isBehind) await waiter.wait(BOOKMARK_MS - (performance.now() - this.#sentAt));
    }
  }

  /** Releases the snapshot. */
  release(): void {
    this.#snapshot = null;
    clearTimeout(this.#snapshotTimer);
    this.#claim?.release();
    this.#claim = null;
  }

  /** Items of the present mode; empty if there are none yet. A stream that catches up waits for a slot. */
  async #step(waiter: Waiter): Promise<readonly NodeStreamItem[]> {
    if (!this.#isCatchingUp) return this.#read(waiter);
    return this.#tail.turns.take(async () => {
      if (waiter.left) return [];
      const page = this.#held.length > 0 ? this.#held : await this.#read(waiter);
      this.#held = page.slice(TURN);
      return page.slice(0, TURN);
    });
  }

  async #read(waiter: Waiter): Promise<readonly NodeStreamItem[]> {
    if (this.#snapshot) return this.#snapshotItems();
    if (this.#cursor !== null) return this.#advance(this.#cursor);
    return this.#request.snapshot ? this.#awaitSnapshot(waiter) : this.#begin();
  }

  /** Items sent between transitions: the end at a shutdown, or a bookmark. */
  #markers(): readonly NodeStreamItem[] {
    const isSilent = performance.now() - this.#sentAt >= BOOKMARK_MS;
    if (this.#cursor === null) {
      if (this.#tail.closed) return this.#end(BEFORE_FIRST, "SHUTTING_DOWN");
      return isSilent ? [bookmark(BEFORE_FIRST)] : [];
    }
    if (!this.#isBehind && !this.#hasCaughtUp) {
      this.#hasCaughtUp = true;
      return [bookmark(this.#cursor, { caughtUp: true })];
    }
    if (!this.#isBehind && this.#tail.closed) return this.#end(this.#cursor, "SHUTTING_DOWN");
    return isSilent ? [bookmark(this.#cursor)] : [];
  }

  get #newest(): number {
    return Math.max(this.#tail.head, this.#goal);
  }

  get #isBehind(): boolean {
    return this.#cursor !== null && this.#cursor.position < this.#newest;
  }

  /** Whether a snapshot or old transitions are due, which may wait for other work. */
  get #isCatchingUp(): boolean {
    if (this.#held.length > 0 || this.#snapshot) return true;
    if (this.#cursor === null || !this.#isBehind) return false;
    return !this.#hasCaughtUp || this.#tail.recent(this.#cursor.position, 1) === null;
  }

  /** The earliest cursor after which everything is kept. */
  async #earliest(): Promise<LogCursor> {
    return (await checkCursor(this.#database.reader, BEFORE_FIRST)).earliest;
  }

  #end(cursor: LogCursor, reason: ResetReason): readonly NodeStreamItem[] {
    this.#isOver = true;
    this.#tail.onReset(reason);
    return [{ kind: "reset", cursor, reason }];
  }

  async #begin(): Promise<readonly NodeStreamItem[]> {
    const { after } = this.#request;
    if (after === undefined) {
      const newest = await newestCursor(this.#database.reader);
      this.#cursor = newest;
      this.#hasCaughtUp = true;
      return [bookmark(newest, { caughtUp: true })];
    }
    const { isValid, earliest, newest } = await checkCursor(this.#database.reader, after);
    if (!isValid) return this.#end(earliest, "CURSOR_EXPIRED");
    this.#cursor = after;
    this.#goal = newest;
    return [];
  }

  /** Requests a snapshot the first time. */
  #awaitSnapshot(waiter: Waiter): readonly NodeStreamItem[] {
    if (this.#failure) throw this.#failure.error;
    if (this.#claim) return [];
    this.#claim = this.#tail.snapshot(this.#request.filter);
    this.#claim.taken.then(
      (taken) => {
        if (this.#claim) this.#hold(taken);
        waiter.wake();
      },
      (error: unknown) => {
        this.#failure = { error };
        waiter.wake();
      },
    );
    return [];
  }

  #hold({ cursor, nodes }: Snapshot): void {
    this.#cursor = cursor;
    this.#snapshot = { nodes, index: 0 };
    if (nodes.length <= BATCH) return;
    this.#snapshotTimer = setTimeout(() => {
      this.release();
      this.#isTooSlow = true;
    }, SNAPSHOT_HELD_MS).unref();
  }

  #snapshotItems(): readonly NodeStreamItem[] {
    const snapshot = this.#snapshot;
    const cursor = this.#cursor;
    if (!snapshot || cursor === null) return [];
    const page = snapshot.nodes.slice(snapshot.index, snapshot.index + BATCH);
    snapshot.index += BATCH;
    const isComplete = snapshot.index >= snapshot.nodes.length;
    if (isComplete) this.release();
    const items: NodeStreamItem[] = page.map((node) => ({ kind: "snapshot", cursor, node }));
    return isComplete ? [...items, bookmark(cursor, { snapshotComplete: true })] : items;
  }

  /** Matching transitions after the cursor. The cursor also moves over those that do not match. */
  async #advance({ position: from }: LogCursor): Promise<readonly NodeStreamItem[]> {
    const head = this.#newest;
    if (from >= head) return [];
    const recent = head > this.#tail.head ? null : this.#tail.recent(from, BATCH);
    const rows = recent
      ? await (this.#choose?.(recent) ?? recent)
      : await this.#readTable(from, this.#filter ? Math.min(head, from + WINDOW) : head);
    if (rows === null) return this.#end(await this.#earliest(), "TOO_SLOW");
    if (recent) this.#cursor = recent.at(-1) ?? this.#cursor;
    return rows.map((row) => ({ kind: "transition", cursor: row, row }));
  }

  /** Matching transitions up to a position, from the table; null if earlier ones are deleted. */
  async #readTable(from: number, until: number): Promise<readonly TransitionRow[] | null> {
    const rows = await transitionsAfter(this.#database.reader, {
      after: from,
      until,
      limit: BATCH,
      ...(this.#filter && { filter: this.#filter }),
    });
    // Positions have no holes, so a row directly after the cursor proves that none is missing. Otherwise the log
    // decides.
    if (rows[0]?.position !== from + 1 && (await this.#earliest()).position > from) return null;
    const last = rows.at(-1);
    const isAtLast = last !== undefined && (rows.length === BATCH || last.position === until);
    this.#cursor = isAtLast ? last : await cursorAt(this.#database.reader, until);
    return rows;
  }
}

function bookmark(
  cursor: LogCursor,
  flags: { readonly snapshotComplete?: boolean; readonly caughtUp?: boolean } = {},
): NodeStreamItem {
  return {
    kind: "bookmark",
    cursor,
    at: new Date(),
    snapshotComplete: flags.snapshotComplete ?? false,
    caughtUp: flags.caughtUp ?? false,
  };
}

type TransitionChoice = (
  rows: readonly TransitionRow[],
) => readonly TransitionRow[] | Promise<readonly TransitionRow[]>;

/**
 * A filter by IDs alone is applied to the log, so it includes deleted nodes; any other is applied to the nodes as they
 * are now.
 */
function transitionFilter(filter: NodeFilter | undefined): TransitionFilter | undefined {
  if (!filter) return undefined;
  const ids = idsAlone(filter);
  if (ids) return { nodeIds: ids };
  const nodes = nodeCondition(filter);
  return nodes && { nodes };
}

/** The same for rows in memory: by ID from the row, otherwise by facts that all streams share. Null: all rows match. */
function transitionChoice(tail: Tail, filter: NodeFilter | undefined): TransitionChoice | null {
  if (!filter || !nodeCondition(filter)) return null;
  const ids = idsAlone(filter);
  if (ids) {
    const wanted = new Set(ids);
    return (rows) => rows.filter(({ nodeId }) => wanted.has(nodeId));
  }
  const matches = nodeTest(filter);
  return async (rows) => {
    const facts = await tail.facts(rows);
    return rows.filter((_row, index) => {
      const node = facts[index];
      return node != null && matches(node);
    });
  };
}

function idsAlone(filter: NodeFilter): readonly string[] | undefined {
  const { ids, ...rest } = filter;
  return Object.values(rest).every((value) => value === undefined) ? ids : undefined;
}
