/** The columns of a node that filters look at, read once for all streams that filter the same transitions. */
import { eq, sql } from "drizzle-orm";
import { inArrayParam } from "./postgres/array-parameter.ts";
import type { Reader } from "./postgres/database.ts";
import type { NodeRow } from "./node-fields.ts";
import { clusters, nodes } from "./tables.ts";

const FACTS = {
  id: nodes.id,
  name: nodes.name,
  state: nodes.state,
  powerState: nodes.powerState,
  wantedPower: nodes.wantedPower,
  presence: nodes.presence,
  maintenanceSince: nodes.maintenanceSince,
  retiredReason: nodes.retiredReason,
  faultKind: nodes.faultKind,
  isProtected: nodes.isProtected,
  hostGroup: nodes.hostGroup,
  clusterId: nodes.clusterId,
  driver: nodes.driver,
  model: nodes.model,
  macs: nodes.macs,
  labels: nodes.labels,
  updatedAt: nodes.updatedAt,
} as const;

export interface NodeFacts extends Pick<NodeRow, keyof typeof FACTS> {
  readonly clusterName: string | null;
  /** In place of the error, of which filters read nothing else. */
  readonly errorCode: string | null;
}

/** Facts of those of the nodes that exist. */
export async function nodeFacts(reader: Reader, ids: readonly string[]): Promise<NodeFacts[]> {
  if (ids.length === 0) return [];
  return reader
    .select({ ...FACTS, clusterName: clusters.name, errorCode: sql<string | null>`${nodes.lastError} ->> 'code'` })
    .from(nodes)
    .leftJoin(clusters, eq(clusters.id, nodes.clusterId))
    .where(inArrayParam(nodes.id, ids));
}

/** Nodes with the names of their clusters, as of one moment. */
export async function nodesWithClusters(
  reader: Reader,
  ids: readonly string[],
): Promise<{ readonly row: NodeRow; readonly clusterName: string | null }[]> {
  if (ids.length === 0) return [];
  return reader
    .select({ row: nodes, clusterName: clusters.name })
    .from(nodes)
    .leftJoin(clusters, eq(clusters.id, nodes.clusterId))
    .where(inArrayParam(nodes.id, ids));
}
