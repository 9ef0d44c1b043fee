/** The state of a cluster: derived from its nodes and their unfinished runs, never stored. First match wins. */
import { kindOf } from "./machine.ts";
import type { NodeState } from "./node-states.ts";
import type { OperationKind } from "./verbs.ts";

export const CLUSTER_STATES = {
  REMOVING: "Nodes are being taken out of service.",
  STOPPING: "A stop was asked for; running steps end.",
  DEPLOYING: "An operation works on its nodes.",
  NEW: "No node has come past AVAILABLE.",
  OPERATIONAL: "Every node is ACTIVE.",
  PARTIALLY_DEPLOYED: "Some nodes are ACTIVE or have their operating system, the others do not.",
  STOPPED: "Work was stopped and no node is ACTIVE.",
  ERROR: "At least one node failed, none is ACTIVE and nothing runs.",
} as const;

export type ClusterState = keyof typeof CLUSTER_STATES;

/** How far a node has come: nothing, the operating system stands, everything stands. */
export const STAGES = {
  NONE: "Nothing is installed, or nothing that could be relied on.",
  PROVISIONED: "The operating system stands.",
  DEPLOYED: "Everything stands.",
} as const;

export type Stage = keyof typeof STAGES;

/** What the state depends on. Power changes and inspections in place do not count as work. */
export interface ClusterFacts {
  readonly nodes: readonly { readonly state: NodeState; readonly stage: Stage }[];
  readonly work: readonly { readonly kind: OperationKind; readonly stopping: boolean }[];
}

const NOT_PAST_AVAILABLE: ReadonlySet<NodeState> = new Set(["ENROLLED", "MANAGEABLE", "AVAILABLE", "DECOMMISSIONED"]);

export function clusterState({ nodes, work }: ClusterFacts): ClusterState {
  if (work.some(({ kind }) => kind === "DECOMMISSION" || kind === "UNDEPLOY")) return "REMOVING";
  if (work.some(({ stopping }) => stopping)) return "STOPPING";
  if (work.length > 0) return "DEPLOYING";
  if (nodes.every(({ state }) => NOT_PAST_AVAILABLE.has(state))) return "NEW";
  if (nodes.every(({ state }) => state === "ACTIVE")) return "OPERATIONAL";
  if (nodes.some(({ state, stage }) => state === "ACTIVE" || stage === "PROVISIONED")) return "PARTIALLY_DEPLOYED";
  if (nodes.some(({ state }) => state === "STOPPED")) return "STOPPED";
  if (nodes.some(({ state }) => kindOf(state) === "failed")) return "ERROR";
  return "NEW";
}

/** Whether the cluster's settings may be edited now. */
export function isLocked(state: ClusterState): boolean {
  return state === "DEPLOYING" || state === "STOPPING";
}
