/**
 * All parts of the answer to a query are of one moment. The query is held between two of its statements, not by chance.
 */
import { sql } from "drizzle-orm";
import { afterAll, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";

const QUERY_MS = 3_000;
const statements: string[] = [];
const ostler = await serviceUnderTest({ onStatement: (text) => statements.push(text), queryMs: QUERY_MS });
afterAll(() => ostler[Symbol.asyncDispose]());

/** Whether a statement of a request waits for a lock. */
const isHeld = async () =>
  (
    await ostler.database.reader.execute(
      "select 1 from pg_locks join pg_stat_activity using (pid) where not granted and datname = current_database()",
    )
  ).length > 0;
const openTransactions = async () =>
  (
    await ostler.database.reader.execute(
      "select 1 from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'",
    )
  ).length;

async function stateOf(name: string): Promise<string> {
  const { node } = await ostler.query<{ node: { state: string } }>(
    "query State($name: String!) { node(by: { name: $name }) { state } }",
    { name },
  );
  return node.state;
}

/** Executes `meanwhile` while statements that read clusters wait. */
async function holdingClusters(meanwhile: () => Promise<void>): Promise<void> {
  // The trigger that records changes of nodes reads clusters, and would wait too.
  await ostler.database.transaction((tx) => tx.execute("alter table nodes disable trigger nodes_recorded_update"));
  await ostler.database.transaction(async (tx) => {
    await tx.execute("lock table clusters in access exclusive mode");
    await meanwhile();
  });
}

test("state and currentRun of one answer came from two moments: a query sees the node CLEANING with the run that ends meanwhile [R-185]", async () => {
  const gate = aGate();
  const [name = ""] = await ostler.register(1, { steps: { "clean.erase_metadata": { gate: gate.name } } });
  await ostler.query(
    'mutation Make($nodes: NodeSelector!) { createCluster(input: { name: "moments", nodes: $nodes }) { errors { message } } }',
    { nodes: { names: [name] } },
  );
  await ostler.query(
    "mutation Manage($nodes: NodeSelector!) { manageNodes(input: { nodes: $nodes }) { errors { message } } }",
    { nodes: { names: [name] } },
  );
  await eventually("the node is manageable", async () => (await stateOf(name)) === "MANAGEABLE");
  const uuid = await ostler.begin("cleanNodes", [name]);
  await gate.arrivals();
  let answer: Promise<unknown> | undefined;
  await holdingClusters(async () => {
    answer = ostler.query(
      `query Seen($name: String!) {
        node(by: { name: $name }) { state cluster { nodes { edges { node { state currentRun { state } } } } } }
      }`,
      { name },
    );
    await eventually("the second statement waits", isHeld);
    gate.open();
    expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
  });
  const { node } = (await answer) as { node: { state: string } };
  expect(node.state).toMatch(/^CLEAN/);
  expect(node).toEqual({
    state: node.state,
    cluster: { nodes: { edges: [{ node: { state: node.state, currentRun: { state: "RUNNING" } } }] } },
  });
});

test("query that is cut off by the time limit between two statements releases its connection", async () => {
  const more = await ostler.register(1);
  await ostler.query(
    'mutation Make($nodes: NodeSelector!) { createCluster(input: { name: "cut", nodes: $nodes }) { errors { message } } }',
    { nodes: { names: more } },
  );
  await holdingClusters(async () => {
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => ostler.ask("{ nodes(last: 1) { edges { node { name cluster { name } } } } }")),
    );
    expect(answers.map(({ errors }) => errors[0]?.extensions?.["code"])).toEqual(
      Array.from({ length: 4 }, () => "LIMIT_EXCEEDED"),
    );
  });
  await eventually("no transaction is open", async () => (await openTransactions()) === 0);
  expect(await ostler.query('{ cluster(by: { name: "cut" }) { name } }')).toEqual({ cluster: { name: "cut" } });
});

test.each([
  ["a list that the database writes as text", "{ nodes { edges { node { name } } } }", 0],
  ["what needs no statement", "{ service { version } }", 0],
  [
    "a plan, which waits for drivers",
    '{ plan(input: { commissionNodes: { nodes: { names: ["x"] } } }) { planHash } }',
    0,
  ],
  ["a list with its count", "{ nodes { totalCount edges { node { name } } } }", 1],
  ["a node and its run", '{ node(by: { name: "x" }) { state currentRun { state } } }', 1],
])("query opens no transaction needlessly: %s", async (_what, query, expected) => {
  statements.length = 0;
  await ostler.query(query);
  expect(statements.filter((text) => /^begin/i.test(text))).toHaveLength(expected);
});

test("statement that fails fails the whole snapshot with its own error, and the connection is used again", async () => {
  const { reader, close } = ostler.database.lazySnapshot();
  const outcomes = await Promise.allSettled([
    reader.execute(sql`select 1 as one`),
    reader.execute(sql`select nonsense`),
    reader.execute(sql`select 2 as two`),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected"]);
  const causes = outcomes.flatMap((one) => (one.status === "rejected" ? [String((one.reason as Error).cause)] : []));
  expect(new Set(causes).size).toBe(1);
  close();
  await expect(reader.execute(sql`select 3 as three`)).rejects.toThrow("select 3");
  await eventually("no transaction is open", async () => (await openTransactions()) === 0);
});
