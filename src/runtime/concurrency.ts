/** Limits on how much runs at the same time. */

/** Maps items with at most `limit` calls at the same time. Results are in the order of the items. */
export async function mapConcurrently<Item, Result>(
  limit: number,
  items: readonly Item[],
  call: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const left = items.entries();
  const lane = async () => {
    for (const [index, item] of left) results[index] = await call(item);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, lane));
  return results;
}

/** Runs work with the same key one after the other, in the order of the calls. */
export function createSequences(): <Result>(key: string, work: () => Promise<Result>) => Promise<Result> {
  const last = new Map<string, Promise<unknown>>();
  return (key, work) => {
    const mine = (last.get(key) ?? Promise.resolve()).then(work);
    const settled = mine
      .catch(() => {})
      .then(() => {
        if (last.get(key) === settled) last.delete(key);
      });
    last.set(key, settled);
    return mine;
  };
}

/** Releases a slot; null if none was available. */
export type Slot = (() => void) | null;

export interface Slots {
  /** A slot, at once if one is free; null if too many wait, after the maximum wait, or if the client disconnects. */
  take(signal?: AbortSignal): Slot | Promise<Slot>;
}

/** `count` slots, with a queue of at most `waitingMax` in which none waits longer than `waitMs`. */
export function createSlots(count: number, waitingMax: number, waitMs: number): Slots {
  let free = count;
  /** In the order of arrival. */
  const waiting = new Set<(slot: Slot) => void>();

  const release = (): void => {
    const [next] = waiting;
    if (next) next(slotOf());
    else free += 1;
  };
  /** A slot that can be released once. */
  const slotOf = (): Slot => {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      release();
    };
  };

  return {
    take(signal) {
      if (free > 0) {
        free -= 1;
        return slotOf();
      }
      if (waiting.size >= waitingMax || signal?.aborted === true) return null;
      return new Promise((resolve) => {
        const end = (slot: Slot): void => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", give);
          waiting.delete(end);
          resolve(slot);
        };
        const give = () => end(null);
        const timer = setTimeout(give, waitMs);
        signal?.addEventListener("abort", give, { once: true });
        waiting.add(end);
      });
    },
  };
}
