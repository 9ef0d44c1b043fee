/** For how long a process was ready to run while the processors were busy with others, as Linux counts it. */
import { closeSync, openSync, readSync } from "node:fs";

const NS_PER_MS = 1_000_000;

export class RunDelay {
  readonly #buffer = Buffer.alloc(96);
  #file: number | null = null;
  #ms = 0;

  constructor(pid: number | undefined) {
    try {
      this.#file = openSync(`/proc/${pid}/schedstat`, "r");
    } catch {
      // The kernel does not count, or the process could not be started: all of its time counts.
    }
  }

  /** Of the process's main thread since its start, in ms; 0 where it is not known. */
  get ms(): number {
    if (this.#file === null) return 0;
    try {
      const [, nanoseconds] = this.#buffer
        .toString("latin1", 0, readSync(this.#file, this.#buffer, 0, 96, 0))
        .split(" ");
      this.#ms = Number(nanoseconds) / NS_PER_MS;
    } catch {
      // The process has ended.
    }
    return this.#ms;
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }
}
