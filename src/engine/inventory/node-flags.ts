/** Flags of nodes: maintenance and retirement. They start no work and stop none. */
import type { Refusal } from "../../errors.ts";
import { updateNodes } from "../../store/nodes.ts";
import { runsPausedByMaintenance } from "../../store/runs.ts";
import type { EngineContext } from "../context.ts";
import type { NodeSelector } from "../input/node-selector.ts";
import { REASON_LENGTH_MAX } from "../input/size-limits.ts";
import type { Caller } from "../transaction.ts";
import { editNodes, refuseEdit } from "./edit-nodes.ts";
import type { Edited } from "./edit-nodes.ts";

export interface FlagRequest {
  readonly nodes: NodeSelector;
  /** Sets the flag; null clears it. */
  readonly reason: string | null;
}

export async function setMaintenance(
  context: EngineContext,
  caller: Caller,
  { nodes: selector, reason }: FlagRequest,
): Promise<Edited> {
  const flaw = reasonFlaw("A maintenance", reason);
  if (flaw) return refuseEdit([flaw]);
  return editNodes(context, selector, async (transaction, nodes) => {
    const flag =
      reason === null
        ? { maintenanceReason: null, maintenanceSince: null, maintenanceBy: null }
        : { maintenanceReason: reason, maintenanceSince: new Date(), maintenanceBy: caller.actor };
    const ids = nodes.map(({ id }) => id);
    await updateNodes(transaction.tx, ids, flag);
    if (reason !== null) return;
    // A run that is about to pause reads the flag under the node's lock: it sees the flag cleared, or is found here.
    const paused = await runsPausedByMaintenance(transaction.tx, ids);
    await context.queue.wakeMany(transaction, paused, "woken");
  });
}

/** Marks nodes as retired, so that no work begins on them but their removal. Running work continues. */
export async function setRetired(
  context: EngineContext,
  _caller: Caller,
  { nodes: selector, reason }: FlagRequest,
): Promise<Edited> {
  const flaw = reasonFlaw("A retirement", reason);
  if (flaw) return refuseEdit([flaw]);
  return editNodes(context, selector, (transaction, nodes) =>
    updateNodes(
      transaction.tx,
      nodes.map(({ id }) => id),
      { retiredReason: reason },
    ),
  );
}

function reasonFlaw(what: string, reason: string | null): Refusal | null {
  if (reason === null || (reason.trim() !== "" && reason.length <= REASON_LENGTH_MAX)) return null;
  return {
    code: "INVALID_INPUT",
    message: `${what} needs a reason of 1–${REASON_LENGTH_MAX} characters; null ends it.`,
    path: ["input", "reason"],
  };
}
