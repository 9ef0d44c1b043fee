/** Where the cells of the heat map are: one square for each node, by cluster and then by name. */

export interface MapNode {
  readonly id: string;
  readonly name: string;
  readonly cluster: { readonly name: string } | null;
}

export interface MapSection {
  /** Null: the nodes of no cluster. */
  readonly cluster: string | null;
  readonly ids: readonly string[];
}

/** Sections by name, the nodes of no cluster last. */
export function sectionsOf(nodes: Iterable<MapNode>): readonly MapSection[] {
  const byCluster = Map.groupBy(nodes, ({ cluster }) => cluster?.name ?? null);
  return [...byCluster]
    .toSorted(([a], [b]) => (a === null ? 1 : b === null ? -1 : a < b ? -1 : 1))
    .map(([cluster, members]) => ({
      cluster,
      ids: members.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map(({ id }) => id),
    }));
}

/** Whether the sections still have all nodes in their places: a change of state moves none. */
export function isSameOrder(
  sections: readonly MapSection[],
  before: ReadonlyMap<string, MapNode>,
  now: ReadonlyMap<string, MapNode>,
): boolean {
  if (before.size !== now.size) return false;
  for (const { cluster, ids } of sections)
    for (const id of ids) {
      const node = now.get(id);
      if (!node || (node.cluster?.name ?? null) !== cluster || node.name !== before.get(id)?.name) return false;
    }
  return true;
}

export interface Grid {
  /** Width and height of a cell with its gap, in pixels. */
  readonly cell: number;
  readonly columns: number;
  readonly rows: number;
}

const CELLS = [22, 16, 12, 9, 7];
/** A cell must be found with a pointer. */
const CELL_MIN = 5;

/** The largest cells with which all sections of these sizes have at most this height together. */
export function cellSize(sizes: readonly number[], width: number, heightMax: number): number {
  const heightWith = (cell: number) =>
    sizes.reduce((height, size) => height + Math.ceil(size / Math.max(1, Math.floor(width / cell))) * cell, 0);
  return CELLS.find((cell) => heightWith(cell) <= heightMax) ?? CELL_MIN;
}

export function gridOf(count: number, width: number, cell: number): Grid {
  const columns = Math.max(1, Math.floor(width / cell));
  return { cell, columns, rows: Math.ceil(count / columns) };
}

/** The index of the cell at a point; null: none. */
export function cellAt({ cell, columns }: Grid, count: number, x: number, y: number): number | null {
  const column = Math.floor(x / cell);
  if (x < 0 || y < 0 || column >= columns) return null;
  const index = Math.floor(y / cell) * columns + column;
  return index < count ? index : null;
}
