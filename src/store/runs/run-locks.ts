/** Locks runs: for the worker that changes them, and for requests that interrupt or undo work. */
import { and, asc, eq, isNull, ne, sql } from "drizzle-orm";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Tx } from "../postgres/database.ts";
import { lockRowsBy, rowsBy } from "../postgres/table-queries.ts";
import type { RunRow } from "./runs.ts";
import { nodes, operations, runs, site } from "../tables.ts";

/** A locked run, with the fields of its operation and its node that a worker needs. */
export type LockedRun = RunRow & Omit<LockedRow, "run" | "lockedAt"> & { readonly lockedAt: Date };
type LockedRow = Awaited<ReturnType<typeof selectLocked>>[number];

function selectLocked(tx: Tx, ids: readonly string[], skipLocked: boolean) {
  return tx
    .select({
      run: runs,
      operationInterrupt: operations.interrupt,
      operationInterruptBy: operations.interruptBy,
      operationInterruptReason: operations.interruptReason,
      operationState: operations.state,
      operationActor: operations.actor,
      operationReason: operations.reason,
      operationImageId: operations.imageId,
      /** Null: the operation has no user data. */
      operationUserDataBytes: operations.userDataBytes,
      /** The request gave the user data, in place of that of the image. */
      hasOwnUserData: sql<boolean>`coalesce((${operations.options} ->> 'ownUserData')::boolean, false)`,
      /** Null: the node is not in maintenance. Read without the node's lock. */
      maintenanceSince: nodes.maintenanceSince,
      /** Read like `maintenanceSince`. */
      identityConflict: nodes.identityConflict,
      /** Start of the transaction, by the database's clock. */
      lockedAt: sql<number>`(extract(epoch from now()) * 1000)::float8`,
      /** True if a replica may claim it, by the database's clock. */
      isDue: sql<boolean>`coalesce(${runs.dueAt} <= now(), false)`,
      /** True if the site has capacity limits. */
      isLimited: sql<boolean>`exists (select from ${site} where ${site.policy} ?| array['phaseLimits', 'controllerLimit'])`,
      /** True if the site lets an erasure leave disks out. */
      mayLeaveDisks: sql<boolean>`exists (select from ${site} where ${site.policy} ->> 'unerasedDisks' = 'ALLOW')`,
    })
    .from(runs)
    .innerJoin(operations, eq(operations.id, runs.operationId))
    .leftJoin(nodes, eq(nodes.id, runs.nodeId))
    .where(inArrayParam(runs.id, ids))
    .orderBy(asc(runs.nodeId))
    .for("no key update", skipLocked ? { of: runs, skipLocked } : { of: runs });
}

export async function lockRun(tx: Tx, id: string): Promise<LockedRun | undefined> {
  return (await lockRuns(tx, [id])).get(id);
}

/** Locks runs in the order of their nodes. `skipLocked`: without those that another transaction has locked. */
export async function lockRuns(
  tx: Tx,
  ids: readonly string[],
  { skipLocked = false }: { readonly skipLocked?: boolean } = {},
): Promise<Map<string, LockedRun>> {
  const rows = await selectLocked(tx, ids, skipLocked);
  return new Map(
    rows.map(({ run, lockedAt, ...row }) => [run.id, { ...run, ...row, lockedAt: new Date(Math.round(lockedAt)) }]),
  );
}

const UNFINISHED = { where: isNull(runs.finishedAt), orderBy: [runs.nodeId] };

/** Locks the unfinished runs of nodes, in the order of the nodes. */
export const lockUnfinishedRuns = lockRowsBy(runs, runs.nodeId, UNFINISHED);

/** Locks those of operations, in the same order. */
export const lockUnfinishedRunsOf = lockRowsBy(runs, runs.operationId, UNFINISHED);

const queuedRuns = rowsBy(runs, runs.nodeId, { where: and(isNull(runs.finishedAt), eq(runs.state, "QUEUED")) });
const lockStarted = lockRowsBy(runs, runs.nodeId, { where: and(isNull(runs.finishedAt), ne(runs.state, "QUEUED")) });

/**
 * Unfinished runs of nodes. Started runs are locked in the order of their nodes. QUEUED runs are only read:
 * transactions that start or end them skip locked ones.
 */
export async function lockBegunRuns(tx: Tx, nodeIds: readonly string[]): Promise<RunRow[]> {
  // QUEUED runs first: one that starts between the two statements is found by the second.
  const queued = await queuedRuns(tx, nodeIds);
  const begun = await lockStarted(tx, nodeIds);
  const locked = new Set(begun.map(({ nodeId }) => nodeId));
  return [...begun, ...queued.filter(({ nodeId }) => !locked.has(nodeId))];
}
