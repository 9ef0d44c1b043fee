/**
 * Nodes that a request may pick: AVAILABLE, without unfinished work, and not kept for something else or in a cluster.
 */
import { and, asc, eq, isNull, ne, not, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { hasClusterCondition, nodeCondition } from "./node-filter.ts";
import type { NodeFilter } from "./node-filter.ts";
import { keyOfName, nodes, runs } from "../tables.ts";

type NodeKey = { readonly id: string; readonly name: string };

function isPickable(filter: NodeFilter | undefined): SQL | undefined {
  return and(
    eq(nodes.state, "AVAILABLE"),
    isNull(nodes.maintenanceSince),
    isNull(nodes.retiredReason),
    isNull(nodes.faultKind),
    eq(nodes.isProtected, false),
    ne(nodes.presence, "DISAPPEARED"),
    sql`not exists (select 1 from ${runs} where ${runs.nodeId} = ${nodes.id} and ${isNull(runs.finishedAt)})`,
    filter && hasClusterCondition(filter) ? undefined : isNull(nodes.clusterId),
    nodeCondition(filter),
  );
}

/** The first of these nodes by name. */
export async function pickableNodes(reader: Reader, filter: NodeFilter | undefined, limit: number): Promise<NodeKey[]> {
  return firstKeys(reader, isPickable(filter), limit);
}

export async function countPickableNodes(reader: Reader, filter: NodeFilter | undefined): Promise<number> {
  return reader.$count(nodes, isPickable(filter));
}

/**
 * Locks the first of these nodes that no other transaction has locked, apart from `except`. A run that was stored after
 * the statement began is not seen: the caller checks locked nodes once more.
 */
export async function lockPickableNodes(
  tx: Tx,
  filter: NodeFilter | undefined,
  { limit, except }: { readonly limit: number; readonly except: readonly string[] },
): Promise<NodeKey[]> {
  const which = and(isPickable(filter), not(inArrayParam(nodes.id, except)));
  return firstKeys(tx, which, limit).for("no key update", { skipLocked: true });
}

function firstKeys(reader: Reader, which: SQL | undefined, limit: number) {
  return reader
    .select({ id: nodes.id, name: nodes.name })
    .from(nodes)
    .where(which)
    .orderBy(asc(keyOfName(nodes.name)))
    .limit(limit);
}
