/**
 * Turns of the streams that catch up: one at a time in the whole process, in the order of their requests, and after
 * each the event loop goes round once, so that live streams and requests are not held up. A turn is one statement to
 * the database at most, so all streams that catch up use one connection together. While the process also writes, they
 * get a share of the time: after each turn they rest for five times as long as it took, and turns are short.
 */
import { setImmediate as nextTurn, setTimeout as delay } from "node:timers/promises";

/**
 * Rest after a turn, as a multiple of its duration, while the process writes. Streams that catch up then have a sixth
 * of the time of the event loop, so that other work takes at most a fifth longer.
 */
const REST = 5;
/**
 * Items of a turn. They are read and executed together, so short turns cost more for each item; but all other work
 * waits for the end of a turn at each of its steps, so turns are about a millisecond while the process writes.
 */
const ITEMS = 100;
const ITEMS_WHILE_BUSY = 20;
/**
 * Maximum rest, in milliseconds: a turn that waited for a busy database must not stop the next ones for long. A window
 * of changes takes PostgreSQL 120 ms (change-windows.ts), for which the rest is nearly whole.
 */
const REST_MS_MAX = 500;

export interface Turns {
  /** Maximum number of items of a turn that begins now. */
  readonly items: number;
  /** Runs `work` when its turn has come. Further turns wait until it has ended and the event loop went round. */
  take<Result>(work: () => Promise<Result>): Promise<Result>;
}

interface TurnsOptions {
  /** Whether the process has other work that must not be delayed. */
  readonly isBusy: () => boolean;
  /** Waits between two turns; replaced in tests. */
  readonly rest?: (milliseconds: number) => Promise<unknown>;
}

export function createTurns({ isBusy, rest = delay }: TurnsOptions): Turns {
  let last: Promise<unknown> = Promise.resolve();
  return {
    get items() {
      return isBusy() ? ITEMS_WHILE_BUSY : ITEMS;
    },
    take(work) {
      const { promise: started, resolve: start } = Promise.withResolvers<number>();
      const result = last.then(() => {
        start(performance.now());
        return work();
      });
      const ended = result.then(
        () => {},
        () => {},
      );
      last = started.then(async (startedAt) => {
        await ended;
        // What the turn read is sent before the event loop goes round.
        await nextTurn();
        if (isBusy()) await rest(Math.min(REST_MS_MAX, REST * (performance.now() - startedAt)));
      });
      return result;
    },
  };
}
