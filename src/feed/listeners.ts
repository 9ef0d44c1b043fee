/**
 * Listeners that are called when a log has advanced. Thousands are called in slices, and the event loop goes round
 * between two of them: what the first ones send leaves while others are called, and requests do not wait for all.
 */
const SLICE = 250;

export class Listeners {
  readonly #listeners = new Set<() => void>();
  /** Those of the present round that are still to be called; null between rounds. */
  #rest: Iterator<() => void> | null = null;
  #isDueAgain = false;

  get size(): number {
    return this.#listeners.size;
  }

  /** Adds a listener, and returns the function that removes it. */
  add(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Calls all, the first ones at once. During a round: all once more after it. */
  notify(): void {
    if (this.#rest) {
      this.#isDueAgain = true;
      return;
    }
    this.#isDueAgain = false;
    this.#rest = [...this.#listeners].values();
    this.#callSlice(this.#rest);
  }

  /** Calls all at once. */
  notifyAtOnce(): void {
    for (const listener of this.#listeners) listener();
  }

  #callSlice(rest: Iterator<() => void>): void {
    for (let called = 0; called < SLICE; called += 1) {
      const { done, value } = rest.next();
      if (done) {
        this.#rest = null;
        if (this.#isDueAgain) this.notify();
        return;
      }
      if (this.#listeners.has(value)) value();
    }
    setImmediate(() => this.#callSlice(rest));
  }
}
