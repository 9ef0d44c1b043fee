/** How often a stream looks at things that have no position in the log, however often something is written. */
import type { Patience } from "./pull.ts";
import type { Tail } from "./tail.ts";

export interface Pace {
  /** Waits until a look is due, or the reader has left, or the tail has ended: not for a change. */
  rest(patience: Patience): Promise<void>;
  /** A look begins. */
  look(): void;
}

export function createPace(tail: Pick<Tail, "closed">, everyMs: number): Pace {
  // By a clock that nobody sets: one that is set back would make the stream rest for as long.
  let lookedAt = -Infinity;
  return {
    async rest(patience) {
      for (;;) {
        const early = everyMs - (performance.now() - lookedAt);
        if (early <= 0 || patience.left || tail.closed) return;
        await patience.wait(early);
      }
    },
    look() {
      lookedAt = performance.now();
    },
  };
}
