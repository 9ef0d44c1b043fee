/** The frame of a change of nodes: select, lock, change, answer. It changes all nodes or none. */
import { RefusalError } from "../../errors.ts";
import type { Refusal } from "../../errors.ts";
import { lockNodes } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import { nodeIdsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import { refusedNode, summaryOf } from "../input/answers.ts";
import type { NodeAnswer } from "../input/answers.ts";
import { selectNodes } from "../input/node-selector.ts";
import type { NodeSelector } from "../input/node-selector.ts";
import type { Caller, Transaction } from "../transaction.ts";

/** `results`: the refused nodes. */
export interface Edited {
  readonly nodeIds: readonly string[];
  readonly refusals: readonly Refusal[];
  readonly results: readonly NodeAnswer[];
}

/** Why a change is refused: by node id, and for other reasons. */
interface RefusedEdit {
  readonly nodes: ReadonlyMap<string, Refusal>;
  readonly others: readonly Refusal[];
}

interface NodesRequest {
  readonly caller: Caller;
  readonly selector: NodeSelector;
  /** Locks what has to be locked before the nodes. */
  readonly lockFirst?: (transaction: Transaction, nodeIds: readonly string[]) => Promise<unknown>;
}

/** `change` returns a `RefusedEdit` before it changes anything. */
export async function changeNodes(
  context: EngineContext,
  { caller, selector, lockFirst }: NodesRequest,
  change: (transaction: Transaction, nodes: readonly NodeRow[]) => Promise<RefusedEdit | void>,
): Promise<Edited> {
  return context.transact(async (transaction) => {
    const found = await selectNodes(transaction.tx, selector, { lockIn: transaction.tx });
    if ("refusals" in found) throw new RefusalError(found.refusals);
    const nodeIds = nodeIdsOf(found.nodes);
    await lockFirst?.(transaction, nodeIds);
    const nodes = await lockNodes(transaction.tx, nodeIds);
    const refused = await change(transaction, nodes);
    if (!refused) {
      transaction.audit(caller, { targets: nodes.map(({ name }) => name) });
      return { nodeIds, refusals: [], results: [] };
    }
    const results = found.nodes.flatMap(({ ref, nodeId }) => {
      const refusal = refused.nodes.get(nodeId);
      return refusal ? [refusedNode(ref, nodeId, null, refusal)] : [];
    });
    return { nodeIds: [], refusals: [...summaryOf(results), ...refused.others], results };
  });
}
