/**
 * Runs: an operation's work on one node each. The worker that claimed a run holds its fencing token, and each write
 * checks it.
 */
import { and, asc, eq, gt, inArray, isNull, lte, ne, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { FinalRunState, OperationState, RunState, Interrupt } from "../lifecycle/operation-states.ts";
import { inArrayParam } from "./postgres/array-parameter.ts";
import { runStatement } from "./postgres/statements.ts";
import type { Reader, Tx } from "./postgres/database.ts";
import { bulkUpdate, rowsText } from "./postgres/bulk.ts";
import { cutNumbered, numberedClauses, pagesOf, rowsBelow } from "./postgres/pagination.ts";
import type { NumberedRequest, Page } from "./postgres/pagination.ts";
import { nodes, operations, runs, site } from "./tables.ts";

export type RunRow = typeof runs.$inferSelect;

/** Values, or SQL for times by the database's clock. */
export type RunChange = {
  readonly [Field in keyof Omit<RunRow, "id" | "revision" | "updatedAt">]?: RunRow[Field] | SQL;
};

/** A locked run, with the fields of its operation and its node that a worker needs. */
export type LockedRun = RunRow & {
  readonly operationInterrupt: Interrupt | null;
  readonly operationState: OperationState;
  readonly inMaintenance: boolean;
  /** True if the site has capacity limits. */
  readonly isLimited: boolean;
  /** True if its wait is over by the database's clock. */
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
      operationState: operations.state,
      maintenanceSince: nodes.maintenanceSince,
      lockedAt: sql<number>`(extract(epoch from now()) * 1000)::float8`,
      isDue: sql<boolean>`coalesce(${runs.wakeAt} <= now() + ${CLOCK_TOLERANCE}::interval, true)`,
      isLimited: sql<boolean>`exists (select from ${site} where ${site.policy} ?| array['phaseLimits', 'controllerLimit'])`,
    })
    .from(runs)
    .innerJoin(operations, eq(operations.id, runs.operationId))
    .leftJoin(nodes, eq(nodes.id, runs.nodeId))
    .where(inArrayParam(runs.id, ids))
    .orderBy(asc(runs.nodeId))
    .for("no key update", skipLocked ? { of: runs, skipLocked } : { of: runs });
  return new Map(
    rows.map(({ run, maintenanceSince, lockedAt, ...row }) => [
      run.id,
      { ...run, ...row, inMaintenance: maintenanceSince !== null, lockedAt: new Date(Math.round(lockedAt)) },
    ]),
  );
}

/** Margin between the start of the transaction that parked a run and the due time of its job. */
const CLOCK_TOLERANCE = "100 milliseconds";

const CHANGEABLE_FIELDS = [
  ...([
    "state",
    "leg",
    "position",
    "fence",
    "owner",
    "generation",
    "openGeneration",
    "startedAt",
    "finishedAt",
    "failure",
    "errors",
    "leftAs",
  ] as const),
  ...(["wakeAt", "waitReason", "waitingSince", "waitFor", "slotPhase", "slotController"] as const),
] as const;

/** A change by the worker that claimed the run. */
export type ClaimedRunChange = { readonly [Field in (typeof CHANGEABLE_FIELDS)[number]]?: RunRow[Field] };

const CHANGE_CLAIMED = bulkUpdate(runs, {
  key: ["id"],
  fields: CHANGEABLE_FIELDS,
  also: ["revision = runs.revision + 1", "updated_at = clock_timestamp()"],
});

/** Changes locked runs, each in its own way. */
export async function changeClaimedRuns(
  tx: Tx,
  changes: readonly { readonly id: string; readonly change: ClaimedRunChange }[],
): Promise<void> {
  if (changes.length > 0) await runStatement(tx, CHANGE_CLAIMED, [rowsText(changes)]);
}

/** Locks unfinished runs, of nodes or of an operation, in the order of their nodes. */
export async function lockUnfinishedRuns(
  tx: Tx,
  of: { readonly nodeIds: readonly string[] } | { readonly operationId: string },
): Promise<RunRow[]> {
  const which =
    "nodeIds" in of
      ? of.nodeIds.length === 0
        ? sql`false`
        : inArrayParam(runs.nodeId, of.nodeIds)
      : eq(runs.operationId, of.operationId);
  return tx
    .select()
    .from(runs)
    .where(and(which, isNull(runs.finishedAt)))
    .orderBy(asc(runs.nodeId))
    .for("no key update");
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

export async function updateRun(tx: Tx, id: string, change: RunChange): Promise<void> {
  await updateRuns(tx, [id], change);
}

/** Changes several runs in the same way. */
export async function updateRuns(tx: Tx, ids: readonly string[], change: RunChange): Promise<void> {
  if (ids.length === 0) return;
  await tx
    .update(runs)
    .set({ ...(change as Partial<RunRow>), revision: sql`${runs.revision} + 1`, updatedAt: sql`clock_timestamp()` })
    .where(inArrayParam(runs.id, ids));
}

/** Records an interrupt on runs, now by the database's clock. */
export async function interruptRuns(
  tx: Tx,
  ids: readonly string[],
  interrupt: RunChange & {
    readonly interrupt: Interrupt;
    readonly interruptBy: string;
    readonly interruptReason: string | null;
  },
): Promise<void> {
  await updateRuns(tx, ids, { ...interrupt, interruptAt: sql`now()` });
}

/** Fields that the end of a run clears: waits, deadlines and slots. */
export const ENDED = {
  owner: null,
  wakeAt: null,
  waitReason: null,
  waitingSince: null,
  waitFor: null,
  slotPhase: null,
  slotController: null,
  openGeneration: null,
} as const;

/** Ends runs. Their fencing tokens rise, so that a worker that claimed one cannot write any more. */
export async function finishRuns(
  tx: Tx,
  ids: readonly string[],
  state: FinalRunState,
  change: RunChange = {},
): Promise<void> {
  await updateRuns(tx, ids, { ...change, ...ENDED, state, finishedAt: sql`now()`, fence: sql`${runs.fence} + 1` });
}

export async function runsByIds(reader: Reader, ids: readonly string[]): Promise<RunRow[]> {
  return ids.length === 0 ? [] : reader.select().from(runs).where(inArrayParam(runs.id, ids));
}

export async function unfinishedRuns(reader: Reader, nodeIds: readonly string[]): Promise<RunRow[]> {
  if (nodeIds.length === 0) return [];
  return reader
    .select()
    .from(runs)
    .where(and(inArrayParam(runs.nodeId, nodeIds), isNull(runs.finishedAt)));
}

/** Kind of the unfinished operation of each busy node. */
export async function busyNodes(reader: Reader, nodeIds: readonly string[]) {
  if (nodeIds.length === 0) return [];
  return reader
    .select({ nodeId: runs.nodeId, operationId: runs.operationId, kind: operations.kind })
    .from(runs)
    .innerJoin(operations, eq(operations.id, runs.operationId))
    .where(and(inArrayParam(runs.nodeId, nodeIds), isNull(runs.finishedAt)));
}

/**
 * The newest run of each node that changes its state and is not a clean-up: a change of power or an inspection in place
 * does not hide unfinished work from a restart. Runs of the given operation always count.
 */
export async function newestWork(
  reader: Reader,
  nodeIds: readonly string[],
  operationId: string | null,
): Promise<RunRow[]> {
  if (nodeIds.length === 0) return [];
  return reader
    .select()
    .from(runs)
    .where(
      sql`${runs.id} in (select distinct on (node_id) id from runs where ${inArrayParam(runs.nodeId, nodeIds)} and purpose = 'WORK' and (moves_state or operation_id = ${operationId}::uuid) order by node_id, created_at desc, id)`,
    );
}

/** Runs of an operation in the order of the request. */
export async function runsOfOperation(
  reader: Reader,
  operationId: string,
  purpose?: RunRow["purpose"],
): Promise<RunRow[]> {
  return reader
    .select()
    .from(runs)
    .where(and(eq(runs.operationId, operationId), purpose && eq(runs.purpose, purpose)))
    .orderBy(asc(runs.ordinal), asc(runs.createdAt));
}

export interface OperationRuns extends NumberedRequest {
  readonly states?: readonly RunState[] | undefined;
}

/** A page of each operation's runs in the order of the request; clean-up runs follow the work. */
export async function runsPages(
  reader: Reader,
  operationIds: readonly string[],
  request: OperationRuns,
): Promise<Map<string, Page<RunRow>>> {
  const { where, orderBy } = numberedClauses(request, runs.ordinal);
  const rows = await rowsBelow(reader, runs, operationIds, {
    below: (operation) =>
      and(sql`${runs.operationId} = ${operation}`, request.states && inArrayParam(runs.state, request.states), where),
    orderBy,
    limit: request.limit + 1,
  });
  return pagesOf(rows, (found) => cutNumbered(found, request));
}

/** Runs of an operation that changed after a time (at equal times: after an ID), oldest change first. */
export async function runsChangedSince(
  reader: Reader,
  operationId: string,
  since: { readonly updatedAt: Date; readonly id: string } | null,
  limit: number,
): Promise<RunRow[]> {
  const moment = since && sql`${since.updatedAt.toISOString()}::timestamptz`;
  const later =
    since &&
    (since.id === ""
      ? sql`${runs.updatedAt} >= ${moment}`
      : sql`(${runs.updatedAt}, ${runs.id}) > (${moment}, ${since.id}::uuid)`);
  return reader
    .select()
    .from(runs)
    .where(and(eq(runs.operationId, operationId), later ?? undefined))
    .orderBy(asc(runs.updatedAt), asc(runs.id))
    .limit(limit);
}

/** All QUEUED runs of an operation, locked; those that another transaction has locked are skipped. */
export async function lockQueuedRuns(tx: Tx, operationId: string): Promise<RunRow[]> {
  return tx
    .select()
    .from(runs)
    .where(and(eq(runs.operationId, operationId), eq(runs.state, "QUEUED")))
    .orderBy(asc(runs.ordinal))
    .for("no key update", { skipLocked: true });
}

/** QUEUED runs of the waves up to `wave` that do not wait for a capacity limit, in order, locked as above. */
export async function lockRunsToStart(tx: Tx, operationId: string, wave: number, limit: number): Promise<RunRow[]> {
  return tx
    .select()
    .from(runs)
    .where(and(eq(runs.operationId, operationId), eq(runs.state, "QUEUED"), lte(runs.wave, wave), isNull(runs.waitFor)))
    .orderBy(asc(runs.ordinal))
    .limit(limit)
    .for("no key update", { skipLocked: true });
}

/** Whether a run of the operation's work in a wave up to `wave` is unfinished. */
export async function hasUnfinishedInWaves(tx: Tx, operationId: string, wave: number): Promise<boolean> {
  const found = await tx
    .select({ id: runs.id })
    .from(runs)
    .where(
      and(eq(runs.operationId, operationId), eq(runs.purpose, "WORK"), lte(runs.wave, wave), isNull(runs.finishedAt)),
    )
    .limit(1);
  return found.length > 0;
}

/** Whether a run of the operation is QUEUED. */
export async function hasQueued(tx: Tx, operationId: string): Promise<boolean> {
  const found = await tx
    .select({ id: runs.id })
    .from(runs)
    .where(
      and(
        eq(runs.operationId, operationId),
        eq(runs.purpose, "WORK"),
        eq(runs.state, "QUEUED"),
        isNull(runs.finishedAt),
      ),
    )
    .limit(1);
  return found.length > 0;
}

/** The first wave after `wave` with a QUEUED run; null if there is none. */
export async function nextQueuedWave(tx: Tx, operationId: string, after: number): Promise<number | null> {
  const [row] = await tx
    .select({ wave: sql<number | null>`min(${runs.wave})::int` })
    .from(runs)
    .where(
      and(
        eq(runs.operationId, operationId),
        eq(runs.purpose, "WORK"),
        eq(runs.state, "QUEUED"),
        isNull(runs.finishedAt),
        gt(runs.wave, after),
      ),
    );
  return row?.wave ?? null;
}

/** Failed runs of an operation's work. */
export async function countFailed(tx: Tx, operationId: string): Promise<number> {
  return tx.$count(runs, and(eq(runs.operationId, operationId), eq(runs.purpose, "WORK"), eq(runs.state, "FAILED")));
}

/** Parked runs of an operation's work. */
export async function parkedRuns(tx: Tx, operationId: string): Promise<RunRow[]> {
  return tx
    .select()
    .from(runs)
    .where(
      and(eq(runs.operationId, operationId), eq(runs.purpose, "WORK"), inArray(runs.state, ["WAITING", "HOLDING"])),
    );
}

/** Runs of some nodes that are parked until the end of maintenance. */
export async function runsPausedByMaintenance(tx: Tx, nodeIds: readonly string[]): Promise<string[]> {
  if (nodeIds.length === 0) return [];
  const rows = await tx
    .select({ id: runs.id })
    .from(runs)
    .where(and(inArrayParam(runs.nodeId, nodeIds), isNull(runs.finishedAt), eq(runs.waitReason, "MAINTENANCE")));
  return rows.map(({ id }) => id);
}

/** Number of unfinished runs of an operation. */
export async function countUnfinished(tx: Tx, operationId: string): Promise<number> {
  return tx.$count(runs, and(eq(runs.operationId, operationId), isNull(runs.finishedAt)));
}

/** Nodes of each operation's clean-up runs. */
export async function cleanedUpNodes(
  reader: Reader,
  operationIds: readonly string[],
): Promise<{ operationId: string; nodeId: string }[]> {
  if (operationIds.length === 0) return [];
  return reader
    .select({ operationId: runs.operationId, nodeId: runs.nodeId })
    .from(runs)
    .where(and(inArrayParam(runs.operationId, operationIds), eq(runs.purpose, "CLEAN_UP")));
}

/** Interrupts and fencing tokens of claimed runs. `overdue`: the timeout of a stop has passed. */
export async function interruptsOf(
  reader: Reader,
  ids: readonly string[],
): Promise<{ id: string; interrupt: RunRow["interrupt"]; fence: number; overdue: boolean }[]> {
  if (ids.length === 0) return [];
  return reader
    .select({
      id: runs.id,
      interrupt: runs.interrupt,
      fence: runs.fence,
      overdue: sql<boolean>`${runs.interruptFailure} is not null`,
    })
    .from(runs)
    .where(inArrayParam(runs.id, ids));
}

/**
 * A page, by ID, of unfinished runs that were not changed for some seconds although they should. Recovery enqueues
 * those without a job.
 */
export async function neglectedRuns(
  reader: Reader,
  { seconds, after, limit }: { readonly seconds: number; readonly after: string | null; readonly limit: number },
): Promise<string[]> {
  const rows = await reader
    .select({ id: runs.id })
    .from(runs)
    .where(
      and(
        isNull(runs.finishedAt),
        ne(runs.state, "QUEUED"),
        // These are parked without a job; the end of the wait or an interrupt enqueues one.
        sql`(coalesce(${runs.waitReason}, '') not in ('HOLD', 'CAPACITY', 'MAINTENANCE') or ${runs.interrupt} is not null)`,
        sql`greatest(${runs.updatedAt}, coalesce(${runs.wakeAt}, ${runs.updatedAt})) < now() - make_interval(secs => ${seconds})`,
        after === null ? undefined : gt(runs.id, after),
      ),
    )
    .orderBy(asc(runs.id))
    .limit(limit);
  return rows.map(({ id }) => id);
}
