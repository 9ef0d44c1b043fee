/**
 * Compares the answers to requests on nodes with the state at that time. Each node is a register that requests read and
 * write: an answer must be right at some moment between the request and the answer. It is wrong only if it contradicts
 * something that certainly held during all of that time; two concurrent requests may be answered in either order.
 *
 * A run certainly exists from its first sign (the answer that names it, an entry, a transition) to its `finished_at`,
 * which is never later than the moment at which others see its end. It may exist from its `created_at`, and for some
 * time after its end. A node may be seen in every state that its transitions show between some time before the request
 * and the answer, and under every condition (conditions.ts) that its changes show for that time.
 */
import { KINDS, KIND_OF, phasesOf } from "../../durability/expectations.ts";
import type { Options } from "../../durability/expectations.ts";
import { AT_REST } from "../../durability/rules.ts";
import type { Refusal } from "../records.ts";
import { SEEN_MS, certainlyRefused, conditionsDuring, mayBeRefused } from "./conditions.ts";
import { TOLERANCE_MS, answerOf, keyOf } from "./history.ts";
import type { Exchange, History, RunRow, TransitionRow } from "./history.ts";
import type { Findings } from "./findings.ts";
import { overlap } from "./intervals.ts";

export function checkAdmission(history: History, findings: Findings): void {
  const named = new Map<string, number>();
  const moves = Map.groupBy(history.transitions, ({ nodeName }) => nodeName);
  for (const exchange of history.exchange) {
    for (const { runId } of answerOf(exchange)?.results ?? [])
      if (runId !== null) named.set(runId, Math.min(named.get(runId) ?? Infinity, exchange.answer?.t ?? Infinity));
  }
  const surelyFrom = (run: RunRow) =>
    Math.min(
      named.get(run.id) ?? Infinity,
      history.entriesOf.get(run.id)?.[0]?.t ?? Infinity,
      (history.transitionsOf.get(run.id)?.[0]?.t ?? Infinity) + SEEN_MS,
    );
  for (const exchange of history.exchange) {
    for (const { node, refusal, accepted, runId } of answerOf(exchange)?.results ?? []) {
      if (accepted && runId !== null) {
        checkAccepted(history, findings, exchange, runId);
        checkAllowed(history, findings, exchange, runId);
      }
      if (refusal?.code === "NOTHING_RUNNING") checkNothingRunning(history, findings, exchange, node, surelyFrom);
      if (refusal?.code === "BUSY") checkBusy(history, findings, exchange, node);
      if (refusal && CONDITIONAL.has(refusal.code))
        checkCondition(history, findings, exchange, { node, refusal, moves: moves.get(node) ?? [] });
    }
  }
  checkOneRunAtATime(history, findings, named);
}

/**
 * For withdrawAbort this code means that no abort is pending, whatever runs; for stop it may mean that only a clean-up
 * runs.
 */
function checkNothingRunning(
  history: History,
  findings: Findings,
  { request, answer }: Exchange,
  node: string,
  surelyFrom: (run: RunRow) => number,
): void {
  if (request.verb === "withdrawAbort") return;
  findings.fact("answers NOTHING_RUNNING");
  const of = operationOf(request.input);
  const unfinished = (history.runsAt.get(node) ?? []).find(
    (run) =>
      (of === null || run.operationId === of) &&
      surelyFrom(run) < request.t &&
      (run.finishedAt ?? Infinity) > (answer?.t ?? 0) + TOLERANCE_MS,
  );
  if (unfinished && !(request.verb === "stop" && unfinished.purpose === "CLEAN_UP"))
    findings.violation(
      "other",
      `The answer says that nothing runs on node ${node}, but run ${unfinished.id} was unfinished all the time.`,
      request,
      answer,
      unfinished,
    );
}

/** Operation that the request names as a whole; null if it names nodes. */
export function operationOf(input: unknown): string | null {
  const id = (input as { readonly work?: { readonly operationId?: unknown } } | null)?.work?.operationId;
  return typeof id === "string" ? keyOf(id) : null;
}

function checkBusy(history: History, findings: Findings, { request, answer }: Exchange, node: string): void {
  findings.fact("answers BUSY");
  const until = answer?.t ?? history.over;
  const possible = (history.runsAt.get(node) ?? []).some((run) => {
    const lastSeen = (run.finishedAt ?? Infinity) + SEEN_MS;
    return (
      run.createdAt <= until + TOLERANCE_MS &&
      (lastSeen >= request.t || lastSeen + overlap(history.databaseDown, lastSeen - SEEN_MS, request.t) >= request.t)
    );
  });
  if (!possible)
    findings.violation("other", `The answer says that node ${node} is busy, but it had no run.`, request, answer);
}

/** Codes of refusals for the state or a condition of a node. */
const CONDITIONAL: ReadonlySet<string> = new Set(["INVALID_STATE", "IN_MAINTENANCE", "PROTECTED"]);

/**
 * A refusal for a state or a condition requires, between the request and the answer, a state that does not allow the
 * verb, or the condition.
 */
function checkCondition(
  history: History,
  findings: Findings,
  { request, answer }: Exchange,
  {
    node,
    refusal,
    moves,
  }: { readonly node: string; readonly refusal: Refusal; readonly moves: readonly TransitionRow[] },
): void {
  const kind = KIND_OF[request.verb] ?? null;
  if (kind === null && request.verb !== "restart") return;
  findings.fact(`answers ${refusal.code}`);
  const begin = Math.max(
    0,
    moves.findLastIndex(({ t }) => t < request.t - SEEN_MS),
  );
  const to = answer?.t ?? 0;
  const seen = moves.slice(begin).filter(({ t }) => t <= to + TOLERANCE_MS);
  const states = seen.map(({ to: state }) => state ?? "");
  const conditions = conditionsDuring(history, node, { from: request.t, to });
  const mayHaveSystem = (history.runsAt.get(node) ?? []).some(({ id }) =>
    history.attemptsOf
      .get(id)
      ?.some(
        ({ label, state, startedAt }) =>
          label?.startsWith("deploy.") === true && state === "SUCCEEDED" && startedAt <= to + TOLERANCE_MS,
      ),
  );
  const asked = { kind, options: optionsOf(request.input) };
  if (!mayBeRefused(refusal, asked, { states, conditions, mayHaveSystem }))
    findings.violation(
      "other",
      refusal.code === "INVALID_STATE"
        ? `${request.verb} on node ${node} was refused for its state, but is allowed in every state that the node had: ${states.join(", ")}.`
        : `${request.verb} on node ${node} was refused with ${refusal.code}, but the node was not so at any moment.`,
      request,
      answer,
      ...conditions,
      ...seen,
    );
}

/** New work is not accepted on a node that certainly had a condition that refuses it. */
function checkAllowed(history: History, findings: Findings, { request, answer }: Exchange, runId: string): void {
  const run = history.runs.get(runId);
  const operation = run && history.operations.get(run.operationId);
  const isWork = KIND_OF[request.verb] !== undefined || request.verb === "restart";
  if (!run || !isWork || answer?.ok !== true || answer.replayed !== false) return;
  findings.fact("accepted runs compared with the conditions of the node");
  const kind = KIND_OF[request.verb] ?? KINDS.find((one) => one === operation?.kind) ?? null;
  const conditions = conditionsDuring(history, run.nodeName, { from: request.t, to: answer.t });
  const why = certainlyRefused({ kind, options: optionsOf(request.input) }, conditions);
  if (why !== null)
    findings.violation(
      "illegal",
      `${request.verb} was accepted on node ${run.nodeName}, which was ${why} all the time.`,
      request,
      answer,
      ...conditions,
    );
}

/** The options of a request that decide its admission. Verbs ignore those that they do not have. */
function optionsOf(input: unknown): Options {
  const { until, from, reinstall, force } = (input ?? {}) as Pick<Options, "until" | "from" | "reinstall" | "force">;
  return {
    ...(until !== undefined && { until }),
    ...(from !== undefined && { from }),
    ...(reinstall !== undefined && { reinstall }),
    ...(force !== undefined && { force }),
  };
}

/**
 * An accepted run began in a state at rest that allows its verb: no other request can have moved the node in between.
 */
function checkAccepted(history: History, findings: Findings, { request, answer }: Exchange, runId: string): void {
  const kind = KIND_OF[request.verb];
  const first = history.transitionsOf.get(runId)?.[0];
  if (kind === undefined || !first?.from) return;
  findings.fact("first transitions of accepted runs");
  if (!AT_REST.has(first.from) || phasesOf(kind, first.from, optionsOf(request.input)) === null)
    findings.violation(
      "illegal",
      `${request.verb} on node ${first.nodeName} was accepted and began in ${first.from}.`,
      request,
      answer,
      first,
    );
}

/**
 * Runs on a node follow each other. If one run certainly existed before another was requested, and ended after the
 * other's answer, the second was accepted on a busy node.
 */
function checkOneRunAtATime(history: History, findings: Findings, named: ReadonlyMap<string, number>): void {
  const requestOf = new Map<string, Exchange>();
  for (const exchange of history.exchange) {
    if (KIND_OF[exchange.request.verb] === undefined && exchange.request.verb !== "restart") continue;
    for (const { accepted, runId } of answerOf(exchange)?.results ?? [])
      if (accepted && runId !== null && !requestOf.has(runId)) requestOf.set(runId, exchange);
  }
  for (const [runId, exchange] of requestOf) {
    const run = history.runs.get(runId);
    const answer = answerOf(exchange);
    if (!run || answer?.replayed !== false) continue;
    findings.fact("accepted runs compared with other runs on the node");
    const concurrent = (history.runsAt.get(run.nodeName) ?? []).find(
      (one) =>
        one !== run &&
        (named.get(one.id) ?? Infinity) < exchange.request.t &&
        (one.finishedAt ?? Infinity) > answer.t + TOLERANCE_MS,
    );
    if (concurrent)
      findings.violation(
        "illegal",
        `Run ${runId} was accepted on node ${run.nodeName} while run ${concurrent.id} was unfinished.`,
        exchange.request,
        answer,
        concurrent,
        run,
      );
  }
}
