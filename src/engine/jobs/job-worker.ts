/**
 * Takes jobs and works on them. Jobs are fetched in batches by one loop, instead of by pg-boss's workers, which would
 * poll one by one and pause after each job.
 *
 * Modes:
 * - fetching: as long as batches come back full. Entered at the start and by `poke`.
 * - waiting: until `poke` (a notification, a delay that this replica knows of, a job that ended) or the poll.
 * - resting: takes no more jobs. Entered by `rest`, never left. Running jobs continue.
 * - stopped: `stop` waits, for a limited time, until running jobs have ended, and hands the others back.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Job, PgBoss } from "pg-boss";
import type { Log } from "../../log.ts";
import type { Observer } from "../../observer.ts";
import { withTimeout } from "../../runtime/timeout.ts";
import type { Notifier } from "../../store/postgres/notifier.ts";
import { DISCOVERIES, QUEUES, RUNS, TIMERS } from "./boss.ts";
import type { HeldJob, Lease, Leases } from "./leases.ts";
import { PRIORITY } from "./priorities.ts";

/** STOP: the time of a graceful stop is over. WAVE: the pause between two waves is over. */
export interface Timer {
  readonly operationId: string;
  readonly what: "STOP" | "WAVE";
}

export interface QueueHandlers {
  /** Works on a run until it ends or parks. Must end the job in a transaction of its own (`park` or `end`). */
  run(runId: string, job: HeldJob): Promise<void>;
  /** A timer of an operation has expired. `setAt`: when it was set, by the database's clock, in ms since 1970. */
  timer(timer: Timer & { readonly setAt: number }): Promise<void>;
  /** Works on a discovery; false if it is handed back unfinished. */
  discover(operationId: string): Promise<boolean>;
}

export type JobData = { readonly runId?: string; readonly setAt?: number } & Partial<Timer>;

/** A job that this replica works on. */
export interface ActiveJob extends Lease {
  readonly done: Promise<void>;
}

const POLL_MS = 2_000;
/**
 * Timers, discoveries and ending runs are few: they are fetched once per interval, and when this replica knows of one.
 */
const RARE_EVERY_MS = 1_000;
/** Commits notify often; one fetch answers all notifications within this time. */
const DEBOUNCE_MS = 20;
/** The smallest batch that is worth a fetch. */
const BATCH_MIN = 8;
const TIMERS_MAX = 4;
/** Each discovery probes many addresses at the same time. */
const DISCOVERIES_MAX = 4;
/** Ending runs that are worked on in addition to `concurrency`: stuck runs must not keep others from ending. */
const ENDINGS_MAX = 4;
/** How long each part of the stop may take. */
const STOP_MS = 1_000;
/** The largest delay of a timer in Node. */
const DELAY_MAX_MS = 2 ** 31 - 1;

export interface JobWorkerParts {
  readonly boss: PgBoss;
  readonly leases: Leases;
  /** Filled by the worker: by job id. */
  readonly active: Map<string, ActiveJob>;
  readonly notifier: Notifier;
  readonly log: Log;
  readonly observer: Observer;
  /** Maximum of runs at the same time. */
  readonly concurrency: number;
  /** Called before each fetch. */
  readonly checkClock: () => Promise<void>;
}

export class JobWorker {
  readonly #parts: JobWorkerParts;
  readonly #unsubscribe: () => void;
  #notified: NodeJS.Timeout | undefined;
  #handlers: QueueHandlers | undefined;
  #loop: Promise<void> = Promise.resolve();
  #poke = () => {};
  #isResting = false;
  #areHandedBack = false;
  /** When timers, discoveries and ending runs are fetched next. */
  #rareAt = 0;

  constructor(parts: JobWorkerParts) {
    this.#parts = parts;
    this.#unsubscribe = parts.notifier.subscribe(() => {
      this.#notified ??= setTimeout(() => {
        this.#notified = undefined;
        this.poke();
      }, DEBOUNCE_MS);
    });
  }

  start(handlers: QueueHandlers): void {
    this.#handlers = handlers;
    this.#loop = this.#fetchLoop();
  }

  /** Fetches now. */
  poke(): void {
    this.#poke();
  }

  /** Fetches when a delay is over. `isRare`: timers, discoveries and ending runs too. */
  pokeIn(seconds: number, isRare: boolean): void {
    const due = () => {
      if (isRare) this.#rareAt = 0;
      this.poke();
    };
    setTimeout(due, Math.min(seconds * 1000 + 2, DELAY_MAX_MS)).unref();
  }

  rest(): void {
    this.#isResting = true;
    this.poke();
  }

  /**
   * Waits up to `graceMs` for running jobs. `release` makes sure that this replica no longer acts on the others, which
   * are then handed back; without it their leases expire. Returns whether all jobs ended.
   */
  async stop(graceMs: number, release?: () => Promise<void>): Promise<boolean> {
    const { log, active } = this.#parts;
    this.rest();
    this.#unsubscribe();
    clearTimeout(this.#notified);
    // No wait is unlimited, because a lost connection never answers.
    await withTimeout(STOP_MS, this.#loop).catch(() => log.warn("the queue did not answer while it was stopped"));
    const all = Promise.all([...active.values()].map(({ done }) => done)).then(() => true);
    const ended = await withTimeout(graceMs, all).catch(() => false);
    if (!ended && release) {
      this.#areHandedBack = true;
      const held = [...active.values()];
      await release();
      await withTimeout(STOP_MS, this.#handBack(held)).catch((error: unknown) =>
        log.warn({ err: error }, "running jobs could not be handed back; their leases will expire"),
      );
    }
    return ended;
  }

  async #handBack(held: readonly Lease[]): Promise<void> {
    for (const queue of QUEUES) {
      const jobs = held
        .filter((entry) => entry.queue === queue)
        .map(({ job: { id, retryCount } }) => ({ id, retryCount }));
      if (jobs.length > 0) await this.#parts.boss.fail(queue, jobs, { message: "handed back" });
    }
    this.#parts.notifier.notify();
  }

  async #fetchLoop(): Promise<void> {
    const { log, observer, concurrency, checkClock } = this.#parts;
    while (!this.#isResting) {
      let poked = false;
      let more = false;
      const pause = new Promise<void>((resolve) => {
        this.#poke = () => {
          poked = true;
          resolve();
        };
      });
      // Runs that share a transaction end in the same turn of the event loop; their slots are filled by one fetch.
      await nextTurn();
      try {
        await checkClock();
        const moreRare = performance.now() >= this.#rareAt && (await this.#takeRare());
        more = (await this.#take(RUNS, concurrency)) || moreRare;
      } catch (error) {
        observer.queueFailed("fetch");
        log.warn({ err: error }, "jobs could not be fetched; trying again");
      }
      if (more || poked || this.#isResting) continue;
      const timer = setTimeout(this.#poke, POLL_MS);
      await pause;
      clearTimeout(timer);
    }
  }

  async #takeRare(): Promise<boolean> {
    this.#rareAt = performance.now() + RARE_EVERY_MS;
    const moreTimers = await this.#take(TIMERS, TIMERS_MAX);
    const moreEndings = await this.#take(RUNS, this.#parts.concurrency + ENDINGS_MAX, PRIORITY.ending);
    return (await this.#take(DISCOVERIES, DISCOVERIES_MAX)) || moreTimers || moreEndings;
  }

  /** Takes jobs for half of the free capacity, so that other replicas get some. Returns whether there may be more. */
  async #take(queue: string, max: number, minPriority = 0): Promise<boolean> {
    const { boss, leases, active } = this.#parts;
    const free = max - [...active.values()].filter((entry) => entry.queue === queue).length;
    if (free <= 0) return false;
    const asked = performance.now();
    const batchSize = Math.min(free, Math.max(Math.ceil(free / 2), BATCH_MIN));
    const jobs = await boss.fetch<JobData>(queue, { batchSize, ...(minPriority > 0 && { minPriority }) });
    leases.noteAnswer();
    for (const job of jobs) this.#begin(queue, job, asked);
    return jobs.length === batchSize && batchSize < free;
  }

  #begin(queue: string, job: Job<JobData>, heldAt: number): void {
    const { boss, log, observer, active } = this.#parts;
    const { runId, operationId } = job.data;
    observer.inHand(queue, 1);
    const done = this.#workOn(queue, job)
      .catch(async (error: unknown) => {
        if (this.#areHandedBack) return;
        observer.queueFailed("job");
        log.error({ err: error, runId, operationId }, "a job failed; trying again");
        await boss.fail(queue, job, { message: String(error) });
      })
      .catch((error: unknown) =>
        log.error({ err: error, runId }, "a failed job could not be handed back; its lease will expire"),
      )
      .finally(() => {
        // The job may have been fetched again meanwhile, if its lease expired.
        if (active.get(job.id) === entry) active.delete(job.id);
        observer.inHand(queue, -1);
        if (queue !== RUNS) this.#rareAt = 0;
        this.poke();
      });
    const entry = { queue, job, done, heldAt };
    active.set(job.id, entry);
  }

  async #workOn(queue: string, job: Job<JobData>): Promise<void> {
    const { boss } = this.#parts;
    const { runId = "", operationId = "", what = "STOP", setAt = Number.POSITIVE_INFINITY } = job.data;
    if (queue === RUNS) return this.#handlers?.run(runId, job);
    if (queue === TIMERS) await this.#handlers?.timer({ operationId, what, setAt });
    else if (!(await this.#handlers?.discover(operationId)))
      return void (await boss.fail(queue, job, { message: "handed back" }));
    await boss.complete(queue, job);
  }
}
