/** Inputs that select nodes, clusters and work, and their conversion for the engine. */
import { emptyMembers } from "../../runtime/empty-members.ts";
import type { WorkSelector } from "../../engine/input/work-selector.ts";
import type {
  ClusterRef as ClusterChoice,
  FilterSelector,
  NodeSelector,
  PickSelector,
} from "../../engine/input/node-selector.ts";
import { FILTERED_COLUMNS, declared } from "../../store/nodes/node-fields.ts";
import { DATABASE_CONDITIONS } from "../../store/nodes/node-filter.ts";
import type { StringTest } from "../../store/names.ts";
import type { NodeFilter } from "../../store/nodes/node-filter.ts";
import { nodesByNames } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { builder, given, givenMembers } from "../base/builder.ts";
import type { InputFields } from "../base/builder.ts";
import { ErrorCodeEnum, NodeStateEnum, PowerStateEnum, PresenceEnum } from "../base/enums.ts";
import { badInput } from "../base/connection.ts";
import { keyOf, uuidOrNone } from "../base/ids.ts";
import { LIMITS, beyond } from "../base/request-limits.ts";

export const LabelInput = builder.inputType("LabelInput", {
  description: "Label to set or to match.",
  fields: (t) => ({
    key: t.string({ required: true, description: "Key, unique per object." }),
    value: t.string({ required: true, description: "Value of the label." }),
  }),
});

type LabelShape = typeof LabelInput.$inferInput;

/** The labels of a filter. No object has two values for one key, as none has the labels of an empty list. */
export function wantedLabels(labels: readonly LabelShape[] | null | undefined): Record<string, string> | undefined {
  if (!labels) return undefined;
  const wanted = new Map(labels.map(({ key, value }) => [key, value]));
  return labels.some(({ key, value }) => wanted.get(key) !== value) ? {} : Object.fromEntries(wanted);
}

export const StringFilterInput = builder.inputType("StringFilter", {
  description: "Filter for a name, which ignores case. The given fields are combined with AND.",
  fields: (t) => ({
    eq: t.string({ description: "Equal to this text." }),
    in: t.stringList({ description: "Equal to one of these texts; an empty list matches nothing." }),
    startsWith: t.string({ description: "Starts with this text." }),
    contains: t.string({
      description: "Contains this text. Slow in large fleets: it reads every name.",
    }),
  }),
});

export const ClusterRefInput = builder.inputType("ClusterRef", {
  description: "Reference to a cluster. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    id: t.id({ description: "By global ID." }),
    name: t.string({ description: "By name, in any case." }),
  }),
});

interface ClusterRefShape {
  id?: string | null | undefined;
  name?: string | null | undefined;
}

type NameFilterShape = typeof StringFilterInput.$inferInput;

/** Conditions that the API gives in another form than the store takes them. */
interface ConvertedConditions {
  ids?: string[] | null | undefined;
  name?: NameFilterShape | null | undefined;
  presences?: NodeRow["presence"][] | null | undefined;
  cluster?: ClusterRefShape | null | undefined;
  inventory?: typeof InventoryFilterInput.$inferInput | null | undefined;
  operationId?: string | null | undefined;
  labels?: LabelShape[] | null | undefined;
  or?: NodeFilterShape[] | null | undefined;
  not?: NodeFilterShape | null | undefined;
}

type PlainConditions = Omit<NodeFilter, keyof ConvertedConditions | "presence" | "clusterId" | "clusterName">;

export type NodeFilterShape = ConvertedConditions & {
  [Name in keyof PlainConditions]: PlainConditions[Name] | null;
};

const InventoryFilterInput = builder.inputType("InventoryFilter", {
  description: "Filter for a value in the newest inventory of a node.",
  fields: (t) => ({
    path: t.string({
      required: true,
      description:
        "Names of members from the outside in, joined by dots; a number is an index in a list from 0: `system.vendor`, `disks.0.model`.",
    }),
    eq: t.string({ required: true, description: "Value at the path; for a number or a boolean, its JSON text." }),
  }),
});

/** Conditions on declared fields: the value of the field. */
function declaredConditions(t: InputFields) {
  return Object.fromEntries(
    FILTERED_COLUMNS.map((name) => {
      const { type, filter = "" } = declared(name);
      return [name, t.field({ type, description: filter })];
    }),
  );
}

export const NodeFilterInput = builder.inputRef<NodeFilterShape>("NodeFilter");
NodeFilterInput.implement({
  description:
    "Filter for nodes. The given fields are combined with AND; an unknown name matches no node, and an empty list matches none. In a query or a subscription, a field that is omitted, null or an empty text matches all nodes. In a selection of nodes for a mutation or a plan, the filter must have a condition, and a field that is null, empty or without a condition is refused with INVALID_INPUT.",
  fields: (t) => ({
    ...declaredConditions(t),
    ids: t.idList({ description: "By global ID; an empty list matches nothing." }),
    name: t.field({ type: StringFilterInput, description: "With a name that matches this filter." }),
    states: t.field({ type: [NodeStateEnum], description: "In one of these states; an empty list matches nothing." }),
    powerStates: t.field({
      type: [PowerStateEnum],
      description: "With one of these power states; an empty list matches nothing.",
    }),
    presences: t.field({
      type: [PresenceEnum],
      description: "With one of these values of presence; an empty list matches nothing.",
    }),
    maintenance: t.boolean({ description: "True: in maintenance. False: not in maintenance." }),
    retired: t.boolean({ description: "True: retired. False: not retired." }),
    protected: t.boolean({ description: "True: protected. False: not protected." }),
    faulty: t.boolean({ description: "True: with a `fault`. False: without one." }),
    withErrors: t.boolean({ description: "True: with a `lastError`. False: without one." }),
    powerDrift: t.boolean({
      description: "True: the power state differs from the one that Ostler last set. False: it does not.",
    }),
    cluster: t.field({ type: ClusterRefInput, description: "Members of this cluster." }),
    inCluster: t.boolean({ description: "True: member of a cluster. False: of none." }),
    driver: t.string({ description: "With this driver." }),
    mac: t.string({ description: "With this MAC address, in lower or upper case, with colons, dashes or without." }),
    serial: t.string({
      description: "With this text as `serial` in the newest inventory. Not in streams.",
    }),
    inventory: t.field({
      type: InventoryFilterInput,
      description: "With this value in the newest inventory. Slow in large fleets. Not in streams.",
    }),
    operationId: t.id({
      description: "In unfinished work of this operation: global ID or UUID. Not in streams.",
    }),
    errorCodes: t.field({
      type: [ErrorCodeEnum],
      description: "With a `lastError` that has one of these codes; an empty list matches nothing.",
    }),
    changedSince: t.field({ type: "DateTime", description: "With an `updatedAt` at this time or later." }),
    labelKeys: t.stringList({
      description:
        "With a label of each of these keys, of any value; an empty list matches nothing. For nodes without a key, use `not`.",
    }),
    labels: t.field({ type: [LabelInput], description: "With all of these labels; an empty list matches nothing." }),
    or: t.field({
      type: [NodeFilterInput],
      description: "Matching at least one of these filters; an empty list matches nothing.",
    }),
    not: t.field({ type: NodeFilterInput, description: "Not matching this filter." }),
  }),
});

export const NodeRefInput = builder.inputType("NodeRef", {
  description: "Reference to a node. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    id: t.id({ description: "By global ID." }),
    name: t.string({ description: "By name, in any case." }),
    uuid: t.field({ type: "UUID", description: "By UUID, without the type prefix of a global ID." }),
  }),
});

/** The ID of a node, for the engine; that of an unknown name is the name. */
export async function nodeId({ id, name, uuid }: typeof NodeRefInput.$inferInput, reader: Reader): Promise<string> {
  if (name != null) return (await nodesByNames(reader, [name]))[0]?.id ?? name;
  return uuid ?? keyOf("Node", id ?? "");
}

const NodePickInput = builder.inputType("NodePickInput", {
  description:
    "Free nodes, chosen by the service. The request locks them, so that no other request gets the same ones; a plan does not lock them. A node is free if it is AVAILABLE and not in work, in maintenance, retired, protected, disappeared or with a fault; and not in a cluster, unless `filter` has a condition on clusters (`cluster` or `inCluster`, also in `or` and `not`). If there are too few, the request is refused with CAPACITY, and `CapacityError.available` is their number.",
  fields: (t) => ({
    count: t.int({ required: true, description: "Number of nodes, 1 to 1000." }),
    filter: t.field({
      type: NodeFilterInput,
      description: "Only matching nodes; by default any. A filter without a condition is refused.",
    }),
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
      description:
        "All nodes that match the filter when the mutation is accepted. A filter without a condition is refused.",
    }),
    all: t.boolean({ description: "All nodes. Only `true` is accepted." }),
    pick: t.field({ type: NodePickInput, description: "As many free nodes as the request needs." }),
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
      description:
        "Unfinished or last work on the nodes that match the filter now. A filter without a condition is refused.",
    }),
    all: t.boolean({ description: "Unfinished or last work on all nodes. Only `true` is accepted." }),
  }),
});

export function clusterChoice(ref: ClusterRefShape): ClusterChoice {
  return ref.id == null ? { name: ref.name ?? "" } : { id: keyOf("Cluster", ref.id) };
}

/** The number of alternatives in a filter: each becomes an SQL condition that is evaluated for every node. */
function alternativesOf({ or, not }: NodeFilterShape): number {
  return (or ?? []).reduce((sum, one) => sum + 1 + alternativesOf(one), not ? alternativesOf(not) : 0);
}

export function nameFilter(name: NameFilterShape | null | undefined): StringTest | undefined {
  return name ? givenMembers(name) : undefined;
}

export function nodeFilter(filter: NodeFilterShape | null | undefined): NodeFilter | undefined {
  if (!filter) return undefined;
  const alternatives = alternativesOf(filter);
  if (alternatives > LIMITS.alternatives) throw beyond("alternatives", { requested: alternatives });
  const { ids, name, presences, cluster, inventory, operationId, labels, or, not, ...plain } = filter;
  const chosen = cluster ? clusterChoice(cluster) : undefined;
  return {
    ...givenMembers(plain),
    ids: ids?.map((id) => uuidOrNone(keyOf("Node", id))),
    name: nameFilter(name),
    presence: given(presences),
    clusterId: chosen && "id" in chosen ? uuidOrNone(chosen.id) : undefined,
    clusterName: chosen && "name" in chosen ? chosen.name : undefined,
    operationId: operationId ? uuidOrNone(keyOf("Operation", operationId)) : undefined,
    inventory: inventory ? { path: inventory.path.split("."), eq: inventory.eq } : undefined,
    labels: wantedLabels(labels),
    or: or?.map((one) => nodeFilter(one) ?? {}),
    not: not ? nodeFilter(not) : undefined,
  };
}

/** Refuses a filter that is too large for a stream: it stays in memory. */
export function limitStreamFilter(filter: object | null | undefined): void {
  const characters = JSON.stringify(filter ?? {}).length;
  if (characters > LIMITS.streamFilter) throw beyond("streamFilter", { requested: characters });
}

/** The filter of a stream. */
export function streamFilter(filter: NodeFilterShape | null | undefined): NodeFilter | undefined {
  limitStreamFilter(filter);
  const stray = filter && databaseConditionIn(filter);
  if (stray)
    throw badInput(
      `A stream cannot filter by \`${stray}\`, because only the database can decide it. Read the nodes with a query, and filter the stream by \`ids\`.`,
    );
  return nodeFilter(filter);
}

/** The first condition in a filter that only the database can decide. */
function databaseConditionIn(filter: NodeFilterShape): string | undefined {
  const inner = [...(filter.or ?? []), ...(filter.not ? [filter.not] : [])];
  return (
    DATABASE_CONDITIONS.find((name) => filter[name] != null) ??
    inner.map(databaseConditionIn).find((name) => name !== undefined)
  );
}

interface PlainSelectorShape {
  ids?: string[] | null | undefined;
  names?: string[] | null | undefined;
  cluster?: ClusterRefShape | null | undefined;
  filter?: NodeFilterShape | null | undefined;
  all?: boolean | null | undefined;
}

export interface NodeSelectorShape extends PlainSelectorShape {
  pick?: typeof NodePickInput.$inferInput | null | undefined;
}

export interface WorkSelectorShape extends PlainSelectorShape {
  operationId?: string | null | undefined;
}

export function nodeSelector({ pick, ...plain }: NodeSelectorShape): NodeSelector {
  if (!pick) return plainSelector(plain);
  const { count, filter } = pick;
  return filter === undefined ? { pick: { count } } : { pick: { count, ...filterSelector(filter) } };
}

export function workSelector({ operationId, ...plain }: WorkSelectorShape): WorkSelector {
  return operationId == null ? plainSelector(plain) : { operationId: keyOf("Operation", operationId) };
}

function plainSelector(selection: PlainSelectorShape): Exclude<NodeSelector, PickSelector> {
  if (selection.ids) return { ids: selection.ids.map((id) => keyOf("Node", id)) };
  if (selection.names) return { names: selection.names };
  if (selection.cluster) return { cluster: clusterChoice(selection.cluster) };
  if (selection.all != null) return { all: selection.all };
  return filterSelector(selection.filter);
}

function filterSelector(filter: NodeFilterShape | null | undefined): FilterSelector {
  return { filter: nodeFilter(filter) ?? {}, emptyMembers: emptyMembers(filter ?? {}) };
}
