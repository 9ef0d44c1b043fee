/**
 * Deletes old transitions: at the start and then once an hour, the oldest first, in batches small enough not to block
 * other statements. Positions and the sequence numbers of each node continue unchanged; a reader whose cursor is older
 * than the remaining transitions gets CURSOR_EXPIRED. Several replicas may sweep at the same time.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Log } from "../../log.ts";
import type { Database } from "../../store/postgres/database.ts";
import { deleteOldTransitions } from "../../store/transitions.ts";

const EVERY_MS = 3_600_000;
const BATCH = 5_000;
/** Pause between two batches. */
const REST_MS = 100;

export interface Retention {
  /** Ends after the running batch. */
  close(): Promise<void>;
}

/** `days`: more than 0. */
export function startRetention(parts: {
  readonly database: Database;
  readonly log: Log;
  readonly days: number;
}): Retention {
  const { database, log, days } = parts;
  let isClosed = false;

  async function sweep(): Promise<void> {
    let total = 0;
    for (let more = true; more && !isClosed;) {
      const deleted = await database.transaction((tx) => deleteOldTransitions(tx, days, BATCH));
      total += deleted;
      more = deleted === BATCH;
      if (more) await delay(REST_MS);
    }
    if (total > 0) log.info({ transitions: total, days }, "old transitions were deleted");
  }

  let sweeping = Promise.resolve();
  const attempt = () => {
    sweeping = sweeping
      .then(sweep)
      .catch((error: unknown) =>
        log.warn({ err: error }, "old transitions could not be deleted; trying again in an hour"),
      );
  };
  attempt();
  const timer = setInterval(attempt, EVERY_MS);
  return {
    close() {
      isClosed = true;
      clearInterval(timer);
      return sweeping;
    },
  };
}
