/** Actions: what a person can request for nodes and their work, each with its mutation. */
import { NODE_VERBS, OPERATION_KINDS } from "../../../lifecycle/verbs.ts";
import type { NodeVerb } from "../../../lifecycle/verbs.ts";
import type { Scope } from "../../../lifecycle/scopes.ts";
import { builder, enumValues } from "../../base/builder.ts";

/** Actions on the work of nodes, and on nodes without work. */
const OTHER_ACTIONS = {
  ABORT: { mutation: "abort", description: "Give up the unfinished work." },
  STOP: { mutation: "stop", description: "End the unfinished work after its running step; it can be restarted." },
  RESTART: { mutation: "restart", description: "Continue stopped, failed or aborted work." },
  RELEASE_HOLDS: { mutation: "releaseHolds", description: "Let work that is on hold continue." },
  WITHDRAW_ABORT: { mutation: "withdrawAbort", description: "Withdraw an abort that waits for a step." },
  SET_MAINTENANCE: { mutation: "setMaintenance", description: "Begin maintenance." },
  CLEAR_MAINTENANCE: { mutation: "clearMaintenance", description: "End maintenance." },
  SET_RETIRED: { mutation: "setRetired", description: "Retire: refuse to be put into service." },
  CLEAR_RETIRED: { mutation: "clearRetired", description: "End the retirement." },
  PROTECT: { mutation: "updateNodes", description: "Protect from verbs that end what runs on the node." },
  UNPROTECT: { mutation: "updateNodes", description: "Remove the protection." },
  DELETE: { mutation: "deleteNodes", description: "Delete the node; its log and operations stay." },
} as const;

/** Actions that `Node.actions` does not judge: they do not depend on one node alone. */
const FURTHER_ACTIONS = {
  READ_POWER: { mutation: "readPower", description: "Read the power from the machine now." },
  ADVANCE_WAVES: { mutation: "advanceWaves", description: "Start the next wave of an operation." },
  RESUME_WAVES: { mutation: "resumeWaves", description: "Continue an operation whose waves are halted." },
  APPLY: { mutation: OPERATION_KINDS.APPLY.mutation, description: "Bring a cluster to what it wants now." },
} as const;

export type OtherAction = keyof typeof OTHER_ACTIONS;
export type NodeAction = NodeVerb | OtherAction;
export type Action = NodeAction | keyof typeof FURTHER_ACTIONS;

export const NODE_ACTION_NAMES = [...NODE_VERBS, ...Object.keys(OTHER_ACTIONS)] as readonly NodeAction[];

const MANAGED: readonly Action[] = ["PROTECT", "UNPROTECT", "DELETE"];

/** The scope that an action needs. */
export function scopeOfAction(action: Action): Scope {
  return MANAGED.includes(action) ? "MANAGE" : "OPERATE";
}

export function isVerb(action: Action): action is NodeVerb {
  return (NODE_VERBS as readonly Action[]).includes(action);
}

export function mutationOf(action: Action): string {
  return { ...OPERATION_KINDS, ...OTHER_ACTIONS, ...FURTHER_ACTIONS }[action].mutation;
}

const { APPLY: _onCluster, DISCOVER: _onAddresses, ...VERB_MEANINGS } = OPERATION_KINDS;

export const NodeActionEnum = builder.enumType("NodeAction", {
  description:
    "What a person can request for a node: the verbs, requests about its work, and its marks. New values may be added.",
  values: enumValues<NodeAction>({ ...VERB_MEANINGS, ...OTHER_ACTIONS }),
});

export const ActionEnum = builder.enumType("Action", {
  description: "What a person can request for nodes and operations. New values may be added.",
  values: enumValues<Action>({ ...VERB_MEANINGS, ...OTHER_ACTIONS, ...FURTHER_ACTIONS }),
});
