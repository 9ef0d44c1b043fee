/**
 * Streams of changes of objects: what changed, each object as it is then, and which objects do not match any more.
 * Where a reader is behind, all changes of an object on a page are one item. The parts that depend on the kind of
 * objects are in change-kinds.ts.
 */
import { changeAt, changeCursor, changesAfter, checkChange, newestChange } from "../store/changes.ts";
import type { ChangeCursor, ChangeFilter, ChangeRow } from "../store/changes.ts";
import type { Database } from "../store/postgres/database.ts";
import { BEFORE_FIRST } from "../store/transitions.ts";
import { changedObjects, changeItems, wantedRows } from "./change-items.ts";
import type { ChangeItem, ObjectChange, PageRows, View } from "./change-items.ts";
import type { KnownRows, ReadMoment } from "./known-rows.ts";
import type { SnapshotContent } from "./snapshots.ts";
import { streamOf } from "./stream.ts";
import type { Bookmark, LogPage, Reset, Source, StreamRequest } from "./stream.ts";
import type { Tail } from "./tail.ts";

export type ChangeStreamItem<Row, Field> = ChangeItem<Row, Field> | Bookmark<ChangeCursor> | Reset<ChangeCursor>;
export type ChangeStream<Row, Field> = AsyncIterableIterator<ChangeStreamItem<Row, Field>>;

export interface FeedParts {
  readonly database: Database;
  readonly tail: Tail;
}

/** Changes on a page: more than items of other streams, because changes of one object become one item. */
const PAGE = 1_000;
/** Positions that one statement reads, which bounds its duration. */
const WINDOW = 10_000;

/** The objects that a stream follows. */
export interface Followed<Row, Found extends { readonly row: Row }, Field> {
  /** Which changes are read. */
  readonly reads: ChangeFilter;
  /** Whether items are made a few times a second at most, because each one sums up many rows. */
  readonly isPaced: boolean;
  readonly known: KnownRows<Found>;
  /** Its key also stands for the items: it is equal for streams with the same ones. */
  readonly snapshot: SnapshotContent<Row>;
  readonly changesOf: (
    rows: readonly ChangeRow[],
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
  { database: { reader }, tail }: FeedParts,
  followed: Followed<Row, Found, Field>,
): Source<Row, ChangeItem<Row, Field>, ChangeCursor> {
  const { changes } = tail;
  const head = followed.isPaced ? changes.paced : changes.live;
  const since = performance.now();

  /** Changes up to a position, from the table; null if earlier ones are deleted. */
  async function readTable(after: ChangeCursor, until: number) {
    const from = after.position;
    const rows = await changesAfter(reader, { after: from, until, limit: PAGE, filter: followed.reads });
    if (rows[0]?.position !== from + 1 && (await checkChange(reader, BEFORE_FIRST)).earliest.position > from)
      return null;
    const last = rows.at(-1);
    const isAtLast = last !== undefined && (rows.length === PAGE || last.position === until);
    return { rows, cursor: isAtLast ? changeCursor(last) : await changeAt(reader, until) };
  }

  async function itemsOf(page: PageRows, moment: ReadMoment): Promise<readonly ChangeItem<Row, Field>[]> {
    const objects = changedObjects(await followed.changesOf(page.rows));
    if (objects.length === 0) return [];
    const wanted = wantedRows(objects);
    const [view, known] = await Promise.all([
      followed.view(wanted.map(({ id }) => id)),
      followed.known.read(wanted, moment),
    ]);
    return changeItems<Row, Found, Field>(page, objects, known, view);
  }

  return {
    beforeFirst: changeCursor(BEFORE_FIRST),
    get head() {
      return head.position;
    },
    onAdvance: head.onAdvance,
    isRecent: (after) => changes.recent(after, 1) !== null,
    newest: () => newestChange(reader),
    async check(cursor) {
      const checked = await checkChange(reader, cursor);
      return { ...checked, earliest: changeCursor(checked.earliest) };
    },
    async read(after, newest) {
      const from = after.position;
      const recent = newest > changes.live.position ? null : changes.recent(from, Math.min(PAGE, newest - from));
      const page = recent
        ? { rows: recent, cursor: changeCursor(recent.at(-1) ?? after) }
        : await readTable(after, Math.min(newest, from + WINDOW));
      if (!page) return null;
      const { rows, cursor } = page;
      const key = `${from} ${cursor.position} ${followed.snapshot.key}`;
      const make = () => itemsOf({ after, rows }, { head: newest, since });
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
