/**
 * Plans that are known to be stored, by their hash, so that a request does not send them again. Plans are never
 * deleted; after a restore of the database to an earlier moment they may be missing, which the reference of a run to
 * its plan detects.
 */
import { LruMap } from "../../runtime/lru-map.ts";
import { violatedConstraint } from "../../store/postgres/connection-errors.ts";

const KNOWN_MAX = 1_000;
/** Named by the trigger that checks the plans of new runs. */
const REFERENCE = "runs_plan_hash_plans_hash_fkey";

export class KnownPlans {
  #hashes = new LruMap<string, true>(KNOWN_MAX);

  has(hash: string): boolean {
    return this.#hashes.get(hash) === true;
  }

  /** Called after the commit of the transaction that stored them. */
  add(hashes: readonly string[]): void {
    for (const hash of hashes) this.#hashes.set(hash, true);
  }

  /** Admits a request; admits it a second time, with all of its plans, if a plan that was known is not stored. */
  async retryWithout<Answer>(admit: () => Promise<Answer>): Promise<Answer> {
    try {
      return await admit();
    } catch (error) {
      if (violatedConstraint(error) !== REFERENCE) throw error;
      this.#hashes = new LruMap(KNOWN_MAX);
      return admit();
    }
  }
}
