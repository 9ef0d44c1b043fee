/** The frame of a change of nodes: select, lock, change, answer. It changes all nodes or none. */
import { RefusalError } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { lockNodes } from "../../store/nodes.ts";
import type { NodeRow } from "../../store/nodes.ts";
import type { EngineContext } from "../context.ts";
import { selectNodes } from "../input/node-selector.ts";
import type { NodeSelector } from "../input/node-selector.ts";
import type { Transaction } from "../transaction.ts";

export type Edited = { readonly nodeIds: readonly string[]; readonly refusals: readonly Refusal[] };

const REFUSALS_MAX = 100;

/** `change` throws a `RefusalError` to refuse. */
export async function editNodes(
  context: EngineContext,
  selector: NodeSelector,
  change: (transaction: Transaction, nodes: readonly NodeRow[]) => Promise<void>,
): Promise<Edited> {
  try {
    return await context.transact(async (transaction) => {
      const found = await selectNodes(transaction.tx, selector);
      if ("refusals" in found) throw new RefusalError(found.refusals);
      const nodeIds = found.nodes.map(({ nodeId }) => nodeId);
      await change(transaction, await lockNodes(transaction.tx, nodeIds));
      return { nodeIds, refusals: [] };
    });
  } catch (error) {
    if (error instanceof RefusalError) return refuseEdit(error.refusals);
    throw error;
  }
}

export function refuseEdit(refusals: readonly Refusal[]): Edited {
  return { nodeIds: [], refusals: refusals.slice(0, REFUSALS_MAX) };
}
