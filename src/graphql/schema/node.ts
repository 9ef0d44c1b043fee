/** Nodes: the type, its queries and the mutations that are no work. */
import type { ErrorCode, Refusal } from "../../errors.ts";
import { factsOf } from "../../engine/engine.ts";
import { judge } from "../../lifecycle/admission.ts";
import type { AskedOptions } from "../../lifecycle/admission.ts";
import { NODE_VERBS } from "../../lifecycle/verbs.ts";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import { NODE_FIELDS } from "../../store/node-fields.ts";
import { nodesJson } from "../../store/node-json.ts";
import {
  countNodes,
  inventoriesPages,
  nodeCounts,
  nodesByIds,
  nodesByNames,
  nodesPage,
  nodesPages,
} from "../../store/nodes.ts";
import type { NodeRow } from "../../store/nodes.ts";
import { operationsOfNodes } from "../../store/operations.ts";
import { transitionsOfNodes } from "../../store/transitions.ts";
import { QueryRef, builder, given, needs } from "../base/builder.ts";
import type { FieldArgs } from "../base/builder.ts";
import {
  connectionOf,
  connectionType,
  EMPTY_PAGE,
  NODES_PAGE_MAX,
  numberedRequest,
  pageArgs,
  pageRequest,
  TRANSITIONS_PAGE_MAX,
} from "../base/connection.ts";
import type { Connection, PageArgs } from "../base/connection.ts";
import { CatalogueStepRef, stepCatalogue } from "./catalogue.ts";
import { callerOf } from "../base/context.ts";
import {
  DriverSettingsChangeInput,
  DriverSettingsInput,
  DriverSettingsRef,
  chosenDriver,
  toldSettings,
} from "./driver-settings.ts";
import type { Context } from "../base/context.ts";
import {
  DriverInterfaceEnum,
  ErrorCodeEnum,
  NodeOrderFieldEnum,
  NodeStateEnum,
  OperationKindEnum,
  OrderDirectionEnum,
  PhaseEnum,
  PowerActionEnum,
  PowerStateEnum,
  PresenceEnum,
  StageEnum,
} from "../base/enums.ts";
import { UserErrorRef } from "../base/errors.ts";
import { isUuid, keyOf } from "../base/ids.ts";
import { InventoryChangeRef, InventoryConnection, InventoryRef, inventoryDiff } from "./inventory.ts";
import { listPlan, listText } from "../execution/json-lists.ts";
import type { ListPlan } from "../execution/json-lists.ts";
import { OperationConnection } from "./operation.ts";
import { ClusterRef, FailureRef, NodeRef, ResourceRef, RunRef } from "../base/refs.ts";
import {
  ClusterRefInput,
  LabelInput,
  NodeFilterInput,
  NodeRefInput,
  NodeSelectorInput,
  clusterChoice,
  nodeFilter,
  nodeSelector,
} from "./selectors.ts";
import { TransitionConnection, transitionConnection } from "./transition.ts";

const LabelRef = builder.objectRef<{ readonly key: string; readonly value: string }>("Label").implement({
  description: "Label of a node: a free key/value pair to select nodes by.",
  fields: (t) => ({
    key: t.exposeString("key", { description: "Key, unique per node." }),
    value: t.exposeString("value", { description: "Value of the label." }),
  }),
});

const MaintenanceRef = builder
  .objectRef<{ readonly reason: string; readonly since: Date; readonly by: string }>("Maintenance")
  .implement({
    description: "Maintenance of a node.",
    fields: (t) => ({
      reason: t.exposeString("reason", { description: "Reason given by the operator." }),
      since: t.expose("since", { type: "DateTime", description: "Start time." }),
      by: t.exposeString("by", { description: "Who started it." }),
    }),
  });

interface DriverShare {
  readonly node: NodeRow;
  readonly driver: string;
  readonly interfaces: readonly ("power" | "inspect" | "deploy" | "clean")[];
}

const NodeDriverRef = builder.objectRef<DriverShare>("NodeDriver").implement({
  description: "Driver that works on a node, with the node's settings for it.",
  fields: (t) => ({
    name: t.exposeString("driver", { description: "Name of the driver." }),
    interfaces: t.field({
      type: [DriverInterfaceEnum],
      description: "Interfaces of the node that the driver provides.",
      resolve: ({ interfaces }) => [...interfaces],
    }),
    settings: t.field({
      type: DriverSettingsRef,
      nullable: true,
      description: "Settings without secrets. Null while the driver is not loaded; `Node.verbs` then has the reason.",
      resolve: ({ node, driver }, _args, { services }) =>
        toldSettings(services.registry.get(driver), node.settings[driver]),
    }),
    secretsSet: t.stringList({
      description: "Names of the secret settings that are set. Their values are never returned.",
      resolve: async ({ node, driver }, _args, { load }) => [
        ...((await load.secretFields.load(node.id))[driver] ?? []),
      ],
    }),
  }),
});

interface VerbVerdict {
  readonly verb: OperationKind;
  readonly powerAction: PowerAction | null;
  readonly refusal: { readonly code: ErrorCode; readonly message: string } | null;
}

const VerbVerdictRef = builder.objectRef<VerbVerdict>("VerbVerdict").implement({
  description: "Result of checking whether a verb would be accepted for a node now.",
  fields: (t) => ({
    verb: t.field({
      type: OperationKindEnum,
      description: "Verb that was checked.",
      resolve: ({ verb }) => verb,
    }),
    powerAction: t.field({
      type: PowerActionEnum,
      nullable: true,
      description: "Power action that was checked; null for verbs other than POWER.",
      resolve: ({ powerAction }) => powerAction,
    }),
    allowed: t.boolean({
      description: "Whether the verb would be accepted.",
      resolve: ({ refusal }) => refusal === null,
    }),
    code: t.field({
      type: ErrorCodeEnum,
      nullable: true,
      description: "Reason why the verb would be refused; null if it is allowed.",
      resolve: ({ refusal }) => refusal?.code ?? null,
    }),
    reason: t.string({
      nullable: true,
      description: "The reason as a sentence for people; null if the verb is allowed.",
      resolve: ({ refusal }) => refusal?.message ?? null,
    }),
  }),
});

builder.objectType(NodeRef, {
  description: "Bare-metal machine.",
  interfaces: [ResourceRef],
  isTypeOf: (value) => typeof value === "object" && value !== null && "powerState" in value && "borrowed" in value,
  fields: (t) => ({
    id: t.id({ description: "Global ID: opaque and stable.", resolve: NODE_FIELDS.id.value }),
    uuid: t.field({
      type: "UUID",
      description: "UUID as used in logs and by drivers.",
      resolve: NODE_FIELDS.uuid.value,
    }),
    name: t.string({ description: "Unique name, chosen by people.", resolve: NODE_FIELDS.name.value }),
    project: t.string({ description: "Project that owns it.", resolve: NODE_FIELDS.project.value }),
    state: t.field({ type: NodeStateEnum, description: "Current lifecycle state.", resolve: NODE_FIELDS.state.value }),
    targetState: t.field({
      type: NodeStateEnum,
      nullable: true,
      description: "State in which the unfinished run will end; null if there is no unfinished run.",
      resolve: async ({ id }, _args, { load }) => (await load.currentRun.load(id))?.target ?? null,
    }),
    stage: t.field({
      type: StageEnum,
      description: "How far the node has come; a restart decides by it.",
      resolve: NODE_FIELDS.stage.value,
    }),
    powerState: t.field({
      type: PowerStateEnum,
      description: "Power state as last read.",
      resolve: NODE_FIELDS.powerState.value,
    }),
    powerReadAt: t.field({
      type: "DateTime",
      nullable: true,
      description: "Time when the power state was first read or last seen to change; null if it was never read.",
      resolve: NODE_FIELDS.powerReadAt.value,
    }),
    powerCheckedAt: t.field({
      type: "DateTime",
      nullable: true,
      description: "Time when the power state was last read in the background or with readPower; null if never.",
      resolve: NODE_FIELDS.powerCheckedAt.value,
    }),
    powerProblem: t.string({
      nullable: true,
      description: "Why the last reading of the power state failed; null if it succeeded.",
      resolve: NODE_FIELDS.powerProblem.value,
    }),
    wantedPower: t.field({
      type: PowerStateEnum,
      nullable: true,
      description: "Power state, ON or OFF, that Ostler last set; null if it never set one.",
      resolve: NODE_FIELDS.wantedPower.value,
    }),
    powerDrift: t.boolean({
      description:
        "Whether the power state differs from `wantedPower`, because it was changed outside Ostler. `Site.correctPower` decides whether Ostler changes it back.",
      resolve: NODE_FIELDS.powerDrift.value,
    }),
    presence: t.field({
      type: PresenceEnum,
      description: "Presence as reported by monitoring.",
      resolve: NODE_FIELDS.presence.value,
    }),
    maintenance: t.field({
      type: MaintenanceRef,
      nullable: true,
      description: "Maintenance of the node; null if it is not in maintenance.",
      resolve: NODE_FIELDS.maintenance.value,
    }),
    protected: t.boolean({
      description:
        "Whether the node refuses verbs that would end the workload on it, including every power action except ON.",
      resolve: NODE_FIELDS.protected.value,
    }),
    retired: t.boolean({
      description:
        "Whether the node is retired: it refuses to be deployed, and after a tear-down it ends MANAGEABLE instead of AVAILABLE.",
      resolve: NODE_FIELDS.retired.value,
    }),
    retiredReason: t.string({
      nullable: true,
      description: "Reason for the retirement, given by the operator; null if the node is not retired.",
      resolve: NODE_FIELDS.retiredReason.value,
    }),
    automaticCleaning: t.boolean({
      nullable: true,
      description: "Whether automatic clean steps run on the node; null to follow the site's policy.",
      resolve: NODE_FIELDS.automaticCleaning.value,
    }),
    hostGroup: t.string({
      nullable: true,
      description: "Role of the node in its cluster; null if none is set.",
      resolve: NODE_FIELDS.hostGroup.value,
    }),
    model: t.string({
      nullable: true,
      description:
        "Model of the machine according to inspection; null if unknown. Estimates use the history of the model.",
      resolve: NODE_FIELDS.model.value,
    }),
    controller: t.string({
      nullable: true,
      description:
        "Address of the management controller if the driver reports that several nodes can share it; null if the node has its own.",
      resolve: NODE_FIELDS.controller.value,
    }),
    lastError: t.field({
      type: FailureRef,
      nullable: true,
      description: "Failure of the last run on the node; null if it succeeded.",
      resolve: NODE_FIELDS.lastError.value,
    }),
    revision: t.int({
      description: "Increases with every change. Send it as `ifRevision` to detect concurrent changes.",
      resolve: NODE_FIELDS.revision.value,
    }),
    transitionCount: t.int({
      description: "Number of transitions of the node: the `sequence` of the newest one.",
      resolve: NODE_FIELDS.transitionCount.value,
    }),
    createdAt: t.field({
      type: "DateTime",
      description: "Time of registration.",
      resolve: NODE_FIELDS.createdAt.value,
    }),
    updatedAt: t.field({
      type: "DateTime",
      description: "Time of the last change.",
      resolve: NODE_FIELDS.updatedAt.value,
    }),
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
    cluster: t.field({
      type: ClusterRef,
      nullable: true,
      description: "Cluster of the node; null if it belongs to none.",
      resolve: ({ clusterId }, _args, { load }) => (clusterId === null ? null : load.cluster.load(clusterId)),
    }),
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
        ),
    }),
    inventoryDiff: t.field({
      type: [InventoryChangeRef],
      description:
        "Differences between two inventories; empty if there are none or if there are fewer than two inventories.",
      args: {
        from: t.arg.id({ description: "Earlier inventory; by default the one before `to`." }),
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
    verbs: t.field({
      type: [VerbVerdictRef],
      description: "Every verb with the result of checking whether it would be accepted now.",
      resolve: (node, _args, context) => verdicts(node, context),
    }),
    operations: t.field({
      type: OperationConnection,
      description: "Operations on this node, unfinished and ended ones, newest first.",
      args: pageArgs(t.arg),
      resolve: async ({ id }, args, { load }) =>
        connectionOf(
          await load.below(operationsOfNodes, id, pageRequest(args, "instant"), EMPTY_PAGE),
          ({ createdAt }) => createdAt,
        ),
    }),
    transitions: t.field({
      type: TransitionConnection,
      description: "Transitions of this node, oldest first.",
      args: pageArgs(t.arg, TRANSITIONS_PAGE_MAX),
      resolve: async ({ id }, args, { load }) =>
        transitionConnection(await load.below(transitionsOfNodes, id, numberedRequest(args), EMPTY_PAGE)),
    }),
  }),
});

function driverShares(node: NodeRow, registry: Context["services"]["registry"]): DriverShare[] {
  const composed = registry.compose(node);
  if ("problem" in composed) return [{ node, driver: node.driver, interfaces: [] }];
  const { composition } = composed;
  const names = ["power", "inspect", "deploy", "clean"] as const;
  return composition.drivers.map(({ name: driver }) => ({
    node,
    driver,
    interfaces: names.filter((name) => composition.giver(name)?.name === driver),
  }));
}

type PowerAction = NonNullable<AskedOptions["powerAction"]>;

const POWER_ACTIONS: readonly PowerAction[] = ["ON", "OFF", "SOFT_OFF", "REBOOT"];

async function verdicts(node: NodeRow, { load, services }: Context): Promise<VerbVerdict[]> {
  const run = await load.currentRun.load(node.id);
  const operation = run && (await load.operation.load(run.operationId));
  const facts = factsOf(
    node,
    services.registry.compose(node),
    operation && { operationId: operation.id, kind: operation.kind },
  );
  const asked = NODE_VERBS.flatMap((verb) =>
    (verb === "POWER" ? POWER_ACTIONS : [null]).map((powerAction) => ({ verb, powerAction })),
  );
  return asked.map(({ verb, powerAction }) => {
    const verdict = judge(facts, { verb, options: powerAction === null ? {} : { powerAction }, force: false });
    return { verb, powerAction, refusal: verdict.admitted ? null : verdict.refusal };
  });
}

export const NodeConnection = connectionType("Node", NodeRef, { counted: true });

const NodeOrderInput = builder.inputType("NodeOrder", {
  description: "Order of a list of nodes.",
  fields: (t) => ({
    field: t.field({ type: NodeOrderFieldEnum, required: true, defaultValue: "NAME", description: "Sort key." }),
    direction: t.field({
      type: OrderDirectionEnum,
      required: true,
      defaultValue: "ASC",
      description: "Sort direction.",
    }),
  }),
});

const NODE_KEYS = {
  NAME: ({ name }: NodeRow) => name,
  CREATED_AT: ({ createdAt }: NodeRow) => createdAt,
  UPDATED_AT: ({ updatedAt }: NodeRow) => updatedAt,
} as const;

/** Arguments of a list of nodes. */
export function nodeListArgs(arg: FieldArgs) {
  return {
    filter: arg({ type: NodeFilterInput, description: "Only matching nodes; by default all." }),
    orderBy: arg({ type: NodeOrderInput, description: "Order; by default by name." }),
    ...pageArgs(arg, NODES_PAGE_MAX),
  };
}

interface NodeListArgs extends PageArgs {
  readonly filter?: Parameters<typeof nodeFilter>[0];
  readonly orderBy?: { readonly field: keyof typeof NODE_KEYS; readonly direction: "ASC" | "DESC" } | null | undefined;
}

/** A list of nodes says with this which of their fields the database can put into JSON. */
export const NODES_AS_TEXT = { asText: NODE_FIELDS };

/** A list of nodes; its text, where `asked` is all that is asked for. */
export async function nodeList(
  args: NodeListArgs,
  { services, load }: Context,
  asked: ListPlan | undefined,
  clusterId?: string,
): Promise<Connection<NodeRow>> {
  const { reader } = services.database;
  const matching = nodeFilter(args.filter);
  const by = args.orderBy?.field ?? "NAME";
  const order = { by, descending: args.orderBy?.direction === "DESC" };
  const request = pageRequest(args, by === "NAME" ? "text" : "instant", NODES_PAGE_MAX);
  if (!asked && clusterId !== undefined) {
    const page = await load.below(nodesPages, clusterId, { filter: matching, order, request }, EMPTY_PAGE);
    return connectionOf(page, NODE_KEYS[by], () => load.below(nodeCounts, clusterId, { filter: matching }, 0));
  }
  const filter = clusterId === undefined ? matching : { clusterId, or: matching && [matching] };
  if (!asked)
    return connectionOf(await nodesPage(reader, filter, order, request), NODE_KEYS[by], () =>
      countNodes(reader, filter),
    );
  const [page, totalCount] = await Promise.all([
    asked.page && nodesJson(reader, { filter, order, request }, asked.page),
    asked.totalCount ? countNodes(reader, filter) : 0,
  ]);
  return listText(asked, page, totalCount);
}

builder.queryField("node", (t) =>
  t.field({
    type: NodeRef,
    nullable: true,
    ...needs("READ"),
    description: "One node by ID, name or UUID; null if it does not exist.",
    args: { by: t.arg({ type: NodeRefInput, required: true, description: "The node." }) },
    resolve: async (_root, { by }, { services, load }) => {
      if (by.name != null) return (await nodesByNames(services.database.reader, [by.name]))[0] ?? null;
      const id = by.uuid ?? keyOf("Node", by.id ?? "");
      return isUuid(id) ? load.node.load(id) : null;
    },
  }),
);

builder.queryField("nodes", (t) =>
  t.field({
    type: NodeConnection,
    extensions: { ...needs("READ").extensions, ...NODES_AS_TEXT },
    description: "Nodes that match a filter; all nodes without one.",
    args: nodeListArgs(t.arg),
    resolve: (_root, args, context, info) => nodeList(args, context, listPlan(info)),
  }),
);

// ---- mutations

const InterfacesFromInput = builder.inputType("InterfacesFromInput", {
  description: "Interfaces that a node takes from another driver than its own.",
  fields: (t) => ({
    kinds: t.field({ type: [DriverInterfaceEnum], required: true, description: "Interfaces to take." }),
    driver: t.field({
      type: DriverSettingsInput,
      required: true,
      description: "Driver that provides them, with the node's settings for it.",
    }),
  }),
});

const InterfacesFromChangeInput = builder.inputType("InterfacesFromChangeInput", {
  description: "Interfaces that a node takes from another driver than its own from now on.",
  fields: (t) => ({
    kinds: t.field({ type: [DriverInterfaceEnum], required: true, description: "Interfaces to take." }),
    driver: t.field({
      type: DriverSettingsChangeInput,
      required: true,
      description:
        "Driver that provides them, with changes to the node's settings for it. If the node has no settings for it yet, these are all its settings.",
    }),
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
    hostGroup: t.string({
      description: "Role of the node in its cluster: at most 63 letters, digits, dots, dashes, slashes or underscores.",
    }),
    automaticCleaning: t.boolean({
      description: "Whether automatic clean steps run on the node; by default the site's policy applies.",
    }),
  }),
});

const RegisterNodesInput = builder.inputType("RegisterNodesInput", {
  description: "Nodes to register; all or none are registered.",
  fields: (t) => ({
    nodes: t.field({ type: [RegisterNodeInput], required: true, description: "Nodes, at least one." }),
  }),
});

const UpdateNodeInput = builder.inputType("UpdateNodeInput", {
  description: "Changes to one node. Omitted fields stay as they are.",
  fields: (t) => ({
    id: t.id({ required: true, description: "The node." }),
    ifRevision: t.int({ description: "Refuse the request if the node has another revision." }),
    name: t.string({ description: "New unique name." }),
    driver: t.field({
      type: DriverSettingsChangeInput,
      description:
        "Driver of the node, with changes to its settings: an omitted setting stays as it is, null removes it. A different driver replaces the present one. An active run uses the new settings from its next step on.",
    }),
    interfaces: t.field({
      type: [InterfacesFromChangeInput],
      description: "Interfaces that the node takes from other drivers; replaces the present list.",
    }),
    labels: t.field({ type: [LabelInput], description: "Labels; replaces the present ones." }),
    protected: t.boolean({ description: "Protect the node, or remove the protection. An active run continues." }),
    hostGroup: t.string({ description: "New role in its cluster; null removes it." }),
    automaticCleaning: t.boolean({
      description: "Whether automatic clean steps run on the node; null to follow the site's policy.",
    }),
  }),
});

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

const SetMaintenanceInput = builder.inputType("SetMaintenanceInput", {
  description: "Nodes to put into maintenance or back in service.",
  fields: (t) => ({
    nodes: t.field({ type: NodeSelectorInput, required: true, description: "Selection of nodes." }),
    reason: t.string({ description: "Reason for the maintenance; omit it, or pass null, to end the maintenance." }),
  }),
});

const SetRetiredInput = builder.inputType("SetRetiredInput", {
  description: "Nodes to retire or to put back in service.",
  fields: (t) => ({
    nodes: t.field({ type: NodeSelectorInput, required: true, description: "Selection of nodes." }),
    reason: t.string({ description: "Reason for the retirement; omit it, or pass null, to end the retirement." }),
  }),
});

interface NodesPayload {
  readonly nodeIds: readonly string[];
  readonly refusals: readonly Refusal[];
}

const NodesPayloadRef = builder.objectRef<NodesPayload>("NodesPayload").implement({
  description: "Answer to a mutation of nodes.",
  fields: (t) => ({
    nodes: t.field({
      type: [NodeRef],
      description:
        "The nodes after the change, in the order of the request; empty if they were deleted or the request was refused.",
      resolve: async ({ nodeIds }, _args, { services }) => {
        const rows = new Map((await nodesByIds(services.database.reader, nodeIds)).map((row) => [row.id, row]));
        return nodeIds.flatMap((id) => rows.get(id) ?? []);
      },
    }),
    count: t.int({ description: "Number of nodes that were changed.", resolve: ({ nodeIds }) => nodeIds.length }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Reasons why the request was refused; empty if it succeeded.",
      resolve: ({ refusals }) => [...refusals],
    }),
    query: t.field({
      type: QueryRef,
      description: "Root query, to read more in the same request.",
      resolve: () => ({}),
    }),
  }),
});

function labelsOf(labels: readonly { readonly key: string; readonly value: string }[] | null | undefined) {
  return labels ? Object.fromEntries(labels.map(({ key, value }) => [key, value])) : undefined;
}

function interfacesOf(
  taken:
    | readonly { readonly kinds: readonly string[]; readonly driver: Parameters<typeof chosenDriver>[0] }[]
    | null
    | undefined,
) {
  return taken?.map(({ kinds, driver }) => ({ kinds, ...chosenDriver(driver) }));
}

builder.mutationField("registerNodes", (t) =>
  t.field({
    type: NodesPayloadRef,
    nullable: true,
    ...needs("MANAGE"),
    description:
      "Register nodes; they start in state ENROLLED. All or none are registered; `errors` has every error of every node.",
    args: { input: t.arg({ type: RegisterNodesInput, required: true, description: "The nodes." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.registerNodes(
        callerOf(context),
        input.nodes.map((node) => ({
          name: node.name,
          ...chosenDriver(node.driver),
          interfaces: interfacesOf(node.interfaces),
          labels: labelsOf(node.labels),
          cluster: node.cluster ? clusterChoice(node.cluster) : undefined,
          hostGroup: given(node.hostGroup),
          automaticCleaning: given(node.automaticCleaning),
        })),
      ),
  }),
);

builder.mutationField("updateNode", (t) =>
  t.field({
    type: NodesPayloadRef,
    nullable: true,
    ...needs("MANAGE"),
    description: "Change one node.",
    args: { input: t.arg({ type: UpdateNodeInput, required: true, description: "Changes to make." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.updateNode(callerOf(context), keyOf("Node", input.id), {
        ifRevision: given(input.ifRevision),
        name: given(input.name),
        ...(input.driver && chosenDriver(input.driver)),
        interfaces: interfacesOf(input.interfaces),
        labels: labelsOf(input.labels),
        isProtected: given(input.protected),
        hostGroup: input.hostGroup,
        automaticCleaning: input.automaticCleaning,
      }),
  }),
);

builder.mutationField("deleteNodes", (t) =>
  t.field({
    type: NodesPayloadRef,
    nullable: true,
    ...needs("MANAGE"),
    description: "Delete nodes. Their transitions and operations are kept.",
    args: { input: t.arg({ type: DeleteNodesInput, required: true, description: "Selection of nodes." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.deleteNodes(callerOf(context), nodeSelector(input.nodes)),
  }),
);

builder.mutationField("setMaintenance", (t) =>
  t.field({
    type: NodesPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Put nodes into maintenance (with a reason) or back in service (without one). Neither starts nor stops work.",
    args: { input: t.arg({ type: SetMaintenanceInput, required: true, description: "Nodes and reason." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.setMaintenance(callerOf(context), nodeSelector(input.nodes), input.reason ?? null),
  }),
);

builder.mutationField("setRetired", (t) =>
  t.field({
    type: NodesPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description:
      "Retire nodes (with a reason) or put them back in service (without one). Retired nodes refuse to be commissioned, deployed or updated, and end MANAGEABLE after a tear-down. Neither starts nor stops work.",
    args: { input: t.arg({ type: SetRetiredInput, required: true, description: "Nodes and reason." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.setRetired(callerOf(context), nodeSelector(input.nodes), input.reason ?? null),
  }),
);
