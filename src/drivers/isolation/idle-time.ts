/**
 * How long a call has lasted or waited, as this process can judge it: while its event loop is busy, or while it waits
 * for a processor, it does not read that a call has ended. Only the time for which it waits for events counts, and of
 * all time at least a share, so that a process that is never idle recognizes calls that hang.
 */
import { performance } from "node:perf_hooks";
import { RunDelay } from "./run-delay.ts";

export interface Moment {
  /** By `performance.now()`. */
  readonly time: number;
  /** For how long the event loop has waited for events since the start of this process, in ms. */
  readonly idleMs: number;
  /** For how long this process has waited for a processor since its start, in ms. */
  readonly runDelayMs: number;
}

/** A call that hangs is recognized after this many times the time that it is allowed. */
const WALL_SHARE = 20;
/** A reading of the run delay is used for this long: it is a read of a file. */
const READ_EVERY_MS = 2;

const ownDelay = new RunDelay(process.pid);
let readAt = Number.NEGATIVE_INFINITY;
let runDelayMs = 0;

export function momentNow(): Moment {
  const time = performance.now();
  if (time - readAt >= READ_EVERY_MS) {
    runDelayMs = ownDelay.ms;
    readAt = time;
  }
  return { time, idleMs: performance.eventLoopUtilization().idle, runDelayMs };
}

/** Time between two moments that counts. `otherMs`: what does not count for another reason. */
export function idleBetween(from: Moment, to: Moment, otherMs = 0): number {
  const idle = to.idleMs - from.idleMs - (to.runDelayMs - from.runDelayMs) - otherMs;
  return Math.max((to.time - from.time) / WALL_SHARE, idle);
}
