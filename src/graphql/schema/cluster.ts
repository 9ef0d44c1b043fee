/** Clusters: the type, its queries and the mutations that change them. */
import type { ClusterEdited } from "../../engine/inventory/clusters.ts";
import { clusterByName, clustersPage } from "../../store/clusters.ts";
import { CLUSTER_FIELDS } from "../../store/node-fields.ts";
import { operationsOfClusters } from "../../store/operations.ts";
import type { NodeState } from "../../lifecycle/node-states.ts";
import { QueryRef, builder, given, needs } from "../base/builder.ts";
import { connectionOf, connectionType, EMPTY_PAGE, pageArgs, pageRequest } from "../base/connection.ts";
import { callerOf } from "../base/context.ts";
import { ClusterStateEnum, NodeStateEnum } from "../base/enums.ts";
import { UserErrorRef } from "../base/errors.ts";
import { isUuid } from "../base/ids.ts";
import { listPlan } from "../execution/json-lists.ts";
import { NODES_AS_TEXT, NodeConnection, nodeList, nodeListArgs } from "./node.ts";
import { OperationConnection } from "./operation.ts";
import { ClusterRef, ResourceRef } from "../base/refs.ts";
import { ClusterRefInput, NodeSelectorInput, clusterChoice, nodeSelector } from "./selectors.ts";

const NodeStateCountRef = builder
  .objectRef<{ readonly state: NodeState; readonly count: number }>("NodeStateCount")
  .implement({
    description: "Number of nodes in one state.",
    fields: (t) => ({
      state: t.field({
        type: NodeStateEnum,
        description: "Where they are in their lifecycle.",
        resolve: ({ state }) => state,
      }),
      count: t.exposeInt("count", { description: "How many nodes." }),
    }),
  });

builder.objectType(ClusterRef, {
  description: "Named set of nodes with settings. A node is in at most one.",
  interfaces: [ResourceRef],
  isTypeOf: (value) =>
    typeof value === "object" &&
    value !== null &&
    "variables" in value &&
    !("inputHash" in value) &&
    !("planHash" in value),
  fields: (t) => ({
    id: t.id({ description: "Global ID.", resolve: CLUSTER_FIELDS.id.value }),
    name: t.string({ description: "Unique name.", resolve: CLUSTER_FIELDS.name.value }),
    project: t.string({ description: "Owning project.", resolve: CLUSTER_FIELDS.project.value }),
    state: t.field({
      type: ClusterStateEnum,
      description: "Computed state.",
      resolve: async ({ id }, _args, { load }) => (await load.clusterFacts.load(id)).state,
    }),
    variables: t.field({
      type: "JSON",
      description: "Settings: variables that every operation on its nodes starts from.",
      resolve: ({ variables }) => variables,
    }),
    revision: t.int({
      description: "Increases with every change; send it back as `ifRevision`.",
      resolve: CLUSTER_FIELDS.revision.value,
    }),
    createdAt: t.field({
      type: "DateTime",
      description: "When it was created.",
      resolve: CLUSTER_FIELDS.createdAt.value,
    }),
    updatedAt: t.field({
      type: "DateTime",
      description: "When it was last changed.",
      resolve: CLUSTER_FIELDS.updatedAt.value,
    }),
    nodeCounts: t.field({
      type: [NodeStateCountRef],
      description: "Number of nodes in each state that occurs.",
      resolve: async ({ id }, _args, { load }) => [...(await load.clusterFacts.load(id)).counts],
    }),
    nodes: t.field({
      type: NodeConnection,
      description: "Its members.",
      extensions: NODES_AS_TEXT,
      args: nodeListArgs(t.arg),
      resolve: ({ id }, args, context, info) => nodeList(args, context, listPlan(info), id),
    }),
    operations: t.field({
      type: OperationConnection,
      description: "Operations asked for the cluster, newest first.",
      args: pageArgs(t.arg),
      resolve: async ({ id }, args, { load }) =>
        connectionOf(
          await load.below(operationsOfClusters, id, pageRequest(args, "instant"), EMPTY_PAGE),
          ({ createdAt }) => createdAt,
        ),
    }),
  }),
});

const ClusterConnection = connectionType("Cluster", ClusterRef);

builder.queryField("cluster", (t) =>
  t.field({
    type: ClusterRef,
    nullable: true,
    ...needs("READ"),
    description: "One cluster; null if it does not exist.",
    args: { by: t.arg({ type: ClusterRefInput, required: true, description: "Which cluster." }) },
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
    description: "Clusters by name.",
    args: pageArgs(t.arg),
    resolve: async (_root, args, { services }) =>
      connectionOf(await clustersPage(services.database.reader, pageRequest(args, "text")), ({ name }) => name),
  }),
);

// ---- mutations

const CreateClusterInput = builder.inputType("CreateClusterInput", {
  description: "A new cluster.",
  fields: (t) => ({
    name: t.string({ required: true, description: "Unique name." }),
    variables: t.field({ type: "JSON", description: "Settings: a JSON object." }),
    nodes: t.field({ type: NodeSelectorInput, description: "First nodes; none of them in another cluster." }),
  }),
});

const UpdateClusterInput = builder.inputType("UpdateClusterInput", {
  description:
    "Change a cluster. An omitted field stays. Refused with CLUSTER_LOCKED while it is deploying or stopping.",
  fields: (t) => ({
    cluster: t.field({ type: ClusterRefInput, required: true, description: "Which cluster." }),
    ifRevision: t.int({ description: "Refuse if the cluster has another revision by now." }),
    name: t.string({ description: "New name." }),
    variables: t.field({
      type: "JSON",
      description: "Laid over the settings as they are: later wins, empty values override, null removes a key.",
    }),
    add: t.field({ type: NodeSelectorInput, description: "Nodes to add." }),
    remove: t.field({ type: NodeSelectorInput, description: "Nodes to take out; carried out before `add`." }),
  }),
});

const DeleteClusterInput = builder.inputType("DeleteClusterInput", {
  description: "Delete a cluster; its nodes stay.",
  fields: (t) => ({
    cluster: t.field({ type: ClusterRefInput, required: true, description: "Which cluster." }),
    ifRevision: t.int({ description: "Refuse if the cluster has another revision by now." }),
  }),
});

const ClusterPayloadRef = builder.objectRef<ClusterEdited>("ClusterPayload").implement({
  description: "Answer to a change of a cluster.",
  fields: (t) => ({
    cluster: t.field({
      type: ClusterRef,
      nullable: true,
      description: "The cluster as it is now, null after a deletion or a refusal.",
      resolve: ({ clusterId }, _args, { load }) => (clusterId === null ? null : load.cluster.load(clusterId)),
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Why the request was refused; empty when it was carried out.",
      resolve: ({ refusals }) => [...refusals],
    }),
    query: t.field({ type: QueryRef, description: "Root query, to read on in the same request.", resolve: () => ({}) }),
  }),
});

builder.mutationField("createCluster", (t) =>
  t.field({
    type: ClusterPayloadRef,
    nullable: true,
    ...needs("MANAGE"),
    description: "Give nodes a common name and common settings.",
    args: { input: t.arg({ type: CreateClusterInput, required: true, description: "The cluster." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.createCluster(callerOf(context), {
        name: input.name,
        variables: given(input.variables),
        nodes: input.nodes ? nodeSelector(input.nodes) : undefined,
      }),
  }),
);

builder.mutationField("updateCluster", (t) =>
  t.field({
    type: ClusterPayloadRef,
    nullable: true,
    ...needs("MANAGE"),
    description: "Rename a cluster, change its settings, add nodes or take nodes out.",
    args: { input: t.arg({ type: UpdateClusterInput, required: true, description: "The change." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.updateCluster(callerOf(context), clusterChoice(input.cluster), {
        ifRevision: given(input.ifRevision),
        name: given(input.name),
        variables: given(input.variables),
        add: input.add ? nodeSelector(input.add) : undefined,
        remove: input.remove ? nodeSelector(input.remove) : undefined,
      }),
  }),
);

builder.mutationField("deleteCluster", (t) =>
  t.field({
    type: ClusterPayloadRef,
    nullable: true,
    ...needs("MANAGE"),
    description: "Delete a cluster; its nodes stay, in no cluster.",
    args: { input: t.arg({ type: DeleteClusterInput, required: true, description: "Which cluster." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.deleteCluster(callerOf(context), clusterChoice(input.cluster), given(input.ifRevision)),
  }),
);
