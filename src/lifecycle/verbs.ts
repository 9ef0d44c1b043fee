/**
 * What a verb means: for each state a node may be in, the phases that are missing and how the node gets from one to
 * the next. A `Route` is that answer for one node. It holds no steps (those come from drivers) and decides nothing about
 * maintenance, owners or abilities (that is admission.ts).
 */
import { edge, follow, isAtRest } from "./machine.ts";
import { NODE_STATES, NODE_STATE_NAMES } from "./node-states.ts";
import type { NodeEvent, NodeState, Phase } from "./node-states.ts";

/** Kinds of operation: what a user asks for. */
export const OPERATION_KINDS = {
  MANAGE: "Verify power and credentials; ends MANAGEABLE.",
  INSPECT: "Collect the inventory.",
  CLEAN: "Run clean steps.",
  COMMISSION: "Run the missing phases of verify, inspect, clean and deploy.",
  DEPLOY: "Install the system; ends ACTIVE.",
  UNDEPLOY: "Remove the workload, then clean; ends AVAILABLE.",
  UPDATE: "Remove the workload, clean, and deploy again.",
  DECOMMISSION: "Take out of service: tear-down and cleaning, best effort.",
  POWER: "Change the power state.",
  DISCOVER: "Find machines at addresses and register them.",
} as const;

export type OperationKind = keyof typeof OPERATION_KINDS;

/** Kinds that are asked for nodes; a discovery is asked for addresses. */
export const NODE_VERBS = (Object.keys(OPERATION_KINDS) as OperationKind[]).filter((kind) => kind !== "DISCOVER");

/** How far a commission goes. */
export type Until = "AVAILABLE" | "ACTIVE";

/** A phase of a route. `power` is no lifecycle phase: its one step changes power and no state. */
export type LegPhase = Phase | "power";

export interface Leg {
  readonly phase: LegPhase;
  /** Events that lead into the phase from where the leg before ended. Empty: the phase runs in place, the state stays. */
  readonly enter: readonly NodeEvent[];
}

/** The way of one node through one operation. */
export interface Route {
  readonly legs: readonly Leg[];
  /** Events after the last leg. */
  readonly finish: readonly NodeEvent[];
  /** Where it ends. */
  readonly target: NodeState;
  /** A failing step is recorded and the work goes on: nothing keeps the node from the end of the route. */
  readonly bestEffort: boolean;
}

/** What a route may depend on besides verb and state. */
export interface RouteOptions {
  readonly until?: Until;
  /** The node's driver inspects without a reboot. */
  readonly inspectsWithoutReboot?: boolean;
  /** Cleaning runs an explicit list of steps, not the automatic one. */
  readonly manualCleaning?: boolean;
  /** The node is on its way out: after a tear-down it goes back to its operator in place of becoming available. */
  readonly retired?: boolean;
}

const COMMISSION: Partial<Record<NodeState, readonly Phase[]>> = {
  ENROLLED: ["verify", "inspect", "clean", "deploy"],
  STOPPED: ["verify", "inspect", "clean", "deploy"],
  DECOMMISSIONED: ["verify", "inspect", "clean", "deploy"],
  MANAGEABLE: ["inspect", "clean", "deploy"],
  INSPECT_FAILED: ["inspect", "clean", "deploy"],
  CLEAN_FAILED: ["clean", "deploy"],
  AVAILABLE: ["deploy"],
  DEPLOY_FAILED: ["deploy"],
  UNDEPLOY_FAILED: ["undeploy", "clean", "deploy"],
};

const DECOMMISSION: Partial<Record<NodeState, readonly Phase[]>> = {
  ENROLLED: [],
  MANAGEABLE: ["clean"],
  INSPECT_FAILED: ["clean"],
  CLEAN_FAILED: ["clean"],
  AVAILABLE: [],
  ACTIVE: ["undeploy", "clean"],
  STOPPED: ["undeploy", "clean"],
  DEPLOY_FAILED: ["undeploy", "clean"],
  UNDEPLOY_FAILED: ["undeploy", "clean"],
  DECOMMISSIONED: [],
};

/** The route of `verb` from `state`, or null where the verb is not allowed. */
export function route(verb: OperationKind, state: NodeState, options: RouteOptions = {}): Route | null {
  switch (verb) {
    case "MANAGE":
      return state === "ENROLLED" || (edge(state, "manage") && isAtRest(state))
        ? travel(state, ["verify"], ["done"])
        : null;
    case "INSPECT":
      if (state === "MANAGEABLE" || state === "INSPECT_FAILED") return travel(state, ["inspect"], ["done"]);
      return options.inspectsWithoutReboot && (state === "AVAILABLE" || state === "ACTIVE")
        ? inPlace("inspect", state)
        : null;
    case "CLEAN":
      return clean(state, options);
    case "COMMISSION":
      return commission(state, options.until ?? "ACTIVE");
    case "DEPLOY":
      return state === "AVAILABLE" || state === "ACTIVE" || state === "DEPLOY_FAILED"
        ? travel(state, ["deploy"], ["done"])
        : null;
    case "UNDEPLOY":
      return edge(state, "undeploy")
        ? travel(state, ["undeploy", "clean"], [options.retired ? "manage" : "done"])
        : null;
    case "UPDATE":
      return state === "ACTIVE" ? travel(state, ["undeploy", "clean", "deploy"], ["done"]) : null;
    case "DECOMMISSION": {
      const phases = DECOMMISSION[state];
      if (!phases) return null;
      return { ...travel(state, phases, state === "DECOMMISSIONED" ? [] : ["retire"]), bestEffort: true };
    }
    case "POWER":
      return isAtRest(state) ? inPlace("power", state) : null;
    case "DISCOVER":
      return null;
  }
}

function clean(state: NodeState, options: RouteOptions): Route | null {
  switch (state) {
    case "AVAILABLE":
      return travel(state, ["clean"], ["done"]);
    case "MANAGEABLE":
      return travel(state, ["clean"], ["manage"]);
    case "CLEAN_FAILED":
      return travel(state, ["clean"], [options.manualCleaning ? "manage" : "done"]);
    case "DECOMMISSIONED":
      return travel(state, ["clean"], ["retire"]);
    default:
      return null;
  }
}

function commission(state: NodeState, until: Until): Route | null {
  const phases = COMMISSION[state];
  if (!phases) return null;
  if (until === "ACTIVE") return travel(state, phases, ["done"]);
  if (state === "AVAILABLE") return travel(state, [], []);
  if (state === "DEPLOY_FAILED") return travel(state, ["undeploy", "clean"], ["done"]);
  return travel(
    state,
    phases.filter((phase) => phase !== "deploy"),
    ["done"],
  );
}

/** The route that brings a node back to AVAILABLE after its operation failed; null where nothing can be cleaned up. */
export function cleanUpRoute(state: NodeState): Route | null {
  if (edge(state, "undeploy")) return travel(state, ["undeploy", "clean"], ["done"]);
  return entryOf(state, "clean") && state !== "AVAILABLE" && state !== "DECOMMISSIONED"
    ? travel(state, ["clean"], ["done"])
    : null;
}

function inPlace(phase: LegPhase, state: NodeState): Route {
  return { legs: [{ phase, enter: [] }], finish: [], target: state, bestEffort: false };
}

/**
 * The route from `state` through `phases`. Verification of a node that has been verified before runs in place and ends
 * with `manage`; `finish` is what follows the last phase.
 */
function travel(state: NodeState, phases: readonly Phase[], finish: readonly NodeEvent[]): Route {
  const legs: Leg[] = [];
  let at = state;
  let leave: readonly NodeEvent[] = [];
  for (const phase of phases) {
    const enter = legs.length === 0 ? (entryOf(at, phase) ?? []) : edge(at, phase) ? [phase] : [...leave, phase];
    legs.push({ phase, enter });
    at = follow(at, enter);
    leave = enter.length === 0 ? ["manage"] : ["done"];
  }
  const end = leave[0] === "manage" ? leave : finish;
  return { legs, finish: end, target: follow(at, end), bestEffort: false };
}

/** Events that lead from a state at rest into `phase`: `[]` where it runs in place, undefined where there is no way. */
function entryOf(state: NodeState, phase: Phase): readonly NodeEvent[] | undefined {
  if (edge(state, phase)) return [phase];
  if (!edge(state, "manage")) return undefined;
  if (phase === "verify") return [];
  return edge("MANAGEABLE", phase) ? ["manage", phase] : undefined;
}

/**
 * The route of a restart: the earlier route's phases from the first one, at or after `firstLeg`, that the node can
 * enter as it stands now. Where it can enter none of those, the nearest one before: an abort that took effect at the end
 * of a phase leaves the node failed in it, and the way on leads through it, with its steps kept. A route without phases
 * (a node that is retired as it stands) is the same again. Null where there is none at all: the work cannot be taken up
 * again from here.
 */
export function resumeRoute(
  earlier: { readonly legs: readonly Leg[]; readonly finish: readonly NodeEvent[]; readonly bestEffort: boolean },
  state: NodeState,
  firstLeg: number,
): { readonly route: Route; readonly firstLeg: number } | null {
  if (earlier.legs.length === 0) {
    const open = isAtRest(state) && earlier.finish.every((event) => edge(state, event));
    return open
      ? { route: { ...travel(state, [], earlier.finish), bestEffort: earlier.bestEffort }, firstLeg: 0 }
      : null;
  }
  if (earlier.legs.every((leg) => leg.enter.length === 0) && earlier.finish.length === 0) {
    const phase = earlier.legs[0]?.phase;
    return phase && isAtRest(state) ? { route: inPlace(phase, state), firstLeg: 0 } : null;
  }
  const phases = earlier.legs.map((leg) => leg.phase).filter((phase): phase is Phase => phase !== "power");
  const open = phases.map((phase) => entryOf(state, phase) !== undefined);
  const next = open.findIndex((canEnter, index) => canEnter && index >= firstLeg);
  const start = next >= 0 ? next : open.lastIndexOf(true);
  if (start < 0) return null;
  const finish = earlier.finish[0] === "manage" && phases[0] === "verify" ? (["done"] as const) : earlier.finish;
  return { route: { ...travel(state, phases.slice(start), finish), bestEffort: earlier.bestEffort }, firstLeg: start };
}

/** States in which a verb is allowed, for the message of a refusal and for the documentation. */
export function allowedStates(verb: OperationKind, options: RouteOptions = {}): readonly NodeState[] {
  return NODE_STATE_NAMES.filter((state) => route(verb, state, options) !== null);
}

/** Whether the state belongs to a phase that works on the disks, so that an abort had better end with the power off. */
export function powersOffOnAbort(state: NodeState): boolean {
  const { phase } = NODE_STATES[state];
  return phase === "clean" || phase === "deploy";
}
