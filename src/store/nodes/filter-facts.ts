/** The facts before a change that a filter of nodes looks at: changes that differ in no other way are equal for it. */
import type { NodeBefore } from "./node-facts.ts";
import type { FactPath } from "../log/merged-changes.ts";
import { FILTERED_COLUMNS } from "./node-fields.ts";
import type { FilteredColumn } from "./node-fields.ts";
import { allFilters } from "./node-filter.ts";
import type { NodeFilter } from "./node-filter.ts";

type Fact = Exclude<keyof NodeBefore, "labels">;

/** Conditions within others, and conditions on labels, which are looked at one by one. */
type Composed = "or" | "not" | "labels" | "labelKeys";

const FACTS: { readonly [Field in Exclude<keyof NodeFilter, Composed>]-?: readonly Fact[] } = {
  ...(Object.fromEntries(FILTERED_COLUMNS.map((name) => [name, [name]])) as Record<FilteredColumn, FilteredColumn[]>),
  ids: [],
  name: ["name"],
  states: ["state"],
  powerStates: ["powerState"],
  powerDrift: ["powerState", "wantedPower"],
  presence: ["presence"],
  maintenance: ["maintenance"],
  retired: ["retired"],
  protected: ["isProtected"],
  faulty: ["faultKind"],
  withErrors: ["errorCode"],
  errorCodes: ["errorCode"],
  clusterId: ["clusterId"],
  clusterName: ["clusterName"],
  inCluster: ["clusterId"],
  driver: ["driver"],
  mac: ["macs"],
  // Of the present only.
  changedSince: [],
  serial: [],
  inventory: [],
  operationId: [],
};
const FIELDS = Object.keys(FACTS) as (keyof typeof FACTS)[];

/** The facts and labels that the filter, or one within it, looks at; each once. */
export function factPaths(filter: NodeFilter): readonly FactPath[] {
  const paths = allFilters(filter).flatMap(pathsOf);
  return [...new Map(paths.map((path) => [JSON.stringify(path), path])).values()];
}

function pathsOf(filter: NodeFilter): readonly FactPath[] {
  const facts = FIELDS.flatMap((field) => (filter[field] === undefined ? [] : FACTS[field]));
  const labels = [...Object.keys(filter.labels ?? {}), ...(filter.labelKeys ?? [])];
  return [...facts.map((fact) => [fact] as const), ...labels.map((key) => ["labels", key] as const)];
}
