/** A map of limited size that drops the entries that were not used for the longest time. */
export class LruMap<Key, Value> {
  readonly #entries = new Map<Key, Value>();
  readonly #max: number;
  readonly #weightOf: (key: Key) => number;
  #weight = 0;

  /** `max`: the total weight of the entries. Each weighs 1 unless `weightOf` says otherwise. */
  constructor(max: number, weightOf: (key: Key) => number = () => 1) {
    this.#max = max;
    this.#weightOf = weightOf;
  }

  get size(): number {
    return this.#entries.size;
  }

  has(key: Key): boolean {
    return this.#entries.has(key);
  }

  /** The value, which becomes the most recently used. */
  get(key: Key): Value | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  set(key: Key, value: Value): void {
    this.delete(key);
    this.#entries.set(key, value);
    this.#weight += this.#weightOf(key);
    for (const oldest of this.#entries.keys()) {
      if (this.#weight <= this.#max) break;
      this.delete(oldest);
    }
  }

  delete(key: Key): boolean {
    if (!this.#entries.delete(key)) return false;
    this.#weight -= this.#weightOf(key);
    return true;
  }
}
