/** The stream of changes of nodes: no gap, exact about what leaves a filter, and never older than already seen. */
import { afterAll, describe, expect, test } from "vitest";
import type { NodeChangeItem } from "../../src/feed/kinds/node-changes.ts";
import type { ChangeCursor } from "../../src/store/log/changes.ts";
import { newestChange, numberChanges } from "../../src/store/log/changes.ts";
import type { NodeFilter } from "../../src/store/nodes/node-filter.ts";
import { nodeKeys, nodesByIds } from "../../src/store/nodes/nodes.ts";
import type { NodeRow } from "../../src/store/nodes/nodes.ts";
import { ALICE } from "../support/builders.ts";
import { feedUnderTest } from "../support/feed.ts";
import { Follower } from "../support/follower.ts";
import { randomOfTest } from "../support/random.ts";
import { takeAll, takeUntil } from "../support/service.ts";

const feed = await feedUnderTest();
afterAll(() => feed[Symbol.asyncDispose]());
const { ostler } = feed;
const { reader } = ostler.database;
const { sql } = ostler.test;

const isCaughtUp = (item: NodeChangeItem) => item.kind === "bookmark" && item.caughtUp;
/** The newest position, with everything numbered. */
async function newest(): Promise<ChangeCursor> {
  await numberChanges(reader, 100_000);
  return newestChange(reader);
}
const shown = (item: NodeChangeItem) => {
  if (item.kind === "upserted") return { is: item.row.name, changed: item.changed };
  return item.kind === "left" ? { left: item.name, deleted: item.deleted } : { mark: item.kind };
};
const changesIn = (items: readonly NodeChangeItem[]) =>
  items.filter(({ kind }) => kind === "upserted" || kind === "left").map(shown);

/** The items that a stream from a cursor sends until it has caught up. */
async function since(after: ChangeCursor, filter?: NodeFilter) {
  await newest();
  const stream = feed.changes({ after, snapshot: false, filter });
  const items = await takeUntil(stream, isCaughtUp);
  await stream.return?.();
  return changesIn(items);
}

describe("stream of changes", () => {
  test("stream of changes emits a change of any field, with the field and the node as it is then [R-538]", async () => {
    const node = await ostler.aNode().made();
    const stream = feed.changes({ after: await newest(), snapshot: false });
    await sql`update nodes set description = 'noisy fan', revision = revision + 1 where id = ${node.id}`;
    feed.notify();
    const items = await takeUntil(stream, ({ kind }) => kind === "upserted");
    await stream.return?.();
    expect(items.at(-1)).toMatchObject({
      kind: "upserted",
      row: { id: node.id, description: "noisy fan" },
      changed: ["DESCRIPTION"],
    });
  });

  test("stream of changes emits all changes of a node that it is behind with as one item [R-539]", async () => {
    const node = await ostler.aNode().made();
    const from = await newest();
    await sql`update nodes set description = 'a' where id = ${node.id}`;
    await sql`update nodes set presence = 'DISAPPEARED' where id = ${node.id}`;
    expect(await since(from)).toEqual([{ is: node.name, changed: ["PRESENCE", "DESCRIPTION"] }]);
  });

  test("stream of changes emits that a node left when it stops matching, also if it changed again since [R-540]", async () => {
    const node = await ostler.aNode().labelled({ rack: "7" }).made();
    const from = await newest();
    const filter = { labels: { rack: "7" }, presence: ["UNSEEN"] } as const;
    await sql`update nodes set labels = '{"rack": "8"}' where id = ${node.id}`;
    const between = await newest();
    await sql`update nodes set presence = 'DISAPPEARED' where id = ${node.id}`;
    expect(await since(from, filter)).toEqual([{ left: node.name, deleted: false }]);
    expect(await since(between, filter)).toEqual([]);
    await sql`update nodes set labels = '{"rack": "7"}', presence = 'UNSEEN' where id = ${node.id}`;
    expect(await since(from, filter)).toEqual([{ is: node.name, changed: ["PRESENCE", "LABELS"] }]);
    expect(await since(between, filter)).toEqual([{ is: node.name, changed: null }]);
  });

  test("stream of changes emits a deletion to readers whose filter the node matched, and to no others [R-540]", async () => {
    const node = await ostler.aNode().labelled({ doomed: "yes" }).made();
    const from = await newest();
    expect(await ostler.engine.deleteNodes(ALICE, { names: [node.name] })).toMatchObject({ refusals: [] });
    expect(await since(from, { labels: { doomed: "yes" } })).toEqual([{ left: node.name, deleted: true }]);
    expect(await since(from, { labels: { doomed: "no" } })).toEqual([]);
  });

  test("stream of changes with a filter by the time of the last change emits what may have left, whatever changed [R-540]", async () => {
    const node = await ostler.aNode().labelled({ aged: "yes" }).made();
    await sql`update nodes set updated_at = '2026-01-01' where id = ${node.id}`;
    const from = await newest();
    await sql`update nodes set description = 'noisy fan', updated_at = '2026-01-03' where id = ${node.id}`;
    const changedLater = { changedSince: new Date("2026-01-02") };
    const ofNode = { labels: { aged: "yes" } };
    expect(await since(from, { ...ofNode, not: changedLater })).toEqual([{ left: node.name, deleted: false }]);
    expect(await since(from, { ...ofNode, ...changedLater })).toEqual([{ is: node.name, changed: null }]);
    expect(await since(from, { labels: { aged: "no" }, not: changedLater })).toEqual([]);
    const between = await newest();
    await sql`update nodes set presence = 'DISAPPEARED', updated_at = '2026-01-04' where id = ${node.id}`;
    expect(await since(between, { not: { changedSince: new Date("2026-01-05") } })).toEqual([
      { is: node.name, changed: ["PRESENCE"] },
    ]);
    expect(await since(from, { ...ofNode, or: [{ not: changedLater }] })).toEqual([
      { left: node.name, deleted: false },
    ]);
  });

  test("stream of changes from a cursor of the future ends with CURSOR_EXPIRED [R-541]", async () => {
    const cursor = await newest();
    const after = { ...cursor, position: cursor.position + 1_000 };
    expect(await takeAll(feed.changes({ after, snapshot: false }))).toMatchObject([
      { kind: "reset", reason: "CURSOR_EXPIRED" },
    ]);
  });

  test("stream of changes from a cursor of a restored database ends with CURSOR_EXPIRED [R-541]", async () => {
    await ostler.aNode().made();
    const after = { ...(await newest()), at: new Date(0) };
    expect(await takeAll(feed.changes({ after, snapshot: false }))).toMatchObject([
      { kind: "reset", reason: "CURSOR_EXPIRED" },
    ]);
  });
});

const FILTERS: readonly (NodeFilter | undefined)[] = [
  undefined,
  { labels: { a: "1" } },
  { labels: { a: "1" }, presence: ["UNSEEN"] },
  { not: { labels: { a: "1" } } },
  { clusterName: "moving" },
  { inCluster: true, hostGroup: "2" },
  { or: [{ protected: true }, { retired: true }] },
];

describe("readers with filters", () => {
  test("readers that are cut at any item have exactly the matching nodes in the end, field by field [R-542]", async () => {
    const { clusterId } = await ostler.engine.createCluster(ALICE, { name: "moving" });
    const ids = (await ostler.aNode().times(12)).map(({ id }) => id);
    const random = randomOfTest();
    const digit = () => String(random.whole(0, 2));
    const changes = [
      (id: string) =>
        sql`update nodes set labels = ${sql.json({ a: digit() })}, revision = revision + 1 where id = ${id}`,
      (id: string) =>
        sql`update nodes set presence = ${random.one(["UNSEEN", "DISCOVERED"])}, revision = revision + 1 where id = ${id}`,
      (id: string) =>
        sql`update nodes set cluster_id = ${random.one([null, clusterId])}, revision = revision + 1 where id = ${id}`,
      (id: string) =>
        sql`update nodes set host_group = ${digit()}, is_protected = not is_protected, revision = revision + 1 where id = ${id}`,
      (id: string) =>
        sql`update nodes set retired_reason = ${random.one([null, "old"])}, revision = revision + 1 where id = ${id}`,
      () => sql`update clusters set name = ${random.one(["moving", "standing"])} where id = ${clusterId}`,
      (id: string) =>
        sql`update nodes set labels = ${sql.json({ a: digit() })}, host_group = ${digit()}, revision = revision + 1 where id <= ${id}`,
    ];
    let end = Number.POSITIVE_INFINITY;
    const followers = FILTERS.map(
      (filter) =>
        new Follower<NodeRow>(random, (opening, elsewhere) => feed.changes({ ...opening, filter }, elsewhere)),
    );
    const following = Promise.all(followers.map((one) => one.follow(({ position }) => position >= end)));
    for (let round = 0; round < 150; round += 1) await random.one(changes)(random.one(ids));
    end = (await newest()).position;
    // Streams with a filter learn of the end by a change that they see, and those that match nothing by a cut.
    await sql`update nodes set revision = revision + 1, description = 'end'`;
    feed.notify();
    const matching = await Promise.all(FILTERS.map((filter) => nodeKeys(reader, filter ?? {})));
    for (const [index, keys] of matching.entries()) if (keys.length === 0) followers[index]?.cut();
    await following;
    for (const [index, filter] of FILTERS.entries()) {
      const { rows: nodes, cuts } = followers[index] ?? { rows: new Map<string, NodeRow>(), cuts: 0 };
      const keys = matching[index] ?? [];
      expect([...nodes.keys()].toSorted(), JSON.stringify(filter)).toEqual(keys.map(({ id }) => id).toSorted());
      const rows = new Map(
        (
          await nodesByIds(
            reader,
            keys.map(({ id }) => id),
          )
        ).map((row) => [row.id, row]),
      );
      for (const [id, node] of nodes)
        expect({ ...node, description: "" }).toEqual({ ...rows.get(id), description: "", revision: node.revision });
      if (filter === undefined) expect(cuts).toBeGreaterThan(10);
    }
  });
});
