/**
 * Finds runs without a job: unfinished and due; and discoveries likewise. The queue itself hands the job of a dead
 * process to another one when its lease expires. This is the safety net for jobs that an operator deleted, or a queue
 * that was rebuilt. It looks at the start and then once a minute, at all runs page by page, because most runs that have
 * not changed for a while are in a long step; and at the oldest discoveries.
 */
import type { Log } from "../../log.ts";
import type { Database } from "../../store/postgres/database.ts";
import { unfinishedDiscoveries } from "../../store/discoveries.ts";
import { endStaleSessions } from "../../store/agent-sessions.ts";
import { neglectedRuns } from "../../store/parked-runs.ts";
import type { Queue } from "../jobs/queue.ts";

/** Longer than a lease: until then the queue may hand the job over. */
const NEGLECTED_SECONDS = 60;
const EVERY_MS = 60_000;
const PAGE = 200;

export interface Recovery {
  close(): void;
}

export function startRecovery(parts: {
  readonly database: Database;
  readonly queue: Queue;
  readonly log: Log;
}): Recovery {
  const { database, queue, log } = parts;
  const sweep = async () => {
    let restored = 0;
    for (let after: string | null = null, more = true; more;) {
      const found: string[] = await neglectedRuns(database.reader, { seconds: NEGLECTED_SECONDS, after, limit: PAGE });
      restored += await queue.restore(found);
      after = found.at(-1) ?? after;
      more = found.length === PAGE;
    }
    if (restored > 0) log.warn({ runs: restored }, "runs without a job were given a new one");
    const discoveries = await queue.restoreDiscoveries(
      await unfinishedDiscoveries(database.reader, NEGLECTED_SECONDS, PAGE),
    );
    // The sessions of agents end with their runs, and the arguments of their tasks are not kept.
    while ((await database.transaction((tx) => endStaleSessions(tx, PAGE))) === PAGE);
    if (discoveries > 0) log.warn({ discoveries }, "discoveries without a job were given a new one");
  };
  const attempt = () =>
    void sweep().catch((error: unknown) =>
      log.warn({ err: error }, "the search for runs without a job failed; it is retried"),
    );
  attempt();
  const timer = setInterval(attempt, EVERY_MS);
  return { close: () => clearInterval(timer) };
}
