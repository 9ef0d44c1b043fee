/** Lists of nodes: filters, sort orders, and pages forward and backward without gaps or duplicates. */
import { afterAll, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

interface Connection {
  readonly nodes: {
    readonly totalCount: number;
    readonly edges: readonly { readonly cursor: string; readonly node: { readonly name: string } }[];
    readonly pageInfo: {
      readonly hasNextPage: boolean;
      readonly hasPreviousPage: boolean;
      readonly startCursor: string | null;
      readonly endCursor: string | null;
    };
  };
}

const NODES = `query Nodes($filter: NodeFilter, $orderBy: NodeOrder, $first: Int, $after: String, $last: Int, $before: String) {
  nodes(filter: $filter, orderBy: $orderBy, first: $first, after: $after, last: $last, before: $before) {
    totalCount
    edges { cursor node { name } }
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  }
}`;

const namesOf = ({ nodes }: Connection) => nodes.edges.map(({ node }) => node.name);
const list = async (variables: Record<string, unknown>) => ostler.query<Connection>(NODES, variables);
const matching = async (filter: unknown) => namesOf(await list({ filter, first: 100 }));

describe("500 nodes", () => {
  test("500 nodes can be registered in one request and listed [R-044]", async () => {
    const nodes = Array.from({ length: 500 }, (_, index) => ({
      name: `bulk-${String(index).padStart(3, "0")}`,
      driver: { fake: {} },
    }));
    const answer = await ostler.query<{
      registerNodes: { count: number; nodes: { name: string; state: string }[]; errors: unknown[] };
    }>(
      "mutation Register($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { count nodes { name state } errors { message } } }",
      { nodes },
    );
    expect(answer.registerNodes).toMatchObject({ count: 500, errors: [] });
    expect(answer.registerNodes.nodes).toEqual(nodes.map(({ name }) => ({ name, state: "ENROLLED" })));
    const { nodes: page } = await list({ filter: { name: { startsWith: "bulk-" } }, first: 100 });
    expect(page.totalCount).toBe(500);
    expect(page.edges).toHaveLength(100);
  });
});

describe("pages", () => {
  const COUNT = 250;
  const filter = { name: { startsWith: "page-" } };
  const all = Array.from({ length: COUNT }, (_, index) => `page-${String(index).padStart(3, "0")}`);

  test.each(
    ["NAME", "NATURAL_NAME", "STATE", "CLUSTER", "CREATED_AT", "UPDATED_AT"].flatMap((field) =>
      ["ASC", "DESC"].map((direction) => ({ field, direction })),
    ),
  )(
    `pages by $field $direction return ${COUNT} nodes forward and backward without gaps or duplicates`,
    async (orderBy) => {
      if ((await list({ filter, first: 1 })).nodes.totalCount === 0) await ostler.register(all);
      const forward: string[] = [];
      for (let after: string | null = null; ;) {
        const page: Connection = await list({ filter, orderBy, first: 37, after });
        forward.push(...namesOf(page));
        expect(page.nodes.pageInfo.hasPreviousPage).toBe(after !== null);
        expect(page.nodes.pageInfo.startCursor).toBe(page.nodes.edges[0]?.cursor);
        after = page.nodes.pageInfo.endCursor;
        if (!page.nodes.pageInfo.hasNextPage) break;
      }
      expect(forward.toSorted()).toEqual(all);
      if (orderBy.field === "NAME") expect(forward).toEqual(orderBy.direction === "ASC" ? all : all.toReversed());
      const backward: string[] = [];
      for (let before: string | null = null; ;) {
        const page: Connection = await list({ filter, orderBy, last: 41, before });
        backward.unshift(...namesOf(page));
        expect(page.nodes.pageInfo.hasNextPage).toBe(before !== null);
        before = page.nodes.pageInfo.startCursor;
        if (!page.nodes.pageInfo.hasPreviousPage) break;
      }
      expect(backward).toEqual(forward);
    },
  );

  test("nodes could not be ordered by cluster: members of each are together, nodes without one last [R-264]", async () => {
    for (const name of ["grouped-a", "grouped-b"])
      await ostler
        .register(1)
        .then(([node]) =>
          ostler.query(
            "mutation Create($name: String!, $node: String!) { createCluster(input: { name: $name, nodes: { names: [$node] } }) { errors { message } } }",
            { name, node },
          ),
        );
    const { nodes } = await ostler.query<{ nodes: { edges: { node: { cluster: { id: string } | null } }[] } }>(
      "{ nodes(orderBy: { field: CLUSTER }, first: 1000) { edges { node { cluster { id } } } } }",
    );
    const clusters = nodes.edges.map(({ node }) => node.cluster?.id ?? null);
    const members = clusters.filter((id) => id !== null);
    expect(new Set(members).size).toBeGreaterThan(1);
    expect(clusters.slice(0, members.length)).toEqual(members);
    expect(members.filter((id, index) => id !== members[index - 1])).toHaveLength(new Set(members).size);
  });

  test("the natural order of names has n2 before n10, on every page, forward and backward", async () => {
    const ordered = [
      "natural-1",
      "natural-2",
      "natural-2-b3",
      "natural-2-b20",
      "natural-010",
      "natural-11",
      "natural-x",
    ];
    await ostler.register(ordered.toReversed());
    const natural = { filter: { name: { startsWith: "natural-" } }, orderBy: { field: "NATURAL_NAME" } };
    expect(namesOf(await list(natural))).toEqual(ordered);
    const { nodes } = await list({ ...natural, first: 3 });
    expect(namesOf(await list({ ...natural, first: 9, after: nodes.pageInfo.endCursor }))).toEqual(ordered.slice(3));
    const descending = { ...natural, orderBy: { field: "NATURAL_NAME", direction: "DESC" }, first: 2 };
    expect(namesOf(await list(descending))).toEqual(ordered.toReversed().slice(0, 2));
  });

  test("nodes are sorted by state", async () => {
    await ostler.register(["by-state-1", "by-state-2", "by-state-3"]);
    await ostler.operationEnds(await ostler.begin("manageNodes", ["by-state-1"]));
    const byState = { filter: { name: { startsWith: "by-state-" } }, orderBy: { field: "STATE" } };
    expect(namesOf(await list(byState)).at(-1)).toBe("by-state-1");
  });

  test("pages of nodes stay stable while nodes before the cursor are added and deleted", async () => {
    await ostler.register(Array.from({ length: 10 }, (_, index) => `shift-${index}`));
    const { nodes: first } = await list({ filter: { name: { startsWith: "shift-" } }, first: 5 });
    await ostler.register(["shift-00", "shift-01"]);
    await ostler.query(
      `mutation { deleteNodes(input: { nodes: { names: ["shift-2", "shift-4"] } }) { errors { message } } }`,
    );
    expect(
      namesOf(await list({ filter: { name: { startsWith: "shift-" } }, first: 5, after: first.pageInfo.endCursor })),
    ).toEqual(["shift-5", "shift-6", "shift-7", "shift-8", "shift-9"]);
  });

  test("a page with after and before has the nodes between the cursors", async () => {
    const names = await ostler.register(Array.from({ length: 8 }, (_, index) => `between-${index}`));
    const { nodes } = await list({ filter: { name: { startsWith: "between-" } } });
    const cursor = (index: number) => nodes.edges[index]?.cursor;
    expect(
      namesOf(
        await list({ filter: { name: { startsWith: "between-" } }, first: 50, after: cursor(1), before: cursor(6) }),
      ),
    ).toEqual(names.slice(2, 6));
    expect(
      namesOf(
        await list({ filter: { name: { startsWith: "between-" } }, last: 2, after: cursor(1), before: cursor(6) }),
      ),
    ).toEqual(names.slice(4, 6));
  });

  test("a page of nodes has 50 items by default", async () => {
    expect((await list({})).nodes.edges).toHaveLength(50);
  });

  test("an empty page of nodes has null cursors", async () => {
    expect((await list({ filter: { name: { eq: "ghost" } } })).nodes).toEqual({
      totalCount: 0,
      edges: [],
      pageInfo: { hasNextPage: false, hasPreviousPage: false, startCursor: null, endCursor: null },
    });
  });

  test.each([{ first: 0 }, { first: -1 }, { first: 1001 }, { last: 0 }, { last: 1001 }, { first: 5, last: 5 }])(
    "a page of nodes with %j is refused",
    async (size) => {
      const answer = await ostler.ask(NODES, size);
      expect(answer.errors).toMatchObject([{ extensions: { code: "BAD_USER_INPUT" } }]);
      expect(answer.errors[0]?.message).toMatch(/use 1 to 1000|not both/);
    },
  );

  test.each([
    "x",
    "",
    "W10",
    Buffer.from('["a","b"]').toString("base64url"),
    Buffer.from(`["page-001","${"-".repeat(36)}"]`).toString("base64url"),
    Buffer.from("[1,2]").toString("base64url"),
    "%00",
  ])("a page of nodes after the invalid cursor %j is refused", async (after) => {
    for (const orderBy of [{ field: "NAME" }, { field: "CREATED_AT" }]) {
      const answer = await ostler.ask(NODES, { after, orderBy });
      expect(answer.errors).toMatchObject([{ extensions: { code: "BAD_USER_INPUT" } }]);
      expect(answer.errors[0]?.message).toContain("is not a cursor of this list");
    }
  });

  test("a cursor of another sort order is refused", async () => {
    const { nodes } = await list({ first: 1, orderBy: { field: "NAME" } });
    const answer = await ostler.ask(NODES, { after: nodes.pageInfo.endCursor, orderBy: { field: "CREATED_AT" } });
    expect(answer.errors).toMatchObject([{ extensions: { code: "BAD_USER_INPUT" } }]);
  });
});

describe("a filter", () => {
  test("node filters work by each field, combined, with or and with not [R-044]", async () => {
    await ostler.query(`mutation { createCluster(input: { name: "filters" }) { errors { message } } }`);
    const { registerNodes } = await ostler.query<{
      registerNodes: { nodes: { id: string; name: string }[]; errors: unknown[] };
    }>(
      `mutation { registerNodes(input: { nodes: [
        { name: "Filter-a", driver: { fake: {} }, labels: [{ key: "room", value: "1" }, { key: "rack", value: "9" }], cluster: { name: "filters" } }
        { name: "filter-b", driver: { fake: {} }, labels: [{ key: "room", value: "1" }] }
        { name: "filter_c", driver: { fake: {} } }
        { name: "filter-d", driver: { fake: {} } }
      ] }) { nodes { id name } errors { message } } }`,
    );
    expect(registerNodes.errors).toEqual([]);
    const id = (name: string) => registerNodes.nodes.find((node) => node.name === name)?.id;
    await ostler.commission(["filter-d"], "AVAILABLE");
    await ostler.operationEnds(await ostler.begin("setPower", ["filter-b"], { action: "ON" }));
    await ostler.query(
      `mutation { setMaintenance(input: { nodes: { names: ["filter_c"] }, reason: "fan" }) { errors { message } } }`,
    );
    const ours = { name: { contains: "FILTER" } };
    expect(await matching(ours)).toEqual(["Filter-a", "filter_c", "filter-b", "filter-d"].toSorted());
    expect(await matching({ ids: [id("filter-b"), id("filter-d"), "garbage"] })).toEqual(["filter-b", "filter-d"]);
    expect(await matching({ name: { eq: "filter-b" } })).toEqual(["filter-b"]);
    expect(await matching({ name: { in: ["filter-b", "filter-d", "ghost"] } })).toEqual(["filter-b", "filter-d"]);
    expect(await matching({ name: { in: [] } })).toEqual([]);
    expect(await matching({ name: { startsWith: "filter_" } })).toEqual(["filter_c"]);
    expect(await matching({ name: { contains: "r-", startsWith: "filter" } })).toEqual([
      "Filter-a",
      "filter-b",
      "filter-d",
    ]);
    expect(await matching({ ...ours, states: ["AVAILABLE", "ACTIVE"] })).toEqual(["filter-d"]);
    expect(await matching({ ...ours, states: [] })).toEqual([]);
    expect(await matching({ ...ours, powerStates: ["ON"] })).toEqual(["filter-b"]);
    expect(await matching({ ...ours, presences: ["DISAPPEARED"] })).toEqual([]);
    expect(await matching({ ...ours, maintenance: true })).toEqual(["filter_c"]);
    expect(await matching({ ...ours, maintenance: false, powerStates: ["UNKNOWN"] })).toEqual(["Filter-a"]);
    expect(await matching({ cluster: { name: "filters" } })).toEqual(["Filter-a"]);
    expect(await matching({ cluster: { name: "ghost" } })).toEqual([]);
    expect(await matching({ ...ours, driver: "ipmi" })).toEqual([]);
    expect(await matching({ labels: [{ key: "room", value: "1" }] })).toEqual(["Filter-a", "filter-b"]);
    expect(
      await matching({
        labels: [
          { key: "room", value: "1" },
          { key: "rack", value: "9" },
        ],
      }),
    ).toEqual(["Filter-a"]);
    expect(await matching({ ...ours, or: [{ maintenance: true }, { states: ["AVAILABLE"] }] })).toEqual(
      ["filter_c", "filter-d"].toSorted(),
    );
    expect(await matching({ ...ours, or: [] })).toEqual([]);
    expect(await matching({ ...ours, not: { or: [{ name: { eq: "Filter-a" } }, { maintenance: true }] } })).toEqual([
      "filter-b",
      "filter-d",
    ]);
    expect(await matching({ ...ours, cluster: null, states: null, labels: null })).toHaveLength(4);
  });

  test("a filter finds nodes by model, serial, inventory, label key, error code, cluster and time of change", async () => {
    const names = ["facts-1", "facts-2", "facts-3"];
    await ostler.register(names);
    const { sql } = ostler.test;
    await sql`update nodes set model = 'R740', labels = '{"owner": ""}', last_error = '{"code": "TIMEOUT", "message": "late"}'::jsonb where name = 'facts-1'`;
    for (const [name, vendor, serial, daysAgo] of [
      ["facts-1", "Acme", "S-1", 2],
      ["facts-1", "Apex", "S-2", 1],
      ["facts-2", "Acme", "S-3", 1],
    ] as const)
      await sql`insert into inventories (id, node_id, run_id, taken_at, data)
        select gen_random_uuid(), id, gen_random_uuid(), now() - ${daysAgo} * interval '1 day', ${sql.json({ serial, system: { vendor }, disks: [{ size: 8 }] })} from nodes where name = ${name}`;
    const ours = { name: { startsWith: "facts-" } };
    const found = (filter: object) => matching({ ...ours, ...filter });
    expect(await found({ model: "R740" })).toEqual(["facts-1"]);
    expect(await found({ serial: "S-2" })).toEqual(["facts-1"]);
    expect(await found({ serial: "S-1" })).toEqual([]);
    expect(await found({ inventory: { path: "system.vendor", eq: "Acme" } })).toEqual(["facts-2"]);
    expect(await found({ inventory: { path: "disks.0.size", eq: "8" } })).toEqual(["facts-1", "facts-2"]);
    expect(await found({ not: { inventory: { path: "system.vendor", eq: "Acme" } } })).toEqual(["facts-1", "facts-3"]);
    expect(await found({ labelKeys: ["owner"] })).toEqual(["facts-1"]);
    expect(await found({ not: { labelKeys: ["owner"] } })).toEqual(["facts-2", "facts-3"]);
    expect(await found({ labelKeys: [] })).toEqual([]);
    expect(await found({ errorCodes: ["TIMEOUT", "INTERRUPTED"] })).toEqual(["facts-1"]);
    expect(await found({ errorCodes: ["BACKEND_FAILED"] })).toEqual([]);
    expect(await found({ errorCodes: [] })).toEqual([]);
    expect(await found({ inCluster: true })).toEqual([]);
    expect(await found({ inCluster: false })).toEqual(names);
    const { nodes } = await ostler.query<{ nodes: { edges: { node: { updatedAt: string } }[] } }>(
      `{ nodes(filter: { name: { eq: "facts-3" } }) { edges { node { updatedAt } } } }`,
    );
    const changedSince = nodes.edges[0]?.node.updatedAt;
    expect(await found({ changedSince })).toContain("facts-3");
    expect(await found({ changedSince: "2999-01-01T00:00:00Z" })).toEqual([]);
  });

  test.each([{ serial: "S-1" }, { operationId: "x" }, { or: [{ not: { inventory: { path: "a", eq: "b" } } }] }])(
    "a stream with the filter %j is refused, because it cannot decide by inventories and runs",
    async (filter) => {
      const client = ostler.client();
      const results = client.iterate({
        query: "subscription S($filter: NodeFilter) { nodeTransitions(filter: $filter) { __typename } }",
        variables: { filter },
      });
      const { value } = await results.next();
      expect(JSON.stringify(value)).toMatch(/A stream cannot filter by `(serial|inventory|operationId)`/);
      await client.dispose();
    },
  );

  test.each(["%", "_", "\\", "'", '"; drop table nodes; --'])("a node filter takes %j literally", async (text) => {
    expect(await matching({ name: { contains: text, startsWith: "page-" } })).toEqual([]);
  });
});

describe("nodes that change between two pages", () => {
  test("every order says in its description whether nodes that change between two pages may be missing [R-848]", async () => {
    const names = await ostler.register(["turn-1", "turn-2", "turn-3", "turn-4"]);
    await ostler.query('mutation { createCluster(input: { name: "turn" }) { errors { message } } }');
    const { sql } = ostler.test;
    const [{ id: cluster } = { id: "" }] = await sql<{ id: string }[]>`select id from clusters where name = 'turn'`;
    const arrange = (first: readonly string[], others: readonly string[]) =>
      sql.begin(async (tx) => {
        // Bypasses the rules for states: only the order is tested.
        await tx`set local session_replication_role = replica`;
        await tx`update nodes set state = 'AVAILABLE', cluster_id = ${cluster}, updated_at = '2026-01-01' where name = any(${first})`;
        await tx`update nodes set state = 'MANAGEABLE', cluster_id = null, updated_at = '2026-02-01' where name = any(${others})`;
      });
    const { orders } = await ostler.query<{ orders: { enumValues: { name: string; description: string }[] } }>(
      '{ orders: __type(name: "NodeOrderField") { enumValues { name description } } }',
    );
    const found: Record<string, boolean> = {};
    for (const { name: field } of orders.enumValues) {
      await arrange(names.slice(0, 2), names.slice(2));
      const request = { filter: { name: { in: names } }, orderBy: { field }, first: 2 };
      const first = await list(request);
      const seen = namesOf(first);
      await arrange(
        names.filter((name) => !seen.includes(name)),
        seen,
      );
      const rest = await list({ ...request, first: 4, after: first.nodes.pageInfo.endCursor });
      found[field] = names.some((name) => [...seen, ...namesOf(rest)].filter((one) => one === name).length !== 1);
    }
    const described = orders.enumValues.map(({ name, description }) => [name, description.includes("may be missing")]);
    expect(found).toEqual(Object.fromEntries(described));
    expect(Object.values(found)).toContain(true);
  });
});

describe("one node", () => {
  test("a node is found by name, ID and UUID", async () => {
    const [name = ""] = await ostler.register(["one"]);
    const { byName } = await ostler.query<{ byName: { id: string; uuid: string } }>(
      "query One($name: String!) { byName: node(by: { name: $name }) { id uuid } }",
      { name },
    );
    const found = await ostler.query(
      "query Same($id: ID!, $uuid: UUID!, $raw: ID!) { byId: node(by: { id: $id }) { name } byUuid: node(by: { uuid: $uuid }) { name } byRaw: node(by: { id: $raw }) { name } again: fetch__Node(id: $id) { name } }",
      {
        ...byName,
        raw: byName.uuid,
      },
    );
    expect(found).toEqual({
      byId: { name },
      byUuid: { name },
      byRaw: { name },
      again: { name },
    });
  });

  test("an unknown node is null", async () => {
    expect(
      await ostler.query(
        `{ a: node(by: { name: "ghost" }) { name } b: node(by: { id: "ghost" }) { name } c: node(by: { uuid: "00000000-0000-0000-0000-000000000000" }) { name } }`,
      ),
    ).toEqual({ a: null, b: null, c: null });
  });
});
