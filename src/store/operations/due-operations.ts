/**
 * Operations that are due: the end of a stop's time, of a pause between two waves, and of the time that runs wait for
 * nodes that have disappeared, and discoveries.
 */
import type { Reader, Tx } from "../postgres/database.ts";
import { runStatement } from "../postgres/statements.ts";
import { LEASE } from "../runs/run-claims.ts";

/**
 * STOP: the time of a stop is over. WAVE: a pause is over. DISAPPEARED: runs have waited for their nodes for too long.
 * DISCOVERY: no replica works on the discovery.
 */
export interface DueOperation {
  readonly id: string;
  readonly what: "STOP" | "WAVE" | "DISAPPEARED" | "DISCOVERY";
  /** Time until then; 0: it is due. */
  readonly inMs: number;
}

/**
 * Runs whose step waits for a machine that monitoring does not see, and when that ends by the policy of the site. A run
 * that was forced on such a node has the whole time.
 */
const WAITS_FOR_DISAPPEARED = `
  select r.id, r.node_id, r.operation_id,
    greatest(n.disappeared_at, r.created_at) + make_interval(secs => (site.policy ->> 'disappearedTimeoutSeconds')::float8) as ends
  from site join nodes n on n.presence = 'DISAPPEARED' and n.maintenance_since is null
  join runs r on r.node_id = n.id and r.finished_at is null
  where site.policy ->> 'disappearedTimeoutSeconds' is not null
    and r.state = 'WAITING' and r.wait_reason in ('TIME', 'CALLBACK', 'RETRY') and r.interrupt_failure is null`;

/** Runs of an operation that have waited for their nodes for too long. */
export async function waitedTooLong(tx: Tx, operationId: string): Promise<{ id: string; nodeId: string }[]> {
  return runStatement(
    tx,
    `select id, node_id as "nodeId" from (${WAITS_FOR_DISAPPEARED}) run where operation_id = $1 and ends <= now()`,
    [operationId],
  );
}

/** Operations that are due within a time. */
export async function dueOperations(reader: Reader, withinSeconds: number): Promise<DueOperation[]> {
  return runStatement<DueOperation>(
    reader,
    `with open as materialized (
       select * from operations
       where finished_at is null and (kind = 'DISCOVER' or stop_until is not null or wave_until is not null)
     ), due as (
       select id, 'STOP' as what, stop_until as ends from open
       union select operation_id, 'STOP', min(stop_until) from runs where stop_until is not null group by operation_id
       union select operation_id, 'DISAPPEARED', min(ends) from (${WAITS_FOR_DISAPPEARED}) run group by operation_id
       union select id, 'WAVE', wave_until from open where wave_state = 'PAUSED' and interrupt is null
       union select id, 'DISCOVERY', coalesce(lease_until, now()) from open where kind = 'DISCOVER'
     )
     select id, what, greatest(extract(epoch from ends - now()) * 1000, 0)::float8 as "inMs" from due
     where ends <= now() + make_interval(secs => $1)`,
    [withinSeconds],
  );
}

/** Claims a discovery; false if another replica works on it. */
export async function claimDiscovery(reader: Reader, id: string): Promise<boolean> {
  const rows = await runStatement(
    reader,
    `update operations set lease_until = now() + ${LEASE}
     where id = $1 and finished_at is null and (lease_until is null or lease_until <= now()) returning id`,
    [id],
  );
  return rows.length > 0;
}

/** Renews the leases of discoveries. */
export async function renewDiscoveries(reader: Reader, ids: readonly string[]): Promise<void> {
  await runStatement(reader, `update operations set lease_until = now() + ${LEASE} where id = any($1::uuid[])`, [ids]);
}

/** Makes a discovery due for any replica after a time. */
export async function releaseDiscovery(reader: Reader, id: string, afterSeconds: number): Promise<void> {
  await runStatement(reader, "update operations set lease_until = now() + make_interval(secs => $2) where id = $1", [
    id,
    afterSeconds,
  ]);
}

/** Sets the end of a stop's time on locked, unfinished runs; an earlier one stays. */
export async function limitStop(tx: Tx, runIds: readonly string[], seconds: number): Promise<void> {
  await runStatement(
    tx,
    `update runs set stop_until = least(stop_until, now() + make_interval(secs => $2))
     where id = any($1::uuid[])`,
    [runIds, seconds],
  );
}

/** The stops of a locked operation, and of its locked runs, whose time is over. Their times are cleared. */
export async function takeStopsOver(
  tx: Tx,
  operationId: string,
): Promise<{ readonly isWhole: boolean; readonly runIds: ReadonlySet<string> }> {
  const whole = "update operations set stop_until = null where id = $1 and stop_until <= now() returning id";
  const single = "update runs set stop_until = null where operation_id = $1 and stop_until <= now() returning id";
  const operations = await runStatement(tx, whole, [operationId]);
  const runs = await runStatement<{ id: string }>(tx, single, [operationId]);
  return { isWhole: operations.length > 0, runIds: new Set(runs.map(({ id }) => id)) };
}
