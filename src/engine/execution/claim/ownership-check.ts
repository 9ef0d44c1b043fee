/**
 * Checks that this process still holds a run, before each call to its machine. A process that was suspended for a
 * while, or cut off from the database, may have lost its runs without noticing.
 */
import { setTimeout as delay } from "node:timers/promises";
import { isDatabaseUnavailable } from "../../../store/postgres/connection-errors.ts";
import { FencedError } from "./claimed-run.ts";
import type { Leases } from "../../claims/leases.ts";
import type { Claim } from "../../../store/runs/run-claims.ts";

interface OwnershipCheckParts {
  readonly leases: Pick<Leases, "isFresh" | "renewSoon">;
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
  { leases, fenceOf, isReleased }: OwnershipCheckParts,
  claim: Claim,
): () => Promise<void> {
  return async () => {
    while (!isReleased() && !leases.isFresh(claim)) {
      try {
        await leases.renewSoon();
        if ((await fenceOf(claim.id)) !== claim.fence) throw new FencedError();
        // An unchanged fence is not enough, because the answer may be read long after it was given. A fresh lease is.
        if (!leases.isFresh(claim)) await delay(RETRY_MS);
      } catch (error) {
        if (!isDatabaseUnavailable(error)) throw error;
        await delay(RETRY_MS);
      }
    }
    if (isReleased()) throw new FencedError();
  };
}
