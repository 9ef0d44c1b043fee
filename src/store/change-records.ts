/** Types of values that the log of changes stores. */
import type { NodeFault } from "../lifecycle/faults.ts";
import type { NodeState } from "../lifecycle/node-states.ts";
import type { OperationState } from "../lifecycle/operation-states.ts";

export type ChangeSubject = "NODE" | "CLUSTER" | "OPERATION" | "RUN";

/** The values that filters saw of a node before a change (`change_facts`). */
export interface NodeBefore {
  readonly name: string;
  readonly state: NodeState;
  readonly powerState: "ON" | "OFF" | "UNKNOWN";
  readonly wantedPower: "ON" | "OFF" | null;
  readonly presence: "DISCOVERED" | "DISAPPEARED" | "UNSEEN";
  readonly maintenance: boolean;
  readonly retired: boolean;
  readonly faultKind: NodeFault | null;
  readonly isProtected: boolean;
  readonly hostGroup: string | null;
  readonly clusterId: string | null;
  readonly clusterName: string | null;
  readonly driver: string;
  readonly model: string | null;
  readonly macs: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly errorCode: string | null;
}

/** Of a node; of a deleted cluster; or of an operation whose state changed. */
export type ChangeBefore = NodeBefore | { readonly name: string } | { readonly state: OperationState };
