/** The stream of changes of operations: what it emits, exact about what leaves a filter, and the cursors it refuses. */
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import type { OperationChangeItem } from "../../src/feed/kinds/operation-changes.ts";
import type { ChangeCursor } from "../../src/store/log/changes.ts";
import { newestChange, numberChanges } from "../../src/store/log/changes.ts";
import type { OperationFilter } from "../../src/store/operations/operation-filter.ts";
import { operationsByIds, updateOperation } from "../../src/store/operations/operations.ts";
import { operationsPage } from "../../src/store/operations/operation-lists.ts";
import type { OperationChange, OperationRow } from "../../src/store/operations/operations.ts";
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

const FAILURE = {
  code: "BACKEND_FAILED",
  message: "no disk",
  step: null,
  nodeId: null,
  nodeName: null,
  at: "2026-01-31T09:30:00.000Z",
  retryable: true,
} as const;
const isCaughtUp = (item: OperationChangeItem) => item.kind === "bookmark" && item.caughtUp;
async function newest(): Promise<ChangeCursor> {
  await numberChanges(reader, 100_000);
  return newestChange(reader);
}

/** The items of a stream from a cursor until it has caught up. */
async function since(after: ChangeCursor, filter?: OperationFilter) {
  await newest();
  const stream = feed.operationChanges({ after, snapshot: false, filter });
  const items = await takeUntil(stream, isCaughtUp);
  await stream.return?.();
  return items.flatMap((item) => {
    if (item.kind === "upserted") return { is: item.row.id, state: item.row.state, changed: item.changed };
    return item.kind === "left" ? { left: item.id } : [];
  });
}

/** An accepted operation on a new node; the engine does not work on it. */
async function accepted(): Promise<{ readonly id: string; readonly nodeId: string }> {
  const node = await ostler.aNode().made();
  return { id: await ostler.begin("MANAGE", [node]), nodeId: node.id };
}

describe("stream of changes of operations", () => {
  test("stream of changes of operations emits the beginning, the progress and the end of an operation [R-620]", async () => {
    const from = await newest();
    const { id, nodeId } = await accepted();
    expect(await since(from)).toEqual([{ is: id, state: "QUEUED", changed: null }]);
    const begun = await newest();
    await sql`update operations set state = 'RUNNING', started_at = now() where id = ${id}`;
    await sql`update runs set state = 'RUNNING' where node_id = ${nodeId}`;
    expect(await since(begun)).toEqual([{ is: id, state: "RUNNING", changed: ["STATE", "PROGRESS"] }]);
    const ended = await newest();
    await sql`update operations set state = 'SUCCEEDED', finished_at = now() where id = ${id}`;
    expect(await since(ended)).toEqual([{ is: id, state: "SUCCEEDED", changed: ["STATE"] }]);
  });

  test.each<[string, OperationChange, string[]]>([
    ["a halt of its waves", { waveState: "HALTED", waveReason: "two failed" }, ["WAVES"]],
    ["an abort", { interrupt: "ABORT", interruptBy: "alice" }, ["INTERRUPT"]],
    ["the first failure", { firstFailure: FAILURE }, ["FAILURE"]],
    ["another limit", { maxParallel: 7 }, ["OPTIONS"]],
  ])("stream of changes of operations emits %s as a field [R-620]", async (_what, change, changed) => {
    const { id } = await accepted();
    const from = await newest();
    await ostler.database.transaction((tx) => updateOperation(tx, id, change));
    expect(await since(from)).toEqual([{ is: id, state: "QUEUED", changed }]);
  });

  test("stream of changes of operations emits nothing of the progress within a step [R-620]", async () => {
    const { nodeId } = await accepted();
    const from = await newest();
    await sql`insert into change_inbox (subject, subject_id, node_id, operation_id, event, fields)
      select 'RUN', id, node_id, operation_id, 'CHANGED', '{PROGRESS}' from runs where node_id = ${nodeId}`;
    expect(await since(from)).toEqual([]);
  });

  test("stream of changes of operations emits that one left when it stops matching, also of a deleted cluster [R-621]", async () => {
    const name = `doomed-${randomUUID()}`;
    const { clusterId } = await ostler.engine.createCluster(ALICE, { name });
    const node = await ostler.aNode().inCluster(name).made();
    const asMember = await ostler.begin("MANAGE", [node]);
    const other = await accepted();
    await sql`update operations set cluster_id = ${clusterId} where id = ${other.id}`;
    const from = await newest();
    const matching = async (filter: OperationFilter) => (await operationsPage(reader, filter, { limit: 10 })).rows;
    const ofCluster = { clusterId: clusterId ?? "" };
    await sql`update operations set state = 'RUNNING' where id = ${asMember}`;
    expect(await since(from, { ...ofCluster, states: ["QUEUED"] })).toEqual([{ left: asMember }]);
    expect(await since(from, { ...ofCluster, states: ["RUNNING"] })).toEqual([
      { is: asMember, state: "RUNNING", changed: null },
    ]);
    expect(await since(from, { nodeId: other.nodeId })).toEqual([]);
    const between = await newest();
    await sql`delete from clusters where id = ${clusterId}`;
    expect(new Set(await since(between, ofCluster))).toEqual(new Set([{ left: asMember }, { left: other.id }]));
    expect(await matching(ofCluster)).toEqual([]);
  });

  test("stream of changes of operations with a filter that matches nothing emits bookmarks only [R-621]", async () => {
    const from = await newest();
    await accepted();
    expect(await since(from, { nodeId: randomUUID() })).toEqual([]);
    expect(await since(from, { states: [] })).toEqual([]);
  });

  test.each([
    ["of the future", (cursor: ChangeCursor) => ({ ...cursor, position: cursor.position + 1_000 })],
    ["of a restored database", (cursor: ChangeCursor) => ({ ...cursor, at: new Date(0) })],
  ])("stream of changes of operations from a cursor %s ends with CURSOR_EXPIRED [R-622]", async (_which, change) => {
    await accepted();
    const after = change(await newest());
    expect(await takeAll(feed.operationChanges({ after, snapshot: false }))).toMatchObject([
      { kind: "reset", reason: "CURSOR_EXPIRED" },
    ]);
  });

  test("stream of changes of operations makes a few items of many changes of runs [R-623]", async () => {
    const nodes = await ostler.aNode().times(3);
    const id = await ostler.begin("MANAGE", nodes);
    const stream = feed.operationChanges({ after: await newest(), snapshot: false, filter: { ids: [id] } });
    const seen: OperationChangeItem[] = [];
    const following = (async () => {
      for await (const item of stream) {
        seen.push(item);
        if (item.kind === "upserted" && item.row.reason === "last") return;
      }
    })();
    const startedAt = performance.now();
    for (let round = 0; round < 200; round += 1) {
      await sql`update runs set position = position + 1 where operation_id = ${id}`;
      await numberChanges(reader, 1_000);
      feed.notify();
    }
    await sql`update operations set state = 'RUNNING', reason = 'last' where id = ${id}`;
    feed.notify();
    await following;
    const upserted = seen.filter(({ kind }) => kind === "upserted");
    expect(upserted.length).toBeLessThanOrEqual(3 + (performance.now() - startedAt) / 200);
    expect(upserted.at(-1)).toMatchObject({ row: { state: "RUNNING" } });
  });
});

const FILTERS: readonly (OperationFilter | undefined)[] = [
  undefined,
  { states: ["QUEUED", "RUNNING"] },
  { states: ["FAILED"], text: "DISK" },
  { actors: ["alice"], kinds: ["MANAGE"], states: ["RUNNING"] },
  { actors: ["mallory"] },
  { createdSince: new Date(0), createdBefore: new Date("2999-01-01"), states: ["RUNNING", "FAILED"] },
];

describe("readers of operations with filters", () => {
  test("readers that are cut at any item have exactly the matching operations in the end, field by field [R-624]", async () => {
    const ids = (await Promise.all(Array.from({ length: 12 }, accepted))).map(({ id }) => id);
    const random = randomOfTest();
    const changes = [
      (id: string) =>
        sql`update operations set state = ${random.one(["QUEUED", "RUNNING", "FAILED"])}, revision = revision + 1 where id = ${id}`,
      (id: string) => sql`update operations set state = 'RUNNING', revision = revision + 1 where id <= ${id}`,
      (id: string) =>
        sql`update operations set first_failure = coalesce(first_failure, '{"message": "a Disk is broken"}'), revision = revision + 1 where id = ${id}`,
      (id: string) =>
        sql`update operations set max_parallel = coalesce(max_parallel, 0) + 1, revision = revision + 1 where id = ${id}`,
      (id: string) => sql`update runs set position = position + 1 where operation_id = ${id}`,
    ];
    let end = Number.POSITIVE_INFINITY;
    const followers = FILTERS.map(
      (filter) =>
        new Follower<OperationRow>(random, (opening, elsewhere) =>
          feed.operationChanges({ ...opening, filter }, elsewhere),
        ),
    );
    const following = Promise.all(followers.map((one) => one.follow(({ position }) => position >= end)));
    await changeAndCut(followers, { least: 200, cuts: 5 }, () => random.one(changes)(random.one(ids)));
    end = (await newest()).position;
    // Streams with a filter learn of the end by a change that they see, and those that match nothing by a cut.
    await sql`update operations set wave_reason = 'end', revision = revision + 1`;
    feed.notify();
    const pages = await Promise.all(FILTERS.map((filter) => operationsPage(reader, filter, { limit: 1_000 })));
    const matching = pages.map((page) => page.rows.map(({ id }) => id).toSorted());
    for (const [index, of] of matching.entries()) if (of.length === 0) followers[index]?.cut();
    await following;
    for (const [index, filter] of FILTERS.entries()) {
      const rows = followers[index]?.rows ?? new Map<string, OperationRow>();
      expect([...rows.keys()].toSorted(), JSON.stringify(filter)).toEqual(matching[index]);
      const found = new Map((await operationsByIds(reader, [...rows.keys()])).map((row) => [row.id, row]));
      for (const [id, row] of rows)
        expect({ ...row, waveReason: "" }).toEqual({ ...found.get(id), waveReason: "", revision: row.revision });
      if (filter === undefined) expect(followers[index]?.cuts).toBeGreaterThan(5);
    }
  });
});
