/** The log of state changes: written by the last statement of a transaction, read by position. */
import { and, asc, eq, gt, lte, sql } from "drizzle-orm";
import type { InferSelectModel, SQL } from "drizzle-orm";
import type { PgColumn, PgTable } from "drizzle-orm/pg-core";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import { positionBefore } from "./log-times.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { instantText, listOf, listsBelow, numbered } from "../postgres/pagination.ts";
import { containsText } from "../postgres/text-pattern.ts";
import { feedPosition, operations, transitions } from "../tables.ts";
import type { audit, auditPosition, changePosition, changes } from "../tables.ts";

export type TransitionRow = typeof transitions.$inferSelect;

/** A transition without its position and time. */
export type NewTransition = Omit<TransitionRow, "position" | "at">;

/**
 * How long a transaction may hold the lock on the position without committing. A replica that is suspended there would
 * block the transitions of all replicas; the server ends its session instead, which rolls the transaction back.
 */
const COMMIT_MS = 5_000;

/**
 * Appends rows in order. Must be the last statement before the commit: it locks the one row that positions are
 * allocated from, so positions follow the order of commits without holes. Once a reader has seen position p, no new row
 * appears at or below it.
 */
export async function appendTransitions(tx: Tx, rows: readonly NewTransition[]): Promise<void> {
  const json = JSON.stringify(rows.map((row, index) => ({ ...row, ord: index + 1 })));
  await tx.execute(sql`
    with bound as materialized (select set_config('idle_in_transaction_session_timeout', ${String(COMMIT_MS)}, true)),
         drawn as (update feed_position set position = position + ${rows.length} returning position)
    insert into transitions (position, node_id, node_name, project, from_state, to_state, event, sequence, node_revision,
                             target, operation_id, run_id, step, actor, reason, at)
    select drawn.position - ${rows.length} + r.ord, r."nodeId", r."nodeName", r.project, r."fromState", r."toState", r.event,
           r.sequence, r."nodeRevision", r.target, r."operationId", r."runId", r.step, r.actor, r.reason, clock_timestamp()
    from bound, drawn, json_to_recordset(${json}::text::json) as r(
      ord bigint, "nodeId" uuid, "nodeName" text, project text, "fromState" text, "toState" text, event text, sequence int,
      "nodeRevision" int, target text, "operationId" uuid, "runId" uuid, step text, actor text, reason text)`);
}

/**
 * A position in the log, and the commit time of the transition there, which identifies the log: one that was restored
 * from a backup assigns positions again, at other times. `at` is null before the first transition, and where the
 * transition is deleted.
 */
export interface LogCursor {
  readonly position: number;
  readonly at: Date | null;
}

/** Before the first transition. */
export const BEFORE_FIRST: LogCursor = { position: 0, at: null };

/** The tables of a log: its rows, and the one row with the position of the newest. */
export interface LogTables {
  readonly head: typeof feedPosition | typeof changePosition | typeof auditPosition;
  readonly rows: typeof transitions | typeof changes | typeof audit;
}

const TRANSITION_LOG: LogTables = { head: feedPosition, rows: transitions };

/** Cursor of the newest row, a transition by default. */
export async function newestCursor(reader: Reader, { head, rows }: LogTables = TRANSITION_LOG): Promise<LogCursor> {
  const [row] = await reader
    .select({ position: head.position, at: rows.at })
    .from(head)
    .leftJoin(rows, eq(rows.position, head.position));
  // The row always exists. An answer without it must not be taken for an empty log.
  if (typeof row?.position !== "number") throw new Error("The newest position of the log could not be read.");
  return row;
}

/** The cursor at a position. */
export async function cursorAt(reader: Reader, position: number, { rows } = TRANSITION_LOG): Promise<LogCursor> {
  const [row] = await reader.select({ at: rows.at }).from(rows).where(eq(rows.position, position));
  return { position, at: row?.at ?? null };
}

interface CheckedCursor {
  /** The cursor is from this log, and everything after it is kept. */
  readonly isValid: boolean;
  /** The earliest cursor after which everything is kept. */
  readonly earliest: LogCursor;
  /** Position of the newest row. */
  readonly newest: number;
}

/**
 * Checks a cursor; one whose row is deleted by its position alone. In one statement: between two, an empty log receives
 * its first rows, and they would look deleted.
 */
export async function checkCursor(
  reader: Reader,
  { position, at }: LogCursor,
  { head, rows }: LogTables = TRANSITION_LOG,
): Promise<CheckedCursor> {
  const [row] = await reader
    .select({
      newest: head.position,
      oldest: sql<number | null>`(select min(position)::float8 from ${rows})`,
      at: rows.at,
    })
    .from(head)
    .leftJoin(rows, eq(rows.position, position));
  if (typeof row?.newest !== "number") throw new Error("The positions of the log could not be read.");
  const earliest = { position: (row.oldest ?? row.newest + 1) - 1, at: null };
  const isSame = at === null || row.at === null || row.at.getTime() === at.getTime();
  return { isValid: isSame && position >= earliest.position && position <= row.newest, earliest, newest: row.newest };
}

/** SQL of the cursor at a position of the log of transitions, as the columns `position` and `at`. */
export function cursorColumns(position: SQL | PgColumn): SQL {
  return sql`${position}::float8 as position, (select ${instantText(transitions.at)} from ${transitions} where ${transitions.position} = ${position}) as at`;
}

/** The row of `cursorColumns`. */
export interface CursorRow {
  readonly position: number;
  readonly at: string | null;
}

export function cursorOfRow({ position, at }: CursorRow): LogCursor {
  return { position, at: at === null ? null : new Date(at) };
}

/** The place of a time in the log. */
export interface CursorOfTime {
  /** After it come the transitions at the time or later that are kept. */
  readonly cursor: LogCursor;
  /** Whether no such transition is deleted, as far as the kept ones prove it. */
  readonly isComplete: boolean;
  /** By the clock of the database. */
  readonly now: Date;
  /** Time of the oldest transition that is kept; null if there is none. */
  readonly oldest: Date | null;
}

/** The cursor before the first transition at a time or later; the newest one if there is none. */
export async function cursorBefore(reader: Reader, time: Date): Promise<CursorOfTime> {
  const [row] = await reader.execute<CursorRow & { now: string; oldest: string | null } & Record<string, unknown>>(sql`
    with before as materialized (select ${positionBefore(time)} as position)
    select ${cursorColumns(sql`before.position`)}, ${instantText(sql`clock_timestamp()`)} as now,
      (select ${instantText(transitions.at)} from ${transitions} order by ${transitions.position} limit 1) as oldest
    from before`);
  if (typeof row?.position !== "number") throw new Error("The positions of the log could not be read.");
  const { now, oldest } = row;
  return {
    cursor: cursorOfRow(row),
    isComplete: row.at !== null || row.position === 0,
    now: new Date(now),
    oldest: oldest === null ? null : new Date(oldest),
  };
}

/**
 * Deletes up to `limit` of the oldest rows of a log that are older than `days`, and returns their number. The rest is
 * always the newest part of the log without a hole, whatever the clock did while it was written.
 */
export async function deleteOldRows(
  tx: Tx,
  { days, limit }: { readonly days: number; readonly limit: number },
  { rows } = TRANSITION_LOG,
): Promise<number> {
  const deleted = await tx.execute(sql`
    with oldest as (select position, at < now() - make_interval(days => ${days}) as old from ${rows} order by position limit ${limit}),
         kept as (select min(position) as position from oldest where not old)
    delete from ${rows} using kept where ${rows.position} in (select position from oldest) and (kept.position is null or ${rows.position} < kept.position)
    returning 1`);
  return deleted.length;
}

/** Transitions by their nodes (by a condition on `nodes`, or by ID), and by what the log says. */
export interface TransitionFilter {
  readonly nodeIds?: readonly string[] | undefined;
  readonly operationId?: string | undefined;
  /** Condition on the nodes as they are now. */
  readonly nodes?: SQL | undefined;
  readonly actors?: readonly string[] | undefined;
  readonly events?: readonly TransitionRow["event"][] | undefined;
  /** Caused by an operation of one of these kinds. */
  readonly kinds?: readonly OperationKind[] | undefined;
  /** In the name of the node, the step or the reason, ignoring case. */
  readonly text?: string | undefined;
  /** At this time or later. */
  readonly since?: Date | undefined;
  /** Before this time. */
  readonly until?: Date | undefined;
}

/** A part of a log, oldest first: up to `limit` rows after a position, up to and including `until`. */
export interface LogRange<Filter> {
  readonly after: number;
  readonly until?: number;
  readonly limit: number;
  readonly filter?: Filter | undefined;
}

/** The rows of a part of a log that match. */
export async function rowsInRange<Rows extends LogTables["rows"]>(
  reader: Reader,
  rows: Rows,
  { after, until, limit }: LogRange<unknown>,
  matching: SQL | undefined,
): Promise<InferSelectModel<Rows>[]> {
  const { position } = rows;
  const found = await reader
    .select()
    .from<PgTable>(rows)
    .where(and(gt(position, after), until === undefined ? undefined : lte(position, until), matching))
    .orderBy(asc(position))
    .limit(limit);
  return found as InferSelectModel<Rows>[];
}

export async function transitionsAfter(reader: Reader, range: LogRange<TransitionFilter>): Promise<TransitionRow[]> {
  return rowsInRange(reader, transitions, range, condition(range.filter));
}

const byPosition = numbered(transitions.position);

export const { page: transitionsPage, count: countTransitions } = listOf(transitions, condition, byPosition);

/** Pages of each node's transitions, by position, and their number. */
export const { pages: transitionsOfNodes, counts: transitionCountsOfNodes } = listsBelow(
  transitions,
  transitions.nodeId,
  byPosition,
);

/** Pages of the transitions that each operation caused, by position, and their number. */
export const { pages: transitionsOfOperations, counts: transitionCountsOfOperations } = listsBelow(
  transitions,
  transitions.operationId,
  byPosition,
);

function condition(filter: TransitionFilter | undefined): SQL | undefined {
  if (!filter) return undefined;
  return and(
    filter.nodeIds && inArrayParam(transitions.nodeId, filter.nodeIds),
    filter.operationId === undefined ? undefined : eq(transitions.operationId, filter.operationId),
    filter.nodes && sql`${transitions.nodeId} in (select id from nodes where ${filter.nodes})`,
    filter.actors && inArrayParam(transitions.actor, filter.actors),
    filter.events && inArrayParam(transitions.event, filter.events),
    filter.kinds &&
      sql`${transitions.operationId} in (select ${operations.id} from ${operations} where ${inArrayParam(operations.kind, filter.kinds)})`,
    filter.text === undefined
      ? undefined
      : containsText([transitions.nodeName, transitions.step, transitions.reason], filter.text),
    // By positions, which have an index.
    filter.since && sql`${transitions.position} > ${positionBefore(filter.since)}`,
    filter.until && sql`${transitions.position} <= ${positionBefore(filter.until)}`,
  );
}
