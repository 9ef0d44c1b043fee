/**
 * The variables that drivers get for each node of a request: the settings of the node's cluster, then the request that
 * a restart continues, then the request itself, then the host group. Nodes with the same cluster and host group share
 * one object.
 */
import { hashOf } from "../../runtime/canonical-json.ts";
import { clustersByIds } from "../../store/nodes/clusters.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Reader } from "../../store/postgres/database.ts";
import type { JsonObject } from "../../store/records.ts";
import { HOST_GROUP, isJsonObject, overlay } from "../input/variables.ts";
import type { EffectiveVariable, VariableSource } from "../input/variables.ts";
import type { Submission } from "./submission.ts";

export interface EffectiveVariables {
  readonly values: JsonObject;
  /** The same values by name. */
  readonly list: readonly EffectiveVariable[];
  readonly hash: string;
}

/** Returns the effective variables of each of these nodes. */
export async function effectiveVariables(
  reader: Reader,
  nodes: readonly NodeRow[],
  { earlierVariables, options }: Pick<Submission, "earlierVariables" | "options">,
  given: unknown,
): Promise<(node: NodeRow) => EffectiveVariables> {
  const ids = [...new Set(nodes.flatMap(({ clusterId }) => (clusterId === null ? [] : [clusterId])))];
  const ofClusters = new Map((await clustersByIds(reader, ids)).map(({ id, variables }) => [id, variables]));
  const own = isJsonObject(given) ? given : {};
  const known = new Map<string, EffectiveVariables>();
  return ({ clusterId, hostGroup }) => {
    const group = options.hostGroup ?? hostGroup;
    const key = JSON.stringify([clusterId, group]);
    const found = known.get(key);
    if (found) return found;
    const values = overlay(ofClusters.get(clusterId ?? ""), { ...earlierVariables, ...own }, { [HOST_GROUP]: group });
    const sourceOf = (name: string): VariableSource => {
      if (name === HOST_GROUP) return "HOST_GROUP";
      if (Object.hasOwn(own, name)) return "REQUEST";
      return Object.hasOwn(earlierVariables, name) ? "EARLIER_REQUEST" : "CLUSTER";
    };
    const list = Object.entries(values)
      .map(([name, value]) => ({ name, value, source: sourceOf(name) }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const effective = { values, list, hash: hashOf(values) };
    known.set(key, effective);
    return effective;
  };
}
