/**
 * The workers of all isolated drivers. A call takes a slot of its lane, waits in order if all are taken, and has a
 * worker of its own while it lasts. Workers are started a few at a time, as many as calls last long at the same time
 * (worker-demand.ts). A worker ends when it has been idle for a while, when it is spent, or when another driver needs
 * its slot.
 *
 * Calls that make nested calls, as a step that sets the power of its node, never hold all processes of their driver if
 * it has several: each would wait for a process of which the others have all.
 *
 * A waiting call is cancelled by its signal. The deadline of a call in a lane of `TIMED_BY_CALL` is on hold until its
 * function is called.
 */
import { availableParallelism } from "node:os";
import { messageOf } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { Deadline, leftUntil } from "../deadline.ts";
import { idleBetween, momentNow } from "./idle-time.ts";
import { TIMED_BY_CALL } from "./lanes.ts";
import { PLAIN_PLACE } from "./launch.ts";
import type { WorkerPlace } from "./launch.ts";
import { IsolationError } from "./protocol.ts";
import { Slots } from "./slots.ts";
import type { Waiter } from "./slots.ts";
import { NestingCalls } from "./nesting-calls.ts";
import type { Job } from "./worker-call.ts";
import { CallDurations, WAIT_MAX_MS, neededWorkers } from "./worker-demand.ts";
import { CallNotStartedError, StartKilledError, startWorker } from "./worker-handle.ts";
import type { Handle, Plugin } from "./worker-handle.ts";

export interface Pool extends AsyncDisposable {
  /**
   * Makes a call in a process of its driver. Throws the driver's error, the error of `confirm`, the signal's reason
   * while it waits, or an `IsolationError`.
   */
  run(plugin: Plugin, job: Job): Promise<unknown>;
  /** Ends the workers of one driver; kills those that have a call. */
  close(plugin: Plugin): Promise<void>;
  /** Kills the workers that have a call. */
  endCalls(): Promise<void>;
  readonly figures: PoolFigures;
}

interface PoolFigures {
  /** Processes by state. */
  readonly processes: Readonly<Record<Handle["state"], number>>;
  /** Calls that wait for a slot or a process. */
  readonly waiting: number;
}

export interface PoolOptions {
  /** Maximum number of concurrent calls of steps; other lanes have additional slots. */
  readonly workers: number;
  readonly log: Log;
  readonly place?: WorkerPlace;
  /** How long a call may continue after its signal has fired. */
  readonly graceMs?: number;
  /** How long an idle worker is kept. */
  readonly idleMs?: number;
  /** How long an ended call may leave activity behind before its process is replaced. */
  readonly busyMs?: number;
}

/** Shorter than the engine's grace period, so that nothing of a step is left when the engine gives it up. */
const GRACE_MS = 8_000;
const IDLE_MS = 10_000;
const CHECK_EVERY_MS = 1_000;
const BUSY_MS = 5_000;
/** Attempts to find a process that starts a call. */
const ATTEMPTS_MAX = 3;
/** How often the need of a driver is counted. */
const COUNT_EVERY_MS = 10;
const STARTS_AT_ONCE = Math.max(2, availableParallelism());

export function createPool(options: PoolOptions): Pool {
  return new WorkerPool(options);
}

class WorkerPool implements Pool {
  readonly #log: Log;
  readonly #place: WorkerPlace;
  readonly #graceMs: number;
  readonly #idleMs: number;
  readonly #busyMs: number;
  readonly #busyMax: number;
  readonly #slots: Slots;
  readonly #durations = new Map<Plugin, CallDurations>();
  /** When the need of each driver was counted last. */
  readonly #countedAt = new Map<Plugin, number>();
  /** Every process, with the time of its last change of state, or since when it has a call. */
  readonly #changedAt = new Map<Handle, number>();
  /** Workers that are asked to end. */
  readonly #retiring = new Set<Handle>();
  readonly #nesting = new NestingCalls();
  /** The most recently used worker is last and is used next. */
  readonly #idle: Handle[] = [];
  readonly #checkEveryMs: number;
  readonly #checkTimer: NodeJS.Timeout;
  #checkedAt = performance.now();
  #assignTimer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor({
    workers,
    log,
    place = PLAIN_PLACE,
    graceMs = GRACE_MS,
    idleMs = IDLE_MS,
    busyMs = BUSY_MS,
  }: PoolOptions) {
    this.#log = log;
    this.#place = place;
    this.#graceMs = graceMs;
    this.#idleMs = idleMs;
    this.#busyMs = busyMs;
    this.#busyMax = Math.ceil(workers / 2);
    this.#slots = new Slots(workers);
    this.#checkEveryMs = Math.min(CHECK_EVERY_MS, idleMs);
    this.#checkTimer = setInterval(() => this.#check(), this.#checkEveryMs).unref();
  }

  async run(plugin: Plugin, job: Job): Promise<unknown> {
    const { lane } = job.dispatch;
    const onHold = TIMED_BY_CALL.has(lane) && job.deadline instanceof Deadline ? job.deadline : null;
    for (let attempts = 1; ; attempts += 1) {
      job.signal.throwIfAborted();
      onHold?.hold();
      let worker: Handle | undefined;
      try {
        worker = await this.#workerFor(plugin, job);
        await this.#confirm(worker, job);
        onHold?.resume();
        return await worker.call(job);
      } catch (error) {
        if (!(error instanceof CallNotStartedError)) throw error;
        if (leftUntil(job.deadline) <= 0)
          throw new IsolationError(
            `The time for ${job.what} ended before a process of driver "${plugin.name}" started it.`,
            { kind: "TIMEOUT", retryable: true, withoutEffect: true },
          );
        if (attempts === ATTEMPTS_MAX)
          throw new IsolationError(
            `${ATTEMPTS_MAX} processes of driver "${plugin.name}" ended before they started the call, the last by ${error.message}. Check the memory of the machine that runs the service.`,
            { retryable: true, withoutEffect: true },
          );
      } finally {
        onHold?.resume();
        if (worker) this.#slots.release(lane);
        // Without an idle worker there is only the need to count, which the timer will do.
        if (this.#idle.length > 0 || this.#assignTimer === undefined) this.#assign();
      }
    }
  }

  async close(plugin: Plugin): Promise<void> {
    await this.#closeWhere((worker) => worker.plugin === plugin);
  }

  async endCalls(): Promise<void> {
    await this.#closeWhere(({ state }) => state === "called");
  }

  get figures(): PoolFigures {
    const processes = { starting: 0, idle: 0, called: 0, busy: 0, ended: 0 };
    for (const { state } of this.#changedAt.keys()) processes[state] += 1;
    return { processes, waiting: this.#slots.waitingCount };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#checkTimer);
    clearTimeout(this.#assignTimer);
    for (const waiter of this.#slots.waiters()) waiter.reject(new Error("The service is shutting down."));
    await this.#closeWhere(() => true);
  }

  async #closeWhere(matches: (worker: Handle) => boolean): Promise<void> {
    await Promise.all([...this.#changedAt.keys()].filter(matches).map((worker) => worker.close()));
  }

  // ---- assigning workers

  /** Waits for a slot and a worker. */
  async #workerFor(plugin: Plugin, { dispatch: { lane }, what, signal }: Job): Promise<Handle> {
    if (this.#isClosed) throw new Error("The service is shutting down.");
    return this.#slots.wait({ plugin, lane, what, signal }, () => this.#assign());
  }

  /** Checks, after all waiting, that the call may still be made. If not, its worker is free again. */
  async #confirm(worker: Handle, { dispatch: { confirm }, signal }: Job): Promise<void> {
    if (!confirm) return;
    try {
      await confirm();
      signal.throwIfAborted();
    } catch (error) {
      this.#onChange(worker);
      throw error;
    }
  }

  /** Assigns idle workers to the waiters whose lanes have slots, and starts workers for the others. */
  #assign(): void {
    const withoutNesting = new Set<Plugin>();
    const waiting = Map.groupBy(
      this.#slots.admissible().filter((waiter) => {
        const worker = this.#takeIdle(waiter, withoutNesting);
        if (worker) waiter.resolve(worker);
        return !worker;
      }),
      ({ plugin }) => plugin,
    );
    if (waiting.size === 0 || this.#isClosed) return;
    this.#assignTimer ??= setTimeout(() => {
      this.#assignTimer = undefined;
      this.#assign();
    }, WAIT_MAX_MS);
    const now = performance.now();
    const needed = new Map<Plugin, number>();
    for (const [plugin, waiters] of waiting) {
      // Calls that end at once would otherwise spend more on this than on themselves.
      if (now - (this.#countedAt.get(plugin) ?? 0) < COUNT_EVERY_MS) continue;
      this.#countedAt.set(plugin, now);
      needed.set(plugin, this.#neededFor(plugin, waiters));
    }
    this.#startFor(needed);
  }

  /**
   * The idle worker of the driver that was used last; it is counted as called from now on. `withoutNesting` collects
   * the drivers whose last idle worker is left to nested calls.
   */
  #takeIdle({ plugin, lane, what }: Waiter, withoutNesting: Set<Plugin>): Handle | undefined {
    const worker = this.#idle.findLast((one) => one.plugin === plugin && !one.isSpent);
    if (!worker) return undefined;
    const isNesting = lane !== "NESTED" && this.#nesting.isKnown(plugin, what);
    if (isNesting && withoutNesting.has(plugin)) return undefined;
    if (isNesting && !this.#isFull() && this.#nesting.needsAnother(this.#readyWorkers(plugin))) {
      withoutNesting.add(plugin);
      return undefined;
    }
    if (isNesting) this.#nesting.hold(worker);
    this.#removeIdle(worker);
    this.#changedAt.set(worker, performance.now());
    return worker;
  }

  /** Workers of the driver that take calls, now or after their call. */
  #readyWorkers(plugin: Plugin): Handle[] {
    return [...this.#changedAt.keys()].filter(
      (worker) =>
        worker.plugin === plugin && !worker.isSpent && worker.state !== "starting" && !this.#retiring.has(worker),
    );
  }

  #neededFor(plugin: Plugin, waiters: readonly Waiter[]): number {
    // An idle worker is left for nested calls: these calls wait although there is one.
    const ready = this.#readyWorkers(plugin).filter((worker) => !this.#idle.includes(worker));
    const nested = waiters.filter(({ lane }) => lane === "NESTED").length;
    const now = momentNow();
    return neededWorkers({
      waitedMs: waiters.map(({ since }) => idleBetween(since, now)),
      processes: ready.length,
      ...this.#nesting.split(ready, nested),
      typicalMs: this.#durationsOf(plugin).typicalMs,
    });
  }

  #durationsOf(plugin: Plugin): CallDurations {
    const durations = this.#durations.get(plugin) ?? new CallDurations();
    this.#durations.set(plugin, durations);
    return durations;
  }

  // ---- starting and ending workers

  #startFor(needed: ReadonlyMap<Plugin, number>): void {
    let starting = [...this.#changedAt.keys()].filter(({ state }) => state === "starting");
    for (const [plugin, count] of needed) {
      const pending = starting.filter((one) => one.plugin === plugin).length;
      for (let more = count - pending; more > 0 && starting.length < STARTS_AT_ONCE; more -= 1) {
        if (this.#isFull()) this.#retire(this.#idle[0]);
        if (this.#isFull()) return;
        const worker = this.#start(plugin);
        if (worker) starting = [...starting, worker];
      }
    }
  }

  #start(plugin: Plugin): Handle | undefined {
    try {
      const worker = startWorker({
        plugin,
        place: this.#place,
        log: this.#log,
        graceMs: this.#graceMs,
        changed: (changed, why) => this.#onChange(changed, why),
        measured: (ms) => this.#durationsOf(plugin).note(ms),
        nests: (calling, what) => this.#nesting.note(calling, what),
      });
      this.#changedAt.set(worker, performance.now());
      return worker;
    } catch (error) {
      this.#firstWaiterOf(plugin)?.reject(
        new IsolationError(`The process of driver "${plugin.name}" failed to start: ${messageOf(error)}.`, {
          retryable: true,
          withoutEffect: true,
        }),
      );
      return undefined;
    }
  }

  /** As many processes as there may be calls. */
  #isFull(): boolean {
    return this.#changedAt.size - this.#retiring.size >= this.#slots.processesMax;
  }

  #onChange(worker: Handle, why?: IsolationError): void {
    this.#changedAt.set(worker, performance.now());
    this.#removeIdle(worker);
    this.#nesting.release(worker);
    if (worker.state === "ended") {
      this.#changedAt.delete(worker);
      this.#retiring.delete(worker);
      if (why) this.#failStart(worker.plugin, why);
    } else if (this.#isClosed || worker.isSpent) this.#retire(worker);
    else if (worker.state === "idle") this.#idle.push(worker);
    else if (worker.state === "busy") this.#limitBusy();
    this.#assign();
  }

  /** Fails the first waiter, unless the process was killed: then another one starts, up to `ATTEMPTS_MAX` in all. */
  #failStart(plugin: Plugin, why: IsolationError): void {
    const waiter = this.#firstWaiterOf(plugin);
    if (!waiter) return;
    waiter.killedStarts += 1;
    if (!(why instanceof StartKilledError) || waiter.killedStarts >= ATTEMPTS_MAX) waiter.reject(why);
  }

  #firstWaiterOf(plugin: Plugin): Waiter | undefined {
    return this.#slots.waiters().find((waiter) => waiter.plugin === plugin);
  }

  /** Workers that are busy after their call may occupy at most half of the step slots; kills the oldest above. */
  #limitBusy(): void {
    const busy = [...this.#changedAt.keys()].filter(({ state }) => state === "busy");
    for (const worker of busy.slice(0, Math.max(0, busy.length - this.#busyMax)))
      worker.kill("its last call left too much activity behind");
  }

  #removeIdle(worker: Handle): void {
    const at = this.#idle.indexOf(worker);
    if (at >= 0) this.#idle.splice(at, 1);
  }

  #retire(worker: Handle | undefined): void {
    if (!worker) return;
    this.#removeIdle(worker);
    this.#retiring.add(worker);
    worker
      .close()
      .catch((error: unknown) =>
        this.#log.warn({ err: error, driver: worker.plugin.name }, "a driver's process did not close in order"),
      );
  }

  /** Kills workers that stay busy, and retires idle ones but one per driver. */
  #check(): void {
    const now = performance.now();
    // This process was blocked: process the workers' pending messages first.
    const isLate = now - this.#checkedAt > 2 * this.#checkEveryMs;
    this.#checkedAt = now;
    if (isLate) return;
    for (const [worker, changedAt] of this.#changedAt) {
      if (worker.state === "busy" && now - changedAt > this.#busyMs)
        worker.kill("its last call left activity behind that continues");
      else if (now - changedAt > this.#idleMs && this.#isIdleExtra(worker)) this.#retire(worker);
    }
  }

  /** Idle, and not the last idle worker of its driver, which is kept for the next call. */
  #isIdleExtra(worker: Handle): boolean {
    return (
      this.#idle.includes(worker) && this.#idle.some((other) => other !== worker && other.plugin === worker.plugin)
    );
  }
}
