/**
 * An asynchronous iterator that is pulled: it produces a batch when the next item is requested and it has none, and
 * holds no more than that batch. It is written by hand because `return()` of an async generator waits for the promise
 * that the generator awaits, so the stream of a disconnected client would not end.
 */

/** How a producer waits between two reads. */
export interface Waiter {
  /** Waits for a change, at most this long. Resolves at once when the reader has left. */
  wait(milliseconds: number): Promise<void>;
  /** Ends the wait, or the next one: something else has changed. */
  wake(): void;
  /** True when the reader has left. */
  readonly left: boolean;
}

/** A pulled iterator. */
export interface PulledItems<Item> extends AsyncIterableIterator<Item> {
  /** Takes at most this many further items that exist already; none while another item is requested. */
  takeReady(most: number): readonly Item[];
}

/** The next items; an empty batch ends the stream. */
export type Producer<Item> = (waiter: Waiter) => Promise<readonly Item[]>;

/** `release` is called once, at the end of the stream, whatever ended it. */
export function pulled<Item>(
  onChange: (listener: () => void) => () => void,
  produce: Producer<Item>,
  release: () => void = () => {},
): PulledItems<Item> {
  return new PulledIterator(onChange, produce, release);
}

class PulledIterator<Item> implements PulledItems<Item> {
  readonly #produce: Producer<Item>;
  readonly #release: () => void;
  readonly #unsubscribe: () => void;
  readonly #waiter: Waiter;
  #batch: readonly Item[] = [];
  #index = 0;
  #isEnded = false;
  #hasChanged = false;
  #wake = () => {};
  #last: Promise<unknown> = Promise.resolve();
  /** Items that were requested and not delivered yet. */
  #requested = 0;

  constructor(onChange: (listener: () => void) => () => void, produce: Producer<Item>, release: () => void) {
    this.#produce = produce;
    this.#release = release;
    const change = () => {
      this.#hasChanged = true;
      this.#wake();
    };
    const hasLeft = () => this.#isEnded;
    this.#waiter = {
      get left() {
        return hasLeft();
      },
      wait: (milliseconds) => this.#wait(milliseconds),
      wake: change,
    };
    this.#unsubscribe = onChange(change);
  }

  /** Delivers one item at a time, in the order of the requests. */
  next(): Promise<IteratorResult<Item>> {
    this.#requested += 1;
    const following = () => this.#next();
    const result = this.#requested === 1 ? following() : this.#last.then(following, following);
    this.#last = result;
    return result;
  }

  takeReady(most: number): readonly Item[] {
    if (this.#requested > 0) return [];
    const ready = this.#batch.slice(this.#index, this.#index + most);
    this.#index += ready.length;
    return ready;
  }

  return(): Promise<IteratorResult<Item>> {
    return Promise.resolve(this.#end());
  }

  throw(error: unknown): Promise<IteratorResult<Item>> {
    this.#end();
    return Promise.reject(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #wait(milliseconds: number): Promise<void> {
    if (!this.#hasChanged && !this.#isEnded) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, milliseconds);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = () => {};
    }
    this.#hasChanged = false;
  }

  #end(): IteratorResult<Item> {
    if (!this.#isEnded) this.#release();
    this.#isEnded = true;
    this.#batch = [];
    this.#unsubscribe();
    this.#wake();
    return { done: true, value: undefined };
  }

  async #next(): Promise<IteratorResult<Item>> {
    try {
      if (this.#index >= this.#batch.length && !this.#isEnded) {
        this.#batch = await this.#produce(this.#waiter);
        this.#index = 0;
      }
      if (this.#isEnded) return this.#end();
      const item = this.#batch[this.#index];
      if (item === undefined) return this.#end();
      this.#index += 1;
      return { done: false, value: item };
    } catch (error) {
      this.#end();
      throw error;
    } finally {
      this.#requested -= 1;
    }
  }
}
