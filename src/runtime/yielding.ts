/** Long loops over many nodes that yield to the event loop, so that requests are answered and heartbeats are sent. */
import { setImmediate as nextTurn } from "node:timers/promises";

/** How long a loop runs before it yields. */
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
