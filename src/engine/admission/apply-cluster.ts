/**
 * `applyCluster`: brings nodes of a cluster to what it wants now, in one operation. Unfinished work is prepared as a
 * restart prepares it; what else is wanted of each node is decided under its lock (wanted-work.ts).
 */
import { invalidInput } from "../../errors.ts";
import type { Refusal, Refused } from "../../errors.ts";
import { kindOf } from "../../lifecycle/machine.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import { imagesByIds } from "../../store/images.ts";
import type { ImageRef } from "../../store/images.ts";
import { clustersByIds, clustersOfNodes } from "../../store/nodes/clusters.ts";
import { deploymentsOf } from "../../store/nodes/node-deployments.ts";
import { nodesByIds, nodeStatesByIds } from "../../store/nodes/nodes.ts";
import { operationsByIds } from "../../store/operations/operations.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { newestWork } from "../../store/runs/runs.ts";
import { NO_VARIABLES } from "../../store/secrets/secrets.ts";
import type { EngineContext } from "../context.ts";
import { refuseRequest } from "../input/answers.ts";
import type { SubmitAnswer } from "../input/answers.ts";
import { idsOf, nodeIdsOf } from "../input/ids.ts";
import { listed } from "../input/name-rules.ts";
import { findCluster, selectKnownNodes, selectNodes, unknownCluster } from "../input/node-selector.ts";
import type { ClusterRef, NodeSelector, Selection } from "../input/node-selector.ts";
import { missingNodes } from "../input/unknown-nodes.ts";
import type { Caller } from "../transaction.ts";
import { submitPrepared } from "./admit.ts";
import { isRestartable } from "./earlier-work.ts";
import { inputOf, replayOf } from "./idempotency.ts";
import type { RequestTerms } from "./request-terms.ts";
import { earlierWork } from "./restart.ts";
import type { TakenNode } from "./restart.ts";
import type { Submission } from "./submission.ts";

export interface ApplyRequest extends RequestTerms {
  readonly cluster: ClusterRef;
  /** Default: all nodes of the cluster. */
  readonly nodes?: NodeSelector | undefined;
  /** In place of the image of the cluster. */
  readonly image?: ImageRef | undefined;
  /** In place of that of the image; null for none. A secret. */
  readonly userData?: string | null | undefined;
  /** Install again on ACTIVE nodes that only this brings to what the cluster wants. */
  readonly reinstall?: boolean | undefined;
  readonly force?: boolean | undefined;
}

export async function applyCluster(
  context: EngineContext,
  caller: Caller,
  request: ApplyRequest,
): Promise<SubmitAnswer> {
  const input = await inputOf(request, { kind: "APPLY" }, context.registry.secretVariables);
  const terms: RequestTerms = { ...request, acceptance: request.acceptance ?? "BEST_EFFORT" };
  const prepared = await context.transact(async ({ tx }) => {
    const found = await prepare(tx, request);
    if (!("refusals" in found)) return found;
    // Checked last, as in a restart.
    return { answer: (await replayOf(tx, caller, terms, input.isSameInput)) ?? refuseRequest(found.refusals) };
  });
  if ("answer" in prepared) return prepared.answer;
  return submitPrepared(context, { caller, terms, ...input, submissions: [prepared] });
}

const CLUSTER_PATH = ["input", "cluster"];
const NODES_PATH = ["input", "nodes"];

async function prepare(reader: Reader, request: ApplyRequest): Promise<Submission | Refused> {
  const { onFailure, waves, maxParallel, userData, reinstall, force } = request;
  const id = await findCluster(reader, request.cluster);
  const [cluster] = id === null ? [] : await clustersByIds(reader, [id]);
  if (!cluster) return unknownCluster(request.cluster, CLUSTER_PATH);
  const selection = await selectMembers(reader, cluster, request.nodes);
  if ("refusals" in selection) return selection;
  const nodes = await nodeStatesByIds(reader, nodeIdsOf(selection.nodes));
  const unfinished = await unfinishedWork(reader, idsOf(nodes.filter(({ state }) => isUnfinished(state))));
  const named = request.image ?? (cluster.imageId === null ? null : { id: cluster.imageId });
  const installed = idsOf(nodes.filter(({ state }) => reinstall || state !== "ACTIVE"));
  const earlier = await earlierWork(reader, unfinished);
  return {
    kind: "APPLY",
    options: { ...(reinstall && { reinstall }), ...(force && { force }) },
    restarts: null,
    rollout: { onFailure, waves, maxParallel },
    earlier: NO_VARIABLES,
    image: named ?? (await commonImage(reader, installed, unfinished)),
    userData,
    select: () => Promise.resolve(selection),
    applied: { clusterId: cluster.id, clusterName: cluster.name, namesImage: named !== null },
    earlierOf: ({ id: nodeId, state }) => (isUnfinished(state) ? (earlier.get(nodeId) ?? null) : null),
  };
}

function isUnfinished(state: NodeState): boolean {
  return state === "STOPPED" || kindOf(state) === "failed";
}

/**
 * The selected members of the cluster. Nodes that are named have to be members; of those that a filter selects, the
 * members count.
 */
async function selectMembers(
  reader: Reader,
  { id: clusterId, name }: { readonly id: string; readonly name: string },
  nodes: NodeSelector | undefined,
): Promise<Selection | Refused> {
  if (!nodes) return selectNodes(reader, { cluster: { id: clusterId } }, { path: ["input"] });
  if ("pick" in nodes) {
    const message = "A pick takes free nodes. Select members of the cluster, or leave `nodes` out for all of them.";
    return { refusals: [invalidInput(message, [...NODES_PATH, "pick"])] };
  }
  const found = await selectKnownNodes(reader, nodes, NODES_PATH);
  if ("refusals" in found) return found;
  const clusterOf = await clustersOfNodes(reader, nodeIdsOf(found.nodes));
  const isMember = ({ nodeId }: { readonly nodeId: string }) => clusterOf.get(nodeId) === clusterId;
  const members = found.nodes.filter(isMember);
  const strangers = found.nodes.filter((node) => !isMember(node)).map(({ ref }) => ref);
  const message = `${listed(strangers)} ${strangers.length === 1 ? "is" : "are"} not in cluster ${name}.`;
  const isNamed = !("filter" in nodes) && !("all" in nodes);
  const refusals: readonly Refusal[] = [
    ...(found.unknown ? [found.unknown] : []),
    ...(isNamed && strangers.length > 0 ? [missingNodes(strangers, message, NODES_PATH)] : []),
  ];
  if (refusals.length > 0) return { refusals };
  if (members.length === 0) return { refusals: [invalidInput(`No node of cluster ${name} is selected.`, NODES_PATH)] };
  return { nodes: members, clusterId };
}

/** The newest work of nodes, if it was to put them in service. */
async function unfinishedWork(reader: Reader, nodeIds: readonly string[]): Promise<TakenNode[]> {
  const runs = (await newestWork(reader, nodeIds, null)).filter((run) => isRestartable(run) && run.target === "ACTIVE");
  const nodes = new Map((await nodesByIds(reader, nodeIdsOf(runs))).map((node) => [node.id, node]));
  return runs.flatMap((run): TakenNode[] => {
    const node = nodes.get(run.nodeId);
    return node ? [{ ref: node.name, node, run }] : [];
  });
}

/**
 * The image to install where neither the request nor the cluster names one: that of the unfinished work, or else of the
 * last deployment, if it is the same for all of these nodes. Null if it is not, or was deleted.
 */
async function commonImage(
  reader: Reader,
  nodeIds: readonly string[],
  taken: readonly TakenNode[],
): Promise<ImageRef | null> {
  const operations = await operationsByIds(reader, [...new Set(taken.map(({ run }) => run.operationId))]);
  const imageOf = new Map(operations.map((operation) => [operation.id, operation.imageId]));
  const unfinished = new Map(taken.map(({ node, run }) => [node.id, imageOf.get(run.operationId) ?? null]));
  const deployments = await deploymentsOf(reader, nodeIds);
  const ids = nodeIds.flatMap((id) => unfinished.get(id) ?? deployments.get(id)?.system?.image?.id ?? []);
  const [first, ...others] = await imagesByIds(reader, [...new Set(ids)]);
  return first && others.length === 0 ? { id: first.id } : null;
}
