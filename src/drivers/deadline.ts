/**
 * A deadline on the monotonic clock: setting the system clock does not move it. It can be put on hold. The deadline of
 * a part of the time holds that of the whole too.
 */

export class Deadline extends Date {
  /** The deadline on the monotonic clock. */
  #endsAt: number;
  #heldSince: number | null = null;
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

  /** Stops the time until `resume`. */
  hold(): void {
    this.#heldSince ??= performance.now();
    this.#whole?.hold();
  }

  resume(): void {
    if (this.#heldSince === null) return;
    this.#endsAt += performance.now() - this.#heldSince;
    this.#heldSince = null;
    this.setTime(Date.now() + this.leftMs);
    this.#whole?.resume();
  }
}

/** Milliseconds until a deadline; 0 or less if it has passed. */
export function leftUntil(deadline: Date): number {
  return deadline instanceof Deadline ? deadline.leftMs : deadline.getTime() - Date.now();
}

/** Maximum delay of one timer; longer delays use several. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * Runs `work` when a deadline has passed, including the time it is on hold; at once if it has passed already. Returns a
 * function that cancels this.
 *
 * A process that was paused past the deadline finds its timer due together with messages that arrived in time. The
 * messages are processed first: Node reads sockets between timers and immediates.
 */
export function whenOver(deadline: Date, work: () => void): () => void {
  let timer: NodeJS.Timeout | undefined;
  let immediate: NodeJS.Immediate | undefined;
  const wait = () => {
    timer = setTimeout(check, Math.min(Math.max(1, Math.ceil(leftUntil(deadline))), TIMER_MS_MAX));
  };
  const check = () => {
    if (leftUntil(deadline) > 0) wait();
    else immediate = setImmediate(work);
  };
  if (leftUntil(deadline) > 0) wait();
  else work();
  return () => {
    clearTimeout(timer);
    clearImmediate(immediate);
  };
}
