/**
 * Findings of a check. A check counts facts; a fact that violates the promise is a violation, reported with the records
 * that show it. Without a fact the promise counts as not exercised.
 */

/** Consequence of a violation for the operator of the service. */
export type Harm = "lost" | "doubled" | "illegal" | "stuck" | "other";

export interface Violation {
  readonly message: string;
  readonly harm: Harm;
  readonly records: readonly unknown[];
}

export interface CheckResult {
  /** P1 to P22, or REST for the state when everything has ended. */
  readonly id: string;
  readonly title: string;
  readonly result: "HELD" | "VIOLATED" | "NOT EXERCISED";
  /** Number of checked facts, by kind. */
  readonly facts: Readonly<Record<string, number>>;
  /** Measurements, which do not affect the result. */
  readonly figures: Readonly<Record<string, number>>;
  readonly notes: readonly string[];
  readonly violations: number;
  readonly harms: Readonly<Record<Harm, number>>;
  /** The first violations. */
  readonly first: readonly Violation[];
}

const FIRST = 10;

/** Collects the findings of one check. */
export class Findings {
  readonly id: string;
  readonly title: string;
  readonly #facts = new Map<string, number>();
  readonly #figures = new Map<string, number>();
  readonly #notes: string[] = [];
  readonly #first: Violation[] = [];
  readonly #harms: Record<Harm, number> = { lost: 0, doubled: 0, illegal: 0, stuck: 0, other: 0 };

  constructor(id: string, title: string) {
    this.id = id;
    this.title = title;
  }

  /** Counts a fact that could have violated the promise. */
  fact(what: string, count = 1): void {
    this.#facts.set(what, (this.#facts.get(what) ?? 0) + count);
  }

  figure(what: string, value: number | undefined): void {
    if (value !== undefined && Number.isFinite(value)) this.#figures.set(what, Math.round(value * 10) / 10);
  }

  note(text: string): void {
    this.#notes.push(text);
  }

  violation(harm: Harm, message: string, ...records: readonly unknown[]): void {
    this.#harms[harm] += 1;
    if (this.#first.length < FIRST) this.#first.push({ message, harm, records });
  }

  result(): CheckResult {
    const violations = Object.values(this.#harms).reduce((sum, count) => sum + count, 0);
    const facts = [...this.#facts.values()].reduce((sum, count) => sum + count, 0);
    return {
      id: this.id,
      title: this.title,
      result: violations > 0 ? "VIOLATED" : facts > 0 ? "HELD" : "NOT EXERCISED",
      facts: Object.fromEntries(this.#facts),
      figures: Object.fromEntries(this.#figures),
      notes: this.#notes,
      violations,
      harms: this.#harms,
      first: this.#first,
    };
  }
}
