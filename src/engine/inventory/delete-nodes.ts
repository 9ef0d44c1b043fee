/** Deleting nodes at rest. Their transitions, runs and operations stay. */
import { nodeRefusal } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { endingMessage } from "../../lifecycle/admission.ts";
import { STATES_AT_REST } from "../../lifecycle/machine.ts";
import type { OperationKind } from "../../lifecycle/verbs.ts";
import { lockAllIdentities } from "../../store/nodes/node-identities.ts";
import { deleteNode } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import { busyNodes } from "../../store/runs/runs.ts";
import { idsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import type { NodeSelector } from "../input/node-selector.ts";
import { transitionOf } from "../transaction.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { findConflicts } from "./controller-conflicts.ts";
import { clusterLockRefusals } from "./cluster-lock.ts";
import { changeNodes } from "./change-nodes.ts";
import type { Edited } from "./change-nodes.ts";

export async function deleteNodes(context: EngineContext, caller: Caller, selector: NodeSelector): Promise<Edited> {
  const change = async (transaction: Transaction, nodes: readonly NodeRow[]) => {
    const ids = idsOf(nodes);
    const busy = new Map((await busyNodes(transaction.tx, ids)).map((run) => [run.nodeId, run]));
    const clusterIds = new Set(nodes.flatMap(({ clusterId }) => clusterId ?? []));
    const refused = new Map(
      nodes.flatMap((node): [string, Refusal][] => {
        const refusal = refusalOfDeletion(node, busy.get(node.id));
        return refusal ? [[node.id, refusal]] : [];
      }),
    );
    // Read without locking the clusters: a change of a cluster locks its nodes second, and would deadlock.
    const locked = await clusterLockRefusals(transaction.tx, [...clusterIds], () => ["input", "nodes"]);
    if (refused.size > 0 || locked.length > 0) return { nodes: refused, others: locked };
    for (const node of nodes) {
      await deleteNode(transaction.tx, node.id);
      const gone = { ...node, transitionCount: node.transitionCount + 1, revision: node.revision + 1 };
      transaction.log(transitionOf(gone, { from: node.state, to: null, event: "delete" }, { actor: caller.actor }));
    }
    await findConflicts(transaction.tx, ids);
    return undefined;
  };
  return changeNodes(context, { caller, selector, lockFirst: ({ tx }) => lockAllIdentities(tx) }, change);
}

/** Why a node is not deleted, apart from the lock of its cluster; null if it is. `run`: its unfinished work. */
export function refusalOfDeletion(
  { id: nodeId, name, isProtected, state }: NodeRow,
  run: { readonly kind: OperationKind; readonly operationId: string; readonly isEnding: boolean } | undefined,
): Refusal | null {
  if (run) {
    const { operationId, kind, isEnding } = run;
    const busy = `Node ${name} is busy with ${kind} operation ${operationId}. Abort it, or wait for its end, before you delete the node.`;
    return nodeRefusal("BUSY", nodeId, isEnding ? endingMessage(name, run) : busy, { operationId });
  }
  if (isProtected)
    return nodeRefusal("PROTECTED", nodeId, `Node ${name} is protected. Remove the protection with updateNodes first.`);
  if (state !== "ACTIVE") return null;
  const allowedStates = STATES_AT_REST.filter((one) => one !== "ACTIVE");
  const active = `Node ${name} is ACTIVE. Undeploy or decommission it before you delete it.`;
  return nodeRefusal("INVALID_STATE", nodeId, active, { allowedStates });
}
