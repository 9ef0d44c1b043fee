/** The map of the objects of a stream of changes, in the client. */
import { describe, expect, test } from "vitest";
import { createChangeMap } from "../../packages/client/src/index.ts";

interface Row {
  readonly id: string;
  readonly state: string;
}

const upserted = (cursor: string, node: Row) => ({ __typename: "NodeUpserted", cursor, node });
const left = (cursor: string, id: string) => ({ __typename: "NodeLeft", cursor, id });
const bookmark = (cursor: string, flags: { snapshotComplete?: boolean; caughtUp?: boolean } = {}) => ({
  __typename: "StreamBookmark",
  cursor,
  ...flags,
});
const reset = (code: string) => ({ __typename: "StreamReset", cursor: "c1", code });
const [a, b] = [
  { id: "a", state: "NEW" },
  { id: "b", state: "NEW" },
];

describe("change map", () => {
  test("change map begins with a snapshot, applies what follows, and resumes after its last cursor [R-634]", () => {
    const map = createChangeMap<Row>();
    expect(map.begin()).toEqual({ after: null, snapshot: true });
    map.take(upserted("c1", a));
    map.take(upserted("c1", b));
    expect([...map.items]).toEqual([]);
    map.take(bookmark("c1", { snapshotComplete: true }));
    expect([...map.items.keys()]).toEqual(["a", "b"]);
    map.take(bookmark("c1", { caughtUp: true }));
    expect(map.isLive).toBe(true);
    const before = map.items;
    map.take(upserted("c2", { ...a, state: "DONE" }));
    map.take(left("c3", "b"));
    map.take(left("c4", "never-known"));
    expect([...map.items.values()]).toEqual([{ id: "a", state: "DONE" }]);
    expect([...before.keys()]).toEqual(["a", "b"]);
    expect(map.begin()).toEqual({ after: "c4", snapshot: false });
    expect(map.isLive).toBe(false);
  });

  test("change map starts again after a snapshot that broke, and shows the old objects meanwhile [R-634]", () => {
    const map = createChangeMap<Row>();
    map.begin();
    map.take(upserted("c1", a));
    expect(map.begin()).toEqual({ after: null, snapshot: true });
    map.take(upserted("c2", b));
    map.take(bookmark("c2", { snapshotComplete: true }));
    expect([...map.items.keys()]).toEqual(["b"]);
    map.take(reset("CURSOR_EXPIRED"));
    expect(map.begin()).toEqual({ after: null, snapshot: true });
    map.take(upserted("c9", a));
    expect([...map.items.keys()]).toEqual(["b"]);
    map.take(bookmark("c9", { snapshotComplete: true }));
    expect([...map.items.keys()]).toEqual(["a"]);
  });

  test("change map continues after a shutdown, and takes no snapshot then [R-634]", () => {
    const map = createChangeMap<Row>();
    map.takeList([a], "7~c7");
    map.take(reset("SHUTTING_DOWN"));
    expect(map.begin()).toEqual({ after: "7~c7", snapshot: false });
  });

  test("change map begins with a list and the stream after it [R-634]", () => {
    const map = createChangeMap<Row>();
    map.takeList([a, b], "284-x~c993-y");
    expect(map.begin()).toEqual({ after: "284-x~c993-y", snapshot: false });
    map.take({ __typename: "OperationUpserted", cursor: "c994-y", operation: { id: "b", state: "DONE" } });
    expect(map.items.get("b")).toEqual({ id: "b", state: "DONE" });
    expect(map.cursor).toBe("c994-y");
  });
});
