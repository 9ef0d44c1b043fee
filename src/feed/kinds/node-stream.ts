/**
 * The stream of transitions: from a cursor, or after a snapshot, then live, without a gap and without a repetition
 * (stream.ts).
 */
import { whenReady } from "../../runtime/awaitable.ts";
import type { Awaitable } from "../../runtime/awaitable.ts";
import { nodeCondition, nodeTest } from "../../store/nodes/node-filter.ts";
import type { NodeFilter } from "../../store/nodes/node-filter.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Reader } from "../../store/postgres/connect.ts";
import type { Database } from "../../store/postgres/database.ts";
import { BEFORE_FIRST, checkCursor, cursorAt, newestCursor, transitionsAfter } from "../../store/log/transitions.ts";
import type { LogCursor, TransitionFilter, TransitionRow } from "../../store/log/transitions.ts";
import { nodeSnapshot } from "./node-changes.ts";
import { BATCH, streamOf } from "../stream.ts";
import type { Bookmark, ClaimOf, LogPage, Reset, Source } from "../stream.ts";
import type { Tail } from "../log/tail.ts";

export { RESET_REASONS } from "../stream.ts";
export type { ResetReason } from "../stream.ts";

type NodeItem =
  | { readonly kind: "snapshot"; readonly cursor: LogCursor; readonly node: NodeRow }
  | { readonly kind: "transition"; readonly cursor: LogCursor; readonly row: TransitionRow };

export type NodeStreamItem = NodeItem | Bookmark<LogCursor> | Reset<LogCursor>;

export interface NodeStreamRequest {
  readonly filter?: NodeFilter | undefined;
  /** Cursor of the last item received; absent: from now on. */
  readonly after?: LogCursor | undefined;
  readonly snapshot: boolean;
}

/** Positions that one statement of a filtered stream reads, which bounds its duration. */
const WINDOW = 10_000;

interface StreamParts {
  readonly database: Database;
  readonly tail: Tail;
}

export function nodeStream(parts: StreamParts, request: NodeStreamRequest): AsyncIterableIterator<NodeStreamItem> {
  return streamOf(parts.tail, new Transitions(parts, request.filter), request);
}

class Transitions implements Source<NodeRow, NodeItem, LogCursor> {
  readonly beforeFirst = BEFORE_FIRST;
  readonly #reader: Reader;
  readonly #tail: Tail;
  readonly #nodeFilter: NodeFilter | undefined;
  readonly #filter: TransitionFilter | undefined;
  readonly #choose: TransitionChoice | null;

  constructor({ database, tail }: StreamParts, nodeFilter: NodeFilter | undefined) {
    this.#reader = database.reader;
    this.#tail = tail;
    this.#nodeFilter = nodeFilter;
    this.#filter = transitionFilter(nodeFilter);
    this.#choose = transitionChoice(tail, nodeFilter);
  }

  get head(): number {
    return this.#tail.head;
  }

  onAdvance(listener: () => void): () => void {
    return this.#tail.onAdvance(listener);
  }

  isRecent(after: number): boolean {
    return this.#tail.recent(after, 1) !== null;
  }

  newest(): Promise<LogCursor> {
    return newestCursor(this.#reader);
  }

  check(cursor: LogCursor) {
    return checkCursor(this.#reader, cursor);
  }

  read(after: LogCursor, newest: number): Awaitable<LogPage<NodeItem, LogCursor> | null> {
    const recent = newest > this.#tail.head ? null : this.#tail.recent(after.position, BATCH);
    if (!recent) return this.#readTable(after, newest);
    const cursor = recent.at(-1) ?? after;
    return whenReady(this.#choose?.(recent) ?? recent, (rows) => ({ items: rows.map(transitionItem), cursor }));
  }

  claim(): ClaimOf<NodeRow, LogCursor> {
    return this.#tail.snapshot(nodeSnapshot(this.#nodeFilter));
  }

  snapshotItem(node: NodeRow, cursor: LogCursor): NodeItem {
    return { kind: "snapshot", cursor, node };
  }

  /** Matching transitions up to a position at most, from the table; null if earlier ones are deleted. */
  async #readTable(after: LogCursor, newest: number): Promise<LogPage<NodeItem, LogCursor> | null> {
    const from = after.position;
    const filter = this.#filter;
    const until = filter ? Math.min(newest, from + WINDOW) : newest;
    const rows = await transitionsAfter(this.#reader, { after: from, until, limit: BATCH, ...(filter && { filter }) });
    // Positions have no holes, so a row directly after the cursor proves that none is missing. Otherwise the log
    // decides.
    if (rows[0]?.position !== from + 1 && (await this.check(BEFORE_FIRST)).earliest.position > from) return null;
    const last = rows.at(-1);
    const isAtLast = last !== undefined && (rows.length === BATCH || last.position === until);
    return { items: rows.map(transitionItem), cursor: isAtLast ? last : await cursorAt(this.#reader, until) };
  }
}

function transitionItem(row: TransitionRow): NodeItem {
  return { kind: "transition", cursor: row, row };
}

type TransitionChoice = (rows: readonly TransitionRow[]) => Awaitable<readonly TransitionRow[]>;

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
