/**
 * What the machines saw of drivers against what the database holds: P5 (one owner) and P6 (at least once, the same key).
 * The machines' server writes an entry down before it answers the driver, in one order for all processes, and outlives them
 * all, so what it saw is complete. What it cannot know is whether a result that it gave was ever stored: the process may have
 * died with it. So an entry that ended well may be entered again, if and only if something befell its process.
 */
import { checkOneRunANode } from "./log.ts";
import { Findings } from "./verdict.ts";
import { TOLERANCE_MS, isDrivers, shown, stepOf, wasImpaired, waitOf } from "./history.ts";
import type { AttemptRow, Entry, History, PlannedStep, PowerCall, RunRow } from "./history.ts";

/**
 * P5. Four orders are held against each other.
 *
 * Runs on a node follow each other (log.ts), and so do the attempts of a run, by their rows: none begins before the one before
 * it has ended.
 *
 * Entries of a run follow the service's own count of them. The count is raised under the run's lock by the replica that owns it, so an
 * entry with a lower number than one that was seen before was made by an owner who had lost the run by then: it entered a new
 * call, and did not merely go on inside an old one. The same number twice is one claim used twice. The same goes for a change
 * of power out of a step, which counts as its step's last entry by that process. A process that is inside a call when it loses
 * its lease is not judged for being there, nor for leaving late.
 *
 * While a caller is inside a step, no caller enters another on that node, of the same run or of the next, and be it the same process;
 * unless something befell the one inside that may have cost it its lease (a kill, a freeze, the way to the database), or it was given
 * up: over its deadline, or when a stop had run out of time, it is left to itself. What befell it is looked for generously, so
 * nothing is reported that has an excuse; what has none is an owner who was robbed while he was well.
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
    if (owners.size > 1) judgePower(history, runId, entries, findings);
  }
  for (const entries of history.entriesAt.values()) judgeOverlap(history, entries, findings, robberies);
  for (const [runId, attempts] of history.attemptsOf) judgeTurns(runId, attempts, findings);
  const unknown = history.entries.filter(({ generation }) => generation === null).length;
  if (unknown > 0)
    findings.note(`The paths of ${unknown} entries do not tell which of their run they were: those are not ordered.`);
  return { findings, robberies };
}

/** A step was entered while a caller, who was well, was inside one on the same node. */
export interface Robbery {
  readonly says: string;
  readonly inside: Entry;
  readonly entry: Entry;
}

/** The undoing of a step is called with the path of what it undoes, so it is no entry of its own here. */
function counted(entries: readonly Entry[]): readonly (Entry & { readonly generation: number })[] {
  return entries.filter(
    (entry): entry is Entry & { generation: number } => entry.generation !== null && entry.part !== "abort",
  );
}

function judgeOrder(entries: readonly Entry[], findings: Findings): void {
  let newest: (Entry & { readonly generation: number }) | undefined;
  for (const entry of counted(entries)) {
    if (newest && entry.generation < newest.generation) {
      findings.violation(
        "doubled",
        `${entry.replica} (${entry.pid}) entered ${entry.step} on ${entry.node} as entry ${entry.generation} of the run after ${newest.replica} (${newest.pid}) had made entry ${newest.generation}: it was no longer its owner.`,
        shown(newest),
        shown(entry),
      );
      continue;
    }
    if (newest && entry.generation === newest.generation) {
      findings.violation(
        "doubled",
        `Entry ${entry.generation} of the run on ${entry.node} was made twice, by ${newest.replica} (${newest.pid}) and ${entry.replica} (${entry.pid}).`,
        shown(newest),
        shown(entry),
      );
    }
    newest = entry;
  }
}

/** By rows alone: two attempts of a run are not under way at the same time. */
function judgeTurns(runId: string, attempts: readonly AttemptRow[], findings: Findings): void {
  const sorted = attempts.toSorted((a, b) => a.startedAt - b.startedAt || a.step - b.step || a.number - b.number);
  for (const [index, attempt] of sorted.entries()) {
    const before = sorted[index - 1];
    if (!before) continue;
    findings.fact("attempts that followed another");
    if ((before.finishedAt ?? Infinity) > attempt.startedAt + ROUNDING_MS)
      findings.violation(
        "doubled",
        `Attempt ${attempt.key} (${attempt.label}) of run ${runId} was begun before ${before.key} (${before.label}) had ended.`,
        before,
        attempt,
      );
  }
}

/** Both times are of the database's clock, and nothing is between them but their rounding. */
const ROUNDING_MS = 5;

function judgeOverlap(history: History, entries: readonly Entry[], findings: Findings, robberies: Robbery[]): void {
  for (const [index, entry] of entries.entries()) {
    for (const inside of entries.slice(Math.max(0, index - LOOK_BACK), index)) {
      if (inside.left !== null && inside.left <= entry.t) continue;
      // Two wires: the undoing may reach the machine before the news that the step is cut.
      if (entry.part === "abort" && entry.pid === inside.pid) continue;
      findings.fact("entries while a caller was inside");
      // It hangs past its deadline, in a call that its owner has given up.
      const hadHung = history.wall(inside.deadline) <= entry.t + TOLERANCE_MS;
      const wasLeftAlone = history.runs.get(inside.runId)?.failure?.code === "STOP_TIMEOUT";
      if (hadHung || wasLeftAlone || wasImpaired(history, inside.replica, inside.pid, inside.t, entry.t)) continue;
      const says = `${entry.replica} (${entry.pid}) entered ${entry.step} on ${entry.node} while ${inside.replica} (${inside.pid}) was inside ${inside.step}, and nothing had befallen that.`;
      robberies.push({ says, inside, entry });
      findings.violation("doubled", says, shown(inside), shown(entry));
    }
  }
}

/** Entries on a node that are looked back at for a caller still inside. */
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
      findings.violation(
        "doubled",
        `${call.replica} (${call.pid}) changed the power of ${node} (${call.what}) out of entry ${own.generation} after ${newer.replica} (${newer.pid}) had made entry ${newer.generation}.`,
        shown(own),
        shown(newer),
        call,
      );
    }
  }
}

/**
 * P6. Every attempt at a driver's step that is stored as SUCCEEDED was entered, and an entry of it was told by the machine
 * that it is done: a success that no caller reported is one that was made up. Every entry belongs to an attempt that is stored,
 * because it is stored first; and no attempt was entered more often than it says. Attempts at a step are numbered from 1, and
 * only a failure makes another, one that may pass, and no more of them than the step declares; and while tries are left and no caller
 * wishes for an end, one that may pass is tried again. A re-entry therefore carries the key of what it repeats, and steps never go
 * back within a run. A run that succeeded has left out none of its plan. Of the engine's own steps a success has a call for power
 * behind it, and leaves the machine as it says.
 *
 * A step that must not be run twice is entered once from its beginning, in each attempt, whatever happened to its process; a
 * wait that kept nothing is an entry of its own. Another is entered again after it was done only if something befell the
 * process in between, which may have kept its result from being stored. What a wait gave to keep is there when it is entered again,
 * unless the wait itself was not stored.
 */
export function checkAtLeastOnce(history: History): Findings {
  const findings = new Findings("P6", "a step runs at least once, re-run with the same key");
  for (const attempt of history.attempts.values()) judgeAttempt(history, attempt, findings);
  for (const [key, entries] of history.entriesBy) {
    const attempt = history.attempts.get(key);
    const [first] = entries;
    if (!attempt)
      findings.violation(
        "lost",
        `${first?.step} on ${first?.node} was entered with the key ${key}, and no such attempt is stored.`,
        ...entries.map(shown),
      );
    judgeRepeats(history, entries, findings);
  }
  for (const [runId, entries] of history.entriesOf) judgeDirection(runId, entries, findings);
  for (const [runId, attempts] of history.attemptsOf) {
    for (const [step, tries] of Map.groupBy(attempts, (one) => one.step)) {
      const sorted = tries.toSorted((a, b) => a.number - b.number);
      if (sorted.some(({ number }, index) => number !== index + 1))
        findings.violation(
          "other",
          `Attempts at step ${step} of run ${runId} are numbered ${sorted.map(({ number }) => number).join(", ")}.`,
          ...sorted,
        );
      const again = sorted.slice(0, -1).find(({ state }) => state !== "FAILED");
      if (again)
        findings.violation(
          "doubled",
          `Step ${step} of run ${runId} was tried again after an attempt that was ${again.state}.`,
          ...sorted,
        );
      judgeTries(history, sorted, findings);
    }
  }
  for (const run of history.runs.values()) judgePlan(history, run, findings);
  return findings;
}

/** Attempts at one step, by their numbers: as many as its declaration and its failures allow, and no fewer. */
function judgeTries(history: History, tries: readonly AttemptRow[], findings: Findings): void {
  const last = tries.at(-1);
  const step = last && stepOf(history, last);
  if (!last || !step) return;
  const endOf = ({ key }: AttemptRow) => history.entriesBy.get(key)?.findLast(({ part }) => part !== "abort")?.how;
  for (const attempt of tries.slice(0, -1)) {
    findings.fact("tries after a failure");
    if (endOf(attempt) === "fail")
      findings.violation(
        "doubled",
        `Attempt ${attempt.key} (${attempt.label}) failed for good, by its machine's word, and was followed by another.`,
        ...tries,
      );
  }
  if (last.number > step.retries + 1)
    findings.violation(
      "doubled",
      `Step ${last.step} (${last.label}) of run ${last.runId} was tried ${last.number} times; it may be tried ${step.retries + 1} times.`,
      ...tries,
    );
  const run = history.runs.get(last.runId);
  const isWished = (run?.wish ?? history.operations.get(run?.operationId ?? "")?.wish ?? null) !== null;
  if (last.state === "FAILED" && endOf(last) === "retry" && last.number <= step.retries && !isWished) {
    findings.violation(
      "lost",
      `Step ${last.step} (${last.label}) of run ${last.runId} was given up after ${last.number} tries; it may be tried ${step.retries + 1} times.`,
      ...tries,
    );
  }
}

/** Of a run that succeeded every step has succeeded, but for those that an earlier run had done; or failed, where it goes on all the same. */
function judgePlan(history: History, run: RunRow, findings: Findings): void {
  const plan = history.plans.get(run.planHash);
  if (run.state !== "SUCCEEDED" || !plan) return;
  const newest = new Map(
    history.attemptsOf
      .get(run.id)
      ?.toSorted((a, b) => a.number - b.number)
      .map((attempt) => [attempt.step, attempt]),
  );
  for (const [index, step] of plan.steps.entries()) {
    findings.fact("steps of runs that succeeded");
    const attempt = newest.get(index);
    const label = `${step.interface}.${step.name}`;
    if (step.kept) {
      if (attempt)
        findings.violation(
          "doubled",
          `Run ${run.id} on node ${run.nodeName} was to keep ${label}, and ran it.`,
          run,
          attempt,
        );
    } else if (attempt?.state !== "SUCCEEDED" && !(plan.bestEffort && attempt?.state === "FAILED")) {
      findings.violation(
        "lost",
        `Run ${run.id} on node ${run.nodeName} succeeded, and its ${label} ${attempt ? `is ${attempt.state}` : "was never begun"}.`,
        run,
        attempt,
      );
    }
  }
}

function judgeAttempt(history: History, attempt: AttemptRow, findings: Findings): void {
  const step = stepOf(history, attempt);
  if (!isDrivers(step)) return judgeOwnStep(history, attempt, step, findings);
  const entries = history.entriesBy.get(attempt.key) ?? [];
  const made = entries.filter(({ part }) => part !== "abort").length;
  if (made > attempt.entries)
    findings.violation(
      "doubled",
      `Attempt ${attempt.key} (${attempt.label}) says that it was entered ${attempt.entries} times; it was ${made} times.`,
      attempt,
      ...entries.map(shown),
    );
  if (attempt.state !== "SUCCEEDED") return;
  findings.fact("steps that succeeded");
  if (!entries.some(({ part }) => part === "run"))
    findings.violation("lost", `Attempt ${attempt.key} (${attempt.label}) succeeded and was never entered.`, attempt);
  // What blocks its process first is done afterwards.
  else if (!entries.some(({ part, how }) => part !== "abort" && (how === "done" || how === "block")))
    findings.violation(
      "illegal",
      `Attempt ${attempt.key} (${attempt.label}) is stored as SUCCEEDED, and the machine never reported it.`,
      attempt,
      ...entries.map(shown),
    );
}

/** A step of the engine's own that has succeeded, if it is about power: the machine was asked while it lasted, and is then as the step says. */
function judgeOwnStep(history: History, attempt: AttemptRow, step: PlannedStep | undefined, findings: Findings): void {
  const { finishedAt } = attempt;
  if (attempt.state !== "SUCCEEDED" || step?.interface !== "power" || finishedAt === null) return;
  findings.fact("steps of the engine's own that succeeded");
  const node = history.runs.get(attempt.runId)?.nodeName ?? "";
  const calls = (history.powersAt.get(node) ?? []).filter(
    ({ t, failure }) => failure === null && t <= finishedAt + TOLERANCE_MS,
  );
  if (!calls.some(({ t }) => t >= attempt.startedAt - TOLERANCE_MS)) {
    findings.violation(
      "lost",
      `Attempt ${attempt.key} (${attempt.label}) succeeded, and its machine was asked nothing.`,
      attempt,
    );
    return;
  }
  const wanted = WANTED_POWER[step.name];
  const sets = calls.filter(({ what }) => what.startsWith("set "));
  // As it was when the step ended, or became within the tolerance about that.
  const possible = [
    sets.findLast(({ t }) => t < finishedAt - TOLERANCE_MS),
    ...sets.filter(({ t }) => t >= finishedAt - TOLERANCE_MS),
  ].map(powerAfter);
  if (wanted !== undefined && !possible.includes(wanted))
    findings.violation(
      "lost",
      `Attempt ${attempt.key} (${attempt.label}) succeeded, and its machine was ${powerAfter(sets.at(-1))}.`,
      attempt,
      sets.at(-1),
    );
}

const WANTED_POWER: Readonly<Record<string, "ON" | "OFF">> = {
  power_on: "ON",
  reboot: "ON",
  power_off: "OFF",
  soft_power_off: "OFF",
};

/** Machines are off until they are switched on. */
function powerAfter(call: PowerCall | undefined): "ON" | "OFF" {
  return call?.what === "set ON" || call?.what === "set REBOOT" ? "ON" : "OFF";
}

function judgeRepeats(history: History, entries: readonly Entry[], findings: Findings): void {
  for (const [index, entry] of entries.entries()) {
    if (index === 0 || entry.part === "abort") continue;
    findings.fact("entries repeated");
    const same = entries.slice(0, index).filter(({ part }) => part === entry.part);
    const last = same.at(-1);
    if (!entry.idempotent && entry.part === "run" && !entry.memo) {
      const fresh = same.findLast(({ memo }) => !memo);
      if (fresh && fresh.how !== "wait")
        findings.violation(
          "doubled",
          `${entry.step} on ${entry.node} must not be run twice, and was entered twice from its beginning.`,
          ...entries.map(shown),
        );
    }
    if (last?.left == null) continue;
    if (waitOf(last)) {
      findings.fact("entries after a wait");
      // Every machine of the arena gives something to keep.
      if (!entry.memo && !wasImpaired(history, last.replica, last.pid, last.left, entry.t))
        findings.violation(
          "lost",
          `${entry.step} on ${entry.node} had a wait, nothing befell ${last.replica} (${last.pid}), and what it gave to keep was not there.`,
          shown(last),
          shown(entry),
        );
    }
    if (last.how !== "done") continue;
    findings.fact("entries repeated that had been done");
    if (!wasImpaired(history, last.replica, last.pid, last.left, entry.t))
      findings.violation(
        "doubled",
        `${entry.step} on ${entry.node} was done, nothing befell ${last.replica} (${last.pid}), and it was entered again.`,
        shown(last),
        shown(entry),
      );
  }
}

/** Numbered entries never go back to an earlier step, nor to an earlier attempt. What a stale owner enters is P5's. */
function judgeDirection(runId: string, entries: readonly Entry[], findings: Findings): void {
  let newest: Entry | undefined;
  for (const entry of counted(entries)) {
    if (newest?.generation != null && entry.generation <= newest.generation) continue;
    if (newest && (entry.index < newest.index || (entry.index === newest.index && entry.number < newest.number))) {
      findings.violation(
        "doubled",
        `Run ${runId} on ${entry.node} went back from step ${newest.index} (${newest.step}) to ${entry.index} (${entry.step}).`,
        shown(newest),
        shown(entry),
      );
    }
    newest = entry;
  }
}
