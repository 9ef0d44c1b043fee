/**
 * Limits the rows of denials and failed logins, of which one caller could cause any number: of a caller, or of an
 * address whose login fails, ten a minute are written, then the last one with the number of those left out.
 */
import type { AuditedEnd, AuditedRequest } from "./audit-row.ts";

/** Rows of a minute and sender. */
const ROWS_MAX = 10;
const MINUTE_MS = 60_000;
/** How often to look for minutes that are over. */
const CHECK_MS = 5_000;
/** Callers and addresses with a number of their own; the others share one. */
const SENDERS_MAX = 10_000;
const OTHERS = "";

type NoteRow = (request: AuditedRequest, end: AuditedEnd) => void;

interface Denials {
  readonly since: number;
  count: number;
  last: Parameters<NoteRow>;
}

export class DeniedRows implements Disposable {
  readonly #senders = new Map<string, Denials>();
  readonly #note: NoteRow;
  readonly #now: () => number;
  readonly #timer = setInterval(() => this.#check(), CHECK_MS).unref();

  /** `note` writes the row with the number of those left out. */
  constructor(note: NoteRow, now: () => number = () => performance.now()) {
    this.#note = note;
    this.#now = now;
  }

  /**
   * Whether a row is to be written; if not, it is counted. Rows that are not denials are: the caller of a refused
   * mutation has its scope, and could have as many rows of accepted ones.
   */
  admits(request: AuditedRequest, end: AuditedEnd): boolean {
    if (end.outcome !== "FORBIDDEN") return true;
    const { action, address, subject } = request;
    const given = action === "LOGIN_FAILED" ? (address ?? OTHERS) : subject;
    const sender = this.#senders.has(given) || this.#senders.size < SENDERS_MAX ? given : OTHERS;
    const { since, count } = this.#senders.get(sender) ?? { since: this.#now(), count: 0 };
    this.#senders.set(sender, { since, count: count + 1, last: [request, end] });
    return count < ROWS_MAX;
  }

  /** Writes the numbers of the minutes that are not over. */
  [Symbol.dispose](): void {
    clearInterval(this.#timer);
    this.#check(0);
  }

  #check(age = MINUTE_MS): void {
    for (const [sender, { since, count, last }] of this.#senders) {
      if (this.#now() - since < age) continue;
      this.#senders.delete(sender);
      if (count <= ROWS_MAX) continue;
      const [request, end] = last;
      const left = `The last of ${(count - ROWS_MAX).toLocaleString("en")} more within a minute, which have no rows.`;
      this.#note(request, { ...end, reason: `${left} ${end.reason ?? ""}`.trim() });
    }
  }
}
