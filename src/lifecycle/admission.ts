/**
 * Decides whether a verb may start on a node. Pure: the caller reads the facts under the node's lock.
 * Every reason for a refusal is decided here, so `Node.verbs` and the mutations always agree.
 */
import type { ErrorCode, Refusal } from "../errors.ts";
import { remedyFor } from "./faults.ts";
import type { NodeFault } from "./faults.ts";
import { conflictMessage } from "./identity.ts";
import type { IdentityConflict } from "./identity.ts";
import type { Stage } from "./cluster-state.ts";
import { kindOf } from "./machine.ts";
import type { NodeState } from "./node-states.ts";
import { NODE_VERBS, allowedStates, route, verbOf } from "./verbs.ts";
import type { LegPhase, OperationKind, PowerChange, Route, RouteOptions } from "./verbs.ts";

/** The state of a node for which a verb is judged. */
export interface NodeFacts {
  readonly id: string;
  readonly name: string;
  readonly state: NodeState;
  readonly stage: Stage;
  readonly inMaintenance: boolean;
  readonly isProtected: boolean;
  readonly isRetired: boolean;
  readonly hasDisappeared: boolean;
  /** Fault that the service has found; null if there is none. */
  readonly fault: { readonly kind: NodeFault; readonly since: Date; readonly message: string } | null;
  /** Another node that seems to be the same machine. */
  readonly identityConflict?: Pick<IdentityConflict, "kind" | "value" | "nodeName"> | null;
  /** The unfinished run's operation. */
  readonly busyWith: {
    readonly operationId: string;
    readonly kind: OperationKind;
    /** An abort, or a failure, is ending it. */
    readonly isEnding?: boolean;
    /** Its step waits for a time or a callback, and nothing ends the run. */
    readonly isWaiting?: boolean;
  } | null;
  /** For CLEAN_FAILED: the state in which the failed work was to end; null or absent if unknown. */
  readonly failedTarget?: NodeState | null;
  /** Why a driver of the node cannot be used, as a sentence; null if all of them are loaded. */
  readonly driverProblem: string | null;
  readonly can: {
    readonly inspect: boolean;
    /** On request, with chosen steps. */
    readonly clean: boolean;
    /** With steps that the driver declares as automatic. */
    readonly cleanAutomatically: boolean;
    readonly deploy: boolean;
    readonly setPower: boolean;
    readonly setBootDevice: boolean;
  };
  readonly inspectsWithoutReboot: boolean;
  /** Some driver inspects without a reboot, and alone a node in service; absent: as `inspectsWithoutReboot`. */
  readonly inspectsInPlace?: boolean;
  readonly driver: string;
}

/** The options of a verb that affect admission. */
interface AskedOptions extends Pick<RouteOptions, "until" | "manualCleaning" | "reinstall"> {
  /** For COMMISSION; absent counts as STAGE. */
  readonly from?: CommissionFrom;
  /** For POWER; absent counts as OFF. */
  readonly powerAction?: PowerChange;
}

export interface VerbRequest {
  readonly verb: OperationKind;
  readonly options: AskedOptions;
  /** Work on the node even if it has disappeared or has a fault. */
  readonly force: boolean;
  /** For a restart: the route that continues the earlier work, in place of the verb's own; null if there is none. */
  readonly resumed?: Route | null;
  /** For a restart: the code with which the earlier work ended; null if it did not fail. */
  readonly endedWith?: ErrorCode | null;
  /** For a cluster: a node with a fault is left alone, whatever the fault. */
  readonly leavesFaulty?: boolean;
}

/** The earlier work on a node that a commission keeps. */
export const COMMISSION_FROM = {
  STAGE: "Keep the installed operating system of a node at stage PROVISIONED, and continue after it.",
  BEGINNING: "Keep nothing: all missing phases run, cleaning included.",
} as const;
export type CommissionFrom = keyof typeof COMMISSION_FROM;

/** Whether a new commission keeps the system that is installed on the node. */
export function keepsSystem({ stage }: Pick<NodeFacts, "stage">, { from }: Pick<AskedOptions, "from">): boolean {
  return stage === "PROVISIONED" && from !== "BEGINNING";
}

export type Verdict =
  | { readonly admitted: true; readonly route: Route }
  | { readonly admitted: false; readonly refusal: Refusal };

const IN_MAINTENANCE = NODE_VERBS.filter((verb) => verbOf(verb).worksInMaintenance);

/** Phases that leave the disks of a machine alone. */
const HARMLESS_PHASES: ReadonlySet<LegPhase> = new Set(["verify", "inspect", "power"]);

/** Whether a phase changes disks or puts the node in service. */
export function isDestructive(phase: LegPhase): boolean {
  return !HARMLESS_PHASES.has(phase);
}

/**
 * Whether a run pauses while its node is in maintenance: some phase of it changes disks or puts the node in service,
 * and it was not requested for a node in maintenance, which then leaves.
 */
export function pausesInMaintenance({
  legs,
  inMaintenance,
}: Pick<Route, "legs"> & { readonly inMaintenance?: true }): boolean {
  return inMaintenance !== true && legs.some(({ phase }) => isDestructive(phase));
}

/** Why a node is busy whose run is being ended. */
export function endingMessage(
  name: string,
  { kind, operationId }: { readonly kind: OperationKind; readonly operationId: string },
): string {
  return `Node ${name} is still busy with ${kind} operation ${operationId}, whose work on it is being ended after an abort or a failure. Wait for its end, or abort it with mode: FORCE.`;
}

function busyMessage(
  name: string,
  busyWith: NonNullable<NodeFacts["busyWith"]>,
  { verb, force }: Pick<VerbRequest, "verb" | "force">,
): string {
  const { kind, operationId, isEnding, isWaiting } = busyWith;
  if (isEnding) return endingMessage(name, busyWith);
  const beside =
    verb === "POWER" && (force || isWaiting)
      ? ` ${force ? "Its step is running: force: true changes the power only while a step waits. Send the request again then" : "Its step waits: with force: true the power is changed all the same, and the step goes on waiting"}.`
      : "";
  return `Node ${name} is busy with ${kind} operation ${operationId}. Wait for it, stop it, or abort it.${beside}`;
}

export function judge(node: NodeFacts, request: VerbRequest): Verdict {
  const refuse = (code: Refusal["code"], message: string, more: Partial<Refusal> = {}): Verdict => ({
    admitted: false,
    refusal: { code, message, nodeId: node.id, ...more },
  });
  const isForcedPower = request.verb === "POWER" && request.force;
  if (node.busyWith && !(isForcedPower && node.busyWith.isWaiting))
    return refuse("BUSY", busyMessage(node.name, node.busyWith, request), { operationId: node.busyWith.operationId });
  const { isDestructive: destroys = false, putsInService = false, worksInMaintenance = false } = verbOf(request.verb);
  if (node.inMaintenance && !worksInMaintenance) {
    return refuse(
      "IN_MAINTENANCE",
      `Node ${node.name} is in maintenance, which allows only ${IN_MAINTENANCE.join(", ")}. End the maintenance with clearMaintenance first.`,
    );
  }
  if (node.isProtected && endsWhatRuns(request)) {
    return refuse("PROTECTED", `Node ${node.name} is protected. Remove the protection with updateNodes first.`);
  }
  // An inspection that restarts the machine would restart that of the other node.
  const restarts = request.verb === "INSPECT" && inspectionRestarts(node) && !request.force;
  if (node.identityConflict && (destroys || restarts))
    return refuse("IDENTITY_CONFLICT", conflictMessage(node.name, node.identityConflict));
  if (node.isRetired && putsInService) {
    return refuse(
      "PROTECTED",
      `Node ${node.name} is retired. End the retirement with clearRetired first, or decommission the node.`,
    );
  }
  if (node.driverProblem) return refuse("UNSUPPORTED_BY_DRIVER", `Node ${node.name}: ${node.driverProblem}`);
  const options: RouteOptions = {
    ...request.options,
    // A cleaning that is repeated ends where the failed one was to end.
    manualCleaning: request.options.manualCleaning === true || node.failedTarget === "MANAGEABLE",
    inspectsWithoutReboot: node.inspectsInPlace ?? node.inspectsWithoutReboot,
    keepsSystem: keepsSystem(node, request.options),
    retired: node.isRetired,
    besideWork: node.busyWith !== null,
  };
  // A failed clean-up may leave a node in a state that the earlier route does not include. A commission, or a cluster,
  // then runs the phases that are missing from there.
  const completes = request.verb === "COMMISSION" || request.verb === "APPLY";
  const isNewRoute = request.resumed === undefined || (request.resumed === null && completes);
  const way = isNewRoute ? route(request.verb, node.state, options) : (request.resumed ?? null);
  const found = way && node.isRetired ? outOfService(way, node.state) : way;
  if (!found && request.resumed === null) {
    return refuse(
      "NOTHING_TO_RESTART",
      `Node ${node.name} is ${node.state}, and the earlier work cannot be restarted from this state. Start a new verb instead.`,
    );
  }
  if (!found) {
    const allowed = allowedStates(request.verb, { ...options, keepsSystem: false });
    return refuse("INVALID_STATE", wrongState(node, request, allowed), { allowedStates: allowed });
  }
  // After the state: a node that never could must not be waited for, or forced.
  if (node.hasDisappeared && !request.force) {
    const remedy =
      request.verb === "DECOMMISSION"
        ? "Decommission it with force: true if it will not come back"
        : "Wait until monitoring sees it again, or send the request with force: true";
    return refuse("INVALID_STATE", `Monitoring has reported node ${node.name} as disappeared. ${remedy}.`);
  }
  const remedy =
    node.fault && !request.force ? remedyFor(node.fault.kind, request, found, !inspectionRestarts(node)) : null;
  if (node.fault && remedy !== null) {
    const { kind, since, message } = node.fault;
    return refuse(
      "INVALID_STATE",
      `Node ${node.name} has had the fault ${kind} since ${since.toISOString()}: ${message} ${remedy}.`,
    );
  }
  const lacking = found.bestEffort ? undefined : missingAbility(node, request.verb, found);
  if (lacking) {
    return refuse(
      "UNSUPPORTED_BY_DRIVER",
      `Node ${node.name}: driver ${node.driver} cannot ${lacking.what}. Take this interface from another driver (interfaces: [{ kinds: [${lacking.kind}], driver: … }]).`,
    );
  }
  return { admitted: true, route: found };
}

/** Whether an inspection restarts the machine. A node in service is inspected only by drivers that do not. */
function inspectionRestarts({ state, inspectsWithoutReboot, inspectsInPlace }: NodeFacts): boolean {
  return !inspectsWithoutReboot && !(inspectsInPlace && (state === "AVAILABLE" || state === "ACTIVE"));
}

/** The sentence of a refusal because of the node's state. */
function wrongState({ name, state, stage }: NodeFacts, { verb }: VerbRequest, allowed: readonly NodeState[]): string {
  if (verb === "COMMISSION" && allowed.includes(state))
    return `Node ${name} is ${state} with an installed system (stage ${stage}), which this commission would erase. Send from: BEGINNING to erase it.`;
  const what = kindOf(state) === "stable" || kindOf(state) === "failed" ? "" : " and has no unfinished run";
  const hint =
    verb === "DEPLOY" && state === "ACTIVE"
      ? " Send reinstall: true to erase its system and install again, or use redeployNodes."
      : "";
  return `Node ${name} is ${state}${what}. ${verb} is allowed from ${allowed.join(", ")}.${hint}`;
}

/** Whether a request would end the workload of a node. Powering on ends nothing. */
function endsWhatRuns({ verb, options }: VerbRequest): boolean {
  return verbOf(verb).isDestructive || (verb === "POWER" && options.powerAction !== "ON");
}

/** The route of a retired node: it ends MANAGEABLE instead of AVAILABLE. */
export function outOfService(way: Route, from: NodeState): Route {
  if (way.target !== "AVAILABLE" || from === "AVAILABLE" || way.finish.at(-1) !== "done") return way;
  return { ...way, finish: [...way.finish.slice(0, -1), "manage"], target: "MANAGEABLE" };
}

/** An ability that the drivers of a node lack, and the kind of interface that would have it. */
interface MissingAbility {
  readonly what: string;
  readonly kind: "INSPECT" | "CLEAN" | "DEPLOY" | "POWER";
}

function missingAbility({ can }: NodeFacts, verb: OperationKind, { legs }: Route): MissingAbility | undefined {
  if (verb === "BOOT_DEVICE" && !can.setBootDevice) return { what: "set the boot device", kind: "POWER" };
  if (verb === "POWER" && !can.setPower) return { what: "change the power", kind: "POWER" };
  for (const { phase } of legs) {
    if (phase === "inspect" && !can.inspect) return { what: "inspect", kind: "INSPECT" };
    if (phase === "clean" && !can.clean) return { what: "clean", kind: "CLEAN" };
    if (phase === "clean" && verb !== "CLEAN" && !can.cleanAutomatically)
      return { what: "clean automatically: it has no automatic clean step", kind: "CLEAN" };
    if ((phase === "deploy" || phase === "undeploy") && !can.deploy) return { what: "deploy", kind: "DEPLOY" };
  }
  return undefined;
}
