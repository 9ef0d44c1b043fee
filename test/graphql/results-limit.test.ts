/** The size of results: as many as the nodes of a request, times the selected fields. */
import { afterAll, describe, expect, test } from "vitest";
import { LIMITS } from "../../src/graphql/base/request-limits.ts";
import { serviceUnderTest } from "../support/service.ts";

const statements: string[] = [];
const ostler = await serviceUnderTest({ started: false, onStatement: (text) => void statements.push(text) });
afterAll(() => ostler[Symbol.asyncDispose]());

const range = (count: number) => Array.from({ length: count }, (_, index) => index);
const NODES = 900;
const names = await ostler.register(NODES);
const aliases = (count: number, field: string) =>
  range(count)
    .map((at) => `a${at}: ${field}`)
    .join(" ");
const TOO_MANY = aliases(600, "ref");

async function limitOf(query: string, variables = {}) {
  const { text, errors, data } = await ostler.ask(query, variables);
  const [{ limit, requested } = { limit: undefined, requested: undefined }] = errors.map(
    ({ extensions = {} }) => extensions,
  );
  return { limit, requested: Number(requested), length: text.length, data };
}

const SELECTORS = [
  { what: "names", nodes: { names } },
  { what: "a filter", nodes: { filter: { name: { startsWith: "n" } } } },
  { what: "all nodes", nodes: { all: true } },
];

describe("aliases of results multiply by the selected nodes before anything is executed [R-200]", () => {
  test.each(SELECTORS)("600 aliases for 900 nodes by $what are refused for a verb", async ({ nodes }) => {
    const refused = await limitOf(
      `mutation Try($nodes: NodeSelector!) { inspectNodes(input: { nodes: $nodes }) { results { ${TOO_MANY} } } }`,
      { nodes },
    );
    expect(refused).toMatchObject({ limit: "values", requested: expect.any(Number) });
    expect(refused.requested).toBeGreaterThan(LIMITS.values);
    expect(refused.length).toBeLessThan(1_000);
  });

  test("600 aliases for 900 nodes are refused for a plan", async () => {
    const query = `{ plan(input: { inspectNodes: { nodes: { all: true } } }) { results { ${TOO_MANY} } } }`;
    expect(await limitOf(query)).toMatchObject({ limit: "values" });
  });

  test("a mutation whose answer would be too large changes nothing", async () => {
    const query = `mutation { setMaintenance(input: { nodes: { all: true }, reason: "check" }) { nodes { ${aliases(600, "name")} } } }`;
    expect(await limitOf(query)).toMatchObject({ limit: "values" });
    expect(await marked()).toBe(0);
  });

  test("the results of several fields of a request count together", async () => {
    const field = "plan(input: { inspectNodes: { nodes: { all: true } } }) { ...Results }";
    const fragment = `fragment Results on PlanPayload { results { ${aliases(110, "ref")} } }`;
    expect(await limitOf(`{ ${field} } ${fragment}`)).toMatchObject({ limit: undefined });
    expect(await limitOf(`{ ${aliases(6, field)} } ${fragment}`)).toMatchObject({ limit: "values" });
    const verb = "inspectNodes(input: { nodes: { all: true }, dryRun: true }) { ...Answers }";
    const answers = `fragment Answers on InspectNodesPayload { results { ${aliases(110, "ref")} } }`;
    expect(await limitOf(`mutation { ${verb} } ${answers}`)).toMatchObject({ limit: undefined });
    expect(await limitOf(`mutation { ${aliases(6, verb)} } ${answers}`)).toMatchObject({ limit: "values" });
  });
});

test("usual fields of 900 nodes need no query that counts them", async () => {
  statements.length = 0;
  const query =
    "{ plan(input: { inspectNodes: { nodes: { all: true } } }) { results { ref accepted error { code message } } } }";
  expect(await limitOf(query)).toMatchObject({ limit: undefined });
  expect(statements.filter((text) => text.includes("count("))).toEqual([]);
});

test("a mutation whose answer is longer than the limit is executed, and says so", async () => {
  const long = range(400).map((at) => `a${at}_${"x".repeat(60)}: name`);
  const { errors } = await ostler.ask(
    `mutation { setMaintenance(input: { nodes: { all: true }, reason: "check" }) { nodes { ${long.join(" ")} } } }`,
  );
  expect(errors).toMatchObject([
    { extensions: { limit: "answer" }, message: expect.stringContaining("has been executed") },
  ]);
  expect(await marked()).toBe(NODES);
});

async function marked(): Promise<number> {
  const { nodes } = await ostler.query<{ nodes: { totalCount: number } }>(
    "{ nodes(filter: { maintenance: true }) { totalCount } }",
  );
  return nodes.totalCount;
}
