/**
 * P11: what a dead or frozen process held is taken up by another within 45 s, at the same step.
 *
 * A process holds the runs in whose steps it was inside when it was struck: entered, not left, and their attempts not ended. Signs that
 * a run has been taken up: a step of it is entered (or its undoing), a transition of it is in the log, its attempt has
 * ended, or power on its node is asked for by another process. Any of them will do, because whoever takes a run up may be
 * struck in turn before he gets to the driver. Time in which no replica or no database was up does not count; a frozen
 * process may also wake up and go on itself.
 *
 * The next numbered entry is then of the same attempt, unless that attempt has ended by its own row: what the process had
 * finished and stored before it died is not done again. A process that is struck between two steps is seen by nobody, and is
 * not judged here; that its run ends all the same is judged at the end (REST).
 */
import { Findings } from "./verdict.ts";
import { TOLERANCE_MS, shown } from "./history.ts";
import type { Entry, History } from "./history.ts";
import { overlap, percentile } from "./intervals.ts";

interface Strike {
  readonly what: "kill" | "freeze";
  readonly pid: number;
  readonly replica: string;
  readonly t: number;
  readonly record: unknown;
}

export function checkTakeOver(history: History): Findings {
  const findings = new Findings("P11", "take-over under 45 s, at the same step");
  const times: number[] = [];
  const byPid = Map.groupBy(history.entries, ({ pid, replica }) => `${replica} ${pid}`);
  for (const strike of strikes(history)) {
    for (const entry of byPid.get(`${strike.replica} ${strike.pid}`) ?? []) {
      if (!wasInside(history, entry, strike)) continue;
      findings.fact(strike.what === "kill" ? "runs held by a process when it was killed" : "runs held by a process when it was frozen for long");
      judge(history, findings, times, strike, entry);
    }
  }
  findings.figure("take-over p50, ms", percentile(times, 0.5));
  findings.figure("take-over p99, ms", percentile(times, 0.99));
  findings.figure("take-over maximum, ms", percentile(times, 1));
  return findings;
}

function strikes({ lives, blows, options }: History): Strike[] {
  const killed = lives.flatMap(({ name, pid, killed: t }): Strike[] => (t === null ? [] : [{ what: "kill", pid, replica: name, t, record: { t, k: "replica", name, pid, what: "killed" } }]));
  const frozen = blows.flatMap(({ what, target, from, to, begin }): Strike[] => {
    if (what !== "freeze" || to - from < options.leaseMs) return [];
    const life = lives.find(({ name, started, ended }) => name === target && started <= from && (ended ?? Infinity) > from);
    return life ? [{ what: "freeze", pid: life.pid, replica: target, t: from, record: begin }] : [];
  });
  return [...killed, ...frozen].toSorted((a, b) => a.t - b.t);
}

function wasInside(history: History, entry: Entry, { t }: Strike): boolean {
  if (entry.t > t || (entry.left !== null && entry.left < t)) return false;
  const attempt = history.attempts.get(entry.attemptKey);
  return attempt !== undefined && (attempt.finishedAt === null || attempt.finishedAt > t);
}

function judge(history: History, findings: Findings, times: number[], strike: Strike, entry: Entry): void {
  const { runId, attemptKey, node } = entry;
  const attempt = history.attempts.get(attemptKey);
  const next = history.entriesOf.get(runId)?.find(({ t, seq }) => t > strike.t && seq > entry.seq);
  const moved = history.transitionsOf.get(runId)?.find(({ t }) => t > strike.t + TRANSITION_MS);
  const powered = history.powersAt.get(node)?.find(({ t, pid }) => t > strike.t && pid !== entry.pid);
  const woken = strike.what === "freeze" && entry.left !== null && entry.how !== "lost" ? entry.left : Infinity;
  const sign = Math.min(next?.t ?? Infinity, moved?.t ?? Infinity, powered?.t ?? Infinity, attempt?.finishedAt ?? Infinity, woken);
  const end = Math.min(sign, history.over);
  const took = end - strike.t - overlap(history.down, strike.t, end);
  if (took > history.options.takeOverMs) {
    findings.violation("stuck", `${entry.replica} (${entry.pid}) was struck (${strike.what}) inside ${entry.step} on ${node}, and nothing was heard of the run for ${Math.round(took / 1000)} s.`, strike.record, shown(entry), next && shown(next), attempt);
  }
  if (!next || next.part === "abort") return;
  if (next.pid !== entry.pid) times.push(next.t - strike.t - overlap(history.down, strike.t, next.t));
  const hadEnded = attempt?.finishedAt != null && attempt.finishedAt <= next.t + TOLERANCE_MS;
  if (next.attemptKey !== attemptKey && !hadEnded) {
    findings.violation("doubled", `The run on ${node} was taken up at ${next.step} (${next.attemptKey}), and ${entry.replica} (${entry.pid}) was struck (${strike.what}) inside ${entry.step} (${attemptKey}).`, strike.record, shown(entry), shown(next), attempt);
  }
}

/** A transition of the struck process may have been on its way for so long, and rows' times are less exact than records', in ms. */
const TRANSITION_MS = 1_000;
