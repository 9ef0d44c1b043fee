/**
 * The variables that drivers get for each node of a request: the settings of the node's cluster, then the request that
 * a restart continues, then the request itself, then the host group. Nodes with the same cluster and host group share
 * one object.
 */
import { canonicalJson, hashOf } from "../../runtime/canonical-json.ts";
import { clustersByIds } from "../../store/nodes/clusters.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { SecretError } from "../../store/secrets/keyring.ts";
import { MASK, openVariables, SECRETS, withSecretNames } from "../../store/secrets/secrets.ts";
import type { OpenVariables, VariablesParts } from "../../store/secrets/secrets.ts";
import { HOST_GROUP, isJsonObject, overlay } from "../input/variables.ts";
import type { EffectiveVariable, VariableSource } from "../input/variables.ts";
import type { Submission } from "./submission.ts";

export interface EffectiveVariables extends OpenVariables {
  /** The same values by name, with secret ones masked. */
  readonly list: readonly EffectiveVariable[];
  readonly hash: string;
}

/** Returns the effective variables of each of these nodes. */
export async function effectiveVariables(
  reader: Reader,
  parts: VariablesParts,
  nodes: readonly NodeRow[],
  { submission: { earlier, options }, given }: { readonly submission: Submission; readonly given: unknown },
): Promise<(node: NodeRow) => EffectiveVariables | SecretError> {
  const ids = [...new Set(nodes.flatMap(({ clusterId }) => (clusterId === null ? [] : [clusterId])))];
  const { secretVariables } = parts.registry;
  const variablesOf = await openVariables(reader, parts, SECRETS.clusterVariables, await clustersByIds(reader, ids));
  const own = isJsonObject(given) ? given : {};
  const known = new Map<string, EffectiveVariables>();
  return ({ clusterId, hostGroup }) => {
    const group = options.hostGroup ?? hostGroup;
    const key = JSON.stringify([clusterId, group]);
    const found = known.get(key);
    if (found) return found;
    const ofCluster = variablesOf(clusterId);
    if (ofCluster instanceof SecretError) return ofCluster;
    const values = overlay(ofCluster.values, { ...earlier.values, ...own }, { [HOST_GROUP]: group });
    const names = [...secretVariables, ...ofCluster.secretNames, ...earlier.secretNames];
    const { secretNames } = withSecretNames(values, names);
    const sourceOf = (name: string): VariableSource => {
      if (name === HOST_GROUP) return "HOST_GROUP";
      if (Object.hasOwn(own, name)) return "REQUEST";
      return Object.hasOwn(earlier.values, name) ? "EARLIER_REQUEST" : "CLUSTER";
    };
    const list = Object.entries(values)
      .map(([name, value]) => ({ name, value: secretNames.has(name) ? MASK : value, source: sourceOf(name) }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const hash = secretNames.size === 0 ? hashOf(values) : parts.keyring.digest(canonicalJson(values));
    const effective = { values, secretNames, list, hash };
    known.set(key, effective);
    return effective;
  };
}
