/**
 * A deadline on the monotonic clock: setting the system clock does not move it. It can be put on hold. The deadline of
 * a part of the time holds that of the whole too.
 */

export class Deadline extends Date {
  /** The deadline on the monotonic clock. */
  #endsAt: number;
  #heldSince: number | null = null;
  #heldMs = 0;
  readonly #whole: Deadline | null;

  /** `afterMs` milliseconds from now. `whole`: the deadline that this is a part of. */
  constructor(afterMs: number, whole?: Date) {
    super(Date.now() + afterMs);
    this.#endsAt = performance.now() + afterMs;
    this.#whole = whole instanceof Deadline ? whole : null;
  }

  get leftMs(): number {
    return this.#endsAt - (this.#heldSince ?? performance.now());
  }

  /** For how long it was on hold. */
  get heldMs(): number {
    return this.#heldMs + (this.#heldSince === null ? 0 : performance.now() - this.#heldSince);
  }

  /** Stops the time until `resume`. */
  hold(): void {
    this.#heldSince ??= performance.now();
    this.#whole?.hold();
  }

  resume(): void {
    if (this.#heldSince === null) return;
    const heldMs = performance.now() - this.#heldSince;
    this.#endsAt += heldMs;
    this.#heldMs += heldMs;
    this.#heldSince = null;
    this.setTime(Date.now() + this.leftMs);
    this.#whole?.resume();
  }
}

/** Milliseconds until a deadline; 0 or less if it has passed. */
export function leftUntil(deadline: Date): number {
  return deadline instanceof Deadline ? deadline.leftMs : deadline.getTime() - Date.now();
}

/** The result of `work`, during which the deadline is on hold. */
export async function onHold<T>(deadline: Date, work: () => Promise<T>): Promise<T> {
  if (!(deadline instanceof Deadline)) return work();
  deadline.hold();
  try {
    return await work();
  } finally {
    deadline.resume();
  }
}

/** Maximum delay of one timer; longer delays use several. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** A timer that is later than this was in a process that was paused. */
const PAUSE_MS = 1_000;
/** Time, after such a pause, for other processes to pass on results. */
const AFTER_PAUSE_MS = 500;

/**
 * Runs `work` when a deadline has passed, including the time it is on hold; at once if it has passed already. Returns a
 * function that cancels this.
 *
 * A process that was paused past the deadline finds its timer due together with messages that arrived in time. The
 * messages are processed first: Node reads sockets between timers and immediates. If the pause was long, other
 * processes were most likely paused too, and have a moment to pass on what they have received.
 */
export function whenOver(deadline: Date, work: () => void): () => void {
  let timer: NodeJS.Timeout | undefined;
  let immediate: NodeJS.Immediate | undefined;
  const wait = () => {
    timer = setTimeout(check, Math.min(Math.max(1, Math.ceil(leftUntil(deadline))), TIMER_MS_MAX));
  };
  const check = () => {
    const left = leftUntil(deadline);
    if (left > 0) wait();
    else if (left < -PAUSE_MS) timer = setTimeout(() => (immediate = setImmediate(work)), AFTER_PAUSE_MS);
    else immediate = setImmediate(work);
  };
  if (leftUntil(deadline) > 0) wait();
  else work();
  return () => {
    clearTimeout(timer);
    clearImmediate(immediate);
  };
}
