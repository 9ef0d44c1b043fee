/**
 * The subscribers' streams, read once and one record at a time, beside the log as it is at the end: P7 (order, gaps, resuming),
 * P8 (silence) and what P9 says of other readers. The log holds everything that was ever committed and nothing is taken
 * from it in the arena, so what a stream was told can be compared row by row, and what it was not told is missing.
 */
import { readRecords } from "../records.ts";
import type { End, Item, Mark, Open } from "../records.ts";
import { Findings } from "./verdict.ts";
import type { Blow, History, TransitionRow } from "./history.ts";
import { joined, overlap, percentile, touches, widened, without } from "./intervals.ts";
import type { Interval } from "./intervals.ts";

/** One connection, as far as it has been read. */
interface Stream {
  readonly open: Open;
  /** Index in the log of the first row that it has not been told to be past; null: it has not said where it is. */
  next: number | null;
  /** Position that everything has been delivered up to. */
  position: number | null;
  /** Whether it has caught up since it was opened: what comes then is told as it happens. */
  isLive: boolean;
  last: Open | Item | Mark;
  /** Whether the subscriber was on an earlier stream before. */
  readonly isResumed: boolean;
  readonly matches: (row: TransitionRow) => boolean;
}

/**
 * P7. A stream goes on after the position it was opened with. Item by item positions rise; between what it was told
 * last and the next item or bookmark the log holds no row that its filter takes; each item says what the log's row says, down
 * to the millisecond. A bookmark says that everything up to it was delivered: it may repeat the position of the last
 * item or bookmark, and never lie behind it. So resuming is exact when the first thing told after a cursor fits to that cursor,
 * the replica that answered it. A stream that ends says so with a reset, for a reason that there was, and with a cursor up to which it has
 * delivered everything: in the arena nothing is taken from the log and no caller loses access, so that leaves that its replica got SIGTERM.
 * The logs of runs, which are streams too, are numbered from 1 without a hole. Where a stream began without a cursor, nothing is known before its first item or bookmark. What was sent and
 * not read is not judged: the next stream of that subscriber is opened after what it had read.
 *
 * P8. An open stream is told something every 15 s, if only a bookmark, or ends. Left out are readers that stall on purpose, and of
 * each silence the time in which the replica was frozen or the wire to its clients was bad, with some time to get going again.
 * The database's absence is no excuse: the replica that cannot look can say so. And a stream that was told it is caught up
 * is never far behind: no row that it should have had, and no item that it is told, is older than the same 15 s, unless replicas had
 * no database to read it from. Nor is it cut off while its replica is well.
 *
 * P9, for others. While a caller stalls, the others are told of transitions no later than ever: by the time from the transition to its
 * reader, of streams that had caught up, outside of other nemeses, as far as there are enough of both to compare.
 */
export async function checkStreams(
  history: History,
  slow: Findings,
): Promise<{ readonly order: Findings; readonly silence: Findings }> {
  const order = new Findings("P7", "streams are ordered, gap-free, resumable");
  const silence = new Findings("P8", "a stream never goes silent");
  const streams = new Map<string, Stream>();
  const opened = new Set<string>();
  const matchers = new Map<string, (row: TransitionRow) => boolean>();
  const latency = createLatency(history);
  const excuses = createExcuses(
    history,
    ({ what, target }, replica) => (what === "freeze" && target === replica) || target === `${replica}/clients`,
  );
  const troubles = createExcuses(
    history,
    ({ target }, replica) => target === replica || target.startsWith(`${replica}/`),
  );
  const unwell = createUnwell(
    history,
    ({ target }, replica) => target === replica || target === "postgres" || target.startsWith(`${replica}/`),
  );
  judgeLogs(history, order);
  for await (const one of readRecords(history.folder, "streams")) {
    if (one.k === "open") {
      const isResumed = opened.has(one.client);
      opened.add(one.client);
      const filter = JSON.stringify(one.filter);
      const matches = matchers.get(filter) ?? matcherOf(history, one.filter);
      matchers.set(filter, matches);
      streams.set(one.stream, {
        open: one,
        next: one.afterPosition === null ? null : indexAfter(history, one.afterPosition),
        position: one.afterPosition,
        isLive: false,
        last: one,
        isResumed,
        matches,
      });
      continue;
    }
    const stream = streams.get(one.stream);
    if (!stream) continue;
    judgeSilence(history, silence, excuses, stream, one);
    if (one.k === "end") {
      streams.delete(one.stream);
      judgeEnd(history, order, stream, one);
      if (one.code === "LOST") judgeLoss(silence, unwell, stream, one);
      continue;
    }
    // Opening alone shows nothing.
    if (stream.last === stream.open && stream.open.afterPosition !== null)
      order.fact(stream.isResumed ? "streams resumed" : "streams begun after a cursor");
    if (one.k === "item") {
      order.fact("items compared");
      judgeItem(history, order, stream, one);
      judgeLate(history, silence, troubles, stream, one);
      latency.note(stream, one);
    } else {
      order.fact("bookmarks compared");
      judgeMark(history, order, stream, one);
      stream.isLive ||= one.caughtUp;
      if (stream.isLive && !stream.open.stalls) judgeBehind(history, silence, troubles, stream, one);
    }
    stream.last = one;
  }
  for (const stream of streams.values())
    judgeSilence(history, silence, excuses, stream, {
      t: history.over,
      k: "end",
      stream: stream.open.stream,
      code: "OVER",
      detail: null,
    });
  latency.judge(slow);
  return { order, silence };
}

/** Index of the first row after a position. Positions have no holes unless something was lost, which P3 tells. */
function indexAfter({ transitions }: History, position: number): number {
  let [low, high] = [0, transitions.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((transitions[middle]?.position ?? Infinity) <= position) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** By the nodes' labels as they are at the end: the arena gives no other ones. */
function matcherOf(history: History, filter: Open["filter"]): (row: TransitionRow) => boolean {
  if (filter === null) return () => true;
  const ids = filter.ids && new Set(filter.ids);
  const wanted = filter.labels ?? [];
  const taken = new Set(
    [...history.nodes.values()]
      .filter(({ id, labels }) => (!ids || ids.has(id)) && wanted.every(({ key, value }) => labels[key] === value))
      .map(({ id }) => id),
  );
  return ({ nodeId }) => taken.has(nodeId);
}

/** Goes over the rows up to a position; the first that the stream should have been told of. */
function pass(history: History, stream: Stream, position: number): TransitionRow | undefined {
  let missed: TransitionRow | undefined;
  let index = stream.next ?? indexAfter(history, position);
  for (; (history.transitions[index]?.position ?? Infinity) <= position; index += 1) {
    const row = history.transitions[index];
    if (row && stream.next !== null && stream.matches(row)) missed ??= row;
  }
  stream.next = index;
  return missed;
}

function judgeItem(history: History, findings: Findings, stream: Stream, item: Item): void {
  if (stream.position !== null && item.position <= stream.position) {
    findings.violation(
      "doubled",
      `Stream ${item.stream} received position ${item.position} after ${stream.position}.`,
      stream.open,
      stream.last,
      item,
    );
    return;
  }
  const missed = pass(history, stream, item.position - 1);
  if (missed)
    findings.violation(
      "lost",
      `Stream ${item.stream} received position ${item.position} after ${stream.position}, and not of ${missed.position} (${missed.event} of ${missed.nodeName}).`,
      stream.open,
      stream.last,
      item,
      missed,
    );
  const row = history.transitions[stream.next ?? 0];
  stream.position = item.position;
  if (row?.position !== item.position) {
    findings.violation(
      "illegal",
      `Stream ${item.stream} received position ${item.position}, which is not in the log.`,
      stream.open,
      item,
    );
    return;
  }
  stream.next = (stream.next ?? 0) + 1;
  if (!stream.matches(row))
    findings.violation(
      "other",
      `Stream ${item.stream} was told of ${item.nodeName}, which its filter does not take.`,
      stream.open,
      item,
    );
  const flaw = differenceOf(item, row);
  if (flaw !== null)
    findings.violation(
      "illegal",
      `Stream ${item.stream} was told another ${flaw} at position ${item.position} than the log has.`,
      item,
      row,
    );
}

function differenceOf(item: Item, row: TransitionRow): string | null {
  if (item.nodeId !== row.nodeId) return "node";
  for (const field of ["nodeName", "sequence", "from", "to", "event", "step", "actor", "reason"] as const)
    if (item[field] !== row[field]) return field;
  if (item.operationId !== undefined && item.operationId !== row.operationId) return "operation";
  if (item.runId !== undefined && item.runId !== row.runId) return "run";
  return Date.parse(item.at) === row.wallMs ? null : "time";
}

function judgeMark(history: History, findings: Findings, stream: Stream, mark: Mark): void {
  if (stream.position !== null && mark.position < stream.position) {
    findings.violation(
      "other",
      `Stream ${mark.stream} was told a bookmark at ${mark.position}, behind ${stream.position}.`,
      stream.open,
      stream.last,
      mark,
    );
    return;
  }
  const missed = pass(history, stream, mark.position);
  if (missed)
    findings.violation(
      "lost",
      `Stream ${mark.stream} was assured of everything up to ${mark.position} was delivered, and not of ${missed.position} (${missed.event} of ${missed.nodeName}).`,
      stream.open,
      stream.last,
      mark,
      missed,
    );
  stream.position = mark.position;
}

function judgeEnd(history: History, findings: Findings, stream: Stream, end: End): void {
  const { open } = stream;
  switch (end.code) {
    case "CURSOR_EXPIRED":
      return findings.violation("lost", `Stream ${end.stream} was refused its own cursor, ${open.after}.`, open, end);
    case "COMPLETE":
      return findings.violation("lost", `Stream ${end.stream} ended without a word.`, open, stream.last, end);
    case "LEFT":
    case "LOST":
      return;
    case "SHUTTING_DOWN": {
      findings.fact("resets compared");
      judgeMark(history, findings, stream, {
        t: end.t,
        k: "mark",
        stream: end.stream,
        position: Number(end.detail),
        caughtUp: false,
      });
      // Who stalls reads it when all is over.
      const wasTold =
        open.stalls ||
        history.lives.some(
          ({ name, told, ended }) =>
            name === open.replica && told !== null && told <= end.t && (ended ?? Infinity) >= open.t,
        );
      if (!wasTold)
        findings.violation(
          "other",
          `Stream ${end.stream} was told that ${open.replica} goes down, without a SIGTERM.`,
          open,
          end,
        );
      return;
    }
    default:
      findings.violation(
        "other",
        `Stream ${end.stream} was reset with ${end.code}, for which there was no reason.`,
        open,
        stream.last,
        end,
      );
  }
}

function judgeLogs({ logs }: History, findings: Findings): void {
  findings.fact("logs of runs", logs.length);
  for (const log of logs)
    if (log.first !== 1 || log.last !== log.lines)
      findings.violation(
        "lost",
        `The log of run ${log.runId} has ${log.lines} lines, numbered from ${log.first} to ${log.last}.`,
        log,
      );
}

// ---- silence

const SILENCE_MS = 15_000;

/** When one of some nemeses struck a replica, and how long it needed to recover, by replica. */
function createExcuses(
  history: History,
  counts: (blow: Blow, replica: string) => boolean,
): (replica: string) => readonly Interval[] {
  const known = new Map<string, readonly Interval[]>();
  return (replica) => {
    const found =
      known.get(replica) ??
      widened(
        history.blows.filter((blow) => counts(blow, replica)),
        0,
        history.options.recoveryMs,
      );
    known.set(replica, found);
    return found;
  };
}

/** The same, and the times in which the replica was not there, or was not ready. */
function createUnwell(
  history: History,
  counts: (blow: Blow, replica: string) => boolean,
): (replica: string) => readonly Interval[] {
  const struck = createExcuses(history, counts);
  const known = new Map<string, readonly Interval[]>();
  return (replica) => {
    const there = history.lives
      .filter(({ name, ready }) => name === replica && ready !== null)
      .map(({ ready, killed, told, ended }) => ({
        from: ready ?? 0,
        to: Math.min(killed ?? Infinity, told ?? Infinity, ended ?? Infinity),
      }));
    const found =
      known.get(replica) ??
      joined([
        ...struck(replica),
        ...widened(without(there, history.begun, history.over), 0, history.options.recoveryMs),
      ]);
    known.set(replica, found);
    return found;
  };
}

/** A connection that broke, although nothing had happened to the replica or the way to it, nor to the database, for a while. For a stream's beginning clients wait 5 s and no longer: that is their own end. */
function judgeLoss(
  findings: Findings,
  unwell: (replica: string) => readonly Interval[],
  { open, last }: Stream,
  end: End,
): void {
  if (open.stalls || last === open || touches(unwell(open.replica), Math.max(open.t, end.t - SILENCE_MS), end.t))
    return;
  findings.violation(
    "other",
    `Stream ${end.stream} of ${open.replica} (${open.transport}) was cut off (${end.detail ?? ""}), and nothing had befallen that.`,
    open,
    last,
    end,
  );
}

/** An item that is old already when it is told, though the stream had caught up. */
function judgeLate(
  history: History,
  findings: Findings,
  troubles: (replica: string) => readonly Interval[],
  { open, isLive, last }: Stream,
  item: Item,
): void {
  if (!isLive || open.stalls) return;
  findings.fact("items of streams that had caught up");
  const at = history.wall(item.at);
  const age = item.t - at - overlap(history.down, at, item.t) - overlap(troubles(open.replica), at, item.t);
  if (age > SILENCE_MS + history.options.slackMs)
    findings.violation(
      "stuck",
      `Stream ${item.stream} had caught up, and received position ${item.position} ${Math.round(age / 1000)} s after it was there.`,
      open,
      last,
      item,
    );
}

function judgeSilence(
  history: History,
  findings: Findings,
  excuses: (replica: string) => readonly Interval[],
  stream: Stream,
  now: Item | Mark | End,
): void {
  if (stream.open.stalls) return;
  const from = stream.last.t;
  const silent = now.t - from - overlap(excuses(stream.open.replica), from, now.t);
  if (silent > SILENCE_MS) findings.fact("silences beyond 15 s within the slack");
  else if (now.k !== "end") findings.fact("stretches between two items");
  if (silent > SILENCE_MS + history.options.slackMs) {
    findings.violation(
      "stuck",
      `Stream ${stream.open.stream} of ${stream.open.replica} (${stream.open.transport}) received nothing for ${Math.round(silent / 100) / 10} s.`,
      stream.open,
      stream.last,
      now,
    );
  }
}

/** A bookmark of a stream that has caught up, behind rows that were there long before it. */
function judgeBehind(
  history: History,
  findings: Findings,
  troubles: (replica: string) => readonly Interval[],
  stream: Stream,
  mark: Mark,
): void {
  findings.fact("bookmarks that say how far the log is");
  for (let index = stream.next ?? 0; index < history.transitions.length; index += 1) {
    const row = history.transitions[index];
    if (!row || row.t > mark.t) return;
    if (!stream.matches(row)) continue;
    const age =
      mark.t - row.t - overlap(history.down, row.t, mark.t) - overlap(troubles(stream.open.replica), row.t, mark.t);
    if (age > SILENCE_MS + history.options.slackMs)
      findings.violation(
        "stuck",
        `Stream ${mark.stream} was told that it is caught up at ${mark.position}, ${Math.round(age / 1000)} s after position ${row.position} was there.`,
        stream.open,
        mark,
        row,
      );
    return;
  }
}

// ---- how late others are told

const ENOUGH = 200;
const SLOWER = 5;
const SLOW_MS = 5_000;

function createLatency(history: History) {
  const stalls = joined(history.blows.filter(({ what }) => what === "stall"));
  const others = widened(
    history.blows.filter(({ what }) => what !== "stall" && what !== "driver" && what !== "clock"),
    1_000,
    history.options.recoveryMs,
  );
  const during: number[] = [];
  const calm: number[] = [];
  return {
    note({ open, isLive }: Stream, item: Item) {
      if (open.stalls || !isLive || touches(others, item.t, item.t)) return;
      const ms = item.t - history.wall(item.at);
      (touches(stalls, item.t, item.t) ? during : calm).push(ms);
    },
    judge(findings: Findings) {
      const [slow, quick] = [percentile(during, 0.99), percentile(calm, 0.99)];
      findings.figure("p99 from transition to reader while others stall, ms", slow);
      findings.figure("p99 from transition to reader else, ms", quick);
      if (slow === undefined || quick === undefined || during.length < ENOUGH || calm.length < ENOUGH) return;
      findings.fact("items told to others while a caller stalled", during.length);
      if (slow > Math.max(SLOW_MS, SLOWER * quick))
        findings.violation(
          "other",
          `While readers stalled, others were told of transitions after ${Math.round(slow)} ms (p99), else after ${Math.round(quick)}.`,
        );
    },
  };
}
