/**
 * Whether a verb may start on a node. Pure: the facts are read under the node's lock by whoever asks.
 * Every reason to refuse is found here and nowhere else, so `Node.availableVerbs` and the mutations agree.
 */
import type { Refusal } from "../errors.ts";
import { kindOf } from "./machine.ts";
import type { NodeState } from "./node-states.ts";
import { allowedStates, route } from "./verbs.ts";
import type { OperationKind, Route, RouteOptions } from "./verbs.ts";

/** What is known of a node when a verb is judged. */
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
  /** Whether the node's drivers, with those it borrows interfaces from, are loaded; a sentence otherwise. */
  readonly driverProblem: string | null;
  readonly can: { readonly inspect: boolean; readonly clean: boolean; readonly deploy: boolean };
  readonly inspectsWithoutReboot: boolean;
  readonly driver: string;
}

/** What is asked for, as far as admission goes by it. */
export interface AskedOptions extends Pick<RouteOptions, "until" | "manualCleaning"> {
  /** Of POWER; absent: as if the power were to be cut. */
  readonly powerAction?: "ON" | "OFF" | "SOFT_OFF" | "REBOOT";
}

export interface VerbRequest {
  readonly verb: OperationKind;
  readonly options: AskedOptions;
  /** Decommission even what monitoring says has disappeared. */
  readonly force: boolean;
  /** Of a restart: the way that takes the earlier work up from the node's state, in place of the verb's own; null where there is none. */
  readonly resumed?: Route | null;
}

export type Verdict =
  | { readonly admitted: true; readonly route: Route }
  | { readonly admitted: false; readonly refusal: Refusal };

/** Verbs that a protected node refuses in any case, because they end what runs on it. */
const DESTRUCTIVE: ReadonlySet<OperationKind> = new Set([
  "CLEAN",
  "DEPLOY",
  "UNDEPLOY",
  "UPDATE",
  "DECOMMISSION",
  "COMMISSION",
]);

/** Verbs that a retired node refuses, because they put it in service. */
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
      `Node ${node.name} is busy with ${kind} operation ${operationId}; wait for it, stop it or abort it.`,
      { operationId },
    );
  }
  if (node.inMaintenance) {
    return refuse("IN_MAINTENANCE", `Node ${node.name} is in maintenance; clear the mark with setMaintenance first.`);
  }
  if (node.isProtected && endsWhatRuns(request)) {
    return refuse("PROTECTED", `Node ${node.name} is protected; lift the protection with updateNode first.`);
  }
  if (node.isRetired && IN_SERVICE.has(request.verb)) {
    return refuse(
      "PROTECTED",
      `Node ${node.name} is retired; take the mark away with setRetired first, or decommission the node.`,
    );
  }
  if (node.hasDisappeared && request.verb === "DECOMMISSION" && !request.force) {
    return refuse(
      "INVALID_STATE",
      `Node ${node.name} has disappeared, so nothing on it can be cleaned; decommission it with force: true if it is gone for good.`,
    );
  }
  if (node.driverProblem) return refuse("UNSUPPORTED_BY_DRIVER", `Node ${node.name}: ${node.driverProblem}`);
  const options: RouteOptions = {
    ...request.options,
    inspectsWithoutReboot: node.inspectsWithoutReboot,
    retired: node.isRetired,
  };
  // A clean-up that failed may leave a node where the earlier route does not pass: a commission does what is missing from there.
  const anew = request.resumed === undefined || (request.resumed === null && request.verb === "COMMISSION");
  const way = anew ? route(request.verb, node.state, options) : (request.resumed ?? null);
  const found = way && node.isRetired ? outOfService(way, node.state) : way;
  if (!found && request.resumed === null) {
    return refuse(
      "NOTHING_TO_RESTART",
      `Node ${node.name} is ${node.state}, and from there nothing of the earlier work can be taken up; give it a verb of its own.`,
    );
  }
  if (!found) {
    const allowed = allowedStates(request.verb, options);
    const what = kindOf(node.state) === "stable" || kindOf(node.state) === "failed" ? "" : " and has no unfinished run";
    return refuse(
      "INVALID_STATE",
      `Node ${node.name} is ${node.state}${what}; ${request.verb} is allowed from ${allowed.join(", ")}.`,
      { allowedStates: allowed },
    );
  }
  const lacking = found.bestEffort ? undefined : missingAbility(node, found);
  if (lacking) {
    return refuse(
      "UNSUPPORTED_BY_DRIVER",
      `Node ${node.name}: driver ${node.driver} cannot ${lacking}; take that interface from another driver (interfaces: [{ kinds: [${lacking.toUpperCase()}], driver: … }]).`,
    );
  }
  return { admitted: true, route: found };
}

/** Whether a request would end what runs on a node. Switching on what is off ends nothing. */
function endsWhatRuns({ verb, options }: VerbRequest): boolean {
  return DESTRUCTIVE.has(verb) || (verb === "POWER" && options.powerAction !== "ON");
}

/** The way of a node that is retired: one that would make it available again ends with its operator, as MANAGEABLE. */
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
