/** Types of values that the log of changes stores. */
import type { NodeState } from "../../lifecycle/node-states.ts";
import type { OperationState } from "../../lifecycle/operation-states.ts";

export type ChangeSubject = "NODE" | "CLUSTER" | "OPERATION" | "RUN";

/** The values of a node that all readers know by name. `NodeBefore` in node-facts.ts has every one. */
interface OfNode {
  readonly name: string;
  readonly state: NodeState;
  readonly clusterId: string | null;
  readonly driver: string;
}

/** Of a node; of a deleted cluster; or of an operation whose state changed. */
export type ChangeBefore = OfNode | { readonly name: string } | { readonly state: OperationState };
