/**
 * The engine's own statements stay fast in a database that holds much finished work: their generic plans, which the
 * engine's connections use whatever the values are, find rows by index. A table that is read as a whole would make each
 * step of each run dearer with every run that has ended.
 */
import { afterAll, expect, test } from "vitest";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";

/** Of a larger table, even a poor plan would read only a part. */
const FINISHED = 10_000;
/** Enough that reading all of them is dearer than finding a few. */
const UNFINISHED = 100;

const statements = new Set<string>();
const ostler = await engineUnderTest({ onStatement: (text) => void statements.add(text.trim()) });
afterAll(() => ostler[Symbol.asyncDispose]());

/** Finished work of many nodes, two runs each, and unfinished work of some of them. */
async function fill(): Promise<void> {
  await ostler.test.sql.begin(async (sql) => {
    // Bypasses the rules for states and references: only the lookup of rows is tested.
    await sql`set local session_replication_role = replica`;
    await sql`create temporary table made on commit drop as select n, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid as id from generate_series(0, ${FINISHED - 1}) n`;
    await sql`
      insert into nodes (id, name, project, state, driver, borrowed, settings, labels, transition_count)
      select id, 'old-' || n, 'default', 'ACTIVE', 'fake', '{}', '{}', '{}', 1 from made`;
    await sql`insert into node_macs (mac, node_id, source) select 'mac-' || n, id, 'GIVEN' from made`;
    await sql`
      insert into node_identities (node_id, kind, value, text) select id, kind, n, n from made, unnest(array['CONTROLLER', 'UUID', 'SERIAL_NUMBER']) kind`;
    await sql`insert into node_secrets (node_id, secrets) select id, '{}' from made`;
    await sql`
      insert into operations (id, kind, state, project, actor, options, on_failure, variables, total_count, finished_at)
      select id, 'POWER', 'SUCCEEDED', 'default', 'alice', '{}', 'STOP', '{}', 2, now() from made`;
    await sql`
      insert into runs (id, operation_id, node_id, node_name, ordinal, state, plan_hash, variables, target, moves_state, finished_at)
      select case when second then gen_random_uuid() else id end, id, id, 'old-' || n, 0, 'SUCCEEDED', 'x', '{}', 'ACTIVE', true, now()
      from made, (values (true), (false)) v(second)`;
    await sql`
      insert into attempts (run_id, step, number, label, driver, state, started_at, deadline_at, finished_at)
      select id, step, 1, 'deploy.write_image', 'fake', 'SUCCEEDED', now(), now(), now() from made, generate_series(0, 3) step`;
    await sql`insert into inventories (id, node_id, run_id, data) select gen_random_uuid(), id, id, '{}' from made`;
    await sql`
      insert into transitions (position, node_id, node_name, project, from_state, to_state, event, sequence, node_revision, actor, at)
      select n + 1, id, 'old-' || n, 'default', 'ACTIVE', 'ACTIVE', 'recover', 1, 1, 'alice', now() from made`;
    await sql`update feed_position set position = ${FINISHED}`;
    await sql`
      insert into runs (id, operation_id, node_id, node_name, ordinal, state, wait_reason, plan_hash, variables, target, moves_state)
      select gen_random_uuid(), id, id, 'old-' || n, 0, 'WAITING', 'MAINTENANCE', 'x', '{}', 'ACTIVE', true from made where n < ${UNFINISHED}`;
    await sql`
      insert into changes (position, subject, subject_id, event, fields, at) select n + 1, 'NODE', id, 'CHANGED', '{}', now() from made`;
    await sql`update change_position set position = ${FINISHED}`;
    await sql`
      insert into agent_sessions (id, node_id, run_id, secret_hash, medium, architecture, kernel_arguments, ended_at)
      select gen_random_uuid(), id, id, 'x', 'ISO', 'X64', '[]', case when n >= ${UNFINISHED} then now() end from made`;
  });
  await ostler.test.sql`vacuum analyze`;
}

/** Work of all kinds: what a run does at its steps, and what users ask of it. */
async function work(): Promise<void> {
  const gate = aGate();
  const { engine } = ostler;
  const ids = (nodes: readonly { readonly id: string }[]) => nodes.map(({ id }) => id);
  const nodes = await ostler.aNode().times(12);
  await ostler.operationEnds(await ostler.begin("COMMISSION", nodes, { idempotencyKey: "first" }));
  await ostler.begin("COMMISSION", nodes, { idempotencyKey: "first" });
  await ostler.operationEnds(await ostler.begin("UNDEPLOY", nodes, { maxParallel: 3, onFailure: "CLEAN_UP_ALL" }));
  await engine.setMaintenance(ALICE, { ids: ids(nodes.slice(0, 2)) }, "new disk");
  await engine.clearMaintenance(ALICE, { ids: ids(nodes.slice(0, 2)) });
  const gated = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.write_image": { gate: gate.name } })
    .times(4);
  const deployed = await ostler.begin("DEPLOY", gated);
  await gate.arrivals(4);
  await engine.abort(ALICE, { work: { ids: ids(gated.slice(0, 1)) } });
  await engine.stop(ALICE, { work: { ids: ids(gated.slice(1, 2)) } });
  gate.open();
  await ostler.operationEnds(deployed);
  await engine.restart(ALICE, { work: { ids: ids(gated.slice(1, 2)) } });
  const broken = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.write_image": { fail: "no luck" } })
    .times(3);
  await ostler.operationEnds(await ostler.begin("DEPLOY", broken, { onFailure: "CLEAN_UP_FAILED" }));
  const parked = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.write_image": { waitSeconds: 0.1 } })
    .times(3);
  await ostler.operationEnds(await ostler.begin("DEPLOY", parked));
  await engine.deleteNodes(ALICE, { ids: ids(broken) });
}

interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Index Cond"?: string;
  readonly "Join Filter"?: string;
  readonly Alias?: string;
  readonly Filter?: string;
  readonly Plans?: readonly PlanNode[];
}

/** The nodes of the generic plan of a statement. */
async function planOf(text: string): Promise<PlanNode[]> {
  const [row] = await ostler.test.sql
    .unsafe<{ "QUERY PLAN": readonly { readonly Plan: PlanNode }[] }[]>(`explain (generic_plan, format json) ${text}`)
    .simple();
  const found: PlanNode[] = [];
  const visit = (node: PlanNode) => {
    found.push(node);
    node.Plans?.forEach(visit);
  };
  for (const { Plan } of row?.["QUERY PLAN"] ?? []) visit(Plan);
  return found;
}

/** Tables that a plan reads as a whole; a partial index holds only what is unfinished. */
function readAsAWhole(plan: readonly PlanNode[], partial: ReadonlySet<string>): string[] {
  return plan
    .filter((node) => {
      const isScan = node["Node Type"] === "Seq Scan" || /^Index (Only )?Scan$/.test(node["Node Type"]);
      return isScan && node["Index Cond"] === undefined && !partial.has(node["Index Name"] ?? "");
    })
    .map((node) => node["Relation Name"] ?? "")
    .filter((table) => GROWING.includes(table));
}

/** Parts of statements that have one row. */
const ONE_ROW = new Set(["kept"]);

/**
 * Conditions that a plan compares for each pair of rows of two lists, or of a row and a value of an array: with ten
 * thousand nodes it would take minutes. PostgreSQL estimates an array that it does not know at ten values, and a list
 * in JSON at a hundred rows.
 */
function comparedInPairs(plan: readonly PlanNode[]): string[] {
  return plan.flatMap((node) => {
    const conditions = [node.Filter ?? "", node["Join Filter"] ?? ""].filter((text) =>
      /= ANY \(\$|= ANY \(\(\$/.test(text),
    );
    const isOfOneRow = node.Plans?.some(({ Alias = "" }) => ONE_ROW.has(Alias)) === true;
    const joined = node["Node Type"] === "Nested Loop" && !isOfOneRow ? (node["Join Filter"] ?? "") : "";
    return [...conditions, ...(joined === "" ? [] : [joined])];
  });
}

/** Tables that grow with the fleet or with time. */
const GROWING = ["nodes", "node_secrets", "operations", "runs", "attempts", "inventories", "transitions"];

test("statements of the engine read no table as a whole that holds finished work, and compare no lists in pairs [R-645]", async () => {
  await fill();
  await work();
  const texts = [...statements].filter((text) => /^(select|insert|update|delete|with)\b/i.test(text));
  expect(texts.length).toBeGreaterThan(60);
  const indexes = await ostler.test
    .sql`select indexrelid::regclass::text as name from pg_index where indpred is not null`;
  const partial = new Set(indexes.map(({ name }) => String(name)));
  const poor = new Map<string, string[]>();
  for (const text of texts) {
    const plan = await planOf(text);
    const found = [...readAsAWhole(plan, partial), ...comparedInPairs(plan)];
    if (found.length > 0) poor.set(text, found);
  }
  expect([...poor]).toEqual([]);
}, 120_000);
