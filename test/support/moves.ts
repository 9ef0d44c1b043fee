/** Moves nodes of a test along one edge, as the engine does with the nodes of its runs. */
import { next } from "../../src/lifecycle/machine.ts";
import type { NodeEvent, NodeState } from "../../src/lifecycle/node-states.ts";
import { changeNodes, hopAlong } from "../../src/engine/transaction.ts";
import type { Transaction } from "../../src/engine/transaction.ts";

interface Move {
  readonly from: NodeState;
  readonly event: NodeEvent;
  readonly change?: Parameters<typeof hopAlong>[2];
}

/** Returns the new state. Throws if there is no such edge, or if one of the nodes is in another state. */
export async function move(
  transaction: Transaction,
  nodeIds: readonly string[],
  { from, event, change }: Move,
  { actor }: { readonly actor: string },
): Promise<NodeState> {
  const hops = nodeIds.map((nodeId) => [hopAlong({ nodeId, from }, { event, actor }, change)]);
  await Promise.all(changeNodes(transaction, hops));
  return next(from, event);
}
