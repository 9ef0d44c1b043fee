/**
 * The log of changes. Triggers write rows in the transaction of a change, without a position and without a lock
 * (`change_inbox`). Once they have committed, any replica numbers them: positions have no holes, follow the order of
 * commits for each object, and no row appears at or below a position that was read.
 */
import { and, asc, eq, gt, lte, sql } from "drizzle-orm";
import type { ChangeSubject } from "./change-records.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { changePosition, changes } from "../tables.ts";
import type { CheckedCursor, LogCursor } from "./transitions.ts";

export type ChangeRow = typeof changes.$inferSelect;

/** Numbers up to `limit` changes that have committed, and returns their number. */
export async function numberChanges(database: Reader, limit: number): Promise<number> {
  // Most often there is none, and nothing is locked.
  const [row] = await database.execute<{ numbered: number }>(
    sql`select case when exists (select from change_inbox) then number_changes(${limit}) else 0 end as numbered`,
  );
  return row?.numbered ?? 0;
}

/** A position in the log of changes, with the time of the change there, which identifies the log. */
export interface ChangeCursor extends LogCursor {
  /** Distinguishes it from a cursor of the log of transitions. */
  readonly log: "CHANGES";
}

export function changeCursor({ position, at }: LogCursor): ChangeCursor {
  return { log: "CHANGES", position, at };
}

/** Cursor of the newest change. */
export async function newestChange(reader: Reader): Promise<ChangeCursor> {
  const [row] = await reader
    .select({ position: changePosition.position, at: changes.at })
    .from(changePosition)
    .leftJoin(changes, eq(changes.position, changePosition.position));
  // The row always exists. An answer without it must not be taken for an empty log.
  if (typeof row?.position !== "number") throw new Error("The position of the newest change could not be read.");
  return changeCursor(row);
}

/** The cursor at a position of the log of changes. */
export async function changeAt(reader: Reader, position: number): Promise<ChangeCursor> {
  const [row] = await reader.select({ at: changes.at }).from(changes).where(eq(changes.position, position));
  return changeCursor({ position, at: row?.at ?? null });
}

/** As `checkCursor` of the log of transitions. */
export async function checkChange(reader: Reader, { position, at }: LogCursor): Promise<CheckedCursor> {
  const [row] = await reader
    .select({
      newest: changePosition.position,
      oldest: sql<number | null>`(select min(position)::float8 from changes)`,
      at: changes.at,
    })
    .from(changePosition)
    .leftJoin(changes, eq(changes.position, position));
  if (typeof row?.newest !== "number") throw new Error("The positions of the changes could not be read.");
  const earliest = changeCursor({ position: (row.oldest ?? row.newest + 1) - 1, at: null });
  const isSame = at === null || row.at === null || row.at.getTime() === at.getTime();
  return { isValid: isSame && position >= earliest.position && position <= row.newest, earliest, newest: row.newest };
}

/** Which changes are read; absent: all. */
export interface ChangeFilter {
  readonly subjects: readonly ChangeSubject[];
  /** Changes of runs of this operation, or of this node. */
  readonly operationId?: string | undefined;
  readonly nodeId?: string | undefined;
}

/** Up to `limit` changes after a position, oldest first; up to and including `until`. */
export async function changesAfter(
  reader: Reader,
  range: { readonly after: number; readonly until?: number; readonly limit: number; readonly filter?: ChangeFilter },
): Promise<ChangeRow[]> {
  const { after, until, limit, filter } = range;
  return reader
    .select()
    .from(changes)
    .where(
      and(
        gt(changes.position, after),
        until === undefined ? undefined : lte(changes.position, until),
        filter && inArrayParam(changes.subject, filter.subjects),
        filter?.operationId === undefined ? undefined : eq(changes.operationId, filter.operationId),
        filter?.nodeId === undefined ? undefined : eq(changes.nodeId, filter.nodeId),
      ),
    )
    .orderBy(asc(changes.position))
    .limit(limit);
}

/** Deletes up to `limit` of the oldest changes that are older than `days`, and returns their number. */
export async function deleteOldChanges(tx: Tx, days: number, limit: number): Promise<number> {
  const deleted = await tx.execute(sql`
    with oldest as (select position, at < now() - make_interval(days => ${days}) as old from changes order by position limit ${limit}),
         kept as (select min(position) as position from oldest where not old)
    delete from changes using kept where changes.position in (select position from oldest) and (kept.position is null or changes.position < kept.position)
    returning 1`);
  return deleted.length;
}
