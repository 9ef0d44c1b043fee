/**
 * P20: callbacks that are repeated, late, made up or out of date change nothing, and are recorded.
 *
 * Taken is what was answered with 202. A made-up path never is. A path is taken once: two that were answered so, or one after
 * another that was, are one too many; a repeat of a callback that was not answered may well be the first to arrive. A path of an
 * earlier entry is not taken once a later entry of the run has been seen, by the service's own count of entries, before it
 * was sent. Nothing applied: an entry that says a callback ended its wait has one before it that may have been taken, sent to
 * the path of the same attempt. Nor is one lost that is good: a wait that a callback was taken for does not end by its time.
 *
 * Recorded: a run has at least as many anomalies as callbacks to it were refused (each is stored before it is answered), up to
 * a hundred, and no more than were sent without being taken.
 */
import { Findings } from "./verdict.ts";
import { shown, waitOf } from "./history.ts";
import type { History } from "./history.ts";
import type { Callback } from "../records.ts";

const TAKEN = 202;
const REFUSED = new Set([404, 409]);
const ANOMALIES_MAX = 100;

export function checkCallbacks(history: History): Findings {
  const findings = new Findings("P20", "callbacks that are no good change nothing");
  const generations = new Map(
    history.entries.filter(({ part }) => part !== "abort").map((entry) => [entry.path, entry.generation]),
  );
  const byPath = Map.groupBy(history.callbacks, ({ path }) => path);
  for (const [path, sent] of byPath) {
    const taken = sent.filter(({ status }) => status === TAKEN);
    if (sent.length > 1) findings.fact("paths called more than once");
    if (taken.length > 1) findings.violation("doubled", `The path ${path} was taken ${taken.length} times.`, ...sent);
  }
  for (const one of history.callbacks) {
    if (one.kind !== "good") findings.fact(`callbacks: ${one.kind}${one.status === null ? ", not answered" : ""}`);
    if (one.status !== TAKEN) continue;
    if (one.kind === "forged") findings.violation("illegal", `A made-up callback to ${one.node} was taken.`, one);
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
      findings.violation("illegal", `A late callback to ${one.node} was taken after the run had gone on.`, one, later);
  }
  judgeIgnored(history, findings, byPath);
  judgeApplied(history, findings, byPath);
  judgeRecorded(history, findings);
  return findings;
}

/** A callback that was taken well before the wait was over, and of which the step was told nothing. */
function judgeIgnored(history: History, findings: Findings, byPath: ReadonlyMap<string, readonly Callback[]>): void {
  for (const all of history.entriesBy.values()) {
    const entries = all.filter(({ part }) => part !== "abort");
    for (const [index, entry] of entries.entries()) {
      const wait = entries[index - 1];
      if (!wait || waitOf(wait)?.callback !== true || wait.part !== entry.part || !entry.memo || entry.callback)
        continue;
      findings.fact("waits for a callback that ended by their time");
      const taken = byPath.get(wait.path)?.find(({ status, t }) => status === TAKEN && t < entry.t - AT_ONCE_MS);
      if (taken)
        findings.violation(
          "lost",
          `A callback to ${entry.step} on ${entry.node} was taken, and it was entered again as if there had been none.`,
          shown(wait),
          taken,
          shown(entry),
        );
    }
  }
}

/** A callback and the end of the time may come together, in ms. */
const AT_ONCE_MS = 1_000;

function judgeApplied(history: History, findings: Findings, byPath: ReadonlyMap<string, readonly Callback[]>): void {
  for (const entry of history.entries) {
    if (!entry.callback || entry.part === "abort") continue;
    findings.fact("entries that a callback had ended the wait of");
    const before = (history.entriesBy.get(entry.attemptKey) ?? []).filter(({ seq }) => seq < entry.seq);
    const may = before.some(({ path }) =>
      (byPath.get(path) ?? []).some(
        ({ kind, status, sent }) =>
          kind !== "forged" && sent <= entry.t && (status === TAKEN || status === null || !REFUSED.has(status)),
      ),
    );
    if (!may)
      findings.violation(
        "illegal",
        `${entry.step} on ${entry.node} was told of a callback that no machine can have made.`,
        ...before,
        entry,
      );
  }
}

function judgeRecorded(history: History, findings: Findings): void {
  const counts = new Map<string, { refused: number; open: number }>();
  for (const { path, status } of history.callbacks) {
    // The run that the path names; a forged one may name none that there is.
    const runId = /\/callback\/([^.]+)\./.exec(path)?.[1] ?? "";
    if (!history.runs.has(runId)) continue;
    const count = counts.get(runId) ?? { refused: 0, open: 0 };
    counts.set(runId, count);
    if (status !== null && REFUSED.has(status)) count.refused += 1;
    else if (status !== TAKEN) count.open += 1;
  }
  for (const [runId, { refused, open }] of counts) {
    if (refused === 0) continue;
    findings.fact("runs whose anomalies were counted");
    const recorded = history.anomalies.get(runId) ?? 0;
    if (recorded < Math.min(ANOMALIES_MAX, refused))
      findings.violation(
        "lost",
        `${refused} callbacks to run ${runId} were refused, and ${recorded} are recorded.`,
        ...history.callbacks.filter((one) => one.path.includes(runId)),
      );
    if (recorded > refused + open)
      findings.violation(
        "other",
        `Run ${runId} has ${recorded} anomalies recorded, and ${refused + open} callbacks can have made one.`,
        ...history.callbacks.filter((one) => one.path.includes(runId)),
      );
  }
  for (const [runId, recorded] of history.anomalies)
    if (!counts.has(runId))
      findings.violation(
        "other",
        `Run ${runId} has ${recorded} anomalies recorded, and no caller called back to it.`,
        history.runs.get(runId),
      );
}
