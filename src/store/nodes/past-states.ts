/**
 * The states of the fleet as of a position of the log, by undoing the transitions after it: a node was in the state
 * from which the first of them took it. A node without one was in its present state; one whose first is its
 * registration did not exist. Nothing but states is in the log, so nothing else can be read of the past.
 */
import { sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { NodeState } from "../../lifecycle/node-states.ts";
import { textArray } from "../postgres/array-parameter.ts";
import type { Reader } from "../postgres/database.ts";
import { cutPage, instantText, ordered } from "../postgres/pagination.ts";
import type { Page, PageRequest } from "../postgres/pagination.ts";
import { nodeCondition } from "./node-filter.ts";
import type { NodeFilter } from "./node-filter.ts";
import { keyOfName, nodes } from "../tables.ts";
import { cursorBefore } from "../log/transitions.ts";
import type { CursorOfTime } from "../log/transitions.ts";

export interface PastStates {
  /** Position of the last transition that is not undone. */
  readonly position: number;
  /** In one of these states then. */
  readonly states: readonly NodeState[] | undefined;
  /** Condition on the nodes as they are now; deleted nodes match none. */
  readonly filter: NodeFilter | undefined;
}

export interface PastNode {
  readonly id: string;
  /** The present name, or the one at the deletion: the log has no renames. */
  readonly name: string;
  readonly state: NodeState;
  /** RFC 3339, UTC: the time of the first transition that was undone; null if there is none. */
  readonly until: string | null;
}

/** SQL of the relation `past`: all nodes that existed then. */
function pastNodes({ position, filter, states }: PastStates): SQL {
  const condition = nodeCondition(filter);
  const wanted = states ? sql`state = any(${textArray(states)}::text[])` : sql`true`;
  const deleted = sql`
    union all
    select gone.node_id, gone.node_name, undone.from_state, undone.at
    from transitions gone join undone using (node_id)
    where gone.position > ${position} and gone.event = 'delete' and undone.from_state is not null`;
  return sql`
    undone as materialized (
      select distinct on (node_id) node_id, from_state, at from transitions where position > ${position} order by node_id, position
    ), existing as materialized (
      select ${nodes.id} as id, ${nodes.name} as name, case when undone.node_id is null then ${nodes.state} else undone.from_state end as state, undone.at as until
      from ${nodes} left join undone on undone.node_id = ${nodes.id}
      where (undone.node_id is null or undone.from_state is not null) and (${condition ?? sql`true`})
      ${condition ? sql`` : deleted}
    ), past as (select id, name, state, until from existing where ${wanted})`;
}

const byName = ordered({ column: keyOfName(sql`past.name`), id: sql`past.id` });

/** A page of the nodes with their states then, by name. */
export async function pastNodesPage(reader: Reader, request: PastStates, page: PageRequest): Promise<Page<PastNode>> {
  const { where, orderBy } = byName(page);
  const rows = await reader.execute<PastNode & Record<string, unknown>>(sql`
    with ${pastNodes(request)}
    select id, name, state, ${instantText(sql`until`)} as until
    from past where ${where ?? sql`true`} order by ${sql.join([...orderBy], sql`, `)} limit ${page.limit + 1}::int`);
  return cutPage([...rows], page);
}

/** Number of nodes by their state then. */
export async function pastStateCounts(
  reader: Reader,
  request: PastStates,
): Promise<{ readonly state: NodeState; readonly count: number }[]> {
  return reader.execute<{ state: NodeState; count: number }>(
    sql`with ${pastNodes(request)} select state, count(*)::int as count from past group by state order by state`,
  );
}

/** Transitions are kept for at least a day: none of it is deleted, also if all are. */
const KEPT_MS = 86_400_000;

/** The place of a time in the log. */
interface PastTime extends Pick<CursorOfTime, "cursor" | "now"> {
  readonly isFuture: boolean;
  /** The earliest time from which no transition is deleted, as far as known; null if none is from the given one. */
  readonly earliest: Date | null;
}

export async function pastTime(reader: Reader, time: Date): Promise<PastTime> {
  const { cursor, isComplete, now, oldest } = await cursorBefore(reader, time);
  // At its own time the oldest transition has not happened yet, and what led to the state before is deleted.
  const earliest = new Date(oldest ? oldest.getTime() + 1 : now.getTime() - KEPT_MS);
  return { cursor, isFuture: time > now, now, earliest: isComplete || time >= earliest ? null : earliest };
}
