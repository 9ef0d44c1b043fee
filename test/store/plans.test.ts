/**
 * Lists stay fast with 100,000 nodes: the plans of every order and of the common filters read about as many rows as
 * they return, use an index, and sort no table. The tests check the rows that PostgreSQL reports as read, not the time.
 */
import { afterAll, describe, expect, test } from "vitest";
import type { NodeState } from "../../src/lifecycle/node-states.ts";
import { openDatabase } from "../../src/store/postgres/database.ts";
import type { Reader } from "../../src/store/postgres/database.ts";
import { COMPOSED_FIELDS } from "../../src/store/nodes/composed-fields.ts";
import { nodesJson } from "../../src/store/nodes/node-json.ts";
import { nodeCondition } from "../../src/store/nodes/node-filter.ts";
import { inventoriesPages, nodesPage, nodesPages, naturalKey } from "../../src/store/nodes/nodes.ts";
import type { NodeFilter } from "../../src/store/nodes/node-filter.ts";
import type { NodeOrder } from "../../src/store/nodes/nodes.ts";
import { operationsOfClusters, operationsOfNodes, operationsPage } from "../../src/store/operations/operation-lists.ts";
import type { PageRequest } from "../../src/store/postgres/pagination.ts";
import { attemptsPage } from "../../src/store/runs/attempt-history.ts";
import type { AttemptFilter } from "../../src/store/runs/attempt-history.ts";
import { runsPages } from "../../src/store/runs/runs.ts";
import {
  transitionsAfter,
  transitionsPage,
  transitionsOfNodes,
  transitionsOfOperations,
} from "../../src/store/log/transitions.ts";
import { testDatabase } from "../support/database.ts";

const COUNT = 100_000;
const PAGE = 50;
/**
 * Rows that a page may read: four for each of its own and for the surplus row. A page of a cluster's operations needs
 * them: it reads as many from each of the two lists, the operations of the second one to filter them, and the
 * operations that are left of both.
 */
const READ_MAX = 4 * (PAGE + 1);
/** Nodes of a cluster. */
const OF_CLUSTER = 1_000;

const own = await testDatabase();
const database = await openDatabase({ connection: own.connection, connectionsMax: 2 });
afterAll(async () => {
  await database[Symbol.asyncDispose]();
  await own[Symbol.asyncDispose]();
});

await own.sql.begin(async (sql) => {
  // Bypasses the rules for states and references: only the lookup of rows is tested.
  await sql`set local session_replication_role = replica`;
  await sql`create temporary table made on commit drop as select n, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid as id, '2026-01-01'::timestamptz + n * interval '1 second' as at from generate_series(0, ${COUNT - 1}) n`;
  await sql`insert into clusters (id, name, project, variables) select id, 'cluster-' || n, 'default', '{}' from made where n < ${COUNT / OF_CLUSTER}`;
  await sql`
    insert into nodes (id, name, project, state, driver, borrowed, settings, labels, cluster_id, transition_count, created_at, updated_at)
    select id, 'rack' || lpad((n / 40)::text, 4, '0') || '-u' || lpad((n % 40)::text, 2, '0'), 'default', case when n % 2500 = 0 then 'CLEAN_FAILED' when n % 3 = 0 then 'AVAILABLE' else 'ACTIVE' end, 'fake', '{}', '{}',
      jsonb_build_object('rack', (n / 40)::text, 'site', 'a'), ('00000000-0000-4000-8000-' || lpad((n % ${COUNT / OF_CLUSTER})::text, 12, '0'))::uuid, 1, at, '2026-06-01'::timestamptz + (n * 7919 % ${COUNT}) * interval '1 second'
    from made`;
  await sql`
    insert into operations (id, kind, state, project, actor, options, on_failure, variables, cluster_id, total_count, created_at, finished_at)
    select id, case when n % 5000 = 0 then 'DISCOVER' else 'POWER' end, case when n % 5000 = 1 then 'RUNNING' else 'SUCCEEDED' end, 'default', 'alice', '{}', 'STOP', '{}',
      ('00000000-0000-4000-8000-' || lpad((n % ${COUNT / OF_CLUSTER})::text, 12, '0'))::uuid, 1, at, case when n % 5000 = 1 then null else at end
    from made`;
  // As if the next cluster's operations had been requested for its nodes.
  await sql`
    insert into operation_clusters (cluster_id, operation_id, created_at)
    select ('00000000-0000-4000-8000-' || lpad(((n + 1) % ${COUNT / OF_CLUSTER})::text, 12, '0'))::uuid, id, at from made`;
  // Each node has a run of its own operation, and a run of the first operation, which has all nodes.
  await sql`
    insert into runs (id, operation_id, node_id, node_name, ordinal, state, plan_hash, variables, target, moves_state, created_at, finished_at)
    select gen_random_uuid(), case when of_all then '00000000-0000-4000-8000-000000000000' else id end, id, 'x', case when of_all then n else 0 end, 'SUCCEEDED', 'x', '{}', 'ACTIVE', true, at, at from made, (values (true), (false)) v(of_all)`;
  // Ten attempts begin at the same time; each hundredth is of the same node, operation and cluster.
  await sql`
    insert into attempts (run_id, step, number, state, started_at, deadline_at, finished_at, failure, aborted, label, driver, operation_id, node_id, cluster_id, host_group, actor)
    select id, 0, 1, state, '2026-01-01'::timestamptz + (n / 10) * interval '10 seconds', at, case when state <> 'WAITING' then at end, case when state = 'FAILED' then '{}'::jsonb end, case when state = 'ABORTED' then true end,
      case when n % 500 = 0 then 'clean.rare' else 'clean.erase_disks' end, 'fake', of, of, of, case when n % 1000 = 7 then 'masters' else 'workers' end, case when n % 1000 = 7 then 'robot' else 'alice' end
    from made, lateral (select case when n % 2500 = 0 then 'FAILED' when n % 2500 = 1 then 'WAITING' when n % 500 = 3 or n % 100 between 10 and 15 then 'ABORTED' else 'SUCCEEDED' end as state, ('00000000-0000-4000-8000-' || lpad((n % 100)::text, 12, '0'))::uuid as of) one`;
  await sql`
    insert into runs (id, operation_id, node_id, node_name, ordinal, state, plan_hash, variables, target, moves_state, created_at)
    select id, '00000000-0000-4000-8000-000000000001', id, 'x', n, 'WAITING', 'x', '{}', 'ACTIVE', true, at from made where n % 2500 = 1`;
  await sql`insert into inventories (id, node_id, run_id, taken_at, data) select gen_random_uuid(), id, id, at + again * interval '1 day', '{}' from made, generate_series(1, 2) again`;
  await sql`
    insert into transitions (position, node_id, node_name, project, from_state, to_state, event, sequence, node_revision, operation_id, actor, at)
    select again * ${COUNT} + n, id, 'x', 'default', 'ACTIVE', 'ACTIVE', 'recover', again + 1, 1, case when again = 0 then '00000000-0000-4000-8000-000000000000' else id end, 'alice', at from made, generate_series(0, 1) again`;
});
await own.sql`vacuum analyze`;

interface PlanNode {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly "Rows Removed by Index Recheck"?: number;
  readonly Plans?: readonly PlanNode[];
}

interface Read {
  /** Rows that were read from tables, including those that a filter skipped. */
  readonly rows: number;
  /** The maximum number of rows in one sort. */
  readonly sorted: number;
  /** Tables that were scanned sequentially. */
  readonly scanned: readonly string[];
  /** The plan, for the message of a failing test. */
  readonly plan: string;
}

/** The rows that the statements of a query read, as PostgreSQL reports them afterwards. */
async function readBy(question: (reader: Reader) => Promise<unknown>): Promise<Read> {
  const { session } = database.reader as unknown as {
    session: {
      client: {
        unsafe(text: string, params?: readonly unknown[], options?: object): Promise<Record<string, unknown>[]>;
      };
    };
  };
  const { client } = session;
  const { unsafe } = client;
  const sent: { readonly text: string; readonly params: readonly unknown[] }[] = [];
  client.unsafe = (text, params = [], options = {}) => {
    sent.push({ text, params });
    return unsafe.call(client, text, params, options);
  };
  try {
    await question(database.reader);
  } finally {
    client.unsafe = unsafe;
  }
  const nodes: PlanNode[] = [];
  for (const { text, params } of sent) {
    const [row = {}] = await unsafe.call(client, `explain (analyze, timing off, format json) ${text}`, params);
    const visit = (node: PlanNode) => {
      nodes.push(node);
      node.Plans?.forEach(visit);
    };
    for (const { Plan } of row["QUERY PLAN"] as readonly { readonly Plan: PlanNode }[]) visit(Plan);
  }
  const rowsOf = (node: PlanNode) =>
    (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0) + (node["Rows Removed by Index Recheck"] ?? 0)) *
    node["Actual Loops"];
  const tables = nodes.filter((node) => node["Relation Name"] !== undefined);
  return {
    rows: tables.reduce((sum, node) => sum + rowsOf(node), 0),
    sorted: Math.max(
      0,
      ...nodes
        .filter((node) => node["Node Type"] === "Sort")
        .map((node) => Math.max(...(node.Plans ?? []).map((below) => below["Actual Rows"]))),
    ),
    scanned: tables
      .filter((node) => node["Node Type"] === "Seq Scan" && rowsOf(node) > READ_MAX)
      .map((node) => node["Relation Name"] ?? ""),
    plan: nodes
      .map((node) => `${node["Node Type"]} ${node["Index Name"] ?? node["Relation Name"] ?? ""} ${rowsOf(node)}`)
      .join(" < "),
  };
}

/** Expects that a query uses an index, reads at most `most` rows and sorts no more than those. */
async function expectKeyset(question: (reader: Reader) => Promise<unknown>, most = READ_MAX): Promise<void> {
  const read = await readBy(question);
  expect(read.scanned, read.plan).toEqual([]);
  expect(read.rows, read.plan).toBeGreaterThan(0);
  expect(read.rows, read.plan).toBeLessThanOrEqual(most);
  expect(read.sorted, read.plan).toBeLessThanOrEqual(most);
}

const idOf = (n: number) => `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
const MIDDLE = COUNT / 2;
const NAME = `rack${String(MIDDLE / 40).padStart(4, "0")}-u00`;
const CREATED = new Date(Date.UTC(2026, 0, 1) + MIDDLE * 1000).toISOString();
const UPDATED = new Date(Date.UTC(2026, 5, 1) + ((MIDDLE * 7919) % COUNT) * 1000).toISOString();
const KEYS = {
  NAME,
  CREATED_AT: CREATED,
  UPDATED_AT: UPDATED,
  NATURAL_NAME: naturalKey(NAME),
  STATE: "ACTIVE",
  CLUSTER: idOf(MIDDLE % (COUNT / OF_CLUSTER)),
} as const;

const ORDERS = (["NAME", "NATURAL_NAME", "STATE", "CLUSTER", "CREATED_AT", "UPDATED_AT"] as const).flatMap((by) =>
  [false, true].map((descending): NodeOrder => ({ by, descending })),
);

function placesOf(key: string): Readonly<Record<string, PageRequest>> {
  const middle = { key, id: idOf(MIDDLE) };
  return {
    "the first page": { limit: PAGE },
    "the last page": { limit: PAGE, fromEnd: true },
    "a page after the middle": { limit: PAGE, after: middle },
    "a page before the middle": { limit: PAGE, before: middle, fromEnd: true },
    "the first page before the middle": { limit: PAGE, before: middle },
  };
}

describe.each(ORDERS)("page of nodes by $by, descending: $descending", (order) => {
  test.each(Object.keys(placesOf("")))("page of nodes: %s is read by index", async (place) => {
    const request = placesOf(KEYS[order.by])[place] ?? { limit: PAGE };
    await expectKeyset((reader) => nodesPage(reader, undefined, order, request));
    await expectKeyset((reader) =>
      nodesJson(
        reader,
        { filter: undefined, order, request },
        {
          items: [
            {
              of: "edge",
              selection: [
                { key: "cursor", field: "cursor" },
                { key: "node", field: "node", selection: [{ key: "name", field: "name" }] },
              ],
            },
          ],
          ends: true,
        },
      ),
    );
  });
});

test("page of nodes with the facts of their verbs and drivers is read by index", async () => {
  const selection = Object.keys(COMPOSED_FIELDS).map((field, composed) => ({ key: field, field, composed }));
  await expectKeyset((reader) =>
    nodesJson(
      reader,
      { filter: undefined, order: { by: "NAME", descending: false }, request: { limit: PAGE } },
      { items: [{ of: "node", selection }], ends: false },
    ),
  );
});

describe("page of filtered nodes", () => {
  const byName: NodeOrder = { by: "NAME", descending: false };
  test.each<[string, NodeFilter]>([
    ["ids", { ids: [idOf(1), idOf(99_999)] }],
    ["names", { name: { in: [NAME, "rack0001-u01"] } }],
    [
      "many names",
      {
        name: {
          in: Array.from(
            { length: 20_000 },
            (_, n) => `rack${String(Math.floor(n / 40)).padStart(4, "0")}-u${String(n % 40).padStart(2, "0")}`,
          ),
        },
      },
    ],
    ["the beginning of a name", { name: { startsWith: "rack1234" } }],
    ["the beginning of all names, in another case", { name: { startsWith: "RACK" } }],
    ["a state that many are in", { states: ["ACTIVE"] }],
    ["a state that few are in", { states: ["CLEAN_FAILED"] }],
    ["two states", { states: ["CLEAN_FAILED", "DEPLOY_FAILED"] satisfies NodeState[] }],
    ["labels that few carry", { labels: { rack: "77" } }],
    ["a label that all carry", { labels: { site: "a" } }],
    ["a cluster", { clusterId: idOf(7) }],
    ["a cluster's name", { clusterName: "cluster-7" }],
    ["a cluster and a state", { clusterId: idOf(7), states: ["ACTIVE"] }],
  ])("page of nodes filtered by %s, ordered by name, is read by index", async (_what, filter) => {
    await expectKeyset((reader) => nodesPage(reader, filter, byName, { limit: PAGE }));
    await expectKeyset((reader) =>
      nodesPage(reader, filter, byName, { limit: PAGE, after: { key: "rack0000-u02", id: idOf(2) } }),
    );
  });

  test("page of nodes of a cluster in another order is read through that order, or sorted", async () => {
    await expectKeyset(
      (reader) => nodesPage(reader, { clusterId: idOf(7) }, { by: "UPDATED_AT", descending: true }, { limit: PAGE }),
      (2 * PAGE * COUNT) / OF_CLUSTER,
    );
  });

  test("pages of nodes of twenty clusters read twenty pages", async () => {
    await expectKeyset(
      (reader) =>
        nodesPages(
          reader,
          Array.from({ length: 20 }, (_, n) => idOf(n)),
          { filter: undefined, order: byName, request: { limit: 10 } },
        ),
      20 * 12,
    );
  });
});

describe("page of operations", () => {
  const middle = { key: CREATED, id: idOf(MIDDLE) };
  test.each([
    ["all", undefined],
    ["of a kind that is rare", { kinds: ["DISCOVER" as const] }],
    ["of a kind that is common", { kinds: ["POWER" as const] }],
    ["that are running", { states: ["RUNNING" as const] }],
    ["of a cluster", { clusterId: idOf(7) }],
    ["of a cluster and a common kind", { clusterId: idOf(7), kinds: ["POWER" as const] }],
    ["of a node", { nodeId: idOf(7) }],
  ])("page of operations: %s, newest first, is read by index", async (_what, filter) => {
    await expectKeyset((reader) => operationsPage(reader, filter, { limit: PAGE }));
    await expectKeyset((reader) => operationsPage(reader, filter, { limit: PAGE, after: middle }));
    await expectKeyset((reader) => operationsPage(reader, filter, { limit: PAGE, before: middle, fromEnd: true }));
  });

  test("pages of operations of many nodes or clusters read as many pages", async () => {
    const parents = Array.from({ length: 20 }, (_, n) => idOf(n));
    await expectKeyset((reader) => operationsOfNodes(reader, parents, { limit: 5 }), 20 * 12);
    await expectKeyset((reader) => operationsOfClusters(reader, parents, { limit: 5 }), 20 * 4 * 6);
  });
});

describe("page of a table that grows", () => {
  test.each([
    ["the first runs of an operation", (reader: Reader) => runsPages(reader, [idOf(0)], { limit: PAGE })],
    [
      "runs in the middle of an operation",
      (reader: Reader) => runsPages(reader, [idOf(0)], { limit: PAGE, after: MIDDLE }),
    ],
    ["the last runs of an operation", (reader: Reader) => runsPages(reader, [idOf(0)], { limit: PAGE, fromEnd: true })],
    ["the first transitions", (reader: Reader) => transitionsAfter(reader, { after: 0, limit: PAGE })],
    ["transitions in the middle", (reader: Reader) => transitionsAfter(reader, { after: COUNT, limit: PAGE })],
    ["the newest transitions", (reader: Reader) => transitionsPage(reader, {}, { limit: PAGE, fromEnd: true })],
    ["transitions of a node", (reader: Reader) => transitionsOfNodes(reader, [idOf(7)], { limit: PAGE })],
    [
      "transitions of an operation",
      (reader: Reader) => transitionsOfOperations(reader, [idOf(0)], { limit: PAGE, after: MIDDLE }),
    ],
    [
      "transitions of a node by its name",
      (reader: Reader) =>
        transitionsAfter(reader, { after: 0, limit: PAGE, filter: { nodes: nodeCondition({ name: { eq: NAME } }) } }),
    ],
    ["inventories of a node", (reader: Reader) => inventoriesPages(reader, [idOf(7)], { limit: PAGE })],
  ])("page of %s is read by index", async (_what, question) => {
    await expectKeyset(question);
  });
});

describe("page of the history of steps", () => {
  const middle = { startedAt: new Date(CREATED), runId: idOf(MIDDLE), step: 0, number: 1 };
  test.each<[string, AttemptFilter]>([
    ["all", {}],
    ["of a node", { nodeId: idOf(7) }],
    ["of an operation", { operationId: idOf(7) }],
    ["of a cluster", { clusterId: idOf(7) }],
    ["of a rare host group", { hostGroup: "masters" }],
    ["of a common host group", { hostGroup: "workers" }],
    ["of a rare step", { step: "clean.rare" }],
    ["of a common step", { step: "clean.erase_disks" }],
    ["that have failed", { state: "FAILED" }],
    ["that wait", { state: "WAITING" }],
    ["that have succeeded", { state: "SUCCEEDED" }],
    ["that were aborted", { state: "ABORTED" }],
    ["of a node with few of them, that were aborted", { nodeId: idOf(3), state: "ABORTED" }],
    ["of a rare caller", { requestedBy: "robot" }],
    ["of a common caller", { requestedBy: "alice" }],
    ["of a cluster, of its rare host group", { clusterId: idOf(7), hostGroup: "masters" }],
    ["of a cluster, that have failed", { clusterId: idOf(0), state: "FAILED" }],
    [
      "of two hours",
      {
        startedSince: new Date(middle.startedAt.getTime() - 3_600_000),
        startedBefore: new Date(middle.startedAt.getTime() + 3_600_000),
      },
    ],
  ])("page of the history of steps: %s, newest first, is read by index [R-1202]", async (_what, filter) => {
    await expectKeyset((reader) => attemptsPage(reader, filter, { limit: PAGE }));
    await expectKeyset((reader) => attemptsPage(reader, filter, { limit: PAGE, after: middle }));
    await expectKeyset((reader) => attemptsPage(reader, filter, { limit: PAGE, before: middle, fromEnd: true }));
  });

  test("the success of an attempt changes no column of an index, so that it writes to none", async () => {
    const indexes = await own.sql`select indexdef from pg_indexes where tablename = 'attempts'`;
    expect(indexes.length).toBeGreaterThan(5);
    const changed = /\b(state|finished_at|deadline_at|output|memo|callback|part|entries|progress_\w+)\b/;
    expect(indexes.filter(({ indexdef }) => changed.test(String(indexdef)))).toEqual([]);
    const [table] = await own.sql`select reloptions from pg_class where oid = 'attempts'::regclass`;
    expect(table?.["reloptions"]).toEqual(["fillfactor=50"]);
  });
});
