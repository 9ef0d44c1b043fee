/**
 * Notices when the clock of the database is set, and corrects the times for which something waits: otherwise a clock
 * that is set back would leave parked runs waiting for as long, and one that is set forward would end waits, deadlines
 * and leases early. With the embedded database it is the clock of the machine, which NTP may set after the boot.
 *
 * A replica compares the progress of that clock with its own monotonic clock. A step forward must also show in the
 * stored time at which any replica last looked: a replica that was suspended sees a step that the others do not. A step
 * back shows in that time alone, so it is also noticed when the service starts again. A step forward while no replica
 * runs looks like time that has passed.
 *
 * The replica that locks the clock first makes the correction. The others see the number of corrections and take the
 * new time as it is.
 */
import type { Log } from "../../log.ts";
import type { Observer } from "../../observer.ts";
import { lockClock, markClockSeen, readClock, shiftWaitingTimes } from "../../store/clock.ts";
import type { ClockReading } from "../../store/clock.ts";
import type { Database } from "../../store/postgres/database.ts";

/** The smallest step that is corrected. Clocks that are slewed stay far below it. */
const STEP_MS = 3_000;
/** A reading that took longer is too inexact, and is repeated at the next look. */
const READING_MS = 1_000;
/** Time between two records that a replica has looked; shorter than a step. */
const MARK_EVERY_MS = 1_000;

interface Look extends ClockReading {
  /** By the monotonic clock. */
  readonly at: number;
}

interface ClockWatchParts {
  readonly database: Database;
  readonly log: Log;
  readonly observer: Observer;
}

export class ClockWatch {
  readonly #parts: ClockWatchParts;
  #last: Look | null = null;
  /** The first look records nothing: only a second look can distinguish a step forward from time that has passed. */
  #markedAt = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> | undefined;

  constructor(parts: ClockWatchParts) {
    this.#parts = parts;
  }

  /**
   * To be called before work that is due by the clock of the database is taken. Callers at the same time share a look.
   */
  async check(): Promise<void> {
    this.#looking ??= this.#look().finally(() => (this.#looking = undefined));
    await this.#looking;
  }

  async #look(): Promise<void> {
    const { reader } = this.#parts.database;
    const asked = performance.now();
    const reading = await readClock(reader);
    const at = performance.now();
    if (at - asked > READING_MS) return;
    const look = { ...reading, at };
    const stepMs = stepBetween(this.#last, look);
    if (stepMs !== 0) await this.#correct(look, stepMs);
    else if (this.#last && at - this.#markedAt > MARK_EVERY_MS) {
      await markClockSeen(reader);
      this.#markedAt = at;
    }
    this.#last = stepMs === 0 ? look : null;
  }

  async #correct({ steps }: ClockReading, stepMs: number): Promise<void> {
    const { database, log, observer } = this.#parts;
    const isOurs = await database.transaction(async (tx) => {
      if ((await lockClock(tx)).steps !== steps) return false;
      await shiftWaitingTimes(tx, stepMs);
      return true;
    });
    if (!isOurs) return;
    observer.clockStepped();
    log.warn(
      { seconds: Math.round(stepMs / 1_000) },
      "the clock of the database was set; all waits, deadlines and leases were corrected by the difference",
    );
  }
}

/** By how much the clock was set between two looks, in ms; 0 if it was not, or another replica has corrected it. */
export function stepBetween(last: Look | null, look: Look): number {
  if (last && last.steps !== look.steps) return 0;
  const sinceSeen = look.now - look.seenAt;
  const stepMs = last ? look.now - last.now - (look.at - last.at) : Math.min(0, sinceSeen);
  if (Math.abs(stepMs) < STEP_MS) return 0;
  // After a step forward by this much, no replica has seen the time in between.
  return stepMs < 0 || sinceSeen > stepMs - STEP_MS ? stepMs : 0;
}
