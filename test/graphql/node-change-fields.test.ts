/** Every field of the type Node: whether `nodeChanges` reports its change, or why it does not. */
import { randomUUID } from "node:crypto";
import { GraphQLObjectType } from "graphql";
import { afterAll, describe, expect, test } from "vitest";
import { describeDrivers } from "../../src/drivers/load.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import { DECLARED_NAMES, declared } from "../../src/store/nodes/node-fields.ts";
import { aGate } from "../support/builders.ts";
import { COLUMN_OF, otherValue } from "../support/declared-fields.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";

const ostler = await serviceUnderTest();
const gate = aGate();
afterAll(async () => {
  gate.open();
  await ostler[Symbol.asyncDispose]();
});

/** Fields that columns of the node contain: an update that changes the field, the field in `changed`, a selection. */
const BY_UPDATE: Readonly<Record<string, { readonly set: string; readonly changed: string; readonly ask?: string }>> = {
  name: { set: "name = name || '-2'", changed: "NAME" },
  project: { set: "project = 'other'", changed: "PROJECT" },
  stage: { set: "stage = 'DEPLOYED'", changed: "STAGE" },
  powerState: { set: "power_state = 'OFF'", changed: "POWER" },
  powerReadAt: { set: "power_read_at = '2026-01-01'", changed: "POWER" },
  wantedPower: { set: "wanted_power = 'ON'", changed: "POWER" },
  powerDrift: { set: "power_state = 'OFF', wanted_power = 'ON', power_read_at = now()", changed: "POWER" },
  powerProblem: { set: "power_problem = 'no answer'", changed: "POWER" },
  powerProblemKind: { set: "power_problem = 'x', power_problem_kind = 'UNREACHABLE'", changed: "POWER" },
  presence: { set: "presence = 'DISAPPEARED'", changed: "PRESENCE" },
  maintenance: {
    set: "maintenance_reason = 'fan', maintenance_since = now(), maintenance_by = 'alice'",
    changed: "MAINTENANCE",
    ask: "maintenance { reason }",
  },
  fault: {
    set: "fault_kind = 'BMC_UNREACHABLE', fault_since = now(), fault_message = 'x'",
    changed: "FAULT",
    ask: "fault { kind }",
  },
  protected: { set: "is_protected = true", changed: "PROTECTED" },
  retired: { set: "retired_reason = 'old'", changed: "RETIRED" },
  retiredReason: { set: "retired_reason = 'old'", changed: "RETIRED" },
  labels: { set: `labels = '{"rack": "7"}'`, changed: "LABELS", ask: "labels { key value }" },
  variables: { set: `variables = '{"rack": 7}'`, changed: "VARIABLES" },
  cluster: { set: "cluster_id = (select id from clusters limit 1)", changed: "CLUSTER", ask: "cluster { name }" },
  drivers: {
    set: `settings = '{"fake": {"serial": "7"}}'`,
    changed: "SETTINGS",
    ask: "drivers { settings { fake { serial } } }",
  },
  macs: { set: `macs = '["00:00:5e:00:53:01"]'`, changed: "MACS" },
  controller: { set: "controller = '192.0.2.7'", changed: "CONTROLLER" },
  identityConflict: {
    set: `identity_conflict = '{"kind": "UUID", "value": "x", "nodeName": "y", "nodeId": "${randomUUID()}", "since": "2026-01-01T00:00:00Z"}'`,
    changed: "IDENTITY_CONFLICT",
    ask: "identityConflict { kind }",
  },
  lastError: {
    set: `last_error = '{"code": "STEP_TIMEOUT", "message": "x", "at": "2026-01-01T00:00:00Z", "step": null}'`,
    changed: "LAST_ERROR",
    ask: "lastError { message }",
  },
  ...Object.fromEntries(
    DECLARED_NAMES.map((name) => [
      name,
      { set: `${COLUMN_OF[name]} = '${otherValue(name)}'`, changed: declared(name).change },
    ]),
  ),
  image: { set: "image_id = (select id from images limit 1)", changed: "IMAGE", ask: "image { name }" },
};

/** Fields that work on the node changes, with the field in `changed`. */
const BY_WORK: Readonly<Record<string, { readonly changed: string; readonly ask?: string }>> = {
  state: { changed: "STATE" },
  transitionCount: { changed: "STATE" },
  transitions: { changed: "STATE", ask: "transitions(last: 1) { totalCount }" },
  currentRun: { changed: "CURRENT_RUN", ask: "currentRun { id }" },
  targetState: { changed: "CURRENT_RUN" },
  operations: { changed: "CURRENT_RUN", ask: "operations(first: 1) { totalCount }" },
};

/** Fields that the results of inspections contain. */
const BY_INSPECTION: Readonly<Record<string, { readonly changed: string; readonly ask: string }>> = {
  inventory: { changed: "INVENTORY", ask: "inventory { id }" },
  inventories: { changed: "INVENTORY", ask: "inventories(first: 1) { totalCount }" },
  inventoryDiff: { changed: "INVENTORY", ask: "inventoryDiff { __typename }" },
};

/** Fields whose change alone is not reported, and why. */
const UNREPORTED: Readonly<Record<string, string>> = {
  id: "never changes",
  uuid: "never changes",
  createdAt: "never changes",
  updatedAt: "changes with a field that is reported",
  revision: "reported with an empty `changed`",
  powerCheckedAt: "changes at each background reading",
  verbs: "computed when it is asked for, of the node, its run, the site and the drivers that are loaded",
  actions: "computed when it is asked for, of the node, its run, the site and the drivers that are loaded",
  stepCatalogue: "follows from the drivers that are loaded, and from SETTINGS",
};

interface Item {
  readonly nodeChanges: {
    readonly type: string;
    readonly caughtUp?: boolean;
    readonly changed?: readonly string[] | null;
    readonly node?: Readonly<Record<string, unknown>>;
  };
}

const isUpserted = ({ nodeChanges: { type } }: Item) => type === "NodeUpserted";

/** A stream of one node with a selection; `before`: the node at its begin. */
async function follow(name: string, selection: string) {
  // Otherwise the registration and the change can be one item.
  await ostler.test.sql`select number_changes(1000)`;
  const stream = ostler.overSocket<Item>(
    `subscription Of($filter: NodeFilter) {
      nodeChanges(filter: $filter, snapshot: true) {
        type: __typename
        ... on NodeUpserted { changed node { ${selection} } }
        ... on StreamBookmark { caughtUp }
      }
    }`,
    // Also after its name has changed.
    { filter: { name: { in: [name, `${name}-2`] } } },
  );
  const first = await takeUntil(stream, ({ nodeChanges: { caughtUp } }) => caughtUp === true);
  return { stream, before: first.find(isUpserted)?.nodeChanges.node };
}

describe("fields of nodes", () => {
  test("every field of Node is reported by nodeChanges, or listed with the reason why it is not [R-671]", async () => {
    const type = buildSchema(await describeDrivers()).getType("Node");
    if (!(type instanceof GraphQLObjectType)) throw new Error("Node is an object type.");
    const listed = [BY_UPDATE, BY_WORK, BY_INSPECTION, UNREPORTED].flatMap((list) => Object.keys(list));
    expect(
      listed.toSorted(),
      "Put each field of Node in one list of this test: BY_UPDATE with SQL that changes it, BY_WORK, BY_INSPECTION, or UNREPORTED with the reason.",
    ).toEqual(Object.keys(type.getFields()).toSorted());
  });

  test.each(Object.entries(BY_UPDATE))(
    "an update that changes %s is an item with the new value [R-671]",
    async (field, { set, changed, ask = field }) => {
      await ostler.query(
        `mutation { createCluster(input: { name: "of-${field.toLowerCase()}" }) { errors { message } } }`,
      );
      await ostler.test.sql`
        insert into images (id, name, format, size_bytes, checksum_algorithm, checksum, architecture, boot_mode, labels, url)
        values (${randomUUID()}, ${field.toLowerCase()}, 'RAW', 1, 'SHA256', ${"0".repeat(64)}, 'X86_64', 'UEFI', '{}', 'http://192.0.2.1/x')`;
      const [name = ""] = await ostler.register(1);
      const { stream, before } = await follow(name, ask);
      await ostler.test.sql.unsafe(`update nodes set ${set} where name = '${name}'`);
      // As a replica does after a commit; otherwise the stream looks only once a second.
      await ostler.test.sql`select pg_notify('ostler', '')`;
      const item = (await takeUntil(stream, isUpserted)).at(-1)?.nodeChanges;
      await stream.return?.();
      expect(item?.changed).toEqual([changed]);
      expect(item?.node).not.toEqual(before);
    },
  );

  test("work on a node changes its state, its run and what follows from them [R-671]", async () => {
    const [name = ""] = await ostler.register(1, { steps: { "inspect.collect_inventory": { gate: gate.name } } });
    const fields = Object.entries(BY_WORK);
    const { stream, before } = await follow(name, fields.map(([field, { ask = field }]) => ask).join(" "));
    await ostler.begin("commissionNodes", [name]);
    await gate.arrivals();
    const missing = new Set(fields.map(([field]) => field));
    await takeUntil(stream, ({ nodeChanges: { changed, node } }) => {
      for (const [field, list] of fields)
        if (changed?.includes(list.changed) && JSON.stringify(node?.[field]) !== JSON.stringify(before?.[field]))
          missing.delete(field);
      return missing.size === 0;
    });
    await stream.return?.();
    expect([...missing]).toEqual([]);
  });

  test("results of an inspection change the inventories of the node [R-671]", async () => {
    const [name = ""] = await ostler.register(1);
    const insert = (memory: number) => ostler.test.sql`
      insert into inventories (id, node_id, run_id, data)
      select ${randomUUID()}, id, ${randomUUID()}, ${ostler.test.sql.json({ memory })} from nodes where name = ${name}`;
    await insert(1);
    const fields = Object.entries(BY_INSPECTION);
    const { stream, before } = await follow(name, fields.map(([, { ask }]) => ask).join(" "));
    await insert(2);
    await ostler.test.sql`select pg_notify('ostler', '')`;
    const item = (await takeUntil(stream, isUpserted)).at(-1)?.nodeChanges;
    await stream.return?.();
    expect(item?.changed).toEqual(["INVENTORY"]);
    for (const [field] of fields) expect({ [field]: item?.node?.[field] }).not.toEqual({ [field]: before?.[field] });
  });
});
