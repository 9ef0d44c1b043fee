/** Waking many runs at once: nobody is left behind, nobody is worked on twice, and the look-up of their jobs has its index. */
import { afterAll, expect, test } from "vitest";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { unsound } from "../support/soundness.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());
const { sql } = ostler.test;

/** Work that waits for a call-back on every one of the nodes. */
async function parked(nodes: readonly TestNode[]): Promise<string> {
  const id = await ostler.begin("DEPLOY", nodes);
  await eventually("all wait for their call-back", async () =>
    (await ostler.runs(id)).every(({ state, waitReason }) => state === "WAITING" && waitReason === "CALLBACK"),
  );
  return id;
}

/** How many jobs each run of the operation has had so far, those that wait included. */
async function jobsOf(id: string): Promise<number[]> {
  const rows = await sql<
    { count: number }[]
  >`select (select count(*)::int from pgboss.job where name = 'runs' and singleton_key = runs.id::text) as count from runs where operation_id = ${id}`;
  return rows.map(({ count }) => count);
}

const callers = () =>
  ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.prepare": { callback: true } });

test("an abort of many parked runs ends every one of them with the job that it has, and gives one to those that have lost theirs", async () => {
  const nodes = await callers().times(60);
  const id = await parked(nodes);
  // The one that brought it there, and the one that it waits with.
  expect(await jobsOf(id)).toEqual(nodes.map(() => 2));
  const lost = (await ostler.runs(id)).slice(20, 30).map((run) => run.id);
  expect(
    (await sql`delete from pgboss.job where name = 'runs' and state = 'created' and singleton_key = any(${lost})`)
      .count,
  ).toBe(10);
  const answer = await ostler.engine.abort(ALICE, { work: { operationId: id } });
  expect(answer.results.map(({ effect }) => effect)).toEqual(nodes.map(() => "NOW"));
  expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  expect((await ostler.runs(id)).map(({ state }) => state)).toEqual(nodes.map(() => "ABORTED"));
  expect(await jobsOf(id)).toEqual(nodes.map(() => 2));
  expect(await unsound(ostler)).toEqual([]);
});

test("two who wake the same runs at the same moment leave each with one job", async () => {
  const nodes = await callers().times(30);
  const id = await parked(nodes);
  const half = nodes.slice(0, 20).map((node) => node.id);
  const other = nodes
    .slice(10)
    .map((node) => node.id)
    .toReversed();
  await Promise.all([half, other].map((ids) => ostler.engine.abort(ALICE, { work: { ids } })));
  expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  expect(await jobsOf(id)).toEqual(nodes.map(() => 2));
  expect(await unsound(ostler)).toEqual([]);
});

test("processes that start together on a queue without the index make it once, and a wake is served by it", async () => {
  await sql`drop index pgboss.ostler_job_by_key`;
  await Promise.all([1, 2, 3, 4].map(() => ostler.another({ started: false })));
  const found =
    await sql`select indexname from pg_indexes where schemaname = 'pgboss' and indexdef like '%(name, singleton_key)%state <= ''active''%' and tablename = 'job_common'`;
  expect(found).toHaveLength(1);
  await sql`set enable_seqscan = off`;
  const plan =
    await sql`explain select id from pgboss.job where name = 'runs' and singleton_key = 'of a run' and state < 'active'`;
  await sql`reset enable_seqscan`;
  expect(JSON.stringify(plan)).toContain("Index Cond: ((name = 'runs'::text) AND (singleton_key");
});
