/**
 * Aborts and stops: P13 and P14. An accepted interrupt is binding from its answer on. One without an answer may have
 * been recorded or not: it may explain an effect, but never requires one.
 */
import { AT_REST } from "../../durability/rules.ts";
import { checkAdmission, operationOf } from "./admission.ts";
import { SEEN_MS } from "./conditions.ts";
import type { Answered, Entry, Exchange, History, OperationRow, RunRow } from "./history.ts";
import { TOLERANCE_MS, answerOf, shown } from "./history.ts";
import { Findings } from "./findings.ts";

interface AcceptedInterrupt {
  readonly exchange: Exchange;
  readonly answer: Answered;
  readonly run: RunRow;
  readonly effect: "BEFORE_START" | "NOW" | "PENDING" | null;
}

/** Accepted interrupts of one kind, by run. */
function accepted(history: History, verb: "abort" | "stop"): AcceptedInterrupt[] {
  return history.exchange.flatMap((exchange) => {
    const answer = exchange.request.verb === verb ? answerOf(exchange) : null;
    if (!answer || answer.refusals.length > 0) return [];
    return answer.results.flatMap(({ accepted: yes, runId, effect }) => {
      const run = yes && runId !== null ? history.runs.get(runId) : undefined;
      return run ? [{ exchange, answer, run, effect }] : [];
    });
  });
}

/**
 * Requests of a verb that may have been carried out on a run, which they name by its operation or by its node: those
 * without an answer, and those whose answer accepts the run.
 */
function requestsAbout(history: History, verb: string): (run: RunRow) => readonly Exchange[] {
  const all = history.exchange.filter(({ request }) => request.verb === verb);
  const named = Map.groupBy(
    all.flatMap((exchange) => {
      const operation = operationOf(exchange.request.input);
      return operation !== null
        ? [{ about: operation, exchange }]
        : exchange.request.nodes.map((about) => ({ about, exchange }));
    }),
    ({ about }) => about,
  );
  return (run) =>
    [run.operationId, run.nodeName]
      .flatMap((about) => (named.get(about) ?? []).map(({ exchange }) => exchange))
      .filter(
        (exchange) => answerOf(exchange)?.results.some((result) => result.accepted && isMeant(result, run)) ?? true,
      );
}

/** An answer without the run has only the node. */
function isMeant({ runId, node }: Answered["results"][number], { id, nodeName }: RunRow): boolean {
  return runId === null ? node === nodeName : runId === id;
}

/**
 * P13. After a client has received the acceptance of its abort, no new step of that run is entered, that is, no other
 * attempt than the current one. A step that must not be canceled runs to its end, with its waits and take-overs, so its
 * repeated entries are legitimate; so is `abort`. An entry that its process stored before the abort was recorded, and
 * made late (it was frozen in between), is not new. The attempt's row shows when it began: only attempts that began
 * after the answer count or, if that is too close to decide, those that a healthy process entered well after it. An
 * abort that may have been withdrawn is binding until then.
 */
export function checkNoNewStep(history: History): Findings {
  const findings = new Findings("P13", "after an abort is accepted no new step starts");
  const withdrawals = requestsAbout(history, "withdrawAbort");
  for (const { exchange, answer, run, effect } of accepted(history, "abort")) {
    findings.fact(`aborts accepted: ${effect ?? "without effect"}`);
    const withdrawnAt = Math.min(
      Infinity,
      ...withdrawals(run)
        .filter(({ request }) => request.t > exchange.request.t)
        .map(({ request }) => request.t),
    );
    const entries = history.entriesOf.get(run.id) ?? [];
    const underWay = entries.findLast(({ t, part }) => t <= answer.t && part !== "abort");
    for (const entry of entries) {
      if (
        entry.t <= answer.t ||
        entry.t >= withdrawnAt ||
        entry.part === "abort" ||
        entry.attemptKey === underWay?.attemptKey
      )
        continue;
      const attempt = history.attempts.get(entry.attemptKey);
      const isNew = attempt === undefined || attempt.startedAt > answer.t + TOLERANCE_MS;
      // It began close to the time of the answer: its process may have been slow to reach the machine.
      if (
        isNew ||
        (entry.t > answer.t + SLOW_ENTRY_MS &&
          attempt.startedAt > exchange.request.t &&
          !isFrozen(history, entry.replica, attempt.startedAt, entry.t))
      ) {
        findings.violation(
          "illegal",
          `${entry.step} was entered on ${entry.node} ${Math.round(entry.t - answer.t)} ms after the abort of its run was accepted.`,
          exchange.request,
          answer,
          underWay && shown(underWay),
          shown(entry),
          attempt,
        );
      }
    }
    if (effect === "BEFORE_START" && withdrawnAt === Infinity && entries.length > 0)
      findings.violation(
        "illegal",
        `The abort on ${run.nodeName} was accepted before the start, but steps of the run were entered.`,
        exchange.request,
        answer,
        ...entries.slice(0, 3).map(shown),
      );
  }
  return findings;
}

const SLOW_ENTRY_MS = 3_000;

function isFrozen(history: History, replica: string, from: number, to: number): boolean {
  return history.faults.some(
    ({ what, target, from: begin, to: end }) => what === "freeze" && target === replica && begin <= to && end >= from,
  );
}

const ENDINGS = new Set(["abort", "fail", "stop"]);
const SIDE_EVENTS = new Set(["recover", "abort_pending", "abort_withdrawn", "power_forced"]);

/**
 * P14. A run ends once: its transitions contain at most one of abort, fail and stop, as the last that moves the node,
 * and it fits the final state. A success ends in the run's target state. The answers agree with it. An accepted abort
 * is stored in the run's row and ends in ABORTED, or in FAILED if the step could not be canceled, was lost with its
 * process, or a stop had timed out before. A run is ABORTED or STOPPED only if it may have been requested before its
 * end and was not refused, or if another run of the operation failed and the policy is to clean up all; it is UNDONE
 * only if its node was cleaned up. The operation ends after its last run, and in a state that fits them. admission.ts
 * checks the answers to the other requests on the same nodes.
 */
export function checkOneEnd(history: History): Findings {
  const findings = new Findings("P14", "concurrent abort, stop and finish lead to one end, and answers agree");
  const aborts = requestsAbout(history, "abort");
  const stops = requestsAbout(history, "stop");
  const withdrawals = requestsAbout(history, "withdrawAbort");
  const runsOf = Map.groupBy(history.runs.values(), ({ operationId }) => operationId);
  for (const run of history.runs.values()) {
    checkEnding(history, findings, run);
    const before = (exchange: readonly Exchange[]) =>
      exchange.some(({ request }) => request.t <= (run.finishedAt ?? history.over) + TOLERANCE_MS);
    if (run.state === "ABORTED" && !before(aborts(run)))
      findings.violation(
        "illegal",
        `Run ${run.id} on node ${run.nodeName} is ABORTED, but no request asked for it.`,
        run,
      );
    const isCleanUp = ({ purpose, nodeId }: RunRow) => purpose === "CLEAN_UP" && nodeId === run.nodeId;
    if (run.state === "UNDONE" && !(runsOf.get(run.operationId) ?? []).some(isCleanUp))
      findings.violation("illegal", `Run ${run.id} on node ${run.nodeName} is UNDONE, but was not cleaned up.`, run);
    if (run.state === "STOPPED" && !before(stops(run))) {
      const operation = history.operations.get(run.operationId);
      const byPolicy =
        operation?.onFailure === "CLEAN_UP_ALL" &&
        (runsOf.get(operation.id) ?? []).some(({ state }) => state === "FAILED");
      if (!byPolicy)
        findings.violation(
          "illegal",
          `Run ${run.id} on node ${run.nodeName} is STOPPED, but no request asked for it.`,
          run,
          operation,
        );
    }
  }
  for (const operation of history.operations.values())
    checkOutcome(operation, runsOf.get(operation.id) ?? [], findings);
  for (const { exchange, answer, run } of accepted(history, "abort")) {
    findings.fact("accepted aborts compared with the end of the run");
    if (run.finishedAt === null) continue;
    const mayBeWithdrawn = withdrawals(run).some(
      ({ request }) => request.t > exchange.request.t && request.t < (run.finishedAt ?? 0) + TOLERANCE_MS,
    );
    if (mayBeWithdrawn) continue;
    if (run.interrupt !== "ABORT")
      findings.violation(
        "lost",
        `The abort of run ${run.id} on node ${run.nodeName} was accepted, but the run has no such interrupt.`,
        exchange.request,
        answer,
        run,
      );
    const wasNotCanceled = run.state === "FAILED" && NOT_CANCELED.has(run.failure?.code ?? "");
    if (run.state !== "ABORTED" && !wasNotCanceled && !hadFailed(history, run, answer.t))
      findings.violation(
        "illegal",
        `The abort of run ${run.id} on node ${run.nodeName} was accepted, but the run ended ${run.state}${run.failure ? ` with ${run.failure.code}` : ""}.`,
        exchange.request,
        answer,
        run,
      );
  }
  for (const { exchange, answer, run } of accepted(history, "stop")) {
    findings.fact("accepted stops compared with the end of the run");
    const attempts = history.attemptsOf.get(run.id) ?? [];
    const begun = attempts.find(({ startedAt }) => startedAt > answer.t + TOLERANCE_MS);
    if (begun && run.purpose === "WORK")
      findings.violation(
        "illegal",
        `The stop of run ${run.id} on node ${run.nodeName} was accepted, but ${begun.label} began afterwards.`,
        exchange.request,
        answer,
        begun,
      );
  }
  checkAdmission(history, findings);
  return findings;
}

/** Ends of an entry that fail its step, if no attempt follows. */
const FAILING = new Set<Entry["how"]>(["retry", "fail", "throw", "junk", "exit", "lost"]);

/** Whether the step had failed before the abort was accepted, and was being undone: then the run ends as failed. */
function hadFailed({ entriesOf }: History, { id, state, failure, undoneFailure }: RunRow, t: number): boolean {
  const last = (entriesOf.get(id) ?? []).findLast(({ part }) => part !== "abort");
  return (
    state === "FAILED" &&
    undoneFailure !== null &&
    undoneFailure.code === failure?.code &&
    last !== undefined &&
    last.how !== null &&
    FAILING.has(last.how) &&
    (last.left ?? Infinity) < t + TOLERANCE_MS
  );
}

/** Failures of a run with an accepted abort: a stop timed out before, or the step ignored its signal. */
const NOT_CANCELED = new Set(["STOP_TIMEOUT", "TIMEOUT"]);

/** Condition on the ends of an operation's work runs for each of its final states. */
const OUTCOMES: Readonly<Record<string, (ended: (state: string) => number, all: number) => boolean>> = {
  SUCCEEDED: (ended, all) => ended("SUCCEEDED") === all,
  SUCCEEDED_WITH_ERRORS: (ended, all) => ended("SUCCEEDED") === all,
  PARTIALLY_SUCCEEDED: (ended, all) => ended("SUCCEEDED") > 0 && ended("SUCCEEDED") < all,
  FAILED: (ended) => ended("FAILED") > 0,
  ABORTED: (ended) => ended("ABORTED") > 0,
  STOPPED: (ended) => ended("STOPPED") > 0,
};

function checkOutcome(operation: OperationRow, runs: readonly RunRow[], findings: Findings): void {
  const { id, kind, state, finishedAt } = operation;
  if (finishedAt === null) return;
  findings.fact("ends of operations");
  const work = runs.filter(({ purpose }) => purpose === "WORK");
  const ended = (wanted: string) => work.filter((run) => run.state === wanted).length;
  if (OUTCOMES[state]?.(ended, work.length) !== true)
    findings.violation(
      "illegal",
      `Operation ${id} (${kind}) is ${state}, but its runs are ${[...new Set(work.map((run) => run.state))].join(", ") || "none"}.`,
      operation,
      ...work,
    );
  // Two ends at the same time may have one order by their rows and another by their locks.
  const later = runs.find((run) => (run.finishedAt ?? Infinity) > finishedAt + SEEN_MS);
  if (later)
    findings.violation(
      "illegal",
      `Operation ${id} (${kind}) ended ${state} before its run on node ${later.nodeName}.`,
      operation,
      later,
    );
}

function checkEnding(history: History, findings: Findings, run: RunRow): void {
  if (run.finishedAt === null) return;
  findings.fact("ends of runs");
  const moves = (history.transitionsOf.get(run.id) ?? []).filter(({ event }) => !SIDE_EVENTS.has(event));
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
      `Run ${run.id} on node ${run.nodeName} continued with "${last.event}" after "${ending.event}".`,
      run,
      ending,
      last,
    );
  const fits: Readonly<Record<string, readonly (string | undefined)[]>> = {
    SUCCEEDED: [undefined],
    ABORTED: ["abort"],
    STOPPED: ["stop"],
    UNDONE: [undefined, "stop"],
    FAILED: ["fail", "abort"],
  };
  const isUntouched = moves.length === 0 && run.state !== "SUCCEEDED";
  if (!isUntouched && !fits[run.state]?.includes(ending?.event))
    findings.violation(
      "illegal",
      `Run ${run.id} on node ${run.nodeName} is ${run.state}, but its end in the log is "${ending?.event}".`,
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
      `Run ${run.id} succeeded with target ${run.target}, but never moved node ${run.nodeName}.`,
      run,
    );
  if (last && !AT_REST.has(last.to ?? ""))
    findings.violation("stuck", `Run ${run.id} ended and left node ${run.nodeName} ${last.to}.`, run, last);
}
