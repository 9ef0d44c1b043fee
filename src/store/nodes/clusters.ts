/** Clusters: named sets of nodes with settings. */
import { and, asc, eq, gt, isNull, sql } from "drizzle-orm";
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { Stage } from "../../lifecycle/cluster-state.ts";
import { clusterCondition } from "./cluster-filter.ts";
import type { ClusterFilter } from "./cluster-filter.ts";
import { inArrayParam, rowsBy } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { pageClauses, pageOf } from "../postgres/pagination.ts";
import type { Page, PageRequest } from "../postgres/pagination.ts";
import { isNamed, nameKey, rowsByNames } from "../names.ts";
import { clusters, keyOfName, nodes, runs } from "../tables.ts";

export type ClusterRow = typeof clusters.$inferSelect;

export const clustersByIds = rowsBy(clusters, clusters.id);

export async function clusterByName(reader: Reader, name: string): Promise<ClusterRow | undefined> {
  const [row] = await reader.select().from(clusters).where(isNamed(clusters.name, name));
  return row;
}

export const clustersByNames = rowsByNames(clusters, clusters.name);

export async function clustersPage(
  reader: Reader,
  filter: ClusterFilter | undefined,
  request: PageRequest,
): Promise<Page<ClusterRow>> {
  const page = pageClauses(request, { column: keyOfName(clusters.name), id: clusters.id, descending: false });
  return pageOf(reader, clusters, clusterCondition(filter), page);
}

export async function countClusters(reader: Reader, filter: ClusterFilter | undefined): Promise<number> {
  return reader.$count(clusters, clusterCondition(filter));
}

/** Up to `limit` matching clusters after a name, by name. The version differs after each change of the row. */
export async function clusterVersionsAfterName(
  reader: Reader,
  filter: ClusterFilter | undefined,
  name: string | null,
  limit: number,
): Promise<{ id: string; version: string }[]> {
  return reader
    .select({ id: clusters.id, version: sql<string>`${clusters}.xmin::text` })
    .from(clusters)
    .where(and(clusterCondition(filter), name === null ? undefined : gt(keyOfName(clusters.name), nameKey(name))))
    .orderBy(asc(keyOfName(clusters.name)))
    .limit(limit);
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
    .orderBy(asc(keyOfName(clusters.name)));
}

export async function lockCluster(tx: Tx, id: string): Promise<ClusterRow | undefined> {
  const [row] = await tx.select().from(clusters).where(eq(clusters.id, id)).for("no key update");
  return row;
}

export async function insertCluster(tx: Tx, row: typeof clusters.$inferInsert): Promise<void> {
  await tx.insert(clusters).values(row);
}

export async function updateCluster(
  tx: Tx,
  id: string,
  change: Partial<Pick<ClusterRow, "name" | "variables" | "hostGroups" | "imageId">>,
): Promise<void> {
  await tx
    .update(clusters)
    .set({ ...change, revision: sql`${clusters.revision} + 1`, updatedAt: sql`now()` })
    .where(eq(clusters.id, id));
}

export async function deleteCluster(tx: Tx, id: string): Promise<void> {
  await tx.delete(clusters).where(eq(clusters.id, id));
}

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
