/**
 * The parts of pg-boss's tables that src/store/jobs.ts relies on. When a test here fails after an upgrade, read the SQL
 * of that file again, run test/engine/{takeover,wake-runs,replicas,timeouts}.test.ts, and then change the expectation.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { JOB_COLUMNS, JOB_STATES, hasOtherJob, keysWithJob } from "../../src/store/jobs.ts";
import type { ExecuteOnQueue } from "../../src/store/jobs.ts";
import { engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest } from "../support/builders.ts";

let ostler: EngineUnderTest;
beforeAll(async () => {
  ostler = await engineUnderTest({ started: false });
});
afterAll(() => ostler[Symbol.asyncDispose]());

const execute: ExecuteOnQueue = async (text, values = []) => [
  ...(await ostler.test.sql.unsafe(text, values as Parameters<typeof ostler.test.sql.unsafe>[1])),
];

test("the SQL on the tables of pg-boss was checked with the installed version", () => {
  const manifest = new URL("../../node_modules/pg-boss/package.json", import.meta.url);
  expect(JSON.parse(readFileSync(manifest, "utf8"))).toMatchObject({ version: "12.35.0" });
});

test("pgboss.job has the columns that the SQL uses, with their types", async () => {
  const rows = await execute(
    `select column_name as name, udt_name as type from information_schema.columns
     where table_schema = 'pgboss' and table_name = 'job' and column_name = any($1)`,
    [[...JOB_COLUMNS]],
  );
  expect(Object.fromEntries(rows.map(({ name, type }) => [name, type]))).toEqual({
    id: "uuid",
    name: "text",
    singleton_key: "text",
    state: "job_state",
    priority: "int4",
    retry_count: "int4",
    created_on: "timestamptz",
    start_after: "timestamptz",
    keep_until: "timestamptz",
    heartbeat_on: "timestamptz",
  });
});

test("states of jobs are ordered: waiting, then active, then ended", async () => {
  const [row] = await execute("select enum_range(null::pgboss.job_state)::text[] as states");
  expect(row?.["states"]).toEqual([...JOB_STATES]);
});

test("pgboss.job_now is the time of the database", async () => {
  const [row] = await execute("select abs(extract(epoch from pgboss.job_now() - now()))::float8 as seconds");
  expect(Number(row?.["seconds"])).toBeLessThan(5);
});

test("the indexes on jobs exist after the first start", async () => {
  const rows = await execute(
    "select indexname as name from pg_indexes where schemaname = 'pgboss' and indexname like 'ostler%'",
  );
  expect(rows.map(({ name }) => name).toSorted((a, b) => String(a).localeCompare(String(b)))).toEqual([
    "ostler_job_by_key",
    "ostler_job_lost",
  ]);
});

test("keysWithJob finds waiting and active jobs of one queue, and no ended ones", async () => {
  await execute(
    `insert into pgboss.job (name, singleton_key, state) values
       ('runs', 'waits', 'created'), ('runs', 'failed-once', 'retry'), ('runs', 'works', 'active'),
       ('runs', 'ended', 'completed'), ('timers', 'elsewhere', 'created')`,
  );
  const found = await keysWithJob(execute, "runs", ["waits", "failed-once", "works", "ended", "elsewhere", "unknown"]);
  expect([...found].toSorted()).toEqual(["failed-once", "waits", "works"]);
});

test("hasOtherJob finds another waiting or active job of the key, and no ended one", async () => {
  const rows = await execute(
    `insert into pgboss.job (name, singleton_key, state) values
       ('runs', 'with-waiting', 'active'), ('runs', 'with-waiting', 'created'), ('runs', 'with-active', 'created'),
       ('runs', 'with-active', 'active'), ('runs', 'with-ended', 'active'), ('runs', 'with-ended', 'completed')
     returning singleton_key as key, id`,
  );
  const found = await ostler.database.transaction(async (tx) => {
    const keys: string[] = [];
    for (const [key, [first]] of Map.groupBy(rows, (row) => String(row["key"])))
      if (first && (await hasOtherJob(tx, "runs", { key, id: String(first["id"]) }))) keys.push(key);
    return keys;
  });
  expect(found).toEqual(["with-waiting", "with-active"]);
});
