/**
 * Streams of changes of objects: what changed, each object as it is then, and which objects do not match any more.
 * Where a reader is behind, all changes of an object on a page are one item; a page of the rows in memory has 1,000
 * changes, one from the table the changes of up to 1,000 objects (change-windows.ts). The parts that depend on the kind
 * of objects are in the folder kinds.
 */
import { CHANGE_LOG, changeCursor } from "../store/log/changes.ts";
import type { ChangeCursor, ChangeFilter } from "../store/log/changes.ts";
import type { ChangeMerge } from "../store/log/merged-changes.ts";
import type { Database } from "../store/postgres/database.ts";
import { changedObjects, changeItems } from "./change-items.ts";
import type { ChangeItem, ObjectChange, PageRow, PageRows, View } from "./change-items.ts";
import { createChangeWindows } from "./change-windows.ts";
import type { KeyedPage, WindowLimits } from "./change-windows.ts";
import type { KnownRows, ReadMoment } from "./log/known-rows.ts";
import { logTable } from "./log/log-table.ts";
import type { SnapshotContent } from "./log/snapshots.ts";
import { streamOf } from "./stream.ts";
import type { Bookmark, LogPage, Reset, Source, StreamRequest } from "./stream.ts";
import type { Tail } from "./log/tail.ts";

export type ChangeStreamItem<Row, Field> = ChangeItem<Row, Field> | Bookmark<ChangeCursor> | Reset<ChangeCursor>;
export type ChangeStream<Row, Field> = AsyncIterableIterator<ChangeStreamItem<Row, Field>>;

export interface FeedParts {
  readonly database: Database;
  readonly tail: Tail;
  /** Replaced in tests. */
  readonly windows?: WindowLimits;
}

/** Changes on a page of the rows in memory: more than items of other streams, because an object is one item. */
const PAGE = 1_000;

/** A request for the changes of objects that match a filter. */
export interface FilteredRequest<Filter> extends StreamRequest<ChangeCursor> {
  readonly filter?: Filter | undefined;
}

/** The objects that a stream follows. */
export interface Followed<Row, Found extends { readonly row: Row }, Field> {
  /** Which changes are read. */
  readonly reads: ChangeFilter;
  /** Which of them are equal for it. */
  readonly merge: ChangeMerge;
  /**
   * The head that it follows: `paced` and `slow` advance five times, or once, a second at most, because each item sums
   * up many rows.
   */
  readonly head: "live" | "paced" | "slow";
  readonly known: KnownRows<Found>;
  /** Its key also stands for the items: it is equal for streams with the same ones. */
  readonly snapshot: SnapshotContent<Row>;
  readonly changesOf: (
    rows: readonly PageRow[],
  ) => readonly ObjectChange<Field>[] | Promise<readonly ObjectChange<Field>[]>;
  /** How the filter sees these objects. */
  readonly view: (ids: readonly string[]) => View<Found, Field> | Promise<View<Found, Field>>;
}

export function changeStream<Row extends { readonly id: string }, Found extends { readonly row: Row }, Field>(
  parts: FeedParts,
  followed: Followed<Row, Found, Field>,
  request: StreamRequest<ChangeCursor>,
): ChangeStream<Row, Field> {
  return streamOf(parts.tail, sourceOf(parts, followed), request);
}

/** The log of changes as the source of a stream. */
function sourceOf<Row extends { readonly id: string }, Found extends { readonly row: Row }, Field>(
  { database: { reader }, tail, windows: limits }: FeedParts,
  followed: Followed<Row, Found, Field>,
): Source<Row, ChangeItem<Row, Field>, ChangeCursor> {
  const { changes } = tail;
  const head = changes[followed.head];
  const since = performance.now();

  const windows = createChangeWindows(reader, followed, limits);

  /** Rows of the tail's memory; null if they are not there, or while the rest of a window is due. */
  function recentPage(after: ChangeCursor, newest: number): KeyedPage | null {
    const from = after.position;
    if (windows.isOpenAt(from) || newest > changes.live.position) return null;
    const rows = changes.recent(from, Math.min(PAGE, newest - from));
    if (!rows) return null;
    const cursor = changeCursor(rows.at(-1) ?? after);
    return { after, rows, cursor, key: `${from} ${cursor.position}` };
  }

  async function itemsOf(page: PageRows, moment: ReadMoment): Promise<readonly ChangeItem<Row, Field>[]> {
    const objects = changedObjects(await followed.changesOf(page.rows));
    if (objects.length === 0) return [];
    const wanted = objects.map(({ id, last }) => ({ id, position: last.position }));
    const [view, known] = await Promise.all([
      followed.view(wanted.map(({ id }) => id)),
      followed.known.read(wanted, moment),
    ]);
    return changeItems<Row, Found, Field>(page, objects, known, view);
  }

  return {
    ...logTable(reader, changeCursor, CHANGE_LOG),
    get head() {
      return head.position;
    },
    onAdvance: head.onAdvance,
    isRecent: (after) => changes.recent(after, 1) !== null,
    async read(after, newest) {
      const page = recentPage(after, newest) ?? (await windows.read(after, newest));
      if (!page) return null;
      const { cursor, rows } = page;
      if (rows.length === 0) return { items: [], cursor };
      const key = `${page.key} ${followed.snapshot.key}`;
      const make = () => itemsOf(page, { head: newest, since });
      return { items: await changes.pages.take(key, since, make), cursor } satisfies LogPage<
        ChangeItem<Row, Field>,
        ChangeCursor
      >;
    },
    claim() {
      const { taken, release } = tail.snapshot(followed.snapshot);
      return { taken: taken.then(({ change, rows }) => ({ cursor: change, rows })), release };
    },
    snapshotItem: (row, cursor) => ({ kind: "upserted", cursor, at: new Date(), row, changed: null }),
  };
}
