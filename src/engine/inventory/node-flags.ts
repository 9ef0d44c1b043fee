/** Flags of nodes: maintenance and retirement. They start no work and stop none. */
import { RefusalError, invalidInput } from "../../errors.ts";
import { beginMaintenance, changeNodeRows, endMaintenance } from "../../store/nodes/nodes.ts";
import type { NodeRow } from "../../store/nodes/nodes.ts";
import { extendParkedSteps, runsPausedByMaintenance } from "../../store/runs/parked-runs.ts";
import { PRIORITY, wakeRuns } from "../../store/runs/run-claims.ts";
import { lockUnfinishedRuns } from "../../store/runs/run-locks.ts";
import type { EngineContext } from "../context.ts";
import type { NodeSelector } from "../input/node-selector.ts";
import { REASON_LENGTH_MAX } from "../input/size-limits.ts";
import { hasControls } from "../../runtime/text.ts";
import { idsOf } from "../input/ids.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { changeNodes } from "./change-nodes.ts";
import type { Edited } from "./change-nodes.ts";

export async function setMaintenance(
  context: EngineContext,
  caller: Caller,
  selector: NodeSelector,
  reason: string,
): Promise<Edited> {
  requireReason("A maintenance", reason);
  return changeNodes(context, { caller, selector }, (transaction, nodes) =>
    beginMaintenance(transaction.tx, idsOf(nodes), { reason, by: caller.actor }),
  );
}

/** Ends the maintenance of nodes, resumes the runs that it paused, and lets the timeouts of parked steps run on. */
export async function clearMaintenance(
  context: EngineContext,
  caller: Caller,
  selector: NodeSelector,
): Promise<Edited> {
  const clear = async (transaction: Transaction, nodes: readonly NodeRow[]) => {
    const ids = idsOf(nodes);
    await extendParkedSteps(transaction.tx, ids);
    await endMaintenance(transaction.tx, ids);
    // A run that is about to pause reads the flag under the node's lock: it sees the flag cleared, or is found here.
    const paused = await runsPausedByMaintenance(transaction.tx, ids);
    await wakeRuns(transaction.tx, paused, PRIORITY.woken);
  };
  // Workers lock a run before its node.
  return changeNodes(
    context,
    { caller, selector, lockFirst: ({ tx }, nodeIds) => lockUnfinishedRuns(tx, nodeIds) },
    clear,
  );
}

/** Marks nodes as retired, so that no work begins on them but their removal. Running work continues. */
export async function setRetired(
  context: EngineContext,
  caller: Caller,
  selector: NodeSelector,
  reason: string,
): Promise<Edited> {
  requireReason("A retirement", reason);
  return changeNodes(context, { caller, selector }, (transaction, nodes) =>
    changeNodeRows(transaction.tx, idsOf(nodes), { retiredReason: reason }),
  );
}

/** Puts retired nodes back in service. */
export async function clearRetired(context: EngineContext, caller: Caller, selector: NodeSelector): Promise<Edited> {
  return changeNodes(context, { caller, selector }, (transaction, nodes) =>
    changeNodeRows(transaction.tx, idsOf(nodes), { retiredReason: null }),
  );
}

function requireReason(what: string, reason: string): void {
  if (reason.trim() !== "" && reason.length <= REASON_LENGTH_MAX && !hasControls(reason)) return;
  const message = `${what} needs a reason of 1–${REASON_LENGTH_MAX} characters on one line, without control or invisible characters.`;
  throw new RefusalError([invalidInput(message, ["input", "reason"])]);
}
