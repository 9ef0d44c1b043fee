/**
 * Checks that this process still holds a run, before each call to its machine. A process that was suspended for a
 * while, or cut off from the database, may have lost its runs without noticing.
 */
import { setTimeout as delay } from "node:timers/promises";
import { isConnectionLoss } from "../../store/postgres/connection-errors.ts";
import { FencedError } from "./claimed-run.ts";
import type { HeldJob } from "../jobs/leases.ts";
import type { Queue } from "../jobs/queue.ts";

export interface OwnershipCheckParts {
  readonly queue: Pick<Queue, "isFresh" | "renew" | "held">;
  /** The fence of a run in the database. */
  readonly fenceOf: (runId: string) => Promise<number | undefined>;
  /** True if this process has released its runs. */
  readonly isReleased: () => boolean;
}

const RETRY_MS = 500;

/**
 * Returns a function that resolves when this process certainly holds the run, and rejects with a `FencedError` when it
 * certainly does not. It waits while neither is known.
 */
export function createOwnershipCheck(
  { queue, fenceOf, isReleased }: OwnershipCheckParts,
  { runId, fence, job: claimedFor }: { readonly runId: string; readonly fence: number; readonly job: HeldJob },
): () => Promise<void> {
  let job = claimedFor;
  return async () => {
    while (!isReleased() && !queue.isFresh(job)) {
      try {
        await queue.renew();
        // This process may have fetched the job again after its lease had expired. The new execution waits for this
        // one, so its lease counts.
        const again = queue.held(job.id);
        if ((await fenceOf(runId)) !== fence) throw new FencedError();
        // An unchanged fence is not enough, because the answer may be read long after it was given. A fresh lease is.
        if (again && queue.isFresh(again)) job = again;
        else if (!queue.isFresh(job)) await delay(RETRY_MS);
      } catch (error) {
        if (!isConnectionLoss(error)) throw error;
        await delay(RETRY_MS);
      }
    }
    if (isReleased()) throw new FencedError();
  };
}
