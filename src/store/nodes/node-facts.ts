/** The columns of a node that filters look at, read once for all streams that filter the same transitions. */
import { eq, sql } from "drizzle-orm";
import { pick } from "../../runtime/pick.ts";
import { NODE_FACT_COLUMNS } from "../log/change-fields.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader } from "../postgres/database.ts";
import type { NodeRow } from "./node-fields.ts";
import { clusters, nodes } from "../tables.ts";

const FACTS = pick(nodes, ["id", ...NODE_FACT_COLUMNS, "updatedAt"]);

export interface NodeFacts extends Pick<NodeRow, keyof typeof FACTS> {
  readonly clusterName: string | null;
  /** In place of the error, of which filters read nothing else. */
  readonly errorCode: string | null;
}

/**
 * The values that filters saw of a node before a change (`change_facts`). A change that was recorded before a column
 * existed does not have its value.
 */
export interface NodeBefore extends Omit<NodeFacts, "id" | "maintenanceSince" | "retiredReason" | "updatedAt"> {
  readonly maintenance: boolean;
  readonly retired: boolean;
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
