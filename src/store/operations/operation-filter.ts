/** Filters of operations, for the database and for streams, which decide by rows. */
import { and, gte, lt, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { OperationState } from "../../lifecycle/operation-states.ts";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import { containsText } from "../postgres/text-pattern.ts";
import { operations } from "../tables.ts";

export interface OperationFilter {
  readonly ids?: readonly string[] | undefined;
  readonly kinds?: readonly OperationKind[] | undefined;
  readonly states?: readonly OperationState[] | undefined;
  /** With a run on this node. */
  readonly nodeId?: string | undefined;
  /** Requested for this cluster, or on nodes that were members of it then. */
  readonly clusterId?: string | undefined;
  readonly actors?: readonly string[] | undefined;
  /** In the reason or the message of the first failure, ignoring case. */
  readonly text?: string | undefined;
  readonly createdSince?: Date | undefined;
  readonly createdBefore?: Date | undefined;
}

/** Without the cluster. */
export function operationCondition(filter: OperationFilter | undefined): SQL | undefined {
  if (!filter) return undefined;
  return and(
    filter.ids && inArrayParam(operations.id, filter.ids),
    filter.kinds && inArrayParam(operations.kind, filter.kinds),
    filter.states && inArrayParam(operations.state, filter.states),
    filter.nodeId === undefined ? undefined : onNode(sql`${filter.nodeId}`),
    filter.actors && inArrayParam(operations.actor, filter.actors),
    filter.text === undefined
      ? undefined
      : containsText([operations.reason, sql<string>`(${operations.firstFailure} ->> 'message')`], filter.text),
    filter.createdSince && gte(operations.createdAt, filter.createdSince),
    filter.createdBefore && lt(operations.createdAt, filter.createdBefore),
  );
}

export function onNode(nodeId: SQL): SQL {
  return sql`${operations.id} in (select operation_id from runs where node_id = ${nodeId})`;
}

type FilteredColumns = Pick<
  typeof operations.$inferSelect,
  "id" | "kind" | "state" | "actor" | "reason" | "firstFailure" | "createdAt"
>;

/** The conditions that a row alone decides: all but those on nodes and clusters. */
export function operationTest(filter: OperationFilter = {}): (row: FilteredColumns) => boolean {
  const ids = filter.ids && new Set(filter.ids);
  const text = filter.text?.toLowerCase();
  return ({ id, kind, state, actor, reason, firstFailure, createdAt }) =>
    (ids?.has(id) ?? true) &&
    (filter.kinds?.includes(kind) ?? true) &&
    (filter.states?.includes(state) ?? true) &&
    (filter.actors?.includes(actor) ?? true) &&
    (text === undefined || [reason, firstFailure?.message].some((one) => one?.toLowerCase().includes(text))) &&
    (filter.createdSince === undefined || createdAt >= filter.createdSince) &&
    (filter.createdBefore === undefined || createdAt < filter.createdBefore);
}
