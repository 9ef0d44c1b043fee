/**
 * Items of pages of a log, made once for all streams with equal requests: the filter of a thousand streams with ten
 * filters is decided ten times. A page serves a stream only if its making began after the stream did.
 */
import { FreshMap } from "../../runtime/fresh-map.ts";

/** Long enough to send one change to thousands of streams. */
const FRESH_MS = 250;
/** Limits the memory of many streams that catch up. */
const KEPT_MAX = 200;

export function createSharedPages() {
  const kept = new FreshMap<{ readonly madeAt: number; readonly page: Promise<unknown> }>(FRESH_MS, KEPT_MAX);
  return {
    /** The page of a key; `since`: by the monotonic clock. */
    take<Page>(key: string, since: number, make: () => Promise<Page>): Promise<Page> {
      const known = kept.get(key);
      // Equal keys are of equal kinds of pages.
      if (known && known.madeAt >= since) return known.page as Promise<Page>;
      const made = { madeAt: performance.now(), page: make() };
      kept.set(key, made);
      made.page.catch(() => kept.drop(key, made));
      return made.page;
    },
  };
}
