/**
 * Streams of changes of nodes: what changed, each node as it is then, and which nodes do not match any more. Where a
 * reader is behind, all changes of a node on a page are one item.
 */
import { changeAt, changeCursor, changesAfter, checkChange, newestChange } from "../store/changes.ts";
import type { ChangeCursor, ChangeRow, ChangeFilter } from "../store/changes.ts";
import { nodeCondition, nodeTest } from "../store/node-filter.ts";
import type { NodeFilter } from "../store/node-filter.ts";
import type { NodeRow } from "../store/nodes.ts";
import type { Database } from "../store/postgres/database.ts";
import { BEFORE_FIRST } from "../store/transitions.ts";
import { changedNodes, nodeItems, wantedNodes } from "./node-changes.ts";
import type { NodeChangeItem } from "./node-changes.ts";
import { streamOf } from "./stream.ts";
import type { Bookmark, ClaimOf, LogPage, Reset, Source, StreamRequest } from "./stream.ts";
import type { Tail } from "./tail.ts";

export type NodeChangeStreamItem = NodeChangeItem | Bookmark<ChangeCursor> | Reset<ChangeCursor>;

export interface FeedParts {
  readonly database: Database;
  readonly tail: Tail;
}

/** Changes on a page: more than items of other streams, because changes of one object become one item. */
const PAGE = 1_000;
/** Positions that one statement reads, which bounds its duration. */
const WINDOW = 10_000;

/** A page of the log, contiguous but for changes that the stream does not read. */
interface ReadPage {
  readonly rows: readonly ChangeRow[];
  readonly cursor: ChangeCursor;
}

/** The part of a stream of changes that depends on its kind. */
export interface ChangeView<Row, Item> {
  /** Which changes are read. */
  readonly filter: ChangeFilter;
  /** Equal for streams with the same items. */
  readonly key: string;
  /** Items of a page; `head`: position up to which all is committed; `since`: nothing read before it may be used. */
  items(
    rows: readonly ChangeRow[],
    moment: { readonly head: number; readonly since: number },
  ): Promise<readonly Item[]>;
  claim(): ClaimOf<Row, ChangeCursor>;
  snapshotItem(row: Row, cursor: ChangeCursor): Item;
}

/** The log of changes as the source of a stream. */
export function sourceOf<Row, Item>(
  { database: { reader }, tail: { changes } }: FeedParts,
  view: ChangeView<Row, Item>,
): Source<Row, Item, ChangeCursor> {
  const since = performance.now();

  /** Changes up to a position, from the table; null if earlier ones are deleted. */
  async function readTable(after: ChangeCursor, until: number): Promise<ReadPage | null> {
    const from = after.position;
    const rows = await changesAfter(reader, { after: from, until, limit: PAGE, filter: view.filter });
    if (rows[0]?.position !== from + 1 && (await checkChange(reader, BEFORE_FIRST)).earliest.position > from)
      return null;
    const last = rows.at(-1);
    const isAtLast = last !== undefined && (rows.length === PAGE || last.position === until);
    return { rows, cursor: isAtLast ? changeCursor(last) : await changeAt(reader, until) };
  }

  return {
    beforeFirst: changeCursor(BEFORE_FIRST),
    get head() {
      return changes.head;
    },
    onAdvance: changes.onAdvance,
    isRecent: (after) => changes.recent(after, 1) !== null,
    newest: () => newestChange(reader),
    async check(cursor) {
      const checked = await checkChange(reader, cursor);
      return { ...checked, earliest: changeCursor(checked.earliest) };
    },
    async read(after, newest) {
      const recent = newest > changes.head ? null : changes.recent(after.position, PAGE);
      const page = recent
        ? { rows: recent, cursor: changeCursor(recent.at(-1) ?? after) }
        : await readTable(after, Math.min(newest, after.position + WINDOW));
      if (!page) return null;
      const { rows, cursor } = page;
      const key = `${after.position} ${cursor.position} ${view.key}`;
      const make = () => view.items(rows, { head: newest, since });
      return { items: await changes.pages.take(key, since, make), cursor } satisfies LogPage<Item, ChangeCursor>;
    },
    claim: view.claim,
    snapshotItem: view.snapshotItem,
  };
}

export interface NodeChangesRequest extends StreamRequest<ChangeCursor> {
  readonly filter?: NodeFilter | undefined;
}

export function nodeChanges(
  parts: FeedParts,
  request: NodeChangesRequest,
): AsyncIterableIterator<NodeChangeStreamItem> {
  return streamOf(parts.tail, sourceOf(parts, nodesMatching(parts, request.filter)), request);
}

function nodesMatching({ tail }: FeedParts, filter: NodeFilter | undefined): ChangeView<NodeRow, NodeChangeItem> {
  const matches = filter && nodeCondition(filter) ? nodeTest(filter) : () => true;
  return {
    filter: { subjects: ["NODE", "RUN"] },
    key: `nodes ${JSON.stringify(filter ?? {})}`,
    async items(rows, moment) {
      const changed = changedNodes(rows);
      return nodeItems(rows, changed, await tail.changes.nodes.read(wantedNodes(changed), moment), matches);
    },
    claim() {
      const { taken, release } = tail.snapshot(filter);
      return { taken: taken.then(({ change, nodes }) => ({ cursor: change, rows: nodes })), release };
    },
    snapshotItem: (node, cursor) => ({
      kind: "upserted",
      cursor,
      at: new Date(),
      node,
      changed: null,
      reading: 0,
    }),
  };
}
