/**
 * Loaded before a service that is watched (`node --expose-gc --import`): whenever it is asked, it collects its garbage and
 * tells what it holds, and for how long at most, in ms, its event loop has been busy since it was asked last.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";

const RESOLUTION_MS = 10;
const busy = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
busy.enable();

process.on("message", (message) => {
  if (message !== "held") return;
  // Measured before the collection, which is on our account.
  const lagMs = Math.max(0, busy.max / 1e6 - RESOLUTION_MS);
  // What the first collection has let go of, weak entries and caches among it, the second one takes.
  globalThis.gc();
  setImmediate(() => {
    globalThis.gc();
    tell(lagMs);
  });
});

function tell(lagMs) {
  const { rss, heapUsed, external, arrayBuffers } = process.memoryUsage();
  const resources = {};
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
  busy.reset();
  process.send({ held: { rss, heapUsed, buffers: external + arrayBuffers, resources, lagMs } });
}
process.channel?.unref();
