/**
 * The order of rows that change while a person reads them. It is kept as long as the pointer or the focus is in the
 * table, and the number of rows that another order would move is offered.
 */

export interface RowOrder {
  readonly ids: readonly string[];
  /** Rows that are not where the order has them now. */
  readonly movedCount: number;
}

/** The fewest rows that have to move to make one order of the other: all but those of the longest sequence in both. */
export function movedBetween(kept: readonly string[], sorted: readonly string[]): number {
  const places = new Map(kept.map((id, index) => [id, index]));
  /** The least last place of a sequence of each length. */
  const ends: number[] = [];
  for (const id of sorted) {
    const place = places.get(id);
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
export function orderRows<Row>(before: readonly string[], { items, compare }: Rows<Row>, isHeld: boolean): RowOrder {
  // What was sorted before is nearly sorted still, and then cheap to sort.
  const known = new Set(before);
  const kept = before.filter((id) => items.has(id));
  const all = [...kept, ...[...items.keys()].filter((id) => !known.has(id))];
  const sorted = all.toSorted((a, b) => {
    const [one, other] = [items.get(a), items.get(b)];
    return one === undefined || other === undefined ? 0 : compare(one, other);
  });
  return isHeld ? { ids: all, movedCount: movedBetween(all, sorted) } : { ids: sorted, movedCount: 0 };
}
