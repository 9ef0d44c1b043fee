/** Slots of the capacity limits of phases and controllers: how many are taken, and which runs wait for one. */
import { and, asc, isNotNull, isNull, sql } from "drizzle-orm";
import { inArrayParam, textArray } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { rowsBelow } from "../postgres/pagination.ts";
import { hasRow, lockRowsBy } from "../postgres/table-queries.ts";
import type { RunRow } from "./runs.ts";
import { runs } from "../tables.ts";

const WAITING_ORDER = [asc(runs.waitingSince), asc(runs.ordinal), asc(runs.id)];

/** Whether any run waits for a slot: one index look-up. */
export async function isAnyWaiting(reader: Reader): Promise<boolean> {
  return hasRow(reader, runs, isNotNull(runs.waitFor));
}

/** Slots taken in each phase and on each controller. */
export async function takenSlots(
  reader: Reader,
): Promise<{ readonly phases: ReadonlyMap<string, number>; readonly controllers: ReadonlyMap<string, number> }> {
  const rows = await reader
    .select({ phase: runs.slotPhase, controller: runs.slotController, count: sql<number>`count(*)::int` })
    .from(runs)
    .where(sql`${runs.slotPhase} is not null or ${runs.slotController} is not null`)
    .groupBy(runs.slotPhase, runs.slotController);
  const phases = new Map<string, number>();
  const controllers = new Map<string, number>();
  for (const { phase, controller, count } of rows) {
    if (phase !== null) phases.set(phase, (phases.get(phase) ?? 0) + count);
    if (controller !== null) controllers.set(controller, (controllers.get(controller) ?? 0) + count);
  }
  return { phases, controllers };
}

/** Number of runs that wait for each limit. */
export async function waitingCounts(reader: Reader): Promise<Map<string, number>> {
  const rows = await reader
    .select({ waitFor: runs.waitFor, count: sql<number>`count(*)::int` })
    .from(runs)
    .where(sql`${runs.waitFor} is not null`)
    .groupBy(runs.waitFor);
  return new Map(rows.map(({ waitFor, count }) => [waitFor ?? "", count]));
}

/** The first of the runs that wait for each limit. */
export async function runsWaitingForEach(
  reader: Reader,
  limits: readonly string[],
  { first }: { readonly first: number },
): Promise<Map<string, RunRow[]>> {
  return rowsBelow(reader, runs, limits, {
    where: (limit) => sql`${runs.waitFor} = ${limit}`,
    orderBy: WAITING_ORDER,
    limit: first,
    idType: "text",
  });
}

/**
 * Runs that wait for a limit other than the excepted ones, longest wait first; at most `most` for each limit, so that
 * many runs that wait for one limit do not hide those of another. QUEUED runs of an operation that is halted or being
 * ended are left out and keep their waiting time.
 */
export async function waitingRuns(
  tx: Tx,
  { except, most, limit }: { readonly except: readonly string[]; readonly most: number; readonly limit: number },
): Promise<string[]> {
  const rows = await tx.execute<{ id: string }>(sql`
    select id from (
      select r.id, r.waiting_since, r.ordinal, row_number() over (partition by r.wait_for order by r.waiting_since, r.ordinal, r.id) as rank
      from runs r join operations o on o.id = r.operation_id
      where r.wait_for is not null and r.wait_for <> all(${textArray(except)}::text[]) and r.finished_at is null and (r.state <> 'QUEUED' or r.purpose = 'CLEAN_UP' or (o.interrupt is null and o.wave_state is distinct from 'HALTED'))
    ) waiting where rank <= ${most} order by waiting_since, ordinal, id limit ${limit}`);
  return [...rows].map(({ id }) => id);
}

/** Locks those of the runs that still wait for a slot; runs that another transaction has locked are skipped. */
export const lockWaiting = lockRowsBy(runs, runs.id, {
  where: and(isNotNull(runs.waitFor), isNull(runs.finishedAt)),
  orderBy: WAITING_ORDER,
  skipLocked: true,
});

/**
 * The queue position of each run, from 1: among the runs that wait for the same limit, longest wait first; else among
 * the QUEUED runs of its operation that may not start yet, in the order of the request. Other runs are left out.
 */
export async function waitingPositions(reader: Reader, runIds: readonly string[]): Promise<Map<string, number>> {
  if (runIds.length === 0) return new Map();
  const rows = await reader.execute<{ id: string; position: number }>(sql`
    with requested as (
      select id, operation_id, wait_for from runs where ${inArrayParam(runs.id, runIds)} and finished_at is null and (state = 'QUEUED' and wait_reason is null or wait_for is not null)
    ), ranked as (
      select id, row_number() over (partition by wait_for order by waiting_since, ordinal, id) as position
      from runs where finished_at is null and wait_for in (select wait_for from requested)
      union all
      select id, row_number() over (partition by operation_id order by ordinal, id)
      from runs where finished_at is null and state = 'QUEUED' and wait_for is null and wait_reason is null and operation_id in (select operation_id from requested where wait_for is null)
    )
    select ranked.id, ranked.position::int as position from ranked join requested using (id)`);
  return new Map([...rows].map(({ id, position }) => [id, position]));
}
