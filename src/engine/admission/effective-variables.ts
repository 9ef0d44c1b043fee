/**
 * The variables that drivers get for each node of a request: those of the site, the node's cluster, its host group and
 * the node itself, then of the request that a restart continues, then of the request, and the name of the host group.
 * Nodes of the same cluster and host group without variables of their own share one object.
 */
import { canonicalJson, hashOf } from "../../runtime/canonical-json.ts";
import { clustersByIds } from "../../store/nodes/clusters.ts";
import type { ClusterRow } from "../../store/nodes/clusters.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { HostGroups, JsonObject, VerbOptions } from "../../store/records.ts";
import { SecretError, readable } from "../../store/secrets/keyring.ts";
import {
  MASK,
  NO_VARIABLES,
  decrypted,
  namesOfSecrets,
  openVariables,
  SECRETS,
  withSecretNames,
} from "../../store/secrets/secrets.ts";
import type { OpenVariables, VariablesParts } from "../../store/secrets/secrets.ts";
import { readSite, siteKey } from "../../store/site.ts";
import type { SiteRow } from "../../store/site.ts";
import { HOST_GROUP, isJsonObject, overlay } from "../input/variables.ts";
import type { EffectiveVariable, VariableSource } from "../input/variables.ts";

export interface EffectiveVariables extends OpenVariables {
  /** The same values by name, with secret ones masked. */
  readonly list: readonly EffectiveVariable[];
  readonly hash: string;
}

/** The part of a request that adds to the variables of its nodes. */
interface RequestVariables {
  /** Those of the requests that a restart continues. */
  readonly earlier: OpenVariables;
  readonly given: unknown;
  /** The host group that the request sets. */
  readonly hostGroup: VerbOptions["hostGroup"];
}

/** Returns the effective variables of each of these nodes. */
export async function effectiveVariables(
  reader: Reader,
  parts: VariablesParts,
  nodes: readonly NodeRow[],
  { site, clusters, request }: { readonly request: RequestVariables } & VariableOwners,
): Promise<(node: NodeRow) => EffectiveVariables | SecretError> {
  const levelsOf = await openLevels(reader, parts, nodes, { site, clusters });
  const { earlier, given, hostGroup: joins } = request;
  const own = withSecretNames(isJsonObject(given) ? given : {}, parts.registry.secretVariables);
  const known = new Map<string, EffectiveVariables | SecretError>();
  return (node) => {
    const group = joins ?? node.hostGroup;
    const key = JSON.stringify([node.clusterId, group, ...(hasOwn(node) ? [node.id] : [])]);
    const found = known.get(key);
    if (found) return found;
    const opened = readable(() => [
      ...levelsOf(node, group),
      ["EARLIER_REQUEST", earlier] as const,
      ["REQUEST", own] as const,
    ]);
    const effective = opened instanceof SecretError ? opened : hashed(parts, opened, group);
    known.set(key, effective);
    return effective;
  };
}

/** The effective variables of a node without a request, with secret ones masked. Nothing is decrypted. */
export async function variablesOfNode(
  reader: Reader,
  { secretVariables }: VariablesParts["registry"],
  node: NodeRow,
): Promise<readonly EffectiveVariable[]> {
  const [site, [cluster]] = await Promise.all([readSite(reader), clustersOf(reader, [node])]);
  const group = cluster?.hostGroups[node.hostGroup ?? ""];
  const level = (source: VariableSource, values: JsonObject = {}): Level => [
    source,
    { values, secretNames: namesOfSecrets(values, secretVariables) },
  ];
  const levels = [
    level("SITE", site.variables),
    level("CLUSTER", cluster?.variables),
    level("HOST_GROUP", group?.variables),
    level("NODE", node.variables),
  ];
  return merged(levels, node.hostGroup, secretVariables).list;
}

/** The rows, beside the nodes, whose variables apply to nodes. */
interface VariableOwners {
  readonly site: SiteRow;
  readonly clusters: readonly ClusterRow[];
}

/** The clusters of nodes. */
export function clustersOf(reader: Reader, nodes: readonly NodeRow[]): Promise<ClusterRow[]> {
  return clustersByIds(reader, [...new Set(nodes.flatMap(({ clusterId }) => clusterId ?? []))]);
}

type Level = readonly [VariableSource, OpenVariables];

function hasOwn({ variables }: NodeRow): boolean {
  return Object.keys(variables).length > 0;
}

/** Opens the levels below the request. The result throws the `SecretError` of a level. */
async function openLevels(
  reader: Reader,
  parts: VariablesParts,
  nodes: readonly NodeRow[],
  { site, clusters }: VariableOwners,
): Promise<(node: NodeRow, group: string | null) => readonly Level[]> {
  const row = { id: siteKey(site), variables: site.variables };
  const [ofSite, ofCluster, ofNode, ofGroup] = await Promise.all([
    openVariables(reader, parts, SECRETS.siteVariables, [row]),
    openVariables(reader, parts, SECRETS.clusterVariables, clusters),
    openVariables(reader, parts, SECRETS.nodeVariables, nodes.filter(hasOwn)),
    openGroups(reader, parts, clusters),
  ]);
  const level = (source: VariableSource, opened: OpenVariables | SecretError): Level => {
    if (opened instanceof SecretError) throw opened;
    return [source, opened];
  };
  return ({ id, clusterId }, group) => [
    level("SITE", ofSite(row.id)),
    level("CLUSTER", ofCluster(clusterId)),
    level("HOST_GROUP", ofGroup(clusterId, group)),
    level("NODE", ofNode(id)),
  ];
}

/** Opens the variables of the host groups of clusters. */
async function openGroups(
  reader: Reader,
  { keyring, registry: { secretVariables } }: VariablesParts,
  clusters: readonly ClusterRow[],
): Promise<(clusterId: string | null, group: string | null) => OpenVariables | SecretError> {
  const grouped = clusters.filter(({ hostGroups }) => Object.keys(hostGroups).length > 0);
  if (grouped.length === 0) return () => NO_VARIABLES;
  const stored = new Map(grouped.map(({ id, hostGroups }) => [id, hostGroups]));
  const opened = await decrypted<HostGroups>(reader, keyring, SECRETS.hostGroupVariables, [...stored]);
  return (clusterId, group) => {
    const groups = opened.get(clusterId ?? "");
    if (groups instanceof SecretError) return groups;
    const values = groups?.[group ?? ""]?.variables;
    if (!values) return NO_VARIABLES;
    const names = namesOfSecrets(stored.get(clusterId ?? "")?.[group ?? ""]?.variables ?? {}, secretVariables);
    return { values, secretNames: names };
  };
}

function hashed({ keyring, registry }: VariablesParts, levels: readonly Level[], group: string | null) {
  const effective = merged(levels, group, registry.secretVariables);
  const { values, secretNames } = effective;
  const hash = secretNames.size === 0 ? hashOf(values) : keyring.digest(canonicalJson(values));
  return { ...effective, hash };
}

/** Lays the levels over each other. `declared`: the names of secret variables. */
function merged(
  levels: readonly Level[],
  group: string | null,
  declared: ReadonlySet<string>,
): Omit<EffectiveVariables, "hash"> {
  const values = overlay(...levels.map(([, level]) => level.values), { [HOST_GROUP]: group });
  const names = [...declared, ...levels.flatMap(([, level]) => [...level.secretNames])];
  const { secretNames } = withSecretNames(values, names);
  const sourceOf = (name: string): VariableSource =>
    name === HOST_GROUP
      ? "HOST_GROUP"
      : (levels.findLast(([, level]) => Object.hasOwn(level.values, name))?.[0] ?? "REQUEST");
  const list = Object.entries(values)
    .map(([name, value]) => ({ name, value: secretNames.has(name) ? MASK : value, source: sourceOf(name) }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return { values, secretNames, list };
}
