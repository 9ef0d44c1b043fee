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
  // oxlint-disable-next-line eslint/no-var -- `declare let` would not be a member of `window`.
  var loadTimes: LoadTimes;
}

/** To be called before the page navigates. The returned function waits until all is there. */
export async function watchLoad(page: Page): Promise<() => Promise<Required<LoadTimes>>> {
  await page.addInitScript(() => {
    globalThis.loadTimes = {};
    const has = (selector: string) => document.querySelector(selector) !== null;
    new MutationObserver(() => {
      const now = Math.round(performance.now());
      if (document.querySelectorAll("[data-id]").length >= 20) globalThis.loadTimes.screen ??= now;
      if (has(".counts button")) globalThis.loadTimes.counts ??= now;
      if (has('.status[data-live="true"]')) globalThis.loadTimes.live ??= now;
    }).observe(document, { subtree: true, childList: true, attributes: true });
  });
  return async () => {
    await page.waitForFunction(() => Object.keys(globalThis.loadTimes).length === 3);
    return page.evaluate(() => globalThis.loadTimes as Required<LoadTimes>);
  };
}
