/**
 * Gathers work into batches. What is added waits until the current turn of the event loop ends, so that the work of one
 * turn forms one batch. While a batch is in progress, more is gathered until that one has ended or has become slow,
 * because larger batches are cheaper. Nothing waits for a batch to fill.
 */
interface BatchesOptions<Entry> {
  readonly sizeMax: number;
  /** A batch that takes longer is not waited for. */
  readonly slowMs: number;
  /** Batches at a time, slow ones included. */
  readonly concurrency: number;
  /** Entries with the same key are never in one batch: changes of one run follow each other. Default: no keys. */
  readonly keyOf?: (entry: Entry) => unknown;
  /** Never rejects. */
  readonly work: (batch: readonly Entry[]) => Promise<void>;
}

export class Batches<Entry> {
  readonly #options: BatchesOptions<Entry>;
  readonly #gathered: Entry[] = [];
  /** Whether a batch is in progress that is not slow. */
  #isAhead = false;
  #running = 0;
  #isScheduled = false;

  constructor(options: BatchesOptions<Entry>) {
    this.#options = options;
  }

  add(entry: Entry): void {
    this.#gathered.push(entry);
    if (!this.#isScheduled) setImmediate(() => this.#begin());
    this.#isScheduled = true;
  }

  #begin(): void {
    this.#isScheduled = false;
    const { concurrency, slowMs, work } = this.#options;
    if (this.#isAhead || this.#running === concurrency || this.#gathered.length === 0) return;
    this.#isAhead = true;
    this.#running += 1;
    let isAhead = true;
    const letPass = () => {
      if (!isAhead) return;
      isAhead = false;
      this.#isAhead = false;
      this.#begin();
    };
    const slow = setTimeout(letPass, slowMs);
    void work(this.#take()).finally(() => {
      clearTimeout(slow);
      this.#running -= 1;
      letPass();
      this.#begin();
    });
  }

  /** The oldest entries. */
  #take(): Entry[] {
    const { sizeMax, keyOf = (entry: Entry): unknown => entry } = this.#options;
    const keys = new Set<unknown>();
    const batch: Entry[] = [];
    for (let index = 0; index < this.#gathered.length && batch.length < sizeMax;) {
      const entry = this.#gathered[index];
      if (entry === undefined || keys.has(keyOf(entry))) {
        index += 1;
        continue;
      }
      keys.add(keyOf(entry));
      batch.push(entry);
      this.#gathered.splice(index, 1);
    }
    return batch;
  }
}
