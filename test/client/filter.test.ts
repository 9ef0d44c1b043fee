/** The client's filter type, which is printed from the schema because the client imports nothing of the service. */
import { isInputObjectType } from "graphql";
import { expect, expectTypeOf, test } from "vitest";
import type { NodeFilter } from "../../packages/client/src/index.ts";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import type { NodeFilterShape } from "../../src/graphql/schema/selectors.ts";
import { clientFilterText } from "../../docs/schema/client-filter.ts";
import { DATABASE_CONDITIONS, NODE_CONDITIONS } from "../../src/store/nodes/node-filter.ts";

const schema = buildSchema(await describeDrivers());

test("NodeFilter of the schema has a field for every condition of the store", () => {
  const input = schema.getType("NodeFilter");
  const converted: readonly string[] = ["presence", "clusterId", "clusterName"];
  expect(Object.keys(isInputObjectType(input) ? input.getFields() : {}).toSorted()).toEqual(
    [...NODE_CONDITIONS.filter((name) => !converted.includes(name)), "presences", "cluster"].toSorted(),
  );
});

test("the client's NodeFilter has the fields of the schema's that streams take, and their types", () => {
  type OfStreams = Omit<NodeFilterShape, (typeof DATABASE_CONDITIONS)[number]>;
  // Checked by the compiler: what the client accepts as a field is a field, and whatever the schema takes fits its
  // type.
  expectTypeOf<keyof NodeFilter>().toEqualTypeOf<keyof OfStreams>();
  expectTypeOf<NodeFilterShape["name"]>().toExtend<NodeFilter["name"]>();
  type Different = "cluster" | "changedSince" | "or" | "not";
  expectTypeOf<Omit<OfStreams, Different>>().toExtend<Omit<NodeFilter, Different>>();
  const text = clientFilterText(schema);
  for (const name of DATABASE_CONDITIONS) expect(text).not.toContain(`readonly ${name}`);
  expect(text).toContain("  readonly hostGroup?: string | null | undefined;\n");
  expect(text).toContain("export type ClusterRef = { readonly id: string } | { readonly name: string };\n");
});
