/** A watcher's position: duplicates are dropped, gaps are found, and the next connection resumes at the right place. */
import { describe, expect, test } from "vitest";
import { proofOf } from "../../packages/client/src/filter.ts";
import type { NodeFilter } from "../../packages/client/src/index.ts";
import { createPosition } from "../../packages/client/src/position.ts";
import type { StreamItem } from "../../packages/client/src/items.ts";
import type { NodeState } from "../../packages/client/src/node-state.ts";

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
  to: NodeState | null = "ACTIVE",
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

/** A position with a complete snapshot, as of 10. */
function following(...[proof]: Parameters<typeof createPosition>) {
  const position = createPosition(proof, null);
  position.connect();
  position.take(snapshot("n", 4));
  position.take(bookmark(10, { snapshotComplete: true }));
  return position;
}

describe("position", () => {
  test("a position requests a snapshot first, and then resumes after it", () => {
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

  test("a position in the middle of a snapshot starts again with reason SNAPSHOT_BROKEN", () => {
    const position = createPosition("POSITIONS", null);
    position.connect();
    position.take(snapshot("a"));
    expect(position.connect()).toEqual({ after: null, snapshot: true, begin: "SNAPSHOT_BROKEN" });
  });

  test("a position with a saved cursor resumes without a snapshot", () => {
    expect(createPosition("POSITIONS", "7").connect()).toEqual({ after: "7", snapshot: false, begin: null });
    expect(() => createPosition("POSITIONS", "seven")).toThrow('"seven" is not a cursor of a stream.');
  });

  test("a position starts again after CURSOR_EXPIRED and keeps its cursor after any other reset", () => {
    const position = following("POSITIONS", null);
    position.reset("SHUTTING_DOWN");
    position.reset("TOO_SLOW");
    expect(position.connect().after).toBe("10");
    position.reset("CURSOR_EXPIRED");
    expect(position.connect()).toEqual({ after: null, snapshot: true, begin: "CURSOR_EXPIRED" });
  });

  test("a position drops duplicates", () => {
    const position = following("POSITIONS", null);
    expect(position.take(transition(9))).toBeNull();
    expect(position.take(transition(10))).toBeNull();
    expect(position.take(transition(11))).not.toBeNull();
    expect(position.take(transition(11))).toBeNull();
    expect(position.take(bookmark(10))).toBeNull();
  });
});

describe("gap", () => {
  test("a gap between two transitions is found without a filter", () => {
    const position = following("POSITIONS", null);
    position.take(transition(11));
    expect(() => position.take(transition(13))).toThrow("Position 12 is missing.");
    expect(() => following("POSITIONS", null).take(transition(14))).toThrow("Positions 11 to 13 are missing.");
  });

  test("a gap before a bookmark is found", () => {
    expect(() => following("POSITIONS", null).take(bookmark(12))).toThrow("Positions 11 to 12 are missing.");
  });

  test("a gap in the sequence numbers of a node selected by ID is found, starting with its snapshot", () => {
    const position = following("SEQUENCES", null);
    expect(position.take(transition(15, 5))).not.toBeNull();
    expect(position.take(transition(90, 3, "another"))).not.toBeNull();
    expect(position.take(bookmark(200))).not.toBeNull();
    expect(() => position.take(transition(201, 7))).toThrow("Node n has transition 7 after 5.");
  });

  test("no gap is reported with a filter that nodes can start and stop matching", () => {
    const position = following("NONE", null);
    expect(position.take(transition(15, 9))).not.toBeNull();
    expect(position.take(transition(99, 20))).not.toBeNull();
  });

  test("transitions before the end of the snapshot are reported as a gap", () => {
    const position = createPosition("NONE", null);
    position.connect();
    expect(() => position.take(transition(11))).toThrow("before the snapshot was complete");
  });
});

test("a state of a later version of the service is passed on unchanged", () => {
  const later = "RESCUING" as NodeState;
  expect(following("NONE", null).take({ ...transition(11), to: later })).toMatchObject({
    transition: { to: later },
    node: { state: later },
  });
});

test("the proof of completeness depends on the filter", () => {
  const filters: readonly (NodeFilter | undefined)[] = [
    undefined,
    {},
    { ids: null },
    { ids: ["a"] },
    { ids: ["a"], maintenance: false },
    { states: ["ACTIVE"] },
  ];
  expect(filters.map(proofOf)).toEqual(["POSITIONS", "POSITIONS", "POSITIONS", "SEQUENCES", "NONE", "NONE"]);
});
