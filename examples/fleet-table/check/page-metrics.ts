/** Metrics of a page in Chromium, by name: `TaskDuration` is the CPU of its main thread in seconds. */
import type { Page } from "playwright-core";

export interface PageMetrics {
  /** The metrics of one moment, by name. */
  read(): Promise<(name: string) => number>;
  /** Before the heap is read. */
  collectGarbage(): Promise<void>;
}

export async function openMetrics(page: Page): Promise<PageMetrics> {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  return {
    async read() {
      const { metrics } = await session.send("Performance.getMetrics");
      return (name) => metrics.find((metric) => metric.name === name)?.value ?? 0;
    },
    async collectGarbage() {
      await session.send("HeapProfiler.collectGarbage");
    },
  };
}
