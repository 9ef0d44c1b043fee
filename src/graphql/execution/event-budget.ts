/**
 * The budget of one connection for its subscriptions, as cost over time. The cost of a request is checked when it
 * arrives; a subscription has that cost again for each event that is executed for it. A burst is free; beyond it events
 * are delayed, never refused, and a subscription reads its next event only then.
 */
import { setTimeout as delay } from "node:timers/promises";

/** Cost that one connection may spend at once, and the cost per second after that. */
export const BURST_COST = 100_000;
export const COST_PER_SECOND = 20_000;

/** Does not keep the process from ending. */
const unreferenced = (milliseconds: number) => delay(milliseconds, undefined, { ref: false });

export interface EventBudget {
  /** Settles when there is no debt; undefined if there is none now. */
  paid(): Promise<void> | undefined;
  /** Number of executions of this cost that it pays; at least one. */
  affords(cost: number): number;
  /** Spends the cost of an execution, also beyond what there is. */
  spend(cost: number): void;
}

export function createEventBudget(wait?: (milliseconds: number) => Promise<unknown>): EventBudget {
  return new RefilledBudget(wait);
}

class RefilledBudget implements EventBudget {
  readonly #wait: (milliseconds: number) => Promise<unknown>;
  #left = BURST_COST;
  #filledAt = performance.now();

  constructor(wait: (milliseconds: number) => Promise<unknown> = unreferenced) {
    this.#wait = wait;
  }

  // Without a debt the time is not read: thousands of streams ask for each item.
  paid(): Promise<void> | undefined {
    return this.#left < 0 && this.#fill() < 0 ? this.#waitUntilPaid() : undefined;
  }

  affords(cost: number): number {
    return Math.max(1, Math.floor(this.#fill() / Math.max(1, cost)));
  }

  spend(cost: number): void {
    this.#left = this.#fill() - cost;
  }

  #fill(): number {
    const now = performance.now();
    this.#left = Math.min(BURST_COST, this.#left + ((now - this.#filledAt) / 1_000) * COST_PER_SECOND);
    this.#filledAt = now;
    return this.#left;
  }

  async #waitUntilPaid(): Promise<void> {
    // Another subscription of the connection may have spent more when this one goes on.
    while (this.#fill() < 0) await this.#wait((-this.#left / COST_PER_SECOND) * 1_000);
  }
}
