/**
 * Routes: for a verb and the state of a node, the phases to run and the events that lead from one to the next. A route
 * has no steps (drivers provide them) and ignores maintenance, protection and abilities (admission.ts decides on
 * those).
 */
import { edge, follow, isAtRest } from "./machine.ts";
import { NODE_STATES, NODE_STATE_NAMES } from "./node-states.ts";
import type { NodeEvent, NodeState, Phase } from "./node-states.ts";

/** The properties of a verb apart from its route. */
interface Verb {
  readonly description: string;
  /** Sentence that the description of its mutation has after the states from which it is allowed. */
  readonly note?: string;
  /** Its mutation. A verb whose input has no fields of its own has one made of this table. */
  readonly mutation: string;
  /** It ends what runs on the node: protected nodes, and nodes that may be the same machine as others, refuse it. */
  readonly isDestructive?: true;
  /** Retired nodes refuse it. */
  readonly putsInService?: true;
  /** Nodes in maintenance accept it: an operator needs it to repair a machine, or to give it up. */
  readonly worksInMaintenance?: true;
  /** A cluster on which only such work is unfinished is REMOVING. */
  readonly takesOutOfCluster?: true;
}

/** The verbs: kinds of operations that users request. */
export const OPERATION_KINDS = {
  MANAGE: {
    description: "Verify power and credentials; ends MANAGEABLE.",
    mutation: "manageNodes",
    worksInMaintenance: true,
  },
  INSPECT: {
    description: "Collect the inventory.",
    note: "Also allowed from AVAILABLE and ACTIVE, without a state change, if the driver inspects without a reboot.",
    mutation: "inspectNodes",
    worksInMaintenance: true,
  },
  CLEAN: {
    description: "Run clean steps.",
    mutation: "cleanNodes",
    isDestructive: true,
  },
  PROVIDE: {
    description: "Clean, without an inspection; ends AVAILABLE.",
    note: "The automatic clean steps run, unless automatic cleaning is disabled.",
    mutation: "provideNodes",
    isDestructive: true,
    putsInService: true,
  },
  COMMISSION: {
    description: "Run the missing phases of verify, inspect, clean and deploy.",
    mutation: "commissionNodes",
    isDestructive: true,
    putsInService: true,
  },
  DEPLOY: {
    description: "Install the system; ends ACTIVE.",
    mutation: "deployNodes",
    isDestructive: true,
    putsInService: true,
  },
  UNDEPLOY: {
    description: "Remove the workload, then clean; ends AVAILABLE.",
    mutation: "undeployNodes",
    isDestructive: true,
    worksInMaintenance: true,
    takesOutOfCluster: true,
  },
  REDEPLOY: {
    description: "Remove the workload, clean, and deploy again.",
    mutation: "redeployNodes",
    isDestructive: true,
    putsInService: true,
  },
  DECOMMISSION: {
    description: "Take out of service: tear-down and cleaning, best effort.",
    note: "Nodes end DECOMMISSIONED even if steps fail; failures are recorded in `Run.errors`.",
    mutation: "decommissionNodes",
    isDestructive: true,
    worksInMaintenance: true,
    takesOutOfCluster: true,
  },
  POWER: {
    description: "Change the power state.",
    mutation: "setPower",
    worksInMaintenance: true,
  },
  BOOT_DEVICE: {
    description: "Set the boot device.",
    mutation: "setBootDevice",
    worksInMaintenance: true,
  },
  APPLY: {
    description:
      "Bring the nodes of a cluster to what it wants now: deploy, continue, install again, or repeat the steps after PROVISIONED.",
    mutation: "applyCluster",
    isDestructive: true,
    putsInService: true,
  },
  DISCOVER: { description: "Find machines at addresses and register them.", mutation: "discoverNodes" },
} as const satisfies Record<string, Verb>;

export type OperationKind = keyof typeof OPERATION_KINDS;
/** A kind that is requested for nodes; APPLY is requested for a cluster, and a discovery for addresses. */
export type NodeVerb = Exclude<OperationKind, "APPLY" | "DISCOVER">;

export const NODE_VERBS = (Object.keys(OPERATION_KINDS) as OperationKind[]).filter(
  (kind) => kind !== "APPLY" && kind !== "DISCOVER",
);

export function verbOf(kind: OperationKind): Verb {
  return OPERATION_KINDS[kind];
}

/** The state in which a commission ends. */
export type Until = "AVAILABLE" | "ACTIVE";

/** Changes of power that users request, and what each does. */
export const POWER_CHANGES = {
  ON: "Power on.",
  OFF: "Power off immediately.",
  SOFT_OFF: "Ask the system to shut down. If it does not within the timeout, power off.",
  REBOOT: "Power off, then on.",
  SOFT_REBOOT: "Shut down or power off as SOFT_OFF does, then power on.",
} as const;
export type PowerChange = keyof typeof POWER_CHANGES;

/** Devices from which users have a machine start. */
export const BOOT_DEVICES = {
  DISK: "Its own disk.",
  NETWORK: "The network (PXE).",
  CDROM: "A CD-ROM, physical or virtual.",
  BIOS: "The setup of its firmware.",
  HTTP: "The network, by HTTP boot of UEFI.",
} as const;
export type BootDeviceName = keyof typeof BOOT_DEVICES;

/** Firmware modes in which a machine starts. */
export const BOOT_MODES = {
  UEFI: "UEFI firmware.",
  BIOS: "Firmware of the legacy BIOS.",
} as const;
export type BootModeName = keyof typeof BOOT_MODES;

/**
 * A phase of a route. `power` is not a lifecycle phase: its only step changes power or boot device, and no lifecycle
 * state.
 */
export type LegPhase = Phase | "power";

export interface Leg {
  readonly phase: LegPhase;
  /**
   * Events that lead into the phase from the end of the previous leg. Empty if the phase runs in place, without a state
   * change.
   */
  readonly enter: readonly NodeEvent[];
}

/** The route of one node through one operation. */
export interface Route {
  readonly legs: readonly Leg[];
  /** Events after the last leg. */
  readonly finish: readonly NodeEvent[];
  /** The final state. */
  readonly target: NodeState;
  /** Whether failures of steps are recorded and the work continues, so that the node always reaches the target. */
  readonly bestEffort: boolean;
}

/** Inputs of a route in addition to verb and state. */
export interface RouteOptions {
  readonly until?: Until;
  /** A driver of the node inspects without a reboot. */
  readonly inspectsWithoutReboot?: boolean;
  /** Cleaning runs an explicit list of steps instead of the automatic ones. */
  readonly manualCleaning?: boolean;
  /** Install again on an ACTIVE node. */
  readonly reinstall?: boolean;
  /** A commission keeps the installed system, and continues after it. */
  readonly keepsSystem?: boolean;
  /** The power is changed while a step of other work waits. */
  readonly besideWork?: boolean;
  /** The node is retired: after a tear-down it becomes MANAGEABLE instead of AVAILABLE. */
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

/** The route of `verb` from `state`; null if the verb is not allowed. */
export function route(verb: OperationKind, state: NodeState, options: RouteOptions = {}): Route | null {
  switch (verb) {
    case "MANAGE":
      return state === "ENROLLED" || (edge(state, "manage") && isAtRest(state))
        ? travel(state, ["verify"], ["done"])
        : null;
    case "INSPECT":
      if (state === "MANAGEABLE" || state === "INSPECT_FAILED") return travel(state, ["inspect"], ["done"]);
      return options.inspectsWithoutReboot && (state === "AVAILABLE" || state === "ACTIVE")
        ? inPlace(["inspect"], state)
        : null;
    case "CLEAN":
      return clean(state, options);
    case "PROVIDE":
      return state === "MANAGEABLE" || state === "CLEAN_FAILED" ? travel(state, ["clean"], ["done"]) : null;
    case "COMMISSION":
      return commission(state, options);
    case "DEPLOY":
      return state === "AVAILABLE" || state === "DEPLOY_FAILED" || (state === "ACTIVE" && options.reinstall)
        ? travel(state, ["deploy"], ["done"])
        : null;
    case "UNDEPLOY":
      return edge(state, "undeploy")
        ? travel(state, ["undeploy", "clean"], [options.retired ? "manage" : "done"])
        : null;
    case "REDEPLOY":
      return state === "ACTIVE" ? travel(state, ["undeploy", "clean", "deploy"], ["done"]) : null;
    case "DECOMMISSION": {
      const phases = DECOMMISSION[state];
      if (!phases) return null;
      return { ...travel(state, phases, state === "DECOMMISSIONED" ? [] : ["retire"]), bestEffort: true };
    }
    case "POWER":
    case "BOOT_DEVICE":
      return isAtRest(state) || options.besideWork ? inPlace(["power"], state) : null;
    case "APPLY":
      return apply(state, options);
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

function commission(state: NodeState, { until = "ACTIVE", keepsSystem }: RouteOptions): Route | null {
  const phases = COMMISSION[state];
  if (!phases) return null;
  if (keepsSystem) return until === "ACTIVE" && edge(state, "deploy") ? travel(state, ["deploy"], ["done"]) : null;
  if (until === "ACTIVE") return travel(state, phases, ["done"]);
  if (state === "AVAILABLE") return travel(state, [], []);
  if (state === "DEPLOY_FAILED") return travel(state, ["undeploy", "clean"], ["done"]);
  return travel(
    state,
    phases.filter((phase) => phase !== "deploy"),
    ["done"],
  );
}

/** Nodes that were taken out of service on purpose are not put back. */
function apply(state: NodeState, options: RouteOptions): Route | null {
  if (state === "ACTIVE") return travel(state, ["deploy"], ["done"]);
  return state === "DECOMMISSIONED" ? null : commission(state, { keepsSystem: options.keepsSystem === true });
}

/** The route of the clean-up after a failed operation; null if there is nothing to clean up. */
export function cleanUpRoute(state: NodeState): Route | null {
  if (edge(state, "undeploy")) return travel(state, ["undeploy", "clean"], ["done"]);
  return entryOf(state, "clean") && state !== "AVAILABLE" && state !== "DECOMMISSIONED"
    ? travel(state, ["clean"], ["done"])
    : null;
}

function inPlace(phases: readonly LegPhase[], state: NodeState): Route {
  return { legs: phases.map((phase) => ({ phase, enter: [] })), finish: [], target: state, bestEffort: false };
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

/**
 * Events that lead from a state at rest into `phase`: empty if the phase runs in place, undefined if it is not allowed.
 */
function entryOf(state: NodeState, phase: Phase): readonly NodeEvent[] | undefined {
  if (edge(state, phase)) return [phase];
  if (!edge(state, "manage")) return undefined;
  if (phase === "verify") return [];
  return edge("MANAGEABLE", phase) ? ["manage", phase] : undefined;
}

/**
 * The route of a restart: the phases of the earlier route, starting with the first one at or after `firstLeg` that the
 * node can enter from its present state. If it can enter none of them, the nearest earlier one: an abort at the end of
 * a phase leaves the node failed in this phase, and the route repeats it with its steps kept. A route without phases (a
 * node that is decommissioned without cleaning) stays the same. Null if the work cannot be restarted from the present
 * state.
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
    const phases = earlier.legs.slice(firstLeg).map(({ phase }) => phase);
    return isAtRest(state) ? { route: inPlace(phases, state), firstLeg } : null;
  }
  const phases = earlier.legs.map((leg) => leg.phase).filter((phase): phase is Phase => phase !== "power");
  const open = phases.map((phase) => entryOf(state, phase) !== undefined);
  const next = open.findIndex((canEnter, index) => canEnter && index >= firstLeg);
  const start = next >= 0 ? next : open.lastIndexOf(true);
  if (start < 0) return null;
  const finish = earlier.finish[0] === "manage" && phases[0] === "verify" ? (["done"] as const) : earlier.finish;
  return { route: { ...travel(state, phases.slice(start), finish), bestEffort: earlier.bestEffort }, firstLeg: start };
}

/** States in which a verb is allowed, for refusals and the documentation. */
export function allowedStates(verb: OperationKind, options: RouteOptions = {}): readonly NodeState[] {
  return NODE_STATE_NAMES.filter((state) => route(verb, state, options) !== null);
}

/**
 * Whether an abort or a failure in this state powers the node off by default: the phase changes disks, and the plan
 * does not work on a system in service. A leg that runs in place, such as a power change of a node in `CLEAN_FAILED`,
 * has another phase than the node's state.
 */
export function powersOffOnAbort({ state, phase, inService, keepsPower }: AbortedPlace): boolean {
  const own = NODE_STATES[state].phase;
  return !inService && !keepsPower && own === phase && (own === "clean" || own === "deploy");
}

/** Whether an abort powers the node off: as it chose, or by default. */
export function isPoweredOffByAbort(chosen: boolean | null, place: AbortedPlace): boolean {
  return chosen ?? powersOffOnAbort(place);
}

/** Where an abort meets a node. */
interface AbortedPlace {
  readonly state: NodeState;
  readonly phase: LegPhase | undefined;
  readonly inService?: true;
  /** No driver can change the power. */
  readonly keepsPower?: true;
}
