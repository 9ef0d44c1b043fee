/** Filters in memory, for streams. test/graphql/node-lists.test.ts covers the same filters in SQL. */
import { expect, test } from "vitest";
import type { NodeFacts } from "../../src/store/nodes/node-facts.ts";
import { nodeTest } from "../../src/store/nodes/node-filter.ts";
import { NOTHING_DECLARED } from "../support/declared-fields.ts";

const FACTS: NodeFacts = {
  ...NOTHING_DECLARED,
  id: "00000000-0000-4000-8000-000000000000",
  name: "node",
  state: "ACTIVE",
  powerState: "ON",
  wantedPower: "ON",
  presence: "UNSEEN",
  maintenanceSince: null,
  retiredReason: null,
  isProtected: false,
  clusterId: null,
  driver: "fake",
  labels: {},
  clusterName: null,
  errorCode: null,
  macs: [],
  updatedAt: new Date(0),
  faultKind: null,
};

test.each([
  ["maintenance", { maintenanceSince: new Date(0) }],
  ["retired", { retiredReason: "old" }],
  ["protected", { isProtected: true }],
  ["diskless", { diskless: true }],
  ["withErrors", { errorCode: "TIMEOUT" }],
  ["faulty", { faultKind: "BMC_UNREACHABLE" }],
  ["powerDrift", { powerState: "OFF" }],
  ["inCluster", { clusterId: "00000000-0000-4000-8000-000000000001" }],
] as const)("filter %s in memory: true matches the nodes that have it, false the others", (field, facts) => {
  const marked: NodeFacts = { ...FACTS, ...facts };
  expect([nodeTest({ [field]: true })(marked), nodeTest({ [field]: true })(FACTS)]).toEqual([true, false]);
  expect([nodeTest({ [field]: false })(marked), nodeTest({ [field]: false })(FACTS)]).toEqual([false, true]);
});

test("filter by an empty list in memory matches nothing, labels included [R-151]", () => {
  for (const filter of [
    { ids: [] },
    { name: { in: [] } },
    { states: [] },
    { powerStates: [] },
    { labels: {} },
    { labelKeys: [] },
    { errorCodes: [] },
    { or: [] },
  ])
    expect(nodeTest(filter)(FACTS), JSON.stringify(filter)).toBe(false);
});

test("filter by model, error code, time and label key in memory matches like SQL", () => {
  const node: NodeFacts = {
    ...FACTS,
    model: "R740",
    macs: ["52:54:00:00:00:01"],
    errorCode: "TIMEOUT",
    updatedAt: new Date(1000),
    labels: { rack: "", room: "1" },
  };
  for (const [filter, matches] of [
    [{ model: "R740" }, true],
    [{ model: "R750" }, false],
    [{ mac: "52-54-00-00-00-01" }, true],
    [{ mac: "52:54:00:00:00:02" }, false],
    [{ mac: "nonsense" }, false],
    [{ errorCodes: ["BACKEND_FAILED", "TIMEOUT"] }, true],
    [{ errorCodes: ["BACKEND_FAILED"] }, false],
    [{ changedSince: new Date(1000) }, true],
    [{ changedSince: new Date(1001) }, false],
    [{ labelKeys: ["rack", "room"] }, true],
    [{ labelKeys: ["rack", "toString"] }, false],
    [{ not: { labelKeys: ["owner"] } }, true],
  ] as const)
    expect(nodeTest(filter)(node), JSON.stringify(filter)).toBe(matches);
});
