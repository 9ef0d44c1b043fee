/** Clusters: the type, its queries and its mutations. */
import type { ClusterEdited } from "../../../engine/inventory/clusters.ts";
import { stagesOf } from "../../../lifecycle/host-groups.ts";
import type { Requirement } from "../../../lifecycle/host-groups.ts";
import type { Share } from "../../../lifecycle/waves.ts";
import { groupKey } from "../../../store/nodes/host-groups.ts";
import type { HostGroup } from "../../../store/records.ts";
import { clusterByName, clustersPage, countClusters } from "../../../store/nodes/clusters.ts";
import { CLUSTER_FIELDS } from "../../../store/nodes/node-fields.ts";
import { operationCountsOfClusters, operationsOfClusters } from "../../../store/operations/operation-lists.ts";
import { nameKey } from "../../../store/names.ts";
import type { NodeState } from "../../../lifecycle/node-states.ts";
import { builder, given, needs } from "../../base/builder.ts";
import { addMutation } from "../../base/mutation.ts";
import { connectionOf, connectionType, EMPTY_PAGE, pageArgs, pageRequest } from "../../base/connection.ts";
import { ClusterStateEnum, NodeStateEnum } from "../../base/enums.ts";
import { isUuid } from "../../../runtime/uuid.ts";
import { ImageRefInput, imageChoice } from "../images/image.ts";
import { listPlan } from "../../execution/json-list-rewrite.ts";
import { clusterFilter, ClusterFilterInput } from "./cluster-filter.ts";
import { NODES_AS_TEXT, NodeConnection, nodeList, nodeListArgs } from "../nodes/node-list.ts";
import { OperationConnection } from "../work/operation.ts";
import { ShareInput, shareOf } from "../work/waves.ts";
import { payloadType, refusalFields } from "../../base/payload.ts";
import { ClusterRef } from "../../base/refs.ts";
import { clusterField, variablesField } from "../../base/shared-fields.ts";
import { ClusterRefInput, NodeSelectorInput, clusterChoice, nodeSelector } from "../selectors.ts";

export const NodeStateCountRef = builder
  .objectRef<{ readonly state: NodeState; readonly count: number }>("NodeStateCount")
  .implement({
    description: "Number of nodes in one state.",
    fields: (t) => ({
      state: t.expose("state", {
        type: NodeStateEnum,
        description: "Lifecycle state.",
      }),
      count: t.exposeInt("count", { description: "Number of nodes in this state." }),
    }),
  });

const ShareRef = builder.objectRef<Share>("Share").implement({
  description: "Number of nodes, absolute or as a percentage. One of the fields is null.",
  fields: (t) => ({
    count: t.int({
      nullable: true,
      description: "Number of nodes.",
      resolve: (share) => ("count" in share ? share.count : null),
    }),
    percent: t.float({
      nullable: true,
      description: "Percentage of the nodes.",
      resolve: (share) => ("percent" in share ? share.percent : null),
    }),
  }),
});

const HostGroupRequirementRef = builder.objectRef<Requirement>("HostGroupRequirement").implement({
  description: "Nodes of another host group that have to be ACTIVE.",
  fields: (t) => ({
    group: t.exposeString("group", { description: "Name of the other group." }),
    share: t.expose("share", {
      type: ShareRef,
      nullable: true,
      description: "Number of its nodes, at least one; percentages are rounded up. Null for all of them.",
    }),
  }),
});

interface NamedGroup extends HostGroup {
  readonly name: string;
  readonly clusterId: string;
}

const HostGroupRef = builder.objectRef<NamedGroup>("HostGroup").implement({
  description: "Host group of a cluster: the nodes of the cluster with this `hostGroup`, and what they have in common.",
  fields: (t) => ({
    name: t.exposeString("name", { description: "Name of the group, as nodes have it in `hostGroup`." }),
    after: t.field({
      type: [HostGroupRequirementRef],
      description: "A node of the group begins a deployment when all of these hold.",
      resolve: ({ after = [] }) => [...after],
    }),
    tolerates: t.expose("tolerates", {
      type: ShareRef,
      nullable: true,
      description:
        "Nodes that may fail in an operation that deploys; percentages are of the group's nodes, rounded down. One more failure ends the operation, after its running steps. 0: each node is critical. Null: the failure policy of the operation applies.",
    }),
    minActive: t.expose("minActive", {
      type: ShareRef,
      nullable: true,
      description:
        "Minimum number of nodes in service: ACTIVE, present, without a fault, not powered off. It holds for every verb that takes a node out of service. Percentages are rounded up. Null: no minimum.",
    }),
    nodeCount: t.int({
      description: "Number of its nodes, those that unfinished work brings into it included.",
      resolve: async ({ clusterId, name }, _args, { load }) =>
        (await load.hostGroup.load(groupKey(clusterId, name))).total,
    }),
    inServiceCount: t.int({
      description: "Number of its nodes that are in service.",
      resolve: async ({ clusterId, name }, _args, { load }) =>
        (await load.hostGroup.load(groupKey(clusterId, name))).inService,
    }),
    variables: variablesField(t, "Variables of every operation on its nodes, over those of the cluster."),
  }),
});

builder.objectType(ClusterRef, {
  description: "Named set of nodes with common settings. A node belongs to at most one cluster.",
  fields: (t) => ({
    id: t.id({ description: "Global ID: opaque and stable.", resolve: CLUSTER_FIELDS.id.value }),
    name: t.exposeString("name", { description: "Unique name of the cluster." }),
    project: t.exposeString("project", { description: "Project that owns it." }),
    state: t.field({
      type: ClusterStateEnum,
      description: "State, computed from the nodes and their unfinished runs.",
      resolve: async ({ id }, _args, { load }) => (await load.clusterFacts.load(id)).state,
    }),
    variables: variablesField(t, "Settings: default variables of every operation on the cluster's nodes."),
    hostGroups: t.field({
      type: [HostGroupRef],
      description: "Host groups with settings, in the order in which they are deployed, then by name.",
      resolve: ({ id, hostGroups }) => {
        const stages = stagesOf(hostGroups);
        const stageOf = (name: string) => stages.get(name) ?? 0;
        return Object.entries(hostGroups)
          .map(([name, group]) => ({ name, clusterId: id, ...group }))
          .toSorted((a, b) => stageOf(a.name) - stageOf(b.name) || (a.name < b.name ? -1 : 1));
      },
    }),
    otherHostGroups: t.stringList({
      description: "Host groups of its nodes that are not among `hostGroups`, by name. No rules apply to them.",
      resolve: async ({ id, hostGroups }, _args, { load }) =>
        (await load.hostGroupNames.load(id)).filter((name) => !Object.hasOwn(hostGroups, name)),
    }),
    revision: t.exposeInt("revision", {
      description: "Increases with every change. Send it as `ifRevision` to detect concurrent changes.",
    }),
    createdAt: t.expose("createdAt", { type: "DateTime", description: "Time of creation." }),
    updatedAt: t.expose("updatedAt", { type: "DateTime", description: "Time of the last change." }),
    nodeCounts: t.field({
      type: [NodeStateCountRef],
      description: "Number of nodes per state; states without nodes are left out.",
      resolve: async ({ id }, _args, { load }) => [...(await load.clusterFacts.load(id)).counts],
    }),
    nodes: t.field({
      type: NodeConnection,
      description: "Nodes of the cluster.",
      extensions: NODES_AS_TEXT,
      args: nodeListArgs(t.arg),
      resolve: ({ id }, args, context, info) => nodeList(args, context, listPlan(info), id),
    }),
    operations: t.field({
      type: OperationConnection,
      description:
        "Operations that were requested for the cluster, or on nodes that were members of it when the operation was accepted, selected in any way; newest first.",
      args: pageArgs(t.arg),
      resolve: async ({ id }, args, { load }) =>
        connectionOf(
          await load.below(operationsOfClusters, id, pageRequest(args, "instant"), EMPTY_PAGE),
          ({ createdAt }) => createdAt,
          () => load.below(operationCountsOfClusters, id, null, 0),
        ),
    }),
  }),
});

const ClusterConnection = connectionType("Cluster", ClusterRef, true);

builder.queryField("cluster", (t) =>
  t.field({
    type: ClusterRef,
    nullable: true,
    ...needs("READ"),
    description: "One cluster by ID or name; null if it does not exist.",
    args: { by: t.arg({ type: ClusterRefInput, required: true, description: "Reference to it by ID or name." }) },
    resolve: async (_root, { by }, { services, load }) => {
      const choice = clusterChoice(by);
      if ("name" in choice) return (await clusterByName(services.database.reader, choice.name)) ?? null;
      return isUuid(choice.id) ? load.cluster.load(choice.id) : null;
    },
  }),
);

builder.queryField("clusters", (t) =>
  t.field({
    type: ClusterConnection,
    ...needs("READ"),
    description: "Clusters that match a filter, sorted by name; all clusters without one.",
    args: {
      filter: t.arg({ type: ClusterFilterInput, description: "Only matching clusters; by default all." }),
      ...pageArgs(t.arg),
    },
    resolve: async (_root, args, { services }) => {
      const { reader } = services.database;
      const filter = clusterFilter(args.filter);
      return connectionOf(
        await clustersPage(reader, filter, pageRequest(args, "text")),
        ({ name }) => nameKey(name),
        () => countClusters(reader, filter),
      );
    },
  }),
);

// ---- mutations

/** The payload of a mutation after which the cluster exists. */
function clusterPayload(mutation: string) {
  return payloadType<ClusterEdited>(mutation, (t) => ({
    cluster: clusterField(t, "The cluster after the change; null if the request was refused."),
    ...refusalFields(t, "Reasons why the request was refused; empty if it succeeded."),
  }));
}

const HostGroupRequirementInput = builder.inputType("HostGroupRequirementInput", {
  description: "Nodes of another host group that have to be ACTIVE.",
  fields: (t) => ({
    group: t.string({ required: true, description: "Name of the other group." }),
    share: t.field({
      type: ShareInput,
      description: "Number of its nodes, at least one; percentages are rounded up. By default all of them.",
    }),
  }),
});

const HostGroupInput = builder.inputType("HostGroupInput", {
  description: "Host group of a cluster, with its settings.",
  fields: (t) => ({
    name: t.string({
      required: true,
      description: "Name: 1–63 letters, digits, dots, dashes, slashes or underscores.",
    }),
    after: t.field({
      type: [HostGroupRequirementInput],
      description: "Requirements for the begin of a deployment; without one its nodes begin at once.",
    }),
    tolerates: t.field({
      type: ShareInput,
      description: "Nodes that may fail in an operation that deploys. By default the failure policy alone applies.",
    }),
    minActive: t.field({ type: ShareInput, description: "Minimum number of nodes in service. By default no minimum." }),
    variables: t.field({
      type: "JSON",
      description: "Variables to merge into those of the present group of this name; null removes a key.",
    }),
  }),
});

function hostGroupsOf(groups: readonly (typeof HostGroupInput.$inferInput)[] | null | undefined) {
  return groups?.map(({ name, after, tolerates, minActive, variables }) => ({
    name,
    ...(after && {
      after: after.map(({ group, share }) => ({ group, ...(share && { share: shareOf(share) }) })),
    }),
    ...(tolerates && { tolerates: shareOf(tolerates) }),
    ...(minActive && { minActive: shareOf(minActive) }),
    variables: given(variables),
  }));
}

addMutation("createCluster", {
  scope: "MANAGE",
  description: "Create a cluster: a name and settings for a set of nodes.",
  input: builder.inputType("CreateClusterInput", {
    description: "Name, settings and first nodes of a new cluster.",
    fields: (t) => ({
      name: t.string({ required: true, description: "Unique name of the cluster." }),
      variables: t.field({ type: "JSON", description: "Settings of the cluster: a JSON object." }),
      hostGroups: t.field({ type: [HostGroupInput], description: "Host groups with settings, at most 100." }),
      image: t.field({ type: ImageRefInput, description: "Image that its nodes should have; by default none." }),
      nodes: t.field({
        type: NodeSelectorInput,
        description: "Nodes to add at once; none of them may belong to another cluster.",
      }),
    }),
  }),
  argument: "Reference to it by ID or name.",
  payload: clusterPayload("createCluster"),
  run: (input, engine, caller) =>
    engine.createCluster(caller, {
      name: input.name,
      variables: given(input.variables),
      hostGroups: hostGroupsOf(input.hostGroups),
      image: input.image && imageChoice(input.image),
      nodes: input.nodes ? nodeSelector(input.nodes) : undefined,
    }),
});

addMutation("updateCluster", {
  scope: "MANAGE",
  description: "Rename a cluster, change its settings, add nodes or remove nodes.",
  input: builder.inputType("UpdateClusterInput", {
    description:
      "Changes to a cluster. Omitted fields stay as they are. Refused with CLUSTER_LOCKED while the cluster is DEPLOYING or STOPPING.",
    fields: (t) => ({
      cluster: t.field({ type: ClusterRefInput, required: true, description: "Reference to it by ID or name." }),
      ifRevision: t.int({ description: "Refuse the request if the cluster has another revision." }),
      name: t.string({ description: "New unique name." }),
      variables: t.field({
        type: "JSON",
        description:
          "Settings to merge into the present ones: a given key replaces the present value, null removes the key.",
      }),
      hostGroups: t.field({
        type: [HostGroupInput],
        description: "Host groups with settings, at most 100; replaces the present ones. Their nodes stay as they are.",
      }),
      image: t.field({
        type: ImageRefInput,
        description: "Image that its nodes should have; null for none. `applyCluster` installs it.",
      }),
      add: t.field({ type: NodeSelectorInput, description: "Nodes to add." }),
      remove: t.field({
        type: NodeSelectorInput,
        description: "Nodes to remove from the cluster; none of them may be in `add`.",
      }),
    }),
  }),
  argument: "Changes to make.",
  payload: clusterPayload("updateCluster"),
  run: (input, engine, caller) =>
    engine.updateCluster(caller, clusterChoice(input.cluster), {
      ifRevision: given(input.ifRevision),
      name: given(input.name),
      variables: given(input.variables),
      hostGroups: hostGroupsOf(input.hostGroups),
      image: input.image && imageChoice(input.image),
      add: input.add ? nodeSelector(input.add) : undefined,
      remove: input.remove ? nodeSelector(input.remove) : undefined,
    }),
});

addMutation("deleteCluster", {
  scope: "MANAGE",
  description: "Delete a cluster. Its nodes are kept and belong to no cluster afterwards.",
  input: builder.inputType("DeleteClusterInput", {
    description: "Cluster to delete, with an optional revision check. Its nodes are kept.",
    fields: (t) => ({
      cluster: t.field({ type: ClusterRefInput, required: true, description: "Reference to it by ID or name." }),
      ifRevision: t.int({ description: "Refuse the request if the cluster has another revision." }),
    }),
  }),
  argument: "Reference to it by ID or name.",
  payload: payloadType<ClusterEdited>("deleteCluster", (t) =>
    refusalFields(t, "Reasons why the request was refused; empty if the cluster was deleted."),
  ),
  run: (input, engine, caller) => engine.deleteCluster(caller, clusterChoice(input.cluster), given(input.ifRevision)),
});
