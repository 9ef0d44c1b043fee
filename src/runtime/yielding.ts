/** Long work that yields to the event loop, so that requests are answered and heartbeats are sent. */
import { setImmediate as nextTurn } from "node:timers/promises";

/** How long work goes on before it yields. */
const WORK_MS = 10;

/** A function to await after each item: it returns at once, or after one turn of the event loop when that is due. */
export function createYielding(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < WORK_MS) return undefined;
    return nextTurn().then(() => {
      since = performance.now();
    });
  };
}

/**
 * The same for many works that go on with each other's promises, and would together never let the event loop go round:
 * once they have taken their time of a turn, each one that asks gets the promise of the next turn.
 */
export function createSharedYielding(): () => Promise<void> | undefined {
  let turn: Promise<void> | null = null;
  let since = 0;
  return () => {
    const now = performance.now();
    if (turn) return now - since < WORK_MS ? undefined : turn;
    since = now;
    turn = nextTurn().then(() => {
      turn = null;
    });
    return undefined;
  };
}
