/** The client's filter type, which is written by hand because the client imports nothing of the service. */
import { isInputObjectType } from "graphql";
import { expect, expectTypeOf, test } from "vitest";
import type { NodeFilter } from "../../src/client/index.ts";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import type { NodeFilterShape } from "../../src/graphql/schema/selectors.ts";

test("the client's NodeFilter has the fields of the schema's, and their types", async () => {
  // Checked by the compiler: what the client accepts as a field is a field, and whatever the schema takes fits its
  // type.
  expectTypeOf<keyof NodeFilter>().toEqualTypeOf<Exclude<keyof NodeFilterShape, "serial" | "inventory">>();
  expectTypeOf<NodeFilterShape["name"]>().toExtend<NodeFilter["name"]>();
  expectTypeOf<Omit<NodeFilterShape, "cluster" | "changedSince" | "serial" | "inventory" | "or" | "not">>().toExtend<
    Omit<NodeFilter, "cluster" | "changedSince" | "or" | "not">
  >();
  const fields: Readonly<Record<keyof NodeFilter, true>> = {
    ids: true,
    name: true,
    states: true,
    powerStates: true,
    presences: true,
    maintenance: true,
    retired: true,
    protected: true,
    faulty: true,
    withErrors: true,
    powerDrift: true,
    hostGroup: true,
    cluster: true,
    inCluster: true,
    driver: true,
    model: true,
    mac: true,
    errorCodes: true,
    changedSince: true,
    labelKeys: true,
    labels: true,
    or: true,
    not: true,
  };
  const input = buildSchema(await describeDrivers()).getType("NodeFilter");
  expect(Object.keys(isInputObjectType(input) ? input.getFields() : {}).toSorted()).toEqual(
    [...Object.keys(fields), "serial", "inventory"].toSorted(),
  );
});
