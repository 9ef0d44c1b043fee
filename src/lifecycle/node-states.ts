/**
 * The table of node states: every state and every legal edge between two of them. The database has a copy (a test
 * compares them) and rejects all other changes. A change of the table needs a decision in docs/decisions, a migration
 * of `lifecycle_edges`, and `npm run docs`.
 *
 * Kinds: `stable`: no work. `running`: a step is running. `wait`: parked until a time or a callback; no process runs
 * it. `hold`: on hold by request. `failed`: no work, and an operator has to decide.
 */

/** Activity on a node that consists of steps. */
export type Phase = "verify" | "inspect" | "clean" | "deploy" | "undeploy";

export type StateKind = "stable" | "running" | "wait" | "hold" | "failed";

interface StateRow {
  readonly kind: StateKind;
  readonly phase: Phase | null;
  readonly description: string;
}

export const NODE_STATES = {
  ENROLLED: { kind: "stable", phase: null, description: "Registered; nothing about the hardware is verified." },
  MANAGEABLE: {
    kind: "stable",
    phase: null,
    description: "Credentials and power are verified; inspect, clean and commission can start.",
  },
  AVAILABLE: { kind: "stable", phase: null, description: "Cleaned and ready to be deployed." },
  ACTIVE: { kind: "stable", phase: null, description: "In service." },
  STOPPED: {
    kind: "stable",
    phase: null,
    description: "Stopped between two steps; completed steps are kept, and a restart continues from there.",
  },
  DECOMMISSIONED: { kind: "stable", phase: null, description: "Out of service, and cleaned as far as possible." },
  VERIFYING: { kind: "running", phase: "verify", description: "Power and credentials are being checked." },
  INSPECTING: { kind: "running", phase: "inspect", description: "The inventory is being collected." },
  INSPECT_WAIT: { kind: "wait", phase: "inspect", description: "An inspect step waits for a time or a callback." },
  INSPECT_FAILED: { kind: "failed", phase: "inspect", description: "Inspection failed or was aborted." },
  CLEANING: { kind: "running", phase: "clean", description: "A clean step is running." },
  CLEAN_WAIT: { kind: "wait", phase: "clean", description: "A clean step waits for a time or a callback." },
  CLEAN_HOLD: { kind: "hold", phase: "clean", description: "Cleaning is on hold by request." },
  CLEAN_FAILED: { kind: "failed", phase: "clean", description: "Cleaning failed or was aborted." },
  DEPLOYING: { kind: "running", phase: "deploy", description: "A deploy step is running." },
  DEPLOY_WAIT: { kind: "wait", phase: "deploy", description: "A deploy step waits for a time or a callback." },
  DEPLOY_HOLD: { kind: "hold", phase: "deploy", description: "Deployment is on hold by request." },
  DEPLOY_FAILED: { kind: "failed", phase: "deploy", description: "Deployment failed or was aborted." },
  UNDEPLOYING: { kind: "running", phase: "undeploy", description: "The workload is being removed." },
  UNDEPLOY_WAIT: { kind: "wait", phase: "undeploy", description: "A tear-down step waits for a time or a callback." },
  UNDEPLOY_FAILED: {
    kind: "failed",
    phase: "undeploy",
    description: "Tear-down failed or was aborted; an operator has to act.",
  },
} as const satisfies Record<string, StateRow>;

export type NodeState = keyof typeof NODE_STATES;

/** Events of a node. */
export const NODE_EVENTS = {
  verify: "Verification of power and credentials started.",
  inspect: "Inspection started.",
  clean: "Cleaning started.",
  deploy: "Deployment started.",
  undeploy: "Tear-down started.",
  wait: "The step was parked until a time or a callback.",
  resume: "The parked step continued.",
  hold: "The run reached the reserved step `hold`.",
  unhold: "The hold was released.",
  done: "All steps of the phase succeeded.",
  fail: "A step failed.",
  abort: "An abort was carried out.",
  stop: "A graceful stop was carried out, with work remaining.",
  manage: "The node was returned to its operator.",
  retire: "The node left service.",
  recover: "Another worker continued the run in the middle of a step, because its process died, stalled, or shut down.",
  abort_pending: "An abort was requested; it is carried out when the running step has ended.",
  abort_withdrawn: "A pending abort was withdrawn.",
  power_forced: "A change of power was forced while a step waited; the step goes on waiting.",
} as const;

export type NodeEvent = keyof typeof NODE_EVENTS;

/** Cause of an edge: the request of a user, or only the engine. */
type EdgeCause = "verb" | "engine";

export interface Edge {
  readonly from: NodeState;
  readonly event: NodeEvent;
  readonly to: NodeState;
  readonly by: EdgeCause;
}

type Row = readonly [NodeState, NodeEvent, NodeState, EdgeCause];

const ROWS: readonly Row[] = [
  ["ENROLLED", "verify", "VERIFYING", "verb"],
  ["ENROLLED", "retire", "DECOMMISSIONED", "verb"],

  ["VERIFYING", "done", "MANAGEABLE", "engine"],
  ["VERIFYING", "fail", "ENROLLED", "engine"],
  ["VERIFYING", "abort", "ENROLLED", "verb"],
  ["VERIFYING", "stop", "STOPPED", "engine"],

  ["MANAGEABLE", "inspect", "INSPECTING", "verb"],
  ["MANAGEABLE", "clean", "CLEANING", "verb"],
  ["MANAGEABLE", "retire", "DECOMMISSIONED", "verb"],

  ["INSPECTING", "wait", "INSPECT_WAIT", "engine"],
  ["INSPECTING", "done", "MANAGEABLE", "engine"],
  ["INSPECTING", "fail", "INSPECT_FAILED", "engine"],
  ["INSPECTING", "abort", "INSPECT_FAILED", "verb"],
  ["INSPECTING", "stop", "STOPPED", "engine"],
  ["INSPECT_WAIT", "resume", "INSPECTING", "engine"],
  ["INSPECT_WAIT", "done", "MANAGEABLE", "engine"],
  ["INSPECT_WAIT", "fail", "INSPECT_FAILED", "engine"],
  ["INSPECT_WAIT", "abort", "INSPECT_FAILED", "verb"],
  ["INSPECT_WAIT", "stop", "STOPPED", "engine"],
  ["INSPECT_FAILED", "inspect", "INSPECTING", "verb"],
  ["INSPECT_FAILED", "manage", "MANAGEABLE", "verb"],

  ["CLEANING", "wait", "CLEAN_WAIT", "engine"],
  ["CLEANING", "hold", "CLEAN_HOLD", "engine"],
  ["CLEANING", "done", "AVAILABLE", "engine"],
  ["CLEANING", "manage", "MANAGEABLE", "engine"],
  ["CLEANING", "retire", "DECOMMISSIONED", "engine"],
  ["CLEANING", "fail", "CLEAN_FAILED", "engine"],
  ["CLEANING", "abort", "CLEAN_FAILED", "verb"],
  ["CLEANING", "stop", "STOPPED", "engine"],
  ["CLEAN_WAIT", "resume", "CLEANING", "engine"],
  ["CLEAN_WAIT", "hold", "CLEAN_HOLD", "engine"],
  ["CLEAN_WAIT", "done", "AVAILABLE", "engine"],
  ["CLEAN_WAIT", "manage", "MANAGEABLE", "engine"],
  ["CLEAN_WAIT", "retire", "DECOMMISSIONED", "engine"],
  ["CLEAN_WAIT", "fail", "CLEAN_FAILED", "engine"],
  ["CLEAN_WAIT", "abort", "CLEAN_FAILED", "verb"],
  ["CLEAN_WAIT", "stop", "STOPPED", "engine"],
  ["CLEAN_HOLD", "unhold", "CLEAN_WAIT", "verb"],
  ["CLEAN_HOLD", "fail", "CLEAN_FAILED", "engine"],
  ["CLEAN_HOLD", "abort", "CLEAN_FAILED", "verb"],
  ["CLEAN_HOLD", "stop", "STOPPED", "engine"],
  ["CLEAN_FAILED", "clean", "CLEANING", "verb"],
  ["CLEAN_FAILED", "manage", "MANAGEABLE", "verb"],
  ["CLEAN_FAILED", "retire", "DECOMMISSIONED", "engine"],

  ["AVAILABLE", "clean", "CLEANING", "verb"],
  ["AVAILABLE", "deploy", "DEPLOYING", "verb"],
  ["AVAILABLE", "manage", "MANAGEABLE", "verb"],
  ["AVAILABLE", "retire", "DECOMMISSIONED", "verb"],

  ["DEPLOYING", "wait", "DEPLOY_WAIT", "engine"],
  ["DEPLOYING", "hold", "DEPLOY_HOLD", "engine"],
  ["DEPLOYING", "done", "ACTIVE", "engine"],
  ["DEPLOYING", "fail", "DEPLOY_FAILED", "engine"],
  ["DEPLOYING", "abort", "DEPLOY_FAILED", "verb"],
  ["DEPLOYING", "stop", "STOPPED", "engine"],
  ["DEPLOY_WAIT", "resume", "DEPLOYING", "engine"],
  ["DEPLOY_WAIT", "hold", "DEPLOY_HOLD", "engine"],
  ["DEPLOY_WAIT", "done", "ACTIVE", "engine"],
  ["DEPLOY_WAIT", "fail", "DEPLOY_FAILED", "engine"],
  ["DEPLOY_WAIT", "abort", "DEPLOY_FAILED", "verb"],
  ["DEPLOY_WAIT", "stop", "STOPPED", "engine"],
  ["DEPLOY_HOLD", "unhold", "DEPLOY_WAIT", "verb"],
  ["DEPLOY_HOLD", "fail", "DEPLOY_FAILED", "engine"],
  ["DEPLOY_HOLD", "abort", "DEPLOY_FAILED", "verb"],
  ["DEPLOY_HOLD", "stop", "STOPPED", "engine"],
  ["DEPLOY_FAILED", "deploy", "DEPLOYING", "verb"],
  ["DEPLOY_FAILED", "undeploy", "UNDEPLOYING", "verb"],

  ["ACTIVE", "deploy", "DEPLOYING", "verb"],
  ["ACTIVE", "undeploy", "UNDEPLOYING", "verb"],

  ["UNDEPLOYING", "wait", "UNDEPLOY_WAIT", "engine"],
  ["UNDEPLOYING", "clean", "CLEANING", "engine"],
  ["UNDEPLOYING", "retire", "DECOMMISSIONED", "engine"],
  ["UNDEPLOYING", "fail", "UNDEPLOY_FAILED", "engine"],
  ["UNDEPLOYING", "abort", "UNDEPLOY_FAILED", "verb"],
  ["UNDEPLOYING", "stop", "STOPPED", "engine"],
  ["UNDEPLOY_WAIT", "resume", "UNDEPLOYING", "engine"],
  ["UNDEPLOY_WAIT", "clean", "CLEANING", "engine"],
  ["UNDEPLOY_WAIT", "retire", "DECOMMISSIONED", "engine"],
  ["UNDEPLOY_WAIT", "fail", "UNDEPLOY_FAILED", "engine"],
  ["UNDEPLOY_WAIT", "abort", "UNDEPLOY_FAILED", "verb"],
  ["UNDEPLOY_WAIT", "stop", "STOPPED", "engine"],
  ["UNDEPLOY_FAILED", "undeploy", "UNDEPLOYING", "verb"],
  ["UNDEPLOY_FAILED", "retire", "DECOMMISSIONED", "engine"],

  ["STOPPED", "verify", "VERIFYING", "verb"],
  ["STOPPED", "inspect", "INSPECTING", "verb"],
  ["STOPPED", "clean", "CLEANING", "verb"],
  ["STOPPED", "deploy", "DEPLOYING", "verb"],
  ["STOPPED", "undeploy", "UNDEPLOYING", "verb"],
  ["STOPPED", "manage", "MANAGEABLE", "verb"],

  ["DECOMMISSIONED", "clean", "CLEANING", "verb"],
  ["DECOMMISSIONED", "manage", "MANAGEABLE", "verb"],
];

export const NODE_STATE_NAMES = Object.keys(NODE_STATES) as readonly NodeState[];

/** Events that do not change the state. They are in the log because an operator may have to react. */
export const SELF_EVENTS: ReadonlySet<NodeEvent> = new Set([
  "recover",
  "abort_pending",
  "abort_withdrawn",
  "power_forced",
]);

/**
 * `recover` is possible in every state in which a worker may have claimed the run: all but the parked ones (wait,
 * hold). A pending abort, and a forced change of power, are possible in all states, because work in place does not
 * change the state.
 */
const SELF_EDGES: readonly Row[] = NODE_STATE_NAMES.flatMap((state): readonly Row[] => {
  const isParked = NODE_STATES[state].kind === "wait" || NODE_STATES[state].kind === "hold";
  return [
    ...(isParked ? [] : [[state, "recover", state, "engine"] as const]),
    [state, "abort_pending", state, "verb"],
    [state, "abort_withdrawn", state, "verb"],
    [state, "power_forced", state, "verb"],
  ];
});

/** Every legal edge. */
export const NODE_EDGES: readonly Edge[] = [...ROWS, ...SELF_EDGES].map(([from, event, to, by]) => ({
  from,
  event,
  to,
  by,
}));
