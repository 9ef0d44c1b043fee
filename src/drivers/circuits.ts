/**
 * Circuit breakers of this process: one for each controller of each driver. Calls to a controller that does not answer
 * fail at once, so that its nodes hold no slots and delay no others.
 *
 * Modes of a circuit:
 * - closed: calls pass. `FAILURES_MAX` failures in a row, of kind UNREACHABLE or TIMEOUT, open it.
 * - open: calls fail at once. It ends with its delay.
 * - half-open: one call passes, the probe; the others fail. An answer of the machine, even a refusal, closes the
 *   circuit, and a failure opens it again with twice the delay. A probe that ends with neither leaves the place to the
 *   next call.
 *
 * Also the pace of each controller, by which calls are divided: one that gave no answer may hold few slots at a time.
 */
import type { DriverErrorKind } from "./driver.ts";

export const FAILURES_MAX = 5;
const DELAY_FIRST_MS = 10_000;
const DELAY_LONGEST_MS = 300_000;

/** A circuit that is not closed. */
export interface Circuit {
  readonly driver: string;
  readonly controller: string;
  readonly state: "OPEN" | "HALF_OPEN";
  /** Failures in a row. */
  readonly failures: number;
  readonly reason: string;
  readonly kind: DriverErrorKind;
  /** As in `DriverError`. */
  readonly away: boolean;
  readonly openedAt: Date;
  /** From then on, one call tries the controller again. */
  readonly nextProbeAt: Date;
}

/**
 * PROMPT: it answered the last call, or was never called. SLOW: its last answer took long. FAILING: the last call had
 * no answer in time.
 */
export type Pace = "PROMPT" | "SLOW" | "FAILING";

/** Evidence of a call about its controller. NOTHING: it was canceled, or failed for a reason of its own. */
export type Answer =
  | "ANSWERED"
  | "ANSWERED_SLOWLY"
  | "NOTHING"
  | (Pick<Circuit, "kind" | "reason"> & { readonly away?: boolean });

interface Entry {
  failures: number;
  delayMs: number;
  /** Null: closed. */
  openedAt: number | null;
  nextProbeAt: number;
  probing: boolean;
  reason: string;
  kind: DriverErrorKind;
  away: boolean;
}

export interface Controller {
  readonly driver: string;
  readonly controller: string;
  /** Distinguishes settings of a machine that has a controller of its own: a change of them closes it. */
  readonly settings?: string;
}

/** Entries that are kept; the oldest is dropped. */
const ENTRIES_MAX = 20_000;

/** An entry of a controller without a failure. */
const LATE: Entry = {
  failures: 0,
  delayMs: DELAY_FIRST_MS,
  openedAt: null,
  nextProbeAt: 0,
  probing: false,
  reason: "",
  kind: "TIMEOUT",
  away: false,
};

export class Circuits {
  /** Only controllers with failures have an entry. */
  readonly #entries = new Map<string, Entry & Controller>();
  readonly #slow = new Set<string>();
  readonly #now: () => number;

  /** `now`: milliseconds, for tests. */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** Takes the right to make a call. Returns the open circuit in its way, or null. Each right needs one `note`. */
  enter(controller: Controller): Circuit | null {
    const entry = this.#entries.get(keyOf(controller));
    if (!entry || entry.openedAt === null) return null;
    if (entry.probing || this.#now() < entry.nextProbeAt) return this.#circuitOf(entry);
    entry.probing = true;
    return null;
  }

  /** Notes what a call has found out. */
  note(controller: Controller, answer: Answer): void {
    const key = keyOf(controller);
    const entry = this.#entries.get(key);
    if (answer === "ANSWERED" || answer === "ANSWERED_SLOWLY") {
      this.#entries.delete(key);
      if (answer === "ANSWERED") this.#slow.delete(key);
      else this.#slow.add(key);
      dropOldest(this.#slow);
      return;
    }
    if (answer === "NOTHING") {
      if (entry) entry.probing = false;
      return;
    }
    this.#entries.set(key, { ...this.#failed(entry, answer), ...controller });
    dropOldest(this.#entries);
  }

  /** Notes that a call has no answer yet in the time that a prompt one needs. It does not count as a failure. */
  noteLate(controller: Controller): void {
    const key = keyOf(controller);
    if (this.#entries.has(key)) return;
    this.#entries.set(key, { ...LATE, ...controller });
    dropOldest(this.#entries);
  }

  paceOf(controller: Controller): Pace {
    const key = keyOf(controller);
    if (this.#entries.has(key)) return "FAILING";
    return this.#slow.has(key) ? "SLOW" : "PROMPT";
  }

  #failed(entry: Entry | undefined, { kind, reason, away = false }: Extract<Answer, object>): Entry {
    const failures = (entry?.failures ?? 0) + 1;
    const wasOpen = entry !== undefined && entry.openedAt !== null;
    // A call that began before the circuit opened says nothing new.
    if (wasOpen && !entry.probing) return { ...entry, failures };
    const delayMs = wasOpen ? Math.min(entry.delayMs * 2, DELAY_LONGEST_MS) : DELAY_FIRST_MS;
    const opens = wasOpen || failures >= FAILURES_MAX;
    return {
      failures,
      kind,
      reason,
      away,
      delayMs,
      probing: false,
      openedAt: opens ? (entry?.openedAt ?? this.#now()) : null,
      nextProbeAt: this.#now() + delayMs,
    };
  }

  /** The circuit of a controller; null if it is closed. */
  circuitOf(controller: Controller): Circuit | null {
    const entry = this.#entries.get(keyOf(controller));
    return entry && entry.openedAt !== null ? this.#circuitOf(entry) : null;
  }

  /** Number of open circuits by driver. */
  openByDriver(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { driver, openedAt } of this.#entries.values())
      if (openedAt !== null) counts.set(driver, (counts.get(driver) ?? 0) + 1);
    return counts;
  }

  #circuitOf(entry: Entry & Controller): Circuit {
    const { driver, controller, failures, reason, kind, away, openedAt, nextProbeAt, probing } = entry;
    const state = probing || this.#now() >= nextProbeAt ? "HALF_OPEN" : "OPEN";
    return {
      driver,
      controller,
      state,
      failures,
      reason,
      kind,
      away,
      openedAt: new Date(openedAt ?? nextProbeAt),
      nextProbeAt: new Date(nextProbeAt),
    };
  }
}

function dropOldest(kept: { readonly size: number; keys(): Iterable<string>; delete(key: string): unknown }): void {
  const [oldest] = kept.keys();
  if (kept.size > ENTRIES_MAX && oldest !== undefined) kept.delete(oldest);
}

function keyOf({ driver, controller, settings = "" }: Controller): string {
  return `${driver} ${controller} ${settings}`;
}
