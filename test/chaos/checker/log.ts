/**
 * The log of transitions and the state that follows from it (P3, P4), at most one unfinished run per node (P5, by the
 * log), and the state when everything has ended. All of it is read from the database at the end, so missing answers do
 * not matter: a request that took effect without an answer is in the log like any other.
 */
import { AT_REST, EDGES } from "../../durability/rules.ts";
import { Findings } from "./findings.ts";
import type { History, RunRow, TransitionRow } from "./history.ts";

/**
 * P3: state and transition are written in one transaction, so replaying the log gives the table: positions 1..N without
 * a gap, up to the counter of positions, and for each node sequences 1..n, whose last row has the node's state and
 * whose length is the node's count. The subscribers (P7) show that positions follow the order of commits: one that has
 * received position p would miss a row that appears below it.
 */
export function checkFold(history: History): Findings {
  const findings = new Findings("P3", "replaying the log gives the table");
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
        `Transition ${row.position} of node ${row.nodeName} starts from ${row.from}, but the log had moved it to ${before?.to ?? "nothing"}.`,
        before,
        row,
      );
    at.set(row.nodeId, row);
    previous = row;
  }
  if (history.feedPosition !== null && history.feedPosition !== (previous?.position ?? 0)) {
    findings.violation(
      "lost",
      `The counter of positions is at ${history.feedPosition}, but the newest transition is at ${previous?.position ?? 0}.`,
      { feedPosition: history.feedPosition },
      previous,
    );
  }
  for (const node of nodes.values()) {
    const last = at.get(node.id);
    if (last?.to !== node.state || last.sequence !== node.count)
      findings.violation(
        "lost",
        `The log moves node ${node.name} to ${last?.to} in ${last?.sequence ?? 0} transitions; the table has ${node.state} with ${node.count}.`,
        last,
        node,
      );
    at.delete(node.id);
  }
  for (const last of at.values())
    if (last.to !== null)
      findings.violation(
        "lost",
        `The log moves node ${last.nodeName} to ${last.to}, but the node does not exist.`,
        last,
      );
  return findings;
}

/**
 * P4: every transition is an edge of the design's table, taken by its event; the first of a node is its registration.
 * The database's table of edges is the same.
 */
export function checkEdges(history: History): Findings {
  const findings = new Findings("P4", "only legal transitions");
  const { edges } = history;
  if (edges.size > 0) {
    findings.fact("edges of the database compared", edges.size);
    for (const edge of edges)
      if (!EDGES.has(edge))
        findings.violation("illegal", `The database allows "${edge}", which the design does not have.`, { edge });
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
 * At most one unfinished run per node, at any position of the log: once a run has moved a node, or one of its steps has
 * been entered there, no earlier run may. Positions and the machines' order suffice, so clocks are not compared and
 * missing answers do not matter. A stale owner inside a call is legitimate: only entries count.
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
 * When everything has ended, every run and operation is finished, or held as requested (a hold, maintenance). No node
 * is in a state of progress without a run. Nothing that has ended still has an owner. Nodes that failed were cleaned up
 * if their policy says so. If the arena did not settle, unfinished work may just be slow; a note says so.
 */
export function checkRest(history: History): Findings {
  const findings = new Findings("REST", "nothing is stuck when everything has ended");
  const { runs, operations, nodes, attempts, phases, run: arena } = history;
  if (!phases.some(({ what }) => what === "settled") || arena.unsettled)
    findings.note(`Work was unfinished at the end: ${arena.unsettled ?? "the run ended before it settled"}.`);
  const parked = new Set<string>();
  for (const run of runs.values()) {
    findings.fact("runs");
    if (run.finishedAt === null) {
      parked.add(run.nodeId);
      const isExpected = run.state === "HOLDING" || (run.state === "WAITING" && run.waitReason === "MAINTENANCE");
      if (isExpected) findings.fact("runs held as requested");
      else
        findings.violation(
          "stuck",
          `Run ${run.id} on node ${run.nodeName} is ${run.state}${run.waitReason ? ` (${run.waitReason})` : ""} at the end.`,
          run,
        );
      continue;
    }
    checkCleanUp(history, run, findings);
    if (run.owner !== null)
      findings.violation("other", `Run ${run.id} on node ${run.nodeName} has ended, but has an owner.`, run);
  }
  for (const operation of operations.values()) {
    findings.fact("operations");
    if (operation.finishedAt !== null) continue;
    const open = [...runs.values()].some((run) => run.operationId === operation.id && run.finishedAt === null);
    if (!open)
      findings.violation(
        "stuck",
        `Operation ${operation.id} (${operation.kind}) is ${operation.state} at the end, but all its runs have ended.`,
        operation,
      );
  }
  for (const node of nodes.values()) {
    if (!AT_REST.has(node.state) && !parked.has(node.id))
      findings.violation("stuck", `Node ${node.name} is ${node.state} at the end, but no run works on it.`, node);
  }
  for (const attempt of attempts.values()) {
    const run = runs.get(attempt.runId);
    if (run && run.finishedAt !== null && attempt.finishedAt === null)
      findings.violation(
        "stuck",
        `Attempt ${attempt.key} is ${attempt.state}, but its run has ended (${run.state}).`,
        attempt,
        run,
      );
  }
  return findings;
}

/** States after which a clean-up is due. */
const TO_CLEAN_UP = new Set(["CLEAN_FAILED", "DEPLOY_FAILED"]);

/**
 * An operation with a clean-up policy cleans up a failed node, unless other work had taken the node or an interrupt was
 * requested first.
 */
function checkCleanUp({ operations, runsAt, transitionsOf }: History, run: RunRow, findings: Findings): void {
  const operation = operations.get(run.operationId);
  // A machine that may still be at a step that must not be cut is left alone.
  if (run.failure?.message.includes("may still be at it")) return;
  const isExpected =
    operation?.onFailure === "CLEAN_UP_FAILED"
      ? operation.interrupt === null
      : operation?.onFailure === "CLEAN_UP_ALL" && operation.interrupt === "STOP" && operation.interruptBy === "engine";
  if (
    !isExpected ||
    run.state !== "FAILED" ||
    run.purpose !== "WORK" ||
    run.interrupt !== null ||
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
      `Node ${run.nodeName} failed in operation ${run.operationId} (${operation?.onFailure}), but was never cleaned up.`,
      run,
      operation,
    );
}
