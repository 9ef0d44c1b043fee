/** `Cluster.pendingChanges`: the nodes on which applyCluster would work, by reason. */
import type { PendingChanges, PendingGroup } from "../../../engine/admission/pending-changes.ts";
import { existing } from "../../base/batching.ts";
import { builder } from "../../base/builder.ts";
import { sizeWithin } from "../../base/connection.ts";
import { ClusterRef, NodeRef } from "../../base/refs.ts";

const GROUPS_MAX = 100;
const NODES_MAX = 100;
const NO_CHANGES: PendingChanges = { count: 0, groups: [] };

const PendingGroupRef = builder.objectRef<PendingGroup>("PendingChangeGroup").implement({
  description: "Nodes of a cluster on which applyCluster would work for the same reason.",
  fields: (t) => ({
    reason: t.exposeString("reason", {
      description:
        "Why, as in `new`, `stopped in write_image` or `variables.ntp: 10.0.0.1 → 10.0.0.2`; several differences are separated by `; `.",
    }),
    needsReinstall: t.boolean({
      description: "Whether only an installation, with `reinstall: true`, brings the nodes to what the cluster wants.",
      resolve: ({ kind }) => kind === "REINSTALL",
    }),
    nodeCount: t.exposeInt("nodeCount", { description: "Number of nodes." }),
    nodes: t.field({
      type: [NodeRef],
      description: "The first of the nodes, by name.",
      args: {
        first: t.arg.int({ required: true, defaultValue: 5, description: `Number of nodes, 1 to ${NODES_MAX}.` }),
      },
      resolve: ({ nodeIds }, { first }, { load }) =>
        existing(load.node, nodeIds.slice(0, sizeWithin(NODES_MAX, "first", first))),
    }),
  }),
});

const PendingChangesRef = builder.objectRef<PendingChanges>("PendingChanges").implement({
  description: "What applyCluster would do on a cluster now.",
  fields: (t) => ({
    count: t.exposeInt("count", { description: "Number of nodes; each is in one group." }),
    groups: t.field({
      type: [PendingGroupRef],
      description: "The nodes by reason, largest group first.",
      args: {
        first: t.arg.int({ required: true, defaultValue: 20, description: `Number of groups, 1 to ${GROUPS_MAX}.` }),
      },
      resolve: ({ groups }, { first }) => groups.slice(0, sizeWithin(GROUPS_MAX, "first", first)),
    }),
    groupCount: t.int({ description: "Number of groups in all.", resolve: ({ groups }) => groups.length }),
  }),
});

builder.objectField(ClusterRef, "pendingChanges", (t) =>
  t.field({
    type: PendingChangesRef,
    description:
      "Nodes on which applyCluster would work now, by reason. Nodes that it leaves alone do not count: busy ones, and those that are in maintenance, protected, retired, decommissioned, have disappeared, or have a fault or an identity conflict.",
    resolve: ({ id }, _args, { load, services }) => load.below(services.engine.pendingChanges, id, null, NO_CHANGES),
  }),
);
