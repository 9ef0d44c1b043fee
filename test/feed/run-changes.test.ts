/** The streams of changes of runs and of clusters: what they emit, and that a reader who is cut has it all. */
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import type { ChangeStream, ChangeStreamItem } from "../../src/feed/change-stream.ts";
import type { ChangeCursor } from "../../src/store/log/changes.ts";
import { newestChange, numberChanges } from "../../src/store/log/changes.ts";
import type { ClusterFilter } from "../../src/store/nodes/cluster-filter.ts";
import { clustersPage } from "../../src/store/nodes/clusters.ts";
import type { ClusterRow } from "../../src/store/nodes/clusters.ts";
import { runsByIds } from "../../src/store/runs/runs.ts";
import type { RunRow } from "../../src/store/runs/runs.ts";
import { ALICE } from "../support/builders.ts";
import { feedUnderTest } from "../support/feed.ts";
import { Follower, changeAndCut } from "../support/follower.ts";
import { randomOfTest } from "../support/random.ts";
import { takeAll, takeUntil } from "../support/service.ts";

const feed = await feedUnderTest();
afterAll(() => feed[Symbol.asyncDispose]());
const { ostler } = feed;
const { reader } = ostler.database;
const { sql } = ostler.test;

async function newest(): Promise<ChangeCursor> {
  await numberChanges(reader, 100_000);
  return newestChange(reader);
}

/** The items of a stream until it has caught up. */
async function itemsOf<Row extends { readonly id: string }, Field>(stream: ChangeStream<Row, Field>) {
  await newest();
  const isCaughtUp = (item: ChangeStreamItem<Row, Field>) => item.kind === "bookmark" && item.caughtUp;
  const items = await takeUntil(stream, isCaughtUp);
  await stream.return?.();
  return items.flatMap((item) => {
    if (item.kind === "upserted") return { is: item.row.id, changed: item.changed };
    return item.kind === "left" ? { left: item.id, name: item.name, deleted: item.deleted } : [];
  });
}

const CURSORS: readonly [string, (cursor: ChangeCursor) => ChangeCursor][] = [
  ["of the future", (cursor) => ({ ...cursor, position: cursor.position + 1_000 })],
  ["of a restored database", (cursor) => ({ ...cursor, at: new Date(0) })],
];

describe("stream of changes of runs", () => {
  const runsSince = (after: ChangeCursor, of: { operationId: string } | { nodeId: string }) =>
    itemsOf(feed.runChanges({ after, snapshot: false, of }));

  test("stream of changes of runs emits the runs of one operation or of one node, each with its fields [R-625]", async () => {
    const from = await newest();
    const [one, two] = await ostler.aNode().times(2);
    if (!one || !two) throw new Error("There are no nodes.");
    const operationId = await ostler.begin("MANAGE", [one, two]);
    const [first] = await sql`select id from runs where operation_id = ${operationId} and node_id = ${one.id}`;
    const run = String(first?.["id"]);
    expect(await runsSince(from, { operationId })).toHaveLength(2);
    expect(await runsSince(from, { nodeId: one.id })).toEqual([{ is: run, changed: null }]);
    const begun = await newest();
    await sql`update runs set state = 'RUNNING', position = 1 where id = ${run}`;
    await sql`insert into change_inbox (subject, subject_id, node_id, operation_id, event, fields)
      values ('RUN', ${run}, ${one.id}, ${operationId}, 'CHANGED', '{PROGRESS}')`;
    const expected = [{ is: run, changed: ["STATE", "STEP", "PROGRESS"] }];
    expect(await runsSince(begun, { operationId })).toEqual(expected);
    expect(await runsSince(begun, { nodeId: one.id })).toEqual(expected);
    expect(await runsSince(begun, { nodeId: two.id })).toEqual([]);
    expect(await itemsOf(feed.runChanges({ snapshot: true, of: { nodeId: one.id } }))).toEqual([
      { is: run, changed: null },
    ]);
  });

  test.each(CURSORS)(
    "stream of changes of runs from a cursor %s ends with CURSOR_EXPIRED [R-627]",
    async (_which, change) => {
      await ostler.aNode().made();
      const after = change(await newest());
      expect(await takeAll(feed.runChanges({ after, snapshot: false, of: { nodeId: randomUUID() } }))).toMatchObject([
        { kind: "reset", reason: "CURSOR_EXPIRED" },
      ]);
    },
  );

  test("readers of runs that are cut at any item have them all in the end, field by field [R-626]", async () => {
    const nodes = await ostler.aNode().times(8);
    const operationId = await ostler.begin("MANAGE", nodes);
    let end = Number.POSITIVE_INFINITY;
    const follower = new Follower<RunRow>(randomOfTest(), (opening, elsewhere) =>
      feed.runChanges({ ...opening, of: { operationId } }, elsewhere),
    );
    const following = follower.follow(({ position }) => position >= end);
    let round = 0;
    await changeAndCut([follower], { least: 100, cuts: 5 }, () => {
      const node = nodes[(round += 1) % nodes.length];
      return sql`update runs set position = position + 1, revision = revision + 1 where node_id = ${node?.id ?? ""}`;
    });
    end = (await newest()).position;
    await sql`update runs set wait_reason = 'SLOT', revision = revision + 1 where operation_id = ${operationId}`;
    feed.notify();
    await following;
    const found = new Map((await runsByIds(reader, [...follower.rows.keys()])).map((row) => [row.id, row]));
    expect(found.size).toBe(8);
    expect(follower.cuts).toBeGreaterThan(5);
    for (const [id, row] of follower.rows)
      expect({ ...row, waitReason: null }).toEqual({ ...found.get(id), waitReason: null, revision: row.revision });
  });
});

describe("stream of changes of clusters", () => {
  const clustersSince = (after: ChangeCursor, filter?: ClusterFilter) =>
    itemsOf(feed.clusterChanges({ after, snapshot: false, filter }));
  async function aCluster(): Promise<{ readonly id: string; readonly name: string }> {
    const name = `cluster-${randomUUID()}`;
    const { clusterId } = await ostler.engine.createCluster(ALICE, { name });
    return { id: clusterId ?? "", name };
  }

  test("stream of changes of clusters emits name, settings, members and the state that follows from nodes [R-628]", async () => {
    const from = await newest();
    const { id, name } = await aCluster();
    expect(await clustersSince(from)).toEqual([{ is: id, changed: null }]);
    const made = await newest();
    await ostler.engine.updateCluster(ALICE, { id }, { variables: { dns: "192.0.2.1" } });
    expect(await clustersSince(made)).toEqual([{ is: id, changed: ["SETTINGS", "PENDING_CHANGES"] }]);
    const set = await newest();
    const node = await ostler.aNode().inCluster(name).made();
    expect(await clustersSince(set)).toEqual([{ is: id, changed: ["MEMBERS", "STATE", "PENDING_CHANGES"] }]);
    const joined = await newest();
    await sql`update nodes set description = 'not of the cluster' where id = ${node.id}`;
    expect(await clustersSince(joined)).toEqual([]);
    await ostler.begin("MANAGE", [node]);
    expect(await clustersSince(joined)).toEqual([{ is: id, changed: ["STATE", "PENDING_CHANGES"] }]);
    const working = await newest();
    await sql`update clusters set name = ${`${name}-2`} where id = ${id}`;
    expect(await clustersSince(working)).toEqual([{ is: id, changed: ["NAME"] }]);
  });

  test("stream of changes of clusters emits what changes their pending changes: flags, images, runbooks, the site [R-1058]", async () => {
    const { id, name } = await aCluster();
    const node = await ostler.aNode().inCluster(name).made();
    const seen = async (edit: () => Promise<unknown>) => {
      const from = await newest();
      await edit();
      return (await clustersSince(from)).filter((item) => "is" in item && item.is === id);
    };
    const pending = [{ is: id, changed: ["PENDING_CHANGES"] }];
    expect(await seen(() => sql`update nodes set host_group = 'db' where id = ${node.id}`)).toEqual(pending);
    expect(await seen(() => ostler.engine.setRetired(ALICE, { ids: [node.id] }, "old"))).toEqual(pending);
    const steps = [{ interface: "deploy", name: "configure", args: {} } as const];
    expect(
      await seen(() => ostler.engine.createRunbook(ALICE, { name: randomUUID(), phase: "deploy", steps })),
    ).toEqual(pending);
    const policy = { steps: [{ step: "deploy.configure", priority: 15 }] };
    expect(await seen(() => ostler.engine.updateSite(ALICE, policy))).toEqual(pending);
  });

  test("stream of changes of clusters emits both clusters of a node that moves, and that of a deleted node [R-628]", async () => {
    const [one, two] = [await aCluster(), await aCluster()];
    const node = await ostler.aNode().inCluster(one.name).made();
    const from = await newest();
    await sql`update nodes set cluster_id = ${two.id} where id = ${node.id}`;
    const changed = ["MEMBERS", "STATE", "PENDING_CHANGES"];
    expect(await clustersSince(from)).toEqual([
      { is: one.id, changed },
      { is: two.id, changed },
    ]);
    const moved = await newest();
    expect(await ostler.engine.deleteNodes(ALICE, { names: [node.name] })).toMatchObject({ refusals: [] });
    expect(await clustersSince(moved)).toEqual([{ is: two.id, changed }]);
  });

  test("stream of changes of clusters emits that one left: another name, or deleted [R-629]", async () => {
    const { id, name } = await aCluster();
    const other = await aCluster();
    const from = await newest();
    const filter = { name: { eq: name } };
    await sql`update clusters set name = ${`${name}-2`} where id = ${id}`;
    expect(await clustersSince(from, filter)).toEqual([{ left: id, name: `${name}-2`, deleted: false }]);
    await sql`update clusters set name = ${name} where id = ${id}`;
    expect(await clustersSince(from, filter)).toEqual([{ is: id, changed: null }]);
    const renamed = await newest();
    await ostler.engine.deleteCluster(ALICE, { id }, undefined);
    await ostler.engine.deleteCluster(ALICE, { id: other.id }, undefined);
    expect(await clustersSince(renamed, filter)).toEqual([{ left: id, name, deleted: true }]);
    expect(await clustersSince(renamed, { ids: [randomUUID()] })).toEqual([]);
  });

  test.each(CURSORS)(
    "stream of changes of clusters from a cursor %s ends with CURSOR_EXPIRED [R-630]",
    async (_which, change) => {
      await ostler.aNode().made();
      const after = change(await newest());
      expect(await takeAll(feed.clusterChanges({ after, snapshot: false }))).toMatchObject([
        { kind: "reset", reason: "CURSOR_EXPIRED" },
      ]);
    },
  );

  test("readers of clusters that are cut at any item have exactly the matching ones in the end, field by field [R-631]", async () => {
    const random = randomOfTest();
    const made = await Promise.all(Array.from({ length: 6 }, aCluster));
    const node = await ostler.aNode().made();
    const filters: readonly (ClusterFilter | undefined)[] = [
      undefined,
      { name: { contains: "-EVEN" } },
      { name: { startsWith: "cluster-" } },
    ];
    const changes = [
      (id: string) => sql`update clusters set name = id || '-even', revision = revision + 1 where id = ${id}`,
      (id: string) => sql`update clusters set name = 'cluster-' || id, revision = revision + 1 where id = ${id}`,
      (id: string) =>
        sql`update clusters set variables = ${sql.json({ x: random.next() })}, revision = revision + 1 where id = ${id}`,
      (id: string) => sql`update nodes set cluster_id = ${id} where id = ${node.id}`,
    ];
    let end = Number.POSITIVE_INFINITY;
    const followers = filters.map(
      (filter) =>
        new Follower<ClusterRow>(random, (opening, elsewhere) =>
          feed.clusterChanges({ ...opening, filter }, elsewhere),
        ),
    );
    const following = Promise.all(followers.map((one) => one.follow(({ position }) => position >= end)));
    await changeAndCut(followers, { least: 120, cuts: 5 }, () => random.one(changes)(random.one(made).id));
    await ostler.engine.deleteCluster(ALICE, { id: made[0]?.id ?? "" }, undefined);
    end = (await newest()).position;
    // Streams with a filter learn of the end by a change that they see, and those that match nothing by a cut.
    await sql`update clusters set variables = '{"end": true}', revision = revision + 1`;
    feed.notify();
    const pages = await Promise.all(filters.map((filter) => clustersPage(reader, filter, { limit: 1_000 })));
    for (const [index, { rows }] of pages.entries()) if (rows.length === 0) followers[index]?.cut();
    await following;
    for (const [index, filter] of filters.entries()) {
      const matching = pages[index]?.rows ?? [];
      const rows = followers[index]?.rows ?? new Map<string, ClusterRow>();
      const shown = (row: ClusterRow) => ({ ...row, variables: {}, revision: 0 });
      const sorted = [...rows.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
      expect(sorted.map(shown), JSON.stringify(filter)).toEqual(matching.map(shown));
      if (filter === undefined) expect(followers[index]?.cuts).toBeGreaterThan(5);
    }
  });
});
