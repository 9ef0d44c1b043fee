/** Clusters: their names, settings and members. A cluster that is deploying or stopping cannot be changed. */
import { randomUUID } from "node:crypto";
import { RefusalError } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { violatedConstraint } from "../../store/postgres/connection-errors.ts";
import {
  deleteCluster as removeCluster,
  insertCluster,
  lockCluster,
  updateCluster as changeCluster,
} from "../../store/nodes/clusters.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import { lockNodes, nodeKeys, changeNodeRows } from "../../store/nodes/nodes.ts";
import type { EngineContext } from "../context.ts";
import { changedFields } from "../input/changed-fields.ts";
import { listed, nameFlaw } from "../input/name-rules.ts";
import { findCluster, selectNodes, unknownCluster } from "../input/node-selector.ts";
import type { ClusterRef, NodeSelector } from "../input/node-selector.ts";
import { sizeFlaws } from "../input/size-limits.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { countedRefs } from "../input/answers.ts";
import { missingNodes } from "../input/unknown-nodes.ts";
import { isJsonObject, overlay, variablesFlaws } from "../input/variables.ts";
import { clusterLockRefusals } from "./cluster-lock.ts";

export interface NewCluster {
  readonly name: string;
  readonly variables?: unknown;
  readonly nodes?: NodeSelector | undefined;
}

export interface ClusterChange {
  readonly ifRevision?: number | undefined;
  readonly name?: string | undefined;
  /** Laid over the settings as they are; null removes a key. */
  readonly variables?: unknown;
  readonly add?: NodeSelector | undefined;
  readonly remove?: NodeSelector | undefined;
}

/** Path of the variables in a request. */
const VARIABLES = ["input", "variables"];

export type ClusterEdited = { readonly clusterId: string | null; readonly refusals: readonly Refusal[] };

export async function createCluster(
  { transact }: EngineContext,
  caller: Caller,
  given: NewCluster,
): Promise<ClusterEdited> {
  const flaws = [...nameFlaw(given.name, ["input", "name"]), ...variablesFlaws(given.variables, VARIABLES)];
  if (flaws.length > 0) return { clusterId: null, refusals: flaws };
  return editCluster(given.name, () =>
    transact(async (transaction) => {
      const id = randomUUID();
      await insertCluster(transaction.tx, {
        id,
        name: given.name,
        project: caller.project,
        variables: isJsonObject(given.variables) ? overlay(given.variables) : {},
      });
      if (given.nodes) await addNodes(transaction, id, given.nodes, ["input", "nodes"]);
      return { clusterId: id, refusals: [] };
    }),
  );
}

export async function updateCluster(
  { transact }: EngineContext,
  _caller: Caller,
  ref: ClusterRef,
  change: ClusterChange,
): Promise<ClusterEdited> {
  const flaws = [
    ...(change.name === undefined ? [] : nameFlaw(change.name, ["input", "name"])),
    ...variablesFlaws(change.variables, VARIABLES),
  ];
  if (flaws.length > 0) return { clusterId: null, refusals: flaws };
  return editCluster(change.name ?? "", () =>
    transact(async (transaction) => {
      const cluster = await lockKnown(transaction, ref, change.ifRevision);
      await refuseLocked(transaction, cluster);
      const variables = isJsonObject(change.variables) ? overlay(cluster.variables, change.variables) : undefined;
      const tooLarge = sizeFlaws(
        "The variables together with those of the cluster",
        variables,
        VARIABLES,
        cluster.variables,
      );
      if (tooLarge.length > 0) throw new RefusalError(tooLarge);
      const changed = changedFields<ClusterRow>(cluster, {
        ...(change.name !== undefined && { name: change.name }),
        ...(variables && { variables }),
      });
      if (changed || change.remove || change.add) await changeCluster(transaction.tx, cluster.id, changed ?? {});
      if (change.remove) await removeNodes(transaction, cluster, change.remove);
      if (change.add) await addNodes(transaction, cluster.id, change.add, ["input", "add"]);
      return { clusterId: cluster.id, refusals: [] };
    }),
  );
}

/** Deletes a cluster; its nodes stay, in no cluster. */
export async function deleteCluster(
  { transact }: EngineContext,
  _caller: Caller,
  ref: ClusterRef,
  ifRevision: number | undefined,
): Promise<ClusterEdited> {
  return editCluster("", () =>
    transact(async (transaction) => {
      const cluster = await lockKnown(transaction, ref, ifRevision);
      await refuseLocked(transaction, cluster);
      const members = await nodeKeys(transaction.tx, { clusterId: cluster.id });
      await lockNodes(
        transaction.tx,
        members.map(({ id }) => id),
      );
      await changeNodeRows(
        transaction.tx,
        members.map(({ id }) => id),
        { clusterId: null },
      );
      await removeCluster(transaction.tx, cluster.id);
      return { clusterId: null, refusals: [] };
    }),
  );
}

/** Carries out a change, and turns refusals that it throws into the answer. `name`: the new name of the cluster. */
async function editCluster(name: string, change: () => Promise<ClusterEdited>): Promise<ClusterEdited> {
  try {
    return await change();
  } catch (error) {
    if (error instanceof RefusalError) return { clusterId: null, refusals: error.refusals };
    if (violatedConstraint(error)?.startsWith("clusters_name")) {
      return {
        clusterId: null,
        refusals: [{ code: "INVALID_INPUT", message: `A cluster ${name} exists already.`, path: ["input", "name"] }],
      };
    }
    throw error;
  }
}

async function lockKnown(
  transaction: Transaction,
  ref: ClusterRef,
  ifRevision: number | undefined,
): Promise<ClusterRow> {
  const id = await findCluster(transaction.tx, ref);
  const cluster = id === null ? undefined : await lockCluster(transaction.tx, id);
  if (!cluster) throw new RefusalError(unknownCluster(ref, ["input", "cluster"]).refusals);
  if (ifRevision !== undefined && ifRevision !== cluster.revision) {
    throw new RefusalError([
      {
        code: "STALE_REVISION",
        message: `Cluster ${cluster.name} is at revision ${cluster.revision}, not ${ifRevision}. Read it again and repeat the change.`,
        path: ["input", "ifRevision"],
      },
    ]);
  }
  return cluster;
}

async function refuseLocked(transaction: Transaction, cluster: ClusterRow): Promise<void> {
  const refusals = await clusterLockRefusals(transaction.tx, [cluster.id], () => ["input", "cluster"]);
  if (refusals.length > 0) throw new RefusalError(refusals);
}

async function addNodes(
  transaction: Transaction,
  clusterId: string,
  selector: NodeSelector,
  path: readonly string[],
): Promise<void> {
  const found = await selectNodes(transaction.tx, selector, { path, lockIn: transaction.tx });
  if ("refusals" in found) throw new RefusalError(found.refusals);
  const nodes = await lockNodes(
    transaction.tx,
    found.nodes.map(({ nodeId }) => nodeId),
  );
  const elsewhere = nodes.filter((node) => node.clusterId !== null && node.clusterId !== clusterId);
  if (elsewhere.length > 0) {
    const names = elsewhere.map(({ name }) => name).toSorted();
    const [verb, them] = names.length === 1 ? ["is", "it"] : ["are", "them"];
    throw new RefusalError([
      {
        code: "INVALID_STATE",
        message: `${listed(names)} ${verb} in another cluster already. Remove ${them} from that cluster first.`,
        path,
        ...(elsewhere[0] && { nodeId: elsewhere[0].id }),
        ...(names.length > 1 && { nodes: countedRefs(names) }),
      },
    ]);
  }
  await changeNodeRows(
    transaction.tx,
    nodes.filter((node) => node.clusterId === null).map(({ id }) => id),
    { clusterId },
  );
}

async function removeNodes(transaction: Transaction, cluster: ClusterRow, selector: NodeSelector): Promise<void> {
  const found = await selectNodes(transaction.tx, selector, { path: ["input", "remove"], lockIn: transaction.tx });
  if ("refusals" in found) throw new RefusalError(found.refusals);
  const nodes = await lockNodes(
    transaction.tx,
    found.nodes.map(({ nodeId }) => nodeId),
  );
  const others = nodes
    .filter((node) => node.clusterId !== cluster.id)
    .map(({ name }) => name)
    .toSorted();
  if (others.length > 0) {
    const message = `${listed(others)} ${others.length === 1 ? "is" : "are"} not in cluster ${cluster.name}.`;
    throw new RefusalError([missingNodes(others, message, ["input", "remove"])]);
  }
  await changeNodeRows(
    transaction.tx,
    nodes.map(({ id }) => id),
    { clusterId: null },
  );
}
