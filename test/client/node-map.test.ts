/** The node map: the effect of each item; no node returns to an older revision; what readers have does not change. */
import { expect, test, vi } from "vitest";
import { createNodeMap } from "../../packages/client/src/index.ts";
import type { NodeState, Transition, WatchItem } from "../../packages/client/src/index.ts";

interface Fields {
  readonly label: string;
}

const node = (uuid: string, revision: number) => ({ uuid, revision, transitionCount: 1, label: `${uuid}${revision}` });
const transitionItem = (
  cursor: string,
  known: ReturnType<typeof node> | null,
  to: NodeState | null = "ACTIVE",
): WatchItem<Fields> => {
  const transition: Transition = {
    cursor,
    nodeUuid: known?.uuid ?? "a",
    nodeName: "n",
    sequence: 2,
    nodeRevision: 2,
    from: "AVAILABLE",
    to,
    event: "finish",
    at: "2026-01-01T00:00:00.000Z",
  };
  return { kind: "transition", cursor, transition, node: known };
};

function mapOf(...items: WatchItem<Fields>[]) {
  const map = createNodeMap<Fields>();
  const apply = (change: WatchItem<Fields>) => {
    map.apply(change);
    return [...map.nodes.values()].map(({ label }) => label).join(" ");
  };
  for (const each of items) map.apply(each);
  return { map, apply };
}

const SNAPSHOT: WatchItem<Fields>[] = [
  { kind: "begin", reason: "START" },
  { kind: "node", node: node("a", 3) },
  { kind: "node", node: node("b", 1) },
  { kind: "complete", cursor: "5" },
];

test("a node of the same or a newer revision replaces the known one", () => {
  const { map, apply } = mapOf(...SNAPSHOT);
  expect(apply(transitionItem("6", { ...node("a", 3), label: "again" }))).toBe("again b1");
  expect(apply(transitionItem("7", node("a", 4)))).toBe("a4 b1");
  expect(apply(transitionItem("8", node("c", 1)))).toBe("a4 b1 c1");
  expect(map.cursor).toBe("8");
});

test("a node of an older revision does not replace the known one, and the cursor advances", () => {
  const { map, apply } = mapOf(...SNAPSHOT, transitionItem("6", node("a", 8)));
  expect(apply(transitionItem("7", node("a", 7)))).toBe("a8 b1");
  expect(map.cursor).toBe("7");
});

test("a deleted node is removed at any revision, and a node whose deletion has not arrived stays", () => {
  const { apply } = mapOf(...SNAPSHOT);
  expect(apply(transitionItem("6", null))).toBe("a3 b1");
  expect(apply(transitionItem("7", null, null))).toBe("b1");
});

test("a new snapshot replaces all nodes, because it may belong to another log", () => {
  const { apply } = mapOf(
    ...SNAPSHOT,
    { kind: "begin", reason: "CURSOR_EXPIRED" },
    { kind: "node", node: node("a", 1) },
  );
  expect(apply({ kind: "complete", cursor: "2" })).toBe("a1");
});

test("nodes that were read do not change, and were one map that React cannot see change", () => {
  const { map } = mapOf(...SNAPSHOT);
  const read = map.nodes;
  expect(map.nodes).toBe(read);
  map.apply({ kind: "bookmark", cursor: "6", live: true });
  expect(map.nodes).toBe(read);
  map.apply(transitionItem("7", node("a", 4)));
  map.apply(transitionItem("8", null, null));
  map.apply(transitionItem("9", node("b", 2)));
  expect([...read.values()].map(({ label }) => label)).toEqual(["a3", "b1"]);
  expect([...map.nodes.values()].map(({ label }) => label)).toEqual(["b2"]);
});

test("the version increases and listeners are called exactly when the nodes change", () => {
  const { map } = mapOf();
  const seen: (readonly [number, number])[] = [];
  const stop = map.subscribe(() => seen.push([map.version, map.nodes.size]));
  for (const item of SNAPSHOT) map.apply(item);
  expect(seen).toEqual([[1, 2]]);
  map.apply({ kind: "bookmark", cursor: "6", live: true });
  map.apply(transitionItem("7", node("a", 2)));
  map.apply(transitionItem("8", null));
  map.apply(transitionItem("9", { ...node("z", 1), uuid: "never seen" }, null));
  expect([map.version, map.cursor]).toEqual([1, "9"]);
  map.apply(transitionItem("10", node("c", 1)));
  map.apply(transitionItem("11", null, null));
  stop();
  map.apply(transitionItem("12", node("d", 1)));
  expect(seen).toEqual([
    [1, 2],
    [2, 3],
    [3, 2],
  ]);
  expect(map.version).toBe(4);
});

test("items that are not read in between are applied without copies of the nodes", () => {
  const { map } = mapOf(
    { kind: "begin", reason: "START" },
    ...Array.from({ length: 5_000 }, (_, index): WatchItem<Fields> => ({ kind: "node", node: node(`n${index}`, 1) })),
    { kind: "complete", cursor: "1" },
  );
  let copies = 0;
  const original = globalThis.Map;
  vi.stubGlobal(
    "Map",
    class<Key, Value> extends original<Key, Value> {
      constructor(...given: []) {
        super(...given);
        copies += 1;
      }
    },
  );
  try {
    for (let index = 0; index < 10_000; index += 1) map.apply(transitionItem(`${index + 2}`, node("n7", index + 2)));
    expect(copies).toBe(0);
    expect(map.nodes.get("n7")?.revision).toBe(10_001);
    expect([map.nodes.size, copies]).toEqual([5_000, 1]);
  } finally {
    vi.unstubAllGlobals();
  }
});
