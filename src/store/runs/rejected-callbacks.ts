/** Rejected callbacks, kept with their run. */
import { asc, eq } from "drizzle-orm";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { rejectedCallbacks } from "../tables.ts";

export type RejectedCallbackKind = (typeof rejectedCallbacks.$inferSelect)["kind"];

export type RejectedCallbackRow = typeof rejectedCallbacks.$inferSelect;

/**
 * Records a rejected callback and returns the number of the run; null, without recording it, if the run has `most`
 * already.
 */
export async function recordRejectedCallback(
  tx: Tx,
  row: typeof rejectedCallbacks.$inferInsert,
  most: number,
): Promise<number | null> {
  const before = await countRejectedCallbacks(tx, row.runId);
  if (before >= most) return null;
  await tx.insert(rejectedCallbacks).values(row);
  return before + 1;
}

/** Number of recorded rejected callbacks of a run. */
export async function countRejectedCallbacks(reader: Reader, runId: string): Promise<number> {
  return reader.$count(rejectedCallbacks, eq(rejectedCallbacks.runId, runId));
}

/** Rejected callbacks of some runs, oldest first. */
export async function rejectedCallbacksOf(reader: Reader, runIds: readonly string[]): Promise<RejectedCallbackRow[]> {
  if (runIds.length === 0) return [];
  return reader
    .select()
    .from(rejectedCallbacks)
    .where(inArrayParam(rejectedCallbacks.runId, runIds))
    .orderBy(asc(rejectedCallbacks.runId), asc(rejectedCallbacks.at), asc(rejectedCallbacks.id));
}
