/** The MAC addresses of nodes, each of one node. The column `nodes.macs` repeats them for reads of nodes. */
import { and, asc, eq, sql } from "drizzle-orm";
import { inArrayParam, textArray } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { insertInto } from "../postgres/table-queries.ts";
import { nodeMacs, nodes } from "../tables.ts";

export interface MacOwner {
  readonly mac: string;
  readonly nodeId: string;
  readonly nodeName: string;
}

/** The nodes that have some of the MACs. */
export async function macOwners(reader: Reader, macs: readonly string[]): Promise<MacOwner[]> {
  if (macs.length === 0) return [];
  return reader
    .select({ mac: nodeMacs.mac, nodeId: nodeMacs.nodeId, nodeName: nodes.name })
    .from(nodeMacs)
    .innerJoin(nodes, eq(nodes.id, nodeMacs.nodeId))
    .where(inArrayParam(nodeMacs.mac, macs))
    .orderBy(asc(nodeMacs.mac));
}

const insertMacs = insertInto(nodeMacs);

/** Stores MACs that requests give to new nodes. Violates the constraint `node_macs_pkey` if another node has one. */
export async function insertGivenMacs(
  tx: Tx,
  rows: readonly { readonly nodeId: string; readonly mac: string }[],
): Promise<void> {
  // In one order, so that two requests with the same MACs do not wait for each other.
  const sorted = rows.toSorted((a, b) => (a.mac < b.mac ? -1 : 1)).map((row) => ({ ...row, source: "GIVEN" as const }));
  await insertMacs(tx, sorted);
}

/** Replaces all MACs of a locked node. Violates `node_macs_pkey` like `insertGivenMacs`. */
export async function replaceMacs(tx: Tx, nodeId: string, macs: readonly string[]): Promise<void> {
  await tx.delete(nodeMacs).where(eq(nodeMacs.nodeId, nodeId));
  await insertGivenMacs(
    tx,
    macs.map((mac) => ({ nodeId, mac })),
  );
}

/**
 * Takes over the MACs of an inspection, in place of those of the one before. A MAC that another node has stays there.
 * Returns all MACs that the node has then, sorted.
 */
export async function takeInspectedMacs(tx: Tx, nodeId: string, macs: readonly string[]): Promise<readonly string[]> {
  const found = sql`${textArray(macs)}::text[]`;
  await tx
    .delete(nodeMacs)
    .where(and(eq(nodeMacs.nodeId, nodeId), eq(nodeMacs.source, "INSPECTED"), sql`${nodeMacs.mac} <> all(${found})`));
  await tx.execute(sql`
    insert into ${nodeMacs} (mac, node_id, source)
    select mac, ${nodeId}, 'INSPECTED' from unnest(${found}) mac order by mac
    on conflict do nothing`);
  const rows = await tx.select({ mac: nodeMacs.mac }).from(nodeMacs).where(eq(nodeMacs.nodeId, nodeId));
  return rows.map(({ mac }) => mac).toSorted();
}
