/**
 * Compares the machines' records with the database: P5 (one owner) and P6 (at least once, with the same key). The
 * machines' server records an entry before it answers the driver, in one order for all processes, and outlives all of
 * them, so its record is complete. It does not know whether a returned result was stored: the process may have died
 * first. An entry that succeeded may therefore be repeated if and only if a fault hit its process.
 */
import { RECOVERIES_MAX } from "./failures.ts";
import { checkOneRunANode } from "./log.ts";
import { Findings } from "./findings.ts";
import { TOLERANCE_MS, isDrivers, shown, stepOf, wasImpaired, waitOf } from "./history.ts";
import type { AttemptRow, Entry, History, PlannedStep, PowerCall, RunRow } from "./history.ts";

/**
 * P5 compares four orders.
 *
 * Runs on a node follow each other (log.ts), and so do the attempts of a run by their rows: none begins before the
 * previous one has ended.
 *
 * Entries of a run follow the service's own count. The owner of the run raises the count under the run's lock. An entry
 * with a lower number than an earlier one was therefore made by a process that had already lost the run: it made a new
 * call, and did not just continue an old one. The same number twice is one claim used twice. The same holds for a
 * change of power by a step, which counts as the last entry of the step by that process. A process that is inside a
 * call when it loses its lease is not blamed for being there, nor for leaving late.
 *
 * While a process is inside a step, no process enters another step on that node, of the same run or of the next, not
 * even the same process. Exceptions: a fault that may have cost the first process its lease (a kill, a freeze, the
 * connection to the database), or a step that was given up, past its deadline or after the timeout of a stop. Faults
 * are searched generously, so whatever is reported has no such explanation: a healthy owner lost its run.
 */
export function checkOwners(history: History): {
  readonly findings: Findings;
  readonly stolenClaims: readonly StolenClaim[];
} {
  const stolenClaims: StolenClaim[] = [];
  const findings = new Findings("P5", "at most one run works on a node, with one owner");
  checkOneRunANode(history, findings);
  for (const [runId, entries] of history.entriesOf) {
    const owners = new Set(entries.map(({ pid }) => pid));
    findings.fact("entries ordered", counted(entries).length);
    if (owners.size > 1) findings.fact("runs with several owners");
    checkEntryOrder(entries, findings);
    if (owners.size > 1) checkPowerOrder(history, runId, entries, findings);
  }
  for (const entries of history.entriesAt.values()) checkOverlap(history, entries, findings, stolenClaims);
  for (const [runId, attempts] of history.attemptsOf) checkAttemptOrder(runId, attempts, findings);
  const unknown = history.entries.filter(({ generation }) => generation === null).length;
  if (unknown > 0) findings.note(`The numbers of ${unknown} entries are unknown; their order is not checked.`);
  return { findings, stolenClaims };
}

/** A step was entered while a healthy process was inside a step on the same node. */
export interface StolenClaim {
  readonly message: string;
  readonly inside: Entry;
  readonly entry: Entry;
}

/** `abort` is called with the path of the step that it undoes, so it is not an entry of its own here. */
function counted(entries: readonly Entry[]): readonly (Entry & { readonly generation: number })[] {
  return entries.filter(
    (entry): entry is Entry & { generation: number } => entry.generation !== null && entry.part !== "abort",
  );
}

function checkEntryOrder(entries: readonly Entry[], findings: Findings): void {
  let newest: (Entry & { readonly generation: number }) | undefined;
  for (const entry of counted(entries)) {
    if (newest && entry.generation < newest.generation) {
      findings.violation(
        "doubled",
        `${entry.replica} (${entry.pid}) entered ${entry.step} on ${entry.node} as entry ${entry.generation} of the run after ${newest.replica} (${newest.pid}) had made entry ${newest.generation}: it was no longer the owner.`,
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

/** Two attempts of a run, by their rows, do not overlap. */
function checkAttemptOrder(runId: string, attempts: readonly AttemptRow[], findings: Findings): void {
  const sorted = attempts.toSorted((a, b) => a.startedAt - b.startedAt || a.step - b.step || a.number - b.number);
  for (const [index, attempt] of sorted.entries()) {
    const before = sorted[index - 1];
    if (!before) continue;
    findings.fact("attempts that followed another");
    if ((before.finishedAt ?? Infinity) > attempt.startedAt + ROUNDING_MS)
      findings.violation(
        "doubled",
        `Attempt ${attempt.key} (${attempt.label}) of run ${runId} began before ${before.key} (${before.label}) had ended.`,
        before,
        attempt,
      );
  }
}

/** Both times are from the database's clock; they differ only by rounding. */
const ROUNDING_MS = 5;

function checkOverlap(
  history: History,
  entries: readonly Entry[],
  findings: Findings,
  stolenClaims: StolenClaim[],
): void {
  for (const [index, entry] of entries.entries()) {
    for (const inside of entries.slice(Math.max(0, index - LOOK_BACK), index)) {
      if (inside.left !== null && inside.left <= entry.t) continue;
      // `abort` and the cancellation of the step use two connections; `abort` may reach the machine first.
      if (entry.part === "abort" && entry.pid === inside.pid) continue;
      findings.fact("entries during another entry on the node");
      // The step hangs past its deadline, in a call that its owner has given up.
      const isOverdue = history.wall(inside.deadline) <= entry.t + TOLERANCE_MS;
      const wasAbandoned = history.runs.get(inside.runId)?.failure?.code === "STOP_TIMEOUT";
      if (isOverdue || wasAbandoned || wasImpaired(history, inside.replica, inside.pid, inside.t, entry.t)) continue;
      const message = `${entry.replica} (${entry.pid}) entered ${entry.step} on ${entry.node} while ${inside.replica} (${inside.pid}) was inside ${inside.step}, without a fault that explains it.`;
      stolenClaims.push({ message, inside, entry });
      findings.violation("doubled", message, shown(inside), shown(entry));
    }
  }
}

/** Number of earlier entries on a node that are searched for one in progress. */
const LOOK_BACK = 20;

/** A stale owner makes no new call for power either. */
function checkPowerOrder(history: History, runId: string, entries: readonly Entry[], findings: Findings): void {
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
        `${call.replica} (${call.pid}) changed the power of ${node} (${call.what}) from entry ${own.generation} after ${newer.replica} (${newer.pid}) had made entry ${newer.generation}.`,
        shown(own),
        shown(newer),
        call,
      );
    }
  }
}

/**
 * P6. Every attempt at a driver's step that is stored as SUCCEEDED was entered, and the machine reported one of its
 * entries as done. Every entry belongs to a stored attempt, because the attempt is stored first, and no attempt was
 * entered more often than its row says. Attempts at a step are numbered from 1. Only a retryable failure leads to
 * another attempt, at most as often as the step declares; while retries are left and no interrupt is requested, it
 * does. A repeated entry therefore has the key of the first, and steps never go back within a run. A run that succeeded
 * has skipped no step of its plan. A successful engine step is backed by a call for power, and the machine's power is
 * as the step says.
 *
 * A step that must not run twice is entered once from its beginning in each attempt, whatever happened to its process;
 * a wait without a memo is an entry of its own. Any other step is entered again after it was done only if a fault hit
 * the process in between, which may have prevented its result from being stored. The memo of a wait is present at the
 * next entry, unless the wait itself was not stored.
 */
export function checkAtLeastOnce(history: History): Findings {
  const findings = new Findings("P6", "a step runs at least once and is repeated with the same key");
  for (const attempt of history.attempts.values()) checkAttempt(history, attempt, findings);
  for (const [key, entries] of history.entriesBy) {
    const attempt = history.attempts.get(key);
    const [first] = entries;
    if (!attempt)
      findings.violation(
        "lost",
        `${first?.step} on ${first?.node} was entered with the key ${key}, but no such attempt is stored.`,
        ...entries.map(shown),
      );
    checkRepeats(history, entries, findings);
  }
  for (const [runId, entries] of history.entriesOf) checkDirection(runId, entries, findings);
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
      checkTries(history, sorted, findings);
    }
  }
  for (const run of history.runs.values()) checkPlan(history, run, findings);
  return findings;
}

/** Checks that a step was tried as often as its declaration and its failures allow, and not less. */
function checkTries(history: History, tries: readonly AttemptRow[], findings: Findings): void {
  const last = tries.at(-1);
  const step = last && stepOf(history, last);
  if (!last || !step) return;
  const endOf = ({ key }: AttemptRow) => history.entriesBy.get(key)?.findLast(({ part }) => part !== "abort")?.how;
  for (const attempt of tries.slice(0, -1)) {
    findings.fact("tries after a failure");
    if (endOf(attempt) === "fail")
      findings.violation(
        "doubled",
        `Attempt ${attempt.key} (${attempt.label}) failed permanently according to its machine, but was retried.`,
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
  const isInterrupted = (run?.interrupt ?? history.operations.get(run?.operationId ?? "")?.interrupt ?? null) !== null;
  // R-713: its result could not be stored, so nothing decided about it. failures.ts judges the end of the attempt.
  const isAbandoned = last.failure?.code === "INTERRUPTED" && last.entries >= RECOVERIES_MAX;
  if (
    last.state === "FAILED" &&
    endOf(last) === "retry" &&
    last.number <= step.retries &&
    !isInterrupted &&
    !isAbandoned
  ) {
    findings.violation(
      "lost",
      `Step ${last.step} (${last.label}) of run ${last.runId} was given up after ${last.number} tries; it may be tried ${step.retries + 1} times.`,
      ...tries,
    );
  }
}

/**
 * Every step of a successful run succeeded, except those that an earlier run had done, and failed ones of a best-effort
 * plan.
 */
function checkPlan(history: History, run: RunRow, findings: Findings): void {
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
          `Run ${run.id} on node ${run.nodeName} was to keep ${label}, but ran it.`,
          run,
          attempt,
        );
    } else if (attempt?.state !== "SUCCEEDED" && !(plan.bestEffort && attempt?.state === "FAILED")) {
      findings.violation(
        "lost",
        `Run ${run.id} on node ${run.nodeName} succeeded, but its ${label} ${attempt ? `is ${attempt.state}` : "never began"}.`,
        run,
        attempt,
      );
    }
  }
}

function checkAttempt(history: History, attempt: AttemptRow, findings: Findings): void {
  const step = stepOf(history, attempt);
  if (!isDrivers(step)) return checkOwnStep(history, attempt, step, findings);
  const entries = history.entriesBy.get(attempt.key) ?? [];
  const made = entries.filter(({ part }) => part !== "abort").length;
  if (made > attempt.entries)
    findings.violation(
      "doubled",
      `Attempt ${attempt.key} (${attempt.label}) counts ${attempt.entries} entries, but had ${made}.`,
      attempt,
      ...entries.map(shown),
    );
  if (attempt.state !== "SUCCEEDED") return;
  findings.fact("steps that succeeded");
  if (!entries.some(({ part }) => part === "run"))
    findings.violation("lost", `Attempt ${attempt.key} (${attempt.label}) succeeded without an entry.`, attempt);
  // A step that blocks its process first is done afterwards.
  else if (!entries.some(({ part, how }) => part !== "abort" && (how === "done" || how === "block")))
    findings.violation(
      "illegal",
      `Attempt ${attempt.key} (${attempt.label}) is stored as SUCCEEDED, but the machine never reported it.`,
      attempt,
      ...entries.map(shown),
    );
}

/**
 * For a successful power step of the engine, the machine was called during the step, and its power is as the step says.
 */
function checkOwnStep(history: History, attempt: AttemptRow, step: PlannedStep | undefined, findings: Findings): void {
  const { finishedAt } = attempt;
  if (attempt.state !== "SUCCEEDED" || step?.interface !== "power" || finishedAt === null) return;
  findings.fact("engine steps that succeeded");
  const node = history.runs.get(attempt.runId)?.nodeName ?? "";
  const calls = (history.powersAt.get(node) ?? []).filter(
    ({ t, failure }) => failure === null && t <= finishedAt + TOLERANCE_MS,
  );
  if (!calls.some(({ t }) => t >= attempt.startedAt - TOLERANCE_MS)) {
    findings.violation(
      "lost",
      `Attempt ${attempt.key} (${attempt.label}) succeeded without a call to its machine.`,
      attempt,
    );
    return;
  }
  const wanted = WANTED_POWER[step.name];
  const sets = calls.filter(({ what }) => what.startsWith("set "));
  // Power at the end of the step, within the tolerance.
  const possible = [
    sets.findLast(({ t }) => t < finishedAt - TOLERANCE_MS),
    ...sets.filter(({ t }) => t >= finishedAt - TOLERANCE_MS),
  ].map(powerAfter);
  if (wanted !== undefined && !possible.includes(wanted))
    findings.violation(
      "lost",
      `Attempt ${attempt.key} (${attempt.label}) succeeded, but its machine was ${powerAfter(sets.at(-1))}.`,
      attempt,
      sets.at(-1),
    );
}

const WANTED_POWER: Readonly<Record<string, "ON" | "OFF">> = {
  power_on: "ON",
  reboot: "ON",
  soft_reboot: "ON",
  power_off: "OFF",
  soft_power_off: "OFF",
};

/** Machines are off until they are switched on. */
function powerAfter(call: PowerCall | undefined): "ON" | "OFF" {
  return call?.what === "set ON" || call?.what === "set REBOOT" ? "ON" : "OFF";
}

function checkRepeats(history: History, entries: readonly Entry[], findings: Findings): void {
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
          `${entry.step} on ${entry.node} must not run twice, but was entered twice from its beginning.`,
          ...entries.map(shown),
        );
    }
    if (last?.left == null) continue;
    if (waitOf(last)) {
      findings.fact("entries after a wait");
      // Every machine of the arena returns a memo.
      if (!entry.memo && !wasImpaired(history, last.replica, last.pid, last.left, entry.t))
        findings.violation(
          "lost",
          `${entry.step} on ${entry.node} was entered after a wait without its memo, and no fault of ${last.replica} (${last.pid}) explains it.`,
          shown(last),
          shown(entry),
        );
    }
    if (last.how !== "done") continue;
    findings.fact("entries repeated after they were done");
    if (!wasImpaired(history, last.replica, last.pid, last.left, entry.t))
      findings.violation(
        "doubled",
        `${entry.step} on ${entry.node} was entered again after it was done, and no fault of ${last.replica} (${last.pid}) explains it.`,
        shown(last),
        shown(entry),
      );
  }
}

/** Numbered entries never go back to an earlier step or attempt. Entries of a stale owner are covered by P5. */
function checkDirection(runId: string, entries: readonly Entry[], findings: Findings): void {
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
