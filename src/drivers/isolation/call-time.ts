/** How long a call of a worker lasts, without the time for which a processor was missing or the service was busy. */
import { idleBetween, momentNow } from "./idle-time.ts";
import { RunDelay } from "./run-delay.ts";

export class CallTime {
  readonly #runDelay: RunDelay;
  /** When the call was sent, and the run delay of the process then. */
  #sentAt = { moment: momentNow(), runDelayMs: 0 };

  constructor(pid: number | undefined) {
    this.#runDelay = new RunDelay(pid);
  }

  /** A call is sent. */
  begin(): void {
    this.#sentAt = { moment: momentNow(), runDelayMs: this.#runDelay.ms };
  }

  /** Duration of the call so far, in ms. */
  get ms(): number {
    return this.#inService(this.#runDelayMs);
  }

  /** Duration of the call that has ended, in ms. `inWorkerMs`: as the worker measured it. */
  ended(inWorkerMs: number): number {
    const runDelayMs = this.#runDelayMs;
    return Math.max(0, Math.min(inWorkerMs - runDelayMs, this.#inService(runDelayMs)));
  }

  close(): void {
    this.#runDelay.close();
  }

  #inService(runDelayMs: number): number {
    return idleBetween(this.#sentAt.moment, momentNow(), runDelayMs);
  }

  /** Run delay of the process since the call was sent. */
  get #runDelayMs(): number {
    return this.#runDelay.ms - this.#sentAt.runDelayMs;
  }
}
