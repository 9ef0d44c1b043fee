/** Rejected callbacks, kept with their run. */
import { eq } from "drizzle-orm";
import type { Reader, Tx } from "../postgres/database.ts";
import { rowsBy } from "../postgres/table-queries.ts";
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
export const rejectedCallbacksOf = rowsBy(rejectedCallbacks, rejectedCallbacks.runId, {
  orderBy: [rejectedCallbacks.runId, rejectedCallbacks.at, rejectedCallbacks.id],
});
