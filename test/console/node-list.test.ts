/** The list of nodes: columns, order, and the palette. */
import { describe, expect, test } from "vitest";
import { movedBetween, orderRows } from "../../packages/console/src/parts/row-order.ts";
import {
  NODE_COLUMN_NAMES,
  compareNodes,
  readColumns,
  readSort,
  sortAfter,
  writeColumns,
} from "../../packages/console/src/words/node-columns.ts";
import { paletteMatches } from "../../packages/console/src/words/palette.ts";
import type { PaletteEntry } from "../../packages/console/src/words/palette.ts";

describe("columns of an address", () => {
  test("columns are shown in one order, the name always; what is none is reported [R-1249]", () => {
    expect(readColumns("updated,state")).toEqual({ columns: ["name", "state", "updated"], unknown: [] });
    expect(readColumns("bogus,toString,state")).toEqual({ columns: ["name", "state"], unknown: ["bogus", "toString"] });
    expect(readColumns("")).toEqual({ columns: ["name"], unknown: [] });
  });

  test("the default columns are not in the address, others come back from it", () => {
    expect(writeColumns(readColumns(undefined).columns)).toBeNull();
    const text = writeColumns(["updated", "name"]);
    expect(readColumns(text ?? "").columns).toEqual(["name", "updated"]);
  });

  test("a sort is a column, with a dash for the last first", () => {
    expect(readSort("-state")).toEqual({ by: "state", isDescending: true });
    expect(readSort(undefined)).toEqual({ by: "name", isDescending: false });
    expect([readSort("bogus"), readSort("__proto__")]).toEqual([null, null]);
    expect(sortAfter({ by: "name", isDescending: false }, "state")).toBe("state");
    expect(sortAfter({ by: "state", isDescending: false }, "state")).toBe("-state");
    expect(sortAfter({ by: "state", isDescending: true }, "name")).toBeNull();
  });
});

const node = (name: string, state = "ACTIVE", model: string | null = null) => ({
  name,
  state,
  model,
  powerState: "ON",
  powerDrift: false,
  presence: "DISCOVERED",
  protected: false,
  retired: false,
  hostGroup: null,
  updatedAt: "2026-01-01T00:00:00Z",
  cluster: null,
  maintenance: null,
  fault: null,
  lastError: null,
});

describe("order", () => {
  const nodes = [node("b", "ACTIVE", "R650"), node("a", "DEPLOY_FAILED"), node("c", "AVAILABLE", "DL360")];
  const sorted = (by: (typeof NODE_COLUMN_NAMES)[number], isDescending = false) =>
    nodes.toSorted(compareNodes({ by, isDescending })).map(({ name }) => name);

  test("failed nodes come first by state, and empty values last in both directions", () => {
    expect(sorted("state")).toEqual(["a", "b", "c"]);
    expect(sorted("model")).toEqual(["c", "b", "a"]);
    expect(sorted("model", true)).toEqual(["b", "c", "a"]);
    expect(sorted("name", true)).toEqual(["c", "b", "a"]);
    for (const name of NODE_COLUMN_NAMES) expect(sorted(name)).toHaveLength(3);
  });

  test.each([
    ["nothing", "abcd", "abcd", 0],
    ["one row to the end", "abcd", "bcda", 1],
    ["two rows that change places", "abcd", "bacd", 1],
    ["all of them", "abcd", "dcba", 3],
    ["a new row", "abc", "abcd", 1],
    ["none", "", "", 0],
  ])("%s moves as few rows as can be", (_, kept, wanted, count) => {
    expect(movedBetween(Array.from(kept), Array.from(wanted))).toBe(count);
  });

  test("a held order keeps its rows, leaves out those that left, and has new ones last [R-1250]", () => {
    const rows = (ids: string) => Array.from(ids, (id) => ({ id }));
    const compare = (a: { readonly id: string }, b: { readonly id: string }) => (a.id < b.id ? -1 : 1);
    const items = new Map(rows("dbxa").map((row) => [row.id, row]));
    const before = { rows: rows("dcb"), sorted: rows("bcd") };
    const ordered = rows("abdx");
    expect(orderRows(before, { items, compare }, true)).toEqual({ rows: rows("dbax"), sorted: ordered, movedCount: 2 });
    expect(orderRows(before, { items, compare }, false)).toEqual({ rows: ordered, sorted: ordered, movedCount: 0 });
  });

  test("the order after many changes is that of all rows, though only changed ones are compared", () => {
    const compare = (a: Key, b: Key) => a.key - b.key || (a.id < b.id ? -1 : 1);
    let compared = 0;
    const counted = (a: Key, b: Key) => {
      compared += 1;
      return compare(a, b);
    };
    interface Key {
      readonly id: string;
      readonly key: number;
    }
    let order: { rows: readonly Key[]; sorted: readonly Key[] } = { rows: [], sorted: [] };
    const items = new Map<string, Key>();
    for (let change = 0; change < 500; change += 1) {
      // Rows come, change and leave, several between two views.
      const id = String((change * 37) % 61);
      if (change % 5 === 4) items.delete(id);
      else items.set(id, { id, key: (change * 29) % 17 });
      if (change % 3 > 0) continue;
      order = orderRows(order, { items, compare: counted }, false);
      expect(order.rows).toEqual([...items.values()].toSorted(compare));
    }
    compared = 0;
    items.set("7", { id: "7", key: 99 });
    orderRows(order, { items, compare: counted }, false);
    // The place of one row among 60 is found by halving.
    expect(compared).toBeLessThanOrEqual(6);
  });
});

describe("palette", () => {
  const entries: readonly PaletteEntry[] = [
    { kind: "Verb", label: "Deploy 3 selected nodes…", target: "DEPLOY" },
    { kind: "Screen", label: "Nodes", target: "/nodes" },
    ...Array.from(
      { length: 20 },
      (_, index) => ({ kind: "Node", label: `node-${index}`, target: `${index}` }) as const,
    ),
    { kind: "Cluster", label: "no man's land", target: "x" },
  ];

  test("what begins with the text comes first, and each kind has its share", () => {
    const found = paletteMatches("no", entries);
    expect(found[0]?.label).toBe("Nodes");
    expect(found.filter(({ kind }) => kind === "Node")).toHaveLength(8);
    expect(found.map(({ kind }) => kind)).toContain("Cluster");
    expect(found.at(-1)?.kind).toBe("Verb");
  });

  test("words are found in any order, in any case", () => {
    expect(paletteMatches("nodes DEPLOY", entries).map(({ target }) => target)).toEqual(["DEPLOY"]);
    expect(paletteMatches("nothing", entries)).toEqual([]);
  });
});
