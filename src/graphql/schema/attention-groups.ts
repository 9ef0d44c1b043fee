/** Groups of nodes with the same cause, each with an action that may help. */
import { NODE_STATES } from "../../lifecycle/node-states.ts";
import { REMEDIES } from "../../lifecycle/remedies.ts";
import { ATTENTION_KINDS } from "../../store/attention.ts";
import type { AttentionGroup, AttentionKind } from "../../store/attention.ts";
import type { PowerChange } from "../../lifecycle/verbs.ts";
import type { OperationRow } from "../../store/operations.ts";
import { builder, enumValues } from "../base/builder.ts";
import type { FieldArgs } from "../base/builder.ts";
import { badInput } from "../base/connection.ts";
import type { Context } from "../base/context.ts";
import { ErrorCodeEnum, NodeStateEnum } from "../base/enums.ts";
import { globalId } from "../base/ids.ts";
import { NodeRef, OperationRef } from "../base/refs.ts";
import { ActionEnum, mutationOf } from "./actions.ts";
import type { Action, NodeAction } from "./actions.ts";
import { inputForAll } from "./attention-filters.ts";
import type { Input } from "./attention-filters.ts";
import { actionVerdicts } from "./node-actions.ts";
import type { NodeFilterShape } from "./selectors.ts";

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
  if (first < 1 || first > GROUPS_MAX) throw badInput(`\`first\` is ${first}; use 1 to ${GROUPS_MAX}.`);
  if (nodesMax < 1 || nodesMax > NODES_MAX) throw badInput(`\`nodesMax\` is ${nodesMax}; use 1 to ${NODES_MAX}.`);
  return { first, nodesMax };
}

export const AttentionKindEnum = builder.enumType("AttentionKind", {
  description: "Why nodes need a person. New values may be added.",
  values: enumValues(ATTENTION_KINDS),
});

/** The remedy of each kind, and the actions to try on the oldest node, the best first. */
const HELP: Readonly<Record<AttentionKind, { readonly remedy: string; readonly actions: readonly NodeAction[] }>> = {
  FAILED: { remedy: "Mend the cause, then restart the work.", actions: ["RESTART", "MANAGE"] },
  STUCK: { remedy: "Look at the log of the step, then abort the work.", actions: ["ABORT", "STOP"] },
  WAITING: { remedy: "Wait for the work before it, raise its limits, or abort it.", actions: [] },
  ON_HOLD: { remedy: "Check what the hold is for, then release it.", actions: ["RELEASE_HOLDS"] },
  WAVES_HALTED: { remedy: "Check the nodes that have begun, then start the others.", actions: [] },
  STOPPED: { remedy: "Restart the work, or verify the node with manageNodes.", actions: ["RESTART", "MANAGE"] },
  FAULT: {
    remedy:
      "Check the machine; for an unreachable BMC, repair its connection. Do not switch off a machine that may still be working: ask it with readPower, or look at it and send the request with force: true.",
    actions: ["CLEAN", "MANAGE"],
  },
  IDENTITY_CONFLICT: {
    remedy:
      "Find out which node is the machine. Delete the other one, or correct its address and inspect it, or say that the value is shared (Node.sharedController, Site.sharedIdentities).",
    actions: ["INSPECT"],
  },
  POWER_DRIFT: { remedy: "Set the power again, or have Ostler correct it (Site.correctPower).", actions: ["POWER"] },
  DISAPPEARED: { remedy: "Find the machine; abort its work if it will not come back.", actions: ["ABORT"] },
  MAINTENANCE: { remedy: "End the maintenance, or decommission the node.", actions: ["CLEAR_MAINTENANCE"] },
};

const ON_NODES: ReadonlySet<Action> = new Set(["MANAGE", "INSPECT", "CLEAN", "POWER", "CLEAR_MAINTENANCE"]);

export interface Suggestion {
  readonly action: Action;
  readonly input: Input;
}

interface ShownSuggestion extends Suggestion {
  readonly forAll: Input | null;
}

const SuggestionRef = builder.objectRef<ShownSuggestion>("AttentionSuggestion").implement({
  description:
    "Action that may help. It is checked on the oldest node of the group, except READ_POWER, ADVANCE_WAVES and RESUME_WAVES, which follow from the cause.",
  fields: (t) => ({
    action: t.field({ type: ActionEnum, description: "Action to propose.", resolve: ({ action }) => action }),
    mutation: t.string({ description: "Mutation of the action.", resolve: ({ action }) => mutationOf(action) }),
    input: t.field({
      type: "JSON",
      description: "The whole `input` of the mutation, for the nodes in `nodes` or the operation of the group.",
      resolve: ({ input }) => input,
    }),
    inputForAll: t.field({
      type: "JSON",
      nullable: true,
      description:
        "The same for all nodes of the group, by a filter that includes the `filter` of the request; for a hold, by its operation. It also reaches nodes that match later, those of the same cause at another step, and for FAULT those with another fault. Null if no filter selects the nodes.",
      resolve: ({ forAll }) => forAll,
    }),
  }),
});

/** The sentence for a group: what happened, and what to do. */
function causeOf({ kind, state, step, driver, code, detail, message, runsOf }: ShownGroup): string {
  const at = step === null ? "" : ` at ${step}`;
  const where = state === null ? "" : ` ${state.toLowerCase().replaceAll("_", " ")}`;
  const what = code ?? detail;
  const meaning = runsOf ? "The work on the node failed." : ATTENTION_KINDS[kind];
  const facts = [`${where}${at}`.trim(), driver === null ? "" : `driver ${driver}`, what ?? ""].filter(
    (fact) => fact !== "",
  );
  const first = `${meaning} Here: ${facts.join(", ")}.`;
  return message === null ? first : `${first} The oldest: ${message}`;
}

/** The actions to try for a group, the best first. */
interface Help {
  readonly actions: readonly NodeAction[];
  /** For POWER. */
  readonly power: PowerChange | null;
}

async function suggestionFor(group: AttentionGroup, context: Context): Promise<Suggestion | null> {
  if (group.kind === "WAVES_HALTED" && group.operationId !== null)
    return {
      action: group.detail === "AWAITING" ? "ADVANCE_WAVES" : "RESUME_WAVES",
      input: { operationId: globalId("Operation", group.operationId) },
    };
  const power = group.detail === "ON" || group.detail === "OFF" ? group.detail : null;
  const nodeIds = group.nodeIds.slice(0, group.openCount);
  if (group.kind === "FAULT" && (group.detail === "BMC_UNREACHABLE" || group.detail === "MACHINE_BUSY"))
    return { action: "READ_POWER", input: { nodes: { ids: nodeIds.map((id) => globalId("Node", id)) } } };
  return actionFor(nodeIds, { actions: HELP[group.kind].actions, power }, context);
}

/** The first action that the first node accepts now, for all of them. */
async function actionFor(
  nodeIds: readonly string[],
  { actions, power }: Help,
  context: Context,
): Promise<Suggestion | null> {
  const oldest = nodeIds[0] === undefined ? null : await context.load.node.load(nodeIds[0]);
  if (!oldest) return null;
  const verdicts = await actionVerdicts(oldest, actions, context);
  const action = verdicts.find(
    ({ refusal, powerAction }) => refusal === null && (powerAction === null || powerAction === power),
  )?.action;
  if (action === undefined) return null;
  const ids = nodeIds.map((id) => globalId("Node", id));
  if (!ON_NODES.has(action)) return { action, input: { work: { ids } } };
  return { action, input: { nodes: { ids }, ...(action === "POWER" && power && { action: power }) } };
}

/**
 * The suggestion for the failed runs of one operation. A restart of a node continues its newest work that changes the
 * state, so it is proposed only if that is of this operation.
 */
async function suggestionForRuns(
  group: AttentionGroup,
  { id, kind, options }: OperationRow,
  context: Context,
): Promise<Suggestion | null> {
  const nodeIds = group.nodeIds.slice(0, group.openCount);
  if (kind === "POWER") return actionFor(nodeIds, { actions: ["POWER"], power: options.powerAction ?? null }, context);
  const newest = nodeIds[0] === undefined ? null : await context.load.newestWork.load(nodeIds[0]);
  if (newest?.operationId !== id) return null;
  return actionFor(nodeIds, { actions: HELP.FAILED.actions, power: null }, context);
}

function withAll(
  suggestion: Suggestion | null,
  forAll: (suggestion: Suggestion) => Input | null,
): ShownSuggestion | null {
  return suggestion && { ...suggestion, forAll: forAll(suggestion) };
}

/** A group of nodes, or of the failed runs of the operation `runsOf`. */
export interface ShownGroup extends AttentionGroup {
  readonly runsOf?: OperationRow;
  /** The filter of the request. */
  readonly chosen?: NodeFilterShape | undefined;
}

export const AttentionGroupRef = builder.objectRef<ShownGroup>("AttentionGroup").implement({
  description: "Nodes that need a person for the same cause, or that failed in an operation for the same cause.",
  fields: (t) => ({
    kind: t.field({ type: AttentionKindEnum, description: "Why.", resolve: ({ kind }) => kind }),
    state: t.field({
      type: NodeStateEnum,
      nullable: true,
      description: "State of all of the nodes; null if the kind does not depend on it.",
      resolve: ({ state }) => (state !== null && state in NODE_STATES ? state : null),
    }),
    code: t.field({
      type: ErrorCodeEnum,
      nullable: true,
      description: "Code of the failure; null for other kinds.",
      resolve: ({ code }) => code,
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
    cause: t.string({ description: "The cause, as a sentence for people.", resolve: causeOf }),
    remedy: t.string({
      description: "What to do, in general.",
      resolve: ({ kind, code }) => (code === null ? HELP[kind].remedy : REMEDIES[code]),
    }),
    message: t.exposeString("message", {
      nullable: true,
      description: "Text of the oldest: an error, a fault or a reason; null if there is none.",
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
        "Time since which the first of them needs a person. For STOPPED and DISAPPEARED, time of the node's last change.",
      resolve: ({ since }) => new Date(since),
    }),
    nodes: t.field({
      type: [NodeRef],
      description:
        "The nodes that have needed a person longest, as many as `nodesMax` allows; first those in `openCount`.",
      resolve: async ({ nodeIds }, _args, { load }) => {
        const found = await Promise.all(nodeIds.map((id) => load.node.load(id)));
        return found.filter((node) => node !== null);
      },
    }),
    operation: t.field({
      type: OperationRef,
      nullable: true,
      description:
        "Operation whose work is on hold, halted, waiting to begin, or failed in `Operation.failures`; null for other kinds.",
      resolve: ({ operationId }, _args, { load }) => (operationId === null ? null : load.operation.load(operationId)),
    }),
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
