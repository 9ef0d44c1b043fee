/** Resolves the nodes that a request selects: each once, in the order of the request. Names all that do not exist. */
import type { Refusal } from "../../errors.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { nodeKeys, nodesByIds, nodesByNames } from "../../store/nodes.ts";
import type { NodeFilter } from "../../store/node-filter.ts";
import { clusterByName, clustersByIds } from "../../store/clusters.ts";
import { isUuid } from "../../runtime/uuid.ts";
import { listed } from "./name-rules.ts";

/** Exactly one member. */
export type NodeSelector =
  | { readonly ids: readonly string[] }
  | { readonly names: readonly string[] }
  | { readonly cluster: ClusterRef }
  | { readonly filter: NodeFilter };

export type ClusterRef = { readonly id: string } | { readonly name: string };

export interface Selection {
  /** `ref`: the name or id that the request used. */
  readonly nodes: readonly { readonly ref: string; readonly nodeId: string }[];
  /** The cluster that the request selected; null if it selected nodes. */
  readonly clusterId: string | null;
}

const EMPTY = "The list of nodes is empty; name at least one node.";

/** The selected nodes, or a refusal that names every one that does not exist. */
export async function selectNodes(
  reader: Reader,
  selector: NodeSelector,
  path: readonly string[] = ["input", "nodes"],
): Promise<Selection | { readonly refusals: readonly Refusal[] }> {
  if ("filter" in selector) {
    const found = await nodeKeys(reader, selector.filter);
    if (found.length === 0) return refused("NOT_FOUND", "No node matches the filter.", [...path, "filter"]);
    return { nodes: found.map(({ id, name }) => ({ ref: name, nodeId: id })), clusterId: null };
  }
  if ("cluster" in selector) {
    const clusterId = await findCluster(reader, selector.cluster);
    if (clusterId === null) return unknownCluster(selector.cluster, [...path, "cluster"]);
    const found = await nodeKeys(reader, { clusterId });
    if (found.length === 0)
      return refused("INVALID_INPUT", "The cluster has no nodes. Add some with updateCluster.", [...path, "cluster"]);
    return { nodes: found.map(({ id, name }) => ({ ref: name, nodeId: id })), clusterId };
  }
  const byId = "ids" in selector;
  const refs = [...new Set(byId ? selector.ids : selector.names)];
  const field = byId ? "ids" : "names";
  if (refs.length === 0) return refused("INVALID_INPUT", EMPTY, [...path, field]);
  const rows = byId ? await nodesByIds(reader, refs.filter(isUuid)) : await nodesByNames(reader, refs);
  const idOf = new Map(rows.map((row) => [byId ? row.id : row.name, row.id]));
  const missing = refs.filter((ref) => !idOf.has(ref));
  if (missing.length > 0) {
    return {
      refusals: [
        {
          code: "NOT_FOUND",
          message:
            missing.length === 1 ? `There is no node ${listed(missing)}.` : `There are no nodes ${listed(missing)}.`,
          path: [...path, field],
          missing,
        },
      ],
    };
  }
  return { nodes: refs.map((ref) => ({ ref, nodeId: idOf.get(ref) ?? "" })), clusterId: null };
}

/** Id of a cluster; null if there is none. */
export async function findCluster(reader: Reader, ref: ClusterRef): Promise<string | null> {
  if ("name" in ref) return (await clusterByName(reader, ref.name))?.id ?? null;
  return isUuid(ref.id) ? ((await clustersByIds(reader, [ref.id]))[0]?.id ?? null) : null;
}

export function unknownCluster(ref: ClusterRef, path: readonly string[]): { readonly refusals: readonly Refusal[] } {
  const asked = "name" in ref ? ref.name : ref.id;
  return { refusals: [{ code: "NOT_FOUND", message: `There is no cluster ${asked}.`, path, missing: [asked] }] };
}

function refused(
  code: Refusal["code"],
  message: string,
  path: readonly string[],
): { readonly refusals: readonly Refusal[] } {
  return { refusals: [{ code, message, path }] };
}
