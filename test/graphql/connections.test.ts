/** Connections: the fields that every list with pages has. */
import { isObjectType } from "graphql";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const NAMES = ["a1", "a2", "b1"];
const SAYS = { steps: { "clean.erase_metadata": { says: ["one", "two"] } } };
let discovery = "";

beforeAll(async () => {
  await ostler.register(NAMES, SAYS);
  await ostler.query(
    `mutation { createCluster(input: { name: "berlin", nodes: { names: ["a1", "a2"] } }) { errors { message } } }`,
  );
  await ostler.operationEnds(
    await ostler.begin("commissionNodes", ["a1", "a2"], {
      nodes: { cluster: { name: "berlin" } },
      until: "AVAILABLE",
    }),
  );
  const { discoverNodes } = await ostler.query<{ discoverNodes: { operation: { id: string } } }>(
    `mutation { discoverNodes(input: { addresses: ["192.0.2.0/30"], driver: { fake: {} }, namePrefix: "z-" }) { operation { id } } }`,
  );
  await ostler.query(`mutation { registerImages(input: { images: [
    { name: "debian-12", url: "http://192.0.2.1/12", format: RAW, sizeBytes: 1, checksum: { algorithm: SHA256, value: "${"a".repeat(64)}" }, architecture: X64 }
    { name: "debian-13", url: "http://192.0.2.1/13", format: RAW, sizeBytes: 1, checksum: { algorithm: SHA256, value: "${"b".repeat(64)}" }, architecture: X64 }
  ] }) { errors { message } } }`);
  discovery = discoverNodes.operation.id;
  await ostler.operationEnds(discovery);
});

const ITEMS = "totalCount nodes { __typename } edges { node { __typename } }";
/** A request for each list with pages: its first item, and the number of all. */
const LISTS: Readonly<Record<string, string>> = {
  "Query.nodes": `nodes(FIRST filter: { name: { startsWith: "a" } }) { ITEMS }`,
  "Query.clusters": `clusters(FIRST) { ITEMS }`,
  "Query.operations": `operations(FIRST filter: { kinds: [COMMISSION] }) { ITEMS }`,
  "Query.images": `images(FIRST filter: { nameStartsWith: "debian" }) { ITEMS }`,
  "Query.audit": `audit(FIRST) { ITEMS }`,
  "Query.transitions": `transitions(FIRST filter: { cluster: { name: "berlin" } }) { ITEMS }`,
  "Query.stepAttempts": `stepAttempts(FIRST filter: { cluster: { name: "berlin" } }) { ITEMS }`,
  "Cluster.nodes": `parent: cluster(by: { name: "berlin" }) { nodes(FIRST) { ITEMS } }`,
  "Cluster.operations": `parent: cluster(by: { name: "berlin" }) { operations(FIRST) { ITEMS } }`,
  "Node.operations": `parent: node(by: { name: "a1" }) { operations(FIRST) { ITEMS } }`,
  "Node.transitions": `parent: node(by: { name: "a1" }) { transitions(FIRST) { ITEMS } }`,
  "Node.inventories": `parent: node(by: { name: "a1" }) { inventories(FIRST) { ITEMS } }`,
  "Operation.runs": `OPERATION { runs(FIRST states: [SUCCEEDED]) { ITEMS } }`,
  "Operation.transitions": `OPERATION { transitions(FIRST) { ITEMS } }`,
  "Operation.discoveries": `parent: operation(id: "DISCOVERY") { discoveries(FIRST states: [REGISTERED, KNOWN, FAILED]) { ITEMS } }`,
  "NodesAt.nodes": `parent: nodesAt(time: "AT_PRESENT", filter: { states: [ACTIVE, AVAILABLE] }) { nodes(FIRST) { ITEMS } }`,
  "Run.log": `OPERATION { runs(first: 1) { nodes { log(FIRST) { ITEMS } } } }`,
};

interface List {
  readonly totalCount: number;
  readonly nodes: readonly unknown[];
  readonly edges: readonly { readonly node: unknown }[];
}

/** The list in a response, at whatever depth. */
function listIn(value: unknown): List {
  if (typeof value !== "object" || value === null) throw new Error("The response has no list.");
  return "totalCount" in value ? (value as List) : listIn(Object.values(value)[0]);
}

async function read(list: string, first: number): Promise<List> {
  const { operations } = await ostler.query<{ operations: { nodes: { id: string }[] } }>(
    "{ operations(filter: { kinds: [COMMISSION] }) { nodes { id } } }",
  );
  const [now] = await ostler.test.sql<{ at: string }[]>`
    select to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at`;
  const text = (LISTS[list] ?? "")
    .replace("ITEMS", ITEMS)
    .replace("FIRST", `first: ${first}`)
    .replace("OPERATION", `parent: operation(id: "${operations.nodes[0]?.id}")`)
    .replace("AT_PRESENT", now?.at ?? "")
    .replace("DISCOVERY", discovery);
  return listIn(await ostler.query(`{ ${text} }`));
}

describe("every connection, not only lists of nodes,", () => {
  test("is tested below", async () => {
    const schema = buildSchema(await describeDrivers());
    const fields = Object.values(schema.getTypeMap()).flatMap((type) =>
      isObjectType(type) && !type.name.startsWith("__")
        ? Object.values(type.getFields())
            .filter((field) => String(field.type).endsWith("Connection!"))
            .map(({ name }) => `${type.name}.${name}`)
        : [],
    );
    expect(Object.keys(LISTS).toSorted()).toEqual(fields.toSorted());
  });

  test.each(Object.keys(LISTS))("has `nodes` and `totalCount`: %s [R-558]", async (list) => {
    const [all, one] = [await read(list, 100), await read(list, 1)];
    expect(all.totalCount).toBeGreaterThan(0);
    expect(all.nodes).toHaveLength(all.totalCount);
    expect(all.nodes).toEqual(all.edges.map(({ node }) => node));
    expect(one.totalCount).toBe(all.totalCount);
    expect(one.nodes).toHaveLength(1);
  });
});
