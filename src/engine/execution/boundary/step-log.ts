/**
 * The log of one entry of a step: the lines and the progress that the driver reports. Both are kept in memory and
 * stored in batches: lines at most twice a second, progress once a second, and the rest when the entry ends, in the
 * transaction that stores its outcome. Every batch is written through the run's ledger, so a process that has lost the
 * run writes nothing. A process that crashes loses the lines of its last half second.
 *
 * An attempt may log `LINES_MAX` lines and `BYTES_MAX` bytes in all its entries together. The first line that does not
 * fit and all lines after it are dropped, and a notice at the end states their number. An attempt has at most one
 * notice: a later entry raises its number.
 *
 * Modes:
 * - idle: nothing to store. Left for due by a line or a progress report.
 * - due: a timer runs until the next batch. Left for storing by the timer.
 * - storing: lines that come now wait for the next batch. Left for due or idle when the batch is stored or has failed;
 *   a batch that has failed is stored with the next one.
 * - ended: nothing is taken any more. Entered by `end`, and by a `FencedError` when another replica has claimed the
 *   run.
 */
import type { Log } from "../../../log.ts";
import type { AttemptRow } from "../../../store/runs/attempts.ts";
import { logShare, rewriteNotice } from "../../../store/runs/step-log.ts";
import type { LoggedAttempt, LogShare } from "../../../store/runs/step-log.ts";
import { FencedError } from "../claim/claimed-run.ts";
import type { StepOutput } from "../call/driver-call.ts";
import type { Ledger } from "../commit/ledger.ts";

interface Line {
  readonly at: Date;
  readonly text: string;
  readonly bytes: number;
}

interface ProgressReport {
  readonly percent: number;
  readonly message: string | null;
}

export const LINES_MAX = 1_000;
export const BYTES_MAX = 256 * 1024;
export const LINE_LENGTH_MAX = 4_000;
const LINES_EVERY_MS = 500;
const PROGRESS_EVERY_MS = 1_000;

interface StepLogParts {
  readonly log: Log;
  /**
   * Runs a change of the run's ledger and stores it. Rejects with a `FencedError` if another process has claimed the
   * run.
   */
  write(change: (ledger: Ledger) => Promise<void>): Promise<void>;
}

export class StepLog implements StepOutput {
  readonly #parts: StepLogParts;
  readonly #attempt: AttemptRow;
  readonly #place: LoggedAttempt;
  /** Lines that are not stored yet, and when the first of them came. */
  readonly #lines: Line[] = [];
  #since = 0;
  /** Dropped lines that the notice does not count yet. */
  #dropped = 0;
  #isFull = false;
  #report: ProgressReport | null = null;
  /** The stored log of the attempt; null if it was not read yet. */
  #share: LogShare | null = null;
  /** A batch was begun and not acknowledged, so it may or may not be stored. */
  #isUnacknowledged = false;
  #storedAt = Number.NEGATIVE_INFINITY;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #storing: Promise<void> | null = null;
  #timer: NodeJS.Timeout | undefined;
  #dueAt = Number.POSITIVE_INFINITY;
  #isEnded = false;

  constructor(parts: StepLogParts, attempt: AttemptRow) {
    this.#parts = parts;
    this.#attempt = attempt;
    this.#place = { runId: attempt.runId, step: attempt.step, attempt: attempt.number };
  }

  line(given: string): void {
    if (this.#isEnded) return;
    const text = given.length > LINE_LENGTH_MAX ? `${given.slice(0, LINE_LENGTH_MAX - 1).toWellFormed()}…` : given;
    const size = Buffer.byteLength(text);
    this.#isFull ||= isTooMuch(
      (this.#share?.lines ?? 0) + this.#lines.length + 1,
      (this.#share?.bytes ?? 0) + sizeOf(this.#lines) + size,
    );
    if (this.#isFull) {
      this.#dropped += 1;
      return;
    }
    if (this.#lines.length === 0) this.#since = performance.now();
    this.#lines.push({ at: new Date(), text, bytes: size });
    this.#schedule();
  }

  progress(percent: number, message: string | null): void {
    if (this.#isEnded) return;
    this.#report = { percent, message };
    this.#schedule();
  }

  /** Takes nothing from now on. Resolves when no batch is being stored. */
  async end(): Promise<void> {
    this.#isEnded = true;
    clearTimeout(this.#timer);
    await this.#storing;
  }

  /** Notes the batch in the ledger of the run. The last batch, after `end`, has the notice. */
  async store(ledger: Ledger): Promise<void> {
    const report = this.#report;
    const isLast = this.#isEnded;
    if (this.#lines.length === 0 && report === null && !(isLast && this.#dropped > 0)) return;
    if (report) {
      ledger.changeAttempt(this.#attempt, { progressPercent: report.percent, progressMessage: report.message });
      ledger.changeRun({});
    }
    const stored = await this.#storedShare(ledger);
    // Counted now: lines may have come during the read.
    const count = this.#lines.length;
    const fitting = this.#lines.slice(0, stored.notice ? 0 : fittingCount(this.#lines, stored));
    this.#isFull ||= fitting.length < count;
    let share = this.#addLines(ledger, stored, fitting);
    const dropped = this.#dropped + count - fitting.length;
    if (isLast && dropped > 0) share = this.#writeNotice(ledger, share, dropped);
    ledger.afterCommit(() => {
      this.#lines.splice(0, count);
      this.#since = performance.now();
      if (this.#report === report) this.#report = null;
      this.#share = share;
      this.#isUnacknowledged = false;
      this.#dropped = isLast ? 0 : this.#dropped + count - fitting.length;
    });
  }

  /** Read again after a batch whose commit was not acknowledged. */
  async #storedShare({ transaction }: Ledger): Promise<LogShare> {
    const known = this.#isUnacknowledged ? null : this.#share;
    const share = known ?? (await logShare(transaction.tx, this.#place, LINES_MAX + 1));
    this.#isUnacknowledged = true;
    return share;
  }

  #addLines(ledger: Ledger, share: LogShare, lines: readonly Line[]): LogShare {
    ledger.addLines(
      lines.map(({ at, text }, index) => ({
        ...this.#place,
        sequence: share.newest + index + 1,
        at,
        text,
        dropped: null,
      })),
    );
    return {
      ...share,
      newest: share.newest + lines.length,
      lines: share.lines + lines.length,
      bytes: share.bytes + sizeOf(lines),
    };
  }

  /** Adds the attempt's notice, or raises the number of the one that an earlier entry has left. */
  #writeNotice(ledger: Ledger, share: LogShare, count: number): LogShare {
    const { runId } = this.#place;
    const dropped = (share.notice?.dropped ?? 0) + count;
    const text = noticeOf(dropped);
    const sequence = share.notice?.sequence ?? share.newest + 1;
    const notice = { sequence, dropped };
    if (share.notice) {
      ledger.afterwards(() => rewriteNotice(ledger.transaction.tx, { runId, sequence, text, dropped }));
      return { ...share, notice };
    }
    ledger.addLines([{ ...this.#place, sequence, at: new Date(), text, dropped }]);
    return { newest: sequence, lines: share.lines + 1, bytes: share.bytes + Buffer.byteLength(text), notice };
  }

  #schedule(): void {
    if (this.#isEnded || this.#storing) return;
    const linesDue = this.#lines.length > 0 ? this.#since + LINES_EVERY_MS : Number.POSITIVE_INFINITY;
    const reportDue = this.#report ? this.#reportedAt + PROGRESS_EVERY_MS : Number.POSITIVE_INFINITY;
    const due = Math.max(Math.min(linesDue, reportDue), this.#storedAt + LINES_EVERY_MS);
    if (due >= this.#dueAt) return;
    this.#dueAt = due;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#beginBatch(), Math.max(0, due - performance.now())).unref();
  }

  #beginBatch(): void {
    const { log, write } = this.#parts;
    this.#dueAt = Number.POSITIVE_INFINITY;
    this.#storedAt = performance.now();
    if (this.#report) this.#reportedAt = this.#storedAt;
    this.#storing = write((ledger) => this.store(ledger))
      .catch((error: unknown) => {
        if (error instanceof FencedError) this.#isEnded = true;
        else log.debug({ err: error, runId: this.#place.runId }, "storing lines of a step log failed; it is retried");
      })
      .finally(() => {
        this.#storing = null;
        this.#schedule();
      });
  }
}

function isTooMuch(lineCount: number, byteCount: number): boolean {
  return lineCount > LINES_MAX || byteCount > BYTES_MAX;
}

/** The number of lines, from the first, that fit into the log of the attempt. */
function fittingCount(lines: readonly Line[], share: LogShare): number {
  let bytes = share.bytes;
  const misfit = lines.findIndex((line, index) => {
    bytes += line.bytes;
    return isTooMuch(share.lines + index + 1, bytes);
  });
  return misfit < 0 ? lines.length : misfit;
}

function sizeOf(lines: readonly Line[]): number {
  return lines.reduce((sum, { bytes }) => sum + bytes, 0);
}

function noticeOf(count: number): string {
  return `${count} more ${count === 1 ? "line" : "lines"} of this attempt ${count === 1 ? "was" : "were"} not kept: its log is full.`;
}
