/** Long work on many nodes, in the middle of which others have their turn: the process answers them, and sends heartbeats. */
import { setImmediate as turn } from "node:timers/promises";

/** How long work goes on without a break. */
const WORK_MS = 10;

/** To be awaited after each node: mostly nothing, and a break of one turn whenever it is time for one. */
export function createYielding(): () => Promise<void> | undefined {
  let since = performance.now();
  return () => {
    if (performance.now() - since < WORK_MS) return undefined;
    return turn().then(() => {
      since = performance.now();
    });
  };
}
