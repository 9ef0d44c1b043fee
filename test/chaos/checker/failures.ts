/**
 * Causes of failed attempts, and times of their ends: P10 (deadlines), P12 (database outages), P15 (clocks), P16
 * (drivers). A legitimate failure has a cause at the machine, the clock or a fault. A failure without one is an effect
 * that should have been contained.
 */
import type { StolenClaim } from "./entries.ts";
import { Findings } from "./findings.ts";
import { TOLERANCE_MS, isDrivers, shown, stepOf, waitOf } from "./history.ts";
import type { AttemptRow, Entry, FailureRow, History, Lifetime } from "./history.ts";
import { joined, overlap, touches, widened } from "./intervals.ts";
import { waitedForCpu } from "./starvation.ts";

/** The driver reported the failure, or misbehaved as ordered. */
const CAUSED_BY_DRIVER = new Set<Entry["how"]>(["retry", "fail", "throw", "junk", "hang", "block", "exit"]);
/** The message of the failure comes from the driver. */
const REPORTED = new Set<Entry["how"]>(["retry", "fail", "throw"]);
const MISBEHAVIOUR = new Set<Entry["how"]>(["throw", "junk", "hang", "block", "exit"]);

/** Messages that show an unavailable database. */
const DATABASE_ERROR =
  /database|postgres|connection (was |is )?(terminated|closed|lost|ended|reset)|terminating connection|ECONNRE|CONNECTION_|server closed|57P0\d|53100|no space left/i;

/** A step may be found overdue this long before its deadline, in milliseconds; the contract allows a second. */
const EARLY_MS = 2_000;

/**
 * P10: every attempt with a deadline ends by then or shortly after (`overdueMs` covers the grace period of a
 * cancellation and the take-over from a dead process). Time in which no replica could act does not count. A later entry
 * moves the deadline, as its row shows. Holds have no deadline. A deadline is as long after the call as the step
 * declares: the time of a step begins with its call. No step and no wait ends by its time limit before that time
 * has passed; a violation under a wrong clock is reported with P15.
 */
export function checkDeadlines(history: History): Findings {
  const findings = new Findings("P10", "every step has a deadline that fires");
  const { attempts, down, over, options } = history;
  let longest = 0;
  for (const attempt of attempts.values()) {
    if (attempt.label === "engine.hold") continue;
    const entries = history.entriesBy.get(attempt.key) ?? [];
    if (isEarly(attempt) && !wasClockWrong(history, attempt))
      findings.violation("other", earlyMessage(attempt), attempt, ...entries.map(shown));
    checkDeadline(history, attempt, entries, findings);
    const end = attempt.finishedAt ?? over;
    if (end < attempt.deadlineAt - EARLY_MS) continue;
    findings.fact("attempts that reached their deadline");
    if (entries.some(({ how }) => how === "hang")) findings.fact("of them in a driver that hung");
    const late = end - attempt.deadlineAt - overlap(down, attempt.deadlineAt, end);
    longest = Math.max(longest, late);
    if (late > options.overdueMs) {
      findings.violation(
        "stuck",
        `Attempt ${attempt.key} (${attempt.label}) ${attempt.finishedAt === null ? "has not ended" : "ended"} ${Math.round(late / 1000)} s after its deadline.`,
        attempt,
        ...entries.map(shown),
      );
    }
  }
  findings.figure("longest time over a deadline, ms", longest);
  for (const { wait, entry, dueAt } of timedWaits(history)) {
    findings.fact("waits that ended at their time limit");
    if (isTooSoon(entry, dueAt) && !wasClockWrong(history, { startedAt: wait.t, finishedAt: entry.t }))
      findings.violation("other", tooSoonMessage(entry, dueAt), shown(wait), shown(entry));
  }
  return findings;
}

/**
 * Checks that the deadline follows from the step's declaration. An entry that was stored but never made has moved the
 * deadline as well; then only a deadline that is too early can be detected. Calls of a power step are calls for the
 * power of its node. An attempt without a call has waited for it until its end.
 */
function checkDeadline(history: History, attempt: AttemptRow, entries: readonly Entry[], findings: Findings): void {
  const step = stepOf(history, attempt);
  if (!step) return;
  findings.fact("deadlines compared with the declaration");
  const declared = step.timeoutSeconds * 1_000;
  const made = entries.filter(({ part }) => part !== "abort");
  const calls = made.length > 0 ? made : powerCallsOf(history, attempt);
  const latest = (calls.at(-1)?.t ?? attempt.finishedAt ?? history.over) + declared;
  const isTooFar = attempt.entries === Math.max(1, made.length) && attempt.deadlineAt > latest + TOLERANCE_MS;
  if (!isTooFar && attempt.deadlineAt >= attempt.startedAt + declared - TOLERANCE_MS) return;
  findings.violation(
    "other",
    `Attempt ${attempt.key} (${attempt.label}) may take ${step.timeoutSeconds} s, but its deadline is ${Math.round((attempt.deadlineAt - attempt.startedAt) / 1_000)} s after its beginning.`,
    attempt,
    ...made.map(shown),
  );
}

interface TimedWait {
  readonly wait: Entry;
  readonly entry: Entry;
  readonly dueAt: number;
}

/** Stored waits, with the next entries that no callback caused. */
function timedWaits(history: History): readonly TimedWait[] {
  return [...history.entriesBy.values()].flatMap((all) => {
    const entries = all.filter(({ part }) => part !== "abort");
    return entries.flatMap((entry, index): readonly TimedWait[] => {
      const wait = entries[index - 1];
      const waited = wait && waitOf(wait);
      return waited && wait.left !== null && wait.part === entry.part && entry.memo && !entry.callback
        ? [{ wait, entry, dueAt: wait.left + waited.ms }]
        : [];
    });
  });
}

function isTooSoon({ t }: Entry, dueAt: number): boolean {
  return t < dueAt - WAIT_TOLERANCE_MS;
}

/** Tolerance of the end of a wait, in milliseconds. */
const WAIT_TOLERANCE_MS = 500;

function tooSoonMessage({ step, node, t }: Entry, dueAt: number): string {
  return `${step} on ${node} was entered ${Math.round((dueAt - t) / 100) / 10} s before the end of its wait, without a callback.`;
}

/**
 * P12 and P16 share the failures that were not ordered.
 *
 * P12: an outage of the database of up to 60 s fails no operation. The facts are outages, terminated connections and
 * cut connections to the database while steps were in progress. It is violated by a failure that names the database,
 * and by a failure during an outage without a cause of its own.
 *
 * P16: a misbehaving driver affects only its own step. The facts are the entries that misbehaved as ordered. It is
 * violated by a failed attempt without an entry that the machine made fail, by one whose message differs from the
 * machine's last, and by a replica that ended without SIGKILL or SIGTERM (a replica that finds no database when it
 * starts may end). INTERRUPTED is legitimate if the step must not run twice, or was entered three times, and a fault
 * hit its process.
 */
export function checkFailures(history: History): { readonly database: Findings; readonly drivers: Findings } {
  const database = new Findings("P12", "an outage of the database of 60 s fails no operation");
  const drivers = new Findings("P16", "a misbehaving driver affects only its own step");
  const outages = history.faults.filter(
    ({ what, target }) =>
      what === "postgres-restart" ||
      what === "backends" ||
      ((what === "drop" || what === "half-open") && target.endsWith("/database")),
  );
  const short = outages.filter(({ from, to }) => to - from <= OUTAGE_MS);
  const times = widened(short, 0, AFTERMATH_MS);
  for (const { what, from, to } of short) {
    if (history.entries.some(({ t, left }) => t <= to && (left ?? Infinity) >= from))
      database.fact(`${what} while steps were under way`);
  }
  for (const entry of history.entries)
    if (entry.how !== null && MISBEHAVIOUR.has(entry.how)) drivers.fact(`entries that misbehaved: ${entry.how}`);
  let failed = 0;
  for (const attempt of history.attempts.values()) {
    if (attempt.state !== "FAILED") continue;
    failed += 1;
    const entries = history.entriesBy.get(attempt.key) ?? [];
    const why = causeOf(history, attempt, entries);
    if (why.caused) continue;
    const ofDatabase =
      DATABASE_ERROR.test(attempt.failure?.message ?? "") ||
      (attempt.finishedAt !== null &&
        touches(times, attempt.finishedAt, attempt.finishedAt) &&
        !entries.some(({ how }) => how === "lost"));
    const message = `Attempt ${attempt.key} (${attempt.label}) failed with ${attempt.failure?.code} (${attempt.failure?.message}): ${why.message}.`;
    if (ofDatabase) database.violation("other", message, attempt, ...entries.map(shown));
    else drivers.violation("other", message, attempt, ...entries.map(shown));
  }
  drivers.figure("failed attempts", failed);
  checkRuns(history, database, drivers);
  for (const lifetime of history.lifetimes) {
    if (
      lifetime.ended === null ||
      lifetime.killed !== null ||
      lifetime.terminated !== null ||
      lifetime.ended >= history.over
    )
      continue;
    if (lifetime.ready === null && hadNoDatabase(history, lifetime)) continue;
    drivers.violation(
      "other",
      `${lifetime.name} (${lifetime.pid}) ended unexpectedly, with code ${lifetime.end?.code} and signal ${lifetime.end?.signal}.`,
      lifetime.end,
    );
  }
  return { database, drivers };
}

/** Whether a fault hit the database, or the connection to it, while a process was starting. */
function hadNoDatabase({ faults, options }: History, { name, started, ended }: Lifetime): boolean {
  return faults.some(
    ({ what, target, from, to }) =>
      (target === "postgres" || (target === `${name}/database` && what !== "delay")) &&
      from <= (ended ?? Infinity) &&
      to + options.recoveryMs >= started,
  );
}

/** Entries that end their processes after which a step is not entered again. */
export const RECOVERIES_MAX = 3;
const OUTAGE_MS = 60_000;
/** A failure may be caused by an outage up to this long after it, in milliseconds. */
const AFTERMATH_MS = 15_000;
/** Time from the storing of a step until its driver has entered it, in milliseconds. */
const ENTRY_MS = 2_000;

/** Whether a failed attempt has a cause of its own, or what is wrong with it. */
function causeOf(
  history: History,
  attempt: AttemptRow,
  entries: readonly Entry[],
): { readonly caused: true } | { readonly caused: false; readonly message: string } {
  const caused = { caused: true } as const;
  const { failure, finishedAt } = attempt;
  const step = stepOf(history, attempt);
  if (failure?.code === "TIMEOUT" && finishedAt !== null && finishedAt >= attempt.deadlineAt - EARLY_MS) {
    const last = entries.at(-1);
    const left = last?.how === "done" && last.left !== null ? last.left : Infinity;
    // The replica has to store the result, or to begin the verification that follows, before the deadline.
    const waited =
      last && left < Infinity ? waitedForCpu(history, [last.replica, "postgres"], left, attempt.deadlineAt) : 0;
    const wasDone =
      last !== undefined &&
      left < attempt.deadlineAt - Math.max(TOLERANCE_MS, waited) &&
      !isFollowedByPower(history, last);
    return wasDone ? { caused: false, message: "the step was done in time, but its result was lost" } : caused;
  }
  // A deadline that fires too early is reported with the deadlines or the clocks.
  if (failure?.code === "STOP_TIMEOUT" || isEarly(attempt)) return caused;
  if (failure?.code === "INTERRUPTED") {
    const last = entries.at(-1);
    if (!last)
      return wasHitWithoutEntry(history, attempt, step?.interface === "power")
        ? caused
        : { caused: false, message: "it was interrupted without an entry" };
    if (last.idempotent && attempt.entries < RECOVERIES_MAX)
      return { caused: false, message: "it may be entered again, but was not" };
    // The abort of the clean-up follows the interruption.
    const interrupted = entries.findLast(({ part }) => part !== "abort") ?? last;
    const isHit = [interrupted, last].some(
      (entry) => wasHit(history, entry, finishedAt ?? history.over) || entry.how === "exit",
    );
    return isHit ? caused : { caused: false, message: "no fault hit its process" };
  }
  const last = entries.findLast(({ part }) => part !== "abort");
  if (last?.how && REPORTED.has(last.how) && last.detail !== null && failure?.message.includes(last.detail) !== true)
    return { caused: false, message: `its machine reported "${last.detail}"` };
  if (entries.some(({ how }) => CAUSED_BY_DRIVER.has(how))) return caused;
  // A call for power may fail, in a driver's step as well as in an engine step.
  const calls = powerCallsOf(history, attempt);
  if (calls.some((call) => call.failure !== null)) return caused;
  if (!isDrivers(step) && failure?.code !== "INTERRUPTED" && calls.length === 0)
    return { caused: false, message: "no machine was called" };
  return { caused: false, message: "no machine reported a failure" };
}

/** Calls for the power of an attempt's node while it was under way. */
function powerCallsOf({ runs, powersAt }: History, { runId, startedAt, finishedAt }: AttemptRow) {
  return (powersAt.get(runs.get(runId)?.nodeName ?? "") ?? []).filter(
    ({ t }) => t >= startedAt - TOLERANCE_MS && t <= (finishedAt ?? Infinity) + TOLERANCE_MS,
  );
}

/** Whether the step sets the power after the machine reported it as done. */
function isFollowedByPower(history: History, entry: Entry): boolean {
  return (history.powersAt.get(entry.node) ?? []).some(
    ({ pid, t }) => pid === entry.pid && t >= (entry.left ?? Infinity),
  );
}

/** Whether the process inside an entry was killed, terminated, frozen or disconnected, or ended, before that moment. */
function wasHit(history: History, entry: Entry, until: number): boolean {
  const lifetime = history.lifetimes.find(({ name, pid }) => name === entry.replica && pid === entry.pid);
  if ([lifetime?.killed, lifetime?.terminated, lifetime?.ended].some((t) => t != null && t <= until)) return true;
  return history.faults.some(({ what, target, from, to }) => {
    const isRelevant =
      what === "postgres-restart" ||
      what === "backends" ||
      what === "disk-full" ||
      (what === "freeze" && target === entry.replica) ||
      target === `${entry.replica}/database`;
    return isRelevant && from <= until && to + AFTERMATH_MS >= entry.t;
  });
}

/**
 * Whether a process ended or was frozen, or the database failed, while an attempt without entries was under way: a
 * power step of the engine, which has none, or a step that was stored and not entered yet.
 */
function wasHitWithoutEntry(history: History, { startedAt, finishedAt }: AttemptRow, isPower: boolean): boolean {
  const until = isPower ? (finishedAt ?? history.over) : startedAt + ENTRY_MS;
  const since = startedAt - (isPower ? AFTERMATH_MS : TOLERANCE_MS);
  const isMeanwhile = (t: number | null) => t !== null && t >= startedAt && t <= until;
  return (
    history.lifetimes.some(({ killed, terminated, ended }) => [killed, terminated, ended].some(isMeanwhile)) ||
    history.faults.some(({ from, to }) => from <= until && to >= since)
  );
}

/** A failed run has a failed attempt, a failed abort, or a stop that timed out. */
function checkRuns(history: History, database: Findings, drivers: Findings): void {
  for (const run of history.runs.values()) {
    if (run.state !== "FAILED") continue;
    const { failure } = run;
    const findings =
      DATABASE_ERROR.test(failure?.message ?? "") && !isReportedByMachine(history, run.id, failure)
        ? database
        : drivers;
    if (failure === null)
      drivers.violation("other", `Run ${run.id} on node ${run.nodeName} failed, but has no failure.`, run);
    else if (failure.code === "STOP_TIMEOUT" || run.interrupt === "ABORT") continue;
    else if (!(history.attemptsOf.get(run.id) ?? []).some(({ state }) => state === "FAILED"))
      findings.violation(
        "other",
        `Run ${run.id} on node ${run.nodeName} failed with ${failure.code} (${failure.message}), but none of its attempts failed.`,
        run,
      );
  }
  for (const operation of history.operations.values()) {
    const { firstFailure } = operation;
    if (firstFailure && DATABASE_ERROR.test(firstFailure.message) && !/machine|BMC/i.test(firstFailure.message))
      database.violation("other", `Operation ${operation.id} failed first with: ${firstFailure.message}`, operation);
  }
}

function isReportedByMachine(history: History, runId: string, failure: FailureRow | null): boolean {
  return (history.entriesOf.get(runId) ?? []).some(
    ({ detail }) => detail !== null && detail !== "" && failure?.message.includes(detail) === true,
  );
}

/**
 * P15: clock jumps change no lease and end no step early. The facts are jumps while a process was inside a step. An
 * attempt that failed with TIMEOUT while a clock was wrong did so at its deadline and not before, by the database's
 * clock; whether it was ever entered does not matter (a process whose clock is ahead may consider the time over
 * immediately). P5 shows that no lease was lost: there a clock jump does not justify entering a run that another
 * process is inside. Violations of P5 under a wrong clock, without another fault, are reported here again.
 */
export function checkClocks(history: History, stolenClaims: readonly StolenClaim[]): Findings {
  const findings = new Findings("P15", "clock jumps change no lease and no deadline");
  const jumps = history.faults.filter(({ what }) => what === "clock");
  const byReplica = Map.groupBy(history.entries, ({ replica }) => replica);
  for (const { target, from, to } of jumps) {
    const inside = (byReplica.get(target) ?? []).filter(({ t, left }) => t <= to && (left ?? Infinity) >= from);
    if (inside.length > 0) findings.fact("clock jumps with steps under way");
    findings.fact("entries under a wrong clock", inside.length);
  }
  if (jumps.length === 0) return findings;
  for (const attempt of history.attempts.values()) {
    if (attempt.failure?.code !== "TIMEOUT" || attempt.finishedAt === null) continue;
    const entries = history.entriesBy.get(attempt.key) ?? [];
    if (!wasClockWrong(history, attempt) || !isEnginesTimeout(attempt)) continue;
    findings.fact("timeouts under a wrong clock");
    if (isEarly(attempt)) findings.violation("other", earlyMessage(attempt), attempt, ...entries.map(shown));
  }
  for (const { wait, entry, dueAt } of timedWaits(history)) {
    if (!wasClockWrong(history, { startedAt: wait.t, finishedAt: entry.t })) continue;
    findings.fact("waits under a wrong clock");
    if (isTooSoon(entry, dueAt)) findings.violation("other", tooSoonMessage(entry, dueAt), shown(wait), shown(entry));
  }
  for (const { message, inside, entry } of stolenClaims) {
    if (touches(joined(jumps), entry.t - history.options.leaseMs, entry.t))
      findings.violation("doubled", message, shown(inside), shown(entry));
  }
  return findings;
}

/** The engine's own message for a step past its deadline; a driver may fail with the same code. */
function isEnginesTimeout({ failure }: AttemptRow): boolean {
  return failure?.code === "TIMEOUT" && /did not end within/.test(failure.message);
}

function isEarly(attempt: AttemptRow): boolean {
  return isEnginesTimeout(attempt) && attempt.finishedAt !== null && attempt.finishedAt < attempt.deadlineAt - EARLY_MS;
}

function earlyMessage({ key, label, deadlineAt, finishedAt }: AttemptRow): string {
  return `Attempt ${key} (${label}) failed with TIMEOUT ${Math.round((deadlineAt - (finishedAt ?? 0)) / 1000)} s before its deadline.`;
}

/**
 * Whether a replica's clock was wrong during the attempt or just before; it is not known for certain which replica
 * executed the attempt.
 */
function wasClockWrong(
  history: History,
  { startedAt, finishedAt }: Pick<AttemptRow, "startedAt" | "finishedAt">,
): boolean {
  return history.faults.some(
    ({ what, from, to }) => what === "clock" && from <= (finishedAt ?? history.over) && to + TOLERANCE_MS >= startedAt,
  );
}
