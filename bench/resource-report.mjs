/**
 * Loaded before a service under test (`node --expose-gc --import`): on request it collects garbage, then reports its
 * resources and the longest delay of its event loop, in ms, since the last request.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";

const RESOLUTION_MS = 10;
const busy = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
busy.enable();

process.on("message", (message) => {
  if (message !== "report") return;
  // Read before the collection, which also delays the event loop.
  const lagMs = Math.max(0, busy.max / 1e6 - RESOLUTION_MS);
  // The second collection frees what the first one released, such as entries of weak maps.
  globalThis.gc();
  setImmediate(() => {
    globalThis.gc();
    report(lagMs);
  });
});

function report(lagMs) {
  const { rss, heapUsed, external, arrayBuffers } = process.memoryUsage();
  const resources = {};
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
  busy.reset();
  process.send({ held: { rss, heapUsed, buffers: external + arrayBuffers, resources, lagMs } });
}
process.channel?.unref();
