/** The query `attention`: what needs a person, in groups with the same cause, each with an action that may help. */
import { NODE_STATES } from "../../lifecycle/node-states.ts";
import { REMEDIES } from "../../lifecycle/remedies.ts";
import { ATTENTION_KINDS, attentionGroups } from "../../store/attention.ts";
import type { Attention, AttentionGroup, AttentionKind } from "../../store/attention.ts";
import { builder, enumValues, given, needs } from "../base/builder.ts";
import { badInput } from "../base/connection.ts";
import type { Context } from "../base/context.ts";
import { ErrorCodeEnum, NodeStateEnum } from "../base/enums.ts";
import { globalId } from "../base/ids.ts";
import { NodeRef, OperationRef } from "../base/refs.ts";
import { ActionEnum, mutationOf } from "./actions.ts";
import type { Action, NodeAction } from "./actions.ts";
import { actionVerdicts } from "./node-actions.ts";
import { NodeFilterInput, nodeFilter } from "./selectors.ts";

const GROUPS_MAX = 100;
const NODES_MAX = 100;

const AttentionKindEnum = builder.enumType("AttentionKind", {
  description: "Why nodes need a person. New values may be added.",
  values: enumValues(ATTENTION_KINDS),
});

/** The remedy of each kind, and the actions to try on the oldest node, the best first. */
const HELP: Readonly<Record<AttentionKind, { readonly remedy: string; readonly actions: readonly NodeAction[] }>> = {
  FAILED: { remedy: "Mend the cause, then restart the work.", actions: ["RESTART", "MANAGE"] },
  STUCK: { remedy: "Look at the log of the step, then abort the work.", actions: ["ABORT", "STOP"] },
  ON_HOLD: { remedy: "Check what the hold is for, then release it.", actions: ["RELEASE_HOLDS"] },
  WAVES_HALTED: { remedy: "Check the nodes that have begun, then start the others.", actions: [] },
  STOPPED: { remedy: "Restart the work, or verify the node with manageNodes.", actions: ["RESTART", "MANAGE"] },
  FAULT: { remedy: "Check the machine; for an unreachable BMC, repair its connection.", actions: ["CLEAN", "MANAGE"] },
  POWER_DRIFT: { remedy: "Set the power again, or have Ostler correct it (Site.correctPower).", actions: ["POWER"] },
  DISAPPEARED: { remedy: "Find the machine; abort its work if it will not come back.", actions: ["ABORT"] },
  MAINTENANCE: { remedy: "End the maintenance, or decommission the node.", actions: ["CLEAR_MAINTENANCE"] },
};

const ON_NODES: ReadonlySet<Action> = new Set(["MANAGE", "CLEAN", "POWER", "CLEAR_MAINTENANCE"]);

interface Suggestion {
  readonly action: Action;
  readonly input: Readonly<Record<string, string | Readonly<Record<string, readonly string[]>>>>;
}

const SuggestionRef = builder.objectRef<Suggestion>("AttentionSuggestion").implement({
  description: "Action that may help, checked on the node of the group that has waited longest.",
  fields: (t) => ({
    action: t.field({ type: ActionEnum, description: "Action to propose.", resolve: ({ action }) => action }),
    mutation: t.string({ description: "Mutation of the action.", resolve: ({ action }) => mutationOf(action) }),
    input: t.field({
      type: "JSON",
      description: "The whole `input` of the mutation, for the nodes in `nodes` or the operation of the group.",
      resolve: ({ input }) => input,
    }),
  }),
});

/** The sentence for a group: what happened, and what to do. */
function causeOf({ kind, state, step, driver, code, detail, message }: AttentionGroup): string {
  const at = step === null ? "" : ` at ${step}`;
  const where = state === null ? "" : ` ${state.toLowerCase().replaceAll("_", " ")}`;
  const what = code ?? detail;
  const first = `${ATTENTION_KINDS[kind]} Here:${where}${at}${driver === null ? "" : `, driver ${driver}`}${what === null ? "" : `, ${what}`}.`;
  return message === null ? first : `${first} The oldest: ${message}`;
}

async function suggestionFor(group: AttentionGroup, context: Context): Promise<Suggestion | null> {
  if (group.kind === "WAVES_HALTED" && group.operationId !== null)
    return {
      action: group.detail === "AWAITING" ? "ADVANCE_WAVES" : "RESUME_WAVES",
      input: { operationId: globalId("Operation", group.operationId) },
    };
  const ids = group.nodeIds.map((id) => globalId("Node", id));
  if (group.kind === "FAULT" && group.detail === "BMC_UNREACHABLE")
    return { action: "READ_POWER", input: { nodes: { ids } } };
  const oldest = group.nodeIds[0] === undefined ? null : await context.load.node.load(group.nodeIds[0]);
  if (!oldest) return null;
  const wantedPower = group.detail === "ON" || group.detail === "OFF" ? group.detail : null;
  const verdicts = await actionVerdicts(oldest, HELP[group.kind].actions, context);
  const action = verdicts.find(
    ({ refusal, powerAction }) => refusal === null && (powerAction === null || powerAction === wantedPower),
  )?.action;
  if (action === undefined) return null;
  if (!ON_NODES.has(action)) return { action, input: { work: { ids } } };
  return { action, input: { nodes: { ids }, ...(action === "POWER" && wantedPower && { action: wantedPower }) } };
}

const AttentionGroupRef = builder.objectRef<AttentionGroup>("AttentionGroup").implement({
  description: "Nodes that need a person for the same cause.",
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
    step: t.exposeString("step", { nullable: true, description: "Step that failed or is running; null if none is." }),
    driver: t.exposeString("driver", {
      nullable: true,
      description: "Driver of the nodes, of a stuck step that of the step; null if the kind does not depend on it.",
    }),
    detail: t.exposeString("detail", {
      nullable: true,
      description: "Kind of the fault, the power that is wanted, or the state of the waves; null for other kinds.",
    }),
    cause: t.string({ description: "The cause, as a sentence for people.", resolve: causeOf }),
    remedy: t.string({
      description: "What to do, in general.",
      resolve: ({ kind, code }) => (code === null ? HELP[kind].remedy : REMEDIES[code]),
    }),
    nodeCount: t.exposeInt("nodeCount", { description: "Number of nodes." }),
    since: t.field({
      type: "DateTime",
      description:
        "Time since which the first of them needs a person. For STOPPED and DISAPPEARED, time of the node's last change.",
      resolve: ({ since }) => new Date(since),
    }),
    nodes: t.field({
      type: [NodeRef],
      description: "The nodes that have needed a person longest, as many as `nodesMax` allows.",
      resolve: async ({ nodeIds }, _args, { load }) => {
        const found = await Promise.all(nodeIds.map((id) => load.node.load(id)));
        return found.filter((node) => node !== null);
      },
    }),
    operation: t.field({
      type: OperationRef,
      nullable: true,
      description: "Operation whose work is on hold or halted; null for other kinds.",
      resolve: ({ operationId }, _args, { load }) => (operationId === null ? null : load.operation.load(operationId)),
    }),
    suggestion: t.field({
      type: SuggestionRef,
      nullable: true,
      description: "Action that the oldest node accepts now; null if none of those that may help is accepted.",
      resolve: (group, _args, context) => suggestionFor(group, context),
    }),
  }),
});

const AttentionRef = builder.objectRef<Attention>("Attention").implement({
  description: "What needs a person. A node can be in several groups.",
  fields: (t) => ({
    groups: t.field({
      type: [AttentionGroupRef],
      description: "The groups of most nodes.",
      resolve: ({ groups }) => [...groups],
    }),
    groupCount: t.exposeInt("groupCount", { description: "Number of all groups." }),
    otherGroupCount: t.int({
      description: "Number of groups that `first` leaves out.",
      resolve: ({ groups, groupCount }) => groupCount - groups.length,
    }),
    nodeCount: t.exposeInt("nodeCount", { description: "Number of different nodes in all groups." }),
  }),
});

builder.queryField("attention", (t) =>
  t.field({
    type: AttentionRef,
    ...needs("READ"),
    description:
      "What needs a person, in groups with the same cause. Nodes in maintenance are in groups of the kind MAINTENANCE only.",
    args: {
      filter: t.arg({ type: NodeFilterInput, description: "Only matching nodes; by default all." }),
      kinds: t.arg({ type: [AttentionKindEnum], description: "Only these kinds; by default all." }),
      first: t.arg.int({ required: true, defaultValue: 20, description: `Number of groups, 1 to ${GROUPS_MAX}.` }),
      nodesMax: t.arg.int({
        required: true,
        defaultValue: 5,
        description: `Number of nodes that a group names and its suggestion selects, 1 to ${NODES_MAX}.`,
      }),
    },
    resolve: (_root, { filter, kinds, first, nodesMax }, { services }) => {
      if (first < 1 || first > GROUPS_MAX) throw badInput(`\`first\` is ${first}; use 1 to ${GROUPS_MAX}.`);
      if (nodesMax < 1 || nodesMax > NODES_MAX) throw badInput(`\`nodesMax\` is ${nodesMax}; use 1 to ${NODES_MAX}.`);
      return attentionGroups(services.database.reader, {
        filter: nodeFilter(filter),
        kinds: given(kinds),
        first,
        nodesMax,
      });
    },
  }),
);
