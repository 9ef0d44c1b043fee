/** Nodes that need a person, in groups with the same cause. One statement over all matching nodes. */
import { sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import { ATTENTION_KINDS, ATTENTION_LIMITS } from "../../lifecycle/attention.ts";
import type { AttentionCause, AttentionKind } from "../../lifecycle/attention.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { Reader } from "../postgres/database.ts";
import { FAILED_STATES, HAS_POWER_DRIFT } from "./node-fields.ts";
import { nodeCondition } from "./node-filter.ts";
import type { NodeFilter } from "./node-filter.ts";
import { attempts, feedPosition, nodes, operations, runs } from "../tables.ts";
import { cursorColumns, cursorOfRow } from "../log/transitions.ts";
import type { CursorRow, LogCursor } from "../log/transitions.ts";

export interface AttentionGroup extends AttentionCause {
  /** Null if the nodes of the group can be in several. */
  readonly state: NodeState | null;
  readonly operationId: string | null;
  /** Of pending changes; absent for other kinds. */
  readonly clusterId?: string;
  readonly nodeCount: number;
  /** Number of those that no later work has reached. */
  readonly openCount: number;
  /** RFC 3339. */
  readonly since: string;
  /** The nodes that need a person for the longest time, oldest first; before them those in `openCount`. */
  readonly nodeIds: readonly string[];
}

export interface Attention {
  readonly groups: readonly AttentionGroup[];
  readonly groupCount: number;
  /** Number of different nodes in all groups. */
  readonly nodeCount: number;
  /** Number of nodes in maintenance, however long. */
  readonly maintenanceCount: number;
  /** As of which the nodes were read. */
  readonly cursor: LogCursor;
}

export interface AttentionRequest {
  readonly filter: NodeFilter | undefined;
  readonly kinds: readonly AttentionKind[] | undefined;
  /** Maximum number of groups, and of nodes named in each. */
  readonly first: number;
  readonly nodesMax: number;
}

const { stuckQuantile, stuckSeconds, samplesMin, waitSeconds, maintenanceDays } = ATTENTION_LIMITS;

/** Matching nodes with what decides about them; nodes in maintenance count only as such. */
function fleet(filter: NodeFilter | undefined): SQL {
  return sql`select ${nodes.id} as id, ${nodes.state} as state, ${nodes.driver} as driver, ${nodes.lastError} as error, ${nodes.faultKind} as fault, ${nodes.faultSince} as fault_since, ${nodes.faultMessage} as fault_message, ${nodes.identityConflict} as conflict,
      case when ${HAS_POWER_DRIFT} then ${nodes.wantedPower} end as wanted, ${nodes.powerReadAt} as power_at, ${nodes.presence} as presence, ${nodes.maintenanceSince} as maintained, ${nodes.maintenanceReason} as maintained_why, ${nodes.updatedAt} as updated,
      exists (select from ${runs} where ${runs.nodeId} = ${nodes.id} and ${runs.finishedAt} is null) as busy
    from ${nodes}
    where (${nodeCondition(filter) ?? sql`true`}) and (${nodes.state} = 'STOPPED' or ${nodes.state} in ${FAILED_STATES} or ${nodes.lastError} is not null or ${nodes.faultKind} is not null or ${nodes.identityConflict} is not null or ${HAS_POWER_DRIFT} or ${nodes.presence} = 'DISAPPEARED' or ${nodes.maintenanceSince} is not null)`;
}

/**
 * Unfinished runs of matching nodes that are not in maintenance, with their step: one that has begun, or else the one
 * after which the run waits (`prior`).
 */
function unfinished(filter: NodeFilter | undefined): SQL {
  return sql`select ${runs.nodeId} as id, ${runs.waitReason} as wait_reason, prior.label as prior_label, prior.driver as prior_driver, prior.ended as prior_ended, ${nodes.state} as state, ${runs.state} as run_state, ${runs.operationId} as operation_id, ${runs.waitingSince} as waiting_since, ${runs.createdAt} as created, step.label, step.driver, step.began, ${operations.waveState} as wave_state, ${operations.waveReason} as wave_reason
    from ${runs} join ${nodes} on ${nodes.id} = ${runs.nodeId} join ${operations} on ${operations.id} = ${runs.operationId} left join lateral (
      select max(label) as label, max(driver) as driver, min(started_at) as began from ${attempts} where ${attempts.runId} = ${runs.id} and ${attempts.step} = ${runs.position}
    ) step on true left join lateral (
      select label, driver, finished_at as ended from ${attempts} where step.began is null and ${attempts.runId} = ${runs.id} and ${attempts.step} = ${runs.position} - 1 and ${attempts.state} = 'SUCCEEDED' order by ${attempts.number} desc limit 1
    ) prior on true
    where ${runs.finishedAt} is null and ${nodes.maintenanceSince} is null and (${nodeCondition(filter) ?? sql`true`})`;
}

/** Before this time began what is stuck by its history, which has `samples` and `p90`. */
const LONG_AGO = sql`now() - make_interval(secs => case when coalesce(samples, 0) >= ${samplesMin} then greatest(p90, ${stuckSeconds}) else ${waitSeconds} end)`;

/** Waits after a step: from its end to the beginning of the next one, for the newest runs that had one. */
const GAPS = sql`
  select kinds.driver, kinds.label, count(*) as samples, percentile_cont(${stuckQuantile}::float8) within group (order by newest.seconds) as p90
  from (select distinct prior_driver as driver, prior_label as label from work where prior_ended < now() - make_interval(secs => ${stuckSeconds})) kinds cross join lateral (
    select extract(epoch from later.started_at - ended.finished_at)::float8 as seconds
    from (select run_id, step, finished_at from ${attempts} where driver = kinds.driver and label = kinds.label and state = 'SUCCEEDED' and finished_at is not null order by finished_at desc limit 1000) ended
    join ${attempts} later on later.run_id = ended.run_id and later.step = ended.step + 1 and later.number = 1
  ) newest group by 1, 2`;

/** A cause by which nodes are grouped, with the time since which they need a person, and a text about it. */
interface Concern {
  /** `fleet` or `work`, each with the `id` of the node. */
  readonly from: SQL;
  readonly where: SQL;
  readonly state?: SQL;
  readonly code?: SQL;
  readonly step?: SQL;
  readonly driver?: SQL;
  readonly detail?: SQL;
  readonly operation?: SQL;
  readonly since: SQL;
  readonly message?: SQL;
  /** `message` without node and step; default: `message`. */
  readonly cause?: SQL;
}

const NO_ID = sql`null::uuid`;
const NO_TEXT = sql`null::text`;
const NO_TEXTS = { state: NO_TEXT, code: NO_TEXT, step: NO_TEXT, driver: NO_TEXT, detail: NO_TEXT, message: NO_TEXT };

const FLEET = sql`fleet`;
const WORK = sql`work`;
const IS_IDLE = sql`maintained is null and not busy`;
/** Machines that are given back no longer need these. */
const IS_IN_USE = sql`maintained is null and state <> 'DECOMMISSIONED'`;
/** Why the last work failed, in the driver's words. */
const WORDS = sql`coalesce(error ->> 'cause', error ->> 'message')`;
const WAVES_WAIT = sql`coalesce(wave_state, '') in ('HALTED', 'AWAITING')`;

/** Pending changes follow from drivers too, and are found by the engine. */
const CONCERNS: Readonly<Record<Exclude<AttentionKind, "PENDING_CHANGES">, readonly Concern[]>> = {
  FAILED: [
    {
      from: FLEET,
      where: sql`${IS_IDLE} and state <> 'STOPPED' and (state in ${FAILED_STATES} or error is not null)`,
      state: sql`state`,
      code: sql`error ->> 'code'`,
      step: sql`error ->> 'step'`,
      driver: sql`driver`,
      since: sql`coalesce((error ->> 'at')::timestamptz, updated)`,
      message: sql`error ->> 'message'`,
      cause: WORDS,
    },
  ],
  STOPPED: [
    {
      from: FLEET,
      where: sql`${IS_IDLE} and state = 'STOPPED'`,
      state: sql`state`,
      driver: sql`driver`,
      since: sql`updated`,
    },
  ],
  FAULT: [
    {
      from: FLEET,
      where: sql`${IS_IN_USE} and fault is not null`,
      driver: sql`driver`,
      detail: sql`fault`,
      since: sql`fault_since`,
      message: sql`fault_message`,
      cause: sql`case when fault_message = error ->> 'message' then ${WORDS} else fault_message end`,
    },
  ],
  IDENTITY_CONFLICT: [
    {
      from: FLEET,
      where: sql`maintained is null and conflict is not null`,
      detail: sql`conflict ->> 'kind'`,
      since: sql`(conflict ->> 'since')::timestamptz`,
      message: sql`'It has the same value as node ' || (conflict ->> 'nodeName') || ': ' || (conflict ->> 'value') || '.'`,
    },
  ],
  POWER_DRIFT: [
    {
      from: FLEET,
      where: sql`${IS_IN_USE} and not busy and wanted is not null`,
      driver: sql`driver`,
      detail: sql`wanted`,
      since: sql`coalesce(power_at, updated)`,
    },
  ],
  DISAPPEARED: [
    { from: FLEET, where: sql`${IS_IN_USE} and presence = 'DISAPPEARED'`, driver: sql`driver`, since: sql`updated` },
  ],
  MAINTENANCE: [
    {
      from: FLEET,
      where: sql`maintained < now() - make_interval(days => ${maintenanceDays})`,
      since: sql`maintained`,
      message: sql`maintained_why`,
    },
  ],
  ON_HOLD: [
    {
      from: WORK,
      where: sql`run_state = 'HOLDING'`,
      state: sql`state`,
      step: sql`label`,
      operation: sql`operation_id`,
      since: sql`waiting_since`,
    },
  ],
  WAVES_HALTED: [
    {
      from: WORK,
      where: sql`run_state = 'QUEUED' and ${WAVES_WAIT}`,
      detail: sql`wave_state`,
      operation: sql`operation_id`,
      since: sql`created`,
      message: sql`wave_reason`,
    },
  ],
  STUCK: [
    {
      from: sql`work left join history using (driver, label)`,
      where: sql`run_state in ('RUNNING', 'WAITING') and label <> 'engine.wait' and began < ${LONG_AGO}`,
      state: sql`state`,
      step: sql`label`,
      driver: sql`driver`,
      since: sql`began`,
    },
    {
      from: sql`work left join gaps on gaps.driver = prior_driver and gaps.label = prior_label`,
      where: sql`run_state <> 'HOLDING' and began is null and prior_ended < ${LONG_AGO}`,
      state: sql`state`,
      step: sql`prior_label`,
      driver: sql`prior_driver`,
      detail: sql`coalesce(wait_reason, 'NEXT_STEP')`,
      since: sql`prior_ended`,
    },
  ],
  WAITING: [
    {
      from: WORK,
      where: sql`run_state <> 'HOLDING' and began is null and prior_ended is null and created < now() - make_interval(secs => ${waitSeconds}) and not ${WAVES_WAIT}`,
      detail: sql`coalesce(wait_reason, 'QUEUED')`,
      operation: sql`operation_id`,
      since: sql`created`,
    },
  ],
};

/** One row per node and kind. */
function concerned(): SQL {
  const rows = Object.entries(CONCERNS).flatMap(([kind, concerns]) =>
    concerns.map(({ from, where, since, ...of }) => {
      const { state, code, step, driver, detail, message } = { ...NO_TEXTS, ...of };
      return sql`select ${sql.raw(`'${kind}'`)} as kind, id, ${state} as state, ${code} as code, ${step} as step, ${driver} as driver, ${detail} as detail, ${of.operation ?? NO_ID} as operation_id, ${since} as since, ${message} as message, ${of.cause ?? message} as cause from ${from} where ${where}`;
    }),
  );
  return sql.join(rows, sql` union all `);
}

/** The groups of most nodes first; groups of the same size by kind and cause. */
export async function attentionGroups(reader: Reader, request: AttentionRequest): Promise<Attention> {
  const { filter, kinds, first, nodesMax } = request;
  const wanted = (kinds ?? (Object.keys(ATTENTION_KINDS) as AttentionKind[])).join(" ");
  const [row] = await reader.execute<Omit<Attention, "cursor"> & CursorRow & Record<string, unknown>>(sql`
    with fleet as materialized (${fleet(filter)}), work as materialized (${unfinished(filter)}),
    history as (
      select kinds.driver, kinds.label, count(*) as samples, percentile_cont(${stuckQuantile}::float8) within group (order by newest.seconds) as p90
      from (select distinct driver, label from work where began < now() - make_interval(secs => ${stuckSeconds})) kinds cross join lateral (
        select extract(epoch from finished_at - started_at)::float8 as seconds from ${attempts} where driver = kinds.driver and label = kinds.label and state = 'SUCCEEDED' and finished_at is not null order by finished_at desc limit 1000
      ) newest group by 1, 2
    ),
    gaps as (${GAPS}),
    concerned as materialized (select * from (${concerned()}) found where kind = any(string_to_array(${wanted}::text, ' '))),
    grouped as (
      select kind, state, code, step, driver, detail, operation_id, count(*)::int as node_count, min(since) as since, (array_agg(message order by since, id))[1] as message, (array_agg(cause order by since, id))[1] as cause, count(distinct cause)::int as cause_count, (array_agg(id order by since, id))[1:${nodesMax}::int] as ids
      from concerned group by kind, state, code, step, driver, detail, operation_id
    ),
    ordered as (select *, row_number() over (order by node_count desc, kind, state, code, step, driver, detail, operation_id) as place from grouped)
    select coalesce((select json_agg(json_build_object('kind', kind, 'state', state, 'code', code, 'step', step, 'driver', driver, 'detail', detail, 'operationId', operation_id, 'nodeCount', node_count, 'openCount', node_count, 'since', since, 'message', message, 'cause', cause, 'causeCount', cause_count, 'nodeIds', ids) order by place) from ordered where place <= ${first}::int), '[]') as groups,
      (select count(*)::int from grouped) as "groupCount", (select count(distinct id)::int from concerned) as "nodeCount", (select count(*)::int from fleet where maintained is not null) as "maintenanceCount",
      ${cursorColumns(feedPosition.position)}
    from ${feedPosition}`);
  if (!row) throw new Error("The groups of nodes that need a person could not be read.");
  const { position, at, ...found } = row;
  return { ...found, cursor: cursorOfRow({ position, at }) };
}
