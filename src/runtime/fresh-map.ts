/** A map whose entries are used for a moment only. A timer drops them, so that what is not used again is not kept. */
export class FreshMap<Value> {
  /** In the order in which they were set, oldest first. */
  readonly #entries = new Map<string, { readonly setAt: number; readonly value: Value }>();
  readonly #freshMs: number;
  readonly #max: number;
  #timer: NodeJS.Timeout | undefined;

  /** `freshMs`: how long an entry is used. `max`: number of entries, of which the oldest are dropped first. */
  constructor(freshMs: number, max = Number.POSITIVE_INFINITY) {
    this.#freshMs = freshMs;
    this.#max = max;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    return entry && performance.now() - entry.setAt <= this.#freshMs ? entry.value : undefined;
  }

  set(key: string, value: Value): void {
    this.#entries.delete(key);
    this.#entries.set(key, { setAt: performance.now(), value });
    this.#dropOld();
  }

  /** Drops the entry if it still has this value. */
  drop(key: string, value: Value): void {
    if (this.#entries.get(key)?.value === value) this.#entries.delete(key);
  }

  #dropOld(): void {
    const now = performance.now();
    for (const [key, { setAt }] of this.#entries) {
      if (now - setAt <= this.#freshMs && this.#entries.size <= this.#max) break;
      this.#entries.delete(key);
    }
    if (this.#timer !== undefined || this.#entries.size === 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#dropOld();
    }, this.#freshMs).unref();
  }
}
