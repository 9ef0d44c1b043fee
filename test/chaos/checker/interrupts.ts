/**
 * Aborts and stops: P13 and P14. An accepted interrupt binds from its answer on; one that was not
 * answered may have been recorded or not, and counts as a reason wherever a reason is looked for, never as an obligation.
 */
import { AT_REST } from "../../durability/rules.ts";
import { SEEN_MS, judgeAdmission, operationOf } from "./admission.ts";
import type { Asked, History, OperationRow, RunRow, Answered } from "./history.ts";
import { TOLERANCE_MS, answerOf, shown } from "./history.ts";
import { Findings } from "./verdict.ts";

interface AcceptedInterrupt {
  readonly asked: Asked;
  readonly answer: Answered;
  readonly run: RunRow;
  readonly effect: "BEFORE_START" | "NOW" | "PENDING" | null;
}

/** Interrupts of one kind that were accepted, run by run. */
function accepted(history: History, verb: "abort" | "stop"): AcceptedInterrupt[] {
  return history.asked.flatMap((asked) => {
    const answer = asked.request.verb === verb ? answerOf(asked) : null;
    if (!answer || answer.refusals.length > 0) return [];
    return answer.results.flatMap(({ accepted: yes, runId, effect }) => {
      const run = yes && runId !== null ? history.runs.get(runId) : undefined;
      return run ? [{ asked, answer, run, effect }] : [];
    });
  });
}

/** Requests of a verb that may have been carried out on a run, which they name by its operation or by its node: those that were not answered, and those whose answer says so. */
function requestsAbout(history: History, verb: string): (run: RunRow) => readonly Asked[] {
  const all = history.asked.filter(({ request }) => request.verb === verb);
  const named = Map.groupBy(
    all.flatMap((asked) => {
      const operation = operationOf(asked.request.input);
      return operation !== null
        ? [{ about: operation, asked }]
        : asked.request.nodes.map((about) => ({ about, asked }));
    }),
    ({ about }) => about,
  );
  return (run) =>
    [run.operationId, run.nodeName]
      .flatMap((about) => (named.get(about) ?? []).map(({ asked }) => asked))
      .filter((asked) => answerOf(asked)?.results.some((result) => result.accepted && isMeant(result, run)) ?? true);
}

/** An answer that could not read the run has the node alone. */
function isMeant({ runId, node }: Answered["results"][number], { id, nodeName }: RunRow): boolean {
  return runId === null ? node === nodeName : runId === id;
}

/**
 * P13. Once a client has the answer that its abort was accepted, no new step of that run is entered: none with another attempt
 * than the one under way. A step that may not be cut is let end, with its waits and take-overs, so its own re-entries are
 * right; so is the undoing. An entry that its process had stored before the abort was recorded, and made late (it was
 * frozen in between), is not new: the attempt's row says when it began, and only those that began after the answer count, or, where
 * that is too near to tell, those entered well after it by a process that nothing had befallen. An abort that a caller may have taken
 * back binds until then.
 */
export function checkNoNewStep(history: History): Findings {
  const findings = new Findings("P13", "after an abort is accepted no new step starts");
  const withdrawals = requestsAbout(history, "withdrawAbort");
  for (const { asked, answer, run, effect } of accepted(history, "abort")) {
    findings.fact(`aborts accepted: ${effect ?? "without effect"}`);
    const freed = Math.min(
      Infinity,
      ...withdrawals(run)
        .filter(({ request }) => request.t > asked.request.t)
        .map(({ request }) => request.t),
    );
    const entries = history.entriesOf.get(run.id) ?? [];
    const underWay = entries.findLast(({ t, part }) => t <= answer.t && part !== "abort");
    for (const entry of entries) {
      if (
        entry.t <= answer.t ||
        entry.t >= freed ||
        entry.part === "abort" ||
        entry.attemptKey === underWay?.attemptKey
      )
        continue;
      const attempt = history.attempts.get(entry.attemptKey);
      const isNew = attempt === undefined || attempt.startedAt > answer.t + TOLERANCE_MS;
      // Begun about when the answer was given: its process may have been slow to get to the machine.
      if (
        isNew ||
        (entry.t > answer.t + SLOW_ENTRY_MS &&
          attempt.startedAt > asked.request.t &&
          !isFrozen(history, entry.replica, attempt.startedAt, entry.t))
      ) {
        findings.violation(
          "illegal",
          `${entry.step} was entered on ${entry.node} ${Math.round(entry.t - answer.t)} ms after the abort of its run was accepted.`,
          asked.request,
          answer,
          underWay && shown(underWay),
          shown(entry),
          attempt,
        );
      }
    }
    if (effect === "BEFORE_START" && freed === Infinity && entries.length > 0)
      findings.violation(
        "illegal",
        `The abort on ${run.nodeName} was to come before its start, and steps of the run were entered.`,
        asked.request,
        answer,
        ...entries.slice(0, 3).map(shown),
      );
  }
  return findings;
}

const SLOW_ENTRY_MS = 3_000;

function isFrozen(history: History, replica: string, from: number, to: number): boolean {
  return history.blows.some(
    ({ what, target, from: begin, to: end }) => what === "freeze" && target === replica && begin <= to && end >= from,
  );
}

const ENDINGS = new Set(["abort", "fail", "stop"]);
const ASIDES = new Set(["recover", "abort_pending", "abort_withdrawn"]);

/**
 * P14. A run ends once: in its transitions at most one of abort, fail and stop, the last that moves the node, and it fits the final
 * state; a success ends at the run's target. The answers agree with it. An accepted abort is in the run's row, and ends in ABORTED; or
 * in FAILED, where the step would not be cut, was lost with its process, or a stop had run out of time before. A run is ABORTED or
 * STOPPED only if a caller may have asked for it before it ended, and was not refused; or because another run of the operation failed,
 * where the policy is to clean up all. The operation ends after the last of its runs, and as they did.
 * What the other requests on the same nodes were answered is admission.ts's.
 */
export function checkOneEnd(history: History): Findings {
  const findings = new Findings("P14", "abort, stop and finish race to one end, and answers agree");
  const aborts = requestsAbout(history, "abort");
  const stops = requestsAbout(history, "stop");
  const withdrawals = requestsAbout(history, "withdrawAbort");
  const runsOf = Map.groupBy(history.runs.values(), ({ operationId }) => operationId);
  for (const run of history.runs.values()) {
    judgeEnding(history, findings, run);
    const before = (asked: readonly Asked[]) =>
      asked.some(({ request }) => request.t <= (run.finishedAt ?? history.over) + TOLERANCE_MS);
    if (run.state === "ABORTED" && !before(aborts(run)))
      findings.violation(
        "illegal",
        `Run ${run.id} on node ${run.nodeName} is ABORTED, and no request asked for it.`,
        run,
      );
    if (run.state === "STOPPED" && !before(stops(run))) {
      const operation = history.operations.get(run.operationId);
      const byPolicy =
        operation?.onFailure === "CLEAN_UP_ALL" &&
        (runsOf.get(operation.id) ?? []).some(({ state }) => state === "FAILED");
      if (!byPolicy)
        findings.violation(
          "illegal",
          `Run ${run.id} on node ${run.nodeName} is STOPPED, and no request asked for it.`,
          run,
          operation,
        );
    }
  }
  for (const operation of history.operations.values())
    judgeOutcome(operation, runsOf.get(operation.id) ?? [], findings);
  for (const { asked, answer, run } of accepted(history, "abort")) {
    findings.fact("accepted aborts held against the end");
    if (run.finishedAt === null) continue;
    const mayBeFreed = withdrawals(run).some(
      ({ request }) => request.t > asked.request.t && request.t < (run.finishedAt ?? 0) + TOLERANCE_MS,
    );
    if (mayBeFreed) continue;
    if (run.wish !== "ABORT")
      findings.violation(
        "lost",
        `The abort of run ${run.id} on node ${run.nodeName} was accepted, and the run has no such interrupt.`,
        asked.request,
        answer,
        run,
      );
    const isUncut = run.state === "FAILED" && UNCUT.has(run.failure?.code ?? "");
    if (run.state !== "ABORTED" && !isUncut)
      findings.violation(
        "illegal",
        `The abort of run ${run.id} on node ${run.nodeName} was accepted, and it ended ${run.state}${run.failure ? ` with ${run.failure.code}` : ""}.`,
        asked.request,
        answer,
        run,
      );
  }
  for (const { asked, answer, run } of accepted(history, "stop")) {
    findings.fact("accepted stops held against the end");
    const attempts = history.attemptsOf.get(run.id) ?? [];
    const begun = attempts.find(({ startedAt }) => startedAt > answer.t + TOLERANCE_MS);
    if (begun && run.purpose === "WORK")
      findings.violation(
        "illegal",
        `The stop of run ${run.id} on node ${run.nodeName} was accepted, and ${begun.label} was begun afterwards.`,
        asked.request,
        answer,
        begun,
      );
  }
  judgeAdmission(history, findings);
  return findings;
}

/** Why a run that was to be aborted may have failed: a stop's time was over before, the step did not heed its signal, or its process died in a step that must not be cut. */
const UNCUT = new Set(["STOP_TIMEOUT", "TIMEOUT", "INTERRUPTED"]);

/** How the runs that do an operation's work have to have ended for each of its final states. */
const OUTCOMES: Readonly<Record<string, (ended: (state: string) => number, all: number) => boolean>> = {
  SUCCEEDED: (ended, all) => ended("SUCCEEDED") === all,
  SUCCEEDED_WITH_ERRORS: (ended, all) => ended("SUCCEEDED") === all,
  PARTIALLY_SUCCEEDED: (ended, all) => ended("SUCCEEDED") > 0 && ended("SUCCEEDED") < all,
  FAILED: (ended) => ended("FAILED") > 0,
  ABORTED: (ended) => ended("ABORTED") > 0,
  STOPPED: (ended) => ended("STOPPED") > 0,
};

function judgeOutcome(operation: OperationRow, runs: readonly RunRow[], findings: Findings): void {
  const { id, kind, state, finishedAt } = operation;
  if (finishedAt === null) return;
  findings.fact("ends of operations");
  const work = runs.filter(({ purpose }) => purpose === "WORK");
  const ended = (wanted: string) => work.filter((run) => run.state === wanted).length;
  if (OUTCOMES[state]?.(ended, work.length) !== true)
    findings.violation(
      "illegal",
      `Operation ${id} (${kind}) is ${state}, and its runs are ${[...new Set(work.map((run) => run.state))].join(", ") || "none"}.`,
      operation,
      ...work,
    );
  // Two that end together are in one order by their rows and perhaps in the other by their locks.
  const later = runs.find((run) => (run.finishedAt ?? Infinity) > finishedAt + SEEN_MS);
  if (later)
    findings.violation(
      "illegal",
      `Operation ${id} (${kind}) ended ${state} before its run on node ${later.nodeName} had.`,
      operation,
      later,
    );
}

function judgeEnding(history: History, findings: Findings, run: RunRow): void {
  if (run.finishedAt === null) return;
  findings.fact("ends of runs");
  const moves = (history.transitionsOf.get(run.id) ?? []).filter(({ event }) => !ASIDES.has(event));
  const endings = moves.filter(({ event }) => ENDINGS.has(event));
  const last = moves.at(-1);
  const [ending] = endings;
  if (endings.length > 1)
    findings.violation(
      "doubled",
      `Run ${run.id} on node ${run.nodeName} ended ${endings.length} times: ${endings.map(({ event }) => event).join(", ")}.`,
      run,
      ...endings,
    );
  if (ending && last && ending !== last)
    findings.violation(
      "illegal",
      `Run ${run.id} on node ${run.nodeName} went on with "${last.event}" after "${ending.event}".`,
      run,
      ending,
      last,
    );
  const fits: Readonly<Record<string, readonly (string | undefined)[]>> = {
    SUCCEEDED: [undefined],
    ABORTED: ["abort"],
    STOPPED: ["stop"],
    FAILED: ["fail", "abort"],
  };
  const isUntouched = moves.length === 0 && run.state !== "SUCCEEDED";
  if (!isUntouched && !fits[run.state]?.includes(ending?.event))
    findings.violation(
      "illegal",
      `Run ${run.id} on node ${run.nodeName} is ${run.state}, and its end in the log is "${ending?.event}".`,
      run,
      ending,
    );
  if (run.state === "SUCCEEDED" && last && last.to !== run.target)
    findings.violation(
      "illegal",
      `Run ${run.id} succeeded and left node ${run.nodeName} ${last.to}; its target was ${run.target}.`,
      run,
      last,
    );
  if (run.state === "SUCCEEDED" && !last && run.movesState)
    findings.violation(
      "lost",
      `Run ${run.id} succeeded, its target was ${run.target}, and it never moved node ${run.nodeName}.`,
      run,
    );
  if (last && !AT_REST.has(last.to ?? ""))
    findings.violation("stuck", `Run ${run.id} ended and left node ${run.nodeName} ${last.to}.`, run, last);
}
