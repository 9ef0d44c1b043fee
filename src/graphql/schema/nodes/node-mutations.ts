/** Mutations that register, mark and delete nodes. They start no work. */
import type { Edited } from "../../../engine/inventory/change-nodes.ts";
import { pick } from "../../../runtime/pick.ts";
import { OPERATOR_COLUMNS } from "../../../store/nodes/node-fields.ts";
import { existing } from "../../base/batching.ts";
import { builder, given } from "../../base/builder.ts";
import { addMutation } from "../../base/mutation.ts";
import type { OutputFields } from "../../base/builder.ts";
import { DriverSettingsInput, chosenDriver } from "../fleet/driver-settings.ts";
import { operatorInputs } from "./operator-inputs.ts";
import { inputName, payloadType, refusalFields } from "../../base/payload.ts";
import { NodeRef } from "../../base/refs.ts";
import { InterfacesFromInput, interfacesOf } from "./interfaces-from.ts";
import { RefusedNodeRef } from "../work/node-work.ts";
import { ClusterRefInput, LabelInput, NodeSelectorInput, clusterChoice, nodeSelector } from "../selectors.ts";
const changedNodes = (t: OutputFields<Edited>) => ({
  nodes: t.field({
    type: [NodeRef],
    description: "The nodes after the change, in the order of the request; empty if the request was refused.",
    resolve: ({ nodeIds }, _args, { load }) => existing(load.node, nodeIds),
  }),
  count: t.int({ description: "Number of nodes that were changed.", resolve: ({ nodeIds }) => nodeIds.length }),
  ...refusalFields(
    t,
    "Reasons why the request was refused; empty if it succeeded. Nodes that are refused with the same code have one together.",
  ),
});

const refusedNodes = (t: OutputFields<Edited>) => ({
  results: t.expose("results", {
    type: [RefusedNodeRef],
    description: "The nodes that were refused, in the order of the request; empty if the request succeeded.",
  }),
});

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
    variables: t.field({ type: "JSON", description: "Variables of every operation on the node: a JSON object." }),
    ...operatorInputs(t),
    macs: t.stringList({
      description:
        "MAC addresses of its network interfaces, at most 64. No other node may have one of them. Inspection adds those that it finds.",
    }),
  }),
});

addMutation("registerNodes", {
  scope: "MANAGE",
  description:
    "Register nodes; they start in state ENROLLED. All or none are registered; `errors` has every error of every node.",
  input: builder.inputType("RegisterNodesInput", {
    description: "Nodes to register; all or none are registered.",
    fields: (t) => ({
      nodes: t.field({ type: [RegisterNodeInput], required: true, description: "Nodes, at least one." }),
    }),
  }),
  argument: "The nodes.",
  payload: payloadType<Edited>("registerNodes", changedNodes),
  run: (input, engine, caller) =>
    engine.registerNodes(
      caller,
      input.nodes.map((node) => ({
        ...pick(node, OPERATOR_COLUMNS),
        name: node.name,
        ...chosenDriver(node.driver),
        interfaces: interfacesOf(node.interfaces),
        labels: given(node.labels),
        cluster: node.cluster ? clusterChoice(node.cluster) : undefined,
        macs: given(node.macs),
        variables: given(node.variables),
      })),
    ),
});

addMutation("deleteNodes", {
  scope: "MANAGE",
  description: "Delete nodes. Their transitions and operations are kept.",
  input: builder.inputType("DeleteNodesInput", {
    description: "Nodes to delete; all or none are deleted.",
    fields: (t) => ({
      nodes: t.field({
        type: NodeSelectorInput,
        required: true,
        description: "Selection of nodes. None of them may be busy, protected or ACTIVE.",
      }),
    }),
  }),
  argument: "Selection of nodes.",
  payload: payloadType<Edited>("deleteNodes", (t) => {
    const { nodes: _deleted, ...others } = changedNodes(t);
    return { ...others, ...refusedNodes(t) };
  }),
  run: (input, engine, caller) => engine.deleteNodes(caller, nodeSelector(input.nodes)),
});

/** Mutations that mark nodes: with a reason, or those that end the mark. */
const MARKS = [
  {
    mutation: "setMaintenance",
    description:
      "Put nodes into maintenance until `clearMaintenance`: they accept only power changes, inspection, verification, `undeployNodes` and `decommissionNodes`. A node that is in maintenance already gets the new reason. Starts and stops no work.",
    input: "Nodes to put into maintenance.",
    reason: "Reason for the maintenance",
  },
  {
    mutation: "clearMaintenance",
    description:
      "End the maintenance of nodes. Runs that it paused continue. A node that is not in maintenance stays as it is.",
    input: "Nodes whose maintenance ends.",
  },
  {
    mutation: "setRetired",
    description:
      "Retire nodes until `clearRetired`. Retired nodes refuse to be commissioned, deployed or redeployed, and end MANAGEABLE after a tear-down. Starts and stops no work.",
    input: "Nodes to retire.",
    reason: "Reason for the retirement",
  },
  {
    mutation: "clearRetired",
    description: "Put retired nodes back in service. A node that is not retired stays as it is.",
    input: "Nodes to put back in service.",
  },
] as const;

for (const mark of MARKS) {
  const { mutation, description } = mark;
  addMutation(mutation, {
    scope: "OPERATE",
    description,
    input: builder.inputType(inputName(mutation), {
      description: mark.input,
      fields: (t) => ({
        nodes: t.field({ type: NodeSelectorInput, required: true, description: "Selection of nodes." }),
        ...("reason" in mark && {
          reason: t.string({ required: true, description: `${mark.reason}, 1–1000 characters, not blank.` }),
        }),
      }),
    }),
    argument: "reason" in mark ? "Nodes and reason." : "Selection of nodes.",
    payload: payloadType<Edited>(mutation, (t) => ({ ...changedNodes(t), ...refusedNodes(t) })),
    run: ({ nodes, reason }, engine, caller) => engine[mutation](caller, nodeSelector(nodes), reason),
  });
}
