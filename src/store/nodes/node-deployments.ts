/** The inputs of the last deployments of nodes. */
import { and, isNotNull, sql } from "drizzle-orm";
import type { SQL } from "drizzle-orm";
import type { Configuration, InstalledSystem } from "../records.ts";
import { inArrayParam } from "../postgres/array-parameter.ts";
import { rowsText } from "../postgres/bulk.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { rowsBy } from "../postgres/table-queries.ts";
import { runStatement } from "../postgres/statements.ts";
import { keyOfName, nodeDeployments, nodes } from "../tables.ts";
import { FAILED_STATES, HAS_POWER_DRIFT } from "./node-fields.ts";
import { nodeCondition } from "./node-filter.ts";
import type { NodeFilter } from "./node-filter.ts";

export interface NodeDeployment {
  readonly system: InstalledSystem | null;
  readonly configuration: Configuration | null;
  readonly hash: string;
}

/** Inputs that a run has stored; those that are missing stay as they are. */
export interface NewInputs {
  readonly nodeId: string;
  readonly system?: InstalledSystem;
  readonly configuration?: Configuration;
}

const STORE = `insert into node_deployments (node_id, system, configuration)
  select "nodeId", system, configuration from json_to_recordset($1::text::json) as given("nodeId" uuid, system jsonb, configuration jsonb)
  on conflict (node_id) do update set system = coalesce(excluded.system, node_deployments.system), configuration = coalesce(excluded.configuration, node_deployments.configuration)`;

/** Stores inputs of locked nodes, one row for each. */
export async function storeDeployments(tx: Tx, inputs: readonly NewInputs[]): Promise<void> {
  if (inputs.length > 0) await runStatement(tx, STORE, [rowsText(inputs)]);
}

const storedDeployments = rowsBy(nodeDeployments, nodeDeployments.nodeId);

/** The inputs of each node that has any. Nodes with equal inputs share one object. */
export async function deploymentsOf(
  reader: Reader,
  nodeIds: readonly string[],
): Promise<ReadonlyMap<string, NodeDeployment>> {
  if (nodeIds.length === 0) return new Map();
  const rows = await reader
    .select({ nodeId: nodeDeployments.nodeId, hash: sql<string>`${nodeDeployments.hash}` })
    .from(nodeDeployments)
    .where(inArrayParam(nodeDeployments.nodeId, nodeIds));
  const first = new Map(rows.map(({ hash, nodeId }) => [hash, nodeId]));
  const found = await storedDeployments(reader, [...first.values()]);
  const shared = new Map(
    found.map(({ nodeId: _of, ...inputs }) => [inputs.hash, { ...inputs, hash: inputs.hash ?? "" }]),
  );
  return new Map(
    rows.flatMap(({ nodeId, hash }) => {
      const deployment = shared.get(hash);
      return deployment ? [[nodeId, deployment] as const] : [];
    }),
  );
}

/** Members of a cluster of which the same is wanted: one of them stands for all. */
export interface MemberGroup {
  readonly exampleId: string;
  readonly count: number;
  /** The first by name. */
  readonly first: readonly { readonly id: string; readonly name: string }[];
}

/** Nodes of a group that an answer names. */
const NAMED_MAX = 100;

/** Nodes of these clusters; or matching nodes of all clusters that need no person for another reason. */
export type MembersOf = { readonly clusterIds: readonly string[] } | { readonly filter: NodeFilter | undefined };

function memberCondition(of: MembersOf): SQL | undefined {
  if ("clusterIds" in of) return inArrayParam(nodes.clusterId, of.clusterIds);
  const isUnconcerned = sql`${nodes.lastError} is null and not coalesce(${HAS_POWER_DRIFT}, false) and ${nodes.state} <> 'STOPPED' and ${nodes.state} not in ${FAILED_STATES}`;
  return and(isNotNull(nodes.clusterId), isUnconcerned, nodeCondition(of.filter));
}

/**
 * The nodes on which `applyCluster` may work, in groups by their keys: what is wanted of a node follows from its key.
 * Left out are nodes that it leaves alone: busy ones, and those that are in maintenance, protected, retired,
 * decommissioned, have disappeared, or have a fault or a conflict. With one key for all columns, PostgreSQL does not
 * sort the nodes.
 */
export async function memberGroups(reader: Reader, of: MembersOf): Promise<MemberGroup[]> {
  return reader.execute<Record<string, unknown> & MemberGroup>(sql`
    with members as materialized (
      select nodes.id, nodes.name, concat_ws(' ', nodes.cluster_id, nodes.state, nodes.driver, nodes.borrowed, nodes.fallbacks, nodes.variables, coalesce(d.hash, '-'), case
        when nodes.state in ${FAILED_STATES} then coalesce(nodes.last_error ->> 'step', '-')
        when nodes.state = 'STOPPED' then coalesce((select plan_hash || '.' || position from runs where node_id = nodes.id and purpose = 'WORK' and moves_state order by created_at desc, id limit 1), '-')
        else '-' end, nodes.host_group) as key
      from nodes left join node_deployments d on d.node_id = nodes.id
      where ${memberCondition(of)} and nodes.maintenance_since is null and not nodes.is_protected and nodes.retired_reason is null
        and nodes.state <> 'DECOMMISSIONED' and nodes.presence <> 'DISAPPEARED' and nodes.fault_kind is null and nodes.identity_conflict is null
        and not exists (select from runs where runs.node_id = nodes.id and runs.finished_at is null)
    ), grouped as (select array_agg(id) as ids, array_agg(name) as names from members group by key)
    select ids[1]::text as "exampleId", cardinality(ids) as count, (
      select json_agg(json_build_object('id', id, 'name', name)) from (
        select id, name from unnest(ids, names) as named(id, name) order by ${keyOfName(sql`name`)} limit ${NAMED_MAX}::int
      ) first
    ) as first from grouped`);
}
