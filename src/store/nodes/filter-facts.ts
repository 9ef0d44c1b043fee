/** The facts before a change that a filter of nodes looks at: changes that differ in no other way are equal for it. */
import type { FactPath } from "../log/merged-changes.ts";
import { allFilters, factsOf } from "./node-filter.ts";
import type { NodeFilter } from "./node-filter.ts";

/** The facts and labels that the filter, or one within it, looks at; each once. */
export function factPaths(filter: NodeFilter): readonly FactPath[] {
  const paths = allFilters(filter).flatMap(pathsOf);
  return [...new Map(paths.map((path) => [JSON.stringify(path), path])).values()];
}

function pathsOf(filter: NodeFilter): readonly FactPath[] {
  const labels = [...Object.keys(filter.labels ?? {}), ...(filter.labelKeys ?? [])];
  return [...factsOf(filter).map((fact) => [fact] as const), ...labels.map((key) => ["labels", key] as const)];
}
