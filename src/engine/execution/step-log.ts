/**
 * What a driver says during one entry of a step: lines of its log, and progress. Both are kept in memory and stored in
 * batches: lines twice a second at most, progress once, and what is left when the entry ends, in the transaction that
 * stores its outcome. Every batch is written through the run's ledger, so a process that has lost the run writes
 * nothing; one that crashes loses the lines of its last half second.
 *
 * An attempt has a share of the log: `LINES_MAX` lines and `BYTES_MAX` bytes, whatever number of entries it takes. When a
 * line does not fit any more, that one and all after it are only counted, and a last line tells how many they were.
 *
 * Modes: idle (nothing to store); due (a timer runs until the next batch); storing (what is said meanwhile waits for the
 * batch after it); ended (what is said is not taken any more).
 */
import type { Log } from "../../log.ts";
import type { AttemptRow } from "../../store/attempts.ts";
import { logShare, rewriteLine } from "../../store/step-log.ts";
import type { LogShare } from "../../store/step-log.ts";
import { FencedError } from "./claimed-run.ts";
import type { Ledger } from "./ledger.ts";
import type { StepOutput } from "./driver-call.ts";

export interface StepLog extends StepOutput {
  /** Nothing is taken from now on. Resolves when no batch is being stored. */
  end(): Promise<void>;
  /** Notes what is left, to be stored with the ledger of its run. */
  store(ledger: Ledger): Promise<void>;
}

interface Line {
  readonly at: Date;
  readonly text: string;
  readonly bytes: number;
}

export const LINES_MAX = 1_000;
export const BYTES_MAX = 256 * 1024;
export const LINE_LENGTH_MAX = 4_000;
const LINES_EVERY_MS = 500;
const PROGRESS_EVERY_MS = 1_000;

export interface StepLogParts {
  readonly log: Log;
  /** Has the ledger of the run filled, and stored; rejects with `Fenced` when somebody else holds the run by now. */
  write(note: (ledger: Ledger) => Promise<void>): Promise<void>;
}

export function createStepLog({ log, write }: StepLogParts, attempt: AttemptRow): StepLog {
  const place = { runId: attempt.runId, step: attempt.step, attempt: attempt.number };
  /** Lines that are not stored yet; since when there is one. */
  const lines: Line[] = [];
  let bytes = 0;
  let since = 0;
  /** Lines that had no room and are not told of yet. */
  let dropped = 0;
  let full = false;
  let report: { readonly percent: number; readonly message: string | null } | null = null;
  /** What the attempt has in the log; null: not looked at yet. */
  let share: LogShare | null = null;
  /** A batch was begun, and whether it was stored is not known. */
  let unsure = false;
  let storedAt = Number.NEGATIVE_INFINITY;
  let reportedAt = Number.NEGATIVE_INFINITY;
  let storing: Promise<void> | null = null;
  let timer: NodeJS.Timeout | undefined;
  let dueAt = Number.POSITIVE_INFINITY;
  let ended = false;

  function arrange(): void {
    if (ended || storing) return;
    const linesDue = lines.length > 0 ? since + LINES_EVERY_MS : Number.POSITIVE_INFINITY;
    const reportDue = report ? reportedAt + PROGRESS_EVERY_MS : Number.POSITIVE_INFINITY;
    const due = Math.max(Math.min(linesDue, reportDue), storedAt + LINES_EVERY_MS);
    if (due >= dueAt) return;
    dueAt = due;
    clearTimeout(timer);
    timer = setTimeout(begin, Math.max(0, due - performance.now())).unref();
  }

  function begin(): void {
    dueAt = Number.POSITIVE_INFINITY;
    storedAt = performance.now();
    if (report) reportedAt = storedAt;
    storing = write(store)
      .catch((error: unknown) => {
        if (error instanceof FencedError) ended = true;
        else log.debug({ err: error, runId: place.runId }, "what a step said was not stored; it is tried again");
      })
      .finally(() => {
        storing = null;
        arrange();
      });
  }

  async function store(ledger: Ledger): Promise<void> {
    const told = report;
    const isLast = ended;
    if (lines.length === 0 && told === null && !(isLast && dropped > 0)) return;
    if (told) {
      ledger.changeAttempt(attempt, { progressPercent: told.percent, progressMessage: told.message });
      ledger.changeRun({});
    }
    // The answer to an earlier commit may have been lost: then what is there is looked at again.
    const known = (unsure ? null : share) ?? (await logShare(ledger.transaction.tx, place, LINES_MAX + 1));
    unsure = true;
    const count = lines.length;
    const notice = droppedOf(known);
    const fitting = lines.slice(0, notice > 0 ? 0 : roomFor(lines, known));
    full ||= fitting.length < count;
    const rows = fitting.map(({ at, text }, index) => ({ ...place, sequence: known.newest + index + 1, at, text }));
    ledger.addLines(rows);
    let after: LogShare = {
      newest: known.newest + rows.length,
      lines: known.lines + rows.length,
      bytes: known.bytes + sizeOf(fitting),
      last: rows.at(-1) ?? known.last,
    };
    const untold = dropped + count - fitting.length;
    if (isLast && untold > 0) after = await tellDropped(ledger, after, notice, untold);
    ledger.afterCommit(() => {
      lines.splice(0, count);
      bytes = sizeOf(lines);
      since = performance.now();
      if (report === told) report = null;
      share = after;
      unsure = false;
      dropped = isLast ? 0 : dropped + count - fitting.length;
    });
  }

  /** Says how many lines were dropped, in a line of its own or in the one that an earlier entry has left. */
  async function tellDropped(ledger: Ledger, known: LogShare, notice: number, count: number): Promise<LogShare> {
    const text = droppedLine(notice + count);
    if (notice > 0 && known.last) {
      const { sequence } = known.last;
      ledger.afterwards(() => rewriteLine(ledger.transaction.tx, place.runId, sequence, text));
      return { ...known, last: { sequence, text } };
    }
    const sequence = known.newest + 1;
    ledger.addLines([{ ...place, sequence, at: new Date(), text }]);
    return {
      newest: sequence,
      lines: known.lines + 1,
      bytes: known.bytes + Buffer.byteLength(text),
      last: { sequence, text },
    };
  }

  return {
    line(given) {
      if (ended) return;
      const text = given.length > LINE_LENGTH_MAX ? `${given.slice(0, LINE_LENGTH_MAX - 1).toWellFormed()}…` : given;
      const size = Buffer.byteLength(text);
      full ||= isTooMuch((share?.lines ?? 0) + lines.length + 1, (share?.bytes ?? 0) + bytes + size);
      if (full) {
        dropped += 1;
        return;
      }
      if (lines.length === 0) since = performance.now();
      lines.push({ at: new Date(), text, bytes: size });
      bytes += size;
      arrange();
    },
    progress(percent, message) {
      if (ended) return;
      report = { percent, message };
      arrange();
    },
    async end() {
      ended = true;
      clearTimeout(timer);
      await storing;
    },
    store,
  };
}

function isTooMuch(lineCount: number, byteCount: number): boolean {
  return lineCount > LINES_MAX || byteCount > BYTES_MAX;
}

/** How many of the lines, from the first on, the attempt's share has room for. */
function roomFor(lines: readonly Line[], share: LogShare): number {
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

const DROPPED = /^(\d+) more lines? of this attempt (?:was|were) not kept: its log is full\.$/;

function droppedLine(count: number): string {
  return `${count} more ${count === 1 ? "line" : "lines"} of this attempt ${count === 1 ? "was" : "were"} not kept: its log is full.`;
}

/** How many lines of the attempt an earlier entry has dropped, as its last line tells. */
function droppedOf({ last }: LogShare): number {
  return Number(DROPPED.exec(last?.text ?? "")?.[1] ?? 0);
}
