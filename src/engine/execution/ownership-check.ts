/**
 * Whether a run is still in the hands of this process: asked before each call to a machine. A process that was stopped for a
 * while, or cut off from the database, may have lost its runs without knowing.
 */
import { setTimeout as delay } from "node:timers/promises";
import { isConnectionLoss } from "../../store/postgres/connection-errors.ts";
import { FencedError } from "./claimed-run.ts";
import type { HeldJob } from "../jobs/leases.ts";
import type { Queue } from "../jobs/queue.ts";

export interface OwnershipCheckParts {
  readonly queue: Pick<Queue, "isFresh" | "renew" | "held">;
  /** Of the run as the database has it. */
  readonly fenceOf: (runId: string) => Promise<number | undefined>;
  /** Whether this process has given up what it held. */
  readonly isReleased: () => boolean;
}

const AGAIN_MS = 500;

/**
 * Makes what resolves when this process holds the run for certain, and rejects with `Fenced` when it does not any more. It
 * waits as long as neither is known.
 */
export function createOwnershipCheck(
  { queue, fenceOf, isReleased }: OwnershipCheckParts,
  { runId, fence, job: taken }: { readonly runId: string; readonly fence: number; readonly job: HeldJob },
): () => Promise<void> {
  let job = taken;
  return async () => {
    while (!isReleased() && !queue.isFresh(job)) {
      try {
        await queue.renew();
        // Its lease has run out, and this process has taken the job again: who does so waits for us, so it is as good.
        const again = queue.held(job.id);
        if ((await fenceOf(runId)) !== fence) throw new FencedError();
        // That the fence is as it was says little, as the answer may be read long after it was given; who has the lease is safe until that runs out.
        if (again && queue.isFresh(again)) job = again;
        else if (!queue.isFresh(job)) await delay(AGAIN_MS);
      } catch (error) {
        if (!isConnectionLoss(error)) throw error;
        await delay(AGAIN_MS);
      }
    }
    if (isReleased()) throw new FencedError();
  };
}
