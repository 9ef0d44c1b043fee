/** Inputs that select nodes, clusters and work, and their conversion for the engine. */
import type { WorkSelector } from "../../engine/input/work-selector.ts";
import type { ClusterRef as ClusterChoice, NodeSelector } from "../../engine/input/node-selector.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { NodeFilter } from "../../store/node-filter.ts";
import type { NodeRow } from "../../store/nodes.ts";
import { builder, given } from "../base/builder.ts";
import { NodeStateEnum, PowerStateEnum, PresenceEnum } from "../base/enums.ts";
import { keyOf, uuidOrNone } from "../base/ids.ts";
import { LIMITS, beyond } from "../base/request-limits.ts";

export const LabelInput = builder.inputType("LabelInput", {
  description: "Label to set or to match.",
  fields: (t) => ({
    key: t.string({ required: true, description: "Key, unique per node." }),
    value: t.string({ required: true, description: "Value of the label." }),
  }),
});

const StringFilterInput = builder.inputType("StringFilter", {
  description: "Filter for a string. The given fields are combined with AND.",
  fields: (t) => ({
    eq: t.string({ description: "Equal to this text." }),
    in: t.stringList({ description: "Equal to one of these texts; an empty list matches nothing." }),
    startsWith: t.string({ description: "Starts with this text." }),
    contains: t.string({
      description: "Contains this text, ignoring case. Slow in large fleets: it reads every name.",
    }),
  }),
});

export const ClusterRefInput = builder.inputType("ClusterRef", {
  description: "Reference to a cluster. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    id: t.id({ description: "By global ID." }),
    name: t.string({ description: "By exact name." }),
  }),
});

export interface NodeFilterShape {
  ids?: string[] | null | undefined;
  name?:
    | {
        eq?: string | null | undefined;
        in?: string[] | null | undefined;
        startsWith?: string | null | undefined;
        contains?: string | null | undefined;
      }
    | null
    | undefined;
  states?: NodeState[] | null | undefined;
  powerStates?: NodeRow["powerState"][] | null | undefined;
  presence?: NodeRow["presence"][] | null | undefined;
  maintenance?: boolean | null | undefined;
  retired?: boolean | null | undefined;
  protected?: boolean | null | undefined;
  withErrors?: boolean | null | undefined;
  powerDrift?: boolean | null | undefined;
  hostGroup?: string | null | undefined;
  cluster?: { id?: string | null | undefined; name?: string | null | undefined } | null | undefined;
  driver?: string | null | undefined;
  labels?: { key: string; value: string }[] | null | undefined;
  or?: NodeFilterShape[] | null | undefined;
  not?: NodeFilterShape | null | undefined;
}

export const NodeFilterInput = builder.inputRef<NodeFilterShape>("NodeFilter");
NodeFilterInput.implement({
  description:
    "Filter for nodes. The given fields are combined with AND; an omitted field matches all nodes; an unknown name matches none.",
  fields: (t) => ({
    ids: t.idList({ description: "By global ID." }),
    name: t.field({ type: StringFilterInput, description: "With a name that matches this filter." }),
    states: t.field({ type: [NodeStateEnum], description: "In one of these states." }),
    powerStates: t.field({ type: [PowerStateEnum], description: "With one of these power states." }),
    presence: t.field({ type: [PresenceEnum], description: "With one of these values of presence." }),
    maintenance: t.boolean({ description: "True: in maintenance. False: not in maintenance." }),
    retired: t.boolean({ description: "True: retired. False: not retired." }),
    protected: t.boolean({ description: "True: protected. False: not protected." }),
    withErrors: t.boolean({ description: "True: with a `lastError`. False: without one." }),
    powerDrift: t.boolean({
      description: "True: the power state differs from the one that Ostler last set. False: it does not.",
    }),
    hostGroup: t.string({ description: "With this role in their cluster." }),
    cluster: t.field({ type: ClusterRefInput, description: "Members of this cluster." }),
    driver: t.string({ description: "With this driver." }),
    labels: t.field({ type: [LabelInput], description: "With all of these labels." }),
    or: t.field({ type: [NodeFilterInput], description: "Matching at least one of these filters." }),
    not: t.field({ type: NodeFilterInput, description: "Not matching this filter." }),
  }),
});

export const NodeRefInput = builder.inputType("NodeRef", {
  description: "Reference to a node. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    id: t.id({ description: "By global ID." }),
    name: t.string({ description: "By exact name." }),
    uuid: t.field({ type: "UUID", description: "By UUID, without the type prefix of a global ID." }),
  }),
});

export const NodeSelectorInput = builder.inputType("NodeSelector", {
  description: "Selection of nodes. Exactly one field. A node that is selected twice counts once.",
  isOneOf: true,
  fields: (t) => ({
    ids: t.idList({ description: "Global IDs; every node must exist." }),
    names: t.stringList({ description: "Names; every node must exist." }),
    cluster: t.field({ type: ClusterRefInput, description: "All nodes of a cluster." }),
    filter: t.field({
      type: NodeFilterInput,
      description: "All nodes that match the filter when the mutation is accepted.",
    }),
  }),
});

export const WorkSelectorInput = builder.inputType("WorkSelector", {
  description: "Selection of work. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    operationId: t.id({ description: "One operation, on all its nodes: global ID or UUID." }),
    ids: t.idList({ description: "Unfinished or last work on these nodes, by global ID." }),
    names: t.stringList({ description: "Unfinished or last work on these nodes, by name." }),
    cluster: t.field({ type: ClusterRefInput, description: "Unfinished or last work on the nodes of a cluster." }),
    filter: t.field({
      type: NodeFilterInput,
      description: "Unfinished or last work on the nodes that match the filter now.",
    }),
  }),
});

export function clusterChoice(ref: {
  id?: string | null | undefined;
  name?: string | null | undefined;
}): ClusterChoice {
  return ref.id == null ? { name: ref.name ?? "" } : { id: keyOf("Cluster", ref.id) };
}

/** The number of alternatives in a filter: each becomes an SQL condition that is evaluated for every node. */
function alternativesOf({ or, not }: NodeFilterShape): number {
  return (or ?? []).reduce((sum, one) => sum + 1 + alternativesOf(one), not ? alternativesOf(not) : 0);
}

export function nodeFilter(filter: NodeFilterShape | null | undefined): NodeFilter | undefined {
  if (!filter) return undefined;
  const alternatives = alternativesOf(filter);
  if (alternatives > LIMITS.alternatives) throw beyond("alternatives", { requested: alternatives });
  const cluster = filter.cluster ? clusterChoice(filter.cluster) : undefined;
  const name = filter.name
    ? {
        eq: given(filter.name.eq),
        in: given(filter.name.in),
        startsWith: given(filter.name.startsWith),
        contains: given(filter.name.contains),
      }
    : undefined;
  return {
    ids: filter.ids?.map((id) => uuidOrNone(keyOf("Node", id))),
    name,
    states: given(filter.states),
    powerStates: given(filter.powerStates),
    presence: given(filter.presence),
    maintenance: given(filter.maintenance),
    retired: given(filter.retired),
    protected: given(filter.protected),
    withErrors: given(filter.withErrors),
    powerDrift: given(filter.powerDrift),
    hostGroup: given(filter.hostGroup),
    clusterId: cluster && "id" in cluster ? uuidOrNone(cluster.id) : undefined,
    clusterName: cluster && "name" in cluster ? cluster.name : undefined,
    driver: given(filter.driver),
    labels: filter.labels ? Object.fromEntries(filter.labels.map(({ key, value }) => [key, value])) : undefined,
    or: filter.or?.map((one) => nodeFilter(one) ?? {}),
    not: filter.not ? nodeFilter(filter.not) : undefined,
  };
}

/** The filter of a stream. Its size is limited, because it stays in memory. */
export function streamFilter(filter: NodeFilterShape | null | undefined): NodeFilter | undefined {
  const characters = JSON.stringify(filter ?? {}).length;
  if (characters > LIMITS.streamFilter) throw beyond("streamFilter", { requested: characters });
  return nodeFilter(filter);
}

export interface NodeSelectorShape {
  ids?: string[] | null | undefined;
  names?: string[] | null | undefined;
  cluster?: { id?: string | null | undefined; name?: string | null | undefined } | null | undefined;
  filter?: NodeFilterShape | null | undefined;
}

export function nodeSelector(selector: NodeSelectorShape): NodeSelector {
  if (selector.ids) return { ids: selector.ids.map((id) => keyOf("Node", id)) };
  if (selector.names) return { names: selector.names };
  if (selector.cluster) return { cluster: clusterChoice(selector.cluster) };
  return { filter: nodeFilter(selector.filter) ?? {} };
}

export function workSelector(selector: NodeSelectorShape & { operationId?: string | null | undefined }): WorkSelector {
  return selector.operationId == null
    ? nodeSelector(selector)
    : { operationId: keyOf("Operation", selector.operationId) };
}
