/**
 * The lock of clusters: while an operation deploys or stops on a cluster, neither its settings nor its members change.
 * Every request that adds, removes, registers, discovers or deletes a member asks here.
 */
import type { Refusal } from "../../errors.ts";
import { clusterState, isLocked } from "../../lifecycle/cluster-state.ts";
import { clustersByIds } from "../../store/nodes/clusters.ts";
import { workOnClusters } from "../../store/operations/operation-lists.ts";
import type { Reader } from "../../store/postgres/database.ts";

/** A refusal for each of the clusters that is locked. `pathOf`: the input that names the cluster. */
export async function clusterLockRefusals(
  reader: Reader,
  clusterIds: readonly string[],
  pathOf: (clusterId: string) => readonly string[],
): Promise<Refusal[]> {
  return [...(await clusterLocks(reader, clusterIds))].map(([id, refusal]) => ({ ...refusal, path: pathOf(id) }));
}

/** Why clusters are locked, by ID; those that are not are missing. */
export async function clusterLocks(reader: Reader, clusterIds: readonly string[]): Promise<Map<string, Refusal>> {
  const work = Map.groupBy(await workOnClusters(reader, clusterIds), ({ clusterId }) => clusterId);
  const locked = (await clustersByIds(reader, [...work.keys()])).flatMap(({ id, name }): [string, Refusal][] => {
    const running = work.get(id) ?? [];
    const state = clusterState({ nodes: [], work: running });
    const [first] = running;
    if (!first || !isLocked(state)) return [];
    const message = `Cluster ${name} is ${state}. Wait for operation ${first.operationId}, or ${state === "STOPPING" ? "abort" : "stop"} it, before you change the cluster or its nodes.`;
    return [[id, { code: "CLUSTER_LOCKED", message, operationId: first.operationId }]];
  });
  return new Map(locked);
}
