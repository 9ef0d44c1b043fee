/** Rejected callbacks, kept with their run. */
import { asc, eq } from "drizzle-orm";
import { inArrayParam } from "./postgres/array-parameter.ts";
import type { Reader, Tx } from "./postgres/database.ts";
import { anomalies } from "./tables.ts";

export type Anomaly = (typeof anomalies.$inferSelect)["kind"];

export type AnomalyRow = typeof anomalies.$inferSelect;

/**
 * Records a rejected callback and returns the number of the run; null, without recording it, if the run has `most`
 * already.
 */
export async function noteAnomaly(tx: Tx, row: typeof anomalies.$inferInsert, most: number): Promise<number | null> {
  const before = await countAnomalies(tx, row.runId);
  if (before >= most) return null;
  await tx.insert(anomalies).values(row);
  return before + 1;
}

/** Number of recorded rejected callbacks of a run. */
export async function countAnomalies(reader: Reader, runId: string): Promise<number> {
  return reader.$count(anomalies, eq(anomalies.runId, runId));
}

/** Rejected callbacks of some runs, oldest first. */
export async function anomaliesOf(reader: Reader, runIds: readonly string[]): Promise<AnomalyRow[]> {
  if (runIds.length === 0) return [];
  return reader
    .select()
    .from(anomalies)
    .where(inArrayParam(anomalies.runId, runIds))
    .orderBy(asc(anomalies.runId), asc(anomalies.at), asc(anomalies.id));
}
