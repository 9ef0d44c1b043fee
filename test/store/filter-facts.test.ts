/** The facts before a change that filters look at: changes that differ in no other fact are merged. */
import { describe, expect, test } from "vitest";
import { factPaths } from "../../src/store/nodes/filter-facts.ts";
import type { NodeFacts } from "../../src/store/nodes/node-facts.ts";
import { FILTERED_COLUMNS } from "../../src/store/nodes/node-fields.ts";
import type { FilteredColumn } from "../../src/store/nodes/node-fields.ts";
import { nodeTest } from "../../src/store/nodes/node-filter.ts";
import type { DATABASE_CONDITIONS, NodeFilter } from "../../src/store/nodes/node-filter.ts";
import { NOTHING_DECLARED, otherValue } from "../support/declared-fields.ts";

const FACTS: NodeFacts = {
  ...NOTHING_DECLARED,
  id: "8b0e4dd6-6dcb-4a9e-9b5f-2e4b1a4b6d11",
  name: "rack7-u1",
  state: "AVAILABLE",
  powerState: "ON",
  wantedPower: "OFF",
  presence: "UNSEEN",
  maintenanceSince: null,
  retiredReason: null,
  faultKind: null,
  isProtected: false,
  hostGroup: "7",
  clusterId: null,
  clusterName: null,
  driver: "fake",
  macs: [],
  labels: { rack: "7" },
  updatedAt: new Date(0),
  errorCode: null,
};

type Streamed = Exclude<keyof NodeFilter, (typeof DATABASE_CONDITIONS)[number] | FilteredColumn>;
const FILTERS: { readonly [Field in Streamed]-?: NodeFilter & { readonly [Given in Field]-?: NodeFilter[Given] } } = {
  ids: { ids: ["other"] },
  name: { name: { startsWith: "rack7", contains: "U1" } },
  states: { states: ["CLEANING"] },
  powerStates: { powerStates: ["OFF"] },
  powerDrift: { powerDrift: true },
  presence: { presence: ["DISAPPEARED"] },
  maintenance: { maintenance: true },
  retired: { retired: true },
  protected: { protected: true },
  faulty: { faulty: true },
  withErrors: { withErrors: true },
  errorCodes: { errorCodes: ["TIMEOUT"] },
  clusterId: { clusterId: "other" },
  clusterName: { clusterName: "other" },
  inCluster: { inCluster: true },
  driver: { driver: "redfish" },
  mac: { mac: "52:54:00:00:00:01" },
  changedSince: { changedSince: new Date(1) },
  labelKeys: { labelKeys: ["rack"] },
  labels: { labels: { rack: "7" } },
  or: { or: [{ hostGroup: "8" }, { labels: { rack: "8" } }, { model: "other" }] },
  not: { not: { not: { presence: ["UNSEEN"], labels: { rack: "7" } } } },
};
const DECLARED = FILTERED_COLUMNS.map((name): [string, NodeFilter] => [name, { [name]: otherValue(name) }]);
/** Facts before a change by another name than those of a node. */
const RECORDED: Readonly<Record<string, string>> = { maintenanceSince: "maintenance", retiredReason: "retired" };
/** Known without the facts before a change. */
const KNOWN = ["id", "updatedAt"];

/** The members of an object that a function reads. */
function readOf<Value extends object>(value: Value, read: (value: Value) => unknown): readonly string[] {
  const names: string[] = [];
  const note = (name: string | symbol) => names.push(String(name));
  read(
    new Proxy(value, {
      get: (of, name) => (note(name), Reflect.get(of, name)),
      getOwnPropertyDescriptor: (of, name) => (note(name), Reflect.getOwnPropertyDescriptor(of, name)),
    }),
  );
  return names;
}

describe("facts that a filter looks at", () => {
  test.each([...Object.entries(FILTERS), ...DECLARED])(
    "facts of a filter by %s are all that it reads [R-700]",
    (_field, filter) => {
      const paths = factPaths(filter).map((path) => path.join(" "));
      const read = readOf(FACTS, nodeTest(filter)).filter((name) => name !== "labels" && !KNOWN.includes(name));
      const labels = readOf(FACTS.labels, (of) => nodeTest(filter)({ ...FACTS, labels: of })).map(
        (key) => `labels ${key}`,
      );
      expect(paths).toEqual(expect.arrayContaining([...read.map((name) => RECORDED[name] ?? name), ...labels]));
    },
  );
});
