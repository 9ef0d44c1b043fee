/** Parked runs: their waits during maintenance. */
import { and, eq, isNull, sql } from "drizzle-orm";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Tx } from "../postgres/database.ts";
import { nodes, runs } from "../tables.ts";

/**
 * A step parked until its deadline may wake this much before it: the wait uses the clock of the process, the deadline
 * the database's.
 */
export const DEADLINE_TOLERANCE_MS = 1_000;

/** Runs of some nodes that are parked until the end of maintenance. */
export async function runsPausedByMaintenance(tx: Tx, nodeIds: readonly string[]): Promise<string[]> {
  if (nodeIds.length === 0) return [];
  const rows = await tx
    .select({ id: runs.id })
    .from(runs)
    .where(and(inArrayParam(runs.nodeId, nodeIds), isNull(runs.finishedAt), eq(runs.waitReason, "MAINTENANCE")));
  return rows.map(({ id }) => id);
}

/**
 * Moves the timeouts of parked steps by the time for which their nodes have been in maintenance. Called under the locks
 * of the runs, before the flag is cleared.
 */
export async function extendParkedSteps(tx: Tx, nodeIds: readonly string[]): Promise<void> {
  if (nodeIds.length === 0) return;
  // A wait for less time than the timeout is not moved: it ends when it was to end.
  await tx.execute(sql`
    with stood as (
      select r.id, r.position, a.deadline_at,
        greatest(now() - greatest(${nodes.maintenanceSince}, r.waiting_since), interval '0') as pause
      from runs r join ${nodes} on ${nodes.id} = r.node_id
      join attempts a on a.run_id = r.id and a.step = r.position and a.state = 'WAITING'
      where ${inArrayParam(nodes.id, nodeIds)} and ${nodes.maintenanceSince} is not null
        and r.finished_at is null and r.state = 'WAITING' and r.wait_reason in ('TIME', 'CALLBACK')
    ), extended as (
      update attempts a set deadline_at = a.deadline_at + stood.pause from stood
      where a.run_id = stood.id and a.step = stood.position and a.state = 'WAITING'
    )
    update runs r set wake_at = r.wake_at + stood.pause, due_at = r.wake_at + stood.pause, revision = r.revision + 1, updated_at = clock_timestamp()
    from stood where r.id = stood.id
      and (r.wait_reason = 'CALLBACK' or r.wake_at >= stood.deadline_at - make_interval(secs => ${DEADLINE_TOLERANCE_MS / 1_000}))`);
}
