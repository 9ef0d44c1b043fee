/** The slots of the lanes, and the calls that wait for one and for a worker, in order. */
import { momentNow } from "./idle-time.ts";
import type { Moment } from "./idle-time.ts";
import { LANES } from "./lanes.ts";
import type { Lane } from "./lanes.ts";
import type { Handle, Plugin } from "./worker-handle.ts";

export interface Waiter {
  readonly plugin: Plugin;
  readonly lane: Lane;
  /** The function's name for messages. */
  readonly what: string;
  /** When it began to wait. */
  readonly since: Moment;
  /** Processes that were killed while they started for it. */
  killedStarts: number;
  readonly resolve: (worker: Handle) => void;
  readonly reject: (error: unknown) => void;
}

/** Slots of background power readings for nodes without an answer, and of probes of one discovery. */
const TROUBLED_MAX = 4;
const PROBES_MAX = 16;

export class Slots {
  readonly limits: Readonly<Record<Lane, number>>;
  readonly #taken = new Map<Lane, number>();
  readonly #waiting: Readonly<Record<Lane, Waiter[]>> = {
    NESTED: [],
    ENDING: [],
    STEP: [],
    READING: [],
    TROUBLED: [],
    PROBE: [],
  };

  /** `workers`: slots of steps; the other lanes' slots derive from it. */
  constructor(workers: number) {
    this.limits = {
      NESTED: Number.POSITIVE_INFINITY,
      ENDING: Number.POSITIVE_INFINITY,
      STEP: workers,
      READING: Math.ceil(workers / 2),
      TROUBLED: Math.min(Math.ceil(workers / 4), TROUBLED_MAX),
      PROBE: Math.min(Math.ceil(workers / 2), PROBES_MAX),
    };
  }

  /** Slots in use and needed: all of the limited lanes, and the calls of the unlimited ones. */
  get processesMax(): number {
    return LANES.map((lane) =>
      Number.isFinite(this.limits[lane]) ? this.limits[lane] : this.taken(lane) + this.#waiting[lane].length,
    ).reduce((sum, count) => sum + count, 0);
  }

  taken(lane: Lane): number {
    return this.#taken.get(lane) ?? 0;
  }

  release(lane: Lane): void {
    this.#taken.set(lane, this.taken(lane) - 1);
  }

  get waitingCount(): number {
    return this.waiters().length;
  }

  /** All waiters, by precedence of their lanes, oldest first. */
  waiters(): Waiter[] {
    return LANES.flatMap((lane) => this.#waiting[lane]);
  }

  /**
   * The waiters that their lanes have slots for: first those of the lanes that wait for no slot, in whose way no other
   * call may be; then the others in the order of their arrival, so that no lane takes all processes.
   */
  admissible(): Waiter[] {
    const first: Waiter[] = [];
    const others: Waiter[][] = [];
    for (const lane of LANES) {
      const free = this.limits[lane] - this.taken(lane);
      const waiting = this.#waiting[lane];
      if (free === Number.POSITIVE_INFINITY) first.push(...waiting);
      else if (free > 0 && waiting.length > 0) others.push(waiting.slice(0, free));
    }
    // Those of one lane are in order.
    const inOrder = others.length < 2 ? others.flat() : others.flat().toSorted((a, b) => a.since.time - b.since.time);
    return [...first, ...inOrder];
  }

  /** Waits for a worker, which comes with a slot of the lane. Rejects with the signal's reason. */
  wait(
    { plugin, lane, what, signal }: Pick<Waiter, "plugin" | "lane" | "what"> & { readonly signal: AbortSignal },
    onWait: () => void,
  ): Promise<Handle> {
    const { promise, resolve, reject } = Promise.withResolvers<Handle>();
    const leave = () => {
      signal.removeEventListener("abort", onAbort);
      const at = this.#waiting[lane].indexOf(waiter);
      if (at >= 0) this.#waiting[lane].splice(at, 1);
    };
    const waiter: Waiter = {
      plugin,
      lane,
      what,
      since: momentNow(),
      killedStarts: 0,
      resolve: (worker) => {
        leave();
        this.#taken.set(lane, this.taken(lane) + 1);
        resolve(worker);
      },
      reject: (error) => {
        leave();
        reject(error);
      },
    };
    const onAbort = () => waiter.reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    this.#waiting[lane].push(waiter);
    onWait();
    return promise;
  }
}
