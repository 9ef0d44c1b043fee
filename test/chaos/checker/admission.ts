/**
 * What requests on nodes were answered, against what was so at the time: each node is a register that requests read and write, and an
 * answer has to be right at some moment between the request and the answer, whichever. So an answer is wrong only against what
 * was surely so all the while, and two requests at the same time may be answered in either order.
 *
 * A run is surely there from the first sign of it (the answer that named it, an entry, a transition) to its `finished_at`, which is
 * never later than the moment others see it finished; it may be there from its `created_at`, and some time after its end. A
 * node may be seen in every state that it had from some time before the request, as its transitions have it, to the answer.
 */
import { phasesOf } from "../../durability/expectations.ts";
import type { Kind, Options } from "../../durability/expectations.ts";
import { AT_REST } from "../../durability/rules.ts";
import { TOLERANCE_MS, answerOf, keyOf } from "./history.ts";
import type { Asked, History, RunRow, TransitionRow } from "./history.ts";
import type { Findings } from "./verdict.ts";
import { overlap } from "./intervals.ts";

/** What a transition's time may be before others see it, and a run's end before it is out of the way, in ms: a transaction that takes its time. */
export const SEEN_MS = 10_000;

/** The kind of operation that a verb starts; a restart starts one of the kind that it goes on with. */
export const KINDS: Readonly<Record<string, Kind>> = {
  manageNodes: "MANAGE",
  inspectNodes: "INSPECT",
  cleanNodes: "CLEAN",
  commissionNodes: "COMMISSION",
  deployNodes: "DEPLOY",
  undeployNodes: "UNDEPLOY",
  updateNodes: "UPDATE",
  decommissionNodes: "DECOMMISSION",
  setPower: "POWER",
};

export function judgeAdmission(history: History, findings: Findings): void {
  const named = new Map<string, number>();
  const moves = Map.groupBy(history.transitions, ({ nodeName }) => nodeName);
  for (const asked of history.asked) {
    for (const { runId } of answerOf(asked)?.results ?? [])
      if (runId !== null) named.set(runId, Math.min(named.get(runId) ?? Infinity, asked.answer?.t ?? Infinity));
  }
  const surelyFrom = (run: RunRow) =>
    Math.min(
      named.get(run.id) ?? Infinity,
      history.entriesOf.get(run.id)?.[0]?.t ?? Infinity,
      (history.transitionsOf.get(run.id)?.[0]?.t ?? Infinity) + SEEN_MS,
    );
  for (const asked of history.asked) {
    for (const { node, refusal, accepted, runId } of answerOf(asked)?.results ?? []) {
      if (accepted && runId !== null) judgeAccepted(history, findings, asked, runId);
      if (refusal?.code === "NOTHING_RUNNING") judgeNothingRunning(history, findings, asked, node, surelyFrom);
      if (refusal?.code === "BUSY") judgeBusy(history, findings, asked, node);
      if (refusal?.code === "INVALID_STATE") judgeState(findings, asked, node, moves.get(node) ?? []);
    }
  }
  judgeTurns(history, findings, named);
}

/** Who takes an abort back is told by this code that none is pending, whatever runs; who stops, that there is only a clean-up. */
function judgeNothingRunning(
  history: History,
  findings: Findings,
  { request, answer }: Asked,
  node: string,
  surelyFrom: (run: RunRow) => number,
): void {
  if (request.verb === "withdrawAbort") return;
  findings.fact("answers NOTHING_RUNNING");
  const of = operationOf(request.input);
  const there = (history.runsAt.get(node) ?? []).find(
    (run) =>
      (of === null || run.operationId === of) &&
      surelyFrom(run) < request.t &&
      (run.finishedAt ?? Infinity) > (answer?.t ?? 0) + TOLERANCE_MS,
  );
  if (there && !(request.verb === "stop" && there.purpose === "CLEAN_UP"))
    findings.violation(
      "other",
      `Node ${node} was reported to have nothing running, and run ${there.id} was there all the while.`,
      request,
      answer,
      there,
    );
}

/** The operation whose work is meant, all of it; null: whatever runs on some nodes. */
export function operationOf(input: unknown): string | null {
  const id = (input as { readonly work?: { readonly operationId?: unknown } } | null)?.work?.operationId;
  return typeof id === "string" ? keyOf(id) : null;
}

function judgeBusy(history: History, findings: Findings, { request, answer }: Asked, node: string): void {
  findings.fact("answers BUSY");
  const until = answer?.t ?? history.over;
  const possible = (history.runsAt.get(node) ?? []).some((run) => {
    const gone = (run.finishedAt ?? Infinity) + SEEN_MS;
    return (
      run.createdAt <= until + TOLERANCE_MS &&
      (gone >= request.t || gone + overlap(history.away, gone - SEEN_MS, request.t) >= request.t)
    );
  });
  if (!possible)
    findings.violation("other", `Node ${node} was reported as busy, and no run was there.`, request, answer);
}

/** A refusal for its state needs a state, between the request and its answer, from which the verb is not allowed. */
function judgeState(
  findings: Findings,
  { request, answer }: Asked,
  node: string,
  moves: readonly TransitionRow[],
): void {
  const kind = KINDS[request.verb];
  // A node that has disappeared is refused by the same code.
  if (kind === undefined || kind === "DECOMMISSION") return;
  findings.fact("answers INVALID_STATE");
  const begin = Math.max(
    0,
    moves.findLastIndex(({ t }) => t < request.t - SEEN_MS),
  );
  const states = moves
    .slice(begin)
    .filter(({ t }) => t <= (answer?.t ?? 0) + TOLERANCE_MS)
    .map(({ to }) => to ?? "");
  const refusing = states.some(
    (state) => !AT_REST.has(state) || phasesOf(kind, state, optionsOf(request.input)) === null,
  );
  if (!refusing)
    findings.violation(
      "other",
      `${request.verb} on node ${node} was refused for its state, and was allowed in all that it had: ${states.join(", ")}.`,
      request,
      answer,
      ...moves.slice(begin, begin + states.length),
    );
}

function optionsOf(input: unknown): Options {
  const { until } = (input ?? {}) as { readonly until?: Options["until"] };
  return until === undefined ? {} : { until };
}

/** What was accepted was begun from a state at rest that allows it: no other caller can have moved the node in between. */
function judgeAccepted(history: History, findings: Findings, { request, answer }: Asked, runId: string): void {
  const kind = KINDS[request.verb];
  const first = history.transitionsOf.get(runId)?.[0];
  if (kind === undefined || !first?.from) return;
  findings.fact("first transitions of accepted runs");
  if (!AT_REST.has(first.from) || phasesOf(kind, first.from, optionsOf(request.input)) === null)
    findings.violation(
      "illegal",
      `${request.verb} on node ${first.nodeName} was accepted, and begun from ${first.from}.`,
      request,
      answer,
      first,
    );
}

/**
 * Runs on a node follow each other: of two of which one was surely there before the other was asked for, and ended after that was
 * answered, one was accepted on a busy node.
 */
function judgeTurns(history: History, findings: Findings, named: ReadonlyMap<string, number>): void {
  const askedAt = new Map<string, Asked>();
  for (const asked of history.asked) {
    if (KINDS[asked.request.verb] === undefined && asked.request.verb !== "restart") continue;
    for (const { accepted, runId } of answerOf(asked)?.results ?? [])
      if (accepted && runId !== null && !askedAt.has(runId)) askedAt.set(runId, asked);
  }
  for (const [runId, asked] of askedAt) {
    const run = history.runs.get(runId);
    const answer = answerOf(asked);
    if (!run || answer?.replayed !== false) continue;
    findings.fact("accepted runs held against those beside them");
    const beside = (history.runsAt.get(run.nodeName) ?? []).find(
      (one) =>
        one !== run &&
        (named.get(one.id) ?? Infinity) < asked.request.t &&
        (one.finishedAt ?? Infinity) > answer.t + TOLERANCE_MS,
    );
    if (beside)
      findings.violation(
        "illegal",
        `Run ${runId} was accepted on node ${run.nodeName} while run ${beside.id} was there.`,
        asked.request,
        answer,
        beside,
        run,
      );
  }
}
