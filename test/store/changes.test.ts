/** The log of changes: what the triggers record, and how changes get their positions. */
import { getTableColumns, getTableName, sql } from "drizzle-orm";
import type { PgTable } from "drizzle-orm/pg-core";
import postgres from "postgres";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import {
  CLUSTER_CHANGE_COLUMNS,
  NODE_CHANGE_COLUMNS,
  NODE_COLUMNS_WITHOUT_FIELD,
  NODE_FILTER_COLUMNS,
  OPERATION_CHANGE_COLUMNS,
  RUN_CHANGE_COLUMNS,
} from "../../src/store/log/change-fields.ts";
import { changesAfter, newestChange, numberChanges } from "../../src/store/log/changes.ts";
import type { ChangeRow } from "../../src/store/log/changes.ts";
import { clusters, nodes, operations, runs } from "../../src/store/tables.ts";
import { chance } from "../durability/lab.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { randomOfTest } from "../support/random.ts";

const ostler = await engineUnderTest();

/** Columns whose change alone is not recorded. */
const UNRECORDED = {
  nodes: [
    "id",
    // Every background reading changes it.
    "powerCheckedAt",
    "failedReadings",
    // Set with `presence`.
    "disappearedAt",
    "outputs",
    "createdAt",
    "updatedAt",
  ],
  clusters: ["id", "project", "createdAt", "updatedAt"],
  operations: [
    "id",
    "kind",
    "project",
    "actor",
    "reason",
    "restartOf",
    "restarts",
    "batch",
    "idempotencyKey",
    "inputHash",
    "imageId",
    "userDataBytes",
    "groups",
    "stopUntil",
    "leaseUntil",
    "createdAt",
    "revision",
  ],
  runs: [
    "id",
    "clusterId",
    "operationId",
    "forcedPower",
    "groupKey",
    "budgetKey",
    "takesOut",
    "nodeId",
    "nodeName",
    "ordinal",
    "purpose",
    "planHash",
    "variables",
    "target",
    "movesState",
    "attempt",
    "restartOf",
    "dueAt",
    "priority",
    "leaseUntil",
    "fence",
    "owner",
    "stopUntil",
    "callbackSecret",
    "callbackKey",
    "openGeneration",
    "slotPhase",
    "slotController",
    "controller",
    "hostGroup",
    "wave",
    "createdAt",
    "updatedAt",
    "revision",
  ],
} as const;
afterAll(() => ostler[Symbol.asyncDispose]());
const { database, test: raw } = ostler;
const { reader } = database;

/** The changes that `work` makes. */
async function recorded(work: () => Promise<unknown>): Promise<ChangeRow[]> {
  await numberChanges(reader, 100_000);
  const { position } = await newestChange(reader);
  await work();
  await numberChanges(reader, 100_000);
  return changesAfter(reader, { after: position, limit: 100_000 });
}

/** A value that differs, by the type of a column. */
const OTHER: Readonly<Record<string, string>> = {
  text: "coalesce(#::text, '') || 'x'",
  integer: "coalesce(#, 0) + 1",
  boolean: "not coalesce(#, false)",
  "timestamp (3) with time zone": "coalesce(#, now()) + interval '1 minute'",
  jsonb: `coalesce(#, '{}') || jsonb_build_object('x', '1')`,
  uuid: "gen_random_uuid()",
};
/** Where others do not fit. */
const OTHER_OF: Readonly<Record<string, string>> = {
  macs: `'["00:00:5e:00:53:01"]'`,
  errors: `'[{"code": "x"}]'`,
  restarts: `'["x"]'`,
  powerState: "'OFF'",
  clusterId: "null",
};

function change(column: string, table: PgTable): string {
  const found = getTableColumns(table)[column];
  if (!found) throw new Error(`There is no column ${column}.`);
  const value = OTHER_OF[column] ?? OTHER[found.getSQLType()]?.replaceAll("#", `"${found.name}"`);
  if (value === undefined) throw new Error(`Name another value for ${column}, of type ${found.getSQLType()}.`);
  return `"${found.name}" = ${value}`;
}

const listed = (fields: Readonly<Record<string, readonly string[]>>) => Object.values(fields).flat();
/** Each column that a table lists, with its field. */
const columnsOf = (fields: Readonly<Record<string, readonly string[]>>) =>
  Object.entries(fields).flatMap(([field, columns]) => columns.map((column) => ({ field, column })));

describe("columns", () => {
  test.each([
    {
      name: "nodes",
      table: nodes,
      fields: NODE_CHANGE_COLUMNS,
      unrecorded: [...UNRECORDED.nodes, ...NODE_COLUMNS_WITHOUT_FIELD],
    },
    {
      name: "clusters",
      table: clusters,
      fields: CLUSTER_CHANGE_COLUMNS,
      unrecorded: UNRECORDED.clusters,
    },
    {
      name: "operations",
      table: operations,
      fields: OPERATION_CHANGE_COLUMNS,
      unrecorded: UNRECORDED.operations,
    },
    { name: "runs", table: runs, fields: RUN_CHANGE_COLUMNS, unrecorded: UNRECORDED.runs },
  ])(
    "every column of $name is recorded in one field, or named as unrecorded [R-535]",
    ({ table, fields, unrecorded }) => {
      expect(
        [...listed(fields), ...unrecorded].toSorted(),
        "Put each column in one list of src/store/log/change-fields.ts, or in UNRECORDED.",
      ).toEqual(Object.keys(getTableColumns(table)).toSorted());
    },
  );
});

describe("a change of a node", () => {
  let node: TestNode;
  let clusterCount = 0;
  beforeEach(async () => {
    clusterCount += 1;
    const name = `cluster-${clusterCount}`;
    await ostler.engine.createCluster(ALICE, { name });
    node = await ostler.aNode().inCluster(name).made();
  });
  const set = (columns: string) =>
    raw.sql.begin(async (tx) => {
      // The tests change single columns, also those that only change together.
      await tx.unsafe(
        `alter table nodes disable trigger nodes_legal_update; alter table nodes disable trigger nodes_logged_update`,
      );
      await tx.unsafe(`update nodes set ${columns} where id = '${node.id}'`);
      await tx.unsafe(
        `alter table nodes enable trigger nodes_legal_update; alter table nodes enable trigger nodes_logged_update`,
      );
    });

  test.each(columnsOf(NODE_CHANGE_COLUMNS))(
    "a change of $column of a node is recorded as $field [R-535]",
    async ({ field, column }) => {
      const [row, ...more] = await recorded(() => set(change(column, nodes)));
      expect({ ...row, more }).toMatchObject({
        subject: "NODE",
        subjectId: node.id,
        event: "CHANGED",
        fields: [field],
        more: [],
      });
      expect(row?.before !== null).toBe((NODE_FILTER_COLUMNS as readonly string[]).includes(column));
    },
  );

  test("a change of columns that are not visible is not recorded [R-535]", async () => {
    const others = UNRECORDED.nodes.filter((column) => column !== "id").map((column) => change(column, nodes));
    expect(await recorded(() => set(others.join(", ")))).toEqual([]);
  });

  test("an edit of a node that leaves everything as it was is recorded without a field, because of the revision [R-535]", async () => {
    const rows = await recorded(() => set("revision = revision + 1"));
    expect(rows).toMatchObject([{ subject: "NODE", subjectId: node.id, event: "CHANGED", fields: [], before: null }]);
  });

  test("a change of the secrets of a node is recorded without them [R-536]", async () => {
    const rows = await recorded(
      () =>
        raw.sql`insert into node_secrets values (${node.id}, '{"fake": {"password": "hunter2"}}') on conflict (node_id) do update set secrets = excluded.secrets`,
    );
    expect(rows).toMatchObject([{ subject: "NODE", subjectId: node.id, fields: ["SETTINGS"], before: null }]);
    expect(JSON.stringify(rows)).not.toContain("hunter2");
  });

  test("facts before a change equal those that change_facts computes [R-535]", async () => {
    const others = NODE_FILTER_COLUMNS.filter((column) => column !== "clusterId" && column !== "lastError");
    await set([...others.map((column) => change(column, nodes)), `last_error = '{"code": "TIMEOUT"}'`].join(", "));
    const [row] = await raw.sql<{ facts: object }[]>`
      select change_facts(n, c.name) as facts from nodes n join clusters c on c.id = n.cluster_id where n.id = ${node.id}`;
    const [recordedChange] = await recorded(() => set("presence = 'DOWN'"));
    expect(recordedChange?.before).toEqual(row?.facts);
    const missing = Object.entries(row?.facts ?? {}).filter(([, value]) => value === null || value === undefined);
    expect(missing).toEqual([]);
    expect(
      Object.keys(row?.facts ?? {}).length,
      "change_facts has a fact for each column of NODE_FILTER_COLUMNS.",
    ).toBe(NODE_FILTER_COLUMNS.length + ["clusterName"].length);
  });

  test("a new name of a cluster is recorded for each of its nodes, with the name before [R-535]", async () => {
    const rows = await recorded(
      () =>
        raw.sql`update clusters set name = name || '-2' where id = (select cluster_id from nodes where id = ${node.id})`,
    );
    expect(rows).toMatchObject([
      { subject: "CLUSTER", fields: ["NAME"] },
      {
        subject: "NODE",
        subjectId: node.id,
        fields: ["CLUSTER"],
        before: { clusterName: expect.stringMatching(/^cluster-[^-]+$/) as string },
      },
    ]);
  });
});

describe("a change of an operation or of a run", () => {
  /** The fields that are recorded when one column changes; nothing stays changed. */
  async function recordedFields(table: PgTable, column: string, where: string): Promise<string[][]> {
    let fields: string[][] = [];
    const undo = new Error("undo");
    await raw.sql
      .begin(async (tx) => {
        await tx.unsafe(`delete from change_inbox`);
        // Columns that otherwise change only together. Foreign keys stay: to drop one locks a second table, and the
        // engine may lock both in the other order.
        const checks = await tx`
          select conname from pg_constraint where contype = 'c' and conrelid = ${getTableName(table)}::regclass`;
        for (const { conname } of checks)
          await tx`alter table ${tx(getTableName(table))} drop constraint ${tx(String(conname))}`;
        await tx.unsafe(`update ${getTableName(table)} set ${change(column, table)} where ${where}`);
        fields = (await tx<{ fields: string[] }[]>`select fields from change_inbox order by id`).map(
          (row) => row.fields,
        );
        throw undo;
      })
      .catch((error: unknown) => {
        if (error !== undo) throw error;
      });
    return fields;
  }

  test.each([
    { name: "operations", table: operations, fields: OPERATION_CHANGE_COLUMNS, id: "id" },
    { name: "runs", table: runs, fields: RUN_CHANGE_COLUMNS, id: "operation_id" },
  ])("a change of each column of $name is recorded as its field [R-535]", async ({ table, fields, id }) => {
    const cluster = "of-operations";
    if (table === operations) await ostler.engine.createCluster(ALICE, { name: cluster });
    const one = await ostler.aNode().in("AVAILABLE").with("fake").inCluster(cluster).made();
    const operationId = await ostler.begin("INSPECT", [one]);
    await ostler.operationEnds(operationId);
    await raw.sql`update operations set cluster_id = (select id from clusters where name = ${cluster}) where id = ${operationId}`;
    const found = [];
    for (const { column } of columnsOf(fields))
      found.push({ column, fields: await recordedFields(table, column, `${id} = '${operationId}'`) });
    expect(found).toEqual(columnsOf(fields).map(({ field, column }) => ({ column, fields: [[field]] })));
  });

  test("no trigger that records updates has a condition, which would be parsed in each statement", async () => {
    const conditions = await raw.sql`
      select tgname from pg_trigger where tgqual is not null
        and tgfoid in ('record_node_change'::regproc, 'record_operation_change'::regproc, 'record_run_change'::regproc, 'record_run_progress'::regproc)`;
    expect(conditions).toEqual([]);
  });
});

describe("positions of changes", () => {
  test("changes of concurrent transactions get positions without holes, for each node in the order of its commits [R-537]", async () => {
    const random = randomOfTest();
    const made = await ostler.aNode().times(4);
    const rows = await recorded(async () => {
      const ids = made.map(({ id }) => id);
      const numbering = Promise.all(
        Array.from({ length: 3 }, async () => {
          for (let round = 0; round < 60; round += 1) await numberChanges(reader, 7);
        }),
      );
      await Promise.all(
        Array.from({ length: 8 }, async (_, writer) => {
          const ownRandom = chance(random.whole(0, 999_999));
          for (let round = 0; round < 20; round += 1) {
            const order = ownRandom.some(1 + (writer % 2), ids);
            await database.transaction(async (tx) => {
              for (const id of order.toSorted())
                await tx.execute(
                  sql`update nodes set description = (coalesce(nullif(description, '')::int, 0) + 1)::text, host_group = description where id = ${id}`,
                );
              await tx.execute(sql`select pg_sleep(0.001)`);
            });
          }
        }),
      );
      await numbering;
    });
    expect(rows.map(({ position }) => position)).toEqual(rows.map((_, index) => (rows[0]?.position ?? 0) + index));
    for (const { id } of made) {
      // The host group is the number before: facts before the change have that of the one before it.
      const before = rows.flatMap(({ subjectId, before: facts }) =>
        subjectId === id && facts && "hostGroup" in facts ? [Number(facts.hostGroup ?? -1)] : [],
      );
      expect(before).toEqual(before.toSorted((a, b) => a - b));
      expect(before.length).toBeGreaterThan(10);
    }
  });

  test("numbering that is killed before its commit loses no change and no position [R-537]", async () => {
    const node = await ostler.aNode().made();
    await numberChanges(reader, 100_000);
    const { position } = await newestChange(reader);
    await raw.sql`update nodes set description = 'killed' where id = ${node.id}`;
    const other = postgres(raw.url, { max: 1, onnotice: () => {} });
    const reserved = await other.reserve();
    const [session] = await reserved`select pg_backend_pid() as pid`;
    await reserved`begin`;
    expect(await reserved`select number_changes(100) as moved`).toMatchObject([{ moved: 1 }]);
    const pid = Number(session?.["pid"]);
    await raw.sql`select pg_terminate_backend(${pid})`;
    await eventually("the session has ended", async () => {
      const left = await raw.sql`select 1 from pg_stat_activity where pid = ${pid}`;
      return left.length === 0;
    });
    await other.end({ timeout: 0 });
    expect(await numberChanges(reader, 100)).toBe(1);
    expect(await changesAfter(reader, { after: position, limit: 10 })).toMatchObject([
      { position: position + 1, subjectId: node.id, fields: ["DESCRIPTION"] },
    ]);
  });
});
