/** Objects by their global ID, through a root field for each type; and what clients must know of types beforehand. */
import { readFileSync } from "node:fs";
import { buildSchema as schemaOf, isObjectType, parse, visit } from "graphql";
import { afterAll, describe, expect, test } from "vitest";
import { describeDrivers } from "../../src/drivers/load.ts";
import { possibleTypesText } from "../../docs/schema/possible-types.ts";
import { buildSchema, schemaText } from "../../src/graphql/schema/schema.ts";
import { serviceUnderTest } from "../support/service.ts";

const schema = buildSchema(await describeDrivers());
const FETCHED = Object.keys(schema.getQueryType()?.getFields() ?? {}).flatMap(
  (name) => /^fetch__(\w+)$/.exec(name)?.[1] ?? [],
);

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());
const IDS = await oneOfEach();

/** The ID of one object of every type that has global IDs. */
async function oneOfEach(): Promise<Readonly<Record<string, string>>> {
  const [name = ""] = await ostler.register(1);
  await ostler.commission([name]);
  const { node, createCluster, createRunbook, registerImages, drivers } = {
    ...(await ostler.query<{
      node: {
        id: string;
        inventory: { id: string };
        operations: { edges: { node: { id: string; runs: { edges: { node: { id: string } }[] } } }[] };
      };
      drivers: { id: string }[];
    }>(
      "query All($name: String!) { node(by: { name: $name }) { id inventory { id } operations { edges { node { id runs { edges { node { id } } } } } } } drivers { id } }",
      { name },
    )),
    ...(await ostler.query<{ createCluster: { cluster: { id: string } } }>(
      'mutation { createCluster(input: { name: "refetched" }) { cluster { id } } }',
    )),
    ...(await ostler.query<{ createRunbook: { runbook: { id: string } } }>(
      'mutation { createRunbook(input: { name: "refetched", steps: [{ name: "erase_disks" }] }) { runbook { id } } }',
    )),
    ...(await ostler.query<{ registerImages: { images: { id: string }[] } }>(
      `mutation { registerImages(input: { images: [{ name: "refetched", url: "https://images.example/a", format: RAW, sizeBytes: 1, checksum: { value: "${"0".repeat(64)}" }, architecture: X64 }] }) { images { id } } }`,
    )),
  };
  const operation = node.operations.edges[0]?.node;
  return {
    Node: node.id,
    Cluster: createCluster.cluster.id,
    Operation: operation?.id ?? "",
    Run: operation?.runs.edges[0]?.node.id ?? "",
    Driver: drivers[0]?.id ?? "",
    Inventory: node.inventory.id,
    Runbook: createRunbook.runbook.id,
    Image: registerImages.images[0]?.id ?? "",
  };
}

describe("a type with global IDs", () => {
  test("a run is found by `run(id:)`, by ID and by UUID", async () => {
    const id = IDS["Run"] ?? "";
    const uuid = Buffer.from(id, "base64url").toString().replace("Run:", "");
    const found = await ostler.query(
      'query Run($id: ID!, $uuid: ID!) { byId: run(id: $id) { id } byUuid: run(id: $uuid) { id } none: run(id: "x") { id } }',
      { id, uuid },
    );
    expect(found).toEqual({ byId: { id }, byUuid: { id }, none: null });
  });

  test("types with global IDs are the expected ones", () => {
    expect(FETCHED.toSorted()).toEqual(Object.keys(IDS).toSorted());
  });

  test.each(Object.keys(IDS))("%s is fetched by an ID of its own, and by no other", async (type) => {
    const field = `fetch__${type}`;
    for (const [of, id] of Object.entries(IDS)) {
      const found = await ostler.query(`query Again($id: ID!) { ${field}(id: $id) { __typename id } }`, { id });
      expect(found).toEqual({
        [field]: of === type ? { __typename: type, id } : null,
      });
    }
  });

  test.each([
    "",
    "unknown",
    Buffer.from("Node:unknown").toString("base64url"),
    Buffer.from("Driver:unknown").toString("base64url"),
  ])("nothing is fetched by the invalid ID %j", async (id) => {
    const fields = FETCHED.map((type) => `fetch__${type}(id: $id) { id }`).join(" ");
    const found = await ostler.query(`query None($id: ID!) { ${fields} }`, { id });
    expect(Object.values(found)).toEqual(Object.keys(found).map(() => null));
  });
});

describe("the text of the schema", () => {
  const text = schemaText(schema);

  test("the schema text marks exactly the types with a fetch field as @fetchable", () => {
    const fetchable = new Map<string, string>();
    visit(parse(text), {
      ObjectTypeDefinition({ name, directives = [] }) {
        for (const directive of directives) {
          const field = directive.arguments?.[0]?.value;
          if (directive.name.value === "fetchable")
            fetchable.set(name.value, field?.kind === "StringValue" ? field.value : "");
        }
      },
    });
    expect(Object.fromEntries(fetchable)).toEqual(Object.fromEntries(FETCHED.map((name) => [name, "id"])));
  });

  test("the schema text parses to a schema of the same types", () => {
    const read = schemaOf(text);
    const names = (one: typeof schema) => Object.keys(one.getTypeMap()).toSorted();
    expect(names(read)).toEqual(names(schema));
    expect(isObjectType(read.getType("Node"))).toBe(true);
  });

  test("the schema text declares @oneOf once", () => {
    expect(text.match(/^directive @oneOf\b.*$/gm)).toEqual(["directive @oneOf on INPUT_OBJECT"]);
  });
});

describe("possibleTypes.json", () => {
  test("possibleTypes.json is up to date", () => {
    expect(readFileSync(new URL("../../possibleTypes.json", import.meta.url), "utf8")).toBe(possibleTypesText(schema));
  });
});
