/**
 * Bounds the runs of this process whose machines give no answer: they may hold only a share of its runs at a time, so
 * that many dead BMCs do not delay the work on other nodes. A run without a slot is parked and tries again.
 */
import type { Patience } from "./driver-call.ts";
import { LateAnswerError } from "./interface-call.ts";

/** How long a machine may take for a short read until its run needs a slot here. */
export const PATIENCE_MS = 5_000;
/** How long a run without a slot is parked. */
export const CROWDED_SECONDS = 5;
/** Share of the process's runs. */
const SHARE = 0.25;

/** All slots are taken. Nothing was changed on the machine. */
export class CrowdedError extends LateAnswerError {}

/** For one entry of a step. */
export interface TroubledSlot extends Patience {
  /** Takes a slot for the rest of the entry. Throws a `CrowdedError` if none is free. */
  take(): void;
  release(): void;
}

export class TroubledSlots {
  readonly #max: number;
  readonly #patienceMs: number;
  #taken = 0;

  /** `concurrency`: runs at the same time. */
  constructor(concurrency: number, patienceMs = PATIENCE_MS) {
    this.#max = Math.max(1, Math.floor(concurrency * SHARE));
    this.#patienceMs = patienceMs;
  }

  slot(): TroubledSlot {
    let isTaken = false;
    let isCommitted = false;
    const take = () => {
      if (isTaken) return;
      if (this.#taken >= this.#max && !isCommitted)
        throw new CrowdedError("The BMC gave no answer in time, and other BMCs without an answer hold all slots.");
      isTaken = true;
      this.#taken += 1;
    };
    return {
      ms: this.#patienceMs,
      isStrict: true,
      take,
      onLate() {
        take();
        return "STEP";
      },
      commit() {
        isCommitted = true;
      },
      release: () => {
        if (isTaken) this.#taken -= 1;
        isTaken = false;
      },
    };
  }
}
