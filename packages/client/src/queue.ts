/** A FIFO queue with O(1) `take`, which releases the item: it may hold the snapshot of a large fleet. */
export interface Queue<Item> {
  readonly length: number;
  push(item: Item): void;
  /** Removes and returns the oldest item. */
  take(): Item | undefined;
}

interface Link<Item> {
  readonly item: Item;
  next: Link<Item> | null;
}

export function createQueue<Item>(): Queue<Item> {
  let first: Link<Item> | null = null;
  let last: Link<Item> | null = null;
  let length = 0;
  return {
    get length() {
      return length;
    },
    push(item) {
      const link = { item, next: null };
      if (last) last.next = link;
      else first = link;
      last = link;
      length += 1;
    },
    take() {
      if (!first) return undefined;
      const { item, next } = first;
      first = next;
      if (!next) last = null;
      length -= 1;
      return item;
    },
  };
}
