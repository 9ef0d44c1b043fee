/**
 * The history of steps: attempts of all runs, newest first. Members of a filter have indexes in the order of the list;
 * if several are given, PostgreSQL walks along one of them, and leaves out what does not match.
 */
import { and, asc, desc, eq, gte, isNotNull, lt, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { listOf } from "../postgres/pagination.ts";
import type { PageRequest } from "../postgres/pagination.ts";
import { attempts } from "../tables.ts";
import type { AttemptRow } from "./attempts.ts";

/** Which attempts are read; absent members: all. */
export interface AttemptFilter {
  readonly nodeId?: string | undefined;
  /** On nodes that were members of this cluster when the operation was accepted. */
  readonly clusterId?: string | undefined;
  readonly hostGroup?: string | undefined;
  readonly operationId?: string | undefined;
  /** `interface.name`. */
  readonly step?: string | undefined;
  /** The states of a step before its first attempt match none. */
  readonly state?: AttemptRow["state"] | "PENDING" | "KEPT" | "SKIPPED" | undefined;
  readonly requestedBy?: string | undefined;
  readonly startedSince?: Date | undefined;
  readonly startedBefore?: Date | undefined;
}

/** The place of an attempt in the history. */
export type AttemptKey = Pick<AttemptRow, "startedAt" | "runId" | "step" | "number">;

const ORDER = [attempts.startedAt, attempts.runId, attempts.step, attempts.number] as const;

export const { page: attemptsPage, count: countAttempts } = listOf(
  attempts,
  condition,
  (request: PageRequest<AttemptKey>) => {
    const { after, before, fromEnd } = request;
    const way = fromEnd ? asc : desc;
    return {
      request,
      where: and(after && sql`(${PLACE}) < (${placeOf(after)})`, before && sql`(${PLACE}) > (${placeOf(before)})`),
      orderBy: ORDER.map((column) => way(column)),
    };
  },
);

const PLACE = sql.join([...ORDER], sql`, `);

function placeOf({ startedAt, runId, step, number }: AttemptKey): SQL {
  return sql`${startedAt.toISOString()}::timestamptz, ${runId}::uuid, ${step}::int, ${number}::int`;
}

function condition(filter: AttemptFilter): SQL | undefined {
  const { nodeId, clusterId, hostGroup, operationId, step, state, requestedBy, startedSince, startedBefore } = filter;
  return and(
    nodeId === undefined ? undefined : eq(attempts.nodeId, nodeId),
    clusterId === undefined ? undefined : eq(attempts.clusterId, clusterId),
    hostGroup === undefined ? undefined : eq(attempts.hostGroup, hostGroup),
    operationId === undefined ? undefined : eq(attempts.operationId, operationId),
    step === undefined ? undefined : eq(attempts.label, step),
    state && inState(state),
    requestedBy === undefined ? undefined : eq(attempts.actor, requestedBy),
    startedSince && gte(attempts.startedAt, startedSince),
    startedBefore && lt(attempts.startedAt, startedBefore),
  );
}

/** With what finds few rows by an index: no index has the state, because each step changes it. */
function inState(state: NonNullable<AttemptFilter["state"]>): SQL | undefined {
  switch (state) {
    case "SUCCEEDED":
      return eq(attempts.state, state);
    case "ABORTED":
      return sql`${attempts.aborted}`;
    case "FAILED":
      return and(eq(attempts.state, state), isNotNull(attempts.failure));
    case "RUNNING":
    case "WAITING":
      return and(eq(attempts.state, state), sql`${attempts.runId} in (select id from runs where finished_at is null)`);
    case "PENDING":
    case "KEPT":
    case "SKIPPED":
      return sql`false`;
  }
}
