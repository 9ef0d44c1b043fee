/** Power as it is read in the background: whose turn it is, and whether somebody was at work on a node meanwhile. */
import { and, eq, isNotNull, isNull, notInArray, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { NodeState } from "../lifecycle/node-states.ts";
import type { OperationKind } from "../lifecycle/verbs.ts";
import { inArrayParam } from "./postgres/array-parameter.ts";
import type { Reader, Tx } from "./postgres/database.ts";
import { nodes, operations, runs } from "./tables.ts";

/** Nodes whose power is not read unasked: their credentials are not verified yet, or nobody looks after them any more. */
export const WITHOUT_POWER: readonly NodeState[] = ["ENROLLED", "DECOMMISSIONED"];

const AT_REST = sql`not exists (select from ${runs} where ${runs.nodeId} = ${nodes.id} and ${runs.finishedAt} is null)`;

/** A node whose power is to be read. */
export interface PowerRead {
  readonly id: string;
  readonly controller: string | null;
}

/**
 * Takes nodes at rest whose power has not been asked for in so many seconds, longest ago first, and notes that it now is;
 * a process that asks at the same moment is given others. `troubled`: those, and only those, that gave no answer last time.
 */
export async function claimPowerReads(
  tx: Tx,
  due: { readonly seconds: number; readonly troubled: boolean; readonly limit: number },
): Promise<PowerRead[]> {
  const turn = tx
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
  return noteChecked(tx, turn);
}

/** Notes of nodes that their power is asked for now: of those that are not at work, and that nobody holds at the moment. */
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

/** No change of the node: its revision stays. The inner select is an array, so that it is run once, whatever the plan. */
async function noteChecked(tx: Tx, which: { getSQL(): SQL }): Promise<PowerRead[]> {
  return tx
    .update(nodes)
    .set({ powerCheckedAt: sql`now()` })
    .where(sql`${nodes.id} = any(array(${which}))`)
    .returning({ id: nodes.id, controller: nodes.controller });
}

/** How much was worked on a node, and what is at work on it now. As long as the count is the same, nobody has begun. */
export interface WorkSoFar {
  readonly runs: number;
  readonly busyWith: { readonly operationId: string; readonly kind: OperationKind } | null;
}

/** By node; one that was never worked on has no entry. */
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
