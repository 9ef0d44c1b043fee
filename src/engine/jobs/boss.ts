/**
 * pg-boss, opened with the queues of the engine. It decides which replica works on a job (leases by heartbeat,
 * takeover, delays). It does not decide which replica may write about a run: the run's fence does.
 *
 * The queues' policy is `standard`, not `stately`: with `stately`, pg-boss skips jobs whose key was active when its
 * statistics were last read, so a run that parks or is taken over could wait a minute for nothing.
 */
import { PgBoss } from "pg-boss";
import type { Log } from "../../log.ts";
import { createJobIndexes } from "../../store/jobs.ts";
import type { ExecuteOnQueue } from "../../store/jobs.ts";
import type { Connection, Tx } from "../../store/postgres/database.ts";
import { runStatement } from "../../store/postgres/statements.ts";

export const RUNS = "runs";
export const TIMERS = "timers";
export const DISCOVERIES = "discoveries";
export const QUEUES = [RUNS, TIMERS, DISCOVERIES] as const;

export const SUPERVISE_SECONDS = 2;
/** Time after which a dead worker's lease expires; the smallest that pg-boss allows. */
const HEARTBEAT_SECONDS = 10;

/** Options that pg-boss passes on to pg, in ms: detect connections that were lost silently, idle or in use. */
const DEAD_CONNECTIONS = { keepAlive: true, keepAliveInitialDelayMillis: 10_000, query_timeout: 30_000 };

/** Jobs are retried without limit: only the engine decides that a run has failed. */
const JOB_OPTIONS = {
  retryLimit: 1_000_000,
  retryDelay: 1,
  deleteAfterSeconds: 600,
  retentionSeconds: 10 * 365 * 86_400,
  expireInSeconds: 86_000,
};

export interface BossOptions {
  readonly connection: Connection;
  readonly log: Log;
  readonly connectionsMax: number;
}

export async function openBoss({ connection, log, connectionsMax }: BossOptions): Promise<PgBoss> {
  const boss = new PgBoss({
    ...("url" in connection ? { connectionString: connection.url } : connection),
    schema: "pgboss",
    application_name: "ostler-queue",
    max: connectionsMax,
    ...DEAD_CONNECTIONS,
    schedule: false,
    supervise: false,
    monitorIntervalSeconds: SUPERVISE_SECONDS,
    // It reads the statistics of all the queue's tables at each supervision, for warnings that the engine ignores.
    monitorVacuum: false,
  });
  boss.on("error", (error) => log.warn({ err: error }, "queue"));
  try {
    await boss.start();
    for (const queue of QUEUES)
      await boss.createQueue(queue, { policy: "standard", heartbeatSeconds: HEARTBEAT_SECONDS, ...JOB_OPTIONS });
    await createJobIndexes(executeOn(boss));
  } catch (error) {
    await boss.stop({ graceful: false }).catch(() => {});
    throw error;
  }
  return boss;
}

/** Runs statements on the connections of pg-boss. */
export function executeOn(boss: PgBoss): ExecuteOnQueue {
  return async (text, values = []) => {
    const { rows } = (await boss.getDb().executeSql(text, [...values])) as {
      readonly rows: readonly Record<string, unknown>[];
    };
    return rows;
  };
}

/** Makes pg-boss run its statements inside a transaction of the store. */
export function within(tx: Tx) {
  return { db: { executeSql: (text: string, values?: unknown[]) => runStatement(tx, text, values) } };
}
