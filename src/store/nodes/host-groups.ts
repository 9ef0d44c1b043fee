/** Host groups of clusters: the counts of their nodes, by which stages and budgets are decided. */
import { and, eq, not, sql } from "drizzle-orm";
import { NO_NODES } from "../../lifecycle/host-groups.ts";
import type { GroupCounts } from "../../lifecycle/host-groups.ts";
import { inArrayParam, textArray } from "../postgres/array-parameter.ts";
import type { Reader, Tx } from "../postgres/database.ts";
import { hasRow } from "../postgres/table-queries.ts";
import { nodes } from "../tables.ts";

/** A host group of a cluster as one text. */
export function groupKey(clusterId: string, group: string): string {
  return `${clusterId}/${group}`;
}

export function groupOfKey(key: string): { readonly clusterId: string; readonly group: string } {
  const end = key.indexOf("/");
  return { clusterId: key.slice(0, end), group: key.slice(end + 1) };
}

/** In service: ACTIVE, present, without a fault, and not switched off. */
export const IN_SERVICE = sql`(${nodes.state} = 'ACTIVE' and ${nodes.presence} <> 'DISAPPEARED' and ${nodes.faultKind} is null and ${nodes.powerState} <> 'OFF')`;

/** The same of a row. */
export function isInService({
  state,
  presence,
  faultKind,
  powerState,
}: Pick<typeof nodes.$inferSelect, "state" | "presence" | "faultKind" | "powerState">): boolean {
  return state === "ACTIVE" && presence !== "DISAPPEARED" && faultKind === null && powerState !== "OFF";
}

/** The nodes of each group, those that join it included, with their unfinished work. */
const MEMBERS = (keys: readonly string[]) => {
  const groups = keys.map(groupOfKey);
  const wanted = sql`unnest(${textArray(keys)}::text[], ${textArray(groups.map(({ clusterId }) => clusterId))}::uuid[], ${textArray(groups.map(({ group }) => group))}::text[]) as wanted(key, cluster_id, name)`;
  return sql`(
    select wanted.key, wanted.name as group_name, nodes.id, nodes.name, nodes.host_group, nodes.state, ${IN_SERVICE} as serves
    from ${wanted} join ${nodes} on nodes.cluster_id = wanted.cluster_id and nodes.host_group = wanted.name
    union all
    select wanted.key, wanted.name, nodes.id, nodes.name, nodes.host_group, nodes.state, ${IN_SERVICE}
    from ${wanted} join runs joining on joining.host_group = wanted.name and joining.finished_at is null
      join ${nodes} on nodes.id = joining.node_id and nodes.cluster_id = wanted.cluster_id and nodes.host_group is distinct from wanted.name
  ) member left join lateral (
    select r.takes_out, r.moves_state, coalesce(r.host_group, member.host_group) as joins,
      r.moves_state and r.target = 'ACTIVE' as deploys,
      r.state <> 'QUEUED' or r.wait_reason is not null or r.wait_for is not null as started
    from runs r where r.node_id = member.id and r.finished_at is null
  ) work on true`;
};

/** Whether a member is one of the group when its work has ended. */
const STAYS = sql`coalesce(work.joins, member.host_group) = member.group_name`;

/** The counts of groups by key. */
export async function groupCounts(reader: Reader, keys: readonly string[]): Promise<(key: string) => GroupCounts> {
  const unique = [...new Set(keys)];
  if (unique.length === 0) return () => NO_NODES;
  const count = (condition: ReturnType<typeof sql>) => sql`(count(*) filter (where ${condition}))::int`;
  const rows = await reader.execute<GroupCounts & { readonly key: string }>(sql`
    select member.key,
      ${count(STAYS)} as total,
      ${count(sql`${STAYS} and member.state = 'ACTIVE' and work.moves_state is not true`)} as active,
      ${count(sql`${STAYS} and work.deploys`)} as coming,
      ${count(sql`member.host_group = member.group_name and member.serves and not coalesce(work.takes_out is not null and work.started, false)`)} as "inService",
      ${count(sql`${STAYS} and (work.deploys or work.takes_out = 'RETURNS') and (work.started or work.takes_out is null)`)} as returning
    from ${MEMBERS(unique)} group by member.key`);
  const byKey = new Map([...rows].map(({ key, ...counts }) => [key, counts]));
  return (key) => byKey.get(key) ?? NO_NODES;
}

/** Names of the nodes of groups that are not ACTIVE and that no unfinished work deploys, in their order. */
export async function missingMembers(reader: Reader, keys: readonly string[]): Promise<string[]> {
  if (keys.length === 0) return [];
  const rows = await reader.execute<{ name: string }>(
    sql`select member.name from ${MEMBERS(keys)} where ${STAYS} and member.state <> 'ACTIVE' and work.deploys is not true order by natural_key(member.name)`,
  );
  return [...rows].map(({ name }) => name);
}

/** The host groups of the nodes of each cluster, by name. */
export async function hostGroupNames(reader: Reader, clusterIds: readonly string[]): Promise<Map<string, string[]>> {
  if (clusterIds.length === 0) return new Map();
  const rows = await reader
    .selectDistinct({ clusterId: nodes.clusterId, name: nodes.hostGroup })
    .from(nodes)
    .where(sql`${inArrayParam(nodes.clusterId, clusterIds)} and ${nodes.hostGroup} is not null`)
    .orderBy(nodes.hostGroup);
  const byCluster = Map.groupBy(rows, ({ clusterId }) => clusterId ?? "");
  return new Map([...byCluster].map(([id, found]) => [id, found.flatMap(({ name }) => name ?? [])]));
}

/** Whether a node of the cluster is ACTIVE that is not among these. */
export async function isOtherActive(reader: Reader, clusterId: string, nodeIds: readonly string[]): Promise<boolean> {
  const isOther = not(inArrayParam(nodes.id, nodeIds));
  return hasRow(reader, nodes, and(eq(nodes.clusterId, clusterId), eq(nodes.state, "ACTIVE"), isOther));
}

/** Any number that other advisory locks with two keys do not use. */
const BUDGET_LOCKS = 7_214_913;

/**
 * Locks the budgets of groups until the end of the transaction, in one order, so that what is counted afterwards stays.
 * A transaction that holds one waits for no lock of a node or an operation.
 */
export async function lockBudgets(tx: Tx, keys: readonly string[]): Promise<void> {
  if (keys.length === 0) return;
  await tx.execute(
    sql`select pg_advisory_xact_lock(${BUDGET_LOCKS}, lock) from (select distinct hashtext(key) as lock from unnest(${textArray(keys)}::text[]) key order by 1) locks`,
  );
}
