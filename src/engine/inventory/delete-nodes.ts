/** Deleting nodes at rest. Their transitions, runs and operations stay. */
import { RefusalError } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { STATES_AT_REST } from "../../lifecycle/machine.ts";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import { deleteNode } from "../../store/nodes.ts";
import type { NodeRow } from "../../store/nodes.ts";
import { busyNodes } from "../../store/runs.ts";
import type { EngineContext } from "../context.ts";
import type { NodeSelector } from "../input/node-selector.ts";
import type { Caller } from "../transaction.ts";
import { editNodes } from "./edit-nodes.ts";
import type { Edited } from "./edit-nodes.ts";

export async function deleteNodes(context: EngineContext, caller: Caller, selector: NodeSelector): Promise<Edited> {
  return editNodes(context, selector, async (transaction, nodes) => {
    const ids = nodes.map(({ id }) => id);
    const busy = new Map((await busyNodes(transaction.tx, ids)).map((run) => [run.nodeId, run]));
    const refusals = nodes.flatMap((node) => refusalOf(node, busy.get(node.id)) ?? []);
    if (refusals.length > 0) throw new RefusalError(refusals);
    for (const node of nodes) {
      await deleteNode(transaction.tx, node.id);
      transaction.log({
        nodeId: node.id,
        nodeName: node.name,
        project: node.project,
        fromState: node.state,
        toState: null,
        event: "delete",
        sequence: node.transitionCount + 1,
        nodeRevision: node.revision + 1,
        target: null,
        operationId: null,
        runId: null,
        step: null,
        actor: caller.actor,
        reason: null,
      });
    }
  });
}

function refusalOf(
  { id: nodeId, name, isProtected, state }: NodeRow,
  run: { readonly kind: OperationKind; readonly operationId: string } | undefined,
): Refusal | null {
  if (run)
    return {
      code: "BUSY",
      message: `Node ${name} is busy with ${run.kind} operation ${run.operationId}. Abort it, or wait for its end, before you delete the node.`,
      nodeId,
      operationId: run.operationId,
    };
  if (isProtected)
    return {
      code: "PROTECTED",
      message: `Node ${name} is protected. Remove the protection with updateNode first.`,
      nodeId,
    };
  if (state === "ACTIVE")
    return {
      code: "INVALID_STATE",
      message: `Node ${name} is ACTIVE. Undeploy or decommission it before you delete it.`,
      nodeId,
      allowedStates: STATES_AT_REST.filter((one) => one !== "ACTIVE"),
    };
  return null;
}
