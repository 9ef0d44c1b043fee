/** Operations: accepted requests and their progress. */
import { and, asc, desc, eq, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { FinalRunState, OperationState, RunCounts, RunState, Interrupt } from "../lifecycle/operation-states.ts";
import type { OperationKind } from "../lifecycle/verbs.ts";
import { inArrayParam } from "./postgres/array-parameter.ts";
import type { Reader, Tx } from "./postgres/database.ts";
import { onNode, operationCondition } from "./operation-filter.ts";
import type { OperationFilter } from "./operation-filter.ts";
import { countsBelow, cutPage, pageClauses, pagesOf, rowsBelow } from "./postgres/pagination.ts";
import type { Page, PageRequest } from "./postgres/pagination.ts";
import { bulkInsert, rowsText } from "./postgres/bulk.ts";
import { runStatement } from "./postgres/statements.ts";
import type { Failure } from "./records.ts";
import { operationClusters, operations, runs } from "./tables.ts";

export type OperationRow = typeof operations.$inferSelect;

/** Values, or SQL for times by the database's clock. */
export type OperationChange = {
  readonly [Field in keyof Omit<OperationRow, "id" | "revision">]?: OperationRow[Field] | SQL;
};

const NEW_FIELDS = [
  ...(["id", "kind", "state", "project", "actor", "reason", "clusterId", "restartOf", "restarts", "batch"] as const),
  ...(["idempotencyKey", "inputHash", "options", "onFailure", "maxParallel", "variables", "imageId"] as const),
  ...(["userDataBytes", "waves", "waveState", "totalCount"] as const),
] as const;

/** A new operation. Other columns have their defaults. */
export type NewOperation = Pick<typeof operations.$inferInsert, Exclude<(typeof NEW_FIELDS)[number], "restartOf">>;

const INSERT = bulkInsert(operations, NEW_FIELDS);

export async function insertOperations(tx: Tx, rows: readonly NewOperation[]): Promise<void> {
  const restarting = rows.map((row) => ({ ...row, restartOf: row.restarts?.[0] ?? null }));
  if (rows.length > 0) await runStatement(tx, INSERT, [rowsText(restarting)]);
}

/** Lists an operation, in the transaction that inserts it, with clusters for which it was not requested. */
export async function listWithClusters(tx: Tx, operationId: string, clusterIds: readonly string[]): Promise<void> {
  if (clusterIds.length === 0) return;
  await tx.insert(operationClusters).values(clusterIds.map((clusterId) => ({ clusterId, operationId })));
}

/** The operations that one restarts, newest first. */
export function restartedBy({ restarts, restartOf }: Pick<OperationRow, "restarts" | "restartOf">): readonly string[] {
  return restarts ?? (restartOf === null ? [] : [restartOf]);
}

export async function operationsByIds(reader: Reader, ids: readonly string[]): Promise<OperationRow[]> {
  return ids.length === 0 ? [] : reader.select().from(operations).where(inArrayParam(operations.id, ids));
}

const NEWEST = { column: operations.createdAt, id: operations.id, descending: true } as const;
const NEWEST_OTHERS = {
  column: operationClusters.createdAt,
  id: operationClusters.operationId,
  descending: true,
} as const;

export async function operationsPage(
  reader: Reader,
  filter: OperationFilter | undefined,
  request: PageRequest,
): Promise<Page<OperationRow>> {
  const rows = await reader
    .select()
    .from(operations)
    .where(matching(filter, request))
    .orderBy(...pageClauses(request, NEWEST).orderBy)
    .limit(request.limit + 1);
  return cutPage(rows, request);
}

export async function countOperations(reader: Reader, filter: OperationFilter | undefined): Promise<number> {
  return reader.$count(operations, matching(filter));
}

/** Up to `limit` matching operations after one, newest first. The version differs after each change of the row. */
export async function operationVersionsAfter(
  reader: Reader,
  filter: OperationFilter | undefined,
  after: OperationRow | null,
  limit: number,
): Promise<{ id: string; version: string }[]> {
  const request = { limit, ...(after && { after: { key: after.createdAt.toISOString(), id: after.id } }) };
  return reader
    .select({ id: operations.id, version: sql<string>`${operations}.xmin::text` })
    .from(operations)
    .where(matching(filter, request))
    .orderBy(...pageClauses(request, NEWEST).orderBy)
    .limit(limit);
}

/** Those of the operations that have the node and the cluster of a filter; null if it has neither. */
export async function relatedOperations(
  reader: Reader,
  filter: OperationFilter | undefined,
  ids: readonly string[],
): Promise<ReadonlySet<string> | null> {
  if (filter?.nodeId === undefined && filter?.clusterId === undefined) return null;
  const { nodeId, clusterId } = filter;
  const rows = await reader.select({ id: operations.id }).from(operations).where(matching({ ids, nodeId, clusterId }));
  return new Set(rows.map(({ id }) => id));
}

/** Operations on nodes of a cluster that were not requested for it; also of a deleted one. */
export async function operationsListedWith(reader: Reader, clusterId: string): Promise<string[]> {
  const rows = await reader
    .select({ id: operationClusters.operationId })
    .from(operationClusters)
    .where(eq(operationClusters.clusterId, clusterId));
  return rows.map(({ id }) => id);
}

/** Operations that worked on each node, newest first. */
export async function operationsOfNodes(
  reader: Reader,
  nodeIds: readonly string[],
  request: PageRequest,
): Promise<Map<string, Page<OperationRow>>> {
  const { where } = pageClauses(request, NEWEST);
  return operationsBelow(reader, nodeIds, request, (id) => and(onNode(id), where));
}

export async function operationCountsOfNodes(reader: Reader, ids: readonly string[]): Promise<Map<string, number>> {
  return countsBelow(reader, operations, ids, onNode);
}

export async function operationCountsOfClusters(reader: Reader, ids: readonly string[]): Promise<Map<string, number>> {
  return countsBelow(reader, operations, ids, (id) => ofCluster(id));
}

/** Operations that were requested for each cluster, or on its members of that time, newest first. */
export async function operationsOfClusters(
  reader: Reader,
  clusterIds: readonly string[],
  request: PageRequest,
): Promise<Map<string, Page<OperationRow>>> {
  return operationsBelow(reader, clusterIds, request, (id) => ofCluster(id, request));
}

async function operationsBelow(
  reader: Reader,
  ids: readonly string[],
  request: PageRequest,
  below: (id: SQL) => SQL | undefined,
): Promise<Map<string, Page<OperationRow>>> {
  const { orderBy } = pageClauses(request, NEWEST);
  const rows = await rowsBelow(reader, operations, ids, { below, orderBy, limit: request.limit + 1 });
  return pagesOf(rows, (found) => cutPage(found, request));
}

/** The condition of a filter. With `page`, it may leave out operations that are not on the page. */
function matching(filter: OperationFilter | undefined, page?: PageRequest): SQL | undefined {
  const condition = operationCondition(filter);
  if (filter?.clusterId !== undefined)
    return and(
      sql`exists (select from clusters where id = ${filter.clusterId})`,
      ofCluster(sql`${filter.clusterId}`, page, condition),
    );
  return and(condition, page && pageClauses(page, NEWEST).where);
}

/**
 * The operations of a cluster, or those of a page. They are in two lists: those that were requested for it, and those
 * that were requested in another way. The page is read from each list by its index, and then cut from both.
 */
function ofCluster(clusterId: SQL, page?: PageRequest, condition?: SQL): SQL {
  const joined = condition
    ? sql`${operationClusters} join ${operations} on ${operations.id} = ${operationClusters.operationId}`
    : sql`${operationClusters}`;
  const requested = page && pageClauses(page, NEWEST);
  const others = page && pageClauses(page, NEWEST_OTHERS);
  const way = sql.raw(page?.fromEnd ? "asc" : "desc");
  const first = (orderBy: readonly SQL[] = []) =>
    page ? sql`order by ${sql.join([...orderBy], sql`, `)} limit ${page.limit + 1}::int` : sql``;
  return sql`${operations.id} in (
    select listed.id from (
      (select ${operations.id}, ${operations.createdAt} from ${operations}
        where ${and(eq(operations.clusterId, clusterId), condition, requested?.where)} ${first(requested?.orderBy)})
      union all
      (select ${operationClusters.operationId}, ${operationClusters.createdAt} from ${joined}
        where ${and(eq(operationClusters.clusterId, clusterId), condition, others?.where)} ${first(others?.orderBy)})
    ) listed (id, created_at) ${first([sql`created_at ${way}`, sql`id ${way}`])})`;
}

export async function operationByKey(
  reader: Reader,
  actor: string,
  idempotencyKey: string,
): Promise<OperationRow | undefined> {
  const [row] = await reader
    .select()
    .from(operations)
    .where(and(eq(operations.actor, actor), eq(operations.idempotencyKey, idempotencyKey)));
  return row;
}

/** Idempotency keys that are in use by one of the actors, as `actorKey` names them. */
export async function keysInUse(
  reader: Reader,
  wanted: readonly { readonly actor: string; readonly key: string }[],
): Promise<Set<string>> {
  if (wanted.length === 0) return new Set();
  const ofActors = inArrayParam(
    operations.actor,
    wanted.map(({ actor }) => actor),
  );
  const withKeys = inArrayParam(
    operations.idempotencyKey,
    wanted.map(({ key }) => key),
  );
  const rows = await reader
    .select({ actor: operations.actor, key: operations.idempotencyKey })
    .from(operations)
    .where(and(ofActors, withKeys));
  return new Set(rows.map(({ actor, key }) => actorKey(actor, key ?? "")));
}

export function actorKey(actor: string, key: string): string {
  return JSON.stringify([actor, key]);
}

/** The operations of one request, oldest first. */
export async function operationsOfBatch(reader: Reader, batch: string): Promise<OperationRow[]> {
  return reader
    .select()
    .from(operations)
    .where(eq(operations.batch, batch))
    .orderBy(asc(operations.createdAt), asc(operations.id));
}

export async function lockOperation(tx: Tx, id: string): Promise<OperationRow | undefined> {
  const [row] = await tx.select().from(operations).where(eq(operations.id, id)).for("no key update");
  return row;
}

/** Locks operations in the order of their ids. */
export async function lockOperations(tx: Tx, ids: readonly string[]): Promise<Map<string, OperationRow>> {
  const rows = await tx
    .select()
    .from(operations)
    .where(inArrayParam(operations.id, ids))
    .orderBy(asc(operations.id))
    .for("no key update");
  return new Map(rows.map((row) => [row.id, row]));
}

/** Locks those of the operations that no other transaction is changing. */
export async function keepFreeOperations(tx: Tx, ids: readonly string[]): Promise<OperationRow[]> {
  if (ids.length === 0) return [];
  return tx.select().from(operations).where(inArrayParam(operations.id, ids)).for("share", { skipLocked: true });
}

/**
 * Unfinished operations with QUEUED runs that should not wait: a slot of `maxParallel` is free, or the operation is
 * being ended. The transaction that should have started or ended them may have skipped them because they were locked.
 */
export async function operationsOverlooked(reader: Reader, limit: number): Promise<string[]> {
  const rows = await reader.execute<{ id: string }>(sql`
    select o.id from operations o
    where o.finished_at is null and case
      when o.wish is not null then exists (select from runs r where r.operation_id = o.id and r.finished_at is null and r.state = 'QUEUED' and r.purpose = 'WORK')
      when o.wave_state = 'HALTED' or (o.max_parallel is null and o.waves is null) then false
      else exists (select from runs r where r.operation_id = o.id and r.finished_at is null and r.state = 'QUEUED' and r.wait_for is null and r.wait_reason is null and r.wave <= o.wave)
        and (o.max_parallel is null or o.max_parallel > (select count(*) from runs r where r.operation_id = o.id and r.finished_at is null and (r.state <> 'QUEUED' or r.wait_for is not null or r.wait_reason is not null)))
      end
    limit ${limit}`);
  return [...rows].map(({ id }) => id);
}

export async function updateOperation(tx: Tx, id: string, change: OperationChange): Promise<void> {
  await tx
    .update(operations)
    .set({ ...(change as Partial<OperationRow>), revision: sql`${operations.revision} + 1` })
    .where(eq(operations.id, id));
}

/** Records an interrupt on an operation, now by the database's clock. */
export async function interruptOperation(
  tx: Tx,
  id: string,
  interrupt: { readonly interrupt: Interrupt; readonly interruptBy: string; readonly interruptReason: string | null },
): Promise<void> {
  await updateOperation(tx, id, {
    ...interrupt,
    interruptAt: sql`now()`,
    state: interrupt.interrupt === "ABORT" ? "ABORTING" : "STOPPING",
  });
}

/** Starts a pause between two waves, by the database's clock. */
export async function pauseWaves(
  tx: Tx,
  id: string,
  seconds: number,
  why: { readonly waveReason: string; readonly waveBy: string },
): Promise<void> {
  await updateOperation(tx, id, {
    ...why,
    waveState: "PAUSED",
    waveUntil: sql`now() + make_interval(secs => ${seconds})`,
  });
}

/** Remaining seconds of a pause between two waves, by the database's clock; 0 if it is over. */
export async function pauseLeft(tx: Tx, id: string): Promise<number> {
  const [row] = await tx
    .select({ seconds: sql<number>`greatest(extract(epoch from ${operations.waveUntil} - now()), 0)::float8` })
    .from(operations)
    .where(eq(operations.id, id));
  return row?.seconds ?? 0;
}

/** QUEUED → RUNNING when the first run starts. Operations are locked in the order of their IDs, as elsewhere. */
export async function operationsBegin(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  const locked = sql`select id from operations where ${inArrayParam(operations.id, ids)} and state = 'QUEUED' order by id for no key update`;
  await tx
    .update(operations)
    .set({ state: "RUNNING", startedAt: sql`now()`, revision: sql`${operations.revision} + 1` })
    .where(sql`${operations.id} in (${locked})`);
}

/** The interrupts on operations, locked in the order of their IDs until the end of the transaction. */
export async function lockInterrupts(tx: Tx, ids: readonly string[]): Promise<Map<string, Interrupt | null>> {
  if (ids.length === 0) return new Map();
  const rows = await tx
    .select({ id: operations.id, interrupt: operations.interrupt })
    .from(operations)
    .where(inArrayParam(operations.id, ids))
    .orderBy(operations.id)
    .for("share");
  return new Map(rows.map(({ id, interrupt }) => [id, interrupt]));
}

/** Records the end of an operation whose last run has ended. */
export async function finishOperation(tx: Tx, id: string, state: OperationState): Promise<void> {
  await updateOperation(tx, id, { state, finishedAt: sql`now()` });
}

/** Records the end of locked operations of which all runs have succeeded. */
export async function finishSucceeded(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx
    .update(operations)
    .set({ state: "SUCCEEDED", finishedAt: sql`now()`, revision: sql`${operations.revision} + 1` })
    .where(inArrayParam(operations.id, ids));
}

/** Records the first failure. Later ones do not replace it: operators look for the first. */
export async function noteFirstFailure(tx: Tx, id: string, failure: Failure): Promise<void> {
  await tx
    .update(operations)
    .set({ firstFailure: sql`coalesce(${operations.firstFailure}, ${JSON.stringify(failure)}::text::jsonb)` })
    .where(eq(operations.id, id));
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
  const counts = new Map<string, Partial<Record<RunState, number>>>();
  for (const { operationId, state, count } of rows)
    counts.set(operationId, { ...counts.get(operationId), [state]: count });
  return counts;
}

/** Runs of an operation's work that are equally far in the same plan. */
export interface RunGroup {
  readonly operationId: string;
  readonly planHash: string;
  readonly state: RunState;
  readonly wave: number;
  readonly position: number;
  readonly count: number;
  /** The runs among them whose node was cleaned up afterwards. */
  readonly undone: number;
}

/** The runs of each operation's work, by how far they are. */
export async function runGroups(reader: Reader, operationIds: readonly string[]): Promise<Map<string, RunGroup[]>> {
  if (operationIds.length === 0) return new Map();
  const isUndone = sql`exists (select from runs c where c.operation_id = ${runs.operationId} and c.node_id = ${runs.nodeId} and c.purpose = 'CLEAN_UP')`;
  const rows = await reader
    .select({
      operationId: runs.operationId,
      planHash: runs.planHash,
      state: runs.state,
      wave: runs.wave,
      position: runs.position,
      count: sql<number>`count(*)::int`,
      undone: sql<number>`count(*) filter (where ${runs.state} = 'SUCCEEDED' and ${isUndone})::int`,
    })
    .from(runs)
    .where(and(inArrayParam(runs.operationId, operationIds), eq(runs.purpose, "WORK")))
    .groupBy(runs.operationId, runs.planHash, runs.state, runs.wave, runs.position);
  return Map.groupBy(rows, ({ operationId }) => operationId);
}

/** Counts from which the outcome of an operation is derived. */
export async function finalCounts(
  tx: Tx,
  operationId: string,
): Promise<RunCounts & { readonly unfinished: number; readonly cleanUps: number }> {
  const ended = (state: FinalRunState) =>
    sql<number>`count(*) filter (where ${runs.state} = ${state} and ${runs.purpose} = 'WORK')::int`;
  const [row] = await tx
    .select({
      succeeded: ended("SUCCEEDED"),
      failed: ended("FAILED"),
      aborted: ended("ABORTED"),
      stopped: ended("STOPPED"),
      succeededWithErrors: sql<number>`count(*) filter (where ${runs.state} = 'SUCCEEDED' and ${runs.purpose} = 'WORK' and jsonb_array_length(${runs.errors}) > 0)::int`,
      unfinished: sql<number>`count(*) filter (where ${runs.finishedAt} is null)::int`,
      cleanUps: sql<number>`count(*) filter (where ${runs.purpose} = 'CLEAN_UP')::int`,
    })
    .from(runs)
    .where(eq(runs.operationId, operationId));
  return row ?? { succeeded: 0, failed: 0, aborted: 0, stopped: 0, succeededWithErrors: 0, unfinished: 0, cleanUps: 0 };
}

/**
 * Number of an operation's unfinished runs that were started, which `maxParallel` limits. They may still wait for a
 * capacity limit.
 */
export async function countStartedRuns(tx: Tx, operationId: string): Promise<number> {
  return tx.$count(
    runs,
    and(
      eq(runs.operationId, operationId),
      sql`${runs.finishedAt} is null`,
      sql`(${runs.state} <> 'QUEUED' or ${runs.waitFor} is not null or ${runs.waitReason} is not null)`,
    ),
  );
}

/** Whether a run of the operation is unfinished: one index look-up, unlike counting. */
export async function hasUnfinishedRun(tx: Tx, operationId: string): Promise<boolean> {
  const found = await tx
    .select({ id: runs.id })
    .from(runs)
    .where(and(eq(runs.operationId, operationId), sql`${runs.finishedAt} is null`))
    .limit(1);
  return found.length > 0;
}

/**
 * Unfinished operations that change the state of nodes of each cluster. `stopping`: whether an interrupt was requested.
 */
export async function workOnClusters(
  reader: Reader,
  clusterIds: readonly string[],
): Promise<{ clusterId: string; operationId: string; kind: OperationKind; stopping: boolean }[]> {
  if (clusterIds.length === 0) return [];
  const rows = await reader.execute<{
    clusterId: string;
    operationId: string;
    kind: OperationKind;
    stopping: boolean;
  }>(sql`
    select distinct n.cluster_id as "clusterId", o.id as "operationId", o.kind, coalesce(o.wish, r.wish) is not null as stopping
    from nodes n join runs r on r.node_id = n.id and r.finished_at is null and r.moves_state join operations o on o.id = r.operation_id
    where n.cluster_id in (${sql.join(
      clusterIds.map((id) => sql`${id}::uuid`),
      sql`, `,
    )})`);
  return [...rows];
}

/** Unfinished operations on nodes of a cluster, newest first. */
export async function unfinishedOperationsOfCluster(reader: Reader, clusterId: string): Promise<OperationRow[]> {
  return reader
    .select()
    .from(operations)
    .where(
      and(
        sql`${operations.finishedAt} is null`,
        sql`${operations.id} in (select r.operation_id from runs r join nodes n on n.id = r.node_id where n.cluster_id = ${clusterId}::uuid and r.finished_at is null)`,
      ),
    )
    .orderBy(desc(operations.createdAt));
}

/** Failures of clean-up runs by operation, apart from the failures that caused the clean-up. */
export async function cleanUpFailures(
  reader: Reader,
  operationIds: readonly string[],
): Promise<Map<string, readonly Failure[]>> {
  if (operationIds.length === 0) return new Map();
  const rows = await reader
    .select({ operationId: runs.operationId, failure: runs.failure })
    .from(runs)
    .where(
      and(inArrayParam(runs.operationId, operationIds), eq(runs.purpose, "CLEAN_UP"), sql`${runs.failure} is not null`),
    )
    .orderBy(runs.ordinal);
  const failures = new Map<string, Failure[]>();
  for (const { operationId, failure } of rows)
    if (failure) failures.set(operationId, [...(failures.get(operationId) ?? []), failure]);
  return failures;
}
