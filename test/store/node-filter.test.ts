/** Filters of nodes match the same nodes in SQL and in memory. */
import { randomInt } from "node:crypto";
import { eq } from "drizzle-orm";
import { afterAll, describe, expect, test } from "vitest";
import { nodeFacts } from "../../src/store/node-facts.ts";
import { nodeTest } from "../../src/store/node-filter.ts";
import { HAS_POWER_DRIFT, hasPowerDrift } from "../../src/store/node-fields.ts";
import type { NodeRow } from "../../src/store/node-fields.ts";
import { nodes } from "../../src/store/tables.ts";
import { nodeKeys } from "../../src/store/nodes.ts";
import type { NodeFilter } from "../../src/store/node-filter.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";

const ostler = await engineUnderTest({ started: false });
afterAll(() => ostler[Symbol.asyncDispose]());
const { reader } = ostler.database;

await ostler.engine.createCluster(ALICE, { name: "paris" });
await ostler.engine.createCluster(ALICE, { name: "oslo" });
const fleet = [
  ...(await ostler
    .aNode()
    .named("Rack.1_a")
    .in("AVAILABLE")
    .labelled({ room: "7", tier: "gold" })
    .inCluster("paris")
    .times(3)),
  ...(await ostler.aNode().named("rack-2").in("MANAGEABLE").labelled({ room: "8" }).inCluster("oslo").times(3)),
  ...(await ostler.aNode().named("spare").times(3)),
];
const ids = fleet.map(({ id }) => id);
await ostler.test
  .sql`update nodes set power_state = 'ON', wanted_power = 'OFF', host_group = 'web' where id = ${ids[0] ?? ""}`;
await ostler.test
  .sql`update nodes set power_state = 'OFF', wanted_power = 'OFF', maintenance_since = now(), maintenance_reason = 'x' where id = ${ids[3] ?? ""}`;
await ostler.test
  .sql`update nodes set power_state = 'ON', presence = 'DISCOVERED', is_protected = true, retired_reason = 'old', last_error = '{"code":"TIMEOUT","message":"m"}' where id = ${ids[7] ?? ""}`;
const [paris] = await ostler.test.sql<{ id: string }[]>`select id from clusters where name = 'paris'`;

async function matching(filter: NodeFilter): Promise<{ readonly byFacts: string[]; readonly byDatabase: string[] }> {
  const facts = await nodeFacts(reader, ids);
  return {
    byFacts: facts
      .filter(nodeTest(filter))
      .map(({ id }) => id)
      .toSorted(),
    byDatabase: (await nodeKeys(reader, filter)).map(({ id }) => id).toSorted(),
  };
}

/** Each field of a filter, with values that match some, none and all. */
const FIELDS: Readonly<Record<keyof NodeFilter, readonly unknown[]>> = {
  ids: [[], ids.slice(2, 5), ["00000000-0000-0000-0000-000000000000"], ids],
  name: [
    {},
    { eq: fleet[0]?.name },
    { in: [] },
    { in: [fleet[1]?.name, "unknown"] },
    { startsWith: "rack" },
    { startsWith: "Rack" },
    { contains: "ACK" },
    { contains: "1_a" },
    { contains: "%" },
    { startsWith: "spare", contains: "R" },
  ],
  states: [[], ["AVAILABLE"], ["ENROLLED", "MANAGEABLE"]],
  powerStates: [[], ["ON"], ["OFF", "UNKNOWN"]],
  presence: [[], ["DISCOVERED"], ["UNSEEN"]],
  maintenance: [true, false],
  retired: [true, false],
  protected: [true, false],
  withErrors: [true, false],
  powerDrift: [true, false],
  hostGroup: ["web", "none"],
  clusterId: [paris?.id, "00000000-0000-0000-0000-000000000000"],
  clusterName: ["oslo", "nowhere"],
  driver: ["fake", "ipmi"],
  labels: [{}, { room: "7" }, { room: "7", tier: "gold" }, { room: "" }, { constructor: "x" }],
  or: [
    [],
    [{}],
    [{ driver: "ipmi" }, { states: ["AVAILABLE"] }],
    [{ hostGroup: "web" }, { not: { clusterName: "paris" } }],
  ],
  not: [{}, { hostGroup: "web" }, { clusterName: "paris" }, { or: [] }, { not: { labels: { room: "8" } } }],
};

const pick = <Value>(values: readonly Value[]): Value => values[randomInt(values.length)] as Value;

describe("a filter in memory", () => {
  test.each(
    Object.entries(FIELDS).flatMap(([field, values]) =>
      values.map((value) => ({ field, value: JSON.stringify(value), filter: { [field]: value } })),
    ),
  )("by $field $value matches the same nodes as in the database", async ({ filter }) => {
    const { byFacts, byDatabase } = await matching(filter);
    expect(byFacts).toEqual(byDatabase);
  });

  test("of several random fields matches the same nodes as in the database", async () => {
    let matched = 0;
    for (let round = 0; round < 200; round += 1) {
      const names = Object.keys(FIELDS).filter(() => randomInt(6) === 0);
      const filter = Object.fromEntries(
        names.map((name) => [name, pick(FIELDS[name as keyof NodeFilter])]),
      ) as NodeFilter;
      const { byFacts, byDatabase } = await matching(filter);
      expect(byFacts, JSON.stringify(filter)).toEqual(byDatabase);
      matched += byFacts.length;
    }
    expect(matched).toBeGreaterThan(100);
  });
});

test("power drift is the same in SQL and in memory for every power state and wanted power", async () => {
  const rows = (await ostler.test.sql`
    select power as "powerState", wanted as "wantedPower"
    from unnest(array['ON', 'OFF', 'UNKNOWN']) power, unnest(array['ON', 'OFF', null]) wanted`) as unknown as readonly Pick<
    NodeRow,
    "powerState" | "wantedPower"
  >[];
  expect(rows).toHaveLength(9);
  for (const { powerState, wantedPower } of rows) {
    await ostler.test
      .sql`update nodes set power_state = ${powerState}, wanted_power = ${wantedPower} where id = ${ids[5] ?? ""}`;
    const [inSql] = await reader
      .select({ drift: HAS_POWER_DRIFT })
      .from(nodes)
      .where(eq(nodes.id, ids[5] ?? ""));
    expect(inSql?.drift, `${powerState}, wanted ${wantedPower}`).toBe(hasPowerDrift({ powerState, wantedPower }));
  }
});
