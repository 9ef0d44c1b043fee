/** The places of the cells of the heat map. */
import { expect, test } from "vitest";
import { cellAt, cellSize, gridOf, isSameOrder, sectionsOf } from "../../packages/console/src/parts/heat-map-layout.ts";
import type { MapNode } from "../../packages/console/src/parts/heat-map-layout.ts";

const node = (name: string, cluster: string | null): MapNode => ({
  id: `id-${name}`,
  name,
  cluster: cluster === null ? null : { name: cluster },
});
const byId = (nodes: readonly MapNode[]) => new Map(nodes.map((one) => [one.id, one]));

test("nodes are in sections by cluster, and in them by name; those of no cluster come last", () => {
  const nodes = [node("c", null), node("b", "turin"), node("a", "turin"), node("d", "berlin")];
  expect(sectionsOf(nodes)).toEqual([
    { cluster: "berlin", ids: ["id-d"] },
    { cluster: "turin", ids: ["id-a", "id-b"] },
    { cluster: null, ids: ["id-c"] },
  ]);
});

test("places are kept while no node comes, leaves, moves or is renamed", () => {
  const before = byId([node("a", "x"), node("b", "x")]);
  const sections = sectionsOf(before.values());
  expect(isSameOrder(sections, before, byId([node("b", "x"), node("a", "x")]))).toBe(true);
  expect(isSameOrder(sections, before, byId([node("a", "x")]))).toBe(false);
  expect(isSameOrder(sections, before, byId([node("a", "x"), node("c", "x")]))).toBe(false);
  expect(isSameOrder(sections, before, byId([node("a", "x"), node("b", "y")]))).toBe(false);
  const renamed = new Map(before).set("id-b", { ...node("z", "x"), id: "id-b" });
  expect(isSameOrder(sections, before, renamed)).toBe(false);
});

test.each([20, 500, 10_000, 50_000])("%d nodes have cells that a pointer finds", (count) => {
  const cell = cellSize([count], 1_240, 460);
  expect(cell).toBeGreaterThanOrEqual(5);
  const { rows } = gridOf(count, 1_240, cell);
  if (count <= 10_000) expect(rows * cell).toBeLessThanOrEqual(460);
});

test("every cell is found at its place, and none beside it", () => {
  const grid = gridOf(25, 100, 10);
  expect(grid).toEqual({ cell: 10, columns: 10, rows: 3 });
  for (let index = 0; index < 25; index += 1)
    expect(cellAt(grid, 25, (index % 10) * 10 + 5, Math.floor(index / 10) * 10 + 5)).toBe(index);
  for (const [x, y] of [
    [55, 25],
    [101, 5],
    [-1, 5],
    [5, -1],
    [5, 31],
  ] as const)
    expect(cellAt(grid, 25, x, y)).toBeNull();
});
