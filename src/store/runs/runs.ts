/**
 * Runs: an operation's work on one node each. The worker that claimed a run holds its fencing token, and each write
 * checks it.
 */
import { and, asc, eq, gt, isNull, sql } from "drizzle-orm";
import type { FinalRunState, RunState, Interrupt } from "../../lifecycle/operation-states.ts";
import { pick } from "../../runtime/pick.ts";
import { inArrayParam, textArray } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { bulkUpdate } from "../postgres/bulk.ts";
import { listsBelow, numbered } from "../postgres/pagination.ts";
import { rowsBy, rowVersions, updateBy } from "../postgres/table-queries.ts";
import type { RowChange, RowsUpdate, RowVersion } from "../postgres/table-queries.ts";
import { LEASE } from "./run-claims.ts";
import { operations, runs } from "../tables.ts";

export type RunRow = typeof runs.$inferSelect;

/** `leg` of a run whose node has entered no leg yet. */
export const UNTOUCHED = -1;

export type RunChange = RowChange<typeof runs, "id" | "revision" | "updatedAt">;

const CHANGEABLE_FIELDS = [
  ...([
    "state",
    "leg",
    "position",
    "fence",
    "owner",
    "generation",
    "openGeneration",
    "startedAt",
    "finishedAt",
    "failure",
    "errors",
    "leftAs",
    "interruptFailure",
  ] as const),
  ...(["wakeAt", "waitReason", "waitingSince", "waitFor", "slotPhase", "slotController"] as const),
  "forcedPower",
  "variables",
  ...(["dueAt", "priority", "stopUntil"] as const),
] as const;

/** A change by the worker that claimed the run. */
export type ClaimedRunChange = { readonly [Field in (typeof CHANGEABLE_FIELDS)[number]]?: RunRow[Field] };

/** Changes locked runs, each in its own way. */
export const changeClaimedRuns = bulkUpdate(runs, {
  key: ["id"],
  fields: CHANGEABLE_FIELDS,
  also: [
    "revision = runs.revision + 1",
    "updated_at = clock_timestamp()",
    // A run that is written often need not be renewed, and one whose lock was held for long could not be. One that no
    // replica executes any more has no lease.
    `lease_until = case when case when given.change ? 'owner' then given.change ->> 'owner' else runs.owner end is not null then clock_timestamp() + ${LEASE} end`,
  ],
});

/** Changes one run, or several in the same way. */
export const updateRuns: RowsUpdate<RunChange> = updateBy(runs, runs.id, {
  revision: sql`${runs.revision} + 1`,
  updatedAt: sql`clock_timestamp()`,
});

/** An interrupt, with who requested it and why. */
export interface RequestedInterrupt {
  readonly interrupt: Interrupt;
  readonly interruptBy: string;
  readonly interruptReason: string | null;
}

/** Records an interrupt on runs, now by the database's clock. */
export async function interruptRuns(
  tx: Tx,
  ids: readonly string[],
  interrupt: RunChange & RequestedInterrupt,
): Promise<void> {
  await updateRuns(tx, ids, { ...interrupt, interruptAt: sql`now()` });
}

/** Fields that the end of a run clears: its claim, waits, deadlines and slots. */
export const ENDED = {
  dueAt: null,
  owner: null,
  stopUntil: null,
  wakeAt: null,
  waitReason: null,
  waitingSince: null,
  waitFor: null,
  slotPhase: null,
  slotController: null,
  openGeneration: null,
} as const;

/** Ends runs. Their fencing tokens rise, so that a worker that claimed one cannot write any more. */
export async function finishRuns(
  tx: Tx,
  ids: readonly string[],
  state: FinalRunState,
  change: RunChange = {},
): Promise<void> {
  await updateRuns(tx, ids, {
    ...change,
    ...ENDED,
    leaseUntil: null,
    state,
    finishedAt: sql`now()`,
    fence: sql`${runs.fence} + 1`,
  });
}

/**
 * The clean-up of a node begins: the run that it follows becomes UNDONE, unless it says itself that it came to nothing.
 * Returns the number of such runs.
 */
export async function undoWork(tx: Tx, cleanUpIds: readonly string[]): Promise<number> {
  const undone = await tx.execute(sql`
    update runs set state = 'UNDONE', revision = runs.revision + 1, updated_at = clock_timestamp() from runs clean_up
    where clean_up.id = any(${textArray(cleanUpIds)}::uuid[]) and runs.node_id = clean_up.node_id and runs.operation_id = clean_up.operation_id and runs.purpose = 'WORK' and runs.state in ('SUCCEEDED', 'STOPPED') returning runs.id`);
  return undone.length;
}

export const runsByIds = rowsBy(runs, runs.id);

/** The runs of one operation, or of one node. */
export type RunsOf = { readonly operationId: string } | { readonly nodeId: string };

/** Up to `limit` runs after one. */
export async function runVersionsAfter(
  reader: Reader,
  of: RunsOf,
  after: RunRow | null,
  limit: number,
): Promise<RowVersion[]> {
  const isOne = "operationId" in of ? eq(runs.operationId, of.operationId) : eq(runs.nodeId, of.nodeId);
  const later = after ? gt(runs.id, after.id) : undefined;
  return rowVersions(reader, runs, and(isOne, later), { orderBy: [runs.id], limit });
}

export const unfinishedRuns = rowsBy(runs, runs.nodeId, { where: isNull(runs.finishedAt) });

/** A step of the run waits for a time or a callback, and nothing ends the run. `stepWaits` is the same of a row. */
export const STEP_WAITS = sql<boolean>`(${runs.state} = 'WAITING' and coalesce(${runs.waitReason} in ('TIME', 'CALLBACK'), false) and ${runs.interrupt} is null and ${runs.interruptFailure} is null)`;

export function stepWaits({ state, waitReason, interrupt, interruptFailure }: RunRow): boolean {
  const waits = state === "WAITING" && (waitReason === "TIME" || waitReason === "CALLBACK");
  return waits && interrupt === null && interruptFailure === null;
}

/**
 * Kind of the unfinished operation of each busy node. `isEnding`: an abort or a failure is ending its run. `isWaiting`:
 * a step of it waits.
 */
export async function busyNodes(reader: Reader, nodeIds: readonly string[]) {
  if (nodeIds.length === 0) return [];
  return reader
    .select({
      nodeId: runs.nodeId,
      operationId: runs.operationId,
      kind: operations.kind,
      isEnding: sql<boolean>`(${runs.interrupt} is not distinct from 'ABORT' or ${runs.interruptFailure} is not null)`,
      isWaiting: STEP_WAITS,
      hostGroup: runs.hostGroup,
    })
    .from(runs)
    .innerJoin(operations, eq(operations.id, runs.operationId))
    .where(and(inArrayParam(runs.nodeId, nodeIds), isNull(runs.finishedAt)));
}

/**
 * The newest run of each node that changes its state and is not a clean-up: a change of power or an inspection in place
 * does not hide unfinished work from a restart. Runs of the given operation always count.
 */
export async function newestWork(
  reader: Reader,
  nodeIds: readonly string[],
  operationId: string | null,
): Promise<RunRow[]> {
  if (nodeIds.length === 0) return [];
  return reader
    .select()
    .from(runs)
    .where(
      sql`${runs.id} in (select distinct on (node_id) id from runs where ${inArrayParam(runs.nodeId, nodeIds)} and purpose = 'WORK' and (moves_state or operation_id = ${operationId}::uuid) order by node_id, created_at desc, id)`,
    );
}

/** Of these runs' nodes, those that their operation began to clean up afterwards, by run. */
export async function cleanedUpAfter(reader: Reader, runIds: readonly string[]): Promise<Set<string>> {
  if (runIds.length === 0) return new Set();
  const rows = await reader
    .select({ id: runs.id })
    .from(runs)
    .where(
      sql`${inArrayParam(runs.id, runIds)} and exists (select from runs undone where undone.operation_id = ${runs.operationId} and undone.node_id = ${runs.nodeId} and undone.purpose = 'CLEAN_UP' and undone.leg > ${UNTOUCHED})`,
    );
  return new Set(rows.map(({ id }) => id));
}

/** Runs of an operation in the order of the request. */
export async function runsOfOperation(
  reader: Reader,
  operationId: string,
  purpose?: RunRow["purpose"],
): Promise<RunRow[]> {
  return reader
    .select()
    .from(runs)
    .where(and(eq(runs.operationId, operationId), purpose && eq(runs.purpose, purpose)))
    .orderBy(asc(runs.ordinal), asc(runs.createdAt));
}

/** Pages of each operation's runs in the order of the request, clean-up runs after the work, and their number. */
export const { pages: runsPages, counts: runCountsOf } = listsBelow(
  runs,
  (operation, { states }: { readonly states?: readonly RunState[] | undefined }) =>
    and(sql`${runs.operationId} = ${operation}`, states && inArrayParam(runs.state, states)),
  numbered(runs.ordinal),
);

const INTERRUPT = pick(runs, ["id", "interrupt", "interruptMode", "fence"]);

/** Interrupts and fencing tokens of claimed runs. `overdue`: the timeout of a stop has passed. */
export async function interruptsOf(reader: Reader, ids: readonly string[]) {
  if (ids.length === 0) return [];
  return reader
    .select({ ...INTERRUPT, overdue: sql<boolean>`${runs.interruptFailure} is not null` })
    .from(runs)
    .where(inArrayParam(runs.id, ids));
}
