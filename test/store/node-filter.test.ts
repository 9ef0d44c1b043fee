/** Filters in memory, for streams. test/graphql/node-lists.test.ts covers the same filters in SQL. */
import { expect, test } from "vitest";
import type { NodeFacts } from "../../src/store/node-facts.ts";
import { nodeTest } from "../../src/store/node-filter.ts";

const FACTS: NodeFacts = {
  id: "00000000-0000-4000-8000-000000000000",
  name: "node",
  state: "ACTIVE",
  powerState: "ON",
  wantedPower: "ON",
  presence: "UNSEEN",
  maintenanceSince: null,
  retiredReason: null,
  isProtected: false,
  hostGroup: null,
  clusterId: null,
  driver: "fake",
  labels: {},
  clusterName: null,
  hasError: false,
};

test.each([
  ["maintenance", { maintenanceSince: new Date(0) }],
  ["retired", { retiredReason: "old" }],
  ["protected", { isProtected: true }],
  ["withErrors", { hasError: true }],
  ["powerDrift", { powerState: "OFF" }],
] as const)("filter %s in memory: true matches the nodes that have it, false the others", (field, facts) => {
  const marked: NodeFacts = { ...FACTS, ...facts };
  expect([nodeTest({ [field]: true })(marked), nodeTest({ [field]: true })(FACTS)]).toEqual([true, false]);
  expect([nodeTest({ [field]: false })(marked), nodeTest({ [field]: false })(FACTS)]).toEqual([false, true]);
});
