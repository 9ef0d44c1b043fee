/** The node map: the effect of each item; no node returns to an older revision. */
import { expect, test } from "vitest";
import { createNodeMap } from "../../src/client/index.ts";
import type { Transition, WatchItem } from "../../src/client/index.ts";

interface Fields {
  readonly label: string;
}

const node = (uuid: string, revision: number) => ({ uuid, revision, transitionCount: 1, label: `${uuid}${revision}` });
const transitionItem = (
  cursor: string,
  known: ReturnType<typeof node> | null,
  to: string | null = "ACTIVE",
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
