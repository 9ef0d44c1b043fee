/**
 * Deletes old transitions, changes and rows of the audit: at the start and then once an hour, the oldest first, in
 * batches small enough not to block other statements. Positions and the sequence numbers of each node continue
 * unchanged; a reader whose cursor is older than the remaining rows gets CURSOR_EXPIRED. Several replicas may sweep at
 * the same time.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Log } from "../../log.ts";
import { deleteOldAudit } from "../../store/log/audit.ts";
import { CHANGE_LOG } from "../../store/log/changes.ts";
import type { Database, Tx } from "../../store/postgres/database.ts";
import { deleteOldRows } from "../../store/log/transitions.ts";

const EVERY_MS = 3_600_000;
const BATCH = 5_000;
/** Pause between two batches. */
const REST_MS = 100;

export interface Retention {
  /** Ends after the running batch. */
  close(): Promise<void>;
}

/** Changes are for readers that come back; transitions are the history. */
const CHANGE_DAYS = 7;

/**
 * `days`: how long transitions are kept, and changes if that is shorter; `auditDays`: rows of the audit. 0: they are
 * kept indefinitely.
 */
export function startRetention(parts: {
  readonly database: Database;
  readonly log: Log;
  readonly days: number;
  readonly auditDays: number;
}): Retention {
  const { database, log, days, auditDays } = parts;
  let isClosed = false;

  async function deleteAll(deleteSome: (tx: Tx) => Promise<number>): Promise<number> {
    let total = 0;
    for (let more = true; more && !isClosed;) {
      const deleted = await database.transaction(deleteSome);
      total += deleted;
      more = deleted === BATCH;
      if (more) await delay(REST_MS);
    }
    return total;
  }

  async function sweep(): Promise<void> {
    const transitions = days > 0 ? await deleteAll((tx) => deleteOldRows(tx, { days, limit: BATCH })) : 0;
    const changeDays = days > 0 ? Math.min(days, CHANGE_DAYS) : CHANGE_DAYS;
    await deleteAll((tx) => deleteOldRows(tx, { days: changeDays, limit: BATCH }, CHANGE_LOG));
    const audit = auditDays > 0 ? await deleteAll((tx) => deleteOldAudit(tx, { days: auditDays, limit: BATCH })) : 0;
    if (audit > 0) log.info({ rows: audit, days: auditDays }, "old rows of the audit were deleted");
    if (transitions > 0) log.info({ transitions, days }, "old transitions were deleted");
  }

  let sweeping = Promise.resolve();
  const attempt = () => {
    sweeping = sweeping
      .then(sweep)
      .catch((error: unknown) =>
        log.warn({ err: error }, "old rows of the logs could not be deleted; trying again in an hour"),
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
