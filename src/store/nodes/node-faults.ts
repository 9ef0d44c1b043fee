/** The columns of a node that begin and end its fault. */
import { replaces } from "../../lifecycle/faults.ts";
import type { NodeFault } from "../../lifecycle/faults.ts";
import type { NodeRow } from "./nodes.ts";

type FaultColumns = Pick<NodeRow, "faultKind" | "faultSince" | "faultMessage">;

/** Begins a fault, unless the present one stays. */
export function faultChange(node: NodeRow, kind: NodeFault, message: string): Partial<FaultColumns> {
  return replaces(kind, node.faultKind) ? { faultKind: kind, faultSince: new Date(), faultMessage: message } : {};
}

/** Ends a fault of this kind. */
export function faultEnd(node: NodeRow, kind: NodeFault): Partial<FaultColumns> {
  return node.faultKind === kind ? { faultKind: null, faultSince: null, faultMessage: null } : {};
}

/** The BMC answered. */
export function reached(node: NodeRow): Partial<FaultColumns & Pick<NodeRow, "failedReadings">> {
  return { ...(node.failedReadings > 0 && { failedReadings: 0 }), ...faultEnd(node, "BMC_UNREACHABLE") };
}
