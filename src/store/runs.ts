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
import { countsBelow, cutNumbered, numberedClauses, pagesOf, rowsBelow } from "./postgres/pagination.ts";
import type { NumberedRequest, Page } from "./postgres/pagination.ts";
import { nodes, operations, runs, site } from "./tables.ts";

export type RunRow = typeof runs.$inferSelect;

/** `leg` of a run whose node has entered no leg yet. */
export const UNTOUCHED = -1;

/** Values, or SQL for times by the database's clock. */
export type RunChange = {
  readonly [Field in keyof Omit<RunRow, "id" | "revision" | "updatedAt">]?: RunRow[Field] | SQL;
};

/** A locked run, with the fields of its operation and its node that a worker needs. */
export type LockedRun = RunRow & {
  readonly operationInterrupt: Interrupt | null;
  readonly operationInterruptBy: string | null;
  readonly operationInterruptReason: string | null;
  readonly operationState: OperationState;
  readonly operationActor: string;
  readonly operationReason: string | null;
  /** Null: the node is not in maintenance. Read without the node's lock. */
  readonly maintenanceSince: Date | null;
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
      operationInterruptBy: operations.interruptBy,
      operationInterruptReason: operations.interruptReason,
      operationState: operations.state,
      operationActor: operations.actor,
      operationReason: operations.reason,
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
    rows.map(({ run, lockedAt, ...row }) => [run.id, { ...run, ...row, lockedAt: new Date(Math.round(lockedAt)) }]),
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
    "interruptFailure",
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

/**
 * Locks unfinished runs, of nodes or of an operation, in the order of their nodes. `skipLocked`: without those that
 * another transaction has locked.
 */
export async function lockUnfinishedRuns(
  tx: Tx,
  of: { readonly nodeIds: readonly string[] } | { readonly operationId: string },
  { skipLocked = false }: { readonly skipLocked?: boolean } = {},
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

/** Kind of the unfinished operation of each busy node. `isEnding`: an abort or a failure is ending its run. */
export async function busyNodes(reader: Reader, nodeIds: readonly string[]) {
  if (nodeIds.length === 0) return [];
  return reader
    .select({
      nodeId: runs.nodeId,
      operationId: runs.operationId,
      kind: operations.kind,
      isEnding: sql<boolean>`(${runs.interrupt} is not distinct from 'ABORT' or ${runs.interruptFailure} is not null)`,
      hostGroup: runs.hostGroup,
    })
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

export interface RunsOfOperation {
  readonly states?: readonly RunState[] | undefined;
}

export interface OperationRuns extends NumberedRequest, RunsOfOperation {}

const belowOperation =
  ({ states }: RunsOfOperation) =>
  (operation: SQL) =>
    and(sql`${runs.operationId} = ${operation}`, states && inArrayParam(runs.state, states));

export async function runCountsOf(
  reader: Reader,
  operationIds: readonly string[],
  asked: RunsOfOperation,
): Promise<Map<string, number>> {
  return countsBelow(reader, runs, operationIds, belowOperation(asked));
}

/** A page of each operation's runs in the order of the request; clean-up runs follow the work. */
export async function runsPages(
  reader: Reader,
  operationIds: readonly string[],
  request: OperationRuns,
): Promise<Map<string, Page<RunRow>>> {
  const { where, orderBy } = numberedClauses(request, runs.ordinal);
  const rows = await rowsBelow(reader, runs, operationIds, {
    below: (operation) => and(belowOperation(request)(operation), where),
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

/**
 * QUEUED runs of the waves up to `wave` that wait neither for a capacity limit nor for a worker, in order, locked as
 * above.
 */
export async function lockRunsToStart(tx: Tx, operationId: string, wave: number, limit: number): Promise<RunRow[]> {
  return tx
    .select()
    .from(runs)
    .where(
      and(
        eq(runs.operationId, operationId),
        eq(runs.state, "QUEUED"),
        lte(runs.wave, wave),
        isNull(runs.waitFor),
        isNull(runs.waitReason),
      ),
    )
    .orderBy(asc(runs.ordinal))
    .limit(limit)
    .for("no key update", { skipLocked: true });
}

/**
 * Returns QUEUED runs of an operation's work that wait for a worker to their operation: their jobs are stale, and their
 * slots free. A run that a worker takes at this moment is skipped, and starts.
 */
export async function withdrawStarts(tx: Tx, operationId: string): Promise<void> {
  const waiting = tx
    .select({ id: runs.id })
    .from(runs)
    .where(
      and(
        eq(runs.operationId, operationId),
        eq(runs.purpose, "WORK"),
        eq(runs.state, "QUEUED"),
        eq(runs.waitReason, "CONCURRENCY"),
      ),
    )
    .for("no key update", { skipLocked: true });
  await tx
    .update(runs)
    .set({
      waitReason: null,
      slotPhase: null,
      slotController: null,
      revision: sql`${runs.revision} + 1`,
      updatedAt: sql`clock_timestamp()`,
    })
    .where(inArray(runs.id, waiting));
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

/**
 * Moves the timeouts of parked steps by the time for which their nodes have been in maintenance. Called under the locks
 * of the runs, before the flag is cleared. Returns the runs whose wait ends with the timeout, with the seconds that are
 * left.
 */
export async function extendParkedSteps(
  tx: Tx,
  nodeIds: readonly string[],
): Promise<{ readonly runId: string; readonly seconds: number }[]> {
  if (nodeIds.length === 0) return [];
  // A wait for less time than the timeout is not moved: it ends when it was to end.
  const rows = await tx.execute<{ runId: string; seconds: number }>(sql`
    with stood as (
      select r.id, r.position, a.deadline_at,
        greatest(now() - greatest(${nodes.maintenanceSince}, r.waiting_since), interval '0') as pause
      from runs r join ${nodes} on ${nodes.id} = r.node_id
      join attempts a on a.run_id = r.id and a.step = r.position and a.state = 'WAITING'
      where ${inArrayParam(nodes.id, nodeIds)} and ${nodes.maintenanceSince} is not null
        and r.finished_at is null and r.state = 'WAITING' and r.wait_reason in ('TIME', 'CALLBACK')
    ), extended as (
      update attempts a set deadline_at = a.deadline_at + stood.pause from stood
      where a.run_id = stood.id and a.step = stood.position and a.state = 'WAITING'
    )
    update runs r set wake_at = r.wake_at + stood.pause, revision = r.revision + 1, updated_at = clock_timestamp()
    from stood where r.id = stood.id
      and (r.wait_reason = 'CALLBACK' or r.wake_at >= stood.deadline_at - interval '1 second')
    returning r.id as "runId", greatest(extract(epoch from r.wake_at - now()), 0)::float8 as seconds`);
  return [...rows];
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
): Promise<(Pick<RunRow, "id" | "interrupt" | "interruptMode" | "fence"> & { readonly overdue: boolean })[]> {
  if (ids.length === 0) return [];
  return reader
    .select({
      id: runs.id,
      interrupt: runs.interrupt,
      interruptMode: runs.interruptMode,
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
        sql`(${runs.state} <> 'QUEUED' or ${runs.waitReason} = 'CONCURRENCY')`,
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
