/** Nodes: the type with its fields. Lists, verbs and mutations of nodes have files of their own. */
import { DECLARED_NAMES, NODE_FIELDS, declared, declaredValue } from "../../../store/nodes/node-fields.ts";
import type { NodeRow } from "../../../store/nodes/node-fields.ts";
import type { NodeFault } from "../../../lifecycle/faults.ts";
import type { IdentityConflict } from "../../../lifecycle/identity.ts";
import { inventoriesPages, inventoryCounts } from "../../../store/nodes/nodes.ts";
import { operationCountsOfNodes, operationsOfNodes } from "../../../store/operations/operation-lists.ts";
import { transitionCountsOfNodes, transitionsOfNodes } from "../../../store/log/transitions.ts";
import { builder } from "../../base/builder.ts";
import {
  connectionOf,
  EMPTY_PAGE,
  logPositionOf,
  numberedRequest,
  pageArgs,
  pageRequest,
  TRANSITIONS_PAGE_MAX,
} from "../../base/connection.ts";
import { CatalogueStepRef, stepCatalogue } from "../plans/catalogue.ts";
import {
  IdentityKindEnum,
  NodeFaultKindEnum,
  NodeStateEnum,
  PhaseEnum,
  PowerStateEnum,
  PresenceEnum,
  StageEnum,
  FailureKindEnum,
} from "../../base/enums.ts";
import { NodeDriverRef, driverShares } from "./node-drivers.ts";
import { InventoryChangeRef, InventoryConnection, InventoryRef, inventoryDiff } from "./inventory.ts";
import { OperationConnection } from "../work/operation.ts";
import { FailureRef, NodeRef, RunRef } from "../../base/refs.ts";
import { clusterField, nodeField, variablesField } from "../../base/shared-fields.ts";
import { TransitionConnection, transitionConnection } from "../work/transition.ts";

export const LabelRef = builder.objectRef<{ readonly key: string; readonly value: string }>("Label").implement({
  description: "Label of a node or an image: a free key/value pair to select by.",
  fields: (t) => ({
    key: t.exposeString("key", { description: "Key, unique per object." }),
    value: t.exposeString("value", { description: "Value of the label." }),
  }),
});

const MaintenanceRef = builder
  .objectRef<{ readonly reason: string; readonly since: Date; readonly startedBy: string }>("Maintenance")
  .implement({
    description: "Maintenance of a node.",
    fields: (t) => ({
      reason: t.exposeString("reason", { description: "Reason given by the operator." }),
      since: t.expose("since", { type: "DateTime", description: "Start time." }),
      startedBy: t.exposeString("startedBy", { description: "Who started it." }),
    }),
  });

const NodeFaultRef = builder
  .objectRef<{ readonly kind: NodeFault; readonly since: Date; readonly message: string }>("NodeFault")
  .implement({
    description:
      "Fault of a node: set by the service, and ended by it when the cause is gone. Independent of maintenance, which operators set.",
    fields: (t) => ({
      kind: t.expose("kind", { type: NodeFaultKindEnum, description: "Fault as a code." }),
      since: t.expose("since", { type: "DateTime", description: "Start time." }),
      message: t.exposeString("message", { description: "Cause, as a sentence for people." }),
    }),
  });

const IdentityConflictRef = builder.objectRef<IdentityConflict>("IdentityConflict").implement({
  description: "What two nodes have in common that one machine alone has.",
  fields: (t) => ({
    kind: t.expose("kind", { type: IdentityKindEnum, description: "What is equal." }),
    value: t.exposeString("value", { description: "The value, as this node has it." }),
    nodeName: t.exposeString("nodeName", { description: "Name of the other node." }),
    node: nodeField(t, "The other node; the first by name if there are several."),
    since: t.field({
      type: "DateTime",
      description: "Time at which it was found.",
      resolve: ({ since }) => new Date(since),
    }),
  }),
});

builder.objectType(NodeRef, {
  description: "Bare-metal machine.",
  fields: (t) => ({
    id: t.id({ description: "Global ID: opaque and stable.", resolve: NODE_FIELDS.id.value }),
    uuid: t.expose("id", { type: "UUID", description: "UUID as used in logs and by drivers." }),
    name: t.exposeString("name", { description: "Unique name, chosen by people." }),
    project: t.exposeString("project", { description: "Project that owns it." }),
    state: t.expose("state", { type: NodeStateEnum, description: "Current lifecycle state." }),
    targetState: t.field({
      type: NodeStateEnum,
      nullable: true,
      description: "State in which the unfinished run will end; null if there is no unfinished run.",
      resolve: async ({ id }, _args, { load }) => (await load.currentRun.load(id))?.target ?? null,
    }),
    stage: t.expose("stage", { type: StageEnum, description: "How far the node has come; a restart decides by it." }),
    presence: t.expose("presence", { type: PresenceEnum, description: "Presence as reported by monitoring." }),
    lastError: t.expose("lastError", {
      type: FailureRef,
      nullable: true,
      description:
        "Failure of the last run on the node; null if it succeeded, and from when later work moves the node.",
    }),
    revision: t.exposeInt("revision", {
      description: "Increases with every change. Send it as `ifRevision` to detect concurrent changes.",
    }),
    transitionCount: t.exposeInt("transitionCount", {
      description: "Number of transitions of the node: the `sequence` of the newest one.",
    }),
    createdAt: t.expose("createdAt", { type: "DateTime", description: "Time of registration." }),
    updatedAt: t.expose("updatedAt", { type: "DateTime", description: "Time of the last change." }),
  }),
});

builder.objectFields(NodeRef, (t) => ({
  powerState: t.expose("powerState", { type: PowerStateEnum, description: "Power state as last read." }),
  powerReadAt: t.expose("powerReadAt", {
    type: "DateTime",
    nullable: true,
    description: "Time when the power state was first read or last seen to change; null if it was never read.",
  }),
  powerCheckedAt: t.expose("powerCheckedAt", {
    type: "DateTime",
    nullable: true,
    description: "Time when the power state was last read in the background or with readPower; null if never.",
  }),
  powerProblem: t.exposeString("powerProblem", {
    nullable: true,
    description: "Why the last reading of the power state failed; null if it succeeded.",
  }),
  powerProblemKind: t.field({
    type: FailureKindEnum,
    nullable: true,
    description:
      "Cause of `powerProblem` as the driver classified it. Null if there is no problem, or if the driver did not answer in time.",
    resolve: NODE_FIELDS.powerProblemKind.value,
  }),
  wantedPower: t.expose("wantedPower", {
    type: PowerStateEnum,
    nullable: true,
    description: "Power state, ON or OFF, that Ostler last set; null if it never set one.",
  }),
  powerDrift: t.boolean({
    description:
      "Whether the power state differs from `wantedPower`, because it was changed outside Ostler. `Site.correctPower` decides whether Ostler changes it back.",
    resolve: NODE_FIELDS.powerDrift.value,
  }),
}));

builder.objectFields(NodeRef, (t) => ({
  maintenance: t.field({
    type: MaintenanceRef,
    nullable: true,
    description: "Maintenance of the node; null if it is not in maintenance.",
    resolve: NODE_FIELDS.maintenance.value,
  }),
  fault: t.field({
    type: NodeFaultRef,
    nullable: true,
    description:
      "What the service knows to be wrong: verbs that need what is at fault are refused unless `force`. Null if nothing is.",
    resolve: NODE_FIELDS.fault.value,
  }),
  protected: t.exposeBoolean("isProtected", {
    description:
      "Whether the node refuses verbs that would end the workload on it, including every power action except ON.",
  }),
  retired: t.boolean({
    description:
      "Whether the node is retired: it refuses to be deployed, and after a tear-down it ends MANAGEABLE instead of AVAILABLE.",
    resolve: NODE_FIELDS.retired.value,
  }),
  retiredReason: t.exposeString("retiredReason", {
    nullable: true,
    description: "Reason for the retirement, given by the operator; null if the node is not retired.",
  }),
  macs: t.stringList({
    description:
      "MAC addresses of the machine's network interfaces, in lower case with colons, sorted: those that a request gave it, and those of the newest inspection that no other node has. A machine that boots over the network is known by them.",
    resolve: ({ macs }) => [...macs],
  }),
  controller: t.exposeString("controller", {
    nullable: true,
    description:
      "Address of the management controller if the driver reports that several nodes can share it; null if the node has its own.",
  }),
  variables: variablesField(t, "Variables of every operation on the node, over those of its host group."),
  labels: t.field({
    type: [LabelRef],
    description: "Labels of the node, sorted by key.",
    resolve: NODE_FIELDS.labels.value,
  }),
  drivers: t.field({
    type: [NodeDriverRef],
    description: "Drivers of the node: first its own driver, then the drivers that provide single interfaces.",
    resolve: (node, _args, { services }) => driverShares(node, services.registry),
  }),
  cluster: clusterField(t, "Cluster of the node; null if it belongs to none."),
}));

builder.objectFields(NodeRef, (t) => ({
  identityConflict: t.expose("identityConflict", {
    type: IdentityConflictRef,
    nullable: true,
    description:
      "Another node that seems to be the same machine: verbs that erase or install are refused on both with IDENTITY_CONFLICT. Null if there is none. It ends when one of the nodes is deleted, gets another controller if that is the conflict, or is inspected and found to be another machine, and when the value is declared as shared (`sharedController`, `Site.sharedIdentities`).",
  }),
}));

builder.objectFields(NodeRef, (t) =>
  Object.fromEntries(
    DECLARED_NAMES.map((name) => {
      const { type, description, otherwise } = declared(name);
      const resolve = (node: NodeRow) => declaredValue(name, node);
      return [
        name,
        otherwise === undefined
          ? t.field({ type, nullable: true, description, resolve })
          : t.field({ type, description, resolve: (node) => resolve(node) ?? otherwise }),
      ];
    }),
  ),
);

builder.objectFields(NodeRef, (t) => ({
  inventory: t.field({
    type: InventoryRef,
    nullable: true,
    description: "Result of the newest inspection; null before the first one.",
    resolve: ({ id }, _args, { load }) => load.inventory.load(id),
  }),
  inventories: t.field({
    type: InventoryConnection,
    description: "Results of all inspections, newest first.",
    args: pageArgs(t.arg),
    resolve: async ({ id }, args, { load }) =>
      connectionOf(
        await load.below(inventoriesPages, id, pageRequest(args, "instant"), EMPTY_PAGE),
        ({ takenAt }) => takenAt,
        () => load.below(inventoryCounts, id, null, 0),
      ),
  }),
  inventoryDiff: t.field({
    type: [InventoryChangeRef],
    description:
      "Differences between two inventories; empty if there are none or if there are fewer than two inventories.",
    args: {
      from: t.arg.id({ description: "Earlier inventory; by default the one before `to` by the same driver." }),
      to: t.arg.id({ description: "Later inventory; by default the newest one." }),
    },
    resolve: (node, args, context) => inventoryDiff(node, args, context),
  }),
  currentRun: t.field({
    type: RunRef,
    nullable: true,
    description: "Unfinished run of the node; null if there is none. A node has at most one.",
    resolve: ({ id }, _args, { load }) => load.currentRun.load(id),
  }),
  stepCatalogue: t.field({
    type: [CatalogueStepRef],
    description:
      "Steps that the node's drivers offer for a phase (inspect, clean, deploy or undeploy): first the steps that would run now, in their order, then the others with the reason. Empty while a driver of the node is not loaded.",
    args: {
      phase: t.arg({ type: PhaseEnum, required: true, description: "One of inspect, clean, deploy and undeploy." }),
    },
    resolve: (node, { phase }, context) => stepCatalogue(node, phase, context),
  }),
  operations: t.field({
    type: OperationConnection,
    description: "Operations on this node, unfinished and ended ones, newest first.",
    args: pageArgs(t.arg),
    resolve: async ({ id }, args, { load }) =>
      connectionOf(
        await load.below(operationsOfNodes, id, pageRequest(args, "instant"), EMPTY_PAGE),
        ({ createdAt }) => createdAt,
        () => load.below(operationCountsOfNodes, id, null, 0),
      ),
  }),
  transitions: t.field({
    type: TransitionConnection,
    description: "Transitions of this node, oldest first.",
    args: pageArgs(t.arg, TRANSITIONS_PAGE_MAX),
    resolve: async ({ id }, args, { load }) =>
      transitionConnection(
        await load.below(
          transitionsOfNodes,
          id,
          numberedRequest(args, TRANSITIONS_PAGE_MAX, logPositionOf),
          EMPTY_PAGE,
        ),
        () => load.below(transitionCountsOfNodes, id, null, 0),
      ),
  }),
}));
