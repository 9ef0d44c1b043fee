/**
 * Why attempts failed, and when they ended: P10 (deadlines), P12 (the database away), P15 (clocks), P16 (drivers). Whatever
 * failed has a cause that the machine, the clock or a nemesis can be seen to have given; a failure without one is a caller
 * else's fault that was let through.
 */
import type { Robbery } from "./entries.ts";
import { Findings } from "./verdict.ts";
import { TOLERANCE_MS, isDrivers, shown, stepOf, waitOf } from "./history.ts";
import type { AttemptRow, Entry, FailureRow, History, Life } from "./history.ts";
import { joined, overlap, touches, widened } from "./intervals.ts";

/** The driver itself gave the failure, or misbehaved as it was ordered to. */
const GIVEN = new Set<Entry["how"]>(["retry", "fail", "throw", "junk", "hang", "block", "exit"]);
/** The failure is in the driver's words. */
const SAID = new Set<Entry["how"]>(["retry", "fail", "throw"]);
const MISBEHAVIOUR = new Set<Entry["how"]>(["throw", "junk", "hang", "block", "exit"]);

/** How the database's absence would be told. */
const OF_THE_DATABASE =
  /database|postgres|connection (was |is )?(terminated|closed|lost|ended|reset)|terminating connection|ECONNRE|CONNECTION_|server closed|57P0\d|53100|no space left/i;

/** A step whose end was waited for past the deadline itself may be found over by so much before it, in ms: the contract allows a second. */
const EARLY_MS = 2_000;

/**
 * P10: every attempt that has a deadline has ended by then, or not long after (`overdueMs`: the grace of a cut, and the
 * take-over of a process that died with it); time in which no replica could do anything about it does not count. A later entry
 * moves the deadline, which the row then says. Holds have none. A deadline lies as far after the attempt's beginning, or after its
 * last entry, as the step declares. And no step is ended for its time, and no wait, before that is over; where a clock was
 * wrong at the time, that is told with P15.
 */
export function checkDeadlines(history: History): Findings {
  const findings = new Findings("P10", "every step has a deadline that fires");
  const { attempts, down, over, options } = history;
  let longest = 0;
  for (const attempt of attempts.values()) {
    if (attempt.label === "engine.hold") continue;
    const entries = history.entriesBy.get(attempt.key) ?? [];
    if (isEarly(attempt) && !wasClockWrong(history, attempt))
      findings.violation("other", earlySays(attempt), attempt, ...entries.map(shown));
    judgeLength(history, attempt, entries, findings);
    const end = attempt.finishedAt ?? over;
    if (end < attempt.deadlineAt - EARLY_MS) continue;
    findings.fact("attempts that met their deadline");
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
    findings.fact("waits that ended by their time");
    if (isTooSoon(entry, dueAt) && !wasClockWrong(history, { startedAt: wait.t, finishedAt: entry.t }))
      findings.violation("other", tooSoonSays(entry, dueAt), shown(wait), shown(entry));
  }
  return findings;
}

/** Whether the deadline is where the step's declaration puts it. An entry that was stored and never made has moved it as well: then only that it is not too near can be told. */
function judgeLength(history: History, attempt: AttemptRow, entries: readonly Entry[], findings: Findings): void {
  const step = stepOf(history, attempt);
  if (!step) return;
  findings.fact("deadlines held against what is declared");
  const declared = step.timeoutSeconds * 1_000;
  const made = entries.filter(({ part }) => part !== "abort");
  const latest = Math.max(attempt.startedAt, made.at(-1)?.t ?? 0) + declared;
  const isTooFar = attempt.entries === Math.max(1, made.length) && attempt.deadlineAt > latest + TOLERANCE_MS;
  if (!isTooFar && attempt.deadlineAt >= attempt.startedAt + declared - TOLERANCE_MS) return;
  findings.violation(
    "other",
    `Attempt ${attempt.key} (${attempt.label}) may take ${step.timeoutSeconds} s, and its deadline is ${Math.round((attempt.deadlineAt - attempt.startedAt) / 1_000)} s after its beginning.`,
    attempt,
    ...made.map(shown),
  );
}

interface TimedWait {
  readonly wait: Entry;
  readonly entry: Entry;
  readonly dueAt: number;
}

/** Waits that were stored, and the entries after them that no callback had caused. */
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
  return t < dueAt - SOON_MS;
}

/** What the time that a machine told to wait until may be wrong by, in ms. */
const SOON_MS = 500;

function tooSoonSays({ step, node, t }: Entry, dueAt: number): string {
  return `${step} on ${node} was to wait, no callback came, and it was entered ${Math.round((dueAt - t) / 100) / 10} s before that was over.`;
}

/**
 * P12 and P16 part the failures that no caller ordered between them.
 *
 * P12: the database's absence (up to 60 s) makes no operation fail. The facts are the outages, cut connections and cut ways to the
 * database while steps were under way. It is broken by a failure that speaks of the database, and by one without a cause of its own that
 * came about in an outage.
 *
 * P16: a driver that misbehaves harms its own step only. The facts are the entries that misbehaved as ordered. It is broken by
 * a failed attempt no entry of which was given a failure by its machine, or that says something else than its machine said last, and by
 * a replica's process that ended though no caller killed it or told it to go (one that finds no database at its start says so and ends). Interrupted counts as caused where a step must not be run twice and something befell its process.
 */
export function checkFailures(history: History): { readonly database: Findings; readonly drivers: Findings } {
  const database = new Findings("P12", "the database away for 60 s fails no operation");
  const drivers = new Findings("P16", "a driver harms only its own step");
  const outages = history.blows.filter(
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
      OF_THE_DATABASE.test(attempt.failure?.message ?? "") ||
      (attempt.finishedAt !== null &&
        touches(times, attempt.finishedAt, attempt.finishedAt) &&
        !entries.some(({ how }) => how === "lost"));
    const says = `Attempt ${attempt.key} (${attempt.label}) failed with ${attempt.failure?.code} (${attempt.failure?.message}): ${why.says}.`;
    if (ofDatabase) database.violation("other", says, attempt, ...entries.map(shown));
    else drivers.violation("other", says, attempt, ...entries.map(shown));
  }
  drivers.figure("failed attempts", failed);
  judgeRuns(history, database, drivers);
  for (const life of history.lives) {
    if (life.ended === null || life.killed !== null || life.told !== null || life.ended >= history.over) continue;
    if (life.ready === null && hadNoDatabase(history, life)) continue;
    drivers.violation(
      "other",
      `${life.name} (${life.pid}) ended unexpectedly, with code ${life.end?.code} and signal ${life.end?.signal}.`,
      life.end,
    );
  }
  return { database, drivers };
}

/** Whether anything had happened to the database, or the way to it, while a process was starting. */
function hadNoDatabase({ blows, options }: History, { name, started, ended }: Life): boolean {
  return blows.some(
    ({ what, target, from, to }) =>
      (target === "postgres" || (target === `${name}/database` && what !== "delay")) &&
      from <= (ended ?? Infinity) &&
      to + options.recoveryMs >= started,
  );
}

const OUTAGE_MS = 60_000;
/** For so long after an outage a failure may still be its consequence, in ms. */
const AFTERMATH_MS = 15_000;

/** Whether a failed attempt can be seen to have a cause of its own, or what is wrong with it. */
function causeOf(
  history: History,
  attempt: AttemptRow,
  entries: readonly Entry[],
): { readonly caused: true } | { readonly caused: false; readonly says: string } {
  const caused = { caused: true } as const;
  const { failure, finishedAt } = attempt;
  const run = history.runs.get(attempt.runId);
  const step = stepOf(history, attempt);
  if (failure?.code === "TIMEOUT" && finishedAt !== null && finishedAt >= attempt.deadlineAt - EARLY_MS) {
    const last = entries.at(-1);
    const wasDone =
      last !== undefined &&
      last.how === "done" &&
      (last.left ?? Infinity) < attempt.deadlineAt - TOLERANCE_MS &&
      !isFollowedByPower(history, last);
    return wasDone ? { caused: false, says: "it was done in time, and its result was lost" } : caused;
  }
  // A deadline that fires too early is told with the deadlines, or with the clocks.
  if (failure?.code === "STOP_TIMEOUT" || isEarly(attempt)) return caused;
  if (failure?.code === "INTERRUPTED") {
    const last = entries.at(-1);
    if (!last) return { caused: false, says: "it was interrupted and never entered" };
    if (last.idempotent) return { caused: false, says: "it may be entered again, and was not" };
    return befell(history, last, finishedAt ?? history.over) || last.how === "exit"
      ? caused
      : { caused: false, says: "nothing had befallen the process that was inside" };
  }
  const last = entries.findLast(({ part }) => part !== "abort");
  if (last?.how && SAID.has(last.how) && last.detail !== null && failure?.message.includes(last.detail) !== true)
    return { caused: false, says: `its machine had reported "${last.detail}"` };
  if (entries.some(({ how }) => GIVEN.has(how))) return caused;
  // A call for power may fail, in a step of a driver as well as in the engine's own.
  const calls = (history.powersAt.get(run?.nodeName ?? "") ?? []).filter(
    ({ t }) => t >= attempt.startedAt - TOLERANCE_MS && t <= (finishedAt ?? Infinity) + TOLERANCE_MS,
  );
  if (calls.some((call) => call.failure !== null)) return caused;
  if (!isDrivers(step) && failure?.code !== "INTERRUPTED" && calls.length === 0)
    return { caused: false, says: "no machine was asked anything" };
  return { caused: false, says: "no machine gave it a reason" };
}

/** A step that was told to set the power goes on after the machine has said that it is done. */
function isFollowedByPower(history: History, entry: Entry): boolean {
  return (history.powersAt.get(entry.node) ?? []).some(
    ({ pid, t }) => pid === entry.pid && t >= (entry.left ?? Infinity),
  );
}

/** Whether the process inside an entry was killed, told to go, frozen, cut off, or ended, before that moment. */
function befell(history: History, entry: Entry, until: number): boolean {
  const life = history.lives.find(({ name, pid }) => name === entry.replica && pid === entry.pid);
  if ([life?.killed, life?.told, life?.ended].some((t) => t != null && t <= until)) return true;
  return history.blows.some(({ what, target, from, to }) => {
    const meant =
      what === "postgres-restart" ||
      what === "backends" ||
      what === "disk-full" ||
      (what === "freeze" && target === entry.replica) ||
      target === `${entry.replica}/database`;
    return meant && from <= until && to + AFTERMATH_MS >= entry.t;
  });
}

/** A run that failed has a failed attempt to blame, or an abort that went wrong, or a stop that took too long. */
function judgeRuns(history: History, database: Findings, drivers: Findings): void {
  for (const run of history.runs.values()) {
    if (run.state !== "FAILED") continue;
    const { failure } = run;
    const findings =
      OF_THE_DATABASE.test(failure?.message ?? "") && !isSaidByMachine(history, run.id, failure) ? database : drivers;
    if (failure === null)
      drivers.violation("other", `Run ${run.id} on node ${run.nodeName} failed, and does not say why.`, run);
    else if (failure.code === "STOP_TIMEOUT" || run.wish === "ABORT") continue;
    else if (!(history.attemptsOf.get(run.id) ?? []).some(({ state }) => state === "FAILED"))
      findings.violation(
        "other",
        `Run ${run.id} on node ${run.nodeName} failed with ${failure.code} (${failure.message}), and no attempt of it did.`,
        run,
      );
  }
  for (const operation of history.operations.values()) {
    const { firstFailure } = operation;
    if (firstFailure && OF_THE_DATABASE.test(firstFailure.message) && !/machine|BMC/i.test(firstFailure.message))
      database.violation("other", `Operation ${operation.id} failed first with: ${firstFailure.message}`, operation);
  }
}

function isSaidByMachine(history: History, runId: string, failure: FailureRow | null): boolean {
  return (history.entriesOf.get(runId) ?? []).some(
    ({ detail }) => detail !== null && detail !== "" && failure?.message.includes(detail) === true,
  );
}

/**
 * P15: clocks that jump change no lease and end no step before its time. The facts are the jumps under which a process was
 * inside a step. An attempt that failed with TIMEOUT, at a time when some clock was wrong, did so at its deadline and not before, by the
 * database's clock; whether it was ever entered does not matter (a process whose clock is ahead may find the time over at once). That no lease was lost is P5's: a jump is no excuse there for
 * entering a run that a caller is inside; what P5 finds while a clock was wrong, and nothing else, is told here again.
 */
export function checkClocks(history: History, robberies: readonly Robbery[]): Findings {
  const findings = new Findings("P15", "clock jumps change no lease and no deadline");
  const jumps = history.blows.filter(({ what }) => what === "clock");
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
    findings.fact("time-outs under a wrong clock");
    if (isEarly(attempt)) findings.violation("other", earlySays(attempt), attempt, ...entries.map(shown));
  }
  for (const { wait, entry, dueAt } of timedWaits(history)) {
    if (!wasClockWrong(history, { startedAt: wait.t, finishedAt: entry.t })) continue;
    findings.fact("waits under a wrong clock");
    if (isTooSoon(entry, dueAt)) findings.violation("other", tooSoonSays(entry, dueAt), shown(wait), shown(entry));
  }
  for (const { says, inside, entry } of robberies) {
    if (touches(joined(jumps), entry.t - history.options.leaseMs, entry.t))
      findings.violation("doubled", says, shown(inside), shown(entry));
  }
  return findings;
}

/** The engine's own word for a step over its time; a driver may fail with the same code. */
function isEnginesTimeout({ failure }: AttemptRow): boolean {
  return failure?.code === "TIMEOUT" && /did not end within/.test(failure.message);
}

function isEarly(attempt: AttemptRow): boolean {
  return isEnginesTimeout(attempt) && attempt.finishedAt !== null && attempt.finishedAt < attempt.deadlineAt - EARLY_MS;
}

function earlySays({ key, label, deadlineAt, finishedAt }: AttemptRow): string {
  return `Attempt ${key} (${label}) failed with TIMEOUT ${Math.round((deadlineAt - (finishedAt ?? 0)) / 1000)} s before its deadline.`;
}

/** Whether some replica's clock was wrong while the attempt lasted, or just before: which of them had it in progress unknown for sure. */
function wasClockWrong(
  history: History,
  { startedAt, finishedAt }: Pick<AttemptRow, "startedAt" | "finishedAt">,
): boolean {
  return history.blows.some(
    ({ what, from, to }) => what === "clock" && from <= (finishedAt ?? history.over) && to + TOLERANCE_MS >= startedAt,
  );
}
