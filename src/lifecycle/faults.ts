/**
 * Faults of nodes: what the service itself knows to be wrong. Pure: which fault follows, and which verbs it refuses.
 */
import type { LegPhase, OperationKind, Route } from "./verbs.ts";

export const NODE_FAULTS = {
  BMC_UNREACHABLE: "The power could not be read several times in a row. A successful reading ends it.",
  CLEAN_UP_FAILED:
    "A clean-up after a failure or an abort failed, so the machine is in an unknown condition. A successful verification, cleaning or clean-up ends it, whatever becomes of the rest of the run.",
} as const;

export type NodeFault = keyof typeof NODE_FAULTS;

/** Number of background readings of the power that fail in a row before a node has the fault BMC_UNREACHABLE. */
export const FAILED_READINGS_MAX = 3;

const REMEDY: Readonly<Record<NodeFault, string>> = {
  BMC_UNREACHABLE: "Repair its connection and read its power with readPower, or send the request with force: true",
  CLEAN_UP_FAILED: "Check the machine and clean it or verify it with manageNodes, or send the request with force: true",
};

/**
 * The remedy of a fault, as the end of a refusal; null if the fault is not in the way of the request on this route.
 * After a failed clean-up a restart continues the same work, so only new work is refused.
 */
export function remedyFor(
  fault: NodeFault,
  { verb, resumed }: { readonly verb: OperationKind; readonly resumed?: Route | null },
  { legs }: Pick<Route, "legs">,
): string | null {
  const has = (phase: LegPhase) => legs.some((leg) => leg.phase === phase);
  const isInTheWay =
    fault === "BMC_UNREACHABLE" ? verb !== "MANAGE" : resumed === undefined && has("deploy") && !has("clean");
  return isInTheWay ? REMEDY[fault] : null;
}

/** Whether a new fault takes the place of the present one: a failed clean-up is known until it is repaired. */
export function replaces(fault: NodeFault, present: NodeFault | null): boolean {
  return present === null || (fault === "CLEAN_UP_FAILED" && present === "BMC_UNREACHABLE");
}
