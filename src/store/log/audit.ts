/**
 * The audit: one row for each mutation, denial, failed login, start and command. A row is written in the transaction of
 * its effect. Once that has committed, any replica numbers the row, as it does for changes (changes.ts).
 */
import { and, eq, inArray, isNotNull, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { inArrayParam, textArray } from "../postgres/array-parameter.ts";
import { bulkInsert } from "../postgres/bulk.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { listOf, numbered } from "../postgres/pagination.ts";
import type { NumberedRequest, Page } from "../postgres/pagination.ts";
import { audit, auditPosition } from "../tables.ts";
import type { AuditOutcome } from "./audit-records.ts";
import { positionBefore } from "./log-times.ts";
import { deleteOldRows, newestCursor, rowsInRange } from "./transitions.ts";
import type { LogCursor, LogRange, LogTables } from "./transitions.ts";

type StoredRow = typeof audit.$inferSelect;

/** A row that has its position. */
export type AuditRow = StoredRow & { readonly position: number };

/** A row without its position and time. */
export type NewAuditRow = Omit<StoredRow, "id" | "position" | "at">;

export const insertAuditRows = bulkInsert(audit, [
  ...(["subject", "displayName", "credential", "address", "transport", "requestId", "document"] as const),
  ...(["action", "targets", "targetCount", "operationId", "outcome", "code", "reason"] as const),
  ...(["change", "projects"] as const),
]);

/** Numbers up to `limit` rows that have committed, and returns their number. */
export async function numberAudit(reader: Reader, limit: number): Promise<number> {
  // Most often there is none, and nothing is locked.
  const [row] = await reader.execute<{ numbered: number }>(
    sql`select case when exists (select from audit where position is null) then number_audit(${limit}) else 0 end as numbered`,
  );
  return row?.numbered ?? 0;
}

export const AUDIT_LOG: LogTables = { head: auditPosition, rows: audit };

/** A position in the audit, with the time of the row there. */
export interface AuditCursor extends LogCursor {
  /** Distinguishes it from cursors of the other logs. */
  readonly log: "AUDIT";
}

export function auditCursor({ position, at }: LogCursor): AuditCursor {
  return { log: "AUDIT", position, at };
}

/** Cursor of the newest row. */
export async function newestAudit(reader: Reader): Promise<AuditCursor> {
  return auditCursor(await newestCursor(reader, AUDIT_LOG));
}

/** Which rows are read; absent members: all. */
export interface AuditFilter {
  readonly subjects?: readonly string[] | undefined;
  readonly actions?: readonly string[] | undefined;
  readonly outcomes?: readonly AuditOutcome[] | undefined;
  /** One of their targets has this name. */
  readonly target?: string | undefined;
  readonly operationId?: string | undefined;
  readonly requestId?: string | undefined;
  readonly address?: string | undefined;
  /** At this time or later. */
  readonly since?: Date | undefined;
  /** Before this time. */
  readonly until?: Date | undefined;
}

export async function auditAfter(reader: Reader, range: LogRange<AuditFilter>): Promise<AuditRow[]> {
  return (await rowsInRange(reader, audit, range, range.filter && condition(range.filter))).filter(isNumbered);
}

const { page, count } = listOf(audit, condition, numbered(audit.position));

export const countAudit = count;

export async function auditPage(
  reader: Reader,
  filter: AuditFilter,
  request: NumberedRequest,
): Promise<Page<AuditRow>> {
  const found = await page(reader, filter, request);
  return { ...found, rows: found.rows.filter(isNumbered) };
}

/** Deletes old rows as `deleteOldRows` does. The database refuses any other deletion. */
export async function deleteOldAudit(
  tx: Tx,
  range: { readonly days: number; readonly limit: number },
): Promise<number> {
  await tx.execute(sql`select set_config('ostler.deletes_old_audit', 'on', true)`);
  return deleteOldRows(tx, range, AUDIT_LOG);
}

function isNumbered(row: StoredRow): row is AuditRow {
  return row.position !== null;
}

function condition(filter: AuditFilter): SQL | undefined {
  const { subjects, actions, outcomes, target, operationId, requestId, address, since, until } = filter;
  return and(
    isNotNull(audit.position),
    subjects && inArrayParam(audit.subject, subjects),
    actions && inArrayParam(audit.action, actions),
    outcomes && inArray(audit.outcome, [...outcomes]),
    target === undefined ? undefined : sql`${audit.targets} @> ${textArray([target])}::text[]`,
    operationId === undefined ? undefined : eq(audit.operationId, operationId),
    requestId === undefined ? undefined : eq(audit.requestId, requestId),
    address === undefined ? undefined : eq(audit.address, address),
    // By positions, which have an index.
    since && sql`${audit.position} > ${positionBefore(since, "audit")}`,
    until && sql`${audit.position} <= ${positionBefore(until, "audit")}`,
  );
}
