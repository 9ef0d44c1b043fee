/**
 * P11: what a dead or frozen process held is taken up by another within 45 s, at the same step.
 *
 * A process holds the runs whose last entry before the blow was its own, whose attempts had not ended by their rows, and that
 * were not parked in a wait: it was inside, or had a result that was not stored. Signs that a run has been taken up: a step of it is entered (or its undoing), a transition of it is in the log, its attempt has
 * ended, or power on its node is asked for by another process. Any of them will do, because the replica that takes a run up may be
 * struck in turn before he gets to the driver. Time in which no replica or no database was up does not count; a frozen
 * process may also wake up and go on itself.
 *
 * The next numbered entry is then of the same attempt, unless that attempt has ended by its own row: what the process had
 * finished and stored before it died is not done again. A process that is struck between two steps is not observed, and is
 * not judged here; that its run ends all the same is judged at the end (REST).
 */
import { Findings } from "./verdict.ts";
import { TOLERANCE_MS, shown } from "./history.ts";
import type { Entry, History } from "./history.ts";
import { overlap, percentile } from "./intervals.ts";

/** How long a run was without an owner, in ms: less the time in which no caller could have taken it up, and by the clock. */
interface Times {
  readonly net: number;
  readonly gross: number;
}

interface Strike {
  readonly what: "kill" | "freeze";
  readonly pid: number;
  readonly replica: string;
  readonly t: number;
  readonly record: unknown;
}

export function checkTakeOver(history: History): Findings {
  const findings = new Findings("P11", "take-over under 45 s, at the same step");
  const times: Times[] = [];
  const byPid = Map.groupBy(history.entries, ({ pid, replica }) => `${replica} ${pid}`);
  for (const strike of strikes(history)) {
    for (const entry of byPid.get(`${strike.replica} ${strike.pid}`) ?? []) {
      if (!wasHeld(history, entry, strike)) continue;
      findings.fact(
        strike.what === "kill"
          ? "runs held by a process when it was killed"
          : "runs held by a process when it was frozen for long",
      );
      judge(history, findings, times, strike, entry);
    }
  }
  for (const [which, values] of [
    ["take-over", times.map(({ net }) => net)],
    ["take-over by the clock", times.map(({ gross }) => gross)],
  ] as const) {
    findings.figure(`${which} p50, ms`, percentile(values, 0.5));
    findings.figure(`${which} p99, ms`, percentile(values, 0.99));
    findings.figure(`${which} maximum, ms`, percentile(values, 1));
  }
  return findings;
}

function strikes({ lives, blows, options }: History): Strike[] {
  const killed = lives.flatMap(({ name, pid, killed: t }): Strike[] =>
    t === null ? [] : [{ what: "kill", pid, replica: name, t, record: { t, k: "replica", name, pid, what: "killed" } }],
  );
  const frozen = blows.flatMap(({ what, target, from, to, begin }): Strike[] => {
    if (what !== "freeze" || to - from < options.leaseMs) return [];
    const life = lives.find(
      ({ name, started, ended }) => name === target && started <= from && (ended ?? Infinity) > from,
    );
    return life ? [{ what: "freeze", pid: life.pid, replica: target, t: from, record: begin }] : [];
  });
  return [...killed, ...frozen].toSorted((a, b) => a.t - b.t);
}

function wasHeld(history: History, entry: Entry, { t }: Strike): boolean {
  if (entry.t > t || (entry.how === "wait" && (entry.left ?? Infinity) < t)) return false;
  if (history.entriesOf.get(entry.runId)?.findLast((one) => one.t <= t) !== entry) return false;
  const attempt = history.attempts.get(entry.attemptKey);
  return attempt !== undefined && (attempt.finishedAt === null || attempt.finishedAt > t + STORED_MS);
}

/** What a row's time may be after the moment at which its process was still there, in ms. */
const STORED_MS = 50;

function judge(history: History, findings: Findings, times: Times[], strike: Strike, entry: Entry): void {
  const { runId, attemptKey, node } = entry;
  const attempt = history.attempts.get(attemptKey);
  const next = history.entriesOf.get(runId)?.find(({ t, seq }) => t > strike.t && seq > entry.seq);
  const moved = history.transitionsOf.get(runId)?.find(({ t }) => t > strike.t + TRANSITION_MS);
  const powered = history.powersAt.get(node)?.find(({ t, pid }) => t > strike.t && pid !== entry.pid);
  const woken = strike.what === "freeze" && entry.left !== null && entry.how !== "lost" ? entry.left : Infinity;
  const sign = Math.min(
    next?.t ?? Infinity,
    moved?.t ?? Infinity,
    powered?.t ?? Infinity,
    attempt?.finishedAt ?? Infinity,
    woken,
  );
  const end = Math.min(sign, history.over);
  const took = end - strike.t - overlap(history.down, strike.t, end);
  if (took > history.options.takeOverMs) {
    findings.violation(
      "stuck",
      `${entry.replica} (${entry.pid}) was struck (${strike.what}) inside ${entry.step} on ${node}, and nothing was heard of the run for ${Math.round(took / 1000)} s.`,
      strike.record,
      shown(entry),
      next && shown(next),
      attempt,
    );
  }
  if (!next) return;
  if (next.pid !== entry.pid)
    times.push({ net: next.t - strike.t - overlap(history.down, strike.t, next.t), gross: next.t - strike.t });
  const hadEnded = attempt?.finishedAt != null && attempt.finishedAt <= next.t + TOLERANCE_MS;
  if (next.attemptKey !== attemptKey && !hadEnded) {
    findings.violation(
      "doubled",
      `The run on ${node} was taken up at ${next.step} (${next.attemptKey}), and ${entry.replica} (${entry.pid}) was struck (${strike.what}) inside ${entry.step} (${attemptKey}).`,
      strike.record,
      shown(entry),
      shown(next),
      attempt,
    );
  }
}

/** A transition of the struck process may have been on its way for so long, and rows' times are less exact than records', in ms. */
const TRANSITION_MS = 1_000;
