/**
 * JSON lists, which the database writes, equal resolved lists byte for byte, for random documents and any content of
 * rows.
 */
import { getTableColumns } from "drizzle-orm";
import { buildSchema, parse } from "graphql";
import type { DocumentNode, GraphQLObjectType } from "graphql";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { describeDrivers } from "../../src/drivers/load.ts";
import { jsonLists } from "../../src/graphql/execution/json-lists.ts";
import { buildSchema as buildOstler } from "../../src/graphql/schema/schema.ts";
import { NODE_FIELDS } from "../../src/store/nodes/node-fields.ts";
import { LISTED_NODE_FIELDS } from "../../src/store/nodes/node-json.ts";
import { nodes as nodesTable } from "../../src/store/tables.ts";
import type { JsonFields } from "../../src/store/json-text.ts";
import { chance } from "../durability/lab.ts";
import { fillDeclared } from "../support/declared-fields.ts";
import { bothWays as waysOf, expectSame as expectSameWays } from "../support/list-ways.ts";
import { serviceUnderTest } from "../support/service.ts";

const statements: string[] = [];
const ostler = await serviceUnderTest({ started: false, onStatement: (text) => void statements.push(text) });
afterAll(() => ostler[Symbol.asyncDispose]());

const NODES = 40;
/** Fields of Node that need more than its row, and the reason why a list with one of them is resolved. */
const RESOLVED: Readonly<Record<string, string>> = {
  actions: "decided by the engine",
  inventory: "a JSON value of any shape, which PostgreSQL writes with other blanks",
  inventories: "a list with arguments",
  inventoryDiff: "has arguments",
  variables: "a JSON value of any shape, of which the drivers decide what is secret",
  image: "an object of fields of its own",
  stepCatalogue: "has arguments",
  operations: "a list with arguments",
  transitions: "a list with arguments",
};

/** Columns of nodes that may be empty, and that a list which the database writes can read. */
const OPTIONAL_COLUMNS = Object.values(getTableColumns(nodesTable)).filter(
  ({ name, notNull }) => !notNull && name !== nodesTable.imageId.name,
);

beforeAll(async () => {
  await ostler.query(`mutation { createCluster(input: { name: "lists" }) { errors { message } } }`);
  // Inserted directly, because names and states that the API refuses have to be written correctly too.
  await ostler.test.sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
    insert into nodes (id, name, project, state, stage, power_state, power_read_at, power_checked_at, power_problem, power_problem_kind, presence, disappeared_at, maintenance_reason, maintenance_since, maintenance_by, is_protected, retired_reason,
      automatic_cleaning, diskless, host_group, model, controller, shared_controller, identity_conflict, wanted_power, driver, borrowed, settings, labels, macs, cluster_id, fault_kind, fault_since, fault_message, last_error, transition_count, revision, created_at, updated_at)
    select gen_random_uuid(), 'list-' || (array['a', 'Ä', '😀', '"', E'\\\\', E'\\n\\t\\u0001\\u001f', '</script>', E'\\u2028', '{}', 'ready'])[1 + n % 10] || n, 'default', 'ENROLLED', (array['NONE', 'PROVISIONED', 'DEPLOYED'])[1 + n % 3],
      (array['ON', 'OFF', 'UNKNOWN'])[1 + n % 3], case when n % 4 > 0 then at end, case when n % 5 > 0 then at end, case when n % 6 = 0 then E'no "answer"\\u007f' end, case when n % 12 = 0 then 'UNREACHABLE' end, (array['DISCOVERED', 'DISAPPEARED', 'UNSEEN'])[1 + n % 3], case when n % 3 = 1 then at end,
      case when n % 3 = 0 then 'fan' end, case when n % 3 < 2 then at end, case when n % 2 = 0 then 'me' end, n % 2 = 0, case when n % 4 = 0 then 'old' end,
      case n % 3 when 0 then true when 1 then false end, case n % 3 when 1 then true when 2 then false end, case when n % 2 = 0 then 'service/worker' end, case when n % 2 = 1 then 'R640' end, case when n % 7 = 0 then '::1' end, case n % 3 when 0 then true when 1 then false end,
      case when n % 5 = 2 then jsonb_build_object('kind', 'UUID', 'value', E'"x"\\n', 'nodeId', gen_random_uuid(), 'nodeName', 'y', 'since', '2026-01-31T09:30:00.120456+00:00') end, case n % 4 when 0 then 'ON' when 1 then 'OFF' end,
      'fake', '{}', '{}', case n % 3 when 0 then '{}' when 1 then '{"rack":"9","room":"1","10":"x","9":"y","Z":"ü"}'::jsonb else '{"one":""}'::jsonb end, case n % 3 when 0 then '[]' when 1 then '["52:54:00:00:00:01"]'::jsonb else '["52:54:00:00:00:01","52:54:00:00:00:02"]'::jsonb end, case when n % 2 = 0 then (select id from clusters) end,
      case when n % 5 = 1 then 'BMC_UNREACHABLE' end, case when n % 5 = 1 then at end, case when n % 5 = 1 then 'no "answer"' end,
      case when n % 4 = 1 then jsonb_build_object('code', 'TIMEOUT', 'message', E'it "broke"\\n', 'step', case when n % 8 = 1 then 'clean.erase' end, 'nodeId', null, 'nodeName', 'x', 'at', '2026-01-31T09:30:00.120Z', 'retryable', n % 8 = 1) end,
      1, n + 1, at, at + interval '1 day'
    from (select n, '2026-01-31T09:30:00Z'::timestamptz + n * interval '1 ms' + n / 10 * interval '100 ms' as at from generate_series(0, ${NODES - 1}) n) made`;
    await fillDeclared(tx);
    // Every third node has an ended run; every second one an unfinished one.
    await tx`
    insert into runs (id, operation_id, node_id, node_name, ordinal, purpose, state, plan_hash, variables, target, moves_state, attempt, wake_at, created_at, started_at, finished_at)
    select gen_random_uuid(), gen_random_uuid(), id, name, 0, case when revision % 4 = 0 then 'CLEAN_UP' else 'WORK' end, case when ended then 'FAILED' else 'HOLDING' end, 'none', '{}',
      case when ended then 'MANAGEABLE' else 'AVAILABLE' end, true, revision, case when revision % 4 = 0 then created_at end, created_at, case when revision % 8 = 0 then created_at end, case when ended then updated_at end
    from nodes, (values (true), (false)) run (ended)
    where case when ended then revision % 3 = 0 else revision % 2 = 0 end`;
  });
});

const service = { ostler, statements };
const bothWays = (query: string, variables?: Record<string, unknown>) => waysOf(service, query, variables);
const expectSame = (query: string, variables: Record<string, unknown> = {}, byDatabase = true) =>
  expectSameWays(service, query, { variables, byDatabase });

/** A document that asks for a list of nodes in some way, and its variables. */
function anyDocument(seed: number): { readonly query: string; readonly variables: Record<string, unknown> } {
  const { often, one, whole } = chance(seed);
  const fragments: string[] = [];
  const variables: Record<string, unknown> = {
    yes: true,
    no: false,
    ...(often(1 / 2) && { standard: often(1 / 2) }),
  };
  const directive = () =>
    one([
      "",
      "",
      "",
      "",
      "@include(if: true)",
      "@include(if: $yes)",
      "@skip(if: $no)",
      "@skip(if: $yes)",
      "@include(if: $standard)",
      "@skip(if: $standard) @include(if: $yes)",
      "@skip(if: true)",
    ]);
  const alias = (name: string) => (often(1 / 4) ? `${one(["a", "b", "c", "__d", "E9"])}_${name}: ${name}` : name);
  const selection = (type: string, fields: JsonFields, conditions: readonly string[], depth = 0): string => {
    const members = Array.from({ length: whole(1, 5) }, (): string => {
      const kind = whole(0, 9);
      if (kind === 0) return `${alias("__typename")} ${directive()}`;
      if (kind === 1 && depth < 3)
        return `... ${one(["", ...conditions.map((condition) => `on ${condition}`)])} ${directive()} ${selection(type, fields, conditions, depth + 1)}`;
      if (kind === 2 && depth < 3) {
        const name = `F${fragments.length}`;
        fragments.push("");
        fragments[Number(name.slice(1))] =
          `fragment ${name} on ${type} ${selection(type, fields, conditions, depth + 1)}`;
        return `...${name} ${directive()} ...${name}`;
      }
      const name = one(Object.keys(fields));
      const field = fields[name];
      const inner =
        field && "fields" in field ? selection(TYPES[name] ?? "", field.fields, [TYPES[name] ?? ""], depth + 1) : "";
      return `${alias(name)} ${directive()} ${inner}`;
    });
    // One field without a directive: a selection must not be empty.
    return `{ ${members.join(" ")} ${one(Object.keys(fields).filter((name) => !("fields" in (fields[name] ?? {}))))} }`;
  };
  const edge = () =>
    `{ ${one(["cursor", "__typename", "c: cursor", ""])} node ${selection("Node", NODE_FIELDS, ["Node"])} ${one(["cursor", "... on NodeEdge { node { name } }", ""])} }`;
  const part = (): string =>
    one([
      () => `${alias("edges")} ${edge()}`,
      () => `edges ${edge()}`,
      () => `${alias("nodes")} ${directive()} ${selection("Node", NODE_FIELDS, ["Node"])}`,
      () =>
        `${alias("pageInfo")} { ${one(["hasNextPage", "startCursor endCursor", "__typename", "endCursor hasPreviousPage e: endCursor"])} }`,
      () => `${alias("totalCount")} ${directive()}`,
      () => "__typename",
    ])();
  const order = `{ field: ${one(["NAME", "CREATED_AT", "UPDATED_AT"])}, direction: ${one(["ASC", "DESC"])} }`;
  const args = `(orderBy: ${order}, ${one(["first: 7", "last: 7", "first: 45", "last: 45", "first: $first", "first: 1"])}, filter: ${one(['{ name: { startsWith: "list" } }', "$filter", "{ protected: true }", "null"])})`;
  variables["first"] = whole(1, 45);
  variables["filter"] = one([
    null,
    { labels: [{ key: "rack", value: "9" }] },
    { not: { maintenance: true } },
    { name: { contains: "-" } },
  ]);
  const list = () =>
    `${alias("nodes")}${args} { edges { node { name } } ${Array.from({ length: whole(1, 3) }, part).join(" ")} }`;
  const root = () => [list(), ...(often(1 / 3) ? ["service { version }", "__typename"] : [])].join(" ");
  const body = often(1 / 4)
    ? `c: cluster(by: { name: "lists" }) { name ${list()} project ... { __typename } }`
    : root();
  // Not every document uses all variables; this field uses the rest of them without an effect on the lists.
  const used = `x: nodes(first: $first, filter: $filter) { edges @include(if: $yes) @skip(if: $standard) { node { name } } totalCount @skip(if: $no) }`;
  return {
    query: `query Any($yes: Boolean!, $no: Boolean = false, $standard: Boolean = true, $first: Int, $filter: NodeFilter) { ${body} ${used} }\n${fragments.map((fragment) => fragment).join("\n")}`,
    variables,
  };
}

const TYPES: Readonly<Record<string, string>> = {
  maintenance: "Maintenance",
  fault: "NodeFault",
  identityConflict: "IdentityConflict",
  labels: "Label",
  lastError: "Failure",
  cluster: "Cluster",
  currentRun: "Run",
};

const aliased = (count: number, text: string) => Array.from({ length: count }, (_, at) => `a${at}: ${text}`).join(" ");

describe("large JSON list", () => {
  test("a JSON list has up to a few hundred fields, and its statement is not prepared", async () => {
    // Only repeated statements are prepared.
    for (let time = 0; time < 20; time += 1) await expectSame("{ nodes(first: 5) { edges { node { name } } } }");
    for (let time = 0; time < 20; time += 1)
      await expectSame(`{ nodes(first: 5) { edges { node { ${aliased(200, "name")} } } } }`);
    expect(Math.max(...statements.map(({ length }) => length))).toBeGreaterThan(8_000);
    // Five concurrent queries use one connection each.
    const found = await Promise.all(
      Array.from({ length: 5 }, () =>
        ostler.database.bounded.execute<{ length: number }>(
          "select length(statement) as length from pg_prepared_statements, pg_sleep(0.1) where statement like '%over () as ordinal%'",
        ),
      ),
    );
    const lengths = found.flatMap((rows) => [...rows].map(({ length }) => length));
    expect(lengths).not.toEqual([]);
    expect(Math.max(...lengths)).toBeLessThan(8_000);
  });

  test.each([
    [
      "in fragments",
      `{ nodes(first: 2) { ${aliased(20, "edges { ...X }")} } } fragment X on NodeEdge { node { ...N } } fragment N on Node { ${aliased(50, "name")} }`,
    ],
    [
      "in its pageInfo",
      `{ nodes(first: 2) { ${aliased(20, "pageInfo { ...P }")} } } fragment P on PageInfo { ${aliased(50, "hasNextPage")} }`,
    ],
    [
      "under long names",
      `{ nodes(first: 2) { ${aliased(20, "edges { ...X }")} } } fragment X on NodeEdge { node { ${"long".repeat(1_000)}: name } }`,
    ],
    [
      "in many lists",
      `{ ${aliased(20, "nodes(first: 1) { ...L }")} } fragment L on NodeConnection { ${aliased(10, "edges { node { name } }")} }`,
    ],
  ])("a list with too many fields %s is resolved, and no statement grows with it", async (what, query) => {
    await expectSame(query, {}, what === "in many lists");
    expect(statements.reduce((sum, { length }) => sum + length, 0)).toBeLessThan(100_000);
  });

  test("plans of JSON lists are cached, and the least recently used are dropped", async () => {
    const { onExecute } = jsonLists(buildOstler(await describeDrivers()));
    const rewritten = (document: DocumentNode): DocumentNode | undefined => {
      let made: DocumentNode | undefined;
      const args = { document, contextValue: { request: {} }, variableValues: {} };
      void onExecute?.({
        args,
        executeFn: (given: { document: DocumentNode }) => void (made = given.document),
        setExecuteFn: (execute: (given: object) => void) => execute(args),
      } as never);
      return made;
    };
    const documentOf = (at: number) =>
      parse(`{ nodes(first: 5) { edges { node { uuid${at}: uuid ${aliased(300, "name")} } } } }`);
    const first = documentOf(0);
    const made = rewritten(first);
    expect(made).not.toBe(first);
    for (let at = 1; at < 10; at += 1) rewritten(documentOf(at));
    expect(rewritten(first)).toBe(made);
    for (let at = 10; at < 100; at += 1) rewritten(documentOf(at));
    expect(rewritten(first)).not.toBe(made);
  });
});

describe("JSON list", () => {
  test("a JSON list equals the resolved list for every field that the database can write", async () => {
    const all = (fields: JsonFields): string =>
      Object.entries(fields)
        .map(([name, field]) => ("fields" in field ? `${name} { __typename ${all(field.fields)} }` : name))
        .join(" ");
    const text = await expectSame(
      `{ nodes(first: 50) { __typename totalCount edges { __typename cursor node { __typename ${all(NODE_FIELDS)} } } nodes { __typename ${all(NODE_FIELDS)} } pageInfo { __typename hasNextPage hasPreviousPage startCursor endCursor } } }`,
    );
    const { edges, nodes } = JSON.parse(text).data.nodes;
    expect(nodes).toHaveLength(NODES);
    expect(nodes).toEqual(edges.map(({ node }: { node: unknown }) => node));
  });

  test.each(Array.from({ length: 150 }, (_, index) => index + 1))(
    "a JSON list equals the resolved list: selection %d",
    async (seed) => {
      const { query, variables } = anyDocument(seed);
      await expectSame(query, variables);
    },
  );

  test.each(
    ["NAME", "CREATED_AT", "UPDATED_AT"].flatMap((field) => ["ASC", "DESC"].map((direction) => ({ field, direction }))),
  )(
    "a JSON list by $field $direction has the same pages forward and backward as the resolved list",
    async (orderBy) => {
      const query =
        "query Page($orderBy: NodeOrder, $first: Int, $after: String, $last: Int, $before: String) { nodes(orderBy: $orderBy, first: $first, after: $after, last: $last, before: $before) { edges { cursor node { uuid } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }";
      interface Page {
        readonly data: {
          readonly nodes: {
            readonly pageInfo: {
              readonly hasNextPage: boolean;
              readonly hasPreviousPage: boolean;
              readonly startCursor: string;
              readonly endCursor: string;
            };
          };
        };
      }
      let pages = 0;
      for (let after: string | null = null; ; pages += 1) {
        const { pageInfo }: Page["data"]["nodes"] = (
          JSON.parse(await expectSame(query, { orderBy, first: 9, after })) as Page
        ).data.nodes;
        if (!pageInfo.hasNextPage) break;
        after = pageInfo.endCursor;
      }
      expect(pages).toBe(4);
      for (let before: string | null = null; ; pages -= 1) {
        const { pageInfo }: Page["data"]["nodes"] = (
          JSON.parse(await expectSame(query, { orderBy, last: 9, before })) as Page
        ).data.nodes;
        if (!pageInfo.hasPreviousPage) break;
        before = pageInfo.startCursor;
      }
      expect(pages).toBe(0);
    },
  );

  test.each([
    ["a page of the wrong size", "{ nodes(first: 1001) { edges { node { name } } } }"],
    ["a cursor of another list", `{ nodes(after: "x") { edges { node { name } } } }`],
    ["a text that cannot be stored", `{ nodes(filter: { name: { eq: "\\u0000" } }) { totalCount } }`],
    [
      "an invalid alias beside a valid one",
      `{ a: nodes(first: 2) { edges { node { name } } } b: nodes(first: 0) { edges { node { name } } } }`,
    ],
  ])("a JSON list refuses %s as the resolved list does", async (_what, query) => {
    const { text, resolved } = await bothWays(query);
    // Over a WebSocket, `data` precedes `errors`; the rest is equal.
    expect(JSON.parse(text)).toEqual(JSON.parse(resolved));
    expect(JSON.parse(text).errors).toHaveLength(1);
  });

  test("a JSON list and resolved lists keep the order of the request", async () => {
    await expectSame(
      `{ a: nodes(first: 3) { edges { node { name inventory { id } } } } b: nodes(first: 3) { edges { node { name } } } c: service { version } d: nodes(last: 2) { totalCount edges { node { targetState } } } }`,
    );
  });

  test("a JSON list in a mutation's payload is read after the change", async () => {
    const mutation = (name: string) =>
      `mutation { createCluster(input: { name: "${name}" }) { query { nodes(first: 2) { edges { node { id } } } } } }`;
    const { text } = await bothWays(mutation("lists-a"));
    expect(JSON.parse(text).data.createCluster.query.nodes.edges).toHaveLength(2);
  });

  test("a JSON list of a cached document uses the variables of each request", async () => {
    const query =
      "query Twice($with: Boolean!) { nodes(first: 3) { edges { node { name state @include(if: $with) } } } }";
    const withState = await expectSame(query, { with: true });
    const without = await expectSame(query, { with: false });
    expect(withState).toContain("state");
    expect(without).not.toContain("state");
  });

  test("a JSON list of a cached document refuses null for a variable that had a default", async () => {
    const query =
      "query Standard($with: Boolean = true) { nodes(first: 3) { edges { node { name state @include(if: $with) } } } }";
    await expectSame(query, {});
    const { text, resolved } = await bothWays(query, { with: null });
    expect(JSON.parse(text)).toEqual(JSON.parse(resolved));
    expect(JSON.parse(text).errors).toHaveLength(1);
  });

  test("a JSON list of 1,000 nodes with all stored fields is within the cost limit", async () => {
    await expectSame(
      "{ nodes(first: 1000) { edges { node { uuid name state stage powerState presence hostGroup revision createdAt updatedAt labels { key value } maintenance { reason } lastError { code } } } } }",
    );
  });

  test("a JSON list needs the scope of its field and a token", async () => {
    await using closed = await serviceUnderTest({ token: "0123456789abcdef0123456789abcdef", started: false });
    const { status, text } = await closed.ask(
      "{ nodes { edges { node { name } } } }",
      {},
      { authorization: "Bearer wrong" },
    );
    expect(status).toBe(401);
    expect(text).not.toContain("edges");
  });
});

describe("the hidden field", () => {
  test("the hidden field of JSON lists is not in the schema and cannot be selected", async () => {
    const { text } = await ostler.ask(`{ __type(name: "NodeConnection") { fields { name } } }`);
    const [type] = Object.values((JSON.parse(text) as { data: Record<string, { fields: { name: string }[] }> }).data);
    expect(type?.fields.map(({ name }) => name).toSorted()).toEqual([
      "asOf",
      "edges",
      "nodes",
      "pageInfo",
      "totalCount",
    ]);
    expect(await (await fetch(`${ostler.url}/schema.graphql`)).text()).not.toMatch(/ready_|ready text|JsonText/);
    expect((await ostler.ask("{ nodes { ready text } }")).errors).not.toEqual([]);
  });
});

test("each column that may be empty is so in some of the nodes of these tests, and not in others", async () => {
  const { sql } = ostler.test;
  for (const { name } of OPTIONAL_COLUMNS) {
    const [found] =
      await sql`select count(*) > count(${sql(name)}) as without, count(${sql(name)}) > 0 as with from nodes`;
    expect({ name, ...found }, "Give some of the nodes that this file inserts a value.").toEqual({
      name,
      without: true,
      with: true,
    });
  }
});

test("every field of a node is listed as written by the database or resolved", async () => {
  const type = buildSchema(await (await fetch(`${ostler.url}/schema.graphql`)).text()).getType("Node");
  const fields = Object.keys((type as GraphQLObjectType).getFields());
  expect(
    [...Object.keys(LISTED_NODE_FIELDS), ...Object.keys(RESOLVED)].toSorted(),
    "add a new field to NODE_FIELDS in src/store/nodes/node-fields.ts, to COMPOSED_FIELDS in src/store/nodes/composed-fields.ts, or to RESOLVED with the reason why the database cannot write it",
  ).toEqual(fields.toSorted());
});
