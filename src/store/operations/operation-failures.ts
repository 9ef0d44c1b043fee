/** Failures of operations: of their work, in groups with the same cause, and of their clean-ups. */
import { and, eq, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { AttentionGroup } from "../nodes/attention.ts";
import type { Reader } from "../postgres/database.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import type { Failure } from "../records.ts";
import { attempts, discoveries, nodes, operations, runs } from "../tables.ts";

export interface OperationFailures {
  readonly groups: readonly AttentionGroup[];
  readonly groupCount: number;
  /** Number of different nodes in all groups; for a discovery, of addresses. */
  readonly nodeCount: number;
  readonly openCount: number;
}

interface OperationFailuresRequest {
  /** Maximum number of groups, and of nodes named in each. */
  readonly first: number;
  readonly nodesMax: number;
}

export const NO_FAILURES: OperationFailures = { groups: [], groupCount: 0, nodeCount: 0, openCount: 0 };

/**
 * One row per failed run. `open`: the node exists, and no later work has changed its state; after a run that would not
 * have changed it, no work at all. The driver is that of the attempt, because the node may have another one by now.
 */
function failedRuns(ids: readonly string[]): SQL {
  return sql`select ${runs.operationId} as operation_id, ${runs.nodeId}::text as subject, ${nodes.id} as id,
      case when ${runs.purpose} = 'CLEAN_UP' then 'CLEAN_UP' end as detail, ${runs.failure} as failure, ${runs.finishedAt} as finished,
      coalesce((select ${attempts.driver} from ${attempts} where ${attempts.runId} = ${runs.id} and ${attempts.label} = ${runs.failure} ->> 'step' order by ${attempts.step} desc, ${attempts.number} desc limit 1), ${nodes.driver}) as driver,
      ${nodes.id} is not null and not exists (select from runs later where later.node_id = ${runs.nodeId} and later.created_at > ${runs.createdAt} and later.purpose = 'WORK' and (later.moves_state or not ${runs.movesState})) as open
    from ${runs} left join ${nodes} on ${nodes.id} = ${runs.nodeId}
    where ${inArrayParam(runs.operationId, ids)} and ${runs.state} = 'FAILED'`;
}

function failedAddresses(ids: readonly string[]): SQL {
  return sql`select ${discoveries.operationId}, ${discoveries.address}, null::uuid, null, ${discoveries.failure}, ${discoveries.finishedAt}, ${operations.options} #>> '{discovery,driver}', false
    from ${discoveries} join ${operations} on ${operations.id} = ${discoveries.operationId}
    where ${inArrayParam(discoveries.operationId, ids)} and ${discoveries.state} = 'FAILED'`;
}

/** The groups of most nodes first; groups of the same size by cause. */
export async function operationFailures(
  reader: Reader,
  operationIds: readonly string[],
  { first, nodesMax }: OperationFailuresRequest,
): Promise<Map<string, OperationFailures>> {
  if (operationIds.length === 0) return new Map();
  const rows = await reader.execute<OperationFailures & { readonly id: string } & Record<string, unknown>>(sql`
    with failed as materialized (
      select operation_id, subject, id, detail, driver, open, failure ->> 'code' as code, failure ->> 'step' as step, failure ->> 'message' as message, coalesce(failure ->> 'cause', failure ->> 'message') as cause, coalesce((failure ->> 'at')::timestamptz, finished) as since
      from (${failedRuns(operationIds)} union all ${failedAddresses(operationIds)}) found
    ),
    grouped as (
      select operation_id, code, step, driver, detail, count(*)::int as node_count, (count(*) filter (where open))::int as open_count, min(since) as since,
        (array_agg(message order by since, subject))[1] as message, (array_agg(cause order by since, subject))[1] as cause, count(distinct cause)::int as cause_count,
        coalesce((array_agg(id order by open desc, since, id) filter (where id is not null))[1:${nodesMax}::int], '{}') as ids
      from failed group by operation_id, code, step, driver, detail
    ),
    ordered as (select *, row_number() over (partition by operation_id order by node_count desc, code, step, driver, detail) as place from grouped)
    select operation_id as id,
      json_agg(json_build_object('kind', 'FAILED', 'state', null, 'code', code, 'step', step, 'driver', driver, 'detail', detail, 'operationId', operation_id, 'nodeCount', node_count, 'openCount', open_count, 'since', since, 'message', message, 'cause', cause, 'causeCount', cause_count, 'nodeIds', ids) order by place) filter (where place <= ${first}::int) as groups,
      count(*)::int as "groupCount", (select count(distinct subject)::int from failed where failed.operation_id = ordered.operation_id) as "nodeCount", sum(open_count)::int as "openCount"
    from ordered group by operation_id`);
  return new Map([...rows].map(({ id, ...failures }) => [id, failures]));
}

/** Failures of clean-up runs by operation, apart from the failures that caused the clean-up. */
export async function cleanUpFailures(
  reader: Reader,
  operationIds: readonly string[],
): Promise<Map<string, readonly Failure[]>> {
  if (operationIds.length === 0) return new Map();
  const rows = await reader
    .select({ operationId: runs.operationId, failure: runs.failure })
    .from(runs)
    .where(
      and(inArrayParam(runs.operationId, operationIds), eq(runs.purpose, "CLEAN_UP"), sql`${runs.failure} is not null`),
    )
    .orderBy(runs.ordinal);
  const byOperation = Map.groupBy(rows, ({ operationId }) => operationId);
  return new Map([...byOperation].map(([id, found]) => [id, found.flatMap(({ failure }) => failure ?? [])]));
}
