/** Lists of operations: pages of a filter, and the operations of nodes and clusters. */
import { and, desc, eq, isNull, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import { onNode, operationCondition } from "./operation-filter.ts";
import type { OperationFilter } from "./operation-filter.ts";
import type { OperationRow } from "./operations.ts";
import { textArray } from "../postgres/array-parameter.ts";
import type { Reader } from "../postgres/database.ts";
import { listOf, listsBelow, ordered } from "../postgres/pagination.ts";
import type { PageRequest } from "../postgres/pagination.ts";
import { hasRow, rowVersions } from "../postgres/table-queries.ts";
import type { RowVersion } from "../postgres/table-queries.ts";
import { operationClusters, operations } from "../tables.ts";

const newest = ordered({ column: operations.createdAt, id: operations.id, descending: true });
const newestOthers = ordered({
  column: operationClusters.createdAt,
  id: operationClusters.operationId,
  descending: true,
});
/** For conditions that have those of the page. */
const newestOnPage = (request: PageRequest) => ({ ...newest(request), where: undefined });

export const { page: operationsPage, count: countOperations } = listOf(operations, matching, newestOnPage);

/** Whether more operations match than `max`; reads no more than those. */
export async function exceedsOperations(
  reader: Reader,
  filter: OperationFilter | undefined,
  max: number,
): Promise<boolean> {
  return hasRow(reader, operations, matching(filter), max);
}

/** Up to `limit` matching operations after one, newest first. */
export async function operationVersionsAfter(
  reader: Reader,
  filter: OperationFilter | undefined,
  after: OperationRow | null,
  limit: number,
): Promise<RowVersion[]> {
  const request = { limit, ...(after && { after: { key: after.createdAt.toISOString(), id: after.id } }) };
  return rowVersions(reader, operations, matching(filter, request), { ...newest(request), limit });
}

/** Those of the operations that have the node and the cluster of a filter; null if it has neither. */
export async function relatedOperations(
  reader: Reader,
  filter: OperationFilter | undefined,
  ids: readonly string[],
): Promise<ReadonlySet<string> | null> {
  if (filter?.nodeId === undefined && filter?.clusterId === undefined) return null;
  const { nodeId, clusterId } = filter;
  const rows = await reader.select({ id: operations.id }).from(operations).where(matching({ ids, nodeId, clusterId }));
  return new Set(rows.map(({ id }) => id));
}

/** Operations on nodes of a cluster that were not requested for it; also of a deleted one. */
export async function operationsListedWith(reader: Reader, clusterId: string): Promise<string[]> {
  const rows = await reader
    .select({ id: operationClusters.operationId })
    .from(operationClusters)
    .where(eq(operationClusters.clusterId, clusterId));
  return rows.map(({ id }) => id);
}

/** Operations that worked on each node, newest first, and their number. */
export const { pages: operationsOfNodes, counts: operationCountsOfNodes } = listsBelow(operations, onNode, newest);

/** Operations that were requested for each cluster, or on its members of that time, newest first; and their number. */
export const { pages: operationsOfClusters, counts: operationCountsOfClusters } = listsBelow(
  operations,
  (cluster, page: PageRequest | null) => ofCluster(cluster, page ?? undefined),
  newestOnPage,
);

/** The condition of a filter. With `page`, it may leave out operations that are not on the page. */
function matching(filter: OperationFilter | undefined, page?: PageRequest): SQL | undefined {
  const condition = operationCondition(filter);
  if (filter?.clusterId !== undefined)
    return and(
      sql`exists (select from clusters where id = ${filter.clusterId})`,
      ofCluster(sql`${filter.clusterId}`, page, condition),
    );
  return and(condition, page && newest(page).where);
}

/**
 * The operations of a cluster, or those of a page. They are in two lists: those that were requested for it, and those
 * that were requested in another way. The page is read from each list by its index, and then cut from both.
 */
function ofCluster(clusterId: SQL, page?: PageRequest, condition?: SQL): SQL {
  const joined = condition
    ? sql`${operationClusters} join ${operations} on ${operations.id} = ${operationClusters.operationId}`
    : sql`${operationClusters}`;
  const requested = page && newest(page);
  const others = page && newestOthers(page);
  const way = sql.raw(page?.fromEnd ? "asc" : "desc");
  const first = (orderBy: readonly SQL[] = []) =>
    page ? sql`order by ${sql.join([...orderBy], sql`, `)} limit ${page.limit + 1}::int` : sql``;
  return sql`${operations.id} in (
    select listed.id from (
      (select ${operations.id}, ${operations.createdAt} from ${operations}
        where ${and(eq(operations.clusterId, clusterId), condition, requested?.where)} ${first(requested?.orderBy)})
      union all
      (select ${operationClusters.operationId}, ${operationClusters.createdAt} from ${joined}
        where ${and(eq(operationClusters.clusterId, clusterId), condition, others?.where)} ${first(others?.orderBy)})
    ) listed (id, created_at) ${first([sql`created_at ${way}`, sql`id ${way}`])})`;
}

/** An unfinished operation that changes the state of nodes of a cluster. `stopping`: an interrupt was requested. */
type ClusterWork = {
  readonly clusterId: string;
  readonly operationId: string;
  readonly kind: OperationKind;
  readonly stopping: boolean;
};

export async function workOnClusters(reader: Reader, clusterIds: readonly string[]): Promise<ClusterWork[]> {
  if (clusterIds.length === 0) return [];
  return reader.execute<ClusterWork>(sql`
    select distinct n.cluster_id as "clusterId", o.id as "operationId", o.kind, coalesce(o.interrupt, r.interrupt) is not null as stopping
    from nodes n join runs r on r.node_id = n.id and r.finished_at is null and r.moves_state join operations o on o.id = r.operation_id
    where n.cluster_id = any(${textArray(clusterIds)}::uuid[])`);
}

/** Unfinished operations on nodes of a cluster, newest first. */
export async function unfinishedOperationsOfCluster(reader: Reader, clusterId: string): Promise<OperationRow[]> {
  const onMember = sql`${operations.id} in (select r.operation_id from runs r join nodes n on n.id = r.node_id where n.cluster_id = ${clusterId}::uuid and r.finished_at is null)`;
  return reader
    .select()
    .from(operations)
    .where(and(isNull(operations.finishedAt), onMember))
    .orderBy(desc(operations.createdAt));
}
