/** Limits of one request: the same over every transport, refused with the name of the limit, and cheap to refuse. */
import { setTimeout as delay } from "node:timers/promises";
import { getIntrospectionQuery } from "graphql";
import { afterAll, describe, expect, test } from "vitest";
import { LIMITS } from "../../src/graphql/base/request-limits.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";
import { EACH_TRANSPORT } from "./transports.ts";
import type { ApiRequest, Result } from "./transports.ts";

const open = await serviceUnderTest();
const silent = await serviceUnderTest({ introspection: false, queryMs: 300 });
afterAll(async () => {
  await open[Symbol.asyncDispose]();
  await silent[Symbol.asyncDispose]();
});

const times = (count: number, text: string) => text.repeat(count);
const nested = (levels: number): unknown => (levels === 0 ? 1 : [nested(levels - 1)]);
/** Twenty-five fragments, each of which spreads the next twice: 33 million fields if they were expanded. */
const EXPONENTIAL = `{ ...F0 } ${Array.from({ length: 25 }, (_, at) => `fragment F${at} on Query { ${at === 24 ? "nodes(first: 1) { edges { node { id } } }" : `...F${at + 1} ...F${at + 1}`} }`).join(" ")}`;
const CYCLE = "{ ...A } fragment A on Query { viewer { subject } ...B } fragment B on Query { ...A }";

interface Refused extends ApiRequest {
  readonly what: string;
  readonly limit: keyof typeof LIMITS;
  readonly requested?: number;
}

const REFUSED: readonly Refused[] = [
  { what: "one token too many", query: `{ viewer { ${times(1_997, "x ")} } }`, limit: "tokens" },
  {
    what: "brackets nested too deeply",
    query: `{ node(by: { name: ${times(31, "[")}1${times(31, "]")} }) { name } }`,
    limit: "nesting",
  },
  { what: "as many open brackets as the tokens allow", query: `{ node(by: ${times(1_900, "[")}`, limit: "nesting" },
  {
    what: "values nested too deeply in a variable",
    query: "query ($by: NodeRef!) { node(by: $by) { name } }",
    variables: { by: nested(32) },
    limit: "nesting",
  },
  {
    what: "fields nested too deeply",
    query:
      "{ clusters { edges { node { nodes { edges { node { cluster { nodes { edges { node { cluster { nodes { edges { node { name } } } } } } } } } } } } } } }",
    limit: "depth",
    requested: 15,
  },
  {
    what: "fields nested too deeply by fragments",
    query:
      "{ ...A } fragment A on Query { clusters { edges { node { ...B } } } } fragment B on Cluster { nodes { edges { node { cluster { nodes { edges { node { cluster { nodes { edges { node { name } } } } } } } } } } } }",
    limit: "depth",
    requested: 15,
  },
  {
    what: "one alias too many",
    query: `{ ${Array.from({ length: 33 }, (_, at) => `a${at}: viewer { subject }`).join(" ")} }`,
    limit: "rootFields",
    requested: 33,
  },
  {
    what: "aliases in fragments",
    query: `{ ...A ...B } fragment A on Query { ${Array.from({ length: 17 }, (_, at) => `a${at}: viewer { subject }`).join(" ")} } fragment B on Query { ${Array.from({ length: 16 }, (_, at) => `b${at}: viewer { subject }`).join(" ")} }`,
    limit: "rootFields",
    requested: 33,
  },
  {
    what: "hundreds of aliases in introspection",
    query: `{ __schema { ${Array.from({ length: 300 }, (_, at) => `a${at}: types { name }`).join(" ")} } }`,
    limit: "cost",
    requested: 301_000,
  },
  { what: "fragments that expand exponentially", query: EXPONENTIAL, limit: "rootFields" },
  {
    what: "very many fields of the same name",
    query: `{ viewer { ${times(1_900, "subject ")} } }`,
    limit: "comparisons",
  },
  {
    what: "pages in pages",
    query: "{ clusters(first: 100) { edges { node { nodes(first: 50) { edges { node { name } } } } } } }",
    limit: "cost",
    requested: 5_200,
  },
  {
    what: "a page whose size is a variable",
    query:
      "query ($first: Int, $other: Int = 100) { clusters(first: $other) { edges { node { nodes(last: $first) { edges { node { name } } } } } } }",
    variables: { first: 51 },
    limit: "cost",
    requested: 5_302,
  },
  {
    what: "pages in fragments",
    query:
      "{ clusters(first: 100) { ...Clusters } } fragment Clusters on ClusterConnection { edges { node { ...Nodes } } } fragment Nodes on Cluster { nodes(first: 100) { edges { node { name } } } }",
    limit: "cost",
    requested: 10_300,
  },
  {
    what: "a JSON value under many names",
    query: `{ cluster(by: { name: "x" }) { ${Array.from({ length: 400 }, (_, at) => `a${at}: variables`).join(" ")} } }`,
    limit: "cost",
    requested: 16_001,
  },
  {
    what: "verdicts under many names, in fragments",
    query: `{ nodes(first: 100) { edges { node { a: verbs { ...V } b: verbs { ...V } } } } } fragment V on VerbVerdict { ${Array.from({ length: 400 }, (_, at) => `a${at}: reason`).join(" ")} }`,
    limit: "cost",
    requested: 73_600,
  },
  {
    what: "labels of a list's edges under many names, in fragments",
    query: `{ nodes(first: 1) { ${Array.from({ length: 20 }, (_, at) => `e${at}: edges { ...X }`).join(" ")} } } fragment X on NodeEdge { node { ${Array.from({ length: 50 }, (_, at) => `l${at}: labels { ...L }`).join(" ")} } } fragment L on Label { ${Array.from({ length: 100 }, (_, at) => `k${at}: key`).join(" ")} }`,
    limit: "cost",
    requested: 60_220,
  },
  {
    what: "a filter with too many alternatives",
    query: "query ($filter: NodeFilter) { nodes(filter: $filter) { totalCount } }",
    variables: {
      filter: {
        or: Array.from({ length: 100 }, (_, at) => ({
          name: { eq: `n${at}` },
          ...(at === 7 && { not: { or: [{ retired: true }] } }),
        })),
      },
    },
    limit: "alternatives",
    requested: 101,
  },
];

const ACCEPTED: readonly (ApiRequest & { readonly what: string })[] = [
  {
    what: "the maximum depth",
    query:
      "{ clusters(first: 2) { edges { node { nodes(first: 2) { edges { node { cluster { nodes(first: 2) { edges { node { cluster { nodes(first: 1) { nodes { name } } } } } } } } } } } } } }",
  },
  {
    what: "the failed attempts of the recent operations of nodes",
    query:
      "{ nodes(first: 2) { edges { node { operations(first: 2) { edges { node { runs(first: 2) { edges { node { steps { failure { code } attempts { failure { code } } } } } } } } } } } } }",
  },
  {
    what: "aliases in introspection",
    query: '{ node: __type(name: "Node") { fields { name } } run: __type(name: "Run") { all: fields { name } } }',
  },
  {
    what: "the maximum number of aliases",
    query: `{ ${Array.from({ length: 32 }, (_, at) => `a${at}: viewer { subject }`).join(" ")} }`,
  },
  {
    what: "the maximum cost",
    query: "{ clusters(first: 100) { edges { node { nodes(first: 48) { edges { node { name } } } } } } }",
  },
  {
    what: "skipped fields",
    query:
      "query ($all: Boolean = false) { clusters(first: 100) { edges { node { name nodes(first: 100) @include(if: $all) { edges { node { name } } } } } } }",
  },
  {
    what: "the introspection of GraphiQL",
    query: getIntrospectionQuery({
      descriptions: true,
      specifiedByUrl: true,
      directiveIsRepeatable: true,
      schemaDescription: true,
      inputValueDeprecation: true,
      oneOf: true,
    }),
  },
];

describe.each(EACH_TRANSPORT)("request limits over $name", ({ name, ask }) => {
  test.each(REFUSED)("request with $what is refused", async ({ query, variables, limit, requested }) => {
    const { errors = [], data } = await ask(open.url, { query, ...(variables && { variables }) });
    expect(data ?? null).toBeNull();
    expect(errors).toHaveLength(1);
    const [error] = errors;
    expect(error?.extensions).toMatchObject({
      code: "LIMIT_EXCEEDED",
      limit,
      max: LIMITS[limit],
      ...(requested !== undefined && { requested }),
    });
    expect(error?.message).toMatch(/^At most [\d,]+ .* are allowed\. .*[a-z]\.$/);
    expect(error?.extensions).not.toHaveProperty("http");
  });

  test.each(ACCEPTED)("request with $what is answered", async ({ query, variables }) => {
    const { errors, data } = await ask(open.url, { query, ...(variables && { variables }) });
    expect(errors).toBeUndefined();
    expect(data).toBeTruthy();
  });

  test.each([
    { what: "an error of syntax", query: "{ viewer { subject }", code: "GRAPHQL_PARSE_FAILED" },
    { what: "an unknown field", query: "{ viewer { nonsense } }", code: "GRAPHQL_VALIDATION_FAILED" },
    {
      what: "an introspection under many names",
      query: `{ ${Array.from({ length: 20 }, (_, at) => `a${at}: __schema { types { name } }`).join(" ")} }`,
      code: "LIMIT_EXCEEDED",
    },
    {
      what: "parts of an introspection under many names",
      query: `{ __schema { ...Types } } fragment Types on __Schema { ${Array.from({ length: 60 }, (_, at) => `a${at}: types { name }`).join(" ")} }`,
      code: "LIMIT_EXCEEDED",
    },
    { what: "a fragment that spreads itself", query: CYCLE, code: "GRAPHQL_VALIDATION_FAILED" },
    {
      what: "a variable of the wrong type",
      query: "query ($first: Int) { nodes(first: $first) { totalCount } }",
      variables: { first: "x" },
      code: "BAD_USER_INPUT",
    },
    {
      what: "several operations and no name",
      query: "query A { viewer { subject } } query B { viewer { subject } }",
      code: "BAD_REQUEST",
    },
    {
      what: "an unknown operation name",
      query: "query A { viewer { subject } }",
      operationName: "C",
      code: "BAD_REQUEST",
    },
  ])("request with $what is refused with its error code", async ({ code, what: _what, ...request }) => {
    const { errors = [] } = await ask(open.url, request);
    expect(errors.map(({ extensions }) => extensions?.["code"])).toContain(code);
    expect(errors.map(({ extensions }) => extensions?.["code"])).not.toContain("INTERNAL");
  });

  test.each([
    { what: "the document", query: '{ nodes(filter: { name: { prefix: "a" } }) { totalCount } }' },
    {
      what: "a variable",
      query: "query ($filter: NodeFilter) { nodes(filter: $filter) { totalCount } }",
      variables: { filter: { name: { prefix: "a" } } },
    },
  ])(
    "an unknown field of an input in $what is refused with the fields that it has",
    async ({ what: _what, ...request }) => {
      const suggestion = 'Did you mean one of "contains", "eq", "in", "startsWith"?';
      const refused = 'Expected value of type "StringFilter" not to include unknown field "prefix".';
      const messagesOf = ({ errors = [] }: Result) =>
        errors.map(({ message }) => message.replace(/^Variable .* at \.name: /, ""));
      expect(messagesOf(await ask(open.url, request))).toEqual([`${refused} ${suggestion}`]);
      expect(messagesOf(await ask(silent.url, request))).toEqual([refused]);
    },
  );

  test("response states the cost of its request only if the header asks for it, not always", async () => {
    const query =
      "{ nodes(first: 7) { totalCount edges { node { name cluster { name } verbs { verb } } } } viewer { subject } }";
    expect(await ask(open.url, { query })).not.toHaveProperty("extensions");
    const { extensions } = await ask(open.url, { query, headers: { "x-ostler-cost": "1" } });
    expect(extensions).toEqual({
      cost: { requested: Math.floor(10 + 7 * (1.02 + 1.02 + 15 * 0.52) + 1.02), max: 5_000 },
    });
  });

  test("response that becomes too long is refused, and reports the effect of its mutation", async () => {
    const cluster = `long-${name.replaceAll(" ", "-").toLowerCase()}`;
    await open.query("mutation ($name: String!) { createCluster(input: { name: $name }) { cluster { id } } }", {
      name: cluster,
    });
    // As an earlier version stored it.
    await open.test
      .sql`update clusters set variables = ${open.test.sql.json({ text: "x".repeat(250_000) })} where name = ${cluster}`;
    const under = (names: number) => Array.from({ length: names }, (_, at) => `a${at}: variables`).join(" ");
    const long = await ask(open.url, { query: `{ cluster(by: { name: "${cluster}" }) { ${under(70)} } }` });
    expect(long.data ?? null).toBeNull();
    expect(long.errors).toMatchObject([
      {
        message: expect.stringMatching(/^At most 16,777,216 characters/) as string,
        extensions: { code: "LIMIT_EXCEEDED", limit: "answer", max: LIMITS.answer },
      },
    ]);
    const fitting = await ask(open.url, { query: `{ cluster(by: { name: "${cluster}" }) { ${under(60)} } }` });
    expect(fitting.errors).toBeUndefined();
    if (name === "GET") return;
    const done = await ask(open.url, {
      query: `mutation { updateCluster(input: { cluster: { name: "${cluster}" }, variables: { text: null } }) { cluster { ${under(70)} } } }`,
    });
    expect(done.errors).toBeUndefined();
  });

  test("introspection is refused where it is disabled, and no name is suggested", async () => {
    const { errors = [] } = await ask(silent.url, {
      query: '{ __schema { types { name } } __type(name: "Node") { name } viewer { __typename } }',
    });
    expect(errors.map(({ extensions }) => extensions?.["code"])).toEqual(["FORBIDDEN", "FORBIDDEN"]);
    const { errors: [near] = [] } = await ask(silent.url, { query: "{ viewer { subjekt } }" });
    expect(near?.message).toBe('Cannot query field "subjekt" on type "Actor".');
    const { errors: [far] = [] } = await ask(silent.url, {
      query: "query ($filter: NodeFilter) { nodes(filter: $filter) { totalCount } }",
      variables: { filter: { states: ["AVAILABEL"] } },
    });
    expect(far?.message).not.toMatch(/did you mean/i);
    const { errors: [suggestion] = [] } = await ask(open.url, { query: "{ viewer { subjekt } }" });
    expect(suggestion?.message).toContain("Did you mean");
  });

  test("query that takes too long is answered at its timeout, and no other is affected", async () => {
    const held = Promise.withResolvers<void>();
    const locked = Promise.withResolvers<void>();
    const holding = silent.test.sql.begin(async (sql) => {
      await sql`lock table clusters in access exclusive mode`;
      locked.resolve();
      await held.promise;
    });
    await locked.promise;
    try {
      const { errors = [], data } = await ask(silent.url, {
        query: "{ clusters(first: 3) { edges { node { name } } } }",
      });
      expect(data ?? null).toBeNull();
      expect(errors).toMatchObject([
        {
          message: expect.stringMatching(/^At most 10 seconds/) as string,
          extensions: { code: "LIMIT_EXCEEDED", limit: "seconds" },
        },
      ]);
      expect((await ask(silent.url, { query: "{ viewer { subject } }" })).data).toEqual({
        viewer: { subject: "anonymous" },
      });
      if (name !== "GET") {
        const late = ask(silent.url, {
          query: `mutation { createCluster(input: { name: "late-${name.replaceAll(" ", "-").toLowerCase()}" }) { cluster { state } errors { code } } }`,
        });
        // Three times the timeout of a query: the test shows that nothing arrives.
        expect(await Promise.race([late, delay(900, "nothing yet")])).toBe("nothing yet");
        held.resolve();
        expect((await late).errors).toBeUndefined();
      }
    } finally {
      held.resolve();
      await holding;
    }
  });
});

test.each(EACH_TRANSPORT.filter(({ name }) => name === "server-sent events" || name === "WebSocket"))(
  "subscription over $name has the same limits",
  async ({ ask }) => {
    const costly = await ask(open.url, {
      query:
        "subscription { nodeTransitions(snapshot: true) { ... on NodeSnapshot { node { operations(first: 100) { edges { node { runs(first: 100) { edges { node { id } } } } } } } } } }",
    });
    expect(costly.errors).toMatchObject([{ extensions: { code: "LIMIT_EXCEEDED", limit: "cost" } }]);
    const deepFilter = await ask(open.url, {
      query: "subscription ($filter: NodeFilter) { nodeTransitions(filter: $filter) { __typename } }",
      variables: { filter: nested(32) },
    });
    expect(deepFilter.errors).toMatchObject([{ extensions: { code: "LIMIT_EXCEEDED", limit: "nesting" } }]);
    const fine = await ask(open.url, { query: "subscription { nodeTransitions(snapshot: true) { __typename } }" });
    expect(fine.errors).toBeUndefined();
    expect(fine.extensions).toBeUndefined();
  },
);

test.each([
  { what: "a value beyond a limit", query: REFUSED[0]?.query ?? "", status: 400 },
  { what: "an unknown field", query: "{ nonsense }", status: 400 },
])(
  "request with $what is answered with 200 to clients that accept JSON only, else with $status",
  async ({ query, status }) => {
    expect((await open.ask(query)).status).toBe(200);
    expect((await open.ask(query, {}, { accept: "application/graphql-response+json" })).status).toBe(status);
  },
);

test("mutation takes effect although its client disconnects meanwhile", async () => {
  const held = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const holding = open.test.sql.begin(async (sql) => {
    await sql`lock table clusters in access exclusive mode`;
    locked.resolve();
    await held.promise;
  });
  await locked.promise;
  const leave = new AbortController();
  const left = fetch(`${open.url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ query: 'mutation { createCluster(input: { name: "left-behind" }) { errors { code } } }' }),
    signal: leave.signal,
  });
  await eventually("the mutation waits for the lock", async () => {
    const rows = await open.database.reader.execute<{ count: number }>(
      "select count(*)::int as count from pg_locks where not granted",
    );
    return Number([...rows][0]?.["count"]) > 0;
  });
  leave.abort();
  await expect(left).rejects.toThrow(/abort/);
  held.resolve();
  await holding;
  await eventually(
    "the cluster is there",
    async () =>
      (await open.query<{ cluster: { name: string } | null }>('{ cluster(by: { name: "left-behind" }) { name } }'))
        .cluster !== null,
  );
});

test("lists of known length have the length that is counted", async () => {
  await open.register(["known-lengths"]);
  const { node, reservedSteps } = await open.query<{ node: { verbs: unknown[] }; reservedSteps: unknown[] }>(
    '{ node(by: { name: "known-lengths" }) { verbs { verb } } reservedSteps { name } }',
  );
  expect({ verbs: node.verbs.length, reservedSteps: reservedSteps.length }).toEqual({ verbs: 15, reservedSteps: 8 });
});

test("verbs on very many nodes fit into one request", async () => {
  const names = Array.from({ length: 10_000 }, (_, at) => `a-name-of-a-node-${String(at).padStart(7, "0")}`);
  const { errors, data } = await open.ask<{ commissionNodes: { errors: { code: string }[] } }>(
    "mutation Many($input: CommissionNodesInput!) { commissionNodes(input: $input) { errors { code } } }",
    { input: { nodes: { names } } },
  );
  expect(errors).toEqual([]);
  expect(data?.commissionNodes.errors).toMatchObject([{ code: "NOT_FOUND" }]);
});
