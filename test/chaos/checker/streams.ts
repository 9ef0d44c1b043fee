/**
 * The subscribers' streams, read one record at a time, compared with the log at the end: P7 (order, gaps, resuming), P8
 * (silence) and the part of P9 about other readers. The log holds everything that was ever committed, and the arena
 * deletes nothing from it. So items can be compared row by row, and missing ones are found.
 */
import { readRecords } from "../records.ts";
import type { End, Item, Mark, Open } from "../records.ts";
import { Findings } from "./findings.ts";
import type { Fault, History, TransitionRow } from "./history.ts";
import { joined, overlap, percentile, touches, widened, without } from "./intervals.ts";
import type { Interval } from "./intervals.ts";
import { waitedForCpu } from "./starvation.ts";

/** State of a connection after the records read so far. */
interface Stream {
  readonly open: Open;
  /** Index of the first row of the log that the stream has not passed; null if its position is unknown. */
  next: number | null;
  /** Position up to which everything has been delivered. */
  position: number | null;
  /** Whether the stream has caught up since it was opened; later items are delivered as they occur. */
  isLive: boolean;
  last: Open | Item | Mark;
  /** Whether the subscriber had an earlier stream. */
  readonly isResumed: boolean;
  readonly matches: (row: TransitionRow) => boolean;
}

/**
 * P7. A stream continues after the position it was opened with. Positions rise from item to item. Between the last
 * delivery and the next item or bookmark the log holds no row that matches the filter. Each item equals the log's row,
 * to the millisecond. A bookmark says that everything up to it was delivered: it may repeat the position of the last
 * item or bookmark, and never lies behind it. Resuming is exact if the first delivery after a cursor fits that cursor,
 * on any replica. A stream that ends sends a reset with a valid reason and a cursor up to which everything was
 * delivered; in the arena nothing is deleted from the log, so the only valid reasons are SIGTERM and a change of access
 * (P22). The logs of runs, which are streams too, are numbered from 1 without a gap. For a stream without a cursor,
 * nothing is known before its first item or bookmark. Items that were sent but not read do not count: the subscriber's
 * next stream starts after the last one it read.
 *
 * P8. An open stream receives something every 15 s, at least a bookmark, or ends. Readers that stall on purpose are
 * excluded, and so is the time in which the replica was frozen or its connection to clients was impaired, with some
 * time to recover. An outage of the database does not excuse silence: the replica can report it. A stream that has
 * caught up is never far behind: no row that it should have received, and no item that it receives, is older than 15 s,
 * unless the replicas had no database. It is not disconnected while its replica is healthy. The slack beyond the 15 s
 * is at least as long as the processes on the way waited for a CPU (starvation.ts): of a silence that of the replica,
 * the proxies and the subscribers, and of a delay also that of PostgreSQL.
 *
 * P9, for others. While a reader stalls, others receive transitions without additional delay. Compared are the delays
 * from transition to reader of streams that had caught up, outside other faults, if there are enough of both.
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
  const faultTimes = createFaultTimes(
    history,
    ({ what, target }, replica) => (what === "freeze" && target === replica) || target === `${replica}/clients`,
  );
  const replicaFaults = createFaultTimes(
    history,
    ({ target }, replica) => target === replica || target.startsWith(`${replica}/`),
  );
  const unavailable = createUnavailable(history);
  checkLogs(history, order);
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
    checkSilence(history, silence, faultTimes, stream, one);
    if (one.k === "end") {
      streams.delete(one.stream);
      checkEnd(history, order, stream, one);
      if (one.code === "LOST") checkLoss(silence, unavailable, stream, one);
      continue;
    }
    if (stream.last === stream.open && stream.open.afterPosition !== null)
      order.fact(stream.isResumed ? "streams resumed" : "streams begun after a cursor");
    if (one.k === "item") {
      order.fact("items compared");
      checkItem(history, order, stream, one);
      checkLate(history, silence, replicaFaults, stream, one);
      latency.note(stream, one);
    } else {
      order.fact("bookmarks compared");
      checkMark(history, order, stream, one);
      stream.isLive ||= one.caughtUp;
      if (stream.isLive && !stream.open.stalls) checkBehind(history, silence, replicaFaults, stream, one);
    }
    stream.last = one;
  }
  for (const stream of streams.values())
    checkSilence(history, silence, faultTimes, stream, {
      t: history.over,
      k: "end",
      stream: stream.open.stream,
      code: "OVER",
      detail: null,
    });
  latency.check(slow);
  return { order, silence };
}

/** Index of the first row after a position. Positions have no gaps unless rows were lost, which P3 reports. */
function indexAfter({ transitions }: History, position: number): number {
  let [low, high] = [0, transitions.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((transitions[middle]?.position ?? Infinity) <= position) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Uses the nodes' labels at the end: the arena never changes them. */
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

/** Moves the stream past the rows up to a position. Returns the first that the stream should have received. */
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

function checkItem(history: History, findings: Findings, stream: Stream, item: Item): void {
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
      `Stream ${item.stream} received position ${item.position} after ${stream.position}, but not ${missed.position} (${missed.event} of ${missed.nodeName}).`,
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
      `Stream ${item.stream} received ${item.nodeName}, which does not match its filter.`,
      stream.open,
      item,
    );
  const flaw = differenceOf(item, row);
  if (flaw !== null)
    findings.violation(
      "illegal",
      `Stream ${item.stream} received position ${item.position} with a wrong ${flaw}.`,
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

function checkMark(history: History, findings: Findings, stream: Stream, mark: Mark): void {
  if (stream.position !== null && mark.position < stream.position) {
    findings.violation(
      "other",
      `Stream ${mark.stream} received a bookmark at ${mark.position}, behind ${stream.position}.`,
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
      `Stream ${mark.stream} received a bookmark at ${mark.position}, but not ${missed.position} (${missed.event} of ${missed.nodeName}).`,
      stream.open,
      stream.last,
      mark,
      missed,
    );
  stream.position = mark.position;
}

function checkEnd(history: History, findings: Findings, stream: Stream, end: End): void {
  const { open } = stream;
  switch (end.code) {
    case "CURSOR_EXPIRED":
      return findings.violation("lost", `The cursor ${open.after} of stream ${end.stream} was rejected.`, open, end);
    case "COMPLETE":
      return findings.violation("lost", `Stream ${end.stream} ended without a reset.`, open, stream.last, end);
    case "LEFT":
    case "LOST":
    case "DENIED":
      return;
    // P22 judges its reason.
    case "ACCESS_CHANGED":
      return checkReset(history, findings, stream, end);
    case "SHUTTING_DOWN": {
      checkReset(history, findings, stream, end);
      // A stalled reader reads the reset when the process has long ended.
      const wasTerminated =
        open.stalls ||
        history.lifetimes.some(
          ({ name, terminated, ended }) =>
            name === open.replica && terminated !== null && terminated <= end.t && (ended ?? Infinity) >= open.t,
        );
      if (!wasTerminated)
        findings.violation(
          "other",
          `Stream ${end.stream} was reset with SHUTTING_DOWN, but ${open.replica} received no SIGTERM.`,
          open,
          end,
        );
      return;
    }
    default:
      findings.violation(
        "other",
        `Stream ${end.stream} was reset with ${end.code} without a reason.`,
        open,
        stream.last,
        end,
      );
  }
}

/** The cursor of a reset, up to which everything was delivered. */
function checkReset(history: History, findings: Findings, stream: Stream, { t, stream: name, detail }: End): void {
  findings.fact("resets compared");
  checkMark(history, findings, stream, { t, k: "mark", stream: name, position: Number(detail), caughtUp: false });
}

function checkLogs({ logs }: History, findings: Findings): void {
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

/** Times, by replica, in which one of the selected faults hit it, including its recovery. */
function createFaultTimes(
  history: History,
  counts: (fault: Fault, replica: string) => boolean,
): (replica: string) => readonly Interval[] {
  const known = new Map<string, readonly Interval[]>();
  return (replica) => {
    const found =
      known.get(replica) ??
      widened(
        history.faults.filter((fault) => counts(fault, replica)),
        0,
        history.options.recoveryMs,
      );
    known.set(replica, found);
    return found;
  };
}

/** Times in which a fault hit a replica or the database, or the replica was not running or not ready. */
export function createUnavailable(history: History): (replica: string) => readonly Interval[] {
  const struck = createFaultTimes(
    history,
    ({ target }, replica) => target === replica || target === "postgres" || target.startsWith(`${replica}/`),
  );
  const known = new Map<string, readonly Interval[]>();
  return (replica) => {
    const there = history.lifetimes
      .filter(({ name, ready }) => name === replica && ready !== null)
      .map(({ ready, killed, terminated, ended }) => ({
        from: ready ?? 0,
        to: Math.min(killed ?? Infinity, terminated ?? Infinity, ended ?? Infinity),
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

/**
 * A connection that broke although neither the replica, nor the connection to it, nor the database had a fault
 * recently. Clients time out after 5 s if a stream does not begin; that is their own end.
 */
function checkLoss(
  findings: Findings,
  unavailable: (replica: string) => readonly Interval[],
  { open, last }: Stream,
  end: End,
): void {
  if (open.stalls || last === open || touches(unavailable(open.replica), Math.max(open.t, end.t - SILENCE_MS), end.t))
    return;
  findings.violation(
    "other",
    `Stream ${end.stream} of ${open.replica} (${open.transport}) was disconnected (${end.detail ?? ""}), without a fault that explains it.`,
    open,
    last,
    end,
  );
}

/** An item that was already old when it was delivered, although the stream had caught up. */
function checkLate(
  history: History,
  findings: Findings,
  replicaFaults: (replica: string) => readonly Interval[],
  { open, isLive, last }: Stream,
  item: Item,
): void {
  if (!isLive || open.stalls) return;
  findings.fact("items of streams that had caught up");
  const at = history.wall(item.at);
  const age = item.t - at - overlap(history.down, at, item.t) - overlap(replicaFaults(open.replica), at, item.t);
  if (isTooLate(history, open.replica, age, [at, item.t]))
    findings.violation(
      "stuck",
      `Stream ${item.stream} had caught up, and received position ${item.position} ${Math.round(age / 1000)} s after it was written.`,
      open,
      last,
      item,
    );
}

/** The slack for what these processes, the proxies and the subscribers have to do between two moments. */
function slackOf(history: History, names: readonly string[], from: number, to: number): number {
  return Math.max(history.options.slackMs, waitedForCpu(history, [...names, "proxies", "watchers"], from, to));
}

function isTooLate(
  history: History,
  replica: string,
  age: number,
  [from, to]: readonly [from: number, to: number],
): boolean {
  return age > SILENCE_MS && age > SILENCE_MS + slackOf(history, [replica, "postgres"], from, to);
}

function checkSilence(
  history: History,
  findings: Findings,
  faultTimes: (replica: string) => readonly Interval[],
  stream: Stream,
  now: Item | Mark | End,
): void {
  if (stream.open.stalls) return;
  const from = stream.last.t;
  const silent = now.t - from - overlap(faultTimes(stream.open.replica), from, now.t);
  if (now.k !== "end" && silent <= SILENCE_MS) findings.fact("intervals between two items");
  if (silent <= SILENCE_MS) return;
  const slack = slackOf(history, [stream.open.replica], from, now.t);
  if (silent <= SILENCE_MS + slack) {
    findings.fact("silences beyond 15 s within the slack");
    if (silent > SILENCE_MS + history.options.slackMs) findings.fact("of them while its processes waited for a CPU");
  } else {
    findings.violation(
      "stuck",
      `Stream ${stream.open.stream} of ${stream.open.replica} (${stream.open.transport}) received nothing for ${Math.round(silent / 100) / 10} s.`,
      stream.open,
      stream.last,
      now,
    );
  }
}

/** A bookmark of a stream that has caught up, behind rows that are much older than it. */
function checkBehind(
  history: History,
  findings: Findings,
  replicaFaults: (replica: string) => readonly Interval[],
  stream: Stream,
  mark: Mark,
): void {
  findings.fact("bookmarks compared with the end of the log");
  for (let index = stream.next ?? 0; index < history.transitions.length; index += 1) {
    const row = history.transitions[index];
    if (!row || row.t > mark.t) return;
    if (!stream.matches(row)) continue;
    const age =
      mark.t -
      row.t -
      overlap(history.down, row.t, mark.t) -
      overlap(replicaFaults(stream.open.replica), row.t, mark.t);
    if (isTooLate(history, stream.open.replica, age, [row.t, mark.t]))
      findings.violation(
        "stuck",
        `Stream ${mark.stream} received the bookmark ${mark.position} ${Math.round(age / 1000)} s after position ${row.position} was written.`,
        stream.open,
        mark,
        row,
      );
    return;
  }
}

// ---- delay of other readers

const ITEMS_MIN = 200;
const SLOWER_FACTOR = 5;
const SLOW_MS = 5_000;

function createLatency(history: History) {
  const stalls = joined(history.faults.filter(({ what }) => what === "stall"));
  const others = widened(
    history.faults.filter(({ what }) => what !== "stall" && what !== "driver" && what !== "clock"),
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
    check(findings: Findings) {
      const [slow, quick] = [percentile(during, 0.99), percentile(calm, 0.99)];
      findings.figure("p99 from transition to reader while others stall, ms", slow);
      findings.figure("p99 from transition to reader otherwise, ms", quick);
      if (slow === undefined || quick === undefined || during.length < ITEMS_MIN || calm.length < ITEMS_MIN) return;
      findings.fact("items of others while a reader stalled", during.length);
      if (slow > Math.max(SLOW_MS, SLOWER_FACTOR * quick))
        findings.violation(
          "other",
          `While readers stalled, others received transitions after ${Math.round(slow)} ms (p99), otherwise after ${Math.round(quick)} ms.`,
        );
    },
  };
}
