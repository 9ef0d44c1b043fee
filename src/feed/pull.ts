/**
 * An asynchronous iterator that is pulled: it produces a batch when the next item is requested and it has none, and
 * holds no more than that batch. It is written by hand because `return()` of an async generator waits for the promise
 * that the generator awaits, so the stream of a disconnected client would not end, and because a change must reach
 * thousands of waiting readers without a promise for each.
 *
 * Modes of a request for an item:
 * - producing: the producer makes the next batch. Items, or the end, settle the request; a `Pause` leads to waiting.
 * - waiting: until a change, the end of the pause, or the reader leaves; then producing again.
 */
import type { Awaitable } from "../runtime/awaitable.ts";
import type { Receiver, Requestable } from "../runtime/requests.ts";

/** The one who requests the items, as the producer sees it. */
export interface Requester {
  /** Whether no items are wanted any more, which a producer that waits may ask. */
  readonly left: boolean;
  /** Ends a pause, as a change does. */
  wake(): void;
}

/** There are no items yet: produce again after a change, or after this time at the latest; 0: at once. */
export interface Pause {
  readonly pauseMs: number;
}

/**
 * Makes the items of one stream. It is one object, not several functions made for each stream: those of thousands of
 * streams are in no processor cache when a change reaches them.
 */
export interface Producer<Item> {
  /** The next items; an empty batch ends the stream. Not called after the end. */
  produce(requester: Requester): Awaitable<readonly Item[] | Pause>;
  /** Calls the listener after a change, until the returned function is called. */
  onChange(listener: () => void): () => void;
  /** Called once, at the end of the stream, whatever ended it. */
  release?(): void;
  /** The item that says why the stream ends early, after the one that its reader received last; null: there is none. */
  last?(received: Item | null): Item | null;
}

export function pulled<Item>(producer: Producer<Item>): PulledIterator<Item> {
  return new PulledIterator(producer);
}

class PulledIterator<Item> implements AsyncIterableIterator<Item>, Requestable<Item>, Requester {
  readonly #producer: Producer<Item>;
  readonly #unsubscribe: () => void;
  #batch: readonly Item[] = [];
  #index = 0;
  #isEnded = false;
  #hasChanged = false;
  /** In the mode waiting. */
  #isWaiting = false;
  #timer: NodeJS.Timeout | undefined;
  /** When the timer is due, by the monotonic clock. */
  #timerAt = 0;
  /** Result of the last request. */
  #last: Promise<IteratorResult<Item>> = Promise.resolve({ done: true, value: undefined });
  /** The request that is producing or waiting. */
  #request: Receiver<Item> | null = null;
  /** True until `request` returns. */
  #isRequesting = false;
  /** Items that were requested and not delivered yet. */
  #requested = 0;

  constructor(producer: Producer<Item>) {
    this.#producer = producer;
    this.#unsubscribe = producer.onChange(() => this.wake());
  }

  get left(): boolean {
    return this.#isEnded;
  }

  wake(): void {
    this.#hasChanged = true;
    if (this.#isWaiting) this.#produceNext();
  }

  /** Delivers one item at a time, in the order of the requests. */
  next(): Promise<IteratorResult<Item>> {
    this.#requested += 1;
    this.#last = this.#requested === 1 ? this.#next() : this.#nextAfter(this.#last);
    return this.#last;
  }

  request(receiver: Receiver<Item>): void {
    this.#requested += 1;
    this.#isRequesting = true;
    this.#start(receiver);
    this.#isRequesting = false;
  }

  /** Whether the next item exists already. */
  get hasReady(): boolean {
    return this.#index < this.#batch.length;
  }

  /** Takes at most this many further items that exist already; none while another item is requested. */
  takeReady(most: number): readonly Item[] {
    if (this.#requested > 0) return [];
    const ready = this.#batch.slice(this.#index, this.#index + most);
    this.#index += ready.length;
    return ready;
  }

  /** Ends it at once. Returns the last item for a reader that has the items up to `received`; null: there is none. */
  endAfter(received: Item | null): Item | null {
    if (this.#isEnded) return null;
    this.#end();
    return this.#producer.last?.(received) ?? null;
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

  #nextAfter(last: Promise<unknown>): Promise<IteratorResult<Item>> {
    const following = () => this.#next();
    return last.then(following, following);
  }

  #next(): Promise<IteratorResult<Item>> {
    return new Promise((resolve, reject) => this.#start({ resolve, reject }));
  }

  #start(request: Receiver<Item>): void {
    this.#request = request;
    if (this.#isEnded || this.#index < this.#batch.length) this.#deliver();
    else this.#produceNext();
  }

  #produceNext(): void {
    this.#isWaiting = false;
    if (this.#isEnded) return this.#deliver();
    this.#hasChanged = false;
    let produced: Awaitable<readonly Item[] | Pause>;
    try {
      produced = this.#producer.produce(this);
    } catch (error) {
      return this.#fail(error);
    }
    if (!(produced instanceof Promise)) return this.#take(produced);
    produced.then(
      (made) => this.#take(made),
      (error: unknown) => this.#fail(error),
    );
  }

  #take(produced: readonly Item[] | Pause): void {
    if ("pauseMs" in produced) return this.#pause(produced.pauseMs);
    this.#batch = produced;
    this.#index = 0;
    this.#deliver();
  }

  #pause(milliseconds: number): void {
    if (this.#hasChanged || this.#isEnded || milliseconds <= 0) return this.#produceNext();
    this.#isWaiting = true;
    // A timer that is due earlier is kept: the producer then asks for the rest of the pause. So a stream that is woken
    // often does not start a timer each time.
    const at = performance.now() + milliseconds;
    if (this.#timer && this.#timerAt <= at) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#isWaiting) this.#produceNext();
    }, milliseconds);
  }

  /** Settles the request with the next item of the batch, or with the end. */
  #deliver(): void {
    if (this.#isRequesting) return queueMicrotask(() => this.#deliver());
    const item = this.#isEnded ? undefined : this.#batch[this.#index];
    this.#index += 1;
    this.#settled()?.resolve(item === undefined ? this.#end() : { done: false, value: item });
  }

  #fail(error: unknown): void {
    if (this.#isRequesting) return queueMicrotask(() => this.#fail(error));
    const request = this.#settled();
    this.#end();
    request?.reject(error);
  }

  /** The request, which is settled now. */
  #settled(): Receiver<Item> | null {
    const request = this.#request;
    this.#request = null;
    this.#requested -= 1;
    return request;
  }

  #end(): IteratorResult<Item> {
    if (!this.#isEnded) this.#producer.release?.();
    this.#isEnded = true;
    this.#batch = [];
    this.#unsubscribe();
    clearTimeout(this.#timer);
    if (this.#isWaiting) this.#produceNext();
    return { done: true, value: undefined };
  }
}
