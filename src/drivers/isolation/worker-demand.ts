/**
 * Decides how many more worker processes the waiting calls of one driver need.
 *
 * A process that has a long call serves no other; the others serve the waiting calls in turn. So calls that end at once
 * share a few processes, and calls that last get one each. The time that the service itself needs between two calls is
 * not considered: more processes would not shorten it.
 *
 * A process is blocked while its call, a step, waits for a nested call that has no process yet. It is not long for that
 * reason: a single further process serves the nested calls one after the other, and the blocked ones go on.
 */

export interface WorkerDemand {
  /** How long each call has waited, in ms, in the order in which they are served. */
  readonly waitedMs: readonly number[];
  /** Processes of the driver that have started. */
  readonly processes: number;
  /** Of these, those that are idle or whose call has not lasted for `WAIT_MAX_MS`, and that are not blocked. */
  readonly prompt: number;
  /** Of these, those that are blocked by a nested call. Nested calls are the first of `waitedMs`. */
  readonly blocked: number;
  /** Median duration of the driver's recent calls, in ms; 0 if none has ended. */
  readonly typicalMs: number;
}

/** How long a call may wait for a process that has other calls; a start takes about as long. */
export const WAIT_MAX_MS = 50;
/** A single hanging call must not delay the next one until it is recognized. */
const PROCESSES_MIN = 2;

/** How many processes are needed in addition; those that are starting count. */
export function neededWorkers({ waitedMs, processes, prompt, blocked, typicalMs }: WorkerDemand): number {
  let needed = 0;
  // Where processes have long calls, new ones will get some too.
  const promptShare = processes === 0 ? 1 : (prompt + blocked) / processes;
  for (const [index, waited] of waitedMs.entries()) {
    const isFirst = processes + needed === 0;
    if (waited < WAIT_MAX_MS && !isFirst) continue;
    const free = prompt + needed * promptShare;
    // Processes are blocked until the nested calls have been served, which needs a free one.
    const serving = free > 0 && index >= blocked ? free + blocked : free;
    const isServed = serving > 0 && ((index + 1 - needed) * typicalMs) / serving <= WAIT_MAX_MS;
    if (isFirst || !isServed || processes + needed < PROCESSES_MIN) needed += 1;
  }
  return needed;
}

/** Number of durations that count. */
const RECENT = 31;

/** The durations of the recent calls of a driver. */
export class CallDurations {
  readonly #recent: number[] = [];
  #next = 0;
  #typical: number | null = 0;

  note(ms: number): void {
    this.#recent[this.#next] = ms;
    this.#next = (this.#next + 1) % RECENT;
    this.#typical = null;
  }

  /** Their median in ms; 0 without any. */
  get typicalMs(): number {
    this.#typical ??= this.#recent.toSorted((a, b) => a - b)[Math.floor(this.#recent.length / 2)] ?? 0;
    return this.#typical;
  }
}
