/**
 * Claims whose commit was not acknowledged: the connection was lost before the answer. If such a claim was stored, it
 * has begun an attempt that no process entered, so this process may enter it even if the step must not run twice.
 */
import { LruMap } from "../../../runtime/lru-map.ts";
import type { AttemptRow } from "../../../store/runs/attempts.ts";
import type { RunDirective } from "./claimed-run.ts";

const KEPT_MAX = 10_000;

export class UnacknowledgedClaims {
  /** By run: the fence of the claim, and the deadline of the attempt that it began. */
  readonly #claims = new LruMap<string, { readonly fence: number; readonly deadline: number }>(KEPT_MAX);

  note(runId: string, directive: RunDirective): void {
    // The deadline identifies the attempt, but only if its clock started in this claim. A resumed attempt looks the
    // same as one that another process wrote meanwhile.
    if (directive.kind !== "ENTER_STEP" || directive.leftMs !== directive.step.timeoutSeconds * 1000) return;
    const deadline = directive.attempt.deadlineAt.getTime();
    this.#claims.set(runId, { fence: directive.claimed.fence, deadline });
  }

  forget(runId: string): void {
    this.#claims.delete(runId);
  }

  /** True if the attempt was begun by an earlier one of these claims. Each entry of an attempt moves its deadline. */
  hasBegun(run: { readonly id: string; readonly fence: number }, attempt: AttemptRow): boolean {
    const claim = this.#claims.get(run.id);
    return claim !== undefined && claim.fence < run.fence && claim.deadline === attempt.deadlineAt.getTime();
  }
}
