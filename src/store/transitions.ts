/** The log of state changes: written by the last statement of a transaction, read by position. */
import { and, asc, desc, eq, gt, lt, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { PgColumn } from "drizzle-orm/pg-core";
import { inArrayParam } from "./postgres/array-parameter.ts";
import type { Reader, Tx } from "./postgres/database.ts";
import { cutNumbered, numberedClauses, pagesOf, rowsBelow } from "./postgres/pagination.ts";
import type { NumberedRequest, Page } from "./postgres/pagination.ts";
import { feedPosition, transitions } from "./tables.ts";

export type TransitionRow = typeof transitions.$inferSelect;

/** A transition without its position and time. */
export type NewTransition = Omit<TransitionRow, "position" | "at">;

/**
 * Appends rows in order. Must be the last statement before the commit: it locks the one row that positions are
 * allocated from, so positions follow the order of commits without holes. Once a reader has seen position p, no new row
 * appears at or below it.
 */
export async function appendTransitions(tx: Tx, rows: readonly NewTransition[]): Promise<void> {
  const json = JSON.stringify(rows.map((row, index) => ({ ...row, ord: index + 1 })));
  await tx.execute(sql`
    with drawn as (update feed_position set position = position + ${rows.length} returning position)
    insert into transitions (position, node_id, node_name, project, from_state, to_state, event, sequence, node_revision,
                             target, operation_id, run_id, step, actor, reason, at)
    select drawn.position - ${rows.length} + r.ord, r."nodeId", r."nodeName", r.project, r."fromState", r."toState", r.event,
           r.sequence, r."nodeRevision", r.target, r."operationId", r."runId", r.step, r.actor, r.reason, clock_timestamp()
    from drawn, json_to_recordset(${json}::text::json) as r(
      ord bigint, "nodeId" uuid, "nodeName" text, project text, "fromState" text, "toState" text, event text, sequence int,
      "nodeRevision" int, target text, "operationId" uuid, "runId" uuid, step text, actor text, reason text)`);
}

/** Position of the newest transition; 0 if there is none. */
export async function newestPosition(reader: Reader): Promise<number> {
  const [row] = await reader.select({ position: feedPosition.position }).from(feedPosition);
  // The row always exists. An answer without it must not be taken for an empty log.
  if (typeof row?.position !== "number") throw new Error("The position of the newest transition could not be read.");
  return row.position;
}

/** Position of the oldest transition that is kept; one past the newest if none is. */
export async function oldestPosition(reader: Reader): Promise<number> {
  const [row] = await reader
    .select({ position: transitions.position })
    .from(transitions)
    .orderBy(asc(transitions.position))
    .limit(1);
  return row?.position ?? (await newestPosition(reader)) + 1;
}

/**
 * Deletes up to `limit` of the oldest transitions that are older than `days`, and returns their number. The rest is
 * always the newest part of the log without a hole, whatever the clock did while it was written.
 */
export async function deleteOldTransitions(tx: Tx, days: number, limit: number): Promise<number> {
  const deleted = await tx.execute(sql`
    with oldest as (select position, at < now() - make_interval(days => ${days}) as old from transitions order by position limit ${limit}),
         kept as (select min(position) as position from oldest where not old)
    delete from transitions using kept where transitions.position in (select position from oldest) and (kept.position is null or transitions.position < kept.position)
    returning 1`);
  return deleted.length;
}

/** Transitions of nodes (by a condition on `nodes`, or by ID), or of an operation. */
export interface TransitionFilter {
  readonly nodeIds?: readonly string[];
  readonly operationId?: string;
  /** Condition on the nodes as they are now. */
  readonly nodes?: SQL | undefined;
}

/** Up to `limit` transitions after a position, oldest first; up to and including `until`. */
export async function transitionsAfter(
  reader: Reader,
  range: {
    readonly after: number;
    readonly until?: number;
    readonly limit: number;
    readonly filter?: TransitionFilter;
  },
): Promise<TransitionRow[]> {
  return reader
    .select()
    .from(transitions)
    .where(
      and(
        gt(transitions.position, range.after),
        range.until === undefined ? undefined : sql`${transitions.position} <= ${range.until}`,
        condition(range.filter),
      ),
    )
    .orderBy(asc(transitions.position))
    .limit(range.limit);
}

/** Up to `limit` transitions before a position, newest first. */
export async function transitionsBefore(
  reader: Reader,
  range: { readonly before: number | null; readonly limit: number; readonly filter?: TransitionFilter },
): Promise<TransitionRow[]> {
  return reader
    .select()
    .from(transitions)
    .where(and(range.before === null ? undefined : lt(transitions.position, range.before), condition(range.filter)))
    .orderBy(desc(transitions.position))
    .limit(range.limit);
}

/** A page of each node's transitions, by position. */
export async function transitionsOfNodes(
  reader: Reader,
  nodeIds: readonly string[],
  request: NumberedRequest,
): Promise<Map<string, Page<TransitionRow>>> {
  return transitionsBelow(reader, transitions.nodeId, nodeIds, request);
}

/** A page of the transitions that each operation caused, by position. */
export async function transitionsOfOperations(
  reader: Reader,
  operationIds: readonly string[],
  request: NumberedRequest,
): Promise<Map<string, Page<TransitionRow>>> {
  return transitionsBelow(reader, transitions.operationId, operationIds, request);
}

async function transitionsBelow(
  reader: Reader,
  column: PgColumn,
  parents: readonly string[],
  request: NumberedRequest,
): Promise<Map<string, Page<TransitionRow>>> {
  const { where, orderBy } = numberedClauses(request, transitions.position);
  const rows = await rowsBelow(reader, transitions, parents, {
    below: (parent) => and(sql`${column} = ${parent}`, where),
    orderBy,
    limit: request.limit + 1,
  });
  return pagesOf(rows, (found) => cutNumbered(found, request));
}

function condition(filter: TransitionFilter | undefined): SQL | undefined {
  if (!filter) return undefined;
  return and(
    filter.nodeIds && inArrayParam(transitions.nodeId, filter.nodeIds),
    filter.operationId === undefined ? undefined : eq(transitions.operationId, filter.operationId),
    filter.nodes && sql`${transitions.nodeId} in (select id from nodes where ${filter.nodes})`,
  );
}
