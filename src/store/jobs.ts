/**
 * SQL on the tables of pg-boss, for questions that its public API does not answer. All of it stands here: it relies on
 * the columns and states of `pgboss.job` and on the order of the states. test/store/jobs.test.ts fails when they, or
 * the version of pg-boss, change.
 */
import type { Tx } from "./postgres/database.ts";
import { runStatement } from "./postgres/statements.ts";

/** Runs a statement outside a transaction, on the queue's own connections. */
export type ExecuteOnQueue = (text: string, values?: readonly unknown[]) => Promise<readonly Record<string, unknown>[]>;

/** One attempt at a job: `retryCount` rises when another worker takes the job over. */
export interface JobAttempt {
  readonly id: string;
  readonly retryCount: number;
}

/** The columns of `pgboss.job` that the statements use. */
export const JOB_COLUMNS = [
  "id",
  "name",
  "singleton_key",
  "state",
  "priority",
  "retry_count",
  "created_on",
  "start_after",
  "keep_until",
  "heartbeat_on",
] as const;

/** The states of a job, in the order of their enum, which `state < 'active'` relies on. */
export const JOB_STATES = ["created", "retry", "active", "completed", "cancelled", "failed"] as const;

/**
 * Renews the leases of these attempts, and returns the ids of the jobs that this worker still holds. Skips locked jobs.
 */
export async function renewJobLeases(
  execute: ExecuteOnQueue,
  queue: string,
  attempts: readonly JobAttempt[],
): Promise<ReadonlySet<string>> {
  const rows = await execute(
    `update pgboss.job set heartbeat_on = pgboss.job_now()
     where name = $1 and id in (
       select j.id from pgboss.job j
       join unnest($2::uuid[], $3::int[]) as held(id, retry_count) on j.id = held.id and j.retry_count = held.retry_count
       where j.name = $1 and j.state = 'active' for update of j skip locked
     )
     returning id`,
    [queue, attempts.map(({ id }) => id), attempts.map(({ retryCount }) => retryCount)],
  );
  return new Set(rows.map(({ id }) => String(id)));
}

/** The attempts that any worker holds. */
export async function activeJobs(execute: ExecuteOnQueue, queue: string): Promise<JobAttempt[]> {
  const rows = await execute("select id, retry_count from pgboss.job where name = $1 and state = 'active'", [queue]);
  return rows.map((row) => ({ id: String(row["id"]), retryCount: Number(row["retry_count"]) }));
}

/**
 * Whether the database server has been up for longer than this time. A start in the future is one after which its clock
 * was set back: the server need not wait until the clock has caught up.
 */
export async function isServerUpFor(execute: ExecuteOnQueue, seconds: number): Promise<boolean> {
  const [row] = await execute("select abs(extract(epoch from now() - pg_postmaster_start_time())) > $1::float8 as up", [
    seconds,
  ]);
  return row?.["up"] === true;
}

/**
 * Brings the newest waiting job of each key forward to now, and returns the keys that had one. A job that is taken
 * while this statement waits for its row no longer counts: the worker may already have read what it was woken for, so
 * the key gets a new job. The priority only rises. Rows are locked in one order, so that two calls for some of the same
 * keys cannot deadlock.
 */
export async function bringJobsForward(
  tx: Tx,
  queue: string,
  { keys, priority }: { readonly keys: readonly string[]; readonly priority: number },
): Promise<ReadonlySet<string>> {
  const { rows } = await runStatement(
    tx,
    `with newest as materialized (
       select distinct on (singleton_key) id from pgboss.job
       where name = $1 and singleton_key = any($2) and state < 'active'
       order by singleton_key, created_on desc
     ), waiting as materialized (
       select id from pgboss.job
       where name = $1 and id in (select id from newest) and state < 'active'
       order by singleton_key for update
     )
     update pgboss.job
     set priority = greatest(priority, $3), start_after = pgboss.job_now(), keep_until = pgboss.job_now() + (keep_until - start_after)
     where name = $1 and id in (select id from waiting) and state < 'active'
     returning singleton_key as key`,
    [queue, keys, priority],
  );
  return new Set(rows.map(({ key }) => String(key)));
}

/**
 * Deletes the jobs that end. An attempt that another worker has taken over is left alone. Rows are locked in the order
 * of their ids first, because a statement that deletes them would lock them in any order. pg-boss deletes expired jobs
 * in any order nevertheless (`failJobsByHeartbeat`). A deadlock with that ends either side, and both repeat their work:
 * `Database.transaction` at once, the supervision of the queue after two seconds.
 *
 * The state is compared as text, which no partial index serves: the plan that reads all unfinished jobs is the cheapest
 * only while there are few.
 */
export async function deleteHeldJobs(tx: Tx, queue: string, attempts: readonly JobAttempt[]): Promise<void> {
  await runStatement(
    tx,
    `with held as materialized (
       select j.id from pgboss.job j
       join unnest($2::uuid[], $3::int[]) as held(id, retry_count) on j.id = held.id and j.retry_count = held.retry_count
       where j.name = $1 and j.state::text = 'active'
       order by j.id for update of j
     )
     delete from pgboss.job where name = $1 and id in (select id from held)`,
    [queue, attempts.map(({ id }) => id), attempts.map(({ retryCount }) => retryCount)],
  );
}

/** Whether jobs are due, or their worker's heartbeat has expired, while no other worker sends heartbeats. */
export async function isQueueUnattended(execute: ExecuteOnQueue, queue: string, seconds: number): Promise<boolean> {
  const [row] = await execute(
    `select exists (
         select from pgboss.job
         where name = $1 and (
           state < 'active' and start_after < pgboss.job_now() - make_interval(secs => $2)
           or state = 'active' and heartbeat_on <= pgboss.job_now() - make_interval(secs => $2)
         )
       )
       and not exists (
         select from pgboss.job
         where name = $1 and state = 'active' and heartbeat_on > pgboss.job_now() - make_interval(secs => $2)
       ) as unattended`,
    [queue, seconds],
  );
  return row?.["unattended"] === true;
}

/** Raises the priority of orphaned jobs, whose worker has died, above that of jobs that were never taken. */
export async function preferOrphanedJobs(execute: ExecuteOnQueue, queue: string, priority: number): Promise<void> {
  await execute("update pgboss.job set priority = $2 where name = $1 and state = 'retry' and priority < $2", [
    queue,
    priority,
  ]);
}

/** The keys that have an unfinished job. */
export async function keysWithJob(
  execute: ExecuteOnQueue,
  queue: string,
  keys: readonly string[],
): Promise<ReadonlySet<string>> {
  const rows = await execute(
    "select singleton_key as key from pgboss.job where name = $1 and singleton_key = any($2) and state <= 'active'",
    [queue, keys],
  );
  return new Set(rows.map(({ key }) => String(key)));
}

/** Whether a key has an unfinished job other than that with the id. */
export async function hasOtherJob(
  tx: Tx,
  queue: string,
  { key, id }: { readonly key: string; readonly id: string },
): Promise<boolean> {
  const { rows } = await runStatement(
    tx,
    `select exists (
       select from pgboss.job where name = $1 and singleton_key = $2 and state <= 'active' and id <> $3
     ) as other`,
    [queue, key, id],
  );
  return rows[0]?.["other"] === true;
}

/**
 * Time of the transaction by the database's clock, in ms since 1970, as precise as the moment of a recorded interrupt.
 */
export async function transactionTimeMs(tx: Tx): Promise<number> {
  const { rows } = await runStatement(tx, "select (extract(epoch from now()::timestamptz(3)) * 1000)::float8 as now");
  return Number(rows[0]?.["now"]);
}

/**
 * pg-boss has no index by key: without the first one, waking a run would read all jobs of the queue, recently ended
 * ones included. Without the second one, finding orphans would read all waiting jobs.
 */
const INDEXES = {
  ostler_job_by_key: "(name, singleton_key) where state <= 'active'",
  ostler_job_lost: "(name) where state = 'retry'",
} as const;
/** An arbitrary key, chosen not to collide with advisory locks of other programs on the same database. */
const INDEX_LOCK = 7_246_519_204;

/**
 * Creates the indexes. A migration cannot, because pg-boss creates its tables itself, after the migrations. Replicas
 * that start together take turns by an advisory lock: `if not exists` alone fails for all but one of them. An index
 * that exists is not created again, because even that attempt would lock the table against writers.
 */
export async function createJobIndexes(execute: ExecuteOnQueue): Promise<void> {
  for (const [name, definition] of Object.entries(INDEXES)) {
    const [row] = await execute("select to_regclass($1) is not null as exists", [`pgboss.${name}`]);
    if (row?.["exists"] === true) continue;
    // A text of two statements without values is one transaction, whose end releases the lock.
    await execute(`
      select pg_advisory_xact_lock(${INDEX_LOCK});
      create index if not exists ${name} on pgboss.job ${definition}`);
  }
}
