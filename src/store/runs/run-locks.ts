/** Locks runs: for the worker that changes them, and for requests that interrupt or undo work. */
import { and, asc, eq, isNull, ne, sql } from "drizzle-orm";
import type { OperationState, Interrupt } from "../../lifecycle/operation-states.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Tx } from "../postgres/database.ts";
import type { NodeRow } from "../nodes/node-fields.ts";
import type { RunRow } from "./runs.ts";
import { nodes, operations, runs, site } from "../tables.ts";

/** A locked run, with the fields of its operation and its node that a worker needs. */
export type LockedRun = RunRow & {
  readonly operationInterrupt: Interrupt | null;
  readonly operationInterruptBy: string | null;
  readonly operationInterruptReason: string | null;
  readonly operationState: OperationState;
  readonly operationActor: string;
  readonly operationReason: string | null;
  readonly operationImageId: string | null;
  /** Null: the operation has no user data. */
  readonly operationUserDataBytes: number | null;
  /** Null: the node is not in maintenance. Read without the node's lock. */
  readonly maintenanceSince: Date | null;
  /** Read like `maintenanceSince`. */
  readonly identityConflict: NodeRow["identityConflict"];
  /** True if the site has capacity limits. */
  readonly isLimited: boolean;
  /** True if a replica may claim it, by the database's clock. */
  readonly isDue: boolean;
  /** Start of the transaction, by the database's clock. */
  readonly lockedAt: Date;
};

export async function lockRun(tx: Tx, id: string): Promise<LockedRun | undefined> {
  return (await lockRuns(tx, [id])).get(id);
}

/** Locks runs in the order of their nodes. `skipLocked`: without those that another transaction has locked. */
export async function lockRuns(
  tx: Tx,
  ids: readonly string[],
  { skipLocked = false }: { readonly skipLocked?: boolean } = {},
): Promise<Map<string, LockedRun>> {
  const rows = await tx
    .select({
      run: runs,
      operationInterrupt: operations.interrupt,
      operationInterruptBy: operations.interruptBy,
      operationInterruptReason: operations.interruptReason,
      operationState: operations.state,
      operationActor: operations.actor,
      operationReason: operations.reason,
      operationImageId: operations.imageId,
      operationUserDataBytes: operations.userDataBytes,
      maintenanceSince: nodes.maintenanceSince,
      identityConflict: nodes.identityConflict,
      lockedAt: sql<number>`(extract(epoch from now()) * 1000)::float8`,
      isDue: sql<boolean>`coalesce(${runs.dueAt} <= now(), false)`,
      isLimited: sql<boolean>`exists (select from ${site} where ${site.policy} ?| array['phaseLimits', 'controllerLimit'])`,
    })
    .from(runs)
    .innerJoin(operations, eq(operations.id, runs.operationId))
    .leftJoin(nodes, eq(nodes.id, runs.nodeId))
    .where(inArrayParam(runs.id, ids))
    .orderBy(asc(runs.nodeId))
    .for("no key update", skipLocked ? { of: runs, skipLocked } : { of: runs });
  return new Map(
    rows.map(({ run, lockedAt, ...row }) => [run.id, { ...run, ...row, lockedAt: new Date(Math.round(lockedAt)) }]),
  );
}

/**
 * Locks unfinished runs, of nodes or of an operation, in the order of their nodes. `skipLocked`: without those that
 * another transaction has locked.
 */
export async function lockUnfinishedRuns(
  tx: Tx,
  of: { readonly nodeIds: readonly string[] } | { readonly operationId: string },
  { skipLocked = false }: { readonly skipLocked?: boolean } = {},
): Promise<RunRow[]> {
  const which = "nodeIds" in of ? inArrayParam(runs.nodeId, of.nodeIds) : eq(runs.operationId, of.operationId);
  return tx
    .select()
    .from(runs)
    .where(and(which, isNull(runs.finishedAt)))
    .orderBy(asc(runs.nodeId))
    .for("no key update", skipLocked ? { skipLocked } : {});
}

/**
 * Unfinished runs of nodes. Started runs are locked in the order of their nodes. QUEUED runs are only read:
 * transactions that start or end them skip locked ones.
 */
export async function lockBegunRuns(tx: Tx, nodeIds: readonly string[]): Promise<RunRow[]> {
  if (nodeIds.length === 0) return [];
  const unfinished = and(inArrayParam(runs.nodeId, nodeIds), isNull(runs.finishedAt));
  // QUEUED runs first: one that starts between the two statements is found by the second.
  const queued = await tx
    .select()
    .from(runs)
    .where(and(unfinished, eq(runs.state, "QUEUED")));
  const begun = await tx
    .select()
    .from(runs)
    .where(and(unfinished, ne(runs.state, "QUEUED")))
    .orderBy(asc(runs.nodeId))
    .for("no key update");
  const locked = new Set(begun.map(({ nodeId }) => nodeId));
  return [...begun, ...queued.filter(({ nodeId }) => !locked.has(nodeId))];
}
