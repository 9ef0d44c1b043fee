/**
 * The durable queue: only this directory uses pg-boss. A job is the next execution of a run, up to its next wait or its
 * end. Jobs are stored, ended and stored again inside the engine's own transactions, so that a run never lacks its job,
 * and no job lacks its run. Timers of operations and discoveries have queues of their own.
 */
import type { PgBoss } from "pg-boss";
import type { Log } from "../../log.ts";
import { noopObserver } from "../../observer.ts";
import type { Observer } from "../../observer.ts";
import { startPeriodic } from "../../runtime/periodic.ts";
import { withTimeout } from "../../runtime/timeout.ts";
import {
  activeJobs,
  bringJobsForward,
  deleteHeldJobs,
  hasOtherJob,
  isQueueUnattended,
  keysWithJob,
  preferOrphanedJobs,
  transactionTimeMs,
} from "../../store/jobs.ts";
import type { ExecuteOnQueue } from "../../store/jobs.ts";
import type { Connection } from "../../store/postgres/database.ts";
import type { Notifier } from "../../store/postgres/notifier.ts";
import type { Transaction } from "../transaction.ts";
import { DISCOVERIES, QUEUES, RUNS, SUPERVISE_SECONDS, TIMERS, executeOn, openBoss, within } from "./boss.ts";
import { JobWorker } from "./job-worker.ts";
import type { ActiveJob, JobData, QueueHandlers, Timer } from "./job-worker.ts";
import { Leases, isFresh } from "./leases.ts";
import type { HeldJob } from "./leases.ts";
import { PRIORITY } from "./priorities.ts";

export type { QueueHandlers, Timer } from "./job-worker.ts";

export interface QueueOptions {
  readonly connection: Connection;
  readonly notifier: Notifier;
  readonly log: Log;
  readonly observer?: Observer;
  /** Maximum of runs that this replica works on at the same time. */
  readonly concurrency: number;
  readonly connectionsMax: number;
  /** Called before anything that is due by the database's clock is taken. */
  readonly checkClock?: () => Promise<void>;
  /** Whether this replica supervises the queue: hands expired jobs to other workers, and deletes old ones. */
  readonly supervises: boolean;
}

export async function createQueue(options: QueueOptions): Promise<Queue> {
  return new Queue(await openBoss(options), options);
}

const RENEW_EVERY_MS = 3_000;
/** How long a caller waits for a renewal of the leases. */
const RENEWAL_MS = 2_000;
const CLOSE_MS = 1_000;

export class Queue {
  readonly #boss: PgBoss;
  readonly #execute: ExecuteOnQueue;
  readonly #log: Log;
  readonly #observer: Observer;
  readonly #checkClock: () => Promise<void>;
  readonly #active = new Map<string, ActiveJob>();
  readonly #leases: Leases;
  readonly #worker: JobWorker;
  readonly #chores: { stop(): void }[] = [];
  /** Shared by all callers that wait for a renewal at the same time. */
  #renewing: Promise<void> | undefined;

  constructor(
    boss: PgBoss,
    { notifier, log, observer = noopObserver, concurrency, checkClock = async () => {}, supervises }: QueueOptions,
  ) {
    this.#boss = boss;
    this.#execute = executeOn(boss);
    this.#log = log;
    this.#observer = observer;
    this.#checkClock = checkClock;
    const active = this.#active;
    const leases = new Leases(this.#execute, () => [...active.values()]);
    this.#leases = leases;
    this.#worker = new JobWorker({ boss, leases, active, notifier, log, observer, concurrency, checkClock });
    if (supervises)
      this.#startChore("supervision of the queue failed", SUPERVISE_SECONDS * 1000, () => this.#supervise());
  }

  /**
   * Hands back the jobs of a process that has ended, instead of waiting until its leases expire. Only before `start`,
   * and only if no other process can use the database: a job that is active then has no worker.
   */
  async reclaim(): Promise<void> {
    for (const queue of QUEUES) {
      const jobs = await activeJobs(this.#execute, queue);
      if (jobs.length > 0) await this.#boss.fail(queue, jobs, { message: "its process has ended" });
    }
    await preferOrphanedJobs(this.#execute, RUNS, PRIORITY.woken);
  }

  /** Starts to take jobs. */
  async start(handlers: QueueHandlers): Promise<void> {
    this.#startChore("leases could not be renewed", RENEW_EVERY_MS, () => this.#leases.renew());
    this.#worker.start(handlers);
  }

  /** Takes no more jobs. Running ones continue, and new ones are stored for other replicas. */
  rest(): void {
    this.#worker.rest();
  }

  /**
   * Stops taking jobs and waits, up to `graceMs`, for running ones. Jobs that have not ended by then are handed back
   * after `release` has made sure that this replica no longer acts on them; without `release` their leases expire.
   * Returns whether all jobs ended.
   */
  async stop(graceMs: number, release?: () => Promise<void>): Promise<boolean> {
    const ended = await this.#worker.stop(graceMs, release);
    for (const chore of this.#chores) chore.stop();
    await withTimeout(CLOSE_MS, this.#boss.stop({ graceful: false })).catch((error: unknown) =>
      this.#log.warn({ err: error }, "the queue could not be closed"),
    );
    return ended;
  }

  // ---- jobs of runs

  /** Stores a job for each run, to be taken at once. */
  async enqueue(transaction: Transaction, runIds: readonly string[]): Promise<void> {
    if (runIds.length === 0) return;
    await this.#insert(transaction, runIds.map(jobOf));
  }

  /** Stores the next job of each run, to be taken after a delay; the caller ends the present job with `end`. */
  async park(
    transaction: Transaction,
    parked: readonly { readonly runId: string; readonly seconds: number }[],
  ): Promise<void> {
    if (parked.length === 0) return;
    await this.#insert(
      transaction,
      parked.map(({ runId, seconds }) => ({
        ...jobOf(runId),
        priority: PRIORITY.begun,
        startAfter: String(seconds),
      })),
    );
    for (const { seconds } of parked) this.#pokeAfterCommit(transaction, seconds, false);
  }

  /** Ends jobs. Nothing reads an ended job, and dead rows would make each fetch dearer. */
  async end(transaction: Transaction, jobs: readonly HeldJob[]): Promise<void> {
    if (jobs.length > 0) await deleteHeldJobs(transaction.tx, RUNS, jobs);
  }

  /** Brings a parked run's job forward to now, before other jobs; stores one if the run has none. */
  async wake(transaction: Transaction, runId: string): Promise<void> {
    await this.wakeMany(transaction, [runId], "woken");
  }

  /** Wakes many runs with two statements. `ending` jobs are taken even if `concurrency` is reached. */
  async wakeMany(transaction: Transaction, runIds: readonly string[], why: "woken" | "ending"): Promise<void> {
    if (runIds.length === 0) return;
    const priority = PRIORITY[why];
    const woken = await bringJobsForward(transaction.tx, RUNS, { keys: runIds, priority });
    const without = runIds.filter((runId) => !woken.has(runId));
    if (without.length > 0)
      await this.#insert(
        transaction,
        without.map((runId) => ({ ...jobOf(runId), priority })),
      );
    if (why === "ending") this.#pokeAfterCommit(transaction, 0, true);
  }

  /** Stores jobs for the runs that have none, and returns their number. */
  restore(runIds: readonly string[]): Promise<number> {
    return this.#restoreIn(RUNS, runIds.map(jobOf));
  }

  /** Whether the run has a job that waits or is worked on, beside this one. */
  hasOtherJob(transaction: Transaction, runId: string, { id }: HeldJob): Promise<boolean> {
    return hasOtherJob(transaction.tx, RUNS, { key: runId, id });
  }

  // ---- leases

  /** Whether a worker holds the job, as far as its lease shows. */
  async isHeld(jobId: string): Promise<boolean> {
    return (await this.#boss.findJobs(RUNS, { id: jobId })).some(({ state }) => state === "active");
  }

  /** The attempt at a job that this replica works on. */
  held(jobId: string): HeldJob | undefined {
    return this.#active.get(jobId)?.job;
  }

  /**
   * Whether this replica has certainly held the job's lease until a moment ago. If not, the run may have been taken
   * over.
   */
  isFresh({ id, retryCount }: HeldJob): boolean {
    const entry = this.#active.get(id);
    return entry !== undefined && entry.job.retryCount === retryCount && isFresh(entry);
  }

  /** Renews the leases that this replica still holds. Does nothing if the database does not answer in time. */
  async renew(): Promise<void> {
    this.#renewing ??= withTimeout(RENEWAL_MS, this.#leases.renew())
      .catch(() => {})
      .finally(() => (this.#renewing = undefined));
    await this.#renewing;
  }

  /** Whether jobs of runs have been due for this time while no replica took work. */
  isUnattended(seconds: number): Promise<boolean> {
    return isQueueUnattended(this.#execute, RUNS, seconds);
  }

  // ---- timers and discoveries

  /** Stores a timer of an operation. */
  async timer(transaction: Transaction, { operationId, what }: Timer, seconds: number): Promise<void> {
    const setAt = await transactionTimeMs(transaction.tx);
    await this.#boss.send(
      TIMERS,
      { operationId, what, setAt },
      { startAfter: String(seconds), ...within(transaction.tx) },
    );
    this.#pokeAfterCommit(transaction, seconds, true);
  }

  /** Stores the job of a discovery, to be taken at once. */
  async enqueueDiscovery(transaction: Transaction, operationId: string): Promise<void> {
    await this.#boss.send(DISCOVERIES, { operationId }, { singletonKey: operationId, ...within(transaction.tx) });
    this.#pokeAfterCommit(transaction, 0, true);
  }

  /** Stores jobs for the discoveries that have none, and returns their number. */
  restoreDiscoveries(operationIds: readonly string[]): Promise<number> {
    return this.#restoreIn(
      DISCOVERIES,
      operationIds.map((operationId) => ({ data: { operationId }, singletonKey: operationId })),
    );
  }

  // ----

  async #insert(transaction: Transaction, jobs: readonly NewJob[]): Promise<void> {
    await this.#boss.insert(RUNS, [...jobs], { ...within(transaction.tx), returnId: false });
  }

  async #restoreIn(queue: string, jobs: readonly NewJob[]): Promise<number> {
    const known = await keysWithJob(
      this.#execute,
      queue,
      jobs.map(({ singletonKey }) => singletonKey),
    );
    const lost = jobs.filter(({ singletonKey }) => !known.has(singletonKey));
    if (lost.length === 0) return 0;
    await this.#boss.insert(queue, lost, { returnId: false });
    this.#worker.poke();
    return lost.length;
  }

  #pokeAfterCommit(transaction: Transaction, seconds: number, isRare: boolean): void {
    transaction.afterCommit(() => this.#worker.pokeIn(seconds, isRare));
  }

  /** Hands the jobs of dead workers to live ones. */
  async #supervise(): Promise<void> {
    await this.#checkClock();
    await preferOrphanedJobs(this.#execute, RUNS, PRIORITY.woken);
    if (await this.#leases.mayExpire()) await this.#boss.supervise();
  }

  #startChore(failure: string, everyMs: number, work: () => Promise<void>): void {
    const chore = startPeriodic(everyMs, work, (error) => {
      this.#observer.queueFailed("heartbeat");
      this.#log.warn({ err: error }, `${failure}; trying again`);
    });
    this.#chores.push(chore);
  }
}

interface NewJob {
  readonly data: JobData;
  readonly singletonKey: string;
  readonly priority?: number;
  readonly startAfter?: string;
}

function jobOf(runId: string): NewJob {
  return { data: { runId }, singletonKey: runId };
}
