/** How long a page loads, by its own clock: a busy driver of the browser does not count. */
import type { Page } from "playwright-core";

/** Milliseconds since the navigation began: when each was first seen. */
export interface LoadTimes {
  /** Rows from the top to the bottom of the table. */
  screen?: number;
  /** The number of all nodes and of those in each state. */
  counts?: number;
  /** All rows, and the page follows them. */
  live?: number;
}

declare global {
  interface Window {
    loadTimes: LoadTimes;
  }
}

/** To be called before the page navigates. The returned function waits until all is there. */
export async function watchLoad(page: Page): Promise<() => Promise<Required<LoadTimes>>> {
  await page.addInitScript(() => {
    window.loadTimes = {};
    const has = (selector: string) => document.querySelector(selector) !== null;
    new MutationObserver(() => {
      const now = Math.round(performance.now());
      if (document.querySelectorAll("[data-id]").length >= 20) window.loadTimes.screen ??= now;
      if (has(".counts button")) window.loadTimes.counts ??= now;
      if (has('.status[data-live="true"]')) window.loadTimes.live ??= now;
    }).observe(document, { subtree: true, childList: true, attributes: true });
  });
  return async () => {
    await page.waitForFunction(() => Object.keys(window.loadTimes).length === 3);
    return page.evaluate(() => window.loadTimes as Required<LoadTimes>);
  };
}
