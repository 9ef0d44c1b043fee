/**
 * Joins what is written to a connection in one turn of the event loop, so that a page of items costs one system call.
 */

import type { Writable } from "node:stream";

/** Functions that uncork the streams of this turn at its end. */
let corked: (() => void)[] = [];

function uncorkAll(): void {
  const ready = corked;
  corked = [];
  for (const uncork of ready) uncork();
}

/** A function to call before each write: writes of the same turn leave together at its end. */
export function createCork(stream: Writable): () => void {
  let isCorked = false;
  const uncork = () => {
    isCorked = false;
    // The end of a stream uncorks it.
    if (!stream.writableEnded) stream.uncork();
  };
  return () => {
    if (isCorked || stream.writableEnded) return;
    isCorked = true;
    stream.cork();
    if (corked.push(uncork) === 1) setImmediate(uncorkAll);
  };
}
