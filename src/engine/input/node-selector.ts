/** Resolves the nodes that a request selects: each once, in the order of the request. Names all that do not exist. */
import { invalidInput, notFound } from "../../errors.ts";
import type { Refusal, Refused } from "../../errors.ts";
import type { Reader, Tx } from "../../store/postgres/database.ts";
import { countNodes, nodeKeys, nodesByIds, nodesByNames } from "../../store/nodes/nodes.ts";
import type { NodeFilter } from "../../store/nodes/node-filter.ts";
import { clusterByName, clustersByIds } from "../../store/nodes/clusters.ts";
import { differentNames, nameKey } from "../../store/names.ts";
import { isUuid } from "../../runtime/uuid.ts";
import { emptyMembers } from "../../runtime/empty-members.ts";
import { pickNodes } from "./node-pick.ts";
import type { NodePick } from "./node-pick.ts";
import { nodesText } from "./name-rules.ts";
import { unknownNodes } from "./unknown-nodes.ts";

/** Exactly one member. */
export type NodeSelector =
  | { readonly ids: readonly string[] }
  | { readonly names: readonly string[] }
  | { readonly cluster: ClusterRef }
  | FilterSelector
  /** True: all nodes. */
  | { readonly all: boolean }
  | PickSelector;

/** As many free nodes as are needed. They are locked, unless the request is a plan. */
export interface PickSelector {
  readonly pick: NodePick;
}

export interface FilterSelector {
  readonly filter: NodeFilter;
  /** Members of the filter without a value, as the request has them (empty-members.ts). Default: those of `filter`. */
  readonly emptyMembers?: readonly (readonly string[])[];
}

export type ClusterRef = { readonly id: string } | { readonly name: string };

export interface KnownNode {
  /** The name or id that the request used. */
  readonly ref: string;
  readonly nodeId: string;
  readonly name: string;
}

export interface Selection {
  readonly nodes: readonly Omit<KnownNode, "name">[];
  /** The cluster that the request selected; null if it selected nodes. */
  readonly clusterId: string | null;
}

/** The nodes that exist, and the refusal of the names and ids that do not; null if all exist. */
interface KnownNodes extends Selection {
  readonly nodes: readonly KnownNode[];
  readonly unknown: Refusal | null;
}

const PATH: readonly string[] = ["input", "nodes"];

/**
 * The selected nodes, or a refusal that names every one that does not exist. `lockIn`: the transaction in which picked
 * nodes are locked; they are not locked without it.
 */
export async function selectNodes(
  reader: Reader,
  selector: NodeSelector,
  { path = PATH, lockIn }: { readonly path?: readonly string[]; readonly lockIn?: Tx | undefined } = {},
): Promise<Selection | Refused> {
  const found =
    "pick" in selector
      ? await pickedNodes(reader, selector, { path: [...path, "pick"], lockIn })
      : await selectKnownNodes(reader, selector, path);
  if ("refusals" in found) return found;
  return found.unknown ? { refusals: [found.unknown] } : found;
}

/** Those of the selected nodes that exist. */
export async function selectKnownNodes(
  reader: Reader,
  selector: Exclude<NodeSelector, PickSelector>,
  path: readonly string[],
): Promise<KnownNodes | Refused> {
  if ("filter" in selector) return filteredNodes(reader, selector, [...path, "filter"]);
  if ("all" in selector) return allNodes(reader, selector.all, [...path, "all"]);
  if ("cluster" in selector) {
    const clusterId = await findCluster(reader, selector.cluster);
    if (clusterId === null) return unknownCluster(selector.cluster, [...path, "cluster"]);
    const found = await nodeKeys(reader, { clusterId });
    if (found.length === 0)
      return refused("INVALID_INPUT", "The cluster has no nodes. Add some with updateCluster.", [...path, "cluster"]);
    return { ...known(found), clusterId };
  }
  return namedNodes(reader, namedIn(selector) ?? { refs: [], byId: false }, path);
}

/** Nodes that a request names, each once. */
export interface NamedNodes {
  readonly refs: readonly string[];
  /** The names are ids. */
  readonly byId: boolean;
}

/** The nodes that a selector names; null if it selects them otherwise. */
export function namedIn(selector: NodeSelector): NamedNodes | null {
  if ("ids" in selector) return { refs: [...new Set(selector.ids)], byId: true };
  return "names" in selector ? { refs: differentNames(selector.names), byId: false } : null;
}

async function namedNodes(
  reader: Reader,
  { refs, byId }: NamedNodes,
  path: readonly string[],
): Promise<KnownNodes | Refused> {
  const keyOf = byId ? (ref: string) => ref : nameKey;
  const place = [...path, byId ? "ids" : "names"];
  if (refs.length === 0) return refused("INVALID_INPUT", "The list of nodes is empty; name at least one node.", place);
  const rows = byId ? await nodesByIds(reader, refs.filter(isUuid)) : await nodesByNames(reader, refs);
  const rowOf = new Map(rows.map((row) => [keyOf(byId ? row.id : row.name), row]));
  const missing = refs.filter((ref) => !rowOf.has(keyOf(ref)));
  const nodes = refs.flatMap((ref) => {
    const row = rowOf.get(keyOf(ref));
    return row ? [{ ref, nodeId: row.id, name: row.name }] : [];
  });
  return { nodes, clusterId: null, unknown: missing.length === 0 ? null : unknownNodes(missing, place) };
}

function known(found: readonly { readonly id: string; readonly name: string }[]): KnownNodes {
  return { nodes: found.map(({ id, name }) => ({ ref: name, nodeId: id, name })), clusterId: null, unknown: null };
}

async function filteredNodes(
  reader: Reader,
  selector: FilterSelector,
  path: readonly string[],
): Promise<KnownNodes | Refused> {
  const flaw = await filterFlaw(reader, selector, path);
  if (flaw) return { refusals: [flaw] };
  const found = await nodeKeys(reader, selector.filter);
  if (found.length === 0) return refused("NOT_FOUND", "No node matches the filter.", path);
  return known(found);
}

/** The refusal of a filter that may select more nodes than the caller meant. */
async function filterFlaw(reader: Reader, selector: FilterSelector, path: readonly string[]): Promise<Refusal | null> {
  const [empty] = selector.emptyMembers ?? emptyMembers(selector.filter);
  if (!empty) return null;
  const count = nodesText(await countNodes(reader, selector.filter));
  const message =
    empty.length === 0
      ? `The filter has no condition and would select ${count}. Add one`
      : `\`${empty.join(".")}\` has no value, and the filter would select ${count}. Give it one, or leave it out`;
  return invalidInput(`${message}; to select all nodes, use \`all: true\`.`, [...path, ...empty]);
}

async function pickedNodes(
  reader: Reader,
  { pick }: PickSelector,
  { path, lockIn }: { readonly path: readonly string[]; readonly lockIn: Tx | undefined },
): Promise<KnownNodes | Refused> {
  const { filter } = pick;
  const flaw = filter && (await filterFlaw(reader, { ...pick, filter }, [...path, "filter"]));
  if (flaw) return { refusals: [flaw] };
  const picked = await pickNodes(reader, pick, { path, lockIn });
  return "code" in picked ? { refusals: [picked] } : known(picked);
}

async function allNodes(reader: Reader, all: boolean, path: readonly string[]): Promise<KnownNodes | Refused> {
  if (!all)
    return refused("INVALID_INPUT", "`all: false` selects nothing. Use `all: true`, or select nodes otherwise.", path);
  const found = await nodeKeys(reader, {});
  if (found.length === 0) return refused("NOT_FOUND", "There are no nodes.", path);
  return known(found);
}

/** Id of a cluster; null if there is none. */
export async function findCluster(reader: Reader, ref: ClusterRef): Promise<string | null> {
  if ("name" in ref) return (await clusterByName(reader, ref.name))?.id ?? null;
  return isUuid(ref.id) ? ((await clustersByIds(reader, [ref.id]))[0]?.id ?? null) : null;
}

export function unknownCluster(ref: ClusterRef, path: readonly string[]): Refused {
  const asked = "name" in ref ? ref.name : ref.id;
  return { refusals: [notFound(`There is no cluster ${asked}.`, [asked], path)] };
}

function refused(code: Refusal["code"], message: string, path: readonly string[]): Refused {
  return { refusals: [{ code, message, path }] };
}
