/** JSON that users and machines store is returned as it is stored, whatever its keys are. */
import { afterAll, expect, test } from "vitest";
import type { Json } from "../../src/drivers/driver.ts";
import { canonicalJson } from "../../src/runtime/canonical-json.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { serviceUnderTest } from "../support/service.ts";

/** The text of an object with a member `then` at its top, a key `__proto__`, and the same deeper inside. */
const KEYS = '"__proto__": { "a": 1 }, "constructor": 2, "deep": { "then": 1, "__proto__": null }';
const VALUES = ["1", '""', "false", "{}", "[]", '{ "then": "again" }'].map((value) => ({
  value,
  text: `{ "then": ${value}, ${KEYS} }`,
}));
const [{ text: SAMPLE } = { text: "" }] = VALUES;
const sample = (): Json => JSON.parse(SAMPLE) as Json;

const odd = aDriver("odd", {
  inspect: {
    ...stepsOf(aStep("look", "inspect", async () => ({ kind: "done", output: sample() }))),
    withoutReboot: true,
  },
});
const ostler = await serviceUnderTest({ drivers: [odd] });
afterAll(() => ostler[Symbol.asyncDispose]());

async function create(name: string, text: string): Promise<void> {
  const data = await ostler.query<{ createCluster: { errors: unknown[] } }>(
    "mutation Create($input: CreateClusterInput!) { createCluster(input: $input) { cluster { variables } errors { message } } }",
    { input: { name, variables: JSON.parse(text) } },
  );
  expect(data.createCluster.errors).toEqual([]);
}

test.each(VALUES)("variables with a member `then: $value` do not break lists of clusters", async ({ value, text }) => {
  const name = `then-${VALUES.findIndex((one) => one.value === value)}`;
  await create(name, text);
  const { clusters } = await ostler.query<{ clusters: { edges: { node: { name: string; variables: object } }[] } }>(
    "{ clusters(first: 50) { edges { node { name variables } } } }",
  );
  const found = clusters.edges.find(({ node }) => node.name === name)?.node.variables;
  expect(canonicalJson(found)).toBe(canonicalJson(JSON.parse(text)));
});

test("variables given in the document keep their members `then` and `__proto__`", async () => {
  const { createCluster } = await ostler.query<{ createCluster: { cluster: { variables: object } } }>(
    'mutation { createCluster(input: { name: "literal", variables: { then: 1, __proto__: { a: 1 } } }) { cluster { variables } errors { message } } }',
  );
  expect(canonicalJson(createCluster.cluster.variables)).toBe('{"__proto__":{"a":1},"then":1}');
});

test("a member `then` or `__proto__` is kept in inventories, outputs of steps and variables of work, in queries and streams", async () => {
  await ostler.query(
    'mutation { registerNodes(input: { nodes: [{ name: "odd-1", driver: { odd: {} } }] }) { errors { message } } }',
  );
  expect(await ostler.operationEnds(await ostler.begin("manageNodes", ["odd-1"]))).toBe("SUCCEEDED");
  const uuid = await ostler.begin("inspectNodes", ["odd-1"], { variables: sample() });
  expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
  const { nodes, operations } = await ostler.query<{
    nodes: { edges: { node: { inventory: { data: object } } }[] };
    operations: { edges: { node: Work }[] };
  }>(
    "{ nodes(first: 1) { edges { node { name inventory { data } } } } operations(first: 1) { edges { node { variables runs(first: 1) { edges { node { variables steps { output attempts { output } } } } } } } } }",
  );
  const work = operations.edges[0]?.node;
  const run = work?.runs.edges[0]?.node;
  const shown = [
    nodes.edges[0]?.node.inventory.data,
    work?.variables,
    run?.variables,
    run?.steps[0]?.output,
    run?.steps[0]?.attempts[0]?.output,
  ];
  expect(shown.map(canonicalJson)).toEqual(shown.map(() => canonicalJson(sample())));

  const follow =
    "subscription Follow($id: ID!) { operationChanges(filter: { ids: [$id] }, snapshot: true) { ... on OperationUpserted { operation { variables } } } }";
  for (const items of [ostler.overSocket(follow, { id: uuid }), ostler.overEvents(follow, { id: uuid })]) {
    const { value } = await items.next();
    expect(value).toMatchObject({ operationChanges: { operation: { variables: sample() } } });
    await items.return?.();
  }
});

interface Work {
  readonly variables: object;
  readonly runs: {
    readonly edges: readonly {
      readonly node: {
        readonly variables: object;
        readonly steps: readonly {
          readonly output: object;
          readonly attempts: readonly { readonly output: object }[];
        }[];
      };
    }[];
  };
}

test("an alias `then` is a name like any other", async () => {
  const { then } = await ostler.query<{ then: { then: { then: string }[] } }>(
    "{ then: clusters(first: 1) { then: edges { then: cursor } } }",
  );
  expect(then.then[0]?.then).toBeTypeOf("string");
});
