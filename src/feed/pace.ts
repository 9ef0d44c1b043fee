/**
 * Throttles a stream of rows that have no position in the log: it reads at most once per interval, however often they
 * change.
 */
import type { Tail } from "./log/tail.ts";

export interface Pace {
  /** Time until a read is due, in milliseconds; 0 if it is, or if the tail has ended. */
  readonly restMs: number;
  /** Starts the interval: a read begins. */
  look(): void;
}

export function createPace(tail: Pick<Tail, "closed">, everyMs: number): Pace {
  // By a monotonic clock: a wall clock that is set back would pause the stream for as long.
  let lookedAt = -Infinity;
  return {
    get restMs() {
      return tail.closed ? 0 : Math.max(0, everyMs - (performance.now() - lookedAt));
    },
    look() {
      lookedAt = performance.now();
    },
  };
}
