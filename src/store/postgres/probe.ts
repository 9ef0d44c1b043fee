/**
 * Looks at the database before anything is built on it: whether it can be reached, whether it is new enough, and whether a
 * pooler stands before it. A pooler is known by a process id: the one that a connection is told when it begins is the
 * pooler's invention, another than the server's own.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Sql } from "postgres";
import { isConnectionLoss } from "./connection-errors.ts";

export interface Probed {
  /** Whether something between us and the server shares its connections out. */
  readonly isPooled: boolean;
  /** How many connections the server takes. */
  readonly connectionsMax: number;
}

const SERVER_VERSION_MIN = 150_000;
const RETRY_MS = 1_000;

/** `sql`: a connection without settings of its own, which a pooler might refuse. */
export async function probe(sql: Sql): Promise<Probed> {
  const query = sql`select pg_backend_pid() as pid, current_setting('server_version_num')::int as version, current_setting('max_connections')::int as most`;
  const [row] = await query;
  const version = Number(row?.["version"]);
  if (version < SERVER_VERSION_MIN)
    throw new Error(`Ostler needs PostgreSQL 15 or later; this server is ${Math.floor(version / 10_000)}.`);
  // postgres.js does not show in its types which connection a statement was sent on.
  const { state } = query as unknown as { readonly state: { readonly pid: number } | null };
  return { isPooled: state !== null && state.pid !== Number(row?.["pid"]), connectionsMax: Number(row?.["most"]) };
}

/** Does what needs the database again and again as long as that is away, for so many seconds at most; what else fails, fails at once. */
export async function untilThere<T>(
  work: () => Promise<T>,
  seconds: number,
  onWait: (error: unknown) => void,
): Promise<T> {
  const until = performance.now() + seconds * 1_000;
  for (let told = false; ; told = true) {
    try {
      return await work();
    } catch (error) {
      if (!isConnectionLoss(error) || performance.now() + RETRY_MS > until) throw error;
      if (!told) onWait(error);
    }
    await delay(RETRY_MS);
  }
}
