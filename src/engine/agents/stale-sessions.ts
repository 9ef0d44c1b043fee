/**
 * Ends the sessions of agents with their runs, at the start and then once a minute: the arguments of their tasks are
 * not kept.
 */
import type { Log } from "../../log.ts";
import { endSessionsOfEndedRuns } from "../../store/runs/agent-sessions.ts";
import type { Database } from "../../store/postgres/database.ts";

const EVERY_MS = 60_000;
const PAGE = 200;

export function endStaleSessions(database: Database, log: Log): { close(): void } {
  const sweep = async () => {
    while ((await database.transaction((tx) => endSessionsOfEndedRuns(tx, PAGE))) === PAGE);
  };
  const attempt = () =>
    void sweep().catch((error: unknown) =>
      log.warn({ err: error }, "sessions of agents could not be ended; trying again"),
    );
  attempt();
  const timer = setInterval(attempt, EVERY_MS);
  return { close: () => clearInterval(timer) };
}
