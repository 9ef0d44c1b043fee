/**
 * The log of transitions and what it folds to (P3, P4), at most one unfinished run a node (P5, by the log), and what must
 * hold when everything has ended. All of it is read from the database after the end, so nothing here depends on answers that
 * did not come: a request that took effect without being answered is in the log like any other.
 */
import { AT_REST, EDGES } from "../../durability/rules.ts";
import { Findings } from "./verdict.ts";
import type { History, RunRow, TransitionRow } from "./history.ts";

/**
 * P3: state and transition are written in one transaction, so the log folds to the table: positions 1..N without a hole,
 * (which is where the counter of positions stands), and node by node sequences 1..n whose last row says the state and whose number the node has counted. That positions follow
 * the order of commits is seen by the subscribers (P7): one who has been told position p would miss a row that comes in below it.
 */
export function checkFold(history: History): Findings {
  const findings = new Findings("P3", "folding the log gives the table");
  const { transitions, nodes } = history;
  findings.fact("transitions folded", transitions.length);
  findings.fact("nodes compared", nodes.size);
  const at = new Map<string, TransitionRow>();
  let previous: TransitionRow | undefined;
  for (const row of transitions) {
    const expected = (previous?.position ?? 0) + 1;
    if (row.position !== expected)
      findings.violation("lost", `The log goes from position ${expected - 1} to ${row.position}.`, previous, row);
    const before = at.get(row.nodeId);
    if (row.sequence !== (before?.sequence ?? 0) + 1)
      findings.violation(
        "lost",
        `Node ${row.nodeName} goes from its transition ${before?.sequence ?? 0} to ${row.sequence}.`,
        before,
        row,
      );
    if ((before?.to ?? null) !== row.from)
      findings.violation(
        "illegal",
        `Transition ${row.position} of node ${row.nodeName} leaves ${row.from}; the log had brought it to ${before?.to ?? "nothing"}.`,
        before,
        row,
      );
    at.set(row.nodeId, row);
    previous = row;
  }
  if (history.feedPosition !== null && history.feedPosition !== (previous?.position ?? 0)) {
    findings.violation(
      "lost",
      `The counter of positions is at ${history.feedPosition}, and the newest transition at ${previous?.position ?? 0}.`,
      { feedPosition: history.feedPosition },
      previous,
    );
  }
  for (const node of nodes.values()) {
    const last = at.get(node.id);
    if (last?.to !== node.state || last.sequence !== node.count)
      findings.violation(
        "lost",
        `The log brings node ${node.name} to ${last?.to} with ${last?.sequence ?? 0} transitions; the table says ${node.state} with ${node.count}.`,
        last,
        node,
      );
    at.delete(node.id);
  }
  for (const last of at.values())
    if (last.to !== null)
      findings.violation(
        "lost",
        `The log brings node ${last.nodeName} to ${last.to}, and there is no such node.`,
        last,
      );
  return findings;
}

/**
 * P4: every transition is an edge of the table of the design, taken by its event; the first of a node is its registration. The
 * table that the database refuses others by holds the same edges.
 */
export function checkEdges(history: History): Findings {
  const findings = new Findings("P4", "only legal transitions");
  const { edges } = history;
  if (edges.size > 0) {
    findings.fact("edges of the database compared", edges.size);
    for (const edge of edges)
      if (!EDGES.has(edge))
        findings.violation("illegal", `The database lets a node go "${edge}", and the design does not.`, { edge });
    for (const edge of EDGES)
      if (!edges.has(edge))
        findings.violation("other", `The database refuses "${edge}", which the design has.`, { edge });
  }
  for (const row of history.transitions) {
    findings.fact("transitions looked up");
    const { from, to, event } = row;
    if (row.sequence === 1 && event !== "register")
      findings.violation("illegal", `The first transition of node ${row.nodeName} is "${event}".`, row);
    if (
      from === null ? event !== "register" : to === null ? event !== "delete" : !EDGES.has(`${from} ${event} ${to}`)
    ) {
      findings.violation(
        "illegal",
        `Node ${row.nodeName} went from ${from} to ${to} by "${event}": there is no such edge.`,
        row,
      );
    }
  }
  return findings;
}

/**
 * At most one unfinished run a node, at any position of the log: once a run has moved a node, or a caller has entered a step
 * of it there, no run from before may. Both are orders of their own (positions; what the machine saw), so no clocks are
 * compared, and it does not matter whose answers came. A stale owner inside a call is no news here: only entries are.
 */
export function checkOneRunANode(history: History, findings: Findings): void {
  const seen = new Map<string, { last: string; over: Set<string> }>();
  const pass = (place: string, runId: string, flaw: () => void) => {
    const one = seen.get(place) ?? { last: runId, over: new Set<string>() };
    seen.set(place, one);
    if (one.over.has(runId)) return flaw();
    if (one.last !== runId) one.over.add(one.last);
    one.last = runId;
  };
  for (const row of history.transitions) {
    if (row.runId === null) continue;
    findings.fact("transitions by runs");
    pass(row.nodeId, row.runId, () =>
      findings.violation("illegal", `Run ${row.runId} moved node ${row.nodeName} after another run had.`, row),
    );
  }
  seen.clear();
  for (const entry of history.entries)
    pass(entry.node, entry.runId, () =>
      findings.violation(
        "doubled",
        `A step of run ${entry.runId} was entered on node ${entry.node} after one of a later run.`,
        entry,
      ),
    );
}

/**
 * When everything has ended: every run and operation is finished, or is held by a caller's wish (a hold, a maintenance
 * mark); no node is in a state in which something goes on while nothing does; nothing that has ended holds on to something; and where
 * nodes that failed were to be cleaned up, they were.
 * Judged only where the arena says that it gave the runs their time (`settled`), else what is unfinished may be slow.
 */
export function checkRest(history: History): Findings {
  const findings = new Findings("REST", "nothing is stuck when everything has ended");
  const { runs, operations, nodes, attempts, phases, run: arena } = history;
  if (!phases.some(({ what }) => what === "settled") || arena.unsettled)
    findings.note(`The arena did not come to rest: ${arena.unsettled ?? "it was ended before"}.`);
  const parked = new Set<string>();
  for (const run of runs.values()) {
    findings.fact("runs");
    if (run.finishedAt === null) {
      parked.add(run.nodeId);
      const isMeant = run.state === "HOLDING" || (run.state === "WAITING" && run.waitReason === "MAINTENANCE");
      if (isMeant) findings.fact("runs held by a wish");
      else
        findings.violation(
          "stuck",
          `Run ${run.id} on node ${run.nodeName} is ${run.state}${run.waitReason ? ` (${run.waitReason})` : ""} at the end.`,
          run,
        );
      continue;
    }
    judgeCleanUp(history, run, findings);
    if (run.owner !== null)
      findings.violation("other", `Run ${run.id} on node ${run.nodeName} has ended and has an owner.`, run);
  }
  for (const operation of operations.values()) {
    findings.fact("operations");
    if (operation.finishedAt !== null) continue;
    const open = [...runs.values()].some((run) => run.operationId === operation.id && run.finishedAt === null);
    if (!open)
      findings.violation(
        "stuck",
        `Operation ${operation.id} (${operation.kind}) is ${operation.state} at the end, and none of its runs is unfinished.`,
        operation,
      );
  }
  for (const node of nodes.values()) {
    if (!AT_REST.has(node.state) && !parked.has(node.id))
      findings.violation("stuck", `Node ${node.name} is ${node.state} at the end, and nothing runs on it.`, node);
  }
  for (const attempt of attempts.values()) {
    const run = runs.get(attempt.runId);
    if (run && run.finishedAt !== null && attempt.finishedAt === null)
      findings.violation(
        "stuck",
        `Attempt ${attempt.key} is ${attempt.state}, and its run has ended (${run.state}).`,
        attempt,
        run,
      );
  }
  return findings;
}

/** States that the work of a failed run leaves something behind in. */
const TO_CLEAN_UP = new Set(["CLEAN_FAILED", "DEPLOY_FAILED"]);

/** A node that failed is cleaned up by its operation, where that is its policy, unless others had taken the node, or a caller's wish came first. */
function judgeCleanUp({ operations, runsAt, transitionsOf }: History, run: RunRow, findings: Findings): void {
  const operation = operations.get(run.operationId);
  const isMeant =
    operation?.onFailure === "CLEAN_UP_FAILED"
      ? operation.wish === null
      : operation?.onFailure === "CLEAN_UP_ALL" && operation.wish === "STOP" && operation.wishBy === "engine";
  if (
    !isMeant ||
    run.state !== "FAILED" ||
    run.purpose !== "WORK" ||
    run.wish !== null ||
    !TO_CLEAN_UP.has(transitionsOf.get(run.id)?.at(-1)?.to ?? "")
  )
    return;
  const later = (runsAt.get(run.nodeName) ?? []).filter(
    ({ id, createdAt }) => id !== run.id && createdAt > run.createdAt,
  );
  if (later.some(({ purpose, operationId }) => purpose === "WORK" && operationId !== run.operationId)) return;
  findings.fact("failed nodes that were to be cleaned up");
  if (!later.some(({ purpose }) => purpose === "CLEAN_UP"))
    findings.violation(
      "lost",
      `Node ${run.nodeName} failed in operation ${run.operationId} (${operation?.onFailure}), and was never cleaned up.`,
      run,
      operation,
    );
}
