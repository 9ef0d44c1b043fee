/** Readers that are far behind: each object once for a window of the log, and nothing lost where a window is cut. */
import { afterAll, describe, expect, test } from "vitest";
import { clusterChanges } from "../../src/feed/kinds/cluster-changes.ts";
import { nodeChanges } from "../../src/feed/kinds/node-changes.ts";
import type { NodeChangeItem } from "../../src/feed/kinds/node-changes.ts";
import { operationChanges } from "../../src/feed/kinds/operation-changes.ts";
import type { ChangeStream, FeedParts } from "../../src/feed/change-stream.ts";
import type { WindowLimits } from "../../src/feed/change-windows.ts";
import type { ChangeCursor } from "../../src/store/log/changes.ts";
import { newestChange, numberChanges } from "../../src/store/log/changes.ts";
import type { ClusterFilter } from "../../src/store/nodes/cluster-filter.ts";
import { clustersPage } from "../../src/store/nodes/clusters.ts";
import type { ClusterRow } from "../../src/store/nodes/clusters.ts";
import type { NodeFilter } from "../../src/store/nodes/node-filter.ts";
import { nodeKeys } from "../../src/store/nodes/nodes.ts";
import type { NodeRow } from "../../src/store/nodes/nodes.ts";
import type { OperationFilter } from "../../src/store/operations/operation-filter.ts";
import { operationsPage } from "../../src/store/operations/operation-lists.ts";
import type { OperationRow } from "../../src/store/operations/operations.ts";
import { ALICE } from "../support/builders.ts";
import type { Chance } from "../durability/lab.ts";
import { feedUnderTest } from "../support/feed.ts";
import { Follower } from "../support/follower.ts";
import type { Opening } from "../support/follower.ts";
import { randomOfTest } from "../support/random.ts";
import { takeUntil } from "../support/service.ts";

const feed = await feedUnderTest();
afterAll(() => feed[Symbol.asyncDispose]());
const { ostler } = feed;
const { database } = ostler;
const { reader } = database;
const { sql } = ostler.test;

/** A process without rows in memory: every stream that is behind reads the table. */
const withoutMemory = { ...feed.tail.changes, recent: () => null };
const tail = new Proxy(feed.tail, {
  get: (of, name) => (name === "changes" ? withoutMemory : Reflect.get(of, name)),
});
const partsWith = (windows: WindowLimits): FeedParts => ({ database, tail, windows });
const LARGE: WindowLimits = { single: 0, positions: 10_000, rows: 1_000, objects: 1_000 };
const anyLimits = (random: Chance): WindowLimits => ({
  single: random.one([0, 0, 30]),
  positions: random.whole(5, 120),
  rows: random.whole(1, 20),
  objects: random.whole(1, 5),
});

async function newest(): Promise<ChangeCursor> {
  await numberChanges(reader, 100_000);
  return newestChange(reader);
}

const isCaughtUp = (item: { readonly kind: string; readonly caughtUp?: boolean }) =>
  item.kind === "bookmark" && item.caughtUp === true;

/** The items of a reader from a cursor until it has caught up. */
async function itemsSince(after: ChangeCursor, filter?: NodeFilter, windows = LARGE) {
  await newest();
  const stream = nodeChanges(partsWith(windows), { after, snapshot: false, filter });
  const items = await takeUntil(stream, isCaughtUp);
  await stream.return?.();
  return items.flatMap((item) => (item.kind === "upserted" || item.kind === "left" ? item : []));
}

const shown = (item: NodeChangeItem) => {
  if (item.kind === "upserted") return { is: item.row.name, changed: item.changed };
  return item.kind === "left" ? { left: item.name } : { mark: item.kind };
};

const setLabels = (id: string, labels: Readonly<Record<string, string>>) =>
  sql`update nodes set labels = ${sql.json(labels)}, revision = revision + 1 where id = ${id}`;
const setDescription = (id: string, text: string) =>
  sql`update nodes set description = ${text}, revision = revision + 1 where id = ${id}`;

describe("readers that are far behind", () => {
  test("reader that is 300 changes of three nodes behind receives three items, with all fields [R-699]", async () => {
    const nodes = await ostler.aNode().times(3);
    const from = await newest();
    for (let round = 0; round < 50; round += 1) {
      for (const { id } of nodes) await setDescription(id, `round ${round}`);
      for (const { id } of nodes) await setLabels(id, { round: String(round) });
    }
    const items = await itemsSince(from);
    expect(items.map(shown)).toEqual(nodes.map(({ name }) => ({ is: name, changed: ["LABELS", "DESCRIPTION"] })));
    expect(items.at(-1)?.cursor).toEqual(await newest());
  });

  test("reader that is far behind receives a node once, also if the window has more objects than a page [R-699]", async () => {
    const nodes = await ostler.aNode().times(7);
    const from = await newest();
    for (let round = 0; round < 5; round += 1) for (const { id } of nodes) await setDescription(id, `round ${round}`);
    const names = nodes.map(({ name }) => ({ is: name, changed: ["DESCRIPTION"] }));
    for (const limits of [
      { ...LARGE, objects: 2 },
      { ...LARGE, rows: 3 },
      { ...LARGE, rows: 3, objects: 2 },
    ])
      expect((await itemsSince(from, undefined, limits)).map(shown)).toEqual(names);
    expect((await itemsSince(from, undefined, { ...LARGE, positions: 20 })).length).toBe(14);
  });

  test("reader that is far behind learns that a node left that matched for a moment only [R-700]", async () => {
    const [node, other, third] = await ostler.aNode().times(3);
    if (!node || !other || !third) throw new Error("There are three nodes.");
    const from = await newest();
    for (const one of [other, node, third]) await setLabels(one.id, { rack: "8" });
    await setLabels(node.id, { rack: "7" });
    await setLabels(node.id, { rack: "9", edit: "1" });
    for (const one of [other, third, node]) await setLabels(one.id, { rack: "9", edit: "2" });
    // A reader whose cursor is here may have read the node while it matched.
    expect((await itemsSince(from, { labels: { rack: "7" } })).map(shown)).toEqual([{ left: node.name }]);
    expect(await itemsSince(from, { labels: { rack: "6" } })).toEqual([]);
  });

  test("reader that is cut after any item of a window learns of each node that left [R-700]", async () => {
    const nodes = await ostler.aNode().labelled({ rack: "7" }).times(6);
    const filter = { labels: { rack: "7" } };
    const from = await newest();
    for (const [index, { id }] of nodes.entries())
      await setLabels(id, { rack: index % 2 === 0 ? "7" : "8", edit: "1" });
    for (const { id } of nodes.toReversed()) await setDescription(id, "changed again");
    const all = await itemsSince(from, filter, { ...LARGE, objects: 4 });
    expect(all.map(shown)).toEqual(
      nodes.map(({ name }, index) =>
        index % 2 === 0 ? { is: name, changed: ["LABELS", "DESCRIPTION"] } : { left: name },
      ),
    );
    const idOf = (item: (typeof all)[number]) => (item.kind === "left" ? item.id : item.row.id);
    for (const [index, { cursor }] of all.entries()) {
      const received = [...all.slice(0, index + 1), ...(await itemsSince(cursor, filter))];
      expect(new Set(received.map(idOf))).toEqual(new Set(nodes.map(({ id }) => id)));
    }
  });
});

/** Objects of one kind that change, and what readers with filters have of them in the end. */
interface World<Row extends { readonly id: string; readonly revision: number }, Filter> {
  readonly filters: readonly (Filter | undefined)[];
  readonly open: (
    parts: FeedParts,
    request: Opening & { readonly filter: Filter | undefined },
  ) => ChangeStream<Row, string>;
  readonly change: () => PromiseLike<unknown>;
  readonly matching: (filter: Filter | undefined) => Promise<readonly { readonly id: string }[]>;
}

/** Readers read a few items, with windows of any size, while the objects change on, and catch up in the end. */
async function converge<Row extends { readonly id: string; readonly revision: number }, Filter>(
  random: Chance,
  { filters, open, change, matching }: World<Row, Filter>,
): Promise<void> {
  const followers = filters.map((filter) => {
    const opened = (opening: Opening) => open(partsWith(anyLimits(random)), { ...opening, filter });
    return new Follower<Row>(random, opened);
  });
  for (let round = 0; round < 6; round += 1) {
    for (let index = random.whole(1, 40); index > 0; index -= 1) await change();
    await newest();
    for (const follower of followers) {
      let left = random.whole(0, 10);
      await follower.follow((_cursor, hasAll) => {
        left = hasAll ? 0 : left;
        return (left -= 1) < 0;
      });
    }
  }
  const { position } = await newest();
  for (const [index, filter] of filters.entries()) {
    const follower = followers[index];
    await follower?.follow((cursor) => cursor.position >= position);
    const ids = (await matching(filter)).map(({ id }) => id);
    expect([...(follower?.rows.keys() ?? [])].toSorted(), JSON.stringify(filter)).toEqual(ids.toSorted());
  }
}

describe("readers that are behind, with any windows, cuts and filters", () => {
  test("nodes: they have exactly the matching ones in the end, and none goes back [R-700]", async () => {
    const random = randomOfTest();
    const { clusterId } = await ostler.engine.createCluster(ALICE, { name: "moving" });
    const ids = (await ostler.aNode().times(8)).map(({ id }) => id);
    const digit = () => String(random.whole(0, 2));
    const set = (id: string, columns: Readonly<Record<string, unknown>>) =>
      sql`update nodes set ${sql(columns)}, revision = revision + 1 where id = ${id}`;
    const changes = [
      (id: string) => setLabels(id, random.often(0.5) ? { a: digit() } : { a: digit(), b: digit() }),
      (id: string) => set(id, { cluster_id: random.one([null, clusterId]) }),
      (id: string) => set(id, { host_group: digit(), is_protected: random.often(0.5) }),
      (id: string) => set(id, { retired_reason: random.one([null, "old"]), name: `${random.one(["x", "y"])}-${id}` }),
      (id: string) => setDescription(id, digit()),
      () => sql`update clusters set name = ${random.one(["moving", "standing"])} where id = ${clusterId}`,
    ];
    await converge<NodeRow, NodeFilter>(random, {
      filters: [
        undefined,
        { labels: { a: "1" } },
        { labelKeys: ["b"], not: { hostGroup: "0" } },
        { not: { labels: { a: "1", b: "1" } } },
        { clusterName: "moving" },
        { or: [{ protected: true, name: { contains: "x" } }, { retired: true }] },
      ],
      open: nodeChanges,
      change: () => random.one(changes)(random.one(ids)),
      matching: (filter) => nodeKeys(reader, filter ?? {}),
    });
  });

  test("operations: they have exactly the matching ones in the end, and none goes back [R-700]", async () => {
    const random = randomOfTest();
    const ids: string[] = [];
    for (const node of await ostler.aNode().times(6)) ids.push(await ostler.begin("MANAGE", [node]));
    const set = (id: string, columns: Readonly<Record<string, unknown>>) =>
      sql`update operations set ${sql(columns)}, revision = revision + 1 where id = ${id}`;
    const changes = [
      (id: string) => set(id, { state: random.one(["QUEUED", "RUNNING", "FAILED"]) }),
      (id: string) => set(id, { max_parallel: random.whole(1, 9) }),
      (id: string) => sql`update runs set position = position + 1 where operation_id = ${id}`,
    ];
    await converge<OperationRow, OperationFilter>(random, {
      filters: [undefined, { states: ["RUNNING"] }, { states: ["QUEUED", "FAILED"], actors: ["alice"] }],
      open: operationChanges,
      change: () => random.one(changes)(random.one(ids)),
      matching: async (filter) => (await operationsPage(reader, filter, { limit: 1_000 })).rows,
    });
  });

  test("clusters: they have exactly the matching ones in the end, and none goes back [R-700]", async () => {
    const random = randomOfTest();
    const ids: string[] = [];
    for (const name of ["one", "two", "three", "four"])
      ids.push((await ostler.engine.createCluster(ALICE, { name })).clusterId ?? "");
    const nodes = (await ostler.aNode().times(3)).map(({ id }) => id);
    const changes = [
      (id: string) =>
        sql`update clusters set name = ${random.one(["x", "y"])} || id, revision = revision + 1 where id = ${id}`,
      (id: string) => sql`update nodes set cluster_id = ${id} where id = ${random.one(nodes)}`,
    ];
    await converge<ClusterRow, ClusterFilter>(random, {
      filters: [undefined, { name: { startsWith: "x" } }, { name: { startsWith: "y" } }],
      open: clusterChanges,
      change: () => random.one(changes)(random.one(ids)),
      matching: async (filter) => (await clustersPage(reader, filter, { limit: 1_000 })).rows,
    });
  });
});
