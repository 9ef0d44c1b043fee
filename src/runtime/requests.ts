/**
 * Items that are requested without a promise for each: a promise costs more than the delivery of a small item, which
 * thousands of streams have at the same time.
 */

/** Receives one item of an iterator, or its end. Its functions do not throw. */
export interface Receiver<Item> {
  resolve(result: IteratorResult<Item, unknown>): void;
  reject(error: unknown): void;
}

/** An iterator whose items can be requested in two ways. */
export interface Requestable<Item> {
  /**
   * Requests the next item. The receiver is not called before this returns. The next request of either kind follows
   * only when the receiver was called.
   */
  request(receiver: Receiver<Item>): void;
}

/** Requests the next item of any iterator. */
export function requestNext<Item>(
  from: AsyncIterator<Item, unknown> & Partial<Requestable<Item>>,
  receiver: Receiver<Item>,
): void {
  if (from.request) from.request(receiver);
  else
    from.next().then(
      (result) => receiver.resolve(result),
      (error: unknown) => receiver.reject(error),
    );
}
