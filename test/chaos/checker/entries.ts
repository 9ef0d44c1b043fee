/**
 * What the machines saw of drivers against what the database holds: P5 (one owner) and P6 (at least once, the same key).
 * The machines' server writes an entry down before it answers the driver, in one order for all processes, and outlives them
 * all, so what it saw is complete. What it cannot know is whether a result that it gave was ever stored: the process may have
 * died with it. So an entry that ended well may be entered again, if and only if something befell its process.
 */
import { checkOneRunANode } from "./log.ts";
import { Findings } from "./verdict.ts";
import { TOLERANCE_MS, isDrivers, shown, wasImpaired } from "./history.ts";
import type { AttemptRow, Entry, History } from "./history.ts";

/**
 * P5. Three orders are held against each other.
 *
 * Runs on a node follow each other (log.ts).
 *
 * Entries of a run follow the service's own count of them. The count is raised under the run's lock by whoever owns it, so an
 * entry with a lower number than one that was seen before was made by an owner who had lost the run by then: it entered a new
 * call, and did not merely go on inside an old one. The same number twice is one claim used twice. The same goes for a change
 * of power out of a step, which counts as its step's last entry by that process. A process that is inside a call when it loses
 * its lease is not judged for being there, nor for leaving late.
 *
 * While somebody is inside a step, nobody else enters the run, unless something befell the one inside that may have cost it
 * its lease (a kill, a freeze, the way to the database), or its attempt had ended by then (over its deadline, it is left to
 * itself). What befell it is looked for generously, so nothing is reported that has an excuse; what has none is an owner who
 * was robbed while he was well.
 */
export function checkOwners(history: History): { readonly findings: Findings; readonly robberies: readonly Robbery[] } {
  const robberies: Robbery[] = [];
  const findings = new Findings("P5", "at most one run works on a node, by one owner");
  checkOneRunANode(history, findings);
  for (const [runId, entries] of history.entriesOf) {
    const owners = new Set(entries.map(({ pid }) => pid));
    findings.fact("entries ordered", counted(entries).length);
    if (owners.size > 1) findings.fact("runs with several owners");
    judgeOrder(entries, findings);
    judgeOverlap(history, entries, findings, robberies);
    if (owners.size > 1) judgePower(history, runId, entries, findings);
  }
  const unknown = history.entries.filter(({ generation }) => generation === null).length;
  if (unknown > 0) findings.note(`The paths of ${unknown} entries do not tell which of their run they were: those are not ordered.`);
  return { findings, robberies };
}

/** Somebody entered a run while another, who was well, was inside it. */
export interface Robbery {
  readonly says: string;
  readonly inside: Entry;
  readonly entry: Entry;
}

/** The undoing of a step is called with the path of what it undoes, so it is no entry of its own here. */
function counted(entries: readonly Entry[]): readonly (Entry & { readonly generation: number })[] {
  return entries.filter((entry): entry is Entry & { generation: number } => entry.generation !== null && entry.part !== "abort");
}

function judgeOrder(entries: readonly Entry[], findings: Findings): void {
  let newest: (Entry & { readonly generation: number }) | undefined;
  for (const entry of counted(entries)) {
    if (newest && entry.generation < newest.generation) {
      findings.violation("doubled", `${entry.replica} (${entry.pid}) entered ${entry.step} on ${entry.node} as entry ${entry.generation} of the run after ${newest.replica} (${newest.pid}) had made entry ${newest.generation}: it was no longer its owner.`, shown(newest), shown(entry));
      continue;
    }
    if (newest && entry.generation === newest.generation) {
      findings.violation("doubled", `Entry ${entry.generation} of the run on ${entry.node} was made twice, by ${newest.replica} (${newest.pid}) and ${entry.replica} (${entry.pid}).`, shown(newest), shown(entry));
    }
    newest = entry;
  }
}

function judgeOverlap(history: History, entries: readonly Entry[], findings: Findings, robberies: Robbery[]): void {
  for (const [index, entry] of entries.entries()) {
    for (const inside of entries.slice(Math.max(0, index - LOOK_BACK), index)) {
      if (inside.pid === entry.pid || (inside.left !== null && inside.left <= entry.t)) continue;
      findings.fact("entries while another process was inside");
      const attempt = history.attempts.get(inside.attemptKey);
      const hadEnded = inside.attemptKey !== entry.attemptKey && attempt?.finishedAt != null && attempt.finishedAt <= entry.t + TOLERANCE_MS;
      // It hangs past its deadline, in a call that its owner has given up.
      const hadHung = history.wall(inside.deadline) <= entry.t + TOLERANCE_MS;
      if (hadEnded || hadHung || wasImpaired(history, inside.replica, inside.pid, inside.t, entry.t)) continue;
      const says = `${entry.replica} (${entry.pid}) entered ${entry.step} on ${entry.node} while ${inside.replica} (${inside.pid}) was inside ${inside.step}, and nothing had befallen that.`;
      robberies.push({ says, inside, entry });
      findings.violation("doubled", says, shown(inside), shown(entry));
    }
  }
}

/** Entries of a run that are looked back at for somebody still inside. */
const LOOK_BACK = 20;

/** A stale owner makes no new call for power either. */
function judgePower(history: History, runId: string, entries: readonly Entry[], findings: Findings): void {
  const ordered = counted(entries);
  const node = entries[0]?.node ?? "";
  for (const call of history.powersAt.get(node) ?? []) {
    if (call.what === "read" || call.attemptKey === null || !call.attemptKey.startsWith(`${runId}:`)) continue;
    findings.fact("changes of power ordered");
    const own = ordered.findLast(({ seq, pid }) => seq < call.seq && pid === call.pid);
    const newer = ordered.findLast(({ seq, pid }) => seq < call.seq && pid !== call.pid);
    if (own && newer && newer.generation > own.generation) {
      findings.violation("doubled", `${call.replica} (${call.pid}) changed the power of ${node} (${call.what}) out of entry ${own.generation} after ${newer.replica} (${newer.pid}) had made entry ${newer.generation}.`, shown(own), shown(newer), call);
    }
  }
}

/**
 * P6. Every attempt at a driver's step that is stored as SUCCEEDED was entered, and an entry of it was told by the machine
 * that it is done: a success that nobody reported is one that was made up. Every entry belongs to an attempt that is stored,
 * because it is stored first; and no attempt was entered more often than it says. Attempts at a step are numbered from 1, and
 * only a failure makes another. A re-entry therefore carries the key of what it repeats, and steps never go back within a run.
 *
 * A step that must not be run twice is entered once from its beginning, in each attempt, whatever happened to its process; a
 * wait that kept nothing is an entry of its own. Another is entered again after it was done only if something befell the
 * process in between, which may have kept its result from being stored.
 */
export function checkAtLeastOnce(history: History): Findings {
  const findings = new Findings("P6", "a step runs at least once, re-run with the same key");
  for (const attempt of history.attempts.values()) judgeAttempt(history, attempt, findings);
  for (const [key, entries] of history.entriesBy) {
    const attempt = history.attempts.get(key);
    const [first] = entries;
    if (!attempt) findings.violation("lost", `${first?.step} on ${first?.node} was entered with the key ${key}, and no such attempt is stored.`, ...entries.map(shown));
    judgeRepeats(history, entries, findings);
  }
  for (const [runId, entries] of history.entriesOf) judgeDirection(runId, entries, findings);
  for (const [runId, attempts] of history.attemptsOf) {
    for (const [step, tries] of Map.groupBy(attempts, (one) => one.step)) {
      const sorted = tries.toSorted((a, b) => a.number - b.number);
      if (sorted.some(({ number }, index) => number !== index + 1)) findings.violation("other", `Attempts at step ${step} of run ${runId} are numbered ${sorted.map(({ number }) => number).join(", ")}.`, ...sorted);
      const again = sorted.slice(0, -1).find(({ state }) => state !== "FAILED");
      if (again) findings.violation("doubled", `Step ${step} of run ${runId} was tried again after an attempt that was ${again.state}.`, ...sorted);
    }
  }
  return findings;
}

function judgeAttempt(history: History, attempt: AttemptRow, findings: Findings): void {
  const run = history.runs.get(attempt.runId);
  const step = run && history.plans.get(run.planHash)?.[attempt.step];
  if (!isDrivers(step)) return;
  const entries = history.entriesBy.get(attempt.key) ?? [];
  const made = entries.filter(({ part }) => part !== "abort").length;
  if (made > attempt.entries) findings.violation("doubled", `Attempt ${attempt.key} (${attempt.label}) says that it was entered ${attempt.entries} times; it was ${made} times.`, attempt, ...entries.map(shown));
  if (attempt.state !== "SUCCEEDED") return;
  findings.fact("steps that succeeded");
  if (!entries.some(({ part }) => part === "run")) findings.violation("lost", `Attempt ${attempt.key} (${attempt.label}) succeeded and was never entered.`, attempt);
  // What blocks its process first is done afterwards.
  else if (!entries.some(({ part, how }) => part !== "abort" && (how === "done" || how === "block"))) findings.violation("illegal", `Attempt ${attempt.key} (${attempt.label}) is stored as SUCCEEDED, and the machine never said so.`, attempt, ...entries.map(shown));
}

function judgeRepeats(history: History, entries: readonly Entry[], findings: Findings): void {
  for (const [index, entry] of entries.entries()) {
    if (index === 0 || entry.part === "abort") continue;
    findings.fact("entries repeated");
    const same = entries.slice(0, index).filter(({ part }) => part === entry.part);
    const last = same.at(-1);
    if (!entry.idempotent && entry.part === "run" && !entry.memo) {
      const fresh = same.findLast(({ memo }) => !memo);
      if (fresh && fresh.how !== "wait") findings.violation("doubled", `${entry.step} on ${entry.node} must not be run twice, and was entered twice from its beginning.`, ...entries.map(shown));
    }
    if (last?.left == null || last.how !== "done") continue;
    findings.fact("entries repeated that had been done");
    if (!wasImpaired(history, last.replica, last.pid, last.left, entry.t)) findings.violation("doubled", `${entry.step} on ${entry.node} was done, nothing befell ${last.replica} (${last.pid}), and it was entered again.`, shown(last), shown(entry));
  }
}

/** Numbered entries never go back to an earlier step, nor to an earlier attempt. What a stale owner enters is P5's. */
function judgeDirection(runId: string, entries: readonly Entry[], findings: Findings): void {
  let newest: Entry | undefined;
  for (const entry of counted(entries)) {
    if (newest?.generation != null && entry.generation <= newest.generation) continue;
    if (newest && (entry.index < newest.index || (entry.index === newest.index && entry.number < newest.number))) {
      findings.violation("doubled", `Run ${runId} on ${entry.node} went back from step ${newest.index} (${newest.step}) to ${entry.index} (${entry.step}).`, shown(newest), shown(entry));
    }
    newest = entry;
  }
}
