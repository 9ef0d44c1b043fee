/**
 * The log of changes. Triggers write rows in the transaction of a change, without a position and without a lock
 * (`change_inbox`). Once they have committed, any replica numbers them: positions have no holes, follow the order of
 * commits for each object, and no row appears at or below a position that was read.
 */
import { and, eq, sql } from "drizzle-orm";
import type { ChangeSubject } from "./change-records.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { changePosition, changes } from "../tables.ts";
import { newestCursor, rowsInRange } from "./transitions.ts";
import type { LogCursor, LogRange, LogTables } from "./transitions.ts";

export type ChangeRow = typeof changes.$inferSelect;

/** Numbers up to `limit` changes that have committed, and returns their number. */
export async function numberChanges(database: Reader, limit: number): Promise<number> {
  // Most often there is none, and nothing is locked.
  const [row] = await database.execute<{ numbered: number }>(
    sql`select case when exists (select from change_inbox) then number_changes(${limit}) else 0 end as numbered`,
  );
  return row?.numbered ?? 0;
}

/** Records that pending changes may have changed: of the clusters with an image, or of all. */
export async function recordPendingChanges(tx: Tx, imageId?: string): Promise<void> {
  await tx.execute(sql`
    insert into change_inbox (subject, subject_id, event, fields)
    select 'CLUSTER', id, 'CHANGED', array['PENDING_CHANGES'] from clusters where ${imageId ?? null}::uuid is null or image_id = ${imageId ?? null}::uuid`);
}

/** A position in the log of changes, with the time of the change there, which identifies the log. */
export interface ChangeCursor extends LogCursor {
  /** Distinguishes it from a cursor of the log of transitions. */
  readonly log: "CHANGES";
}

export function changeCursor({ position, at }: LogCursor): ChangeCursor {
  return { log: "CHANGES", position, at };
}

export const CHANGE_LOG: LogTables = { head: changePosition, rows: changes };

/** Cursor of the newest change. */
export async function newestChange(reader: Reader): Promise<ChangeCursor> {
  return changeCursor(await newestCursor(reader, CHANGE_LOG));
}

/** Which changes are read; absent: all. */
export interface ChangeFilter {
  readonly subjects: readonly ChangeSubject[];
  /** Changes of runs of this operation, or of this node. */
  readonly operationId?: string | undefined;
  readonly nodeId?: string | undefined;
}

export async function changesAfter(reader: Reader, range: LogRange<ChangeFilter>): Promise<ChangeRow[]> {
  const { filter } = range;
  const matching = and(
    filter && inArrayParam(changes.subject, filter.subjects),
    filter?.operationId === undefined ? undefined : eq(changes.operationId, filter.operationId),
    filter?.nodeId === undefined ? undefined : eq(changes.nodeId, filter.nodeId),
  );
  return rowsInRange(reader, changes, range, matching);
}
