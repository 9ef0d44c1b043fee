/**
 * Host groups at the turn of a node: which groups of an operation may begin nodes now, and which can no longer.
 * lifecycle/host-groups.ts decides. Nothing is stored of a wait: whenever runs of the operation end, and every two
 * seconds (slot-scheduler.ts), the groups are counted again, so that work of other operations is seen too.
 */
import { failuresMax, minimumOf, spareOf, unmetOf, unmetText } from "../../lifecycle/host-groups.ts";
import type { GroupCounts, GroupRules } from "../../lifecycle/host-groups.ts";
import { clustersByIds } from "../../store/nodes/clusters.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import { groupCounts, groupKey, groupOfKey, lockBudgets, missingMembers } from "../../store/nodes/host-groups.ts";
import { countFailed, hasQueued, lockHeldRuns } from "../../store/operations/operation-runs.ts";
import type { ClosedGroups } from "../../store/operations/operation-runs.ts";
import type { OperationRow } from "../../store/operations/operations.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { Failure, OperationGroups } from "../../store/records.ts";
import { finishRuns } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { listed, nodesText } from "../input/name-rules.ts";
import type { Transaction } from "../transaction.ts";
import { newFailure } from "../input/failures.ts";

/** The rules of host groups, and the counts of their nodes, by key. */
export interface GroupStanding {
  readonly rulesOf: (key: string) => GroupRules;
  readonly countsOf: (key: string) => GroupCounts;
}

const NO_RULES: GroupRules = {};

/** The rules of these groups, by key. */
export function rulesIn(clusters: readonly ClusterRow[]): (key: string) => GroupRules {
  const byId = new Map(clusters.map((cluster) => [cluster.id, cluster.hostGroups]));
  return (key) => {
    const { clusterId, group } = groupOfKey(key);
    const groups = byId.get(clusterId) ?? {};
    return Object.hasOwn(groups, group) ? (groups[group] ?? NO_RULES) : NO_RULES;
  };
}

/** Counts the groups that these ones wait for, and those with a budget. */
export async function readStanding(
  reader: Reader,
  rulesOf: GroupStanding["rulesOf"],
  { deployed, budgeted }: OperationGroups,
): Promise<GroupStanding> {
  const awaited = deployed.flatMap((key) => (rulesOf(key).after ?? []).map(({ group }) => neighbour(key, group)));
  return { rulesOf, countsOf: await groupCounts(reader, [...awaited, ...budgeted]) };
}

/** The key of another group of the same cluster. */
export function neighbour(key: string, group: string): string {
  return groupKey(groupOfKey(key).clusterId, group);
}

/** The requirements of a group that do not hold. */
export function unmetFor({ rulesOf, countsOf }: GroupStanding, key: string) {
  return unmetOf(rulesOf(key), (group) => countsOf(neighbour(key, group)));
}

/** The rules as they are now. */
async function rulesNow(reader: Reader, { deployed, budgeted }: OperationGroups): Promise<GroupStanding["rulesOf"]> {
  const ids = [...deployed, ...budgeted].map((key) => groupOfKey(key).clusterId);
  return rulesIn(await clustersByIds(reader, [...new Set(ids)]));
}

/** Groups that may begin no node now, and how many more nodes of the others may be taken out of service. */
export interface Gates {
  readonly closed: ClosedGroups;
  readonly spare: ReadonlyMap<string, number>;
}

/** The gates of an operation's groups. Its budgets stay locked; null if it has no groups. */
export async function readGates({ tx }: Transaction, { groups }: Pick<OperationRow, "groups">): Promise<Gates | null> {
  if (groups === null) return null;
  await lockBudgets(tx, groups.budgeted);
  const standing = await readStanding(tx, await rulesNow(tx, groups), groups);
  const spare = new Map(groups.budgeted.map((key) => [key, spareFor(standing, key)]));
  return {
    closed: {
      deployed: groups.deployed.filter((key) => unmetFor(standing, key).length > 0),
      budgeted: groups.budgeted.filter((key) => spare.get(key) === 0),
    },
    spare,
  };
}

export function spareFor({ rulesOf, countsOf }: GroupStanding, key: string): number {
  return spareOf(rulesOf(key), countsOf(key));
}

/** A group whose nodes can no longer begin, and why. */
interface LostGroup {
  readonly held: ClosedGroups;
  readonly code: "GROUP_REQUIRED" | "LAST_OF_GROUP";
  readonly reason: string;
}

/** Stops the queued runs of an operation whose groups can no longer begin. */
export async function stopLostRuns(transaction: Transaction, operation: OperationRow): Promise<void> {
  const { tx } = transaction;
  const { id, groups } = operation;
  if (groups === null) return;
  // The end of a group can be that of those which wait for it.
  while (await hasQueued(tx, id)) {
    const standing = await readStanding(tx, await rulesNow(tx, groups), groups);
    let isOver = true;
    for (const { held, code, reason } of await lostGroups(tx, standing, groups))
      for (const run of await lockHeldRuns(tx, id, held)) {
        await finishRuns(tx, [run.id], "STOPPED", { failure: failureOf(run, code, reason) });
        isOver = false;
      }
    if (isOver) return;
  }
}

async function lostGroups(reader: Reader, standing: GroupStanding, groups: OperationGroups): Promise<LostGroup[]> {
  const lost: LostGroup[] = [];
  for (const key of groups.deployed) {
    const unmet = unmetFor(standing, key).filter(({ mayHold }) => !mayHold);
    if (unmet.length === 0) continue;
    const missing = await missingMembers(
      reader,
      unmet.map(({ group }) => neighbour(key, group)),
    );
    const names = missing.length === 0 ? "" : `: ${listed(missing)}`;
    lost.push({
      held: { deployed: [key], budgeted: [] },
      code: "GROUP_REQUIRED",
      reason: `it needed ${unmetText(unmet)} ACTIVE, which can no longer be${names}`,
    });
  }
  for (const key of groups.budgeted) {
    const { returning } = standing.countsOf(key);
    if (spareFor(standing, key) > 0 || returning > 0) continue;
    lost.push({ held: { deployed: [], budgeted: [key] }, code: "LAST_OF_GROUP", reason: budgetText(standing, key) });
  }
  return lost;
}

/** The nodes of a group that have to stay in service, and those that are. */
export function budgetOf({ rulesOf, countsOf }: GroupStanding, key: string) {
  const { minActive = { count: 0 } } = rulesOf(key);
  const counts = countsOf(key);
  return { group: groupOfKey(key).group, needed: minimumOf(minActive, counts), active: counts.inService };
}

/** Why a node of a group cannot be taken out of service. */
export function budgetText(standing: GroupStanding, key: string): string {
  const { group, needed, active } = budgetOf(standing, key);
  return `host group ${group} has ${nodesText(active)} in service and needs ${needed}`;
}

function failureOf({ nodeId, nodeName }: RunRow, code: LostGroup["code"], reason: string): Failure {
  return newFailure({ code, message: `Node ${nodeName} was not begun: ${reason}.`, cause: reason, nodeId, nodeName });
}

/**
 * The meaning of a failure by the rules of the host group: null if they say nothing; TOLERATED; or the failure of
 * the operation that it causes.
 */
export async function toleranceOf(
  reader: Reader,
  { id, groups }: Pick<OperationRow, "id" | "groups">,
  { groupKey: key, failure }: Pick<RunRow, "groupKey"> & { readonly failure: Failure },
): Promise<"TOLERATED" | Failure | null> {
  if (groups === null || key === null) return null;
  const rules = (await rulesNow(reader, { deployed: [key], budgeted: [] }))(key);
  if (rules.tolerates === undefined) return null;
  const most = failuresMax(rules, (await groupCounts(reader, [key]))(key));
  const failed = await countFailed(reader, id, key);
  if (failed <= most) return "TOLERATED";
  const { group } = groupOfKey(key);
  const isCritical = most === 0;
  const why = isCritical
    ? `a node of host group ${group} failed, which tolerates none`
    : `${failed} nodes of host group ${group} failed, which tolerates ${most}`;
  return {
    ...failure,
    code: isCritical ? "CRITICAL_NODE_FAILED" : "TOLERANCE_EXCEEDED",
    message: `The operation was ended because ${why}. ${failure.message}`,
  };
}

/** Whether this failure ended an operation because a host group did not tolerate it. */
export function isToleranceFailure(failure: Failure | null): boolean {
  return failure?.code === "TOLERANCE_EXCEEDED" || failure?.code === "CRITICAL_NODE_FAILED";
}
