/** The runs of operations, by how far they are: what waves, failure policies, interrupts and progress ask. */
import { and, asc, eq, gt, inArray, isNotNull, isNull, lte, ne, or, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { FinalRunState, RunCounts, RunState } from "../../lifecycle/operation-states.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import type { OperationGroups } from "../records.ts";
import { hasRow } from "../postgres/table-queries.ts";
import type { RunRow } from "../runs/runs.ts";
import { IN_SERVICE } from "../nodes/host-groups.ts";
import { nodes, runs } from "../tables.ts";

/** Locks runs, in order; those that another transaction has locked are skipped. */
function lockFree(tx: Tx, where: SQL | undefined) {
  return tx.select().from(runs).where(where).orderBy(asc(runs.ordinal)).for("no key update", { skipLocked: true });
}

/** All QUEUED runs of an operation, locked as above. */
export async function lockQueuedRuns(tx: Tx, operationId: string): Promise<RunRow[]> {
  return lockFree(tx, and(eq(runs.operationId, operationId), eq(runs.state, "QUEUED")));
}

/** QUEUED runs of the waves up to `wave` that wait neither for a capacity limit nor for a worker, locked as above. */
export async function lockRunsToStart(
  tx: Tx,
  operationId: string,
  { wave, closed, limit }: { readonly wave: number; readonly closed: ClosedGroups | null; readonly limit: number },
): Promise<RunRow[]> {
  const isNew = and(eq(runs.state, "QUEUED"), WAITS_FOR_NOTHING);
  const isOpen = closed && sql`not coalesce(${and(eq(runs.purpose, "WORK"), isHeldBy(closed))}, false)`;
  return lockFree(tx, and(eq(runs.operationId, operationId), isNew, lte(runs.wave, wave), isOpen ?? undefined)).limit(
    limit,
  );
}

/** Keys of host groups whose nodes may not begin now: to be deployed, and to be taken out of service. */
export type ClosedGroups = OperationGroups;

/** A node that is out of service already may be worked on. */
function isHeldBy({ deployed, budgeted }: ClosedGroups): SQL | undefined {
  return or(
    inArrayParam(runs.groupKey, deployed),
    and(
      inArrayParam(runs.budgetKey, budgeted),
      sql`exists (select from ${nodes} where ${nodes.id} = ${runs.nodeId} and ${IN_SERVICE})`,
    ),
  );
}

/** QUEUED runs of an operation's work that wait for nothing else and that these host groups hold, locked as above. */
export async function lockHeldRuns(tx: Tx, operationId: string, groups: ClosedGroups): Promise<RunRow[]> {
  return lockFree(tx, workOf(operationId, eq(runs.state, "QUEUED"), WAITS_FOR_NOTHING, isHeldBy(groups)));
}

/** Parked runs of an operation's work, locked as above. */
export async function lockParkedRuns(tx: Tx, operationId: string): Promise<RunRow[]> {
  return lockFree(tx, workOf(operationId, inArray(runs.state, ["WAITING", "HOLDING"])));
}

/**
 * Returns QUEUED runs of an operation's work that wait for a worker to their operation: they are not due, and their
 * slots are free. A run that a worker takes at this moment is skipped, and starts.
 */
export async function withdrawStarts(tx: Tx, operationId: string): Promise<void> {
  const waiting = tx
    .select({ id: runs.id })
    .from(runs)
    .where(workOf(operationId, QUEUED, eq(runs.waitReason, "CONCURRENCY")))
    .for("no key update", { skipLocked: true });
  await tx
    .update(runs)
    .set({
      dueAt: null,
      waitReason: null,
      slotPhase: null,
      slotController: null,
      revision: sql`${runs.revision} + 1`,
      updatedAt: sql`clock_timestamp()`,
    })
    .where(inArray(runs.id, waiting));
}

/** Whether a run of the operation's work in a wave up to `wave` is unfinished. */
export async function hasUnfinishedInWaves(tx: Reader, operationId: string, wave: number): Promise<boolean> {
  return hasRow(tx, runs, workOf(operationId, lte(runs.wave, wave), isNull(runs.finishedAt)));
}

/** Whether a run of the operation's work is QUEUED. */
export async function hasQueued(tx: Reader, operationId: string): Promise<boolean> {
  return hasRow(tx, runs, workOf(operationId, QUEUED));
}

/** The first wave after `wave` with a QUEUED run; null if there is none. */
export async function nextQueuedWave(tx: Reader, operationId: string, after: number): Promise<number | null> {
  const [row] = await tx
    .select({ wave: sql<number | null>`min(${runs.wave})::int` })
    .from(runs)
    .where(workOf(operationId, QUEUED, gt(runs.wave, after)));
  return row?.wave ?? null;
}

/** Failed runs of an operation's work; with a key, those on nodes of a host group. */
export async function countFailed(reader: Reader, operationId: string, groupKey?: string): Promise<number> {
  const ofGroup = groupKey === undefined ? undefined : eq(runs.groupKey, groupKey);
  return reader.$count(runs, workOf(operationId, eq(runs.state, "FAILED"), ofGroup));
}

/** Number of unfinished runs of an operation. */
export async function countUnfinished(tx: Tx, operationId: string): Promise<number> {
  return tx.$count(runs, and(eq(runs.operationId, operationId), isNull(runs.finishedAt)));
}

/** The runs of an operation's work after an action on its waves. */
export interface SteeredRuns {
  /** Runs that start: they wait for a worker, or for a slot of a capacity limit. */
  readonly starting: number;
  /** Runs that waited for a worker, and do not start any more. */
  readonly withdrawn: number;
  /** Runs on which work has begun; they continue. */
  readonly active: number;
  /** QUEUED runs that start later. */
  readonly waiting: number;
  /** Nodes of the first runs that start or are withdrawn, in the order of the request. */
  readonly nodeIds: readonly string[];
}

/** Nodes in `SteeredRuns`. */
const STEERED_NODES_MAX = 20;

/**
 * The runs that an action on the waves concerns, by the rules of `lockRunsToStart` and `withdrawStarts`. `wave`: the
 * newest one after the action.
 */
export async function steeredRuns(
  reader: Reader,
  operationId: string,
  {
    wave,
    maxParallel,
    action,
  }: { readonly wave: number; readonly maxParallel: number | null; readonly action: "ADVANCE" | "HALT" | "RESUME" },
): Promise<SteeredRuns> {
  const startable = and(QUEUED, lte(runs.wave, wave), WAITS_FOR_NOTHING);
  const withdrawn = and(QUEUED, eq(runs.waitReason, "CONCURRENCY"));
  const count = (condition: SQL | undefined) => sql<number>`(count(*) filter (where ${condition}))::int`;
  const [found] = await reader
    .select({
      startable: count(startable),
      withdrawn: count(withdrawn),
      active: count(and(isNull(runs.finishedAt), ne(runs.state, "QUEUED"))),
      queued: count(QUEUED),
      taken: count(STARTED),
    })
    .from(runs)
    .where(workOf(operationId));
  const { active = 0, queued = 0, taken = 0 } = found ?? {};
  const isHalt = action === "HALT";
  const free = maxParallel === null ? Number.POSITIVE_INFINITY : Math.max(0, maxParallel - taken);
  const starting = isHalt ? 0 : Math.min(found?.startable ?? 0, free);
  const ended = isHalt ? (found?.withdrawn ?? 0) : 0;
  const concerned = isHalt ? ended : starting;
  const rows = await reader
    .select({ nodeId: runs.nodeId })
    .from(runs)
    .where(workOf(operationId, isHalt ? withdrawn : startable))
    .orderBy(asc(runs.ordinal))
    .limit(Math.min(concerned, STEERED_NODES_MAX));
  return {
    starting,
    withdrawn: ended,
    active,
    waiting: queued - starting,
    nodeIds: rows.map(({ nodeId }) => nodeId),
  };
}

/** Number of runs of each operation by state, without clean-up runs. */
export async function runStateCounts(
  reader: Reader,
  operationIds: readonly string[],
): Promise<Map<string, Partial<Record<RunState, number>>>> {
  if (operationIds.length === 0) return new Map();
  const rows = await reader
    .select({ operationId: runs.operationId, state: runs.state, count: sql<number>`count(*)::int` })
    .from(runs)
    .where(and(inArrayParam(runs.operationId, operationIds), eq(runs.purpose, "WORK")))
    .groupBy(runs.operationId, runs.state)
    .orderBy(asc(runs.state));
  return countsByState(rows);
}

/** The sums of each operation by state. */
export function countsByState<State extends string>(
  rows: readonly { readonly operationId: string; readonly state: State; readonly count: number }[],
): Map<string, Partial<Record<State, number>>> {
  const counts = new Map<string, Partial<Record<State, number>>>();
  for (const { operationId, state, count } of rows) {
    const known = counts.get(operationId);
    counts.set(operationId, { ...known, [state]: (known?.[state] ?? 0) + count });
  }
  return counts;
}

function selectGroups(reader: Reader, operationIds: readonly string[]) {
  return reader
    .select({
      operationId: runs.operationId,
      planHash: runs.planHash,
      state: runs.state,
      wave: runs.wave,
      position: runs.position,
      count: sql<number>`count(*)::int`,
    })
    .from(runs)
    .where(and(inArrayParam(runs.operationId, operationIds), eq(runs.purpose, "WORK")))
    .groupBy(runs.operationId, runs.planHash, runs.state, runs.wave, runs.position);
}

/** Runs of an operation's work that are equally far in the same plan. */
type RunGroup = Readonly<Awaited<ReturnType<typeof selectGroups>>[number]>;

/** The runs of each operation's work, by how far they are. */
export async function runGroups(reader: Reader, operationIds: readonly string[]): Promise<Map<string, RunGroup[]>> {
  if (operationIds.length === 0) return new Map();
  return Map.groupBy(await selectGroups(reader, operationIds), ({ operationId }) => operationId);
}

/** Counts from which the outcome of an operation is derived. */
export async function finalCounts(tx: Tx, operationId: string): Promise<RunCounts & { readonly cleanUps: number }> {
  const ended = (state: FinalRunState) =>
    sql<number>`count(*) filter (where ${runs.state} = ${state} and ${runs.purpose} = 'WORK')::int`;
  const [row] = await tx
    .select({
      succeeded: ended("SUCCEEDED"),
      failed: ended("FAILED"),
      aborted: ended("ABORTED"),
      stopped: ended("STOPPED"),
      succeededWithErrors: sql<number>`count(*) filter (where ${runs.state} = 'SUCCEEDED' and ${runs.purpose} = 'WORK' and jsonb_array_length(${runs.errors}) > 0)::int`,
      cleanUps: sql<number>`count(*) filter (where ${runs.purpose} = 'CLEAN_UP')::int`,
    })
    .from(runs)
    .where(eq(runs.operationId, operationId));
  return row ?? { succeeded: 0, failed: 0, aborted: 0, stopped: 0, succeededWithErrors: 0, cleanUps: 0 };
}

/**
 * Number of an operation's unfinished runs that were started, which `maxParallel` limits. They may still wait for a
 * capacity limit.
 */
export async function countStartedRuns(tx: Tx, operationId: string): Promise<number> {
  return tx.$count(runs, and(eq(runs.operationId, operationId), STARTED));
}

/** Whether a run of the operation is unfinished: one index look-up, unlike counting. */
export async function hasUnfinishedRun(tx: Tx, operationId: string): Promise<boolean> {
  return hasRow(tx, runs, and(eq(runs.operationId, operationId), isNull(runs.finishedAt)));
}

/** A run that has not started. The index of unfinished runs serves the condition. */
const QUEUED = and(eq(runs.state, "QUEUED"), isNull(runs.finishedAt));

/** Neither for a capacity limit nor for a worker. */
const WAITS_FOR_NOTHING = and(isNull(runs.waitFor), isNull(runs.waitReason));

/** An unfinished run that was started. It may still wait for a worker or for a slot. */
const STARTED = and(
  isNull(runs.finishedAt),
  or(ne(runs.state, "QUEUED"), isNotNull(runs.waitFor), isNotNull(runs.waitReason)),
);

/** The operation's work, without its clean-ups. */
function workOf(operationId: string, ...conditions: readonly (SQL | undefined)[]): SQL | undefined {
  return and(eq(runs.operationId, operationId), eq(runs.purpose, "WORK"), ...conditions);
}
