/** The queries `nodeCounts` and `labelKeys`. test/store/node-counts.test.ts covers what they count. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const statements: string[] = [];
const ostler = await serviceUnderTest({ onStatement: (text) => void statements.push(text) });
afterAll(() => ostler[Symbol.asyncDispose]());

beforeAll(async () => {
  await ostler.query(
    `mutation { registerNodes(input: { nodes: [
      { name: "a", driver: { fake: {} }, labels: [{ key: "rack", value: "1" }, { key: "row", value: "x" }] }
      { name: "b", driver: { fake: {} }, labels: [{ key: "rack", value: "2" }] }
      { name: "c", driver: { fake: {} }, labels: [{ key: "rack", value: "2" }] }
      { name: "d", driver: { fake: {} } }
    ] }) { errors { message } } }`,
  );
  await ostler.query(
    `mutation { createCluster(input: { name: "berlin", nodes: { names: ["a", "b"] } }) { errors { message } } }`,
  );
});

const COUNTS = `query Counts($by: [NodeCountKeyInput!]!, $first: Int! = 100, $filter: NodeFilter) {
  nodeCounts(by: $by, first: $first, filter: $filter) {
    groups { values { field label value } nodeCount cluster { name } }
    groupCount totalCount otherGroupCount otherNodeCount
  }
}`;
const SUMS = { groupCount: 3, totalCount: 4, otherGroupCount: 0, otherNodeCount: 0 };

describe("nodeCounts", () => {
  test("nodes are counted by cluster and label, with the cluster of each group [R-525]", async () => {
    const berlin = { name: "berlin" };
    const of = (cluster: string | null, rack: string | null) => [
      { field: "CLUSTER", label: null, value: cluster },
      { field: null, label: "rack", value: rack },
    ];
    expect(await ostler.query(COUNTS, { by: [{ field: "CLUSTER" }, { label: "rack" }] })).toEqual({
      nodeCounts: {
        groups: [
          { values: of("berlin", "1"), nodeCount: 1, cluster: berlin },
          { values: of("berlin", "2"), nodeCount: 1, cluster: berlin },
          { values: of(null, "2"), nodeCount: 1, cluster: null },
          { values: of(null, null), nodeCount: 1, cluster: null },
        ],
        ...SUMS,
        groupCount: 4,
      },
    });
  });

  test("groups that `first` leaves out are counted [R-526]", async () => {
    expect(await ostler.query(COUNTS, { by: [{ label: "rack" }], first: 1 })).toEqual({
      nodeCounts: {
        groups: [{ values: [{ field: null, label: "rack", value: "2" }], nodeCount: 2, cluster: null }],
        ...SUMS,
        otherGroupCount: 2,
        otherNodeCount: 2,
      },
    });
  });

  test("several counts in one request are as of one moment, each one statement", async () => {
    statements.length = 0;
    const answer = await ostler.query(
      `{ states: nodeCounts(by: [{ field: STATE }], filter: { labelKeys: ["rack"] }) { groups { values { value } nodeCount } }
         powers: nodeCounts(by: [{ field: POWER }]) { groups { values { value } nodeCount } } }`,
    );
    expect(answer).toEqual({
      states: { groups: [{ values: [{ value: "ENROLLED" }], nodeCount: 3 }] },
      powers: { groups: [{ values: [{ value: "UNKNOWN" }], nodeCount: 4 }] },
    });
    expect(statements.filter((text) => text.includes(`"nodes"`))).toHaveLength(2);
    expect(statements.filter((text) => /^\s*begin.*repeatable read/i.test(text))).toHaveLength(1);
  });

  test.each([
    { by: [], says: "`by` is empty. Name at least one field or label to count by." },
    { by: [{ field: "STATE" }, { field: "STATE" }], says: "`by` names field STATE more than once. Name it once." },
    {
      by: [{ label: "a" }, { label: "b" }, { label: "a" }],
      says: '`by` names label "a" more than once. Name it once.',
    },
    {
      by: ["STATE", "CLUSTER", "POWER", "STAGE", "MODEL"].map((field) => ({ field })),
      says: "`by` has 5 entries; use up to 4, or several counts in one request.",
    },
    { by: [{ field: "STATE" }], first: 0, says: "`first` is 0; use 1 to 1000." },
    { by: [{ field: "STATE" }], first: 1001, says: "`first` is 1001; use 1 to 1000." },
  ])("nodeCounts with %j is refused before a node is read [R-527]", async ({ by, first, says }) => {
    statements.length = 0;
    const { errors } = await ostler.ask(COUNTS, { by, ...(first !== undefined && { first }) });
    expect(errors).toMatchObject([{ message: says, extensions: { code: "BAD_USER_INPUT" } }]);
    expect(statements.filter((text) => text.includes(`"nodes"`))).toEqual([]);
  });

  test.each([
    { by: [{ field: "COLOUR" }], says: /The value does not exist in "NodeCountField" enum/ },
    {
      by: [{ field: "STATE", label: "rack" }],
      says: /Within OneOf Input Object type "NodeCountKeyInput", exactly one field must be specified/,
    },
    { by: [{}], says: /Within OneOf Input Object type "NodeCountKeyInput", exactly one field must be specified/ },
  ])("nodeCounts with the unknown entry %j is refused [R-527]", async ({ by, says }) => {
    const { errors } = await ostler.ask(COUNTS, { by });
    expect(errors[0]?.message).toMatch(says);
  });
});

describe("nodeCountChanges", () => {
  const CHANGES = `subscription Changes($by: [NodeCountKeyInput!]!, $filter: NodeFilter) {
    nodeCountChanges(by: $by, filter: $filter) { totalCount groups { values { value } nodeCount } }
  }`;

  test.each(["overSocket", "overEvents"] as const)(
    "counts are emitted %s: the present ones, then each change [R-531]",
    async (way) => {
      const power = (powerState: string) =>
        ostler.test.sql`update nodes set power_state = ${powerState} where name = 'd'`;
      await power("OFF");
      const items = ostler[way]<object>(CHANGES, { by: [{ field: "POWER" }] });
      const counts = (powerState: string) => ({
        nodeCountChanges: {
          totalCount: 4,
          groups: [
            { values: [{ value: "UNKNOWN" }], nodeCount: 3 },
            { values: [{ value: powerState }], nodeCount: 1 },
          ],
        },
      });
      expect((await items.next()).value).toEqual(counts("OFF"));
      await power("ON");
      expect((await items.next()).value).toEqual(counts("ON"));
      await power("UNKNOWN");
      await items.return?.();
    },
  );

  test.each([
    { variables: { by: [{ field: "STATE" }, { field: "STATE" }] }, says: /`by` names field STATE more than once/ },
    { variables: { by: [] }, says: /`by` is empty/ },
    { variables: { by: [{ field: "STATE" }], filter: { serial: "x" } }, says: /A stream cannot filter by `serial`/ },
  ])("nodeCountChanges with $variables is refused [R-527]", async ({ variables, says }) => {
    const client = ostler.client();
    const { value } = await client.iterate({ query: CHANGES, variables }).next();
    expect(JSON.stringify(value)).toMatch(says);
    await client.dispose();
  });
});

describe("labelKeys", () => {
  const KEYS = `query Keys($first: Int! = 50, $filter: NodeFilter) {
    labelKeys(first: $first, filter: $filter) {
      keys { key nodeCount valueCount values(first: 1) { value nodeCount } }
      keyCount otherKeyCount
    }
  }`;
  const rack = { key: "rack", nodeCount: 3, valueCount: 2, values: [{ value: "2", nodeCount: 2 }] };
  const row = { key: "row", nodeCount: 1, valueCount: 1, values: [{ value: "x", nodeCount: 1 }] };

  test("keys of labels have their values and the number of nodes, in two statements [R-528]", async () => {
    statements.length = 0;
    expect(await ostler.query(KEYS)).toEqual({ labelKeys: { keys: [rack, row], keyCount: 2, otherKeyCount: 0 } });
    expect(statements.filter((text) => text.includes("jsonb_each_text"))).toHaveLength(2);
    expect(await ostler.query(KEYS, { first: 1 })).toEqual({
      labelKeys: { keys: [rack], keyCount: 2, otherKeyCount: 1 },
    });
  });

  test("keys and values of labels are those of matching nodes [R-528]", async () => {
    expect(await ostler.query(KEYS, { filter: { cluster: { name: "berlin" }, not: { name: { eq: "a" } } } })).toEqual({
      labelKeys: {
        keys: [{ key: "rack", nodeCount: 1, valueCount: 1, values: [{ value: "2", nodeCount: 1 }] }],
        keyCount: 1,
        otherKeyCount: 0,
      },
    });
  });

  test.each([0, 201])("labelKeys with `first` %j is refused", async (first) => {
    expect((await ostler.ask(KEYS, { first })).errors).toMatchObject([
      { message: `\`first\` is ${first}; use 1 to 200.`, extensions: { code: "BAD_USER_INPUT" } },
    ]);
  });
});
