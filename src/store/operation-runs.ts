/** The runs of one operation, by how far they are: what waves, failure policies and interrupts ask. */
import { and, asc, eq, gt, inArray, isNull, lte, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { Reader, Tx } from "./postgres/database.ts";
import type { RunRow } from "./runs.ts";
import { runs } from "./tables.ts";

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
    .where(workOf(operationId, QUEUED, eq(runs.waitReason, "CONCURRENCY")))
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
  return exists(tx, workOf(operationId, lte(runs.wave, wave), isNull(runs.finishedAt)));
}

/** Whether a run of the operation's work is QUEUED. */
export async function hasQueued(tx: Tx, operationId: string): Promise<boolean> {
  return exists(tx, workOf(operationId, QUEUED));
}

/** The first wave after `wave` with a QUEUED run; null if there is none. */
export async function nextQueuedWave(tx: Tx, operationId: string, after: number): Promise<number | null> {
  const [row] = await tx
    .select({ wave: sql<number | null>`min(${runs.wave})::int` })
    .from(runs)
    .where(workOf(operationId, QUEUED, gt(runs.wave, after)));
  return row?.wave ?? null;
}

/** Failed runs of an operation's work. */
export async function countFailed(reader: Reader, operationId: string): Promise<number> {
  return reader.$count(runs, workOf(operationId, eq(runs.state, "FAILED")));
}

/** Parked runs of an operation's work. */
export async function parkedRuns(tx: Tx, operationId: string): Promise<RunRow[]> {
  return tx
    .select()
    .from(runs)
    .where(workOf(operationId, inArray(runs.state, ["WAITING", "HOLDING"])));
}

/** Number of unfinished runs of an operation. */
export async function countUnfinished(tx: Tx, operationId: string): Promise<number> {
  return tx.$count(runs, and(eq(runs.operationId, operationId), isNull(runs.finishedAt)));
}

/** A run that has not started. The index of unfinished runs serves the condition. */
const QUEUED = and(eq(runs.state, "QUEUED"), isNull(runs.finishedAt));

/** The operation's work, without its clean-ups. */
function workOf(operationId: string, ...conditions: readonly (SQL | undefined)[]): SQL | undefined {
  return and(eq(runs.operationId, operationId), eq(runs.purpose, "WORK"), ...conditions);
}

async function exists(tx: Tx, where: SQL | undefined): Promise<boolean> {
  const found = await tx.select({ id: runs.id }).from(runs).where(where).limit(1);
  return found.length > 0;
}
