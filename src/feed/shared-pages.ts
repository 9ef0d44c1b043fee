/**
 * Items of pages of a log, made once for all streams with equal requests: the filter of a thousand streams with ten
 * filters is decided ten times. A page serves a stream only if its making began after the stream did.
 */
export interface SharedPages {
  /** The page of a key; `since`: by the monotonic clock. */
  take<Page>(key: string, since: number, make: () => Promise<Page>): Promise<Page>;
}

/** Long enough to send one change to thousands of streams. */
const FRESH_MS = 250;
/** Limits the memory of many streams that catch up. */
const KEPT_MAX = 200;

export function createSharedPages(): SharedPages {
  // In the order in which they were made, oldest first.
  const kept = new Map<string, { readonly madeAt: number; readonly page: Promise<unknown> }>();

  function dropOld(now: number): void {
    for (const [key, { madeAt }] of kept) {
      if (now - madeAt <= FRESH_MS && kept.size <= KEPT_MAX) return;
      kept.delete(key);
    }
  }

  return {
    take<Page>(key: string, since: number, make: () => Promise<Page>): Promise<Page> {
      const now = performance.now();
      dropOld(now);
      const known = kept.get(key);
      // Equal keys are of equal kinds of pages.
      if (known && known.madeAt >= since) return known.page as Promise<Page>;
      const page = make();
      kept.delete(key);
      kept.set(key, { madeAt: now, page });
      page.catch(() => {
        if (kept.get(key)?.page === page) kept.delete(key);
      });
      return page;
    },
  };
}
