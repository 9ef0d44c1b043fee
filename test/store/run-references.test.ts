/** A run refers to an operation and a plan that are stored, as with foreign keys. */
import { randomUUID } from "node:crypto";
import postgres from "postgres";
import type { Sql, TransactionSql } from "postgres";
import { afterAll, beforeEach, expect, test } from "vitest";
import { violatedConstraint } from "../../src/store/postgres/connection-errors.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";

const OPERATION = "runs_operation_id_operations_id_fkey";
const PLAN = "runs_plan_hash_plans_hash_fkey";

const database = await testDatabase();
afterAll(() => database[Symbol.asyncDispose]());
const { sql } = database;

let operationId: string;
let plan: string;
beforeEach(async () => {
  operationId = randomUUID();
  plan = randomUUID();
  await sql`
    insert into operations (id, kind, state, project, actor, options, on_failure, variables, total_count)
    values (${operationId}, 'MANAGE', 'QUEUED', 'default', 'alice', '{}', 'STOP', '{}', 1)`;
  await sql`insert into plans (hash, plan) values (${plan}, '{}')`;
});

/** Inserts runs by one statement, each with an operation and a plan. */
async function insertRuns(
  tx: Sql | TransactionSql,
  ...references: readonly (readonly [string, string])[]
): Promise<unknown> {
  return tx`
    insert into runs (id, operation_id, node_id, node_name, ordinal, state, plan_hash, variables, target, moves_state)
    select gen_random_uuid(), operation::uuid, gen_random_uuid(), 'n', 0, 'QUEUED', hash, '{}', 'ACTIVE', true
    from unnest(${references.map(([id]) => id)}::text[], ${references.map(([, hash]) => hash)}::text[]) as given(operation, hash)`;
}

/** The constraint that a statement violates. */
async function violated(statement: Promise<unknown>): Promise<string | undefined> {
  return statement.then(
    () => undefined,
    (error: unknown) => violatedConstraint(error),
  );
}

test("new runs of which one has no stored operation or plan are refused, all of the statement", async () => {
  expect(await violated(insertRuns(sql, [operationId, plan], [randomUUID(), plan]))).toBe(OPERATION);
  expect(await violated(insertRuns(sql, [operationId, plan], [operationId, "other"]))).toBe(PLAN);
  expect(await sql`select from runs where operation_id = ${operationId}`).toHaveLength(0);
  expect(await violated(insertRuns(sql, [operationId, plan], [operationId, plan]))).toBeUndefined();
});

test("operation or plan that a run refers to is not deleted, and another one is", async () => {
  const remove = (tx: Sql) => [
    tx`delete from operations where id = ${operationId}`,
    tx`delete from plans where hash = ${plan}`,
  ];
  await insertRuns(sql, [operationId, plan]);
  expect(await Promise.all(remove(sql).map(violated))).toEqual([OPERATION, PLAN]);
  await sql`delete from runs where operation_id = ${operationId}`;
  expect(await Promise.all(remove(sql).map(violated))).toEqual([undefined, undefined]);
});

test("run keeps its operation and its plan, and these keep their keys", async () => {
  await insertRuns(sql, [operationId, plan]);
  expect(
    await Promise.all(
      [
        sql`update runs set operation_id = gen_random_uuid() where operation_id = ${operationId}`,
        sql`update runs set plan_hash = 'other' where operation_id = ${operationId}`,
        sql`update operations set id = gen_random_uuid() where id = ${operationId}`,
        sql`update plans set hash = 'other' where hash = ${plan}`,
      ].map(violated),
    ),
  ).toEqual(["runs_keep_references", "runs_keep_references", "operations_keep_id", "plans_keep_hash"]);
  await sql`update runs set operation_id = operation_id, plan_hash = plan_hash where operation_id = ${operationId}`;
});

test("deletion waits for a transaction that has inserted a run, and is refused after its commit", async () => {
  const other = postgres(database.url, { max: 1 });
  try {
    const [{ pid } = { pid: 0 }] = await other<{ pid: number }[]>`select pg_backend_pid() as pid`;
    let deletion: Promise<string | undefined> | undefined;
    await sql.begin(async (tx) => {
      await insertRuns(tx, [operationId, plan]);
      deletion = violated(other`delete from operations where id = ${operationId}`);
      await eventually("the deletion waits", async () => {
        const waiting = await tx`select from pg_locks where pid = ${pid} and not granted`;
        return waiting.length > 0;
      });
    });
    expect(await deletion).toBe(OPERATION);
  } finally {
    await other.end();
  }
});
