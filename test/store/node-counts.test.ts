/** Counts of nodes by fields and labels, compared with counting all rows. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { COUNTED_COLUMNS, DECLARED_NAMES, declared } from "../../src/store/nodes/node-fields.ts";
import type { CountedField, NodeRow } from "../../src/store/nodes/node-fields.ts";
import { labelKeysInUse, labelValuesInUse, nodeGroups } from "../../src/store/nodes/node-counts.ts";
import type { CountKey, NodeGroup } from "../../src/store/nodes/node-counts.ts";
import { nodesByNames } from "../../src/store/nodes/nodes.ts";
import { clustersByIds } from "../../src/store/nodes/clusters.ts";
import { openDatabase } from "../../src/store/postgres/database.ts";
import { testDatabase } from "../support/database.ts";
import { fillDeclared } from "../support/declared-fields.ts";

const NODES = 300;
const ALL = { filter: undefined, first: 1000 };

const owned = new AsyncDisposableStack();
const { connection, sql } = owned.use(await testDatabase());
const statements: string[] = [];
const { bounded: reader } = owned.use(
  await openDatabase({ connection, connectionsMax: 2, onStatement: (text) => void statements.push(text) }),
);
afterAll(() => owned.disposeAsync());

let rows: readonly NodeRow[] = [];
const clusterNames = new Map<string | null, string>();

beforeAll(async () => {
  await sql`insert into clusters (id, name, project, variables) select gen_random_uuid(), name, 'default', '{}' from unnest(array['berlin', 'Zürich', 'ä']) name`;
  await sql.begin(async (tx) => {
    // Disables the triggers for states, which require a transition for each node.
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into nodes (id, name, project, state, stage, power_state, presence, host_group, model, driver, borrowed, settings, labels, cluster_id)
      select gen_random_uuid(), 'n' || n, 'default', (array['ACTIVE', 'AVAILABLE', 'ENROLLED'])[1 + n % 3], (array['NONE', 'DEPLOYED'])[1 + n % 2],
        (array['ON', 'OFF', 'UNKNOWN'])[1 + n % 3], (array['DISCOVERED', 'UNSEEN'])[1 + n % 2], (array['web', '', 'Web', null])[1 + n % 4], case when n % 5 > 0 then 'R' || n % 5 end,
        (array['fake', 'ipmi'])[1 + n % 2], '{}', '{}', case when n % 3 = 0 then '{}' else jsonb_build_object('rack', (n % 7)::text, 'serial', n::text, 'it''s "x"', 'ü') end,
        (select id from clusters where name = (array['berlin', 'Zürich', 'ä', null])[1 + n % 4])
      from generate_series(0, ${NODES - 1}) n`;
    await fillDeclared(tx);
  });
  const names = Array.from({ length: NODES }, (_, index) => `n${index}`);
  rows = await nodesByNames(reader, names);
  for (const { id, name } of await clustersByIds(reader, [
    ...new Set(rows.flatMap(({ clusterId }) => clusterId ?? [])),
  ]))
    clusterNames.set(id, name);
});

const COUNTED = DECLARED_NAMES.filter((name) => declared(name).count !== undefined);

/** The value of each field in a row, as a count shows it. */
const VALUES = {
  STATE: ({ state }) => state,
  CLUSTER: ({ clusterId }) => clusterNames.get(clusterId) ?? null,
  POWER: ({ powerState }) => powerState,
  PRESENCE: ({ presence }) => presence,
  DRIVER: ({ driver }) => driver,
  STAGE: ({ stage }) => stage,
  ...Object.fromEntries(
    COUNTED.map((name) => [declared(name).change, (row: NodeRow) => row[name]?.toString() ?? null]),
  ),
} as Readonly<Record<CountedField, (row: NodeRow) => string | null>>;

const FIELDS = Object.keys(COUNTED_COLUMNS) as CountedField[];

function valueOf(key: CountKey, row: NodeRow): string | null {
  return "field" in key ? VALUES[key.field](row) : (row.labels[key.label] ?? null);
}

/** Groups by counting rows, in the documented order. */
function counted(by: readonly CountKey[], among = rows): Omit<NodeGroup, "clusterId">[] {
  const groups = Map.groupBy(among, (row) => JSON.stringify(by.map((key) => valueOf(key, row))));
  return [...groups]
    .map(([values, { length }]) => ({ values: JSON.parse(values) as (string | null)[], nodeCount: length }))
    .toSorted((a, b) => b.nodeCount - a.nodeCount || compared(a.values, b.values));
}

function compared(a: readonly (string | null)[], b: readonly (string | null)[]): number {
  const at = a.findIndex((value, index) => value !== b[index]);
  const [x, y] = [a[at] ?? null, b[at] ?? null];
  if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1;
  return Buffer.compare(Buffer.from(x), Buffer.from(y));
}

const plain = (groups: readonly NodeGroup[]) => groups.map(({ values, nodeCount }) => ({ values, nodeCount }));

test("there are nodes to count, in clusters and in none", () => {
  expect(rows).toHaveLength(NODES);
  expect(clusterNames.size).toBe(3);
});

const COUNTS: readonly CountKey[][] = [
  ...FIELDS.map((field): CountKey[] => [{ field }]),
  [{ label: "rack" }],
  [{ label: "serial" }],
  [{ label: `it's "x"` }],
  [{ label: "absent" }],
  [{ field: "STATE" }, { field: "CLUSTER" }],
  [{ field: "CLUSTER" }, { label: "rack" }, { field: "MODEL" }, { field: "HOST_GROUP" }],
];

test.each(COUNTS.map((keys) => ({ keys })))(
  "counts by $keys are those of the rows, in one statement and order [R-525]",
  async ({ keys }) => {
    const expected = counted(keys);
    statements.length = 0;
    const { groups, groupCount, totalCount } = await nodeGroups(reader, { ...ALL, by: keys });
    expect(statements).toHaveLength(1);
    expect(plain(groups)).toEqual(expected);
    expect({ groupCount, totalCount }).toEqual({ groupCount: expected.length, totalCount: NODES });
  },
);

test("counts with a filter are those of the matching nodes, and none of them is a count of 0 [R-525]", async () => {
  const filter = { powerStates: ["ON"], not: { clusterName: "berlin" } } as const;
  const among = rows.filter((row) => row.powerState === "ON" && VALUES.CLUSTER(row) !== "berlin");
  const answer = await nodeGroups(reader, { filter, by: [{ field: "CLUSTER" }], first: 100 });
  expect(plain(answer.groups)).toEqual(counted([{ field: "CLUSTER" }], among));
  expect(answer.totalCount).toBe(among.length);
  expect(await nodeGroups(reader, { filter: { states: [] }, by: [{ field: "STATE" }], first: 100 })).toEqual({
    groups: [],
    groupCount: 0,
    totalCount: 0,
    cursor: { position: 0, at: null },
  });
});

test("a group of a cluster has the ID of the cluster, and no other group has one [R-525]", async () => {
  const { groups } = await nodeGroups(reader, { ...ALL, by: [{ field: "STATE" }, { field: "CLUSTER" }] });
  for (const { values, clusterId } of groups) expect(clusterNames.get(clusterId) ?? null).toBe(values[1]);
  const byState = await nodeGroups(reader, { ...ALL, by: [{ field: "STATE" }] });
  expect(byState.groups.map(({ clusterId }) => clusterId)).toEqual([null, null, null]);
});

test("a count has the cursor as of which it was read [R-525]", async () => {
  await sql`insert into transitions (position, node_id, node_name, project, to_state, event, sequence, node_revision, actor, at)
    values (1, gen_random_uuid(), 'x', 'default', 'ENROLLED', 'register', 1, 1, 'test', '2026-01-31T09:30:00.120Z')`;
  await sql`update feed_position set position = 1`;
  const { cursor } = await nodeGroups(reader, { ...ALL, by: [{ field: "STATE" }] });
  expect(cursor).toEqual({ position: 1, at: new Date("2026-01-31T09:30:00.120Z") });
});

test("a count that is cut has the largest groups, and the numbers of all groups and nodes [R-526]", async () => {
  const by: CountKey[] = [{ label: "serial" }];
  const { groups, groupCount, totalCount } = await nodeGroups(reader, { filter: undefined, by, first: 3 });
  expect(plain(groups)).toEqual(counted(by).slice(0, 3));
  expect(groups[0]).toEqual({ values: [null], nodeCount: 100, clusterId: null });
  expect({ groupCount, totalCount }).toEqual({ groupCount: 201, totalCount: NODES });
});

test("keys of labels have the number of their nodes and values, those of most nodes first [R-528]", async () => {
  const keys = [
    { key: `it's "x"`, nodeCount: 200, valueCount: 1 },
    { key: "rack", nodeCount: 200, valueCount: 7 },
    { key: "serial", nodeCount: 200, valueCount: 200 },
  ];
  expect(await labelKeysInUse(reader, ALL)).toEqual({ keys, keyCount: 3 });
  expect(await labelKeysInUse(reader, { filter: undefined, first: 1 })).toEqual({
    keys: keys.slice(0, 1),
    keyCount: 3,
  });
  expect(await labelKeysInUse(reader, { filter: { ids: [] }, first: 1 })).toEqual({ keys: [], keyCount: 0 });
});

test("values of several labels are read in one statement, up to a number of each, those of most nodes first [R-528]", async () => {
  statements.length = 0;
  const found = await labelValuesInUse(reader, ["rack", "serial", `it's "x"`, "absent"], {
    filter: undefined,
    first: 7,
  });
  expect(statements).toHaveLength(1);
  const racks = counted([{ label: "rack" }]).filter(({ values }) => values[0] !== null);
  expect(found.get("rack")).toMatchObject(racks.map(({ values, nodeCount }) => ({ value: values[0], nodeCount })));
  expect(found.get("rack")).toHaveLength(7);
  expect(found.get("serial")).toMatchObject(["1", "10", "100", "101", "103", "104", "106"].map((value) => ({ value })));
  expect(found.get(`it's "x"`)).toMatchObject([{ value: "ü", nodeCount: 200 }]);
  expect(found.has("absent")).toBe(false);
});

test("keys and values of labels are those of the matching nodes [R-528]", async () => {
  const filter = { name: { in: ["n1", "n2", "n3"] } };
  expect((await labelKeysInUse(reader, { filter, first: 9 })).keys).toMatchObject([
    { key: `it's "x"`, nodeCount: 2 },
    { key: "rack", nodeCount: 2, valueCount: 2 },
    { key: "serial", nodeCount: 2, valueCount: 2 },
  ]);
  const values = await labelValuesInUse(reader, ["serial"], { filter, first: 9 });
  expect(values.get("serial")).toMatchObject([{ value: "1" }, { value: "2" }]);
});
