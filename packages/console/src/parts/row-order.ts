/**
 * The order of rows that change while a person reads them. It is kept as long as the pointer or the focus is in the
 * table, and the number of rows that another order would move is offered.
 */

export interface RowOrder<Row> {
  readonly rows: readonly Row[];
  /** Rows that are not where the order has them now. */
  readonly movedCount: number;
}

/** The fewest rows that have to move to make one order of the other: all but those of the longest sequence in both. */
export function movedBetween<Row>(kept: readonly Row[], sorted: readonly Row[]): number {
  const places = new Map(kept.map((row, index) => [row, index]));
  /** The least last place of a sequence of each length. */
  const ends: number[] = [];
  for (const row of sorted) {
    const place = places.get(row);
    if (place === undefined) continue;
    let low = 0;
    let high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((ends[middle] ?? 0) < place) low = middle + 1;
      else high = middle;
    }
    ends[low] = place;
  }
  return sorted.length - ends.length;
}

interface Rows<Row> {
  readonly items: ReadonlyMap<string, Row>;
  readonly compare: (a: Row, b: Row) => number;
}

/** Sorted; if the order is held, rows keep their places, and new ones come last. */
export function orderRows<Row extends { readonly id: string }>(
  before: readonly Row[],
  { items, compare }: Rows<Row>,
  isHeld: boolean,
): RowOrder<Row> {
  // What was sorted before is nearly sorted still, and then cheap to sort.
  const kept = before.map(({ id }) => items.get(id)).filter((row) => row !== undefined);
  const known = new Set(kept);
  const all = [...kept, ...[...items.values()].filter((row) => !known.has(row))];
  const sorted = all.toSorted(compare);
  return isHeld ? { rows: all, movedCount: movedBetween(all, sorted) } : { rows: sorted, movedCount: 0 };
}
