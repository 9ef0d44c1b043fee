/**
 * Pending changes: the nodes of clusters on which `applyCluster` would work, by reason. Nodes of which the same is
 * wanted are read as one, so that ten thousand take one statement.
 */
import { imagesByIds } from "../../store/images.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import { memberGroups } from "../../store/nodes/node-deployments.ts";
import type { MemberGroup, MembersOf } from "../../store/nodes/node-deployments.ts";
import { nameKey } from "../../store/names.ts";
import { nodesByIds } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { groupsOf } from "../../runtime/groups.ts";
import { SecretError } from "../../store/secrets/keyring.ts";
import { NO_VARIABLES, SECRETS, secretsOf } from "../../store/secrets/secrets.ts";
import { readSite } from "../../store/site.ts";
import type { EngineContext } from "../context.ts";
import { idsOf } from "../input/ids.ts";
import { clustersOf, effectiveVariables } from "./effective-variables.ts";
import { wantedWorkOf } from "./wanted-work.ts";
import type { WantedInstall, WantedWork } from "./wanted-work.ts";

export interface PendingGroup {
  readonly reason: string;
  readonly kind: Exclude<WantedWork["kind"], "NOTHING">;
  readonly nodeCount: number;
  /** The first ones by name. */
  readonly nodeIds: readonly string[];
}

export interface PendingChanges {
  readonly count: number;
  /** Largest first. */
  readonly groups: readonly PendingGroup[];
}

/** The pending changes of clusters that have any, by cluster. */
export async function pendingChanges(
  reader: Reader,
  context: Pick<EngineContext, "registry" | "keyring">,
  of: MembersOf,
): Promise<Map<string, PendingChanges>> {
  const groups = await memberGroups(reader, of);
  const examples = await nodesByIds(
    reader,
    groups.map(({ exampleId }) => exampleId),
  );
  const [site, clusters] = await Promise.all([readSite(reader), clustersOf(reader, examples)]);
  const request = { earlier: NO_VARIABLES, given: undefined, hostGroup: undefined };
  const [installOf, variablesOf] = await Promise.all([
    wantedInstalls(reader, context, clusters),
    effectiveVariables(reader, context, examples, { site, clusters, request }),
  ]);
  const wantedOf = await wantedWorkOf(reader, examples, {
    ...context,
    policy: site.policy,
    installOf,
    variablesOf,
    reinstall: false,
  });
  const nodes = new Map(examples.map((node) => [node.id, node]));
  const found = groups.flatMap(({ exampleId, count, first }) => {
    const node = nodes.get(exampleId);
    const wanted = node && wantedOf(node);
    return wanted && "reason" in wanted ? [{ clusterId: node.clusterId ?? "", wanted, count, first }] : [];
  });
  return new Map(groupsOf(found, ({ clusterId }) => clusterId).map(({ key, all }) => [key, summed(all)]));
}

interface WantedGroup {
  readonly wanted: Extract<WantedWork, { readonly reason: string }>;
  readonly count: number;
  readonly first: MemberGroup["first"];
}

function summed(found: readonly WantedGroup[]): PendingChanges {
  const groups = groupsOf(found, ({ wanted: { kind, reason } }) => `${kind} ${reason}`).map(({ first, all }) => ({
    reason: first.wanted.reason,
    kind: first.wanted.kind,
    nodeCount: all.reduce((sum, { count }) => sum + count, 0),
    nodeIds: idsOf(all.flatMap((alike) => alike.first).toSorted(byName)),
  }));
  return {
    count: groups.reduce((sum, { nodeCount }) => sum + nodeCount, 0),
    groups: groups.toSorted((a, b) => b.nodeCount - a.nodeCount || (a.reason < b.reason ? -1 : 1)),
  };
}

function byName(one: { readonly name: string }, other: { readonly name: string }): number {
  return nameKey(one.name) < nameKey(other.name) ? -1 : 1;
}

/** The image that each cluster names, with its user data. */
async function wantedInstalls(
  reader: Reader,
  { keyring }: Pick<EngineContext, "keyring">,
  clusters: readonly ClusterRow[],
): Promise<(node: NodeRow) => WantedInstall> {
  const images = await imagesByIds(reader, [...new Set(clusters.flatMap(({ imageId }) => imageId ?? []))]);
  const userData = await secretsOf(reader, keyring, SECRETS.imageUserData, idsOf(images));
  const byId = new Map(images.map((image) => [image.id, image]));
  const imageOf = new Map(clusters.map(({ id, imageId }) => [id, byId.get(imageId ?? "")]));
  return ({ clusterId }) => {
    const image = imageOf.get(clusterId ?? "") ?? null;
    const ofImage = image === null ? undefined : (userData.get(image.id) ?? null);
    // User data that cannot be read is not known.
    return { image, userData: ofImage instanceof SecretError ? undefined : ofImage, hasOwnUserData: false };
  };
}
