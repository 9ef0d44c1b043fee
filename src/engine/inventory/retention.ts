/**
 * Forgets transitions that are older than is wanted: at the start and then once an hour, the oldest first, in batches
 * small enough that nobody waits for them. Positions and the numbers of each node's transitions go on as if nothing had
 * happened; a reader whose cursor is older than what is left is told that it has expired. Processes that do this at the
 * same time do no harm: what one has deleted, the others do not find.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Log } from "../../log.ts";
import type { Database } from "../../store/postgres/database.ts";
import { deleteOldTransitions } from "../../store/transitions.ts";

const EVERY_MS = 3_600_000;
const BATCH = 5_000;
/** Between two batches. */
const REST_MS = 100;

export interface Retention {
  /** Ends after the batch that is under way. */
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
    let forgotten = 0;
    for (let more = true; more && !isClosed;) {
      const deleted = await database.transaction((tx) => deleteOldTransitions(tx, days, BATCH));
      forgotten += deleted;
      more = deleted === BATCH;
      if (more) await delay(REST_MS);
    }
    if (forgotten > 0) log.info({ transitions: forgotten, days }, "transitions from before were deleted");
  }

  let sweeping = Promise.resolve();
  const attempt = () => {
    sweeping = sweeping
      .then(sweep)
      .catch((error: unknown) =>
        log.warn({ err: error }, "old transitions could not be deleted; it is tried again in an hour"),
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
