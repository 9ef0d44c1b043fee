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
  description: "What somebody noted on a node, to select by.",
  fields: (t) => ({
    key: t.exposeString("key", { description: "Key, unique per node." }),
    value: t.exposeString("value", { description: "What the label says." }),
  }),
});

const MaintenanceRef = builder
  .objectRef<{ readonly reason: string; readonly since: Date; readonly by: string }>("Maintenance")
  .implement({
    description: "Maintenance mark.",
    fields: (t) => ({
      reason: t.exposeString("reason", { description: "Why, in the operator's words." }),
      since: t.expose("since", { type: "DateTime", description: "Since when." }),
      by: t.exposeString("by", { description: "Who set it." }),
    }),
  });

interface DriverShare {
  readonly node: NodeRow;
  readonly driver: string;
  readonly interfaces: readonly ("power" | "inspect" | "deploy" | "clean")[];
}

const NodeDriverRef = builder.objectRef<DriverShare>("NodeDriver").implement({
  description: "A driver that works on a node, with the node's settings for it.",
  fields: (t) => ({
    name: t.exposeString("driver", { description: "Name of the driver." }),
    interfaces: t.field({
      type: [DriverInterfaceEnum],
      description: "Interfaces that the node takes from it.",
      resolve: ({ interfaces }) => [...interfaces],
    }),
    settings: t.field({
      type: DriverSettingsRef,
      nullable: true,
      description: "Settings, without their secrets. Null while the driver is not loaded; `Node.verbs` then says so.",
      resolve: ({ node, driver }, _args, { services }) =>
        toldSettings(services.registry.get(driver), node.settings[driver]),
    }),
    secretsSet: t.stringList({
      description: "Names of the secret settings that are set. Their values never come back.",
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
  description: "Whether a verb would be accepted for a node now.",
  fields: (t) => ({
    verb: t.field({
      type: OperationKindEnum,
      description: "Kind of work that would be asked for.",
      resolve: ({ verb }) => verb,
    }),
    powerAction: t.field({
      type: PowerActionEnum,
      nullable: true,
      description: "Of POWER: which change of it. Each has a verdict of its own.",
      resolve: ({ powerAction }) => powerAction,
    }),
    allowed: t.boolean({ description: "Whether it would be accepted.", resolve: ({ refusal }) => refusal === null }),
    code: t.field({
      type: ErrorCodeEnum,
      nullable: true,
      description: "Why not.",
      resolve: ({ refusal }) => refusal?.code ?? null,
    }),
    reason: t.string({
      nullable: true,
      description: "Why not, for people.",
      resolve: ({ refusal }) => refusal?.message ?? null,
    }),
  }),
});

builder.objectType(NodeRef, {
  description: "A bare-metal machine.",
  interfaces: [ResourceRef],
  isTypeOf: (value) => typeof value === "object" && value !== null && "powerState" in value && "borrowed" in value,
  fields: (t) => ({
    id: t.id({ description: "Global ID.", resolve: NODE_FIELDS.id.value }),
    uuid: t.field({
      type: "UUID",
      description: "Raw UUID, as in logs and on the wire to drivers.",
      resolve: NODE_FIELDS.uuid.value,
    }),
    name: t.string({ description: "Unique, human-chosen name.", resolve: NODE_FIELDS.name.value }),
    project: t.string({ description: "Owning project.", resolve: NODE_FIELDS.project.value }),
    state: t.field({ type: NodeStateEnum, description: "Current lifecycle state.", resolve: NODE_FIELDS.state.value }),
    targetState: t.field({
      type: NodeStateEnum,
      nullable: true,
      description: "State that the unfinished run is heading for, null when there is none.",
      resolve: async ({ id }, _args, { load }) => (await load.currentRun.load(id))?.target ?? null,
    }),
    stage: t.field({
      type: StageEnum,
      description: "How far the node has come; a restart decides by it.",
      resolve: NODE_FIELDS.stage.value,
    }),
    powerState: t.field({
      type: PowerStateEnum,
      description: "Power as last read.",
      resolve: NODE_FIELDS.powerState.value,
    }),
    powerReadAt: t.field({
      type: "DateTime",
      nullable: true,
      description: "When the power was last seen to change or first read.",
      resolve: NODE_FIELDS.powerReadAt.value,
    }),
    powerCheckedAt: t.field({
      type: "DateTime",
      nullable: true,
      description: "When the BMC was last asked for the power outside any work; null: never.",
      resolve: NODE_FIELDS.powerCheckedAt.value,
    }),
    powerProblem: t.string({
      nullable: true,
      description: "What kept the BMC from an answer when it was last asked; null: nothing did.",
      resolve: NODE_FIELDS.powerProblem.value,
    }),
    wantedPower: t.field({
      type: PowerStateEnum,
      nullable: true,
      description: "ON or OFF, as the last change through Ostler left the power; null: there was none.",
      resolve: NODE_FIELDS.wantedPower.value,
    }),
    powerDrift: t.boolean({
      description:
        "Whether the power is known to be other than wanted: somebody else changed it. The site's policy says whether it is changed back.",
      resolve: NODE_FIELDS.powerDrift.value,
    }),
    presence: t.field({
      type: PresenceEnum,
      description: "Presence as told by monitoring.",
      resolve: NODE_FIELDS.presence.value,
    }),
    maintenance: t.field({
      type: MaintenanceRef,
      nullable: true,
      description: "The maintenance mark; null when the node is in service.",
      resolve: NODE_FIELDS.maintenance.value,
    }),
    protected: t.boolean({
      description: "Whether verbs that end what runs on the node are refused, among them every change of power but ON.",
      resolve: NODE_FIELDS.protected.value,
    }),
    retired: t.boolean({
      description:
        "Whether the node is on its way out: it is not deployed any more, and after a tear-down it ends MANAGEABLE in place of AVAILABLE.",
      resolve: NODE_FIELDS.retired.value,
    }),
    retiredReason: t.string({
      nullable: true,
      description: "Why it is retired, in the operator's words; null when it is not.",
      resolve: NODE_FIELDS.retiredReason.value,
    }),
    automaticCleaning: t.boolean({
      nullable: true,
      description: "Whether automatic clean steps run on it; null: as the site's policy says.",
      resolve: NODE_FIELDS.automaticCleaning.value,
    }),
    hostGroup: t.string({
      nullable: true,
      description: "Its role in its cluster, in the operator's words.",
      resolve: NODE_FIELDS.hostGroup.value,
    }),
    model: t.string({
      nullable: true,
      description: "What inspection called the machine; estimates go by it.",
      resolve: NODE_FIELDS.model.value,
    }),
    controller: t.string({
      nullable: true,
      description:
        "What its management controller is reached by, where the driver tells that nodes may share one; null: it has its own.",
      resolve: NODE_FIELDS.controller.value,
    }),
    lastError: t.field({
      type: FailureRef,
      nullable: true,
      description: "Why the last work on this node ended badly; null after a success.",
      resolve: NODE_FIELDS.lastError.value,
    }),
    revision: t.int({
      description: "Increases with every change; send it back as `ifRevision`.",
      resolve: NODE_FIELDS.revision.value,
    }),
    transitionCount: t.int({
      description: "Number of transitions so far: the `sequence` of the newest one.",
      resolve: NODE_FIELDS.transitionCount.value,
    }),
    createdAt: t.field({
      type: "DateTime",
      description: "When the node was registered.",
      resolve: NODE_FIELDS.createdAt.value,
    }),
    updatedAt: t.field({
      type: "DateTime",
      description: "When the node last changed.",
      resolve: NODE_FIELDS.updatedAt.value,
    }),
    labels: t.field({
      type: [LabelRef],
      description: "Free key/value pairs for selection, by key.",
      resolve: NODE_FIELDS.labels.value,
    }),
    drivers: t.field({
      type: [NodeDriverRef],
      description: "Drivers that work on this node: its own first, then those it takes single interfaces from.",
      resolve: (node, _args, { services }) => driverShares(node, services.registry),
    }),
    cluster: t.field({
      type: ClusterRef,
      nullable: true,
      description: "Cluster the node belongs to.",
      resolve: ({ clusterId }, _args, { load }) => (clusterId === null ? null : load.cluster.load(clusterId)),
    }),
    inventory: t.field({
      type: InventoryRef,
      nullable: true,
      description: "What the newest inspection found, null before the first one.",
      resolve: ({ id }, _args, { load }) => load.inventory.load(id),
    }),
    inventories: t.field({
      type: InventoryConnection,
      description: "What every inspection found, newest first.",
      args: pageArgs(t.arg),
      resolve: async ({ id }, args, { load }) =>
        connectionOf(
          await load.below(inventoriesPages, id, pageRequest(args, "instant"), EMPTY_PAGE),
          ({ takenAt }) => takenAt,
        ),
    }),
    inventoryDiff: t.field({
      type: [InventoryChangeRef],
      description: "How two inventories differ; empty when they do not, or when there are no two.",
      args: {
        from: t.arg.id({ description: "The earlier one; absent: the one before `to`." }),
        to: t.arg.id({ description: "The later one; absent: the newest." }),
      },
      resolve: (node, args, context) => inventoryDiff(node, args, context),
    }),
    currentRun: t.field({
      type: RunRef,
      nullable: true,
      description: "The unfinished run, null when there is none. At most one per node.",
      resolve: ({ id }, _args, { load }) => load.currentRun.load(id),
    }),
    stepCatalogue: t.field({
      type: [CatalogueStepRef],
      description:
        "What steps its drivers offer for a phase (inspect, clean, deploy or undeploy): those that would run now, in their order, then those that would not, and why. Empty while a driver of the node is not loaded.",
      args: { phase: t.arg({ type: PhaseEnum, required: true, description: "Which phase." }) },
      resolve: (node, { phase }, context) => stepCatalogue(node, phase, context),
    }),
    verbs: t.field({
      type: [VerbVerdictRef],
      description: "What could be asked of the node now, and why the rest would be refused.",
      resolve: (node, _args, context) => verdicts(node, context),
    }),
    operations: t.field({
      type: OperationConnection,
      description: "Operations that work or worked on this node, newest first.",
      args: pageArgs(t.arg),
      resolve: async ({ id }, args, { load }) =>
        connectionOf(
          await load.below(operationsOfNodes, id, pageRequest(args, "instant"), EMPTY_PAGE),
          ({ createdAt }) => createdAt,
        ),
    }),
    transitions: t.field({
      type: TransitionConnection,
      description: "State changes of this node, oldest first.",
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
  description: "Order of node lists.",
  fields: (t) => ({
    field: t.field({ type: NodeOrderFieldEnum, required: true, defaultValue: "NAME", description: "Key." }),
    direction: t.field({
      type: OrderDirectionEnum,
      required: true,
      defaultValue: "ASC",
      description: "Which end comes first.",
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
    filter: arg({ type: NodeFilterInput, description: "Which nodes; absent: all." }),
    orderBy: arg({ type: NodeOrderInput, description: "In which order; absent: by name." }),
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
    description: "One node; null if it does not exist.",
    args: { by: t.arg({ type: NodeRefInput, required: true, description: "Which node." }) },
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
    description: "Nodes. Without a filter: all.",
    args: nodeListArgs(t.arg),
    resolve: (_root, args, context, info) => nodeList(args, context, listPlan(info)),
  }),
);

// ---- mutations

const InterfacesFromInput = builder.inputType("InterfacesFromInput", {
  description: "What a node takes from another driver than its own.",
  fields: (t) => ({
    kinds: t.field({ type: [DriverInterfaceEnum], required: true, description: "Which interfaces." }),
    driver: t.field({
      type: DriverSettingsInput,
      required: true,
      description: "From which driver, with the node's settings for it.",
    }),
  }),
});

const InterfacesFromChangeInput = builder.inputType("InterfacesFromChangeInput", {
  description: "What a node takes from another driver than its own from now on.",
  fields: (t) => ({
    kinds: t.field({ type: [DriverInterfaceEnum], required: true, description: "Which interfaces." }),
    driver: t.field({
      type: DriverSettingsChangeInput,
      required: true,
      description:
        "From which driver, with changes of the node's settings for it; where it had none, they are all there is.",
    }),
  }),
});

const RegisterNodeInput = builder.inputType("RegisterNodeInput", {
  description: "A node to register, ENROLLED at first.",
  fields: (t) => ({
    name: t.string({
      required: true,
      description: "Unique name: letters, digits, dot, dash, underscore; at most 253.",
    }),
    driver: t.field({ type: DriverSettingsInput, required: true, description: "Its driver, with settings for it." }),
    interfaces: t.field({
      type: [InterfacesFromInput],
      description: "What it takes from other drivers, each named once.",
    }),
    labels: t.field({ type: [LabelInput], description: "What it is marked with from the start." }),
    cluster: t.field({ type: ClusterRefInput, description: "Cluster it belongs to." }),
    hostGroup: t.string({
      description: "Its role in its cluster: letters, digits, dot, dash, slash, underscore; at most 63.",
    }),
    automaticCleaning: t.boolean({
      description: "Whether automatic clean steps run on it; absent: as the site's policy says.",
    }),
  }),
});

const RegisterNodesInput = builder.inputType("RegisterNodesInput", {
  description: "Register nodes; all or none.",
  fields: (t) => ({
    nodes: t.field({ type: [RegisterNodeInput], required: true, description: "The nodes, at least one." }),
  }),
});

const UpdateNodeInput = builder.inputType("UpdateNodeInput", {
  description: "Change one node. An omitted field stays.",
  fields: (t) => ({
    id: t.id({ required: true, description: "Which node." }),
    ifRevision: t.int({ description: "Refuse if the node has another revision by now." }),
    name: t.string({ description: "New name." }),
    driver: t.field({
      type: DriverSettingsChangeInput,
      description:
        "Its own driver, with changes of the settings for it: what is left out stays, null takes a setting away. Another driver than before replaces that. A run that is under way sees the settings when its next step is entered.",
    }),
    interfaces: t.field({
      type: [InterfacesFromChangeInput],
      description: "What it takes from other drivers, all of it.",
    }),
    labels: t.field({ type: [LabelInput], description: "New labels, all of them." }),
    protected: t.boolean({ description: "Protect the node, or lift its protection. A run that is under way goes on." }),
    hostGroup: t.string({ description: "New role in its cluster; null: none." }),
    automaticCleaning: t.boolean({
      description: "Whether automatic clean steps run on it; null: as the site's policy says.",
    }),
  }),
});

const DeleteNodesInput = builder.inputType("DeleteNodesInput", {
  description: "Delete nodes; all or none.",
  fields: (t) => ({
    nodes: t.field({
      type: NodeSelectorInput,
      required: true,
      description: "Which nodes. None may be busy, protected or ACTIVE.",
    }),
  }),
});

const SetMaintenanceInput = builder.inputType("SetMaintenanceInput", {
  description: "Set or clear the maintenance mark.",
  fields: (t) => ({
    nodes: t.field({ type: NodeSelectorInput, required: true, description: "Which nodes." }),
    reason: t.string({ description: "Why; null or absent ends the maintenance." }),
  }),
});

const SetRetiredInput = builder.inputType("SetRetiredInput", {
  description: "Set or clear the mark of retirement.",
  fields: (t) => ({
    nodes: t.field({ type: NodeSelectorInput, required: true, description: "Which nodes." }),
    reason: t.string({ description: "Why; null or absent puts them back in service." }),
  }),
});

interface NodesPayload {
  readonly nodeIds: readonly string[];
  readonly refusals: readonly Refusal[];
}

const NodesPayloadRef = builder.objectRef<NodesPayload>("NodesPayload").implement({
  description: "Answer to a change of nodes.",
  fields: (t) => ({
    nodes: t.field({
      type: [NodeRef],
      description: "The nodes as they are now, in the order asked; empty after a refusal and after a deletion.",
      resolve: async ({ nodeIds }, _args, { services }) => {
        const rows = new Map((await nodesByIds(services.database.reader, nodeIds)).map((row) => [row.id, row]));
        return nodeIds.flatMap((id) => rows.get(id) ?? []);
      },
    }),
    count: t.int({ description: "How many nodes were changed.", resolve: ({ nodeIds }) => nodeIds.length }),
    errors: t.field({
      type: [UserErrorRef],
      description: "Why the request was refused; empty when it was carried out.",
      resolve: ({ refusals }) => [...refusals],
    }),
    query: t.field({ type: QueryRef, description: "Root query, to read on in the same request.", resolve: () => ({}) }),
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
    description: "Register nodes: they begin ENROLLED. All or none; every flaw of every node is named.",
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
    args: { input: t.arg({ type: UpdateNodeInput, required: true, description: "The change." }) },
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
    description: "Delete nodes. Their transitions and operations stay.",
    args: { input: t.arg({ type: DeleteNodesInput, required: true, description: "Which nodes." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.deleteNodes(callerOf(context), nodeSelector(input.nodes)),
  }),
);

builder.mutationField("setMaintenance", (t) =>
  t.field({
    type: NodesPayloadRef,
    nullable: true,
    ...needs("OPERATE"),
    description: "Put nodes in maintenance (a reason) or back in service (none). Starts no work and stops none.",
    args: { input: t.arg({ type: SetMaintenanceInput, required: true, description: "Which nodes, and why." }) },
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
      "Retire nodes (a reason) or put them back in service (none). Retired nodes are not commissioned, deployed or updated, and after a tear-down end MANAGEABLE. Starts no work and stops none.",
    args: { input: t.arg({ type: SetRetiredInput, required: true, description: "Which nodes, and why." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.setRetired(callerOf(context), nodeSelector(input.nodes), input.reason ?? null),
  }),
);
