/** Where a watcher stands: what is told again is dropped, what is missing is found, and where the next connection goes on. */
import { describe, expect, test } from "vitest";
import { proofOf } from "../../src/client/filter.ts";
import { createPosition } from "../../src/client/position.ts";
import type { StreamItem } from "../../src/client/items.ts";

const snapshot = (uuid: string, transitionCount = 1): Extract<StreamItem, { __typename: "NodeSnapshot" }> => ({
  __typename: "NodeSnapshot",
  cursor: "10",
  node: { uuid, transitionCount, revision: 9 },
});
const bookmark = (
  cursor: number,
  marks: { readonly snapshotComplete?: boolean; readonly caughtUp?: boolean } = {},
): Extract<StreamItem, { __typename: "StreamBookmark" }> => ({
  __typename: "StreamBookmark",
  cursor: String(cursor),
  snapshotComplete: false,
  caughtUp: false,
  ...marks,
});
const transition = (
  cursor: number,
  sequence = 1,
  nodeUuid = "n",
  to: string | null = "ACTIVE",
): Extract<StreamItem, { __typename: "Transition" }> => ({
  __typename: "Transition",
  cursor: String(cursor),
  nodeUuid,
  nodeName: nodeUuid,
  sequence,
  nodeRevision: cursor,
  from: "AVAILABLE",
  to,
  event: "finish",
  at: "2026-01-01T00:00:00.000Z",
});

/** One that has its snapshot, as of 10. */
function following(...[proof]: Parameters<typeof createPosition>) {
  const position = createPosition(proof, null);
  position.connect();
  position.take(snapshot("n", 4));
  position.take(bookmark(10, { snapshotComplete: true }));
  return position;
}

describe("a position", () => {
  test("begins with a snapshot, and goes on after it", () => {
    const position = createPosition("POSITIONS", null);
    expect(position.connect()).toEqual({ after: null, snapshot: true, begin: "START" });
    expect(position.take(snapshot("a"))).toEqual({
      kind: "node",
      node: { uuid: "a", transitionCount: 1, revision: 9 },
    });
    expect(position.take(bookmark(10, { snapshotComplete: true }))).toEqual({ kind: "complete", cursor: "10" });
    expect(position.take(transition(11))).toMatchObject({
      kind: "transition",
      cursor: "11",
      node: { uuid: "n", state: "ACTIVE", revision: 11 },
    });
    expect(position.take(bookmark(11, { caughtUp: true }))).toEqual({ kind: "bookmark", cursor: "11", live: true });
    expect(position.connect()).toEqual({ after: "11", snapshot: false, begin: null });
  });

  test("in the middle of a snapshot begins anew, and says so", () => {
    const position = createPosition("POSITIONS", null);
    position.connect();
    position.take(snapshot("a"));
    expect(position.connect()).toEqual({ after: null, snapshot: true, begin: "SNAPSHOT_BROKEN" });
  });

  test("goes on from a cursor that was kept, without a snapshot", () => {
    expect(createPosition("POSITIONS", "7").connect()).toEqual({ after: "7", snapshot: false, begin: null });
    expect(() => createPosition("POSITIONS", "seven")).toThrow('"seven" is no cursor of a stream.');
  });

  test("begins anew when its cursor has expired, and stays where it is after any other reset", () => {
    const position = following("POSITIONS", null);
    position.reset("SHUTTING_DOWN");
    position.reset("TOO_SLOW");
    expect(position.connect().after).toBe("10");
    position.reset("CURSOR_EXPIRED");
    expect(position.connect()).toEqual({ after: null, snapshot: true, begin: "CURSOR_EXPIRED" });
  });

  test("drops what was told before", () => {
    const position = following("POSITIONS", null);
    expect(position.take(transition(9))).toBeNull();
    expect(position.take(transition(10))).toBeNull();
    expect(position.take(transition(11))).not.toBeNull();
    expect(position.take(transition(11))).toBeNull();
    expect(position.take(bookmark(10))).toBeNull();
  });
});

describe("a hole is found", () => {
  test("between two transitions, without a filter", () => {
    const position = following("POSITIONS", null);
    position.take(transition(11));
    expect(() => position.take(transition(13))).toThrow("Position 12 was not told.");
    expect(() => following("POSITIONS", null).take(transition(14))).toThrow("Positions 11 to 13 were not told.");
  });

  test("before a bookmark, which says that everything up to it was told", () => {
    expect(() => following("POSITIONS", null).take(bookmark(12))).toThrow("Positions 11 to 12 were not told.");
  });

  test("in the numbers of a node that is asked for by ID, from its snapshot on", () => {
    const position = following("SEQUENCES", null);
    expect(position.take(transition(15, 5))).not.toBeNull();
    expect(position.take(transition(90, 3, "another"))).not.toBeNull();
    expect(position.take(bookmark(200))).not.toBeNull();
    expect(() => position.take(transition(201, 7))).toThrow("Node n has transition 7 after 5.");
  });

  test("not where a filter lets nodes come and go", () => {
    const position = following("NONE", null);
    expect(position.take(transition(15, 9))).not.toBeNull();
    expect(position.take(transition(99, 20))).not.toBeNull();
  });

  test("when the server tells transitions while the snapshot is not whole", () => {
    const position = createPosition("NONE", null);
    position.connect();
    expect(() => position.take(transition(11))).toThrow("before the snapshot is whole");
  });
});

test("what can be proved depends on the filter", () => {
  expect(
    [undefined, {}, { ids: null }, { ids: ["a"] }, { ids: ["a"], maintenance: false }, { states: ["ACTIVE"] }].map(
      proofOf,
    ),
  ).toEqual(["POSITIONS", "POSITIONS", "POSITIONS", "SEQUENCES", "NONE", "NONE"]);
});
