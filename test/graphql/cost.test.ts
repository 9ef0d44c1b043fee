/**
 * The cost of requests. Counting it takes linear time: each fragment is visited once, regardless of the number of its
 * spreads.
 */
import { readFileSync } from "node:fs";
import { Kind, parse, validate } from "graphql";
import type { FragmentDefinitionNode, OperationDefinitionNode, ValidationContext } from "graphql";
import { describe, expect, test } from "vitest";
import { describeDrivers } from "../../src/drivers/load.ts";
import { costOf } from "../../src/graphql/execution/cost.ts";
import { createDocumentCache, shapeRule } from "../../src/graphql/execution/document.ts";
import { EXAMPLES } from "../../src/graphql/tools/examples.ts";
import { LIMITS } from "../../src/graphql/base/request-limits.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";

const schema = buildSchema(await describeDrivers());

/** The cost of a document, and the number of fragment look-ups that counting took. */
function cost(
  text: string,
  variables: Readonly<Record<string, unknown>> = {},
): { readonly cost: number; readonly lookUps: number } {
  const { definitions } = parse(text);
  expect(validate(schema, parse(text))).toEqual([]);
  let lookUps = 0;
  const all = Object.fromEntries(
    definitions
      .filter((one): one is FragmentDefinitionNode => one.kind === Kind.FRAGMENT_DEFINITION)
      .map((one) => [one.name.value, one]),
  );
  const fragments = new Proxy(all, {
    get(target, name) {
      lookUps += 1;
      return Reflect.get(target, name) as unknown;
    },
  });
  const operation = definitions.find(
    (one): one is OperationDefinitionNode => one.kind === Kind.OPERATION_DEFINITION,
  ) as OperationDefinitionNode;
  return { cost: costOf({ schema, operation, fragments, variables }), lookUps };
}

/** The same selection under `count` aliases. */
const aliased = (count: number, text: string) => Array.from({ length: count }, (_, at) => `a${at}: ${text}`).join(" ");

describe("cost", () => {
  test.each([
    { what: "a few values add nothing", text: "{ viewer { subject project } }", is: 1 },
    { what: "fifty values count as one object", text: `{ viewer { ${aliased(49, "subject")} __typename } }`, is: 2 },
    {
      what: "values multiply with their page",
      text: `{ nodes(first: 500) { edges { cursor node { ${aliased(9, "name")} } } } }`,
      is: 500 * (1 + 0.2),
    },
    {
      what: "the edges of a page are values too, under each alias",
      text: `{ nodes(first: 1000) { ${aliased(100, "edges { cursor }")} } }`,
      is: 2_000,
    },
    {
      what: "the nodes of a page count like the nodes of its edges",
      text: `{ nodes(first: 500) { nodes { ${aliased(10, "name")} } } }`,
      is: 500 * (1 + 0.2),
    },
    {
      what: "the total count of a page counts ten in each item of an outer page",
      text: "{ nodes(first: 100) { nodes { operations { totalCount } } } }",
      is: 100 * (1 + 10),
    },
    {
      what: "a count of nodes has the cost of a total count, and that of its groups",
      text: "{ nodeCounts(by: [{ field: STATE }], first: 1000) { totalCount groups { nodeCount values { value } } } }",
      is: 10 + 1_000 * (0.03 + 5 * 0.03),
    },
    {
      what: "keys of labels multiply the cost of their values",
      text: "{ labelKeys(first: 200) { keys { key values(first: 100) { value } } } }",
      is: 10 + 200 * (0.03 + 100 * 0.03),
    },
    {
      what: "the fields of pageInfo are values too, under each alias",
      text: `{ nodes(first: 1) { ${aliased(100, "pageInfo { hasNextPage }")} } }`,
      is: 2,
    },
    {
      what: "__typename of a union and its members adds nothing",
      text: "subscription { nodeTransitions { __typename ... on Transition { __typename } } }",
      is: 1,
    },
    {
      what: "messages count three times",
      text: `{ nodes(first: 100) { edges { node { ${aliased(10, "powerProblem")} } } } }`,
      is: 100 * (1 + 0.6),
    },
    {
      what: "a JSON value counts forty",
      text: `{ cluster(by: { name: "c" }) { ${aliased(100, "variables")} } }`,
      is: 1 + 100 * 40,
    },
    {
      what: "arguments of a step count eight, and its output three",
      text: '{ operation(id: "x") { runs(first: 2) { edges { node { steps { args output } } } } } }',
      is: 1 + 2 * (1 + 5 * (1 + 8 + 3)),
    },
    {
      what: "an inventory counts twenty",
      text: "{ nodes(first: 100) { edges { node { inventory { data } } } } }",
      is: 100 * (1 + 1 + 20),
    },
    {
      what: "verbs count as fifteen items of half an object each",
      text: "{ nodes(first: 10) { edges { node { verbs { verb reason } } } } }",
      is: 10 * (1 + 15 * (0.5 + 0.02 + 0.06)),
    },
    {
      what: "labels count as twenty items",
      text: "{ nodes(first: 10) { edges { node { labels { key value } } } } }",
      is: 10 * (1 + 20 * (0.01 + 2 * 0.03)),
    },
    {
      what: "fields of each node of a verb count 25 times",
      text: "query ($nodes: NodeSelector!) { plan(input: { cleanNodes: { nodes: $nodes } }) { results { ref accepted } } }",
      is: 1 + 25 * 1.04,
    },
    {
      what: "a page counts its items",
      text: "{ nodes(first: 7) { edges { cursor node { name } } pageInfo { hasNextPage } } }",
      is: 7,
    },
    { what: "a page from the end counts its items", text: "{ nodes(last: 7) { edges { node { name } } } }", is: 7 },
    { what: "a page without a size has 50", text: "{ nodes { edges { node { name } } } }", is: 50 * 1.02 },
    {
      what: "a page without its items counts one",
      text: "{ nodes(first: 100) { pageInfo { hasNextPage } } }",
      is: 1,
    },
    { what: "a count of all costs ten", text: "{ nodes(first: 100) { totalCount } }", is: 10 },
    {
      what: "pages in pages multiply",
      text: "{ clusters(first: 3) { edges { node { nodes(first: 4) { edges { node { cluster { name } } } } } } } }",
      is: 3 * (1 + 4 * (1 + 1.02)),
    },
    {
      what: "a list without pages is assumed to have five items",
      text: "{ clusters(first: 2) { edges { node { nodeCounts { state } } } } }",
      is: 2 * (1 + 5 * 1.02),
    },
    {
      what: "lines of a log count a tenth",
      text: '{ operation(id: "x") { runs(first: 2) { edges { node { steps { log(tail: 20) { text } } } } } } }',
      is: 1 + 2 * (1 + 5 * (1 + 20 * 0.1)),
    },
    { what: "each alias counts", text: "{ a: viewer { subject } b: viewer { subject } }", is: 2 },
    {
      what: "a fragment counts where it is spread",
      text: "{ a: nodes(first: 2) { ...F } b: nodes(first: 3) { ...F } } fragment F on NodeConnection { edges { node { name } } }",
      is: 5,
    },
    {
      what: "what is left out counts nothing",
      text: "query ($no: Boolean!) { nodes(first: 9) { edges @include(if: $no) { node { name } } } viewer @skip(if: true) { subject } }",
      variables: { no: false },
      is: 1,
    },
    {
      what: "sizes come from variables, and from their defaults",
      text: "query ($a: Int, $b: Int = 6) { x: nodes(first: $a) { edges { node { name } } } y: nodes(first: $b) { edges { node { name } } } }",
      variables: { a: 5 },
      is: 11,
    },
    {
      what: "a size that is none is taken for a page's usual one",
      text: "query ($a: Int) { nodes(first: $a) { edges { node { name } } } }",
      variables: { a: "many" },
      is: 50 * 1.02,
    },
    {
      what: "an introspection has one price",
      text: '{ __type(name: "Node") { fields { name } } __schema { types { name fields { name } } } }',
      is: 1_100,
    },
  ])("cost: $what", ({ text, variables, is }) => {
    expect(cost(text, variables).cost).toBe(Math.floor(is + 1e-6));
  });

  test("the cost limit accepts 1,000 nodes with ten values or labels, and refuses hundreds of values", () => {
    const nodes = (fields: string) =>
      cost(`{ nodes(first: 1000) { edges { cursor node { ${fields} } } pageInfo { endCursor hasNextPage } } }`).cost;
    expect(nodes("uuid name state stage powerState presence hostGroup revision createdAt updatedAt")).toBeLessThan(
      LIMITS.cost / 4,
    );
    expect(nodes("uuid name state labels { key value } cluster { name }")).toBeLessThan(LIMITS.cost);
    expect(nodes(aliased(300, "name"))).toBeGreaterThan(LIMITS.cost);
  });

  test("the cost of the GraphiQL examples is far below the limit", () => {
    for (const { query } of EXAMPLES) {
      const { definitions } = parse(query);
      for (const operation of definitions.filter((one) => one.kind === Kind.OPERATION_DEFINITION))
        expect(costOf({ schema, operation, fragments: {}, variables: {} })).toBeLessThan(LIMITS.cost / 3);
    }
  });

  test("the cost of the example in docs/limits.md is as documented", () => {
    const page = readFileSync(new URL("../../docs/limits.md", import.meta.url), "utf8");
    const example = /```graphql\n([\s\S]*?)```/.exec(page)?.[1] ?? "";
    expect(`= ${cost(example).cost.toLocaleString("en")}\n`).toBe(example.slice(-"= 4,100\n".length));
  });
});

describe("time to count", () => {
  const LEVELS = 60;
  const fragments = (last: string) =>
    Array.from(
      { length: LEVELS },
      (_, at) => `fragment F${at} on Query { ${at === LEVELS - 1 ? last : `...F${at + 1} ...F${at + 1}`} }`,
    ).join(" ");

  test("counting the cost of exponentially nested fragments takes linear time", () => {
    expect(cost(`{ ...F0 } ${fragments("nodes(first: 10) { edges { node { name } } }")}`)).toEqual({
      cost: Number.MAX_SAFE_INTEGER,
      lookUps: 2 * LEVELS - 1,
    });
  });

  test("counting depth and root fields of nested fragments takes linear time", () => {
    const document = parse(`{ ...F0 } ${fragments("viewer { subject }")}`);
    const known = new Map(
      document.definitions.filter((one) => one.kind === Kind.FRAGMENT_DEFINITION).map((one) => [one.name.value, one]),
    );
    let lookUps = 0;
    const reported: string[] = [];
    const context = {
      getFragment(name: string) {
        lookUps += 1;
        return known.get(name);
      },
      reportError: (error: Error) => reported.push(error.message),
    } as unknown as ValidationContext;
    const { OperationDefinition: visit } = shapeRule(context) as { OperationDefinition(node: unknown): void };
    visit(document.definitions[0]);
    expect(lookUps).toBe(2 * (2 * LEVELS - 1));
    expect(reported).toEqual([expect.stringMatching(/^At most 32 root fields/)]);
  });

  test("counting a document with circular fragments ends", () => {
    const { definitions } = parse(
      "{ ...A } fragment A on Query { viewer { subject } ...B } fragment B on Query { ...A }",
    );
    const named = Object.fromEntries(
      definitions.slice(1).map((one) => [(one as FragmentDefinitionNode).name.value, one as FragmentDefinitionNode]),
    );
    expect(
      costOf({ schema, operation: definitions[0] as OperationDefinitionNode, fragments: named, variables: {} }),
    ).toBe(1);
  });
});

describe("document cache", () => {
  const documentOf = (at: number) => parse(`{ viewer { subject } } # ${at}`);

  test("the document cache drops the least recently used document", () => {
    const cache = createDocumentCache();
    const text = (at: number) => `${at} ${"x".repeat(30 * 1024)}`;
    for (let at = 0; at < 8; at += 1) cache.set(text(at), documentOf(at));
    expect(cache.get(text(0))).toBeDefined();
    cache.set(text(8), documentOf(8));
    expect(cache.get(text(0))).toBeDefined();
    expect(cache.get(text(1))).toBeUndefined();
  });

  test("the document cache does not keep long documents", () => {
    const cache = createDocumentCache();
    cache.set("x".repeat(64 * 1024), documentOf(0));
    expect(cache.get("x".repeat(64 * 1024))).toBeUndefined();
  });
});
