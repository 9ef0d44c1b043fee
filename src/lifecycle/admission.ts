/**
 * Decides whether a verb may start on a node. Pure: the caller reads the facts under the node's lock.
 * Every reason for a refusal is decided here, so `Node.verbs` and the mutations always agree.
 */
import type { Refusal } from "../errors.ts";
import { kindOf } from "./machine.ts";
import type { NodeState } from "./node-states.ts";
import { allowedStates, route } from "./verbs.ts";
import type { OperationKind, Route, RouteOptions } from "./verbs.ts";

/** The state of a node for which a verb is judged. */
export interface NodeFacts {
  readonly id: string;
  readonly name: string;
  readonly state: NodeState;
  readonly inMaintenance: boolean;
  readonly isProtected: boolean;
  readonly isRetired: boolean;
  readonly hasDisappeared: boolean;
  /** The unfinished run's operation. */
  readonly busyWith: { readonly operationId: string; readonly kind: OperationKind } | null;
  /** Why a driver of the node cannot be used, as a sentence; null if all of them are loaded. */
  readonly driverProblem: string | null;
  readonly can: { readonly inspect: boolean; readonly clean: boolean; readonly deploy: boolean };
  readonly inspectsWithoutReboot: boolean;
  readonly driver: string;
}

/** The options of a verb that affect admission. */
export interface AskedOptions extends Pick<RouteOptions, "until" | "manualCleaning"> {
  /** For POWER; absent counts as OFF. */
  readonly powerAction?: "ON" | "OFF" | "SOFT_OFF" | "REBOOT";
}

export interface VerbRequest {
  readonly verb: OperationKind;
  readonly options: AskedOptions;
  /** Decommission the node even if it has disappeared. */
  readonly force: boolean;
  /** For a restart: the route that continues the earlier work, in place of the verb's own; null if there is none. */
  readonly resumed?: Route | null;
}

export type Verdict =
  | { readonly admitted: true; readonly route: Route }
  | { readonly admitted: false; readonly refusal: Refusal };

/** Verbs that a protected node always refuses, because they end its workload. */
const DESTRUCTIVE: ReadonlySet<OperationKind> = new Set([
  "CLEAN",
  "DEPLOY",
  "UNDEPLOY",
  "UPDATE",
  "DECOMMISSION",
  "COMMISSION",
]);

/** Verbs that a retired node refuses, because they put it into service. */
const IN_SERVICE: ReadonlySet<OperationKind> = new Set(["COMMISSION", "DEPLOY", "UPDATE"]);

export function judge(node: NodeFacts, request: VerbRequest): Verdict {
  const refuse = (code: Refusal["code"], message: string, more: Partial<Refusal> = {}): Verdict => ({
    admitted: false,
    refusal: { code, message, nodeId: node.id, ...more },
  });
  if (node.busyWith) {
    const { kind, operationId } = node.busyWith;
    return refuse(
      "BUSY",
      `Node ${node.name} is busy with ${kind} operation ${operationId}. Wait for it, stop it, or abort it.`,
      { operationId },
    );
  }
  if (node.inMaintenance) {
    return refuse(
      "IN_MAINTENANCE",
      `Node ${node.name} is in maintenance. End the maintenance with setMaintenance first.`,
    );
  }
  if (node.isProtected && endsWhatRuns(request)) {
    return refuse("PROTECTED", `Node ${node.name} is protected. Remove the protection with updateNode first.`);
  }
  if (node.isRetired && IN_SERVICE.has(request.verb)) {
    return refuse(
      "PROTECTED",
      `Node ${node.name} is retired. End the retirement with setRetired first, or decommission the node.`,
    );
  }
  if (node.hasDisappeared && request.verb === "DECOMMISSION" && !request.force) {
    return refuse(
      "INVALID_STATE",
      `Node ${node.name} has disappeared, so it cannot be cleaned. Decommission it with force: true if it will not come back.`,
    );
  }
  if (node.driverProblem) return refuse("UNSUPPORTED_BY_DRIVER", `Node ${node.name}: ${node.driverProblem}`);
  const options: RouteOptions = {
    ...request.options,
    inspectsWithoutReboot: node.inspectsWithoutReboot,
    retired: node.isRetired,
  };
  // A failed clean-up may leave a node in a state that the earlier route does not include. A commission then runs the
  // phases that are missing from there.
  const isNewRoute = request.resumed === undefined || (request.resumed === null && request.verb === "COMMISSION");
  const way = isNewRoute ? route(request.verb, node.state, options) : (request.resumed ?? null);
  const found = way && node.isRetired ? outOfService(way, node.state) : way;
  if (!found && request.resumed === null) {
    return refuse(
      "NOTHING_TO_RESTART",
      `Node ${node.name} is ${node.state}, and the earlier work cannot be restarted from this state. Start a new verb instead.`,
    );
  }
  if (!found) {
    const allowed = allowedStates(request.verb, options);
    const what = kindOf(node.state) === "stable" || kindOf(node.state) === "failed" ? "" : " and has no unfinished run";
    return refuse(
      "INVALID_STATE",
      `Node ${node.name} is ${node.state}${what}. ${request.verb} is allowed from ${allowed.join(", ")}.`,
      { allowedStates: allowed },
    );
  }
  const lacking = found.bestEffort ? undefined : missingAbility(node, found);
  if (lacking) {
    return refuse(
      "UNSUPPORTED_BY_DRIVER",
      `Node ${node.name}: driver ${node.driver} cannot ${lacking}. Take this interface from another driver (interfaces: [{ kinds: [${lacking.toUpperCase()}], driver: … }]).`,
    );
  }
  return { admitted: true, route: found };
}

/** Whether a request would end the workload of a node. Powering on ends nothing. */
function endsWhatRuns({ verb, options }: VerbRequest): boolean {
  return DESTRUCTIVE.has(verb) || (verb === "POWER" && options.powerAction !== "ON");
}

/** The route of a retired node: it ends MANAGEABLE instead of AVAILABLE. */
export function outOfService(way: Route, from: NodeState): Route {
  if (way.target !== "AVAILABLE" || from === "AVAILABLE" || way.finish.at(-1) !== "done") return way;
  return { ...way, finish: [...way.finish.slice(0, -1), "manage"], target: "MANAGEABLE" };
}

function missingAbility(node: NodeFacts, { legs }: Route): "inspect" | "clean" | "deploy" | undefined {
  for (const { phase } of legs) {
    if (phase === "inspect" && !node.can.inspect) return "inspect";
    if (phase === "clean" && !node.can.clean) return "clean";
    if ((phase === "deploy" || phase === "undeploy") && !node.can.deploy) return "deploy";
  }
  return undefined;
}
