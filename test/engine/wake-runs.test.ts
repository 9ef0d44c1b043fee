/** Waking many runs at once: each is woken, none has two workers, and the lookup of their jobs uses its index. */
import { afterAll, expect, test } from "vitest";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { unsound } from "../support/soundness.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());
const { sql } = ostler.test;

/** An operation whose runs all wait for a callback. */
async function parked(nodes: readonly TestNode[]): Promise<string> {
  const id = await ostler.begin("DEPLOY", nodes);
  await eventually("every run waits for its callback", async () =>
    (await ostler.runs(id)).every(({ state, waitReason }) => state === "WAITING" && waitReason === "CALLBACK"),
  );
  return id;
}

// Jobs that end are deleted.
await sql`create table stored_jobs (key text)`;
await sql`create function note_job() returns trigger language plpgsql as $$ begin insert into stored_jobs values (new.singleton_key); return null; end $$`;
await sql`create trigger note_job after insert on pgboss.job for each row execute function note_job()`;

/** Number of jobs that were stored for each run of the operation so far, in the order of the request. */
async function jobsOf(id: string): Promise<number[]> {
  const rows = await sql<
    { count: number }[]
  >`select (select count(*)::int from stored_jobs where key = runs.id::text) as count from runs where operation_id = ${id} order by ordinal`;
  return rows.map(({ count }) => count);
}

const callers = () =>
  ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.prepare": { callback: true } });

test("wake of many parked runs by an abort uses each run's present job, and creates one for runs that have lost theirs", async () => {
  const nodes = await callers().times(60);
  const id = await parked(nodes);
  // The job that brought it there, and the job it waits with.
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
  expect(await jobsOf(id)).toEqual(nodes.map((_, index) => (index >= 20 && index < 30 ? 3 : 2)));
  expect(await unsound(ostler)).toEqual([]);
});

test("wake of the same runs by two callers at the same moment leaves one job for each run", async () => {
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

test("wake is served by an index that processes starting together create once", async () => {
  await sql`drop index pgboss.ostler_job_by_key`;
  await Promise.all([1, 2, 3, 4].map(() => ostler.another({ started: false })));
  const found =
    await sql`select indexname from pg_indexes where schemaname = 'pgboss' and indexdef like '%(name, singleton_key)%state <= ''active''%' and tablename = 'job_common'`;
  expect(found).toHaveLength(1);
  // With few jobs every index costs the same.
  const undo = new Error("undo");
  const planWithManyJobs = async () => {
    let plan = "";
    await sql
      .begin(async (tx) => {
        await tx`insert into pgboss.job (name, singleton_key) select 'runs', n::text from generate_series(1, 2000) as n`;
        await tx`analyze pgboss.job_common`;
        const rows =
          await tx`explain select id from pgboss.job where name = 'runs' and singleton_key = 'of a run' and state < 'active'`;
        plan = JSON.stringify(rows);
        throw undo;
      })
      .catch((error: unknown) => {
        if (error !== undo) throw error;
      });
    return plan;
  };
  // PostgreSQL may not use a new index while a transaction of the server is older, also of another database
  // (`pg_index.indcheckxmin`).
  await eventually("the index serves it", async () =>
    (await planWithManyJobs()).includes("Index Cond: ((name = 'runs'::text) AND (singleton_key"),
  );
});
