/** A moment by which something has to be done, that does not move when the process's clock is set. */

export class Deadline extends Date {
  /** The same moment by the clock that nobody sets. */
  readonly #endsAt: number;

  /** So many milliseconds from now. */
  constructor(afterMs: number) {
    super(Date.now() + afterMs);
    this.#endsAt = performance.now() + afterMs;
  }

  get leftMs(): number {
    return this.#endsAt - performance.now();
  }
}

/** How long is left until a deadline, in milliseconds; not above 0: none. */
export function leftUntil(deadline: Date): number {
  return deadline instanceof Deadline ? deadline.leftMs : deadline.getTime() - Date.now();
}
