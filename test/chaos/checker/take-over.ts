/**
 * P11: another process takes over the runs of a dead or frozen process within 45 s, at the same step.
 *
 * A process owns the runs whose last entry before the fault was its own, whose attempts had not ended by their rows,
 * and that were not parked in a wait: it was inside the step, or had a result that was not stored. Signs of a take-over
 * are the next entry of a step or of `abort`, a transition of the run in the log, the end of its attempt, or a call for
 * power on its node by another process. Any of them suffices, because a fault may hit the new owner before it reaches
 * the driver. Time in which no replica or no database was available does not count. A frozen process may also resume
 * and continue its work.
 *
 * The next numbered entry belongs to the same attempt, unless that attempt has ended by its own row: a result that was
 * stored before the process died is not repeated. A fault between two steps cannot be seen here; REST checks that such
 * a run ends.
 */
import { Findings } from "./findings.ts";
import { TOLERANCE_MS, shown } from "./history.ts";
import type { Entry, History } from "./history.ts";
import { overlap, percentile } from "./intervals.ts";

/**
 * Time of a run without an owner, in milliseconds: `net` excludes the time in which no process could have taken it
 * over.
 */
interface Times {
  readonly net: number;
  readonly gross: number;
}

interface ProcessFault {
  readonly what: "kill" | "freeze";
  readonly pid: number;
  readonly replica: string;
  readonly t: number;
  readonly record: unknown;
}

export function checkTakeOver(history: History): Findings {
  const findings = new Findings("P11", "take-over within 45 s, at the same step");
  const times: Times[] = [];
  const byPid = Map.groupBy(history.entries, ({ pid, replica }) => `${replica} ${pid}`);
  for (const fault of processFaults(history)) {
    for (const entry of byPid.get(`${fault.replica} ${fault.pid}`) ?? []) {
      if (!wasActive(history, entry, fault)) continue;
      findings.fact(
        fault.what === "kill"
          ? "runs owned by a process when it was killed"
          : "runs owned by a process when it was frozen for long",
      );
      checkTakenOver(history, findings, times, fault, entry);
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

function processFaults({ lifetimes, faults, options }: History): ProcessFault[] {
  const killed = lifetimes.flatMap(({ name, pid, killed: t }): ProcessFault[] =>
    t === null ? [] : [{ what: "kill", pid, replica: name, t, record: { t, k: "replica", name, pid, what: "killed" } }],
  );
  const frozen = faults.flatMap(({ what, target, from, to, begin }): ProcessFault[] => {
    if (what !== "freeze" || to - from < options.leaseMs) return [];
    const lifetime = lifetimes.find(
      ({ name, started, ended }) => name === target && started <= from && (ended ?? Infinity) > from,
    );
    return lifetime ? [{ what: "freeze", pid: lifetime.pid, replica: target, t: from, record: begin }] : [];
  });
  return [...killed, ...frozen].toSorted((a, b) => a.t - b.t);
}

function wasActive(history: History, entry: Entry, { t }: ProcessFault): boolean {
  if (entry.t > t || (entry.how === "wait" && (entry.left ?? Infinity) < t)) return false;
  if (history.entriesOf.get(entry.runId)?.findLast((one) => one.t <= t) !== entry) return false;
  const attempt = history.attempts.get(entry.attemptKey);
  return attempt !== undefined && (attempt.finishedAt === null || attempt.finishedAt > t + STORED_MS);
}

/** A row's time may be this long after its process was last running, in milliseconds. */
const STORED_MS = 50;

function checkTakenOver(history: History, findings: Findings, times: Times[], fault: ProcessFault, entry: Entry): void {
  const { runId, attemptKey, node } = entry;
  const attempt = history.attempts.get(attemptKey);
  const next = history.entriesOf.get(runId)?.find(({ t, seq }) => t > fault.t && seq > entry.seq);
  const moved = history.transitionsOf.get(runId)?.find(({ t }) => t > fault.t + TRANSITION_MS);
  const powered = history.powersAt.get(node)?.find(({ t, pid }) => t > fault.t && pid !== entry.pid);
  const resumed = fault.what === "freeze" && entry.left !== null && entry.how !== "lost" ? entry.left : Infinity;
  const sign = Math.min(
    next?.t ?? Infinity,
    moved?.t ?? Infinity,
    powered?.t ?? Infinity,
    attempt?.finishedAt ?? Infinity,
    resumed,
  );
  const end = Math.min(sign, history.over);
  const took = end - fault.t - overlap(history.down, fault.t, end);
  if (took > history.options.takeOverMs) {
    findings.violation(
      "stuck",
      `${entry.replica} (${entry.pid}) was hit by a ${fault.what} inside ${entry.step} on ${node}, and the run made no progress for ${Math.round(took / 1000)} s.`,
      fault.record,
      shown(entry),
      next && shown(next),
      attempt,
    );
  }
  if (!next) return;
  if (next.pid !== entry.pid)
    times.push({ net: next.t - fault.t - overlap(history.down, fault.t, next.t), gross: next.t - fault.t });
  const hadEnded = attempt?.finishedAt != null && attempt.finishedAt <= next.t + TOLERANCE_MS;
  if (next.attemptKey !== attemptKey && !hadEnded) {
    findings.violation(
      "doubled",
      `The run on ${node} was taken over at ${next.step} (${next.attemptKey}), but ${entry.replica} (${entry.pid}) was hit by a ${fault.what} inside ${entry.step} (${attemptKey}).`,
      fault.record,
      shown(entry),
      shown(next),
      attempt,
    );
  }
}

/**
 * A transition of the failed process may have been on its way for this long, and rows' times are less exact than
 * records', in milliseconds.
 */
const TRANSITION_MS = 1_000;
