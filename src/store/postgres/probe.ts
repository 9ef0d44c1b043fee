/**
 * Inspects the database before it is used: whether it is reachable and new enough, and whether a pooler stands before
 * it. A pooler is detected by a process ID: the one reported when a connection opens is the pooler's own, and differs
 * from that of the server process.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Sql } from "postgres";
import { isConnectionLoss } from "./connection-errors.ts";
import { ownSettings, unsuitable } from "./session-settings.ts";
import type { Settings } from "./session-settings.ts";

export interface Probed {
  /** True if a pooler shares the server's connections. */
  readonly isPooled: boolean;
  /** The settings that a session without a pooler sets. */
  readonly settings: Settings;
  /** How many connections the role may open to the database. */
  readonly connectionsMax: number;
}

const SERVER_VERSION_MIN = 150_000;
const RETRY_MS = 1_000;

/** `sql`: a connection without settings, which a pooler might reject. */
export async function probe(sql: Sql): Promise<Probed> {
  const query = sql`
    select pg_backend_pid() as pid, current_setting('server_version_num')::int as version,
      least(
        current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
          - coalesce(current_setting('reserved_connections', true)::int, 0),
        (select nullif(rolconnlimit, -1) from pg_roles where rolname = current_user),
        (select nullif(datconnlimit, -1) from pg_database where datname = current_database())
      ) as most,
      (select json_object_agg(name, setting) from pg_settings) as settings`;
  const [row] = await query;
  const version = Number(row?.["version"]);
  if (version < SERVER_VERSION_MIN)
    throw new Error(`Ostler needs PostgreSQL 15 or later; this server is ${Math.floor(version / 10_000)}.`);
  // The types of postgres.js do not show which connection a statement was sent on.
  const { state } = query as unknown as { readonly state: { readonly pid: number } | null };
  const isPooled = state !== null && state.pid !== Number(row?.["pid"]);
  const shown = row?.["settings"] as Settings;
  // Other encodings lack characters that callers may use, and count them in other ways.
  if (shown["server_encoding"] !== "UTF8")
    throw new Error(
      `Ostler needs a database with the encoding UTF8; this one has ${shown["server_encoding"]}: create database … encoding 'UTF8' template template0.`,
    );
  requireSettings({
    ...(isPooled && unsuitable(shown)),
    // In another role the triggers, which count nodes and note changes, do not run.
    ...(shown["session_replication_role"] !== "origin" && { session_replication_role: "origin" }),
  });
  return { isPooled, settings: ownSettings(shown), connectionsMax: Number(row?.["most"]) };
}

/** `wrong`: the settings with other values, and the values that they need. */
function requireSettings(wrong: Settings): void {
  const needed = Object.entries(wrong).map(([name, value]) => `set ${name} = '${value}'`);
  if (needed.length > 0)
    throw new Error(
      `The role or the database has settings with which Ostler does not work. Change them: ${needed.map((change) => `alter role … ${change}`).join("; ")}.`,
    );
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
