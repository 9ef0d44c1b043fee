/** Operations: accepted requests. */
import { and, eq, sql } from "drizzle-orm";
import type { OperationState, Interrupt } from "../../lifecycle/operation-states.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { bulkInsert } from "../postgres/bulk.ts";
import { lockRowBy, lockRowsBy, rowsBy, updateBy } from "../postgres/table-queries.ts";
import type { RowChange, RowsUpdate } from "../postgres/table-queries.ts";
import type { Failure } from "../records.ts";
import type { RequestedInterrupt } from "../runs/runs.ts";
import { operationClusters, operations } from "../tables.ts";

export type OperationRow = typeof operations.$inferSelect;

export type OperationChange = RowChange<typeof operations, "id" | "revision">;

const NEW_FIELDS = [
  ...(["id", "kind", "state", "project", "actor", "reason", "clusterId", "restartOf", "restarts", "batch"] as const),
  ...(["idempotencyKey", "inputHash", "options", "onFailure", "maxParallel", "variables", "imageId"] as const),
  ...(["userDataBytes", "waves", "waveState", "groups", "totalCount"] as const),
] as const;

/** A new operation. Other columns have their defaults. */
export type NewOperation = Pick<typeof operations.$inferInsert, Exclude<(typeof NEW_FIELDS)[number], "restartOf">>;

const insertRows = bulkInsert(operations, NEW_FIELDS);

export async function insertOperations(tx: Tx, rows: readonly NewOperation[]): Promise<void> {
  await insertRows(
    tx,
    rows.map((row) => ({ ...row, restartOf: row.restarts?.[0] ?? null })),
  );
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

export const operationsByIds = rowsBy(operations, operations.id);

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
  const [actors, keys] = [wanted.map(({ actor }) => actor), wanted.map(({ key }) => key)];
  const rows = await reader
    .select({ actor: operations.actor, key: operations.idempotencyKey })
    .from(operations)
    .where(and(inArrayParam(operations.actor, actors), inArrayParam(operations.idempotencyKey, keys)));
  return new Set(rows.map(({ actor, key }) => actorKey(actor, key ?? "")));
}

export function actorKey(actor: string, key: string): string {
  return JSON.stringify([actor, key]);
}

const ofBatch = rowsBy(operations, operations.batch, { orderBy: [operations.createdAt, operations.id] });

/** The operations of one request, oldest first. */
export async function operationsOfBatch(reader: Reader, batch: string): Promise<OperationRow[]> {
  return ofBatch(reader, [batch]);
}

export const lockOperation = lockRowBy(operations, operations.id);

/** Locks operations in the order of their ids. */
export const lockOperations = lockRowsBy(operations, operations.id);

/** Locks those of the operations that no other transaction is changing. */
export const keepFreeOperations = lockRowsBy(operations, operations.id, { strength: "share", skipLocked: true });

/**
 * Unfinished operations with runs that should not wait: QUEUED ones, although a slot of `maxParallel` is free or the
 * operation is being ended, and ones that are parked without an end although a stop ends them. The transaction that
 * should have started, ended or woken them may have skipped them because they were locked, or their host group waits
 * for nodes of another operation. In any order: those that wait must not hide the others.
 */
export async function operationsOverlooked(reader: Reader, limit: number): Promise<string[]> {
  const rows = await reader.execute<{ id: string }>(sql`
    select o.id from operations o
    where o.finished_at is null and case
      when o.interrupt is not null then exists (select from runs r where r.operation_id = o.id and r.finished_at is null and r.purpose = 'WORK' and (r.state = 'QUEUED' or o.interrupt = 'STOP' and r.state in ('WAITING', 'HOLDING') and r.owner is null and r.due_at is null))
      when o.wave_state = 'HALTED' or (o.max_parallel is null and o.waves is null and o.groups is null) then false
      else exists (select from runs r where r.operation_id = o.id and r.finished_at is null and r.state = 'QUEUED' and r.wait_for is null and r.wait_reason is null and r.wave <= o.wave)
        and (o.max_parallel is null or o.max_parallel > (select count(*) from runs r where r.operation_id = o.id and r.finished_at is null and (r.state <> 'QUEUED' or r.wait_for is not null or r.wait_reason is not null)))
      end
    order by random() limit ${limit}`);
  return [...rows].map(({ id }) => id);
}

/** Changes one operation, or several in the same way. */
export const updateOperation: RowsUpdate<OperationChange> = updateBy(operations, operations.id, {
  revision: sql`${operations.revision} + 1`,
});

/**
 * Records an interrupt on an operation, now by the database's clock. `seconds`: the time that a stop leaves to steps.
 */
export async function interruptOperation(
  tx: Tx,
  id: string,
  interrupt: RequestedInterrupt,
  seconds?: number,
): Promise<void> {
  await updateOperation(tx, id, {
    ...interrupt,
    stopUntil: seconds === undefined ? null : sql`now() + make_interval(secs => ${seconds})`,
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

/** Whether a pause between two waves is over, by the database's clock. */
export async function isPauseOver(tx: Tx, id: string): Promise<boolean> {
  return (await tx.$count(operations, and(eq(operations.id, id), sql`${operations.waveUntil} <= now()`))) > 0;
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

/** Records the end of locked operations whose last runs have ended. */
export async function finishOperations(tx: Tx, ids: readonly string[], state: OperationState): Promise<void> {
  await updateOperation(tx, ids, { state, finishedAt: sql`now()` });
}

/** Records the first failure. Later ones do not replace it: operators look for the first. */
export async function noteFirstFailure(tx: Tx, id: string, failure: Failure): Promise<void> {
  await tx
    .update(operations)
    .set({ firstFailure: sql`coalesce(${operations.firstFailure}, ${JSON.stringify(failure)}::text::jsonb)` })
    .where(eq(operations.id, id));
}
