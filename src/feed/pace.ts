/**
 * Throttles a stream of rows that have no position in the log: it reads at most once per interval, however often they
 * change.
 */
import type { Waiter } from "./pull.ts";
import type { Tail } from "./tail.ts";

export interface Pace {
  /** Waits until a read is due, the reader has left, or the tail has ended. It does not wait for a change. */
  rest(waiter: Waiter): Promise<void>;
  /** Starts the interval: a read begins. */
  look(): void;
}

export function createPace(tail: Pick<Tail, "closed">, everyMs: number): Pace {
  // By a monotonic clock: a wall clock that is set back would pause the stream for as long.
  let lookedAt = -Infinity;
  return {
    async rest(waiter) {
      for (;;) {
        const early = everyMs - (performance.now() - lookedAt);
        if (early <= 0 || waiter.left || tail.closed) return;
        await waiter.wait(early);
      }
    },
    look() {
      lookedAt = performance.now();
    },
  };
}
