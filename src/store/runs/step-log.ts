/** Log lines of drivers, numbered per run from 1 without holes. Only the worker that claimed the run writes. */
import { and, asc, desc, eq, gt, sql } from "drizzle-orm";
import type { Reader, Tx } from "../postgres/database.ts";
import { bulkInsert } from "../postgres/bulk.ts";
import { listsBelow, numbered } from "../postgres/pagination.ts";
import { newestRow } from "../postgres/table-queries.ts";
import { stepLog } from "../tables.ts";

export type StepLogRow = typeof stepLog.$inferSelect;

/** The attempt that a line belongs to. */
export type LoggedAttempt = Pick<StepLogRow, "runId" | "step" | "attempt">;

/** An attempt's part of the log. */
export interface LogShare {
  /** Number of the run's newest line; 0 if it has none. */
  readonly newest: number;
  readonly lines: number;
  readonly bytes: number;
  /** The attempt's line that states how many lines were dropped; null if none was. */
  readonly notice: { readonly sequence: number; readonly dropped: number } | null;
}

/** The part of the run's newest attempt, of which at most `most` lines are counted. */
export async function logShare(tx: Tx, { runId, step, attempt }: LoggedAttempt, most: number): Promise<LogShare> {
  const newest = tx
    .$with("newest")
    .as(tx.select().from(stepLog).where(eq(stepLog.runId, runId)).orderBy(desc(stepLog.sequence)).limit(most));
  const own = sql`${newest.step} = ${step} and ${newest.attempt} = ${attempt}`;
  const [row] = await tx
    .with(newest)
    .select({
      newest: sql<number>`coalesce(max(${newest.sequence}), 0)`,
      lines: sql<number>`(count(*) filter (where ${own}))::int`,
      bytes: sql<number>`coalesce(sum(octet_length(${newest.text})) filter (where ${own}), 0)::int`,
      noticeSequence: sql<
        number | null
      >`max(${newest.sequence}) filter (where ${own} and ${newest.dropped} is not null)`,
      dropped: sql<number | null>`max(${newest.dropped}) filter (where ${own})`,
    })
    .from(newest);
  if (!row) return { newest: 0, lines: 0, bytes: 0, notice: null };
  const { noticeSequence, dropped, ...share } = row;
  return {
    ...share,
    notice: noticeSequence === null || dropped === null ? null : { sequence: noticeSequence, dropped },
  };
}

export const appendLines = bulkInsert(stepLog, ["runId", "sequence", "step", "attempt", "at", "text", "dropped"]);

/** Replaces the text of a notice and the number that it states. */
export async function rewriteNotice(
  tx: Tx,
  { runId, sequence, text, dropped }: Pick<StepLogRow, "runId" | "sequence" | "text" | "dropped">,
): Promise<void> {
  await tx
    .update(stepLog)
    .set({ text, dropped })
    .where(and(eq(stepLog.runId, runId), eq(stepLog.sequence, sequence)));
}

/** The newest lines of some steps over all their attempts, per step, oldest first. */
export async function logTails(
  reader: Reader,
  steps: readonly { readonly runId: string; readonly step: number; readonly tail: number }[],
): Promise<StepLogRow[][]> {
  if (steps.length === 0) return [];
  const wanted = JSON.stringify(
    steps.map(({ runId, step, tail }, ordinal) => ({ ordinal, run_id: runId, step, tail })),
  );
  const rows = await reader.execute<Omit<StepLogRow, "runId" | "step" | "at"> & { ordinal: number; at: string }>(sql`
    select wanted.ordinal, line.sequence, line.attempt, line.at::text as at, line.text, line.dropped
    from jsonb_to_recordset(${wanted}::text::jsonb) as wanted(ordinal int, run_id uuid, step int, tail int)
    cross join lateral (
      select l.sequence, l.attempt, l.at, l.text, l.dropped from step_log l
      where l.run_id = wanted.run_id and l.step = wanted.step order by l.sequence desc limit wanted.tail
    ) line
    order by wanted.ordinal, line.sequence`);
  const tails = Map.groupBy(rows, ({ ordinal }) => ordinal);
  return steps.map(({ runId, step }, index) =>
    (tails.get(index) ?? []).map(({ sequence, attempt, at, text, dropped }) => ({
      runId,
      step,
      sequence,
      attempt,
      at: new Date(at),
      text,
      dropped,
    })),
  );
}

/** Pages of each run's log, and the number of its lines. */
export const { pages: logPages, counts: lineCounts } = listsBelow(stepLog, stepLog.runId, numbered(stepLog.sequence));

/** Lines of a run after one of them, oldest first. */
export async function linesAfter(reader: Reader, runId: string, after: number, limit: number): Promise<StepLogRow[]> {
  return reader
    .select()
    .from(stepLog)
    .where(and(eq(stepLog.runId, runId), gt(stepLog.sequence, after)))
    .orderBy(asc(stepLog.sequence))
    .limit(limit);
}

/** Number of a run's newest line; 0 if it has none. */
export async function newestLine(reader: Reader, runId: string): Promise<number> {
  return (await newestRow(reader, stepLog, eq(stepLog.runId, runId), [stepLog.sequence]))?.sequence ?? 0;
}
