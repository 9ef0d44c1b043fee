/** Background power reads: which nodes are due, and whether a run started on a node meanwhile. */
import { and, eq, isNotNull, isNull, notInArray, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { nodes, operations, runs } from "../tables.ts";

/**
 * States in which power is not read in the background: credentials are not verified yet, or the node is not managed any
 * more.
 */
export const WITHOUT_POWER: readonly NodeState[] = ["ENROLLED", "DECOMMISSIONED"];

const AT_REST = sql`not exists (select from ${runs} where ${runs.nodeId} = ${nodes.id} and ${runs.finishedAt} is null)`;

export interface PowerRead {
  readonly id: string;
  readonly controller: string | null;
}

/**
 * Claims idle nodes whose power was not read for some seconds, longest ago first, and records the time of this read.
 * Concurrent callers get other nodes. `troubled`: true for nodes whose last read failed, false for the others.
 */
export async function claimPowerReads(
  tx: Tx,
  due: { readonly seconds: number; readonly troubled: boolean; readonly limit: number },
): Promise<PowerRead[]> {
  const dueNodes = tx
    .select({ id: nodes.id })
    .from(nodes)
    .where(
      and(
        notInArray(nodes.state, [...WITHOUT_POWER]),
        isNull(nodes.maintenanceSince),
        due.troubled ? isNotNull(nodes.powerProblem) : isNull(nodes.powerProblem),
        sql`(${nodes.powerCheckedAt} is null or ${nodes.powerCheckedAt} <= now() - make_interval(secs => ${due.seconds}))`,
        AT_REST,
      ),
    )
    .orderBy(sql`${nodes.powerCheckedAt} nulls first`)
    .limit(due.limit)
    .for("no key update", { skipLocked: true });
  return noteChecked(tx, dueNodes);
}

/** Records a power read now, for nodes without a run that no other transaction has locked. */
export async function notePowerReads(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await noteChecked(
    tx,
    tx
      .select({ id: nodes.id })
      .from(nodes)
      .where(and(inArrayParam(nodes.id, ids), AT_REST))
      .for("no key update", { skipLocked: true }),
  );
}

/**
 * Does not raise the revision: this is not a change of the node. The inner select is an array, so that every plan runs
 * it once.
 */
async function noteChecked(tx: Tx, which: { getSQL(): SQL }): Promise<PowerRead[]> {
  return tx
    .update(nodes)
    .set({ powerCheckedAt: sql`now()` })
    .where(sql`${nodes.id} = any(array(${which}))`)
    .returning({ id: nodes.id, controller: nodes.controller });
}

/** Number of runs that started on a node, and its unfinished run. An equal number means that none started meanwhile. */
export interface WorkSoFar {
  readonly runs: number;
  readonly busyWith: { readonly operationId: string; readonly kind: OperationKind } | null;
}

/** By node; a node without runs has no entry. */
export async function workSoFar(reader: Reader, nodeIds: readonly string[]): Promise<Map<string, WorkSoFar>> {
  if (nodeIds.length === 0) return new Map();
  const unfinished = sql`${runs.finishedAt} is null`;
  const rows = await reader
    .select({
      nodeId: runs.nodeId,
      runs: sql<number>`count(*)::int`,
      operationId: sql<string | null>`min(${runs.operationId}::text) filter (where ${unfinished})`,
      kind: sql<OperationKind | null>`min(${operations.kind}) filter (where ${unfinished})`,
    })
    .from(runs)
    .innerJoin(operations, eq(operations.id, runs.operationId))
    .where(inArrayParam(runs.nodeId, nodeIds))
    .groupBy(runs.nodeId);
  return new Map(
    rows.map(({ nodeId, runs: count, operationId, kind }) => [
      nodeId,
      { runs: count, busyWith: operationId === null || kind === null ? null : { operationId, kind } },
    ]),
  );
}
