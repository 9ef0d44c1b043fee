/** How far runs are, for forecasts: the steps that have begun, by run, and the age of those that have not ended. */
import { sql } from "drizzle-orm";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader } from "../postgres/database.ts";
import { attempts } from "../tables.ts";

export interface BegunSteps {
  /** Indexes of the steps with an attempt. */
  readonly begun: ReadonlySet<number>;
  /** Of the newest attempt at the last of them, by the database's clock. */
  readonly elapsedSeconds: number;
  readonly leftSeconds: number;
}

/** The begun steps of each run; runs without one are left out. */
export async function begunSteps(reader: Reader, runIds: readonly string[]): Promise<Map<string, BegunSteps>> {
  if (runIds.length === 0) return new Map();
  const rows = await reader
    .select({
      runId: attempts.runId,
      begun: sql<number[]>`array_agg(distinct ${attempts.step})`,
      elapsedSeconds: sql<number>`extract(epoch from now() - (array_agg(${attempts.startedAt} order by ${attempts.step} desc, ${attempts.number} desc))[1])::float8`,
      leftSeconds: sql<number>`extract(epoch from (array_agg(${attempts.deadlineAt} order by ${attempts.step} desc, ${attempts.number} desc))[1] - now())::float8`,
    })
    .from(attempts)
    .where(inArrayParam(attempts.runId, runIds))
    .groupBy(attempts.runId);
  return new Map(
    rows.map(({ runId, begun, elapsedSeconds, leftSeconds }) => [
      runId,
      { begun: new Set(begun), elapsedSeconds: Math.max(0, elapsedSeconds), leftSeconds: Math.max(0, leftSeconds) },
    ]),
  );
}
