/** Clusters: their names, settings and members. A cluster that is deploying or stopping cannot be changed. */
import { randomUUID } from "node:crypto";
import { RefusalError } from "../../errors.ts";
import { isUuid } from "../../runtime/uuid.ts";
import type { Refusal } from "../../errors.ts";
import {
  clusterByName,
  deleteCluster as removeCluster,
  insertCluster,
  lockCluster,
  updateCluster as changeCluster,
} from "../../store/nodes/clusters.ts";
import { keepImage } from "../../store/images.ts";
import type { ImageRef } from "../../store/images.ts";
import { SECRETS } from "../../store/secrets/secrets.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import { lockNodes, nodeKeys, changeNodeRows } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Tx } from "../../store/postgres/database.ts";
import { idsOf, nodeIdsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import { changedFields } from "../input/changed-fields.ts";
import { requireFreeName, requireNone, requireRevision } from "../input/edits.ts";
import { listed, nameFlaw } from "../input/name-rules.ts";
import { findCluster, selectNodes, unknownCluster } from "../input/node-selector.ts";
import type { ClusterRef, NodeSelector } from "../input/node-selector.ts";
import { editOf } from "../audit/edits.ts";
import { sizeFlaws } from "../input/size-limits.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { countedRefs } from "../input/answers.ts";
import { unknownImages } from "../input/unknown-images.ts";
import { missingNodes } from "../input/unknown-nodes.ts";
import { levelFlaws } from "../input/output-references.ts";
import { clusterLockRefusals } from "./cluster-lock.ts";
import { hostGroupFlaws, keptReferenceFlaws, storedGroups } from "./host-groups.ts";
import type { GivenHostGroup } from "./host-groups.ts";
import { secretNames, variablesOverlay } from "./stored-variables.ts";

interface ClusterChange {
  readonly ifRevision?: number | undefined;
  readonly name?: string | undefined;
  /** Laid over the settings as they are; null removes a key. */
  readonly variables?: unknown;
  /** Replaces all of them. The variables of a group are laid over those of the present one of the same name. */
  readonly hostGroups?: readonly GivenHostGroup[] | undefined;
  /** Null: none. */
  readonly image?: ImageRef | null | undefined;
  readonly add?: NodeSelector | undefined;
  readonly remove?: NodeSelector | undefined;
}

interface NewCluster extends Pick<ClusterChange, "variables" | "hostGroups" | "image"> {
  readonly name: string;
  readonly nodes?: NodeSelector | undefined;
}

/** Paths in a request. */
const VARIABLES = ["input", "variables"];
const HOST_GROUPS = ["input", "hostGroups"];

const ELSEWHERE = "in another cluster already. Remove each node from its cluster first.";

export type ClusterEdited = { readonly clusterId: string | null; readonly refusals: readonly Refusal[] };

export async function createCluster(context: EngineContext, caller: Caller, given: NewCluster): Promise<ClusterEdited> {
  requireNone(flawsOf(given));
  return context.transact(async (transaction) => {
    const id = randomUUID();
    const { settings, flaws } = await storedSettings(transaction, context, given, {
      id,
      variables: {},
      hostGroups: {},
    });
    const add = given.nodes && { nodes: given.nodes, path: ["input", "nodes"] };
    const members = await selectMembers(transaction, { id, name: given.name }, { add });
    requireNone([...flaws, ...members.flaws]);
    const row = { id, name: given.name, project: caller.project, variables: {}, imageId: null, ...settings };
    requireFreeName("A cluster", await clusterByName(transaction.tx, given.name));
    await insertCluster(transaction.tx, row);
    const { added } = await changeMembers(transaction, id, members);
    const edits = editOf(given.name, null, { imageId: null, ...settings }, secretsIn(context, settings));
    transaction.audit(caller, { targets: [given.name, ...added], edits });
    return { clusterId: id, refusals: [] };
  });
}

export async function updateCluster(
  context: EngineContext,
  caller: Caller,
  ref: ClusterRef,
  change: ClusterChange,
): Promise<ClusterEdited> {
  const { name } = change;
  requireNone(flawsOf(change));
  return context.transact(async (transaction) => {
    const cluster = await lockKnown(transaction, ref, change.ifRevision);
    const { settings, flaws } = await storedSettings(transaction, context, change, cluster);
    const members = await selectMembers(transaction, cluster, {
      remove: change.remove && { nodes: change.remove, path: ["input", "remove"] },
      add: change.add && { nodes: change.add, path: ["input", "add"] },
    });
    requireNone([...flaws, ...members.flaws]);
    if (name !== undefined) requireFreeName("A cluster", await clusterByName(transaction.tx, name), cluster.id);
    const changed = changedFields<ClusterRow>(cluster, { name, ...settings });
    if (changed || change.remove || change.add) await changeCluster(transaction.tx, cluster.id, changed ?? {});
    const { removed, added } = await changeMembers(transaction, cluster.id, members);
    const secrets = [cluster, settings].flatMap((one) => secretsIn(context, one));
    const edits = editOf(cluster.name, cluster, { ...cluster, ...changed }, secrets);
    transaction.audit(caller, { targets: [cluster.name, ...removed, ...added], edits });
    return { clusterId: cluster.id, refusals: [] };
  });
}

/** Deletes a cluster; its nodes stay, in no cluster. */
export async function deleteCluster(
  context: EngineContext,
  caller: Caller,
  ref: ClusterRef,
  ifRevision: number | undefined,
): Promise<ClusterEdited> {
  return context.transact(async (transaction) => {
    const cluster = await lockKnown(transaction, ref, ifRevision);
    const members = await nodeKeys(transaction.tx, { clusterId: cluster.id });
    await lockNodes(transaction.tx, idsOf(members));
    await changeNodeRows(transaction.tx, idsOf(members), { clusterId: null });
    await removeCluster(transaction.tx, cluster.id);
    transaction.audit(caller, { targets: [cluster.name, ...members.map(({ name }) => name)] });
    return { clusterId: null, refusals: [] };
  });
}

function flawsOf({ name, variables, hostGroups = [] }: ClusterChange): Refusal[] {
  return [
    ...nameFlaw(name, ["input", "name"]),
    ...levelFlaws(variables, VARIABLES),
    ...hostGroupFlaws(hostGroups, HOST_GROUPS),
  ];
}

type ClusterSettings = Partial<Pick<ClusterRow, "variables" | "hostGroups" | "imageId">>;

/** The given settings as the cluster stores them, and what is wrong with them. An absent one stays. */
async function storedSettings(
  { tx }: Transaction,
  context: EngineContext,
  { variables: given, hostGroups: groups, image }: Pick<ClusterChange, "variables" | "hostGroups" | "image">,
  present: Pick<ClusterRow, "id" | "variables" | "hostGroups">,
): Promise<{ readonly settings: ClusterSettings; readonly flaws: readonly Refusal[] }> {
  const laidOver = await variablesOverlay(tx, context, SECRETS.clusterVariables, given);
  const variables = laidOver(present.id, present.variables);
  const hostGroups = groups && (await storedGroups(tx, context, groups, present));
  const imageId = image && (await knownImage(tx, image));
  const flaws = [
    ...sizeFlaws("The variables together with those of the cluster", variables, VARIABLES, present.variables),
    ...sizeFlaws("The host groups", hostGroups, HOST_GROUPS, present.hostGroups),
    ...(groups && hostGroups ? keptReferenceFlaws(groups, hostGroups, HOST_GROUPS) : []),
    ...(image && !imageId ? [unknownImages([image], ["input", "image"])] : []),
  ];
  const isGiven = imageId !== undefined;
  return {
    settings: { ...(variables && { variables }), ...(hostGroups && { hostGroups }), ...(isGiven && { imageId }) },
    flaws,
  };
}

/** The id of an image, which is kept until the commit. */
async function knownImage(tx: Tx, ref: ImageRef): Promise<string | undefined> {
  return "id" in ref && !isUuid(ref.id) ? undefined : (await keepImage(tx, ref))?.id;
}

/** Names of the variables that are secret. */
function secretsIn(context: EngineContext, { variables, hostGroups }: ClusterSettings): string[] {
  return secretNames(context, variables, ...Object.values(hostGroups ?? {}).map((group) => group.variables));
}

/** The cluster, locked; refused while an operation deploys or stops on it. */
async function lockKnown({ tx }: Transaction, ref: ClusterRef, ifRevision: number | undefined): Promise<ClusterRow> {
  const id = await findCluster(tx, ref);
  const cluster = id === null ? undefined : await lockCluster(tx, id);
  if (!cluster) throw new RefusalError(unknownCluster(ref, ["input", "cluster"]).refusals);
  requireRevision(`Cluster ${cluster.name}`, cluster.revision, ifRevision);
  requireNone(await clusterLockRefusals(tx, [cluster.id], () => ["input", "cluster"]));
  return cluster;
}

/** Nodes as a request selects them, and where it does. */
interface Selected {
  readonly nodes: NodeSelector;
  readonly path: readonly string[];
}

interface Members {
  readonly coming: readonly NodeRow[];
  readonly leaving: readonly NodeRow[];
  readonly flaws: readonly Refusal[];
}

/** The nodes to add and to remove, locked. They are all selected among the members as they are before. */
async function selectMembers(
  { tx }: Transaction,
  { id: clusterId, name }: Pick<ClusterRow, "id" | "name">,
  { add, remove }: { readonly add?: Selected | undefined; readonly remove?: Selected | undefined },
): Promise<Members> {
  const [leaving, coming] = [await lockSelected(tx, remove), await lockSelected(tx, add)];
  const comingIds = new Set(idsOf(coming.nodes));
  const strangers = leaving.nodes.filter((node) => node.clusterId !== clusterId);
  const elsewhere = coming.nodes.filter((node) => node.clusterId !== null && node.clusterId !== clusterId);
  const both = leaving.nodes.filter(({ id }) => comingIds.has(id));
  const [inAdd, inRemove] = [add?.path ?? [], remove?.path ?? []];
  const flaws = [
    ...leaving.refusals,
    ...coming.refusals,
    ...refusalOf("NOT_FOUND", strangers, { path: inRemove, what: `not in cluster ${name}.` }),
    ...refusalOf("INVALID_STATE", elsewhere, { path: inAdd, what: ELSEWHERE }),
    ...refusalOf("INVALID_INPUT", both, { path: inAdd, what: "both added and removed. Name each once." }),
  ];
  return { coming: coming.nodes, leaving: leaving.nodes, flaws };
}

/** Adds and removes the nodes, and returns their names. */
async function changeMembers(
  { tx }: Transaction,
  clusterId: string,
  { coming, leaving }: Members,
): Promise<{ readonly added: string[]; readonly removed: string[] }> {
  await changeNodeRows(tx, idsOf(leaving), { clusterId: null });
  await changeNodeRows(tx, idsOf(coming.filter((node) => node.clusterId === null)), { clusterId });
  return { added: coming.map(({ name }) => name), removed: leaving.map(({ name }) => name) };
}

async function lockSelected(
  tx: Tx,
  selected: Selected | undefined,
): Promise<{ readonly nodes: readonly NodeRow[]; readonly refusals: readonly Refusal[] }> {
  if (!selected) return { nodes: [], refusals: [] };
  const found = await selectNodes(tx, selected.nodes, { path: selected.path, lockIn: tx });
  if ("refusals" in found) return { nodes: [], refusals: found.refusals };
  return { nodes: await lockNodes(tx, nodeIdsOf(found.nodes)), refusals: [] };
}

/** The refusal of nodes, if there are any. */
function refusalOf(
  code: "NOT_FOUND" | "INVALID_STATE" | "INVALID_INPUT",
  nodes: readonly NodeRow[],
  { path, what }: { readonly path: readonly string[]; readonly what: string },
): Refusal[] {
  if (nodes.length === 0) return [];
  const names = nodes.map(({ name }) => name).toSorted();
  const message = `${listed(names)} ${names.length === 1 ? "is" : "are"} ${what}`;
  if (code === "NOT_FOUND") return [missingNodes(names, message, path)];
  const refs = names.length > 1 ? { nodes: countedRefs(names) } : {};
  return [{ code, message, path, ...(nodes[0] && { nodeId: nodes[0].id }), ...refs }];
}
