/** Clusters: named sets of nodes with settings. */
import { and, asc, eq, gt, isNull, sql } from "drizzle-orm";
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { Stage } from "../../lifecycle/cluster-state.ts";
import { clusterCondition } from "./cluster-filter.ts";
import type { ClusterFilter } from "./cluster-filter.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader } from "../postgres/database.ts";
import { listOf, ordered } from "../postgres/pagination.ts";
import { deleteBy, insertInto, lockRowBy, revised, rowVersions, rowsBy, updateBy } from "../postgres/table-queries.ts";
import type { RowVersion } from "../postgres/table-queries.ts";
import { nameKey, rowByName, rowsByNames } from "../names.ts";
import { clusters, keyOfName, nodes, runs } from "../tables.ts";

export type ClusterRow = typeof clusters.$inferSelect;

export const clustersByIds = rowsBy(clusters, clusters.id);

export const clusterByName = rowByName(clusters, clusters.name);

export const clustersByNames = rowsByNames(clusters, clusters.name);

const KEY = keyOfName(clusters.name);

/** Clusters by name. */
export const { page: clustersPage, count: countClusters } = listOf(
  clusters,
  clusterCondition,
  ordered({ column: KEY, id: clusters.id }),
);

/** Up to `limit` matching clusters after a name, by name. */
export async function clusterVersionsAfterName(
  reader: Reader,
  filter: ClusterFilter | undefined,
  name: string | null,
  limit: number,
): Promise<RowVersion[]> {
  const later = name === null ? undefined : gt(KEY, nameKey(name));
  return rowVersions(reader, clusters, and(clusterCondition(filter), later), { orderBy: [KEY], limit });
}

/** The cluster of each of the nodes that is in one. */
export async function clustersOfNodes(reader: Reader, nodeIds: readonly string[]): Promise<Map<string, string>> {
  if (nodeIds.length === 0) return new Map();
  const rows = await reader
    .select({ id: nodes.id, clusterId: nodes.clusterId })
    .from(nodes)
    .where(inArrayParam(nodes.id, nodeIds));
  return new Map(rows.flatMap(({ id, clusterId }) => (clusterId === null ? [] : [[id, clusterId]])));
}

/** The clusters of the nodes on which each of the operations works. */
export async function busyClusters(
  reader: Reader,
  operationIds: readonly string[],
): Promise<Map<string, readonly string[]>> {
  if (operationIds.length === 0) return new Map();
  const rows = await reader
    .selectDistinct({ operationId: runs.operationId, clusterId: nodes.clusterId })
    .from(runs)
    .innerJoin(nodes, eq(nodes.id, runs.nodeId))
    .where(and(inArrayParam(runs.operationId, operationIds), isNull(runs.finishedAt)));
  const byOperation = Map.groupBy(rows, ({ operationId }) => operationId);
  return new Map([...byOperation].map(([id, found]) => [id, found.flatMap(({ clusterId }) => clusterId ?? [])]));
}

/** Clusters that want one of these images, by name. */
export async function clustersWithImages(
  reader: Reader,
  imageIds: readonly string[],
): Promise<Pick<ClusterRow, "name" | "imageId">[]> {
  if (imageIds.length === 0) return [];
  return reader
    .select({ name: clusters.name, imageId: clusters.imageId })
    .from(clusters)
    .where(inArrayParam(clusters.imageId, imageIds))
    .orderBy(KEY);
}

export const lockCluster = lockRowBy(clusters, clusters.id);

export const insertCluster = insertInto(clusters);

export const updateCluster = updateBy(clusters, clusters.id, revised(clusters));

export const deleteCluster = deleteBy(clusters, clusters.id);

/** Number of nodes of each cluster in each state and stage. A cluster's state is derived from it. */
export async function nodeCountsOf(
  reader: Reader,
  clusterIds: readonly string[],
): Promise<{ clusterId: string | null; state: NodeState; stage: Stage; count: number }[]> {
  if (clusterIds.length === 0) return [];
  return reader
    .select({ clusterId: nodes.clusterId, state: nodes.state, stage: nodes.stage, count: sql<number>`count(*)::int` })
    .from(nodes)
    .where(and(inArrayParam(nodes.clusterId, clusterIds)))
    .groupBy(nodes.clusterId, nodes.state, nodes.stage)
    .orderBy(asc(nodes.state));
}
