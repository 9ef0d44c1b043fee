/**
 * P20: repeated, late, forged and outdated callbacks change nothing and are recorded.
 *
 * A callback is accepted if its status is 202. A forged path is never accepted. A path is accepted once; a repeat of an
 * unanswered callback may be the first to arrive. The path of an earlier entry is not accepted once a later entry of
 * the run, by the service's own count, was seen before the callback was sent. An entry that says that a callback ended
 * its wait was preceded by a callback, to a path of the same attempt, that may have been accepted. Conversely, a wait
 * with an accepted callback does not end by its time limit.
 *
 * A run has at least as many rejected callbacks recorded as were rejected (each is stored before its answer), up to a
 * hundred, and at most as many as were sent without being accepted.
 */
import { Findings } from "./findings.ts";
import { shown, waitOf } from "./history.ts";
import type { History } from "./history.ts";
import type { Callback } from "../records.ts";

const ACCEPTED = 202;
const REJECTED = new Set([404, 409]);
const REJECTED_MAX = 100;

export function checkCallbacks(history: History): Findings {
  const findings = new Findings("P20", "invalid callbacks change nothing");
  const generations = new Map(
    history.entries.filter(({ part }) => part !== "abort").map((entry) => [entry.path, entry.generation]),
  );
  const byPath = Map.groupBy(history.callbacks, ({ path }) => path);
  for (const [path, sent] of byPath) {
    const accepted = sent.filter(({ status }) => status === ACCEPTED);
    if (sent.length > 1) findings.fact("paths called more than once");
    if (accepted.length > 1)
      findings.violation("doubled", `Path ${path} was accepted ${accepted.length} times.`, ...sent);
  }
  for (const one of history.callbacks) {
    if (one.kind !== "good") findings.fact(`callbacks: ${one.kind}${one.status === null ? ", not answered" : ""}`);
    if (one.status !== ACCEPTED) continue;
    if (one.kind === "forged") findings.violation("illegal", `A forged callback to ${one.node} was accepted.`, one);
    const own = generations.get(one.path);
    const later =
      own == null
        ? undefined
        : history.entriesOf
            .get(one.runId)
            ?.find(
              ({ generation, part, t }) => part !== "abort" && generation !== null && generation > own && t < one.sent,
            );
    if (later)
      findings.violation(
        "illegal",
        `A late callback to ${one.node} was accepted after the run had continued.`,
        one,
        later,
      );
  }
  checkIgnored(history, findings, byPath);
  checkApplied(history, findings, byPath);
  checkRecorded(history, findings);
  return findings;
}

/** Finds callbacks that were accepted well before the end of the wait, although the step did not receive them. */
function checkIgnored(history: History, findings: Findings, byPath: ReadonlyMap<string, readonly Callback[]>): void {
  for (const all of history.entriesBy.values()) {
    const entries = all.filter(({ part }) => part !== "abort");
    for (const [index, entry] of entries.entries()) {
      const wait = entries[index - 1];
      if (!wait || waitOf(wait)?.callback !== true || wait.part !== entry.part || !entry.memo || entry.callback)
        continue;
      findings.fact("waits for a callback that ended at their time limit");
      const accepted = byPath
        .get(wait.path)
        ?.find(({ status, t }) => status === ACCEPTED && t < entry.t - SIMULTANEOUS_MS);
      if (accepted)
        findings.violation(
          "lost",
          `A callback to ${entry.step} on ${entry.node} was accepted, but the next entry did not receive it.`,
          shown(wait),
          accepted,
          shown(entry),
        );
    }
  }
}

/** A callback and the time limit may coincide within this time, in milliseconds. */
const SIMULTANEOUS_MS = 1_000;

function checkApplied(history: History, findings: Findings, byPath: ReadonlyMap<string, readonly Callback[]>): void {
  for (const entry of history.entries) {
    if (!entry.callback || entry.part === "abort") continue;
    findings.fact("entries after a wait that a callback ended");
    const before = (history.entriesBy.get(entry.attemptKey) ?? []).filter(({ seq }) => seq < entry.seq);
    const may = before.some(({ path }) =>
      (byPath.get(path) ?? []).some(
        ({ kind, status, sent }) =>
          kind !== "forged" && sent <= entry.t && (status === ACCEPTED || status === null || !REJECTED.has(status)),
      ),
    );
    if (!may)
      findings.violation(
        "illegal",
        `${entry.step} on ${entry.node} received a callback that no machine can have sent.`,
        ...before,
        entry,
      );
  }
}

function checkRecorded(history: History, findings: Findings): void {
  const counts = new Map<string, { rejected: number; open: number }>();
  for (const { path, status } of history.callbacks) {
    // Run that the path names; a forged path may name one that does not exist.
    const runId = /\/callback\/([^.]+)\./.exec(path)?.[1] ?? "";
    if (!history.runs.has(runId)) continue;
    const count = counts.get(runId) ?? { rejected: 0, open: 0 };
    counts.set(runId, count);
    if (status !== null && REJECTED.has(status)) count.rejected += 1;
    else if (status !== ACCEPTED) count.open += 1;
  }
  for (const [runId, { rejected, open }] of counts) {
    if (rejected === 0) continue;
    findings.fact("runs whose rejected callbacks were counted");
    const recorded = history.rejectedCallbacks.get(runId) ?? 0;
    if (recorded < Math.min(REJECTED_MAX, rejected))
      findings.violation(
        "lost",
        `${rejected} callbacks to run ${runId} were rejected, but ${recorded} are recorded.`,
        ...history.callbacks.filter((one) => one.path.includes(runId)),
      );
    if (recorded > rejected + open)
      findings.violation(
        "other",
        `Run ${runId} has ${recorded} rejected callbacks recorded, but at most ${rejected + open} were sent.`,
        ...history.callbacks.filter((one) => one.path.includes(runId)),
      );
  }
  for (const [runId, recorded] of history.rejectedCallbacks)
    if (!counts.has(runId))
      findings.violation(
        "other",
        `Run ${runId} has ${recorded} rejected callbacks recorded, but none was sent to it.`,
        history.runs.get(runId),
      );
}
