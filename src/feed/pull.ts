/**
 * An asynchronous iterator that is pulled: it produces a batch when it is asked for the next item and has none, and
 * holds no more than that batch. Written by hand, because an async generator that waits on a promise is not ended by
 * `return()` until that promise settles, and a client that has gone would never be let go.
 */

/** What a producer waits with between two looks. */
export interface Patience {
  /** Waits for a change, at most so long. Resolves at once when the reader has left. */
  wait(milliseconds: number): Promise<void>;
  /** Ends the wait, or the next one: something else has changed. */
  wake(): void;
  readonly left: boolean;
}

/** The next items; an empty batch ends the stream. */
export type Producer<Item> = (patience: Patience) => Promise<readonly Item[]>;

/** `release` is called once, when the stream has ended, whoever ended it. */
export function pulled<Item>(
  onChange: (listener: () => void) => () => void,
  produce: Producer<Item>,
  release: () => void = () => {},
): AsyncIterableIterator<Item> {
  let batch: readonly Item[] = [];
  let at = 0;
  let ended = false;
  let wake = () => {};
  let changed = false;
  const onChanged = () => {
    changed = true;
    wake();
  };
  const unsubscribe = onChange(onChanged);
  let turn: Promise<unknown> = Promise.resolve();
  /** How many items are asked for and not given yet. */
  let asked = 0;

  const patience: Patience = {
    get left() {
      return ended;
    },
    async wait(milliseconds) {
      if (!changed && !ended) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, milliseconds);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
        });
        wake = () => {};
      }
      changed = false;
    },
    wake: onChanged,
  };

  function end(): IteratorResult<Item> {
    if (!ended) release();
    ended = true;
    batch = [];
    unsubscribe();
    wake();
    return { done: true, value: undefined };
  }

  async function next(): Promise<IteratorResult<Item>> {
    try {
      if (at >= batch.length && !ended) {
        batch = await produce(patience);
        at = 0;
      }
      if (ended) return end();
      const item = batch[at];
      if (item === undefined) return end();
      at += 1;
      return { done: false, value: item };
    } catch (error) {
      end();
      throw error;
    } finally {
      asked -= 1;
    }
  }

  return {
    // One at a time, in the order asked, whoever asks.
    next() {
      asked += 1;
      const mine = asked === 1 ? next() : turn.then(next, next);
      turn = mine;
      return mine;
    },
    return: () => Promise.resolve(end()),
    throw(error: unknown) {
      end();
      return Promise.reject(error);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
