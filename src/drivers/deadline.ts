/** A moment by which something has to be done, that does not move when the process's clock is set. It moves while it is held. */

export class Deadline extends Date {
  /** The same moment by the clock that nobody sets. */
  #endsAt: number;
  #heldSince: number | null = null;

  /** So many milliseconds from now. */
  constructor(afterMs: number) {
    super(Date.now() + afterMs);
    this.#endsAt = performance.now() + afterMs;
  }

  get leftMs(): number {
    return this.#endsAt - (this.#heldSince ?? performance.now());
  }

  /** No time passes until it goes on. */
  hold(): void {
    this.#heldSince ??= performance.now();
  }

  goOn(): void {
    if (this.#heldSince === null) return;
    this.#endsAt += performance.now() - this.#heldSince;
    this.#heldSince = null;
    this.setTime(Date.now() + this.leftMs);
  }
}

/** How long is left until a deadline, in milliseconds; not above 0: none. */
export function leftUntil(deadline: Date): number {
  return deadline instanceof Deadline ? deadline.leftMs : deadline.getTime() - Date.now();
}

/** Longest delay of one timer; a longer one is waited for in pieces. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * Does something when a deadline has passed, however long it is held until then; at once where it has. Answers how to call
 * that off.
 *
 * A process that was paused over the deadline finds its timer and what had come in time at the same moment. What has come is
 * heard first: Node reads its sockets between its timers and its immediates.
 */
export function whenOver(deadline: Date, work: () => void): () => void {
  let timer: NodeJS.Timeout | undefined;
  let turn: NodeJS.Immediate | undefined;
  const wait = () => {
    timer = setTimeout(check, Math.min(Math.max(1, Math.ceil(leftUntil(deadline))), TIMER_MS_MAX));
  };
  const check = () => {
    if (leftUntil(deadline) > 0) wait();
    else turn = setImmediate(work);
  };
  if (leftUntil(deadline) > 0) wait();
  else work();
  return () => {
    clearTimeout(timer);
    clearImmediate(turn);
  };
}
