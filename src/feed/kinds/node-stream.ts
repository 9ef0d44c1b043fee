/**
 * The stream of transitions: from a cursor, or after a snapshot, then live, without a gap and without a repetition
 * (stream.ts).
 */
import { whenReady } from "../../runtime/awaitable.ts";
import type { Awaitable } from "../../runtime/awaitable.ts";
import { nodeCondition, nodeTest } from "../../store/nodes/node-filter.ts";
import type { NodeFilter } from "../../store/nodes/node-filter.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Database } from "../../store/postgres/database.ts";
import { transitionsAfter } from "../../store/log/transitions.ts";
import type { LogCursor, TransitionFilter, TransitionRow } from "../../store/log/transitions.ts";
import { nodeSnapshot } from "./node-changes.ts";
import { BATCH, streamOf } from "../stream.ts";
import type { Bookmark, LogPage, Reset, Source } from "../stream.ts";
import { logTable } from "../log/log-table.ts";
import type { LogRange } from "../log/log-table.ts";
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

export function nodeStream(
  { database: { reader }, tail }: { readonly database: Database; readonly tail: Tail },
  request: NodeStreamRequest,
): AsyncIterableIterator<NodeStreamItem> {
  const table = logTable(reader, (row) => row);
  const filter = transitionFilter(request.filter);
  const choose = transitionChoice(tail, request.filter);

  /** Matching transitions up to a position at most, from the table; null if earlier ones are deleted. */
  async function readTable({ position }: LogCursor, newest: number): Promise<LogPage<NodeItem, LogCursor> | null> {
    const until = filter ? Math.min(newest, position + WINDOW) : newest;
    const rowsIn = (range: LogRange) => transitionsAfter(reader, { ...range, filter });
    const page = await table.page(position, { until, limit: BATCH, rowsIn });
    return page && { items: page.rows.map(transitionItem), cursor: page.cursor };
  }

  const source: Source<NodeRow, NodeItem, LogCursor> = {
    ...table,
    get head() {
      return tail.head;
    },
    onAdvance: tail.onAdvance,
    isRecent: (after) => tail.recent(after, 1) !== null,
    read(after, newest): Awaitable<LogPage<NodeItem, LogCursor> | null> {
      const recent = newest > tail.head ? null : tail.recent(after.position, BATCH);
      if (!recent) return readTable(after, newest);
      const cursor = recent.at(-1) ?? after;
      return whenReady(choose?.(recent) ?? recent, (rows) => ({ items: rows.map(transitionItem), cursor }));
    },
    claim: () => tail.snapshot(nodeSnapshot(request.filter)),
    snapshotItem: (node, cursor) => ({ kind: "snapshot", cursor, node }),
  };
  return streamOf(tail, source, request);
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
