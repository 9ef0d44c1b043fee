/**
 * Items of a stream of changes from a page of the log: one for each object. Pure. A row of a page is one change, or
 * several changes of an object that are equal for the stream (change-windows.ts).
 *
 * What the reader has is decided without remembering it. An object that matches now is sent. One that does not match
 * now, but did before one of the changes of the page, has left. This is exact for any pages: let a reader have an
 * object, and the object match for the last time before some change. The page with that change has what filters saw
 * before it, and the object as it was read afterwards, which does not match; so the page sends that the object left,
 * and no later one sends the object.
 */
import { changeCursor } from "../store/log/changes.ts";
import type { ChangeCursor, ChangeRow } from "../store/log/changes.ts";
import type { LogCursor } from "../store/log/transitions.ts";

export type ChangeItem<Row, Field> =
  | {
      readonly kind: "upserted";
      readonly cursor: ChangeCursor;
      readonly at: Date;
      /** The same object for the same reading. */
      readonly row: Row;
      /** Which fields changed; null if the object is new to the reader. */
      readonly changed: readonly Field[] | null;
    }
  | {
      readonly kind: "left";
      readonly cursor: ChangeCursor;
      readonly at: Date;
      readonly id: string;
      /** Empty if it is not known. */
      readonly name: string;
      /** The object does not exist any more. */
      readonly deleted: boolean;
    };

/** A change, or the last one of several equal ones. */
export interface PageRow extends ChangeRow {
  /** Only of several: the first change of their object on the page and in the rest of its window. */
  readonly begin?: LogCursor;
}

/** A change of the log, as a change of an object of the stream. */
export interface ObjectChange<Field> {
  readonly id: string;
  readonly fields: readonly Field[];
  readonly row: PageRow;
}

/** The changes of one object on a page. */
interface ChangedObject<Field> {
  readonly id: string;
  readonly first: PageRow;
  readonly last: PageRow;
  readonly changes: readonly ObjectChange<Field>[];
}

/** An object that matched the filter before a change. */
interface Before {
  /** `MAYBE`: the log does not record it. A reader that has the object then learns of it in any case. */
  readonly matched: boolean | "MAYBE";
  readonly name: string;
}

/** How the filter of a stream sees objects. */
export interface View<Found extends { readonly row: unknown }, Field> {
  /** All fields, in the order in which items list them. */
  readonly fields: readonly Field[];
  matches(known: Found): boolean;
  /** The object before a change; null if no filter can notice the change. */
  before(change: ObjectChange<Field>, known: Found | null): Before | null;
  /** Whether the object begins to exist with the change. */
  begins(change: ObjectChange<Field>): boolean;
}

/** The objects of changes, in the order of their first changes. */
export function changedObjects<Field>(changes: readonly ObjectChange<Field>[]): readonly ChangedObject<Field>[] {
  return [...Map.groupBy(changes, ({ id }) => id)].flatMap(([id, ofOne]) => {
    const [first] = ofOne;
    if (!first) return [];
    const last = ofOne.reduce((newest, { row }) => (row.position > newest.position ? row : newest), first.row);
    return { id, first: first.row, last, changes: ofOne };
  });
}

/**
 * A page of the log: its rows, which come after a cursor, in the order in which they begin. An object of the page has
 * all its changes up to `cursor` there, and possibly later ones.
 */
export interface PageRows {
  readonly after: ChangeCursor;
  readonly rows: readonly PageRow[];
  readonly cursor: ChangeCursor;
}

/** The items of a page. `known`: the objects as they are, read after the page was numbered. */
export function changeItems<Row, Found extends { readonly row: Row }, Field>(
  page: PageRows,
  objects: readonly ChangedObject<Field>[],
  known: ReadonlyMap<string, Found | null>,
  view: View<Found, Field>,
): readonly ChangeItem<Row, Field>[] {
  const items = objects.flatMap((object) => {
    const item = itemOf<Row, Found, Field>(object, known.get(object.id) ?? null, view);
    return item ? [{ object, item }] : [];
  });
  return items.map(({ object, item }, index) => ({
    ...item,
    cursor: cursorOf(page, object.last, items[index + 1]?.object.first),
  }));
}

/**
 * The cursor of an item: everything up to it was sent with the item. It does not depend on the filter unless objects
 * have several changes on the page, so that readers with different filters share the item.
 */
function cursorOf({ after, rows, cursor }: PageRows, last: PageRow, next: PageRow | undefined): ChangeCursor {
  const end = next ? beginOf(next).position - 1 : cursor.position;
  if (last.position <= end) return changeCursor(last);
  if (!next) return cursor;
  // The next object has changes up to the last one of this object, and was not sent yet.
  const before = rows.findLast((row) => beginOf(row).position <= end);
  return before ? changeCursor(beginOf(before)) : after;
}

function beginOf(row: PageRow): LogCursor {
  return row.begin ?? row;
}

type WithoutCursor<Item> = Item extends unknown ? Omit<Item, "cursor"> : never;

function itemOf<Row, Found extends { readonly row: Row }, Field>(
  { id, last: { at }, changes }: ChangedObject<Field>,
  known: Found | null,
  view: View<Found, Field>,
): WithoutCursor<ChangeItem<Row, Field>> | null {
  const before = changes.flatMap((change) => view.before(change, known) ?? []);
  if (known && view.matches(known)) {
    const isNew = changes.some((change) => view.begins(change)) || before.slice(0, 1).some(isUnsure);
    return { kind: "upserted", at, row: known.row, changed: isNew ? null : fieldsOf(changes, view) };
  }
  const left = before.findLast(({ matched }) => matched !== false);
  const name = left?.name || (before.at(-1)?.name ?? "");
  return left ? { kind: "left", at, id, name, deleted: known === null } : null;
}

function isUnsure({ matched }: Before): boolean {
  return matched !== true;
}

function fieldsOf<Field>(
  changes: readonly ObjectChange<Field>[],
  { fields }: { readonly fields: readonly Field[] },
): readonly Field[] {
  const changed = new Set(changes.flatMap((change) => change.fields));
  return fields.filter((field) => changed.has(field));
}
