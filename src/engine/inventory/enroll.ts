/** A node comes into being: ENROLLED, with its secrets apart and the first row of its log. */
import { randomUUID } from "node:crypto";
import { insertNodes, putSecrets } from "../../store/nodes.ts";
import type { NodeRow, Secrets } from "../../store/nodes.ts";
import type { Transaction } from "../transaction.ts";

/** A node to be, checked: its driver takes the settings, and nobody has the name. */
export interface Enrolment extends Pick<
  NodeRow,
  "name" | "project" | "driver" | "settings" | "labels" | "clusterId" | "controller"
> {
  readonly presence?: NodeRow["presence"];
  /** Driver name → secret field → value. */
  readonly secrets: Secrets;
}

/** Who brings it in, and what for. */
export interface EnrolmentContext {
  readonly actor: string;
  readonly reason?: string | null;
  readonly operationId?: string | null;
}

/** Stores the node and answers its id. Violates `nodes_name` where somebody took the name meanwhile. */
export async function enroll(
  transaction: Transaction,
  { secrets, ...node }: Enrolment,
  context: EnrolmentContext,
): Promise<string> {
  const id = randomUUID();
  await insertNodes(transaction.tx, [{ ...node, id, state: "ENROLLED", borrowed: {}, transitionCount: 1 }]);
  if (Object.keys(secrets).length > 0) await putSecrets(transaction.tx, [{ nodeId: id, secrets }]);
  transaction.log({
    nodeId: id,
    nodeName: node.name,
    project: node.project,
    fromState: null,
    toState: "ENROLLED",
    event: "register",
    sequence: 1,
    nodeRevision: 1,
    target: null,
    operationId: context.operationId ?? null,
    runId: null,
    step: null,
    actor: context.actor,
    reason: context.reason ?? null,
  });
  return id;
}
