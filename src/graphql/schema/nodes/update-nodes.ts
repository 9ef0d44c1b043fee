/** The mutation `updateNodes`: one change of one node or many, with its answer by outcome. */
import { editGroups } from "../../../engine/views.ts";
import type {
  UpdateNodesRequest,
  UpdatedNodes,
  EditAnswer,
  EditGroup,
  EditOutcome,
} from "../../../engine/inventory/update-nodes.ts";
import { pick } from "../../../runtime/pick.ts";
import { OPERATOR_COLUMNS } from "../../../store/nodes/node-fields.ts";
import { existing } from "../../base/batching.ts";
import { builder, given } from "../../base/builder.ts";
import { addMutation } from "../../base/mutation.ts";
import { EditOutcomeEnum } from "../../base/enums.ts";
import { UserErrorRef } from "../../base/errors.ts";
import { keyOf } from "../../base/ids.ts";
import { nodeFields, refusalFields } from "../../base/payload.ts";
import { NodeRef } from "../../base/refs.ts";
import { DriverSettingsChangeInput, chosenDriver } from "../fleet/driver-settings.ts";
import { operatorInputs } from "./operator-inputs.ts";
import { InterfacesFromChangeInput, interfacesOf } from "./interfaces-from.ts";
import { LabelInput, NodeSelectorInput, nodeSelector } from "../selectors.ts";
import { acceptanceField } from "../work/verb-terms.ts";

/** Nodes named in a group. */
const EXAMPLES_MAX = 10;

const NodeRevisionInput = builder.inputType("NodeRevisionInput", {
  description: "Node, and the revision that it must have.",
  fields: (t) => ({
    node: t.id({ required: true, description: "Global ID or UUID of the node." }),
    revision: t.int({
      required: true,
      description: "`Node.revision` as the caller read it. The node is refused with STALE_REVISION if it differs.",
    }),
  }),
});

const UpdateNodesInput = builder.inputType("UpdateNodesInput", {
  description:
    "Nodes, and the change to make on each of them. Omitted fields stay as they are. Exactly one of `nodes` and `revisions` selects the nodes.",
  fields: (t) => ({
    nodes: t.field({ type: NodeSelectorInput, description: "Selection of nodes, whatever their revisions are." }),
    revisions: t.field({
      type: [NodeRevisionInput],
      description: "Selection of nodes that must not have changed since they were read, each once.",
    }),
    expectedCount: t.int({
      description: "Refuse the request with STALE_REVISION if it selects another number of nodes.",
    }),
    ...acceptanceField(t),
    dryRun: t.boolean({
      required: true,
      defaultValue: false,
      description: "Only check the request: return what would change, and the refusals. Nothing is written.",
    }),
    labels: t.field({
      type: [LabelInput],
      description: "Labels; replaces all present ones. Not together with `setLabels` and `removeLabels`.",
    }),
    setLabels: t.field({ type: [LabelInput], description: "Labels to set, each key once; the others stay." }),
    removeLabels: t.stringList({ description: "Keys of labels to remove; a node without one stays as it is." }),
    variables: t.field({
      type: "JSON",
      description: "Variables to merge into those of each node; null removes a key.",
    }),
    name: t.string({ description: "New unique name; only for one node." }),
    driver: t.field({
      type: DriverSettingsChangeInput,
      description:
        "Driver of the nodes, with changes to their settings for it: an omitted setting stays as it is, null removes it. A different driver replaces the present one. An active run uses the new settings from its next step on.",
    }),
    interfaces: t.field({
      type: [InterfacesFromChangeInput],
      description: "Interfaces that the nodes take from other drivers; replaces the present lists.",
    }),
    ...operatorInputs(t),
    macs: t.stringList({
      description:
        "MAC addresses of the network interfaces, only for one node; replaces the present ones, those of inspections included. Null removes all, of many nodes too.",
    }),
    protected: t.boolean({ description: "Protect the nodes, or remove the protection. Active runs continue." }),
    settings: t.field({
      type: [DriverSettingsChangeInput],
      description:
        "Changes to the settings of drivers, each driver once. A node gets those for the drivers that it uses, its own or one that it takes interfaces from; a node that uses none of them is refused with UNSUPPORTED_BY_DRIVER. An omitted setting stays as it is, null removes it. Never changes which drivers a node uses: see `driver`.",
    }),
  }),
});

const NodeEditGroupRef = builder.objectRef<EditGroup>("NodeEditGroup").implement({
  description: "Nodes of a request with the same outcome; refused nodes by the code of their first error.",
  fields: (t) => ({
    outcome: t.field({
      type: EditOutcomeEnum,
      description: "What the request does to them.",
      resolve: (group) => group.outcome,
    }),
    nodeCount: t.int({ description: "Number of nodes.", resolve: ({ results }) => results.length }),
    nodes: t.field({
      type: [NodeRef],
      description: `The first ${EXAMPLES_MAX} of them, in the order of the request; without those that do not exist.`,
      resolve: ({ results }, _args, { load }) =>
        existing(
          load.node,
          results.slice(0, EXAMPLES_MAX).flatMap(({ nodeId }) => nodeId ?? []),
        ),
    }),
    error: t.expose("refusal", {
      type: UserErrorRef,
      nullable: true,
      description: "Why they were refused, with the data of the first of them; null if they were not.",
    }),
  }),
});

const NodeEditResultRef = builder.objectRef<EditAnswer>("NodeEditResult").implement({
  description: "What a request to `updateNodes` does to one node, and why not.",
  fields: (t) => ({
    ...nodeFields(t, "The node after the request; null if it does not exist."),
    outcome: t.expose("outcome", {
      type: EditOutcomeEnum,
      description: "What the request does to the node; nothing is stored unless `stored` is true.",
    }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Every reason why the node was refused; empty if it was not.",
      resolve: ({ refusal, further = [] }) => (refusal ? [refusal, ...further] : []),
    }),
  }),
});

function countOf({ results }: UpdatedNodes, outcome: EditOutcome): number {
  return results.filter((one) => one.outcome === outcome).length;
}

const UpdateNodesPayloadRef = builder.objectRef<UpdatedNodes>("UpdateNodesPayload").implement({
  description:
    "Answer to `updateNodes`. If the request was refused, or was a dry run, the counts and outcomes say what it would have done.",
  fields: (t) => ({
    stored: t.exposeBoolean("isStored", {
      description: "Whether the changes are stored: false for a refused request and for a dry run.",
    }),
    nodes: t.field({
      type: [NodeRef],
      description:
        "The nodes after the change, in the order of the request, without refused ones; empty if nothing is stored.",
      resolve: ({ isStored, results }, _args, { load }) => {
        const stored = isStored ? results.filter(({ outcome }) => outcome !== "REFUSED") : [];
        return existing(
          load.node,
          stored.flatMap(({ nodeId }) => nodeId ?? []),
        );
      },
    }),
    changedCount: t.int({
      description: "Number of nodes that the request changes.",
      resolve: (edited) => countOf(edited, "CHANGED"),
    }),
    unchangedCount: t.int({
      description: "Number of nodes that already are as the request wants them.",
      resolve: (edited) => countOf(edited, "UNCHANGED"),
    }),
    refusedCount: t.int({
      description: "Number of refused nodes.",
      resolve: (edited) => countOf(edited, "REFUSED"),
    }),
    groups: t.field({
      type: [NodeEditGroupRef],
      description:
        "The nodes by outcome: changed, unchanged, then refused, by code with the largest group first. Empty if the request was refused before its nodes were checked.",
      resolve: ({ results }) => editGroups(results),
    }),
    results: t.field({
      type: [NodeEditResultRef],
      description: "One result per node, in the order of the request.",
      args: {
        outcomes: t.arg({
          type: [EditOutcomeEnum],
          description: "Only results with one of these outcomes; an empty list matches nothing.",
        }),
      },
      resolve: ({ results }, { outcomes }) =>
        outcomes ? results.filter(({ outcome }) => outcomes.includes(outcome)) : [...results],
    }),
    ...refusalFields(
      t,
      "Reasons why the whole request was refused, one for each code; empty if it was accepted. With BEST_EFFORT, refused nodes are in `groups` and `results` alone, unless all are refused.",
    ),
  }),
});

addMutation("updateNodes", {
  scope: "MANAGE",
  description:
    "Change one node or many, all in the same way and in one transaction: labels, variables, host group, description, flags, drivers and their settings; name and MAC addresses of one node. Starts and stops no work: see `redeployNodes` to install nodes again. A node that already is as the request wants it keeps its revision; a secret that is sent always counts as a change.",
  input: UpdateNodesInput,
  argument: "Nodes, and the change.",
  payload: UpdateNodesPayloadRef,
  run: (input, engine, caller) => engine.updateNodes(caller, requestOf(input)),
});

function requestOf(input: typeof UpdateNodesInput.$inferInput): UpdateNodesRequest {
  return {
    nodes: input.nodes ? nodeSelector(input.nodes) : undefined,
    revisions: input.revisions?.map(({ node, revision }) => ({ nodeId: keyOf("Node", node), revision })),
    expectedCount: given(input.expectedCount),
    acceptance: input.acceptance,
    dryRun: input.dryRun,
    patch: {
      ...pick(input, OPERATOR_COLUMNS),
      labels: given(input.labels),
      setLabels: given(input.setLabels),
      removeLabels: given(input.removeLabels),
      variables: given(input.variables),
      name: given(input.name),
      ...(input.driver && chosenDriver(input.driver)),
      interfaces: interfacesOf(input.interfaces),
      macs: input.macs,
      isProtected: given(input.protected),
      settingsOfDrivers: input.settings?.map(chosenDriver),
    },
  };
}
