/** Mutations that register, mark and delete nodes. They start no work. */
import type { Edited } from "../../../engine/inventory/change-nodes.ts";
import { pick } from "../../../runtime/pick.ts";
import { OPERATOR_COLUMNS } from "../../../store/nodes/node-fields.ts";
import { nodesByIds } from "../../../store/nodes/nodes.ts";
import { builder, given, needs } from "../../base/builder.ts";
import type { OutputFields } from "../../base/builder.ts";
import { callerOf } from "../../base/context.ts";
import { DriverSettingsInput, chosenDriver } from "../fleet/driver-settings.ts";
import { operatorInputs } from "./operator-inputs.ts";
import { payloadName, refusalFields } from "../../base/payload.ts";
import { NodeRef } from "../../base/refs.ts";
import { InterfacesFromInput, interfacesOf } from "./interfaces-from.ts";
import { RefusedNodeRef } from "../work/node-work.ts";
import { ClusterRefInput, LabelInput, NodeSelectorInput, clusterChoice, labelsOf, nodeSelector } from "../selectors.ts";
const changedNodes = (t: OutputFields<Edited>) => ({
  nodes: t.field({
    type: [NodeRef],
    description: "The nodes after the change, in the order of the request; empty if the request was refused.",
    resolve: async ({ nodeIds }, _args, { services }) => {
      const rows = new Map((await nodesByIds(services.database.reader, nodeIds)).map((row) => [row.id, row]));
      return nodeIds.flatMap((id) => rows.get(id) ?? []);
    },
  }),
  count: t.int({ description: "Number of nodes that were changed.", resolve: ({ nodeIds }) => nodeIds.length }),
  ...refusalFields(
    t,
    "Reasons why the request was refused; empty if it succeeded. Nodes that are refused with the same code have one together.",
  ),
});

const refusedNodes = (t: OutputFields<Edited>) => ({
  results: t.field({
    type: [RefusedNodeRef],
    description: "The nodes that were refused, in the order of the request; empty if the request succeeded.",
    resolve: ({ results }) => [...results],
  }),
});

const RegisterNodesPayloadRef = builder.objectRef<Edited>("RegisterNodesPayload").implement({
  description: "Answer to registerNodes.",
  fields: changedNodes,
});

const DeleteNodesPayloadRef = builder.objectRef<Edited>("DeleteNodesPayload").implement({
  description: "Answer to deleteNodes.",
  fields: (t) => {
    const { nodes: _deleted, ...others } = changedNodes(t);
    return { ...others, ...refusedNodes(t) };
  },
});

/** The payload of a mutation that marks nodes. */
function marksPayload(mutation: string) {
  return builder.objectRef<Edited>(payloadName(mutation)).implement({
    description: `Answer to ${mutation}.`,
    fields: (t) => ({ ...changedNodes(t), ...refusedNodes(t) }),
  });
}

const RegisterNodeInput = builder.inputType("RegisterNodeInput", {
  description: "Node to register; its first state is ENROLLED.",
  fields: (t) => ({
    name: t.string({
      required: true,
      description: "Unique name: 1–253 letters, digits, dots, dashes or underscores.",
    }),
    driver: t.field({
      type: DriverSettingsInput,
      required: true,
      description: "Driver of the node, with the node's settings for it.",
    }),
    interfaces: t.field({
      type: [InterfacesFromInput],
      description: "Interfaces that it takes from other drivers, each interface once.",
    }),
    labels: t.field({ type: [LabelInput], description: "Labels of the node." }),
    cluster: t.field({ type: ClusterRefInput, description: "Cluster of the node." }),
    ...operatorInputs(t),
    macs: t.stringList({
      description:
        "MAC addresses of its network interfaces, at most 64. No other node may have one of them. Inspection adds those that it finds.",
    }),
  }),
});

const RegisterNodesInput = builder.inputType("RegisterNodesInput", {
  description: "Nodes to register; all or none are registered.",
  fields: (t) => ({
    nodes: t.field({ type: [RegisterNodeInput], required: true, description: "Nodes, at least one." }),
  }),
});

builder.mutationField("registerNodes", (t) =>
  t.field({
    type: RegisterNodesPayloadRef,
    ...needs("MANAGE"),
    description:
      "Register nodes; they start in state ENROLLED. All or none are registered; `errors` has every error of every node.",
    args: { input: t.arg({ type: RegisterNodesInput, required: true, description: "The nodes." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.registerNodes(
        callerOf(context),
        input.nodes.map((node) => ({
          ...pick(node, OPERATOR_COLUMNS),
          name: node.name,
          ...chosenDriver(node.driver),
          interfaces: interfacesOf(node.interfaces),
          labels: labelsOf(node.labels),
          cluster: node.cluster ? clusterChoice(node.cluster) : undefined,
          macs: given(node.macs),
        })),
      ),
  }),
);

const DeleteNodesInput = builder.inputType("DeleteNodesInput", {
  description: "Nodes to delete; all or none are deleted.",
  fields: (t) => ({
    nodes: t.field({
      type: NodeSelectorInput,
      required: true,
      description: "Selection of nodes. None of them may be busy, protected or ACTIVE.",
    }),
  }),
});

builder.mutationField("deleteNodes", (t) =>
  t.field({
    type: DeleteNodesPayloadRef,
    ...needs("MANAGE"),
    description: "Delete nodes. Their transitions and operations are kept.",
    args: { input: t.arg({ type: DeleteNodesInput, required: true, description: "Selection of nodes." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.deleteNodes(callerOf(context), nodeSelector(input.nodes)),
  }),
);

const SetMaintenanceInput = builder.inputType("SetMaintenanceInput", {
  description: "Nodes to put into maintenance.",
  fields: (t) => ({
    nodes: t.field({ type: NodeSelectorInput, required: true, description: "Selection of nodes." }),
    reason: t.string({ required: true, description: "Reason for the maintenance, 1–1000 characters, not blank." }),
  }),
});

builder.mutationField("setMaintenance", (t) =>
  t.field({
    type: marksPayload("setMaintenance"),
    ...needs("OPERATE"),
    description:
      "Put nodes into maintenance until `clearMaintenance`: they accept only power changes, inspection and verification. A node that is in maintenance already gets the new reason. Starts and stops no work.",
    args: { input: t.arg({ type: SetMaintenanceInput, required: true, description: "Nodes and reason." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.setMaintenance(callerOf(context), nodeSelector(input.nodes), input.reason),
  }),
);

const ClearMaintenanceInput = builder.inputType("ClearMaintenanceInput", {
  description: "Nodes whose maintenance ends.",
  fields: (t) => ({
    nodes: t.field({ type: NodeSelectorInput, required: true, description: "Selection of nodes." }),
  }),
});

builder.mutationField("clearMaintenance", (t) =>
  t.field({
    type: marksPayload("clearMaintenance"),
    ...needs("OPERATE"),
    description:
      "End the maintenance of nodes. Runs that it paused continue. A node that is not in maintenance stays as it is.",
    args: { input: t.arg({ type: ClearMaintenanceInput, required: true, description: "Selection of nodes." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.clearMaintenance(callerOf(context), nodeSelector(input.nodes)),
  }),
);

const SetRetiredInput = builder.inputType("SetRetiredInput", {
  description: "Nodes to retire.",
  fields: (t) => ({
    nodes: t.field({ type: NodeSelectorInput, required: true, description: "Selection of nodes." }),
    reason: t.string({ required: true, description: "Reason for the retirement, 1–1000 characters, not blank." }),
  }),
});

builder.mutationField("setRetired", (t) =>
  t.field({
    type: marksPayload("setRetired"),
    ...needs("OPERATE"),
    description:
      "Retire nodes until `clearRetired`. Retired nodes refuse to be commissioned, deployed or redeployed, and end MANAGEABLE after a tear-down. Starts and stops no work.",
    args: { input: t.arg({ type: SetRetiredInput, required: true, description: "Nodes and reason." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.setRetired(callerOf(context), nodeSelector(input.nodes), input.reason),
  }),
);

const ClearRetiredInput = builder.inputType("ClearRetiredInput", {
  description: "Nodes to put back in service.",
  fields: (t) => ({
    nodes: t.field({ type: NodeSelectorInput, required: true, description: "Selection of nodes." }),
  }),
});

builder.mutationField("clearRetired", (t) =>
  t.field({
    type: marksPayload("clearRetired"),
    ...needs("OPERATE"),
    description: "Put retired nodes back in service. A node that is not retired stays as it is.",
    args: { input: t.arg({ type: ClearRetiredInput, required: true, description: "Selection of nodes." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.clearRetired(callerOf(context), nodeSelector(input.nodes)),
  }),
);
