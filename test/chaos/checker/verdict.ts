/**
 * What a check found. A check looks at facts; a fact that breaks the promise is a violation, told with the records that show
 * it. Without a single fact there is no verdict: a promise that the run did not put to the test has not been kept by it.
 */

/** What a violation comes to for the operator of the service. */
export type Harm = "lost" | "doubled" | "illegal" | "stuck" | "other";

export interface Violation {
  readonly says: string;
  readonly harm: Harm;
  /** The records that show it. */
  readonly records: readonly unknown[];
}

export interface Verdict {
  /** P1 to P20, or REST for what must hold when everything has ended. */
  readonly id: string;
  readonly title: string;
  readonly verdict: "HELD" | "VIOLATED" | "NOT EXERCISED";
  /** Facts that were judged, by what they are. */
  readonly facts: Readonly<Record<string, number>>;
  /** What was measured on the way: no part of the verdict. */
  readonly figures: Readonly<Record<string, number>>;
  readonly notes: readonly string[];
  readonly violations: number;
  readonly harms: Readonly<Record<Harm, number>>;
  /** The first of them. */
  readonly first: readonly Violation[];
}

const FIRST = 10;

/** Collects what one check finds. */
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

  /** Something was judged that could have broken the promise. */
  fact(what: string, count = 1): void {
    this.#facts.set(what, (this.#facts.get(what) ?? 0) + count);
  }

  figure(what: string, value: number | undefined): void {
    if (value !== undefined && Number.isFinite(value)) this.#figures.set(what, Math.round(value * 10) / 10);
  }

  note(text: string): void {
    this.#notes.push(text);
  }

  violation(harm: Harm, says: string, ...records: readonly unknown[]): void {
    this.#harms[harm] += 1;
    if (this.#first.length < FIRST) this.#first.push({ says, harm, records });
  }

  verdict(): Verdict {
    const violations = Object.values(this.#harms).reduce((sum, count) => sum + count, 0);
    const facts = [...this.#facts.values()].reduce((sum, count) => sum + count, 0);
    return {
      id: this.id,
      title: this.title,
      verdict: violations > 0 ? "VIOLATED" : facts > 0 ? "HELD" : "NOT EXERCISED",
      facts: Object.fromEntries(this.#facts),
      figures: Object.fromEntries(this.#figures),
      notes: this.#notes,
      violations,
      harms: this.#harms,
      first: this.#first,
    };
  }
}
