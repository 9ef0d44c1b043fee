/**
 * Inspects the database before it is used: whether it is reachable and new enough, and whether a pooler stands before
 * it. A pooler is detected by a process ID: the one reported when a connection opens is the pooler's own, and differs
 * from that of the server process.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Sql } from "postgres";
import { isConnectionLoss } from "./connection-errors.ts";

export interface Probed {
  /** True if a pooler shares the server's connections. */
  readonly isPooled: boolean;
  /** `max_connections` of the server. */
  readonly connectionsMax: number;
}

const SERVER_VERSION_MIN = 150_000;
const RETRY_MS = 1_000;

/** `sql`: a connection without settings, which a pooler might reject. */
export async function probe(sql: Sql): Promise<Probed> {
  const query = sql`select pg_backend_pid() as pid, current_setting('server_version_num')::int as version, current_setting('max_connections')::int as most`;
  const [row] = await query;
  const version = Number(row?.["version"]);
  if (version < SERVER_VERSION_MIN)
    throw new Error(`Ostler needs PostgreSQL 15 or later; this server is ${Math.floor(version / 10_000)}.`);
  // The types of postgres.js do not show which connection a statement was sent on.
  const { state } = query as unknown as { readonly state: { readonly pid: number } | null };
  return { isPooled: state !== null && state.pid !== Number(row?.["pid"]), connectionsMax: Number(row?.["most"]) };
}

/**
 * Runs `work`, and again each second while the database is unreachable, for `seconds` at most. Other errors are thrown
 * at once.
 */
export async function retryUntilReachable<T>(
  work: () => Promise<T>,
  seconds: number,
  onWait: (error: unknown) => void,
): Promise<T> {
  const until = performance.now() + seconds * 1_000;
  for (let isReported = false; ; isReported = true) {
    try {
      return await work();
    } catch (error) {
      if (!isConnectionLoss(error) || performance.now() + RETRY_MS > until) throw error;
      if (!isReported) onWait(error);
    }
    await delay(RETRY_MS);
  }
}
