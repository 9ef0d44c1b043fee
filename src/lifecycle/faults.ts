/**
 * Faults of nodes: what the service itself knows to be wrong. Pure: which fault follows, and which verbs it refuses.
 */
import type { ErrorCode } from "../errors.ts";
import type { LegPhase, OperationKind, PowerChange, Route } from "./verbs.ts";

export const NODE_FAULTS = {
  BMC_UNREACHABLE: "The power could not be read several times in a row. A successful reading ends it.",
  CLEAN_UP_FAILED:
    "A clean-up after a failure or an abort failed, so the machine is in an unknown condition. A successful verification, cleaning or clean-up ends it, whatever becomes of the rest of the run.",
  MACHINE_BUSY:
    "A step that must not be cut has failed or was given up, and the machine may still be writing its firmware or erasing its disks. It was left as it is. The machine's own report that it has ended, read with the power, ends the fault, and so does a cleaning, a deployment, a tear-down or a change of power that a person starts with `force: true`.",
} as const;

export type NodeFault = keyof typeof NODE_FAULTS;

/** Number of background readings of the power that fail in a row before a node has the fault BMC_UNREACHABLE. */
export const FAILED_READINGS_MAX = 3;

const REMEDY: Readonly<Record<NodeFault, string>> = {
  BMC_UNREACHABLE: "Repair its connection and read its power with readPower, or send the request with force: true",
  CLEAN_UP_FAILED: "Check the machine and clean it or verify it with manageNodes, or send the request with force: true",
  MACHINE_BUSY:
    "Wait until the machine has ended, and ask it with readPower; or look at it yourself, and send the request with force: true",
};

/** A request for which a fault is judged. */
interface FaultedRequest {
  readonly verb: OperationKind;
  readonly options: { readonly powerAction?: PowerChange };
  readonly resumed?: Route | null;
  /** For a restart: the code with which the earlier work ended; null if it did not fail. */
  readonly endedWith?: ErrorCode | null;
  /** Whether every fault is in the way. */
  readonly leavesFaulty?: boolean;
}

/**
 * The remedy of a fault, as the end of a refusal; null if the fault is not in the way of the request on this route.
 * After a failed clean-up a restart continues the same work, so only new work is refused.
 */
export function remedyFor(
  fault: NodeFault,
  request: FaultedRequest,
  { legs }: Pick<Route, "legs">,
  inspectsWithoutReboot: boolean,
): string | null {
  const has = (phase: LegPhase) => legs.some((leg) => leg.phase === phase);
  const isInTheWay = {
    BMC_UNREACHABLE: () => request.verb !== "MANAGE",
    CLEAN_UP_FAILED: () => request.resumed === undefined && has("deploy") && !has("clean"),
    MACHINE_BUSY: () =>
      // Its failure asks to find out on the machine how far the step came, and then to restart.
      request.endedWith !== "INTERRUPTED" &&
      (has("clean") ||
        has("deploy") ||
        has("undeploy") ||
        (has("inspect") && !inspectsWithoutReboot) ||
        (request.verb === "POWER" && request.options.powerAction !== "ON")),
  };
  return request.leavesFaulty || isInTheWay[fault]() ? REMEDY[fault] : null;
}

/** The faults, those first that give way to the others. */
const BY_WEIGHT: readonly NodeFault[] = ["BMC_UNREACHABLE", "CLEAN_UP_FAILED", "MACHINE_BUSY"];

/** Whether a new fault takes the place of the present one: only a heavier one does. */
export function replaces(fault: NodeFault, present: NodeFault | null): boolean {
  return present === null || BY_WEIGHT.indexOf(fault) > BY_WEIGHT.indexOf(present);
}
