/** Inputs that say which nodes, which cluster, whose work; and what the engine makes of them. */
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
    value: t.string({ required: true, description: "What the label says." }),
  }),
});

const StringFilterInput = builder.inputType("StringFilter", {
  description: "String test; given fields are combined with AND.",
  fields: (t) => ({
    eq: t.string({ description: "Equals." }),
    in: t.stringList({ description: "One of; an empty list matches nothing." }),
    startsWith: t.string({ description: "Begins with this text." }),
    contains: t.string({ description: "Contains, ignoring case. Looks at every name: no index helps." }),
  }),
});

export const ClusterRefInput = builder.inputType("ClusterRef", {
  description: "One cluster. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    id: t.id({ description: "By global ID." }),
    name: t.string({ description: "By name." }),
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
    "Node selection; given fields are combined with AND, an omitted field matches all, an unknown name is skipped.",
  fields: (t) => ({
    ids: t.idList({ description: "By global ID." }),
    name: t.field({ type: StringFilterInput, description: "By name." }),
    states: t.field({ type: [NodeStateEnum], description: "In one of these states." }),
    powerStates: t.field({ type: [PowerStateEnum], description: "With one of these power states." }),
    presence: t.field({ type: [PresenceEnum], description: "With one of these presences." }),
    maintenance: t.boolean({ description: "In or out of maintenance." }),
    retired: t.boolean({ description: "Retired or not." }),
    protected: t.boolean({ description: "Protected or not." }),
    withErrors: t.boolean({ description: "With or without a `lastError`." }),
    powerDrift: t.boolean({ description: "Whose power is, or is not, known to be other than it was left." }),
    hostGroup: t.string({ description: "With this role in its cluster." }),
    cluster: t.field({ type: ClusterRefInput, description: "Members of this one." }),
    driver: t.string({ description: "Using this driver." }),
    labels: t.field({ type: [LabelInput], description: "Carrying all these labels." }),
    or: t.field({ type: [NodeFilterInput], description: "Any of these." }),
    not: t.field({ type: NodeFilterInput, description: "None of this." }),
  }),
});

export const NodeRefInput = builder.inputType("NodeRef", {
  description: "One node. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    id: t.id({ description: "By global ID." }),
    name: t.string({ description: "By name." }),
    uuid: t.field({ type: "UUID", description: "By raw UUID." }),
  }),
});

export const NodeSelectorInput = builder.inputType("NodeSelector", {
  description: "Which nodes. Exactly one field. A node that is named twice counts once.",
  isOneOf: true,
  fields: (t) => ({
    ids: t.idList({ description: "By global ID; every one must exist." }),
    names: t.stringList({ description: "By name; every one must exist." }),
    cluster: t.field({ type: ClusterRefInput, description: "Every node of a cluster." }),
    filter: t.field({
      type: NodeFilterInput,
      description: "Every node that matches now; resolved once, when the mutation is accepted.",
    }),
  }),
});

export const WorkSelectorInput = builder.inputType("WorkSelector", {
  description: "Whose work. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    operationId: t.id({ description: "One operation, on all its nodes." }),
    ids: t.idList({ description: "Whatever runs, or ran last, on these nodes, by global ID." }),
    names: t.stringList({ description: "Whatever runs, or ran last, on these nodes, by name." }),
    cluster: t.field({ type: ClusterRefInput, description: "Whatever runs, or ran last, on the nodes of a cluster." }),
    filter: t.field({ type: NodeFilterInput, description: "Whatever runs, or ran last, on the nodes that match now." }),
  }),
});

export function clusterChoice(ref: {
  id?: string | null | undefined;
  name?: string | null | undefined;
}): ClusterChoice {
  return ref.id == null ? { name: ref.name ?? "" } : { id: keyOf("Cluster", ref.id) };
}

/** Each becomes a condition of its own, which the database plans and asks of every node. */
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

/** The filter of a stream, which is bounded in what it names as well. */
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
