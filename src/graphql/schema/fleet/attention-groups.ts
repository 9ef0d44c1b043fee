/** Groups of nodes with the same cause, each with an action that may help. */
import { ATTENTION_KINDS, proposalFor, remedyOf } from "../../../lifecycle/attention.ts";
import type { Proposal } from "../../../lifecycle/attention.ts";
import { NODE_STATES } from "../../../lifecycle/node-states.ts";
import type { AttentionGroup } from "../../../store/nodes/attention.ts";
import type { OperationRow } from "../../../store/operations/operations.ts";
import { existing } from "../../base/batching.ts";
import { builder, enumValues } from "../../base/builder.ts";
import type { FieldArgs } from "../../base/builder.ts";
import { sizeWithin } from "../../base/connection.ts";
import type { Context } from "../../base/context.ts";
import { ErrorCodeEnum, NodeStateEnum } from "../../base/enums.ts";
import { globalId } from "../../base/ids.ts";
import { NodeRef } from "../../base/refs.ts";
import { operationField } from "../../base/shared-fields.ts";
import { ActionEnum, mutationOf } from "../nodes/actions.ts";
import type { Action } from "../nodes/actions.ts";
import { actionVerdicts } from "../nodes/node-actions.ts";
import type { NodeFilterShape } from "../selectors.ts";
import { kindOf } from "../../../lifecycle/machine.ts";
import type { JsonObject } from "../../../store/records.ts";

const GROUPS_MAX = 100;
const NODES_MAX = 100;

/** Arguments of a field that returns groups. */
export function groupArgs(arg: FieldArgs) {
  return {
    first: arg.int({ required: true, defaultValue: 20, description: `Number of groups, 1 to ${GROUPS_MAX}.` }),
    nodesMax: arg.int({
      required: true,
      defaultValue: 5,
      description: `Number of nodes that a group names and its suggestion selects, 1 to ${NODES_MAX}.`,
    }),
  };
}

interface GroupLimits {
  readonly first: number;
  readonly nodesMax: number;
}

export function groupLimits({ first, nodesMax }: GroupLimits): GroupLimits {
  return { first: sizeWithin(GROUPS_MAX, "first", first), nodesMax: sizeWithin(NODES_MAX, "nodesMax", nodesMax) };
}

export const AttentionKindEnum = builder.enumType("AttentionKind", {
  description: "Why nodes need a person. New values may be added.",
  values: enumValues(ATTENTION_KINDS),
});

const ON_NODES: ReadonlySet<Action> = new Set(["MANAGE", "INSPECT", "CLEAN", "POWER", "CLEAR_MAINTENANCE"]);

interface Suggestion {
  readonly action: Action;
  readonly input: Input;
}

interface ShownSuggestion extends Suggestion {
  readonly forAll: Input | null;
}

const SuggestionRef = builder.objectRef<ShownSuggestion>("AttentionSuggestion").implement({
  description:
    "Action that may help. It is checked on the oldest node of the group, except READ_POWER, ADVANCE_WAVES, RESUME_WAVES and APPLY, which follow from the cause.",
  fields: (t) => ({
    action: t.expose("action", { type: ActionEnum, description: "Action to propose." }),
    mutation: t.string({ description: "Mutation of the action.", resolve: ({ action }) => mutationOf(action) }),
    input: t.expose("input", {
      type: "JSON",
      description: "The whole `input` of the mutation, for the nodes in `nodes` or the operation of the group.",
    }),
    inputForAll: t.expose("forAll", {
      type: "JSON",
      nullable: true,
      description:
        "The same for all nodes of the group, by a filter that includes the `filter` of the request; for a hold without such a filter, by its operation, and for pending changes by their cluster. It also reaches nodes that match later, those of the same cause at another step, and for FAULT those with another fault. Null if no filter selects the nodes.",
    }),
  }),
});

async function suggestionFor(group: AttentionGroup, context: Context): Promise<Suggestion | null> {
  const proposal = proposalFor(group);
  if ("tried" in proposal) return accepted(group, proposal, context);
  const { follows: action } = proposal;
  if (action === "READ_POWER") return { action, input: { nodes: { ids: openIds(group) } } };
  const { operationId, clusterId } = group;
  if (clusterId !== undefined)
    return { action, input: { cluster: { id: globalId("Cluster", clusterId) }, nodes: { ids: openIds(group) } } };
  return operationId === null ? null : { action, input: { operationId: globalId("Operation", operationId) } };
}

function openIds({ nodeIds, openCount }: AttentionGroup): readonly string[] {
  return nodeIds.slice(0, openCount).map((id) => globalId("Node", id));
}

/** The first action that the oldest open node accepts now, for all open nodes. */
async function accepted(
  group: AttentionGroup,
  { tried, power }: Extract<Proposal, { readonly tried: unknown }>,
  context: Context,
): Promise<Suggestion | null> {
  const [oldestId] = group.openCount > 0 ? group.nodeIds : [];
  const oldest = oldestId === undefined ? null : await context.load.node.load(oldestId);
  if (!oldest) return null;
  const verdicts = await actionVerdicts(oldest, tried, context);
  const action = verdicts.find(
    ({ refusal, powerAction }) => refusal === null && (powerAction === null || powerAction === power),
  )?.action;
  if (action === undefined) return null;
  const ids = openIds(group);
  if (!ON_NODES.has(action)) return { action, input: { work: { ids } } };
  return { action, input: { nodes: { ids }, ...(action === "POWER" && power && { action: power }) } };
}

/**
 * The suggestion for the failed runs of one operation. A restart of a node continues its newest work that changes the
 * state, so it is proposed only if that is of this operation; for all of its nodes if others were undone.
 */
async function suggestionForRuns(
  group: AttentionGroup,
  { id, kind, options, finishedAt }: OperationRow,
  context: Context,
): Promise<Suggestion | null> {
  if (kind === "POWER") return accepted(group, { tried: ["POWER"], power: options.powerAction ?? null }, context);
  const [oldestId] = group.openCount > 0 ? group.nodeIds : [];
  const newest = oldestId === undefined ? null : await context.load.newestWork.load(oldestId);
  if (newest?.operationId !== id) return null;
  const found = await accepted(group, { tried: ATTENTION_KINDS.FAILED.actions, power: null }, context);
  const { UNDONE = 0 } = await context.load.runCounts.load(id);
  if (found?.action !== "RESTART" || UNDONE === 0) return found;
  return finishedAt && { action: "RESTART", input: { work: { operationId: globalId("Operation", id) } } };
}

function withAll(
  suggestion: Suggestion | null,
  forAll: (suggestion: Suggestion) => Input | null,
): ShownSuggestion | null {
  return suggestion && { ...suggestion, forAll: forAll(suggestion) };
}

/** A group of nodes, or of the failed runs of the operation `runsOf`. */
interface ShownGroup extends AttentionGroup {
  readonly runsOf?: OperationRow;
  /** The filter of the request. */
  readonly chosen?: NodeFilterShape | undefined;
}

export const AttentionGroupRef = builder.objectRef<ShownGroup>("AttentionGroup").implement({
  description: "Nodes that need a person for the same cause, or that failed in an operation for the same cause.",
  fields: (t) => ({
    kind: t.expose("kind", { type: AttentionKindEnum, description: "Why." }),
    state: t.field({
      type: NodeStateEnum,
      nullable: true,
      description: "State of all of the nodes; null if the kind does not depend on it.",
      resolve: ({ state }) => (state !== null && state in NODE_STATES ? state : null),
    }),
    code: t.expose("code", {
      type: ErrorCodeEnum,
      nullable: true,
      description: "Code of the failure; null for other kinds.",
    }),
    step: t.exposeString("step", {
      nullable: true,
      description: "Step that failed, is running or has ended before a wait; null if none has.",
    }),
    driver: t.exposeString("driver", {
      nullable: true,
      description:
        "Driver of the nodes, of a stuck step or a failed run that of the step; null if the kind does not depend on it.",
    }),
    detail: t.exposeString("detail", {
      nullable: true,
      description:
        "Kind of the fault or of the conflict, the power that is wanted, the state of the waves, the reason of a wait, or CLEAN_UP for the clean-up runs of an operation; null otherwise.",
    }),
    cause: t.string({
      description:
        "Why, for the oldest: the words of the driver alone, or the reason that was given; else the meaning of the kind.",
      resolve: ({ kind, cause }) => cause ?? ATTENTION_KINDS[kind].description,
    }),
    causeCount: t.exposeInt("causeCount", {
      description: "Number of different causes among the nodes; 0 if there are no words about them.",
    }),
    remedy: t.string({
      description: "What to do, in general.",
      resolve: remedyOf,
    }),
    message: t.exposeString("message", {
      nullable: true,
      description: "Text of the oldest, with node and step: an error, a fault or a reason; null if there is none.",
    }),
    nodeCount: t.exposeInt("nodeCount", {
      description: "Number of nodes, deleted ones included; of a discovery, number of addresses.",
    }),
    openCount: t.exposeInt("openCount", {
      description:
        "Number of nodes among them that no later work has reached. Smaller than `nodeCount` only for the failures of an operation, after a restart for example.",
    }),
    since: t.field({
      type: "DateTime",
      description:
        "Time since which the first of them needs a person. For STOPPED and DISAPPEARED, time of the node's last change, and for PENDING_CHANGES of the cluster's.",
      resolve: ({ since }) => new Date(since),
    }),
    nodes: t.field({
      type: [NodeRef],
      description:
        "The nodes that have needed a person longest, as many as `nodesMax` allows; first those in `openCount`.",
      resolve: ({ nodeIds }, _args, { load }) => existing(load.node, nodeIds),
    }),
    operation: operationField(
      t,
      "Operation whose work is on hold, halted, waiting to begin, or failed in `Operation.failures`; null for other kinds.",
    ),
    suggestion: t.field({
      type: SuggestionRef,
      nullable: true,
      description: "Action to propose; null if the oldest node in `openCount` accepts none of those that may help.",
      resolve: async ({ runsOf, chosen, ...group }, _args, context) => {
        if (runsOf) return withAll(await suggestionForRuns(group, runsOf, context), () => null);
        return withAll(await suggestionFor(group, context), ({ input }) => inputForAll(input, group, chosen));
      },
    }),
  }),
});

// ---- filters that select the nodes of a group in a mutation

/** JSON of an input. */
type Input = JsonObject;

/**
 * The input of a suggestion for all nodes of the group. Null if no filter selects them: it would reach nodes that the
 * group leaves out.
 */
function inputForAll(input: Input, group: AttentionGroup, chosen: NodeFilterShape | undefined): Input | null {
  if (group.kind === "ON_HOLD" && group.operationId !== null && chosen === undefined)
    return { ...input, work: { operationId: globalId("Operation", group.operationId) } };
  const outer = given(chosen);
  if (group.clusterId !== undefined) {
    const { nodes: _some, ...ofCluster } = input;
    return { ...ofCluster, ...(outer && { nodes: { filter: outer } }) };
  }
  const own = filterOf(group);
  const subject = "work" in input ? "work" : "nodes";
  if (own === null || !(subject in input)) return null;
  const filter = { ...own, maintenance: false, ...(outer && { or: [outer] }) };
  return { ...input, [subject]: { filter } };
}

function filterOf({ kind, state, code, driver, detail, operationId }: AttentionGroup): JsonObject | null {
  const ofDriver = driver === null ? {} : { driver };
  switch (kind) {
    case "FAILED":
      return state !== null && code !== null ? { states: [state], errorCodes: [code], ...ofDriver } : null;
    case "STOPPED":
      return { states: ["STOPPED"], ...ofDriver };
    case "DISAPPEARED":
      return { presences: ["DISAPPEARED"], ...ofDriver };
    case "POWER_DRIFT":
      return detail === "ON" || detail === "OFF"
        ? { powerDrift: true, powerStates: [detail === "ON" ? "OFF" : "ON"], ...ofDriver }
        : null;
    case "FAULT":
      return { faulty: true, ...ofDriver };
    case "ON_HOLD":
      return state !== null && kindOf(state) === "hold" && operationId !== null
        ? { states: [state], operationId: globalId("Operation", operationId) }
        : null;
    case "IDENTITY_CONFLICT":
    case "STUCK":
    case "WAITING":
    case "WAVES_HALTED":
    case "MAINTENANCE":
    case "PENDING_CHANGES":
      return null;
  }
}

/** The filter of the request without members that are null: a mutation refuses those. */
function given(filter: NodeFilterShape | undefined): Input | undefined {
  const text = JSON.stringify(filter ?? {}, (_name, value: unknown) => value ?? undefined);
  const found = JSON.parse(text) as Input;
  return Object.keys(found).length > 0 ? found : undefined;
}
