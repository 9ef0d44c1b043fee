/**
 * The order of rows that change while a person reads them. It is kept as long as the pointer or the focus is in the
 * table, and the number of rows that another order would move is offered.
 */

export interface RowOrder<Row> {
  readonly rows: readonly Row[];
  /** The same in the order of now. */
  readonly sorted: readonly Row[];
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

/**
 * Sorted; if the order is held, rows keep their places, and new ones come last. Only rows that are new or have changed
 * are compared with others: `sorted` are the earlier rows in the same order.
 */
export function orderRows<Row extends { readonly id: string }>(
  { rows, sorted }: Pick<RowOrder<Row>, "rows" | "sorted">,
  { items, compare }: Rows<Row>,
  isHeld: boolean,
): RowOrder<Row> {
  const same: Row[] = [];
  const others: Row[] = [];
  for (const row of sorted) {
    const now = items.get(row.id);
    if (now) (now === row ? same : others).push(now);
  }
  if (same.length + others.length < items.size) {
    const known = new Set([...same, ...others]);
    for (const row of items.values()) if (!known.has(row)) others.push(row);
  }
  const now = merged(same, others.toSorted(compare), compare);
  if (!isHeld) return { rows: now, sorted: now, movedCount: 0 };
  const kept = rows.map(({ id }) => items.get(id)).filter((row) => row !== undefined);
  const known = new Set(kept);
  const all = [...kept, ...now.filter((row) => !known.has(row))];
  return { rows: all, sorted: now, movedCount: movedBetween(all, now) };
}

/** Both are sorted; `few` has few rows. */
function merged<Row>(many: readonly Row[], few: readonly Row[], compare: (a: Row, b: Row) => number): readonly Row[] {
  const rows: Row[] = [];
  let from = 0;
  for (const row of few) {
    let low = from;
    let high = many.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = many[middle];
      if (other !== undefined && compare(other, row) <= 0) low = middle + 1;
      else high = middle;
    }
    for (const other of many.slice(from, low)) rows.push(other);
    rows.push(row);
    from = low;
  }
  return rows.concat(many.slice(from));
}
