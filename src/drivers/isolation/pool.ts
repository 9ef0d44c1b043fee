/**
 * The workers of all isolated drivers. A call takes a place of its lane, waits for one in order where all are taken, and
 * has a worker to itself for as long as it lasts. Workers are started when calls have waited for them a moment, a few at a
 * time, and end when nobody has needed them for a while, when they are spent, or when another driver needs the room.
 *
 * The time that a call waits counts as its own, but for readings and probes, whose deadline is held meanwhile. It ends waiting
 * by its signal.
 */
import { availableParallelism } from "node:os";
import { messageOf } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { Deadline, leftUntil } from "../deadline.ts";
import { NotBegun, startWorker } from "./worker-handle.ts";
import type { Handle, Job, Plugin } from "./worker-handle.ts";
import { IsolationError } from "./protocol.ts";
import { LANES, TIMED_BY_PLACE } from "./lanes.ts";
import type { Lane } from "./lanes.ts";

export interface Pool extends AsyncDisposable {
  /** Makes a call in a process of its driver. Throws what the driver throws, what `confirm` does, the signal's reason while it waits, or an `IsolationError`. */
  run(plugin: Plugin, lane: Lane, job: Job): Promise<unknown>;
  /** Ends the workers of one driver; those that have a call are killed. */
  close(plugin: Plugin): Promise<void>;
  /** Kills the workers that have a call. */
  endCalls(): Promise<void>;
  readonly figures: PoolFigures;
}

export interface PoolFigures {
  /** Processes there are, by what they do. */
  readonly processes: Readonly<Record<Handle["state"], number>>;
  /** Calls that wait for a place or a process. */
  readonly waiting: number;
}

export interface PoolOptions {
  /** Calls of steps at a time; readings and probes have places besides. */
  readonly workers: number;
  readonly log: Log;
  /** How long a call may go on after its signal has fired. */
  readonly graceMs?: number;
  /** How long a worker is kept that nobody needs. */
  readonly idleMs?: number;
  /** How long a call may leave something behind before its process is replaced. */
  readonly busyMs?: number;
}

/** Before the engine gives a step up that does not heed its signal, so that nothing of it lives on then. */
const GRACE_MS = 8_000;
const IDLE_MS = 60_000;
const LOOK_EVERY_MS = 1_000;
const BUSY_MS = 5_000;
/** A call whose process ended before it took it is made elsewhere, so often. */
const TRIES = 3;
/** Starting a process costs a tenth of a second of a core: it is not done for who would have had one by then. */
const PATIENCE_MS = 50;
/** Of nodes that gave no answer the last time, as many as are read in the background at a time; and of probes, as many as one discovery makes. */
const TROUBLED_MAX = 4;
const PROBES_MAX = 16;
const STARTS_AT_ONCE = Math.max(2, availableParallelism());

interface Waiter {
  readonly plugin: Plugin;
  readonly lane: Lane;
  readonly since: number;
  readonly give: (worker: Handle) => void;
  readonly fail: (error: unknown) => void;
}

export function createPool({
  workers,
  log,
  graceMs = GRACE_MS,
  idleMs = IDLE_MS,
  busyMs = BUSY_MS,
}: PoolOptions): Pool {
  const half = Math.ceil(workers / 2);
  const bounds: Readonly<Record<Lane, number>> = {
    NESTED: Number.POSITIVE_INFINITY,
    ENDING: Number.POSITIVE_INFINITY,
    STEP: workers,
    READING: half,
    TROUBLED: Math.min(Math.ceil(workers / 4), TROUBLED_MAX),
    PROBE: Math.min(half, PROBES_MAX),
  };
  const places = LANES.map((lane) => bounds[lane])
    .filter(Number.isFinite)
    .reduce((sum, bound) => sum + bound, 0);
  const taken: Record<Lane, number> = { NESTED: 0, ENDING: 0, STEP: 0, READING: 0, TROUBLED: 0, PROBE: 0 };
  const waiting: Readonly<Record<Lane, Waiter[]>> = {
    NESTED: [],
    ENDING: [],
    STEP: [],
    READING: [],
    TROUBLED: [],
    PROBE: [],
  };
  /** Every process, and since when it is as it is. */
  const since = new Map<Handle, number>();
  /** Those that are told to end. */
  const leaving = new Set<Handle>();
  /** The one that ended its call last is the first to be called again. */
  const idle: Handle[] = [];
  let isClosed = false;

  async function run(plugin: Plugin, lane: Lane, job: Job): Promise<unknown> {
    for (let tries = 1; ; tries += 1) {
      job.signal.throwIfAborted();
      const worker = await inItsTime(lane, job.deadline, () => workerFor(plugin, lane, job.signal));
      try {
        await confirmed(worker, job);
        return await worker.call(job);
      } catch (error) {
        if (!(error instanceof NotBegun)) throw error;
        if (leftUntil(job.deadline) <= 0)
          throw new IsolationError(
            `The time for ${job.what} was over before a process of driver "${plugin.name}" took it.`,
            { kind: "TIMEOUT", retryable: true },
          );
        if (tries === TRIES)
          throw new IsolationError(
            `Driver "${plugin.name}" has lost ${TRIES} processes before they took the call, the last one by ${error.message}; look at the memory of the machine that the service runs on.`,
            { retryable: true },
          );
      } finally {
        taken[lane] -= 1;
        serve();
      }
    }
  }

  /** Asks, now that nothing is left to wait for, whether the call may still be made. If not, its worker is there for others. */
  async function confirmed(worker: Handle, { confirm, signal }: Job): Promise<void> {
    if (!confirm) return;
    try {
      await confirm();
      signal.throwIfAborted();
    } catch (error) {
      changed(worker);
      throw error;
    }
  }

  /** Waits, at the expense of who waits unless it is in a lane where it is not. */
  async function inItsTime<T>(lane: Lane, deadline: Date, wait: () => Promise<T>): Promise<T> {
    const held = TIMED_BY_PLACE.has(lane) && deadline instanceof Deadline ? deadline : null;
    held?.hold();
    try {
      return await wait();
    } finally {
      held?.goOn();
    }
  }

  function workerFor(plugin: Plugin, lane: Lane, signal: AbortSignal): Promise<Handle> {
    return new Promise((give, fail) => {
      if (isClosed) throw new Error("The service is ending.");
      const settle = () => {
        signal.removeEventListener("abort", onAbort);
        const at = waiting[lane].indexOf(waiter);
        if (at >= 0) waiting[lane].splice(at, 1);
      };
      const waiter: Waiter = {
        plugin,
        lane,
        since: performance.now(),
        give: (worker) => {
          settle();
          taken[lane] += 1;
          give(worker);
        },
        fail: (error) => {
          settle();
          fail(error);
        },
      };
      const onAbort = () => waiter.fail(signal.reason);
      signal.addEventListener("abort", onAbort, { once: true });
      waiting[lane].push(waiter);
      serve();
    });
  }

  /** Gives idle workers to those whose turn it is, and starts some for the others. */
  function serve(): void {
    const wanting = new Map<Plugin, number>();
    const now = performance.now();
    for (const lane of LANES) {
      if (waiting[lane].length === 0) continue;
      let room = bounds[lane] - taken[lane];
      for (const waiter of waiting[lane].slice()) {
        if (room <= 0) break;
        room -= 1;
        const at = idle.findLastIndex(({ plugin, spent }) => plugin === waiter.plugin && !spent);
        const [worker] = at < 0 ? [] : idle.splice(at, 1);
        if (worker) waiter.give(worker);
        else if (now - waiter.since >= PATIENCE_MS || !isServed(waiter.plugin))
          wanting.set(waiter.plugin, (wanting.get(waiter.plugin) ?? 0) + 1);
        else later ??= setTimeout(serveLater, PATIENCE_MS);
      }
    }
    if (wanting.size > 0 && !isClosed) startFor(wanting);
  }

  let later: NodeJS.Timeout | undefined;
  function serveLater(): void {
    later = undefined;
    serve();
  }

  /** Whether a worker of this driver is there, or coming. */
  function isServed(plugin: Plugin): boolean {
    for (const worker of since.keys()) if (worker.plugin === plugin && !worker.spent) return true;
    return false;
  }

  /** As many processes as there may be calls: those above are at what nobody asked for, and end soon. */
  function isFull(): boolean {
    const beyond = (["NESTED", "ENDING"] as const).reduce((sum, lane) => sum + taken[lane] + waiting[lane].length, 0);
    return since.size - leaving.size >= places + beyond;
  }

  function startFor(wanting: ReadonlyMap<Plugin, number>): void {
    let starting = [...since.keys()].filter(({ state }) => state === "starting");
    for (const [plugin, count] of wanting) {
      const coming = starting.filter((one) => one.plugin === plugin).length;
      for (let more = count - coming; more > 0 && starting.length < STARTS_AT_ONCE; more -= 1) {
        // Others that nobody needs just now make room.
        if (isFull()) retire(idle[0]);
        if (isFull()) return;
        try {
          const started = startWorker({ plugin, log, graceMs, changed });
          since.set(started, performance.now());
          starting = [...starting, started];
        } catch (error) {
          waiterOf(plugin)?.fail(
            new IsolationError(
              `Driver "${plugin.name}" could not be started in a process of its own: ${messageOf(error)}.`,
              { retryable: true },
            ),
          );
        }
      }
    }
  }

  function changed(worker: Handle, why?: IsolationError): void {
    since.set(worker, performance.now());
    forget(worker);
    if (worker.state === "ended") {
      since.delete(worker);
      leaving.delete(worker);
      if (why) waiterOf(worker.plugin)?.fail(why);
    } else if (isClosed || worker.spent) retire(worker);
    else if (worker.state === "idle") idle.push(worker);
    else if (worker.state === "busy") boundBusy();
    serve();
  }

  function waiterOf(plugin: Plugin): Waiter | undefined {
    return LANES.flatMap((lane) => waiting[lane]).find((waiter) => waiter.plugin === plugin);
  }

  /** Processes that are still at something which nobody asked for any more take no more room than half of the places. */
  function boundBusy(): void {
    const busy = [...since.keys()].filter(({ state }) => state === "busy");
    for (const worker of busy.slice(0, Math.max(0, busy.length - half)))
      worker.kill("its last call had left too much behind");
  }

  function forget(worker: Handle): void {
    const at = idle.indexOf(worker);
    if (at >= 0) idle.splice(at, 1);
  }

  function retire(worker: Handle | undefined): void {
    if (!worker) return;
    forget(worker);
    leaving.add(worker);
    worker
      .close()
      .catch((error: unknown) =>
        log.warn({ err: error, driver: worker.plugin.name }, "a driver's process did not end in order"),
      );
  }

  const lookEveryMs = Math.min(LOOK_EVERY_MS, idleMs);
  let lookedAt = performance.now();
  const looking = setInterval(() => {
    const now = performance.now();
    // This process was held up: what its workers have said meanwhile is heard first.
    const isLate = now - lookedAt > 2 * lookEveryMs;
    lookedAt = now;
    if (isLate) return;
    for (const [worker, at] of since) {
      if (worker.state === "busy" && now - at > busyMs)
        worker.kill("its last call had left something behind that goes on");
      // One is kept, so that what comes now and then need not wait for a start.
      else if (
        idle.includes(worker) &&
        now - at > idleMs &&
        idle.some((other) => other !== worker && other.plugin === worker.plugin)
      )
        retire(worker);
    }
  }, lookEveryMs).unref();

  return {
    run,
    async close(plugin) {
      await Promise.all([...since.keys()].filter((worker) => worker.plugin === plugin).map((worker) => worker.close()));
    },
    async endCalls() {
      await Promise.all([...since.keys()].filter(({ state }) => state === "called").map((worker) => worker.close()));
    },
    get figures() {
      const processes = { starting: 0, idle: 0, called: 0, busy: 0, ended: 0 };
      for (const { state } of since.keys()) processes[state] += 1;
      return { processes, waiting: LANES.reduce((sum, lane) => sum + waiting[lane].length, 0) };
    },
    async [Symbol.asyncDispose]() {
      isClosed = true;
      clearInterval(looking);
      clearTimeout(later);
      for (const waiter of LANES.flatMap((lane) => [...waiting[lane]]))
        waiter.fail(new Error("The service is ending."));
      await Promise.all([...since.keys()].map((worker) => worker.close()));
    },
  };
}
