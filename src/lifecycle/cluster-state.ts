/** The state of a cluster, derived from its nodes and their unfinished runs by a table of rules, and never stored. */
import { kindOf } from "./machine.ts";
import type { NodeState } from "./node-states.ts";
import { verbOf } from "./verbs.ts";
import type { OperationKind } from "./verbs.ts";

export const CLUSTER_STATES = {
  REMOVING: "Nodes are being undeployed or decommissioned, and no other work is unfinished.",
  STOPPING: "A requested stop or abort is being carried out.",
  DEPLOYING: "An operation on its nodes is unfinished.",
  NEW: "No node is past AVAILABLE.",
  OPERATIONAL: "Every node is ACTIVE.",
  PARTIALLY_DEPLOYED: "Some nodes are ACTIVE or have an operating system; others do not.",
  STOPPED: "Work was stopped and no node is ACTIVE.",
  ERROR: "At least one node failed, none is ACTIVE, and no work is running.",
} as const;

export type ClusterState = keyof typeof CLUSTER_STATES;

/** How much is installed on a node. */
export const STAGES = {
  NONE: "Nothing is installed, or nothing reliable.",
  PROVISIONED: "The operating system is installed.",
  DEPLOYED: "Everything is installed.",
} as const;

export type Stage = keyof typeof STAGES;

/** The inputs of the rules. Power changes and inspections in place do not count as work. */
export interface ClusterFacts {
  readonly nodes: readonly { readonly state: NodeState; readonly stage: Stage }[];
  readonly work: readonly { readonly kind: OperationKind; readonly stopping: boolean }[];
}

/** A row of the table: the first rule that holds decides. */
interface ClusterRule {
  readonly state: ClusterState;
  /** The condition as a yes/no question. */
  readonly when: string;
  readonly holds: (facts: ClusterFacts) => boolean;
}

const NOT_PAST_AVAILABLE: ReadonlySet<NodeState> = new Set(["ENROLLED", "MANAGEABLE", "AVAILABLE", "DECOMMISSIONED"]);

/** The rules in order. The last one always holds. */
export const CLUSTER_RULES: readonly ClusterRule[] = [
  {
    state: "REMOVING",
    when: "is an operation on its nodes unfinished, and do all such operations undeploy or decommission them?",
    holds: ({ work }) => work.length > 0 && work.every(({ kind }) => verbOf(kind).takesOutOfCluster),
  },
  {
    state: "STOPPING",
    when: "has a stop or an abort been requested?",
    holds: ({ work }) => work.some(({ stopping }) => stopping),
  },
  { state: "DEPLOYING", when: "is an operation on its nodes unfinished?", holds: ({ work }) => work.length > 0 },
  {
    state: "NEW",
    when: "is there no node past AVAILABLE?",
    holds: ({ nodes }) => nodes.every(({ state }) => NOT_PAST_AVAILABLE.has(state)),
  },
  {
    state: "OPERATIONAL",
    when: "are all nodes ACTIVE?",
    holds: ({ nodes }) => nodes.every(({ state }) => state === "ACTIVE"),
  },
  {
    state: "PARTIALLY_DEPLOYED",
    when: "is some node ACTIVE, or at stage PROVISIONED (its operating system is installed)?",
    holds: ({ nodes }) => nodes.some(({ state, stage }) => state === "ACTIVE" || stage === "PROVISIONED"),
  },
  {
    state: "STOPPED",
    when: "is some node STOPPED?",
    holds: ({ nodes }) => nodes.some(({ state }) => state === "STOPPED"),
  },
  {
    state: "ERROR",
    when: "has some node failed?",
    holds: ({ nodes }) => nodes.some(({ state }) => kindOf(state) === "failed"),
  },
  { state: "NEW", when: "otherwise", holds: () => true },
];

export function clusterState(facts: ClusterFacts): ClusterState {
  return CLUSTER_RULES.find(({ holds }) => holds(facts))?.state ?? "NEW";
}

/** Whether the cluster's settings may be edited now. */
export function isLocked(state: ClusterState): boolean {
  return state === "DEPLOYING" || state === "STOPPING";
}
