/**
 * Joins what is written to a connection in one turn of the event loop, so that a page of items costs one system call.
 */

import type { Writable } from "node:stream";

/** Those of this turn, which are released at its end. */
let corks: Cork[] = [];

function releaseAll(): void {
  const ready = corks;
  corks = [];
  for (const cork of ready) cork.release();
}

/** Writes to the stream leave together at the end of a turn. */
export class Cork {
  readonly #stream: Writable;
  #isHeld = false;

  constructor(stream: Writable) {
    this.#stream = stream;
  }

  /** To be called before each write. */
  hold(): void {
    if (this.#isHeld || this.#stream.writableEnded) return;
    this.#isHeld = true;
    this.#stream.cork();
    if (corks.push(this) === 1) setImmediate(releaseAll);
  }

  /** Called at the end of the turn. */
  release(): void {
    this.#isHeld = false;
    // The end of a stream uncorks it.
    if (!this.#stream.writableEnded) this.#stream.uncork();
  }
}
