/**
 * The schema as a whole: fresh, and never without its guard. What holds for every type and field is in
 * schema-rules.test.ts.
 */
import { readFileSync } from "node:fs";
import { isInputObjectType } from "graphql";
import { expect, test } from "vitest";
import { builder } from "../../src/graphql/base/builder.ts";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema, schemaText } from "../../src/graphql/schema/schema.ts";

const schema = buildSchema(await describeDrivers());

test("schema.graphql is up to date", () => {
  expect(readFileSync(new URL("../../schema.graphql", import.meta.url), "utf8")).toBe(schemaText(schema));
});

test("building a schema with a root field without a scope throws", () => {
  builder.queryField("unguarded", (t) => t.boolean({ description: "None.", resolve: () => true }));
  expect(() => buildSchema([])).toThrow("Query.unguarded declares no scope; add needs(…).");
});

test("inputs with exactly one field are marked @oneOf", () => {
  const choices = Object.values(schema.getTypeMap()).filter((type) => isInputObjectType(type) && type.isOneOf);
  expect(choices.map(({ name }) => name)).toEqual(
    expect.arrayContaining(["ClusterRef", "NodeRef", "NodeSelector", "ShareInput", "WorkSelector"]),
  );
});
