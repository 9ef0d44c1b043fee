/**
 * The logins of one address: 20 a second may fail. A login whose verification takes time counts as failed until it has
 * succeeded, so that wrong credentials that arrive together are not all verified; good ones that arrive together wait
 * for each other.
 */
import { createTokenBucket } from "../runtime/token-bucket.ts";

/** Failed logins a second and address; further ones are not looked up. */
export const FAILURES_MAX = 20;

export class LoginAttempts {
  readonly #failures = createTokenBucket(FAILURES_MAX, FAILURES_MAX);
  /** Verifications that have begun and not ended. */
  #running = 0;
  /** Verifications that wait for the result of a running one, in the order of their arrival. */
  readonly #waiting: (() => void)[] = [];

  /** Counts a failure; false if there were too many. */
  fail(): boolean {
    return this.#failures.take();
  }

  /** Begins a verification, which `end` ends; resolves with false if too many have failed. */
  async begin(): Promise<boolean> {
    while (!this.#failures.take()) {
      if (this.#running === 0) return false;
      await new Promise<void>((ended) => this.#waiting.push(ended));
    }
    this.#running += 1;
    return true;
  }

  end(hasFailed: boolean): void {
    this.#running -= 1;
    if (!hasFailed) this.#failures.giveBack();
    // The last one to end leaves no result to wait for.
    const count = this.#running === 0 ? this.#waiting.length : hasFailed ? 0 : 1;
    for (const goOn of this.#waiting.splice(0, count)) goOn();
  }
}
