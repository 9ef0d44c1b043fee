/** Call-backs that were not taken, kept with their run. */
import { asc, eq } from "drizzle-orm";
import { inArrayParam } from "./postgres/array-parameter.ts";
import type { Reader, Tx } from "./postgres/database.ts";
import { anomalies } from "./tables.ts";

/** Why a call-back was not taken. */
export type Anomaly = (typeof anomalies.$inferSelect)["kind"];

export type AnomalyRow = typeof anomalies.$inferSelect;

/** Records a call-back that was not taken, and answers how many the run has then; null, and nothing is recorded, when it has `most` of them already. */
export async function noteAnomaly(tx: Tx, row: typeof anomalies.$inferInsert, most: number): Promise<number | null> {
  const before = await tx.$count(anomalies, eq(anomalies.runId, row.runId));
  if (before >= most) return null;
  await tx.insert(anomalies).values(row);
  return before + 1;
}

/** Call-backs to some runs that were not taken, oldest first. */
export async function anomaliesOf(reader: Reader, runIds: readonly string[]): Promise<AnomalyRow[]> {
  if (runIds.length === 0) return [];
  return reader
    .select()
    .from(anomalies)
    .where(inArrayParam(anomalies.runId, runIds))
    .orderBy(asc(anomalies.runId), asc(anomalies.at), asc(anomalies.id));
}
