/** Lists as long as the body: more ids and names than a statement has parameters, in filters and verbs alike. */
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const statements: string[] = [];
const ostler = await serviceUnderTest({ bodyBytesMax: 16 << 20, onStatement: (text) => statements.push(text) });
afterAll(() => ostler[Symbol.asyncDispose]());

const KNOWN = ["known-1", "known-2", 'with "quotes" \\ {and, commas}'];
await ostler.register(KNOWN.slice(0, 2));
const ids = (
  await ostler.query<{ nodes: { edges: { node: { id: string } }[] } }>("{ nodes { edges { node { id } } } }")
).nodes.edges.map(({ node }) => node.id);

const MANY = 70_000;
const unknownNames = Array.from({ length: MANY }, (_, index) => `n${index.toString(36)}`);
const unknownIds = Array.from({ length: MANY }, () => Buffer.from(`Node:${randomUUID()}`).toString("base64url"));
const found = { nodes: { totalCount: 2, edges: KNOWN.slice(0, 2).map((name) => ({ node: { name } })) } };
const none = { nodes: { totalCount: 0, edges: [] } };

describe("a filter", () => {
  const nodes = (filter: object) =>
    ostler.query("query ($filter: NodeFilter) { nodes(filter: $filter) { totalCount edges { node { name } } } }", {
      filter,
    });

  test("a filter with many names finds the existing ones", async () => {
    expect(await nodes({ name: { in: unknownNames } })).toEqual(none);
    expect(await nodes({ name: { in: [...unknownNames, ...KNOWN] } })).toEqual(found);
    expect(await nodes({ not: { name: { in: unknownNames } } })).toEqual(found);
  });

  test("a filter with many ids finds the existing ones", async () => {
    expect(await nodes({ ids: unknownIds })).toEqual(none);
    expect(await nodes({ ids: [...unknownIds, ...ids] })).toEqual(found);
  });

  test("a filter removes duplicate values", async () => {
    expect(
      await nodes({
        states: Array.from({ length: MANY }, () => "ENROLLED"),
        powerStates: Array.from({ length: MANY }, () => "UNKNOWN"),
        presences: Array.from({ length: MANY }, () => "UNSEEN"),
      }),
    ).toEqual(found);
  });

  test.each(['a"b', "a\\", "{a", "a,b", "", "NULL", "ä", " a "])(
    "a filter takes the name %j literally",
    async (name) => {
      expect(await nodes({ name: { in: [name, "known-1"] } })).toMatchObject({ nodes: { totalCount: 1 } });
    },
  );

  test("a filter has the same SQL for lists of any length", async () => {
    const textOf = async (length: number) => {
      statements.length = 0;
      await nodes({ name: { in: unknownNames.slice(0, length) } });
      // The service reads other tables in the background.
      return statements.filter((text) => text.includes('from "nodes"'));
    };
    const short = await textOf(2);
    expect(short).not.toEqual([]);
    expect(await textOf(200)).toEqual(short);
  });
});

describe("a verb", () => {
  const errors = "errors { type: __typename code ... on NotFoundError { missing missingCount } }";

  test.each([
    ["cleanNodes", "CleanNodesInput", "nodes"],
    ["setRetired", "SetRetiredInput", "nodes"],
    ["deleteNodes", "DeleteNodesInput", "nodes"],
    ["abort", "AbortInput", "work"],
  ])("%s counts every node that there is not, and names the first 100", async (verb, type, field) => {
    const extra =
      verb === "setRetired" ? { reason: "old" } : verb === "cleanNodes" ? { steps: [{ name: "erase_metadata" }] } : {};
    for (const selector of [{ names: unknownNames }, { ids: unknownIds }]) {
      const { data, errors: failed } = await ostler.ask<
        Record<string, { errors: { code: string; missing: string[]; missingCount: number }[] }>
      >(`mutation ($input: ${type}!) { ${verb}(input: $input) { ${errors} } }`, {
        input: { [field]: selector, ...extra },
      });
      expect(failed).toEqual([]);
      expect(data?.[verb]?.errors).toMatchObject([{ code: "NOT_FOUND", missingCount: MANY }]);
      expect(data?.[verb]?.errors[0]?.missing).toHaveLength(100);
    }
  });
});
