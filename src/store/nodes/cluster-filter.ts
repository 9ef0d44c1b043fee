/** Filters of clusters, for the database and for streams, which decide by rows. */
import { and } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { nameCondition, nameTest } from "../names.ts";
import type { StringTest } from "../names.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import { clusters } from "../tables.ts";

export interface ClusterFilter {
  readonly ids?: readonly string[] | undefined;
  readonly name?: StringTest | undefined;
}

export function clusterCondition({ ids, name }: ClusterFilter = {}): SQL | undefined {
  return and(ids && inArrayParam(clusters.id, ids), name && nameCondition(clusters.name, name));
}

export function clusterTest({ ids, name }: ClusterFilter = {}): (cluster: { id: string; name: string }) => boolean {
  const listed = ids && new Set(ids);
  const hasName = name && nameTest(name);
  return (cluster) => (listed?.has(cluster.id) ?? true) && (hasName?.(cluster.name) ?? true);
}
