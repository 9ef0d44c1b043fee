/**
 * The durable queue's one door: pg-boss, and nothing of it shows outside this file. A job is the next stretch of work of
 * one run; it is stored, ended and stored again inside our own transactions, so there is never a run without its job
 * nor a job without its run. Timers of operations and discoveries have queues of their own beside the runs'.
 *
 * pg-boss decides who works (leases by heartbeat, take-over, delays). It does not decide who may write: that is the run's
 * fence. The queue's policy is `standard`, not `stately`: there pg-boss leaves out jobs whose key was active when its
 * statistics were last read, so a run that parks or is taken over may wait a minute for nothing. Jobs are fetched in
 * batches by a loop of ours rather than by pg-boss's workers, which would poll one by one and rest after each job.
 *
 * Modes of the loop: it fetches as long as batches come back full; then it sleeps until the doorbell, a delay that this
 * process knows of, or the poll. `rest` ends fetching; `stop` also waits, for a time, until what is running has come to a boundary and was handed back.
 */
import { setImmediate as turn } from "node:timers/promises";
import { PgBoss } from "pg-boss";
import type { Job } from "pg-boss";
import type { Log } from "../../log.ts";
import { noopObserver } from "../../observer.ts";
import type { Observer } from "../../observer.ts";
import type { Notifier } from "../../store/postgres/notifier.ts";
import { runStatement } from "../../store/postgres/statements.ts";
import type { Connection, Tx } from "../../store/postgres/database.ts";
import { createLeases, isFresh } from "./leases.ts";
import type { HeldJob, Lease } from "./leases.ts";
import { withTimeout, startPeriodic } from "../../runtime/periodic.ts";
import type { Transaction } from "../transaction.ts";

/** STOP: the time for a graceful stop is over. WAVE: the pause between two waves is. */
export interface Timer {
  readonly operationId: string;
  readonly what: "STOP" | "WAVE";
}

export interface QueueHandlers {
  /** Works on a run until it ends or parks. Must end the job in a transaction of its own (`park` or `end`). */
  run(runId: string, job: HeldJob): Promise<void>;
  /** A timer of an operation has run down. `setAt`: when it was set, by the database's clock, in ms since 1970. */
  timer(timer: Timer & { readonly setAt: number }): Promise<void>;
  /** Works on a discovery; false when it is handed back unfinished. */
  discover(operationId: string): Promise<boolean>;
}

export interface Queue {
  start(handlers: QueueHandlers): Promise<void>;
  /** Stores a job for each run, to be taken at once. */
  enqueue(transaction: Transaction, runIds: readonly string[]): Promise<void>;
  /** Stores the next job of each run, to be taken after so many seconds; the one that it had ends by `end`. */
  park(transaction: Transaction, runs: readonly { readonly runId: string; readonly seconds: number }[]): Promise<void>;
  /** Ends these jobs. */
  end(transaction: Transaction, jobs: readonly HeldJob[]): Promise<void>;
  /** Brings a parked run's job forward to now, before others; stores one where none is left. */
  wake(transaction: Transaction, runId: string): Promise<void>;
  /** The same for many runs, in two statements. `ending`: they are taken though all places may be taken, by what is stuck perhaps. */
  wakeMany(transaction: Transaction, runIds: readonly string[], why: "woken" | "ending"): Promise<void>;
  /** Whether a job is being worked on, as far as its lease tells. */
  isHeld(jobId: string): Promise<boolean>;
  /** Whether this process has held the job's lease for certain until a moment ago. Else somebody may have taken the run over. */
  isFresh(job: HeldJob): boolean;
  /** Renews the leases that this process holds, where it still does. Leaves them as they are where the database does not answer. */
  renew(): Promise<void>;
  /** The attempt at a job that is in this process's hands. */
  held(jobId: string): HeldJob | undefined;
  /** Whether jobs of runs have been due for so many seconds while nobody in any process took work. */
  isUnattended(seconds: number): Promise<boolean>;
  /** Stores a timer of an operation. */
  timer(transaction: Transaction, timer: Timer, seconds: number): Promise<void>;
  /** Stores the job of a discovery, to be taken at once. */
  enqueueDiscovery(transaction: Transaction, operationId: string): Promise<void>;
  /** Stores jobs for those of the runs that have none. */
  restore(runIds: readonly string[]): Promise<number>;
  /** Stores jobs for those of the discoveries that have none. */
  restoreDiscoveries(operationIds: readonly string[]): Promise<number>;
  /** Takes no more work. What is running goes on, and jobs are stored as ever, for others to take. */
  rest(): void;
  /**
   * Stops taking work and waits, up to `graceMs`, for what is running. What has not ended by then is handed back, for others
   * to take at once, when `letGo` has seen to it that nobody here acts on it any more; without it leases run out as they
   * would. Answers whether all of it ended.
   */
  stop(graceMs: number, letGo?: () => Promise<void>): Promise<boolean>;
}

export interface QueueOptions {
  readonly connection: Connection;
  readonly bell: Notifier;
  readonly log: Log;
  readonly observer?: Observer;
  /** Runs worked on at the same time by this process. */
  readonly concurrency: number;
  /** Connections of the queue's own. */
  readonly connectionsMax: number;
  /** Whether this process does the queue's housekeeping: leases that have run out, jobs long ended. */
  readonly supervises: boolean;
}

type JobData = { readonly runId?: string; readonly setAt?: number } & Partial<Timer>;

const RUNS = "runs";
const TIMERS = "timers";
const DISCOVERIES = "discoveries";
const QUEUES = [RUNS, TIMERS, DISCOVERIES] as const;
/** A dead owner's job is somebody else's after at most this and the supervision interval. pg-boss takes no less. */
const HEARTBEAT_SECONDS = 10;
const TOUCH_MS = 3_000;
/** How long each part of the queue's own end may take. */
const END_MS = 1_000;
/** How long a renewal that somebody waits for may take. */
const RENEWAL_MS = 2_000;
const POLL_MS = 2_000;
/** What others write rings often; so soon after it work is looked for. */
const AFTER_RING_MS = 20;
const RARE_EVERY_MS = 1_000;
/** Fewer jobs than these are not worth a fetch of their own. */
const BATCH_MIN = 8;
const TIMERS_AT_ONCE = 4;
/** Runs that are to end, over and above those that are worked on. */
const ENDINGS_AT_ONCE = 4;
/**
 * What has begun goes before what has not: `begun` runs whose wait is over, `woken` ones that somebody called back, and those
 * that have lost their owner, whom nobody shall have to wait for behind a thousand that are about to begin.
 */
const PRIORITY = { begun: 5, woken: 10, ending: 20 } as const;
/** Each probes many addresses at a time by itself. */
const DISCOVERIES_AT_ONCE = 4;
const SUPERVISE_SECONDS = 2;

/** Of pg, which pg-boss hands them on to: how soon a connection is found out that was lost without a word, at rest and at work, in milliseconds. */
const DEAD_WIRES = { keepAlive: true, keepAliveInitialDelayMillis: 10_000, query_timeout: 30_000 };

/**
 * Brings the newest waiting job of each run forward, and tells of which runs there was one. A job that is taken while this
 * waits for its row is none any more, and its run is given another: what it was woken for may have come too late for the
 * first. One that is to end stays so, whatever else it is woken for. Rows are locked in one order, so that two who wake
 * some of the same runs do not end in a deadlock.
 */
const BRING_FORWARD = `
  with newest as materialized (
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
  returning singleton_key as "runId"`;

/** That jobs are due, or in the hands of somebody who is not heard of any more, and of nobody else anything is heard. */
const UNATTENDED = `
  select exists (select from pgboss.job where name = $1 and (state < 'active' and start_after < pgboss.job_now() - make_interval(secs => $2) or state = 'active' and heartbeat_on <= pgboss.job_now() - make_interval(secs => $2)))
    and not exists (select from pgboss.job where name = $1 and state = 'active' and heartbeat_on > pgboss.job_now() - make_interval(secs => $2)) as unattended`;

/** Jobs that have lost their owner come before those that never had one. */
const PREFER_LOST = "update pgboss.job set priority = $2 where name = $1 and state = 'retry' and priority < $2";

/** Locks jobs in one order, before a statement that would lock them in any. */
const LOCK = "select from pgboss.job where name = $1 and id = any($2::uuid[]) order by id for update";

const INDEXES = {
  ostler_job_by_key: "(name, singleton_key) where state <= 'active'",
  ostler_job_lost: "(name) where state = 'retry'",
} as const;
/** Any number that no other program takes for its advisory lock on the same database. */
const INDEX_LOCK = 7_246_519_204;

export async function createQueue(options: QueueOptions): Promise<Queue> {
  const { connection, bell, log, concurrency, observer = noopObserver } = options;
  const boss = new PgBoss({
    ...("url" in connection ? { connectionString: connection.url } : connection),
    schema: "pgboss",
    application_name: "ostler-queue",
    max: options.connectionsMax,
    ...DEAD_WIRES,
    schedule: false,
    supervise: false,
    monitorIntervalSeconds: SUPERVISE_SECONDS,
  });
  boss.on("error", (error) => log.warn({ err: error }, "queue"));
  try {
    await boss.start();
    // Retried without end: only the engine decides that a run has failed.
    const kept = {
      retryLimit: 1_000_000,
      retryDelay: 1,
      deleteAfterSeconds: 600,
      retentionSeconds: 10 * 365 * 86_400,
      expireInSeconds: 86_000,
    };
    for (const queue of QUEUES)
      await boss.createQueue(queue, { policy: "standard", heartbeatSeconds: HEARTBEAT_SECONDS, ...kept });
    await makeIndexes(boss);
  } catch (error) {
    await boss.stop({ graceful: false }).catch(() => {});
    throw error;
  }

  const db = (tx: Tx) => ({ db: { executeSql: (text: string, values?: unknown[]) => runStatement(tx, text, values) } });
  const execute = async (text: string, values: readonly unknown[]): Promise<readonly unknown[]> =>
    ((await boss.getDb().executeSql(text, [...values])) as { readonly rows: readonly unknown[] }).rows;
  const active = new Map<string, Lease & { readonly done: Promise<void> }>();
  const leases = createLeases({ execute, held: () => [...active.values()] });
  let handlers: QueueHandlers | undefined;
  let stopping = false;
  let poke = () => {};
  let rareAt = 0;
  let handedBack = false;
  /** One for all who ask at the same time. */
  let renewing: Promise<void> | undefined;
  let loop: Promise<void> = Promise.resolve();

  async function workOn(queue: string, job: Job<JobData>): Promise<void> {
    const { runId = "", operationId = "", what = "STOP", setAt = Number.POSITIVE_INFINITY } = job.data;
    if (queue === RUNS) return handlers?.run(runId, job);
    if (queue === TIMERS) await handlers?.timer({ operationId, what, setAt });
    else if (!(await handlers?.discover(operationId)))
      return void (await boss.fail(queue, job, { message: "handed back" }));
    await boss.complete(queue, job);
  }

  function begin(queue: string, job: Job<JobData>, heldAt: number): void {
    const { runId, operationId } = job.data;
    observer.inHand(queue, 1);
    const done = workOn(queue, job)
      .catch(async (error: unknown) => {
        if (handedBack) return;
        observer.queueFailed("job");
        log.error({ err: error, runId, operationId }, "a job failed and is tried again");
        await boss.fail(queue, job, { message: String(error) });
      })
      .catch((error: unknown) =>
        log.error({ err: error, runId }, "a failed job could not be handed back; its lease will run out"),
      )
      .finally(() => {
        // It may have been fetched again meanwhile, its lease having run out.
        if (active.get(job.id) === entry) active.delete(job.id);
        observer.inHand(queue, -1);
        if (queue !== RUNS) rareAt = 0;
        poke();
      });
    const entry = { queue, job, done, heldAt };
    active.set(job.id, entry);
  }

  /** Takes as many jobs as half of the room is for, so that other processes get theirs. Answers whether there may be more. Timers have room of their own: runs that are stuck are what a stop's time-out is for. */
  async function take(queue: string, most: number, minPriority = 0): Promise<boolean> {
    const room = most - [...active.values()].filter((entry) => entry.queue === queue).length;
    if (room <= 0) return false;
    const asked = performance.now();
    const batchSize = Math.min(room, Math.max(Math.ceil(room / 2), BATCH_MIN));
    const jobs = await boss.fetch<JobData>(queue, { batchSize, ...(minPriority > 0 && { minPriority }) });
    leases.noteAnswer();
    for (const job of jobs) begin(queue, job, asked);
    return jobs.length === batchSize && batchSize < room;
  }

  /** Timers, discoveries and runs that are to end are few: they are looked for once a second, and when this process knows of one. */
  async function takeRare(): Promise<boolean> {
    rareAt = performance.now() + RARE_EVERY_MS;
    const moreTimers = await take(TIMERS, TIMERS_AT_ONCE);
    const moreEndings = await take(RUNS, concurrency + ENDINGS_AT_ONCE, PRIORITY.ending);
    return (await take(DISCOVERIES, DISCOVERIES_AT_ONCE)) || moreTimers || moreEndings;
  }

  async function fetchLoop(): Promise<void> {
    while (!stopping) {
      let poked = false;
      let more = false;
      const rest = new Promise<void>((awake) => {
        poke = () => {
          poked = true;
          awake();
        };
      });
      // Runs that share a transaction end together, and make room together.
      await turn();
      try {
        const moreRare = performance.now() >= rareAt && (await takeRare());
        more = (await take(RUNS, concurrency)) || moreRare;
      } catch (error) {
        observer.queueFailed("fetch");
        log.warn({ err: error }, "the queue cannot be read; trying again");
      }
      if (more || poked || stopping) continue;
      const timer = setTimeout(poke, POLL_MS);
      await rest;
      clearTimeout(timer);
    }
  }

  /** Gives the jobs of the dead to the living. */
  async function supervise(): Promise<void> {
    await execute(PREFER_LOST, [RUNS, PRIORITY.woken]);
    if (await leases.mayRunOut()) await boss.supervise();
  }

  const chore = (what: string, everyMs: number, work: () => Promise<void>) =>
    startPeriodic(everyMs, work, (error) => {
      observer.queueFailed("heartbeat");
      log.warn({ err: error }, `${what}; it is repeated`);
    });

  /** Stores jobs for those of the keys that have none. */
  async function restoreIn(queue: string, keys: readonly string[], dataOf: (key: string) => JobData): Promise<number> {
    const { rows } = await boss
      .getDb()
      .executeSql(
        "select singleton_key from pgboss.job where name = $1 and singleton_key = any($2) and state <= 'active'",
        [queue, keys],
      );
    const held = new Set((rows as { singleton_key: string }[]).map(({ singleton_key: key }) => key));
    const lost = keys.filter((key) => !held.has(key));
    if (lost.length === 0) return 0;
    await boss.insert(
      queue,
      lost.map((key) => ({ data: dataOf(key), singletonKey: key })),
      { returnId: false },
    );
    poke();
    return lost.length;
  }

  async function wakeMany(transaction: Transaction, runIds: readonly string[], why: "woken" | "ending"): Promise<void> {
    if (runIds.length === 0) return;
    const { rows } = await runStatement(transaction.tx, BRING_FORWARD, [RUNS, runIds, PRIORITY[why]]);
    const woken = new Set(rows.map(({ runId }) => runId));
    const without = runIds.filter((runId) => !woken.has(runId));
    if (without.length > 0)
      await boss.insert(
        RUNS,
        without.map((runId) => ({ data: { runId }, singletonKey: runId, priority: PRIORITY[why] })),
        { ...db(transaction.tx), returnId: false },
      );
    if (why === "ending") pokeIn(transaction, 0, true);
  }

  const attempt = ({ id, retryCount }: HeldJob) => ({ id, retryCount });
  const pokeIn = (transaction: Transaction, seconds: number, isRare = false) =>
    transaction.afterCommit(() => {
      const due = () => {
        if (isRare) rareAt = 0;
        poke();
      };
      setTimeout(due, Math.min(seconds * 1000 + 2, 2 ** 31 - 1)).unref();
    });
  let rung: NodeJS.Timeout | undefined;
  const unring = bell.subscribe(() => {
    rung ??= setTimeout(() => {
      rung = undefined;
      poke();
    }, AFTER_RING_MS);
  });
  const chores = options.supervises
    ? [chore("the queue's housekeeping failed", SUPERVISE_SECONDS * 1000, supervise)]
    : [];
  const rest = () => {
    stopping = true;
    poke();
  };

  return {
    async start(given) {
      handlers = given;
      chores.push(chore("a heartbeat could not be sent", TOUCH_MS, leases.renew));
      loop = fetchLoop();
    },
    async enqueue(transaction, runIds) {
      if (runIds.length === 0) return;
      await boss.insert(
        RUNS,
        runIds.map((runId) => ({ data: { runId }, singletonKey: runId })),
        { ...db(transaction.tx), returnId: false },
      );
    },
    async park(transaction, parked) {
      if (parked.length === 0) return;
      await boss.insert(
        RUNS,
        parked.map(({ runId, seconds }) => ({
          data: { runId },
          singletonKey: runId,
          priority: PRIORITY.begun,
          startAfter: String(seconds),
        })),
        { ...db(transaction.tx), returnId: false },
      );
      for (const { seconds } of parked) pokeIn(transaction, seconds);
    },
    async end(transaction, jobs) {
      if (jobs.length > 1) await runStatement(transaction.tx, LOCK, [RUNS, jobs.map(({ id }) => id)]);
      if (jobs.length > 0) await boss.complete(RUNS, jobs.map(attempt), null, db(transaction.tx));
    },
    wake: (transaction, runId) => wakeMany(transaction, [runId], "woken"),
    wakeMany,
    async isHeld(jobId) {
      return (await boss.findJobs(RUNS, { id: jobId })).some(({ state }) => state === "active");
    },
    async isUnattended(seconds) {
      const { rows } = await boss.getDb().executeSql(UNATTENDED, [RUNS, seconds]);
      return (rows as { unattended: boolean }[])[0]?.unattended === true;
    },
    isFresh({ id, retryCount }) {
      const entry = active.get(id);
      return entry !== undefined && entry.job.retryCount === retryCount && isFresh(entry);
    },
    async renew() {
      renewing ??= withTimeout(RENEWAL_MS, leases.renew())
        .catch(() => {})
        .finally(() => (renewing = undefined));
      await renewing;
    },
    held: (jobId) => active.get(jobId)?.job,
    async timer(transaction, { operationId, what }, seconds) {
      // As precise as an interrupt's moment, which it is compared with.
      const {
        rows: [row],
      } = await runStatement(
        transaction.tx,
        "select (extract(epoch from now()::timestamptz(3)) * 1000)::float8 as now",
      );
      await boss.send(
        TIMERS,
        { operationId, what, setAt: Number(row?.["now"]) },
        { startAfter: String(seconds), ...db(transaction.tx) },
      );
      pokeIn(transaction, seconds, true);
    },
    async enqueueDiscovery(transaction, operationId) {
      await boss.send(DISCOVERIES, { operationId }, { singletonKey: operationId, ...db(transaction.tx) });
      pokeIn(transaction, 0, true);
    },
    restore: (runIds) => restoreIn(RUNS, runIds, (runId) => ({ runId })),
    restoreDiscoveries: (operationIds) => restoreIn(DISCOVERIES, operationIds, (operationId) => ({ operationId })),
    rest,
    async stop(graceMs, letGo) {
      rest();
      unring();
      clearTimeout(rung);
      // Nothing of it is waited for on a connection on which nothing comes back.
      await withTimeout(END_MS, loop).catch(() => log.warn("the queue did not answer when it was left"));
      const all = Promise.all([...active.values()].map(({ done }) => done)).then(() => true);
      const ended = await withTimeout(graceMs, all).catch(() => false);
      if (!ended && letGo) {
        handedBack = true;
        const held = [...active.values()];
        await letGo();
        await withTimeout(END_MS, handBack(held)).catch((error: unknown) =>
          log.warn({ err: error }, "what is running could not be handed back; its lease will run out"),
        );
      }
      for (const one of chores) one.stop();
      await withTimeout(END_MS, boss.stop({ graceful: false })).catch((error: unknown) =>
        log.warn({ err: error }, "the queue was not left in order"),
      );
      return ended;
    },
  };

  async function handBack(held: readonly { readonly queue: string; readonly job: HeldJob }[]): Promise<void> {
    for (const queue of QUEUES) {
      const jobs = held.filter((entry) => entry.queue === queue).map(({ job }) => attempt(job));
      if (jobs.length > 0) await boss.fail(queue, jobs, { message: "handed back" });
    }
    bell.notify();
  }
}

/**
 * pg-boss finds a job by its key only among all jobs of the queue, those that have ended lately included: to wake as many
 * runs as there are would be quadratic; and those that have lost their owner only among all that wait. No migration of ours
 * can hold the indexes, as pg-boss makes its tables itself, after those have run. Processes that start together take turns,
 * since `if not exists` alone fails for all but one of them; and it is not even asked where an index is there, because that
 * would lock the table against what others write.
 */
async function makeIndexes(boss: PgBoss): Promise<void> {
  for (const [name, of] of Object.entries(INDEXES)) {
    const { rows } = await boss.getDb().executeSql("select to_regclass($1) is not null as made", [`pgboss.${name}`]);
    if ((rows as { made: boolean }[])[0]?.made) continue;
    // One text without values is one transaction, whose end gives the lock back.
    await boss.getDb().executeSql(`
      select pg_advisory_xact_lock(${INDEX_LOCK});
      create index if not exists ${name} on pgboss.job ${of}`);
  }
}
