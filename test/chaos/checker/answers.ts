/** What was answered, and what came of it: P1, P2, P17. An answer is a promise; no answer promises nothing. */
import { isDeepStrictEqual } from "node:util";
import { Findings } from "./verdict.ts";
import { KINDS } from "./admission.ts";
import { TOLERANCE_MS, answerOf } from "./history.ts";
import type { Asked, History, OperationRow, RunRow, Answered } from "./history.ts";
import type { Request } from "../records.ts";

/** Verbs whose answer names the operation that is to end, not one that they start. */
const INTERRUPTS = new Set(["abort", "stop", "withdrawAbort"]);

/** How soon after an answer a blow has to fall for the answer to be one that was hardly given, in ms. */
const HARDLY_MS = 1_000;

/**
 * P1: what was accepted is stored before the answer. So the operation of every answer that a client has received is there at
 * the end, with the run that each accepted node was told, on that node; a registered node has its first transition; and what nodes say
 * of their maintenance and presence, and a cluster of its settings, is what one of the requests has said that may have been the last. Answers are written down by a process that is never hurt, and only when they have been read whole, so an answer that was lost on its way
 * is none, and whatever happened to its request is right.
 */
export function checkDurable(history: History): Findings {
  const findings = new Findings("P1", "accepted is durable before the answer");
  const harms = history.lives.flatMap(({ name, killed }) => (killed === null ? [] : [{ name, t: killed }]));
  const restarts = history.blows
    .filter(({ what }) => what === "postgres-restart")
    .map(({ from }) => ({ name: null, t: from }));
  for (const asked of history.asked) {
    const answer = answerOf(asked);
    if (!answer) continue;
    const { request } = asked;
    const kept = judgeKept(history, findings, asked, answer);
    if (!kept) continue;
    findings.fact("accepted answers");
    const soon = (name: string | null, t: number) =>
      (name === null || name === request.replica) && t >= answer.t && t - answer.t < HARDLY_MS;
    if (harms.some(({ name, t }) => soon(name, t)))
      findings.fact("of them less than a second before their replica was killed");
    if (restarts.some(({ name, t }) => soon(name, t)))
      findings.fact("of them less than a second before the database was stopped");
  }
  for (const mark of MARKS) judgeMark(history, mark, findings);
  return findings;
}

/** What a request sets on everything that it names, whatever was there. */
interface Mark {
  readonly verb: string;
  /** What is there at the end, by name. */
  readonly at: (history: History) => Iterable<readonly [name: string, value: unknown]>;
  readonly named: (request: Request) => readonly string[];
  readonly valueIn: (input: Input) => unknown;
}

type Input = Readonly<Record<string, unknown>> & {
  readonly cluster?: { readonly name: string };
  readonly variables?: Readonly<Record<string, unknown>>;
};

const inputOf = ({ input }: Request) => (input ?? {}) as Input;
/** The variable that clients of the arena set. */
const VARIABLE = "ntp";

const MARKS: readonly Mark[] = [
  {
    verb: "setMaintenance",
    at: ({ nodes }) => nodes.values().map(({ name, maintenance }) => [name, maintenance]),
    named: ({ nodes }) => nodes,
    valueIn: ({ reason }) => reason ?? null,
  },
  {
    verb: "reportPresence",
    at: ({ nodes }) => nodes.values().map(({ name, presence }) => [name, presence]),
    named: ({ nodes }) => nodes,
    valueIn: ({ event }) => event,
  },
  {
    verb: "updateCluster",
    at: ({ clusters }) => clusters.map(({ name, variables }) => [name, variables[VARIABLE]]),
    named: (request) => [inputOf(request).cluster?.name ?? ""],
    valueIn: ({ variables }) => variables?.[VARIABLE],
  },
];

function judgeMark(history: History, { verb, at, named: namesIn, valueIn }: Mark, findings: Findings): void {
  const byName = Map.groupBy(
    history.asked
      .filter(({ request }) => request.verb === verb)
      .flatMap((one) => namesIn(one.request).map((name) => ({ name, one }))),
    ({ name }) => name,
  );
  for (const [name, value] of at(history)) {
    const about = (byName.get(name) ?? []).map(({ one }) => one);
    const done = about.filter((one) => answerOf(one)?.refusals.length === 0);
    if (done.length === 0) continue;
    findings.fact(`last words by ${verb} looked for`);
    const lastSent = Math.max(...done.map(({ request }) => request.t));
    const possible = about.filter((one) => (answerOf(one)?.t ?? Infinity) >= lastSent);
    if (!possible.some(({ request }) => valueIn(inputOf(request)) === value)) {
      findings.violation(
        "lost",
        `${name} says ${JSON.stringify(value)} at the end, and no ${verb} that may have been the last has said so.`,
        { name, value },
        ...possible.flatMap(({ request, answer }) => [request, answer]),
      );
    }
  }
}

/** Whether the answer promised anything that is kept. */
function judgeKept(history: History, findings: Findings, { request }: Asked, answer: Answered): boolean {
  const { operations, runs, nodes, transitions } = history;
  let promised = false;
  if (answer.operationId !== null) {
    promised = true;
    if (!operations.has(answer.operationId))
      findings.violation(
        "lost",
        `Operation ${answer.operationId} was answered (${request.verb}, ${request.id}), and is not there.`,
        request,
        answer,
      );
  }
  for (const result of answer.results) {
    if (!result.accepted || result.runId === null) continue;
    promised = true;
    const run = runs.get(result.runId);
    if (!run)
      findings.violation(
        "lost",
        `Run ${result.runId} on node ${result.node} was answered (${request.verb}, ${request.id}), and is not there.`,
        request,
        answer,
      );
    else if (run.nodeName !== result.node)
      findings.violation(
        "other",
        `Run ${run.id} was answered for node ${result.node}, and is on ${run.nodeName}.`,
        request,
        answer,
        run,
      );
    else if (!INTERRUPTS.has(request.verb) && answer.operationId !== null && run.operationId !== answer.operationId)
      findings.violation(
        "other",
        `Run ${run.id} was answered with operation ${answer.operationId}, and is of ${run.operationId}.`,
        request,
        answer,
        run,
      );
  }
  if (request.verb === "registerNodes" && answer.refusals.length === 0) {
    promised = true;
    const names = namesOf(nodes, transitions);
    const missing = request.nodes.filter((name) => !names.has(name));
    if (missing.length > 0)
      findings.violation(
        "lost",
        `Nodes ${missing.slice(0, 5).join(", ")} were registered (${request.id}), and are not there.`,
        request,
        answer,
      );
  }
  return promised;
}

const named = new WeakMap<object, ReadonlySet<string>>();

/** Names of nodes that there are or were. */
function namesOf(nodes: History["nodes"], transitions: History["transitions"]): ReadonlySet<string> {
  const known = named.get(nodes);
  if (known) return known;
  const names = new Set([
    ...[...nodes.values()].map(({ name }) => name),
    ...transitions.filter(({ event }) => event === "register").map(({ nodeName }) => nodeName),
  ]);
  named.set(nodes, names);
  return names;
}

/**
 * P2: one key, one operation, however often it is sent and whatever became of the answers. Of all that is answered to one key
 * with one input there is one operation, and at most one answer that does not say `replayed`; with another input nothing is
 * ever accepted beside it. The other way round every operation of the database was asked for by a request: by its key, or, where
 * it has none, by one that was answered with it or not answered at all. It is of the kind that was asked for, on nodes that were
 * named, and on those that an answer says were accepted: no more of them, no fewer. A request that was refused leaves its
 * key free, and nothing behind.
 */
export function checkOnce(history: History): Findings {
  const findings = new Findings("P2", "a repeated key starts nothing twice");
  const byKey = Map.groupBy(
    history.asked.filter(({ request }) => request.idempotencyKey !== null),
    ({ request }) => request.idempotencyKey ?? "",
  );
  const stored = Map.groupBy(history.operations.values(), ({ key }) => key ?? "");
  for (const [key, group] of byKey) {
    const accepted = group.flatMap((asked) => {
      const answer = answerOf(asked);
      return answer?.operationId == null ? [] : [{ asked, answer }];
    });
    if (group.length > 1) {
      findings.fact("keys sent more than once");
      findings.fact(
        "of them with a request that was not answered",
        group.some((asked) => answerOf(asked) === null) ? 1 : 0,
      );
    }
    const records = () => group.flatMap(({ request, answer }) => [request, answer]);
    const ids = new Set(accepted.map(({ answer }) => answer.operationId));
    if (ids.size > 1)
      findings.violation("doubled", `Key ${key} was answered with ${ids.size} operations.`, ...records());
    if (accepted.filter(({ answer }) => answer.replayed === false).length > 1)
      findings.violation("doubled", `Key ${key} was accepted again more than once.`, ...records());
    const others = accepted.filter(
      ({ asked }) => !isDeepStrictEqual(asked.request.input, accepted[0]?.asked.request.input),
    );
    if (group.some(({ request }) => !isDeepStrictEqual(request.input, group[0]?.request.input)))
      findings.fact("keys sent with another input");
    if (others.length > 0) findings.violation("other", `Key ${key} was accepted with two inputs.`, ...records());
    const rows = stored.get(key) ?? [];
    if (rows.length > 1)
      findings.violation("doubled", `There are ${rows.length} operations with key ${key}.`, ...rows, ...records());
    if (rows[0] && accepted.some(({ answer }) => answer.operationId !== rows[0]?.id))
      findings.violation(
        "doubled",
        `Key ${key} was answered with another operation than the one it is stored with.`,
        rows[0],
        ...records(),
      );
  }
  const runsOf = Map.groupBy(history.runs.values(), ({ operationId }) => operationId);
  for (const operation of history.operations.values()) {
    findings.fact("operations traced to a request");
    if (!isAskedFor(history, byKey, operation))
      findings.violation("doubled", `No request asked for operation ${operation.id} (${operation.kind}).`, operation);
    else if (operation.key !== null)
      judgeAsked(operation, runsOf.get(operation.id) ?? [], byKey.get(operation.key) ?? [], findings);
  }
  const perNode = Map.groupBy(
    [...history.runs.values()].filter(({ purpose }) => purpose === "WORK"),
    ({ operationId, nodeId }) => `${operationId} ${nodeId}`,
  );
  for (const runs of perNode.values())
    if (runs.length > 1)
      findings.violation(
        "doubled",
        `Operation ${runs[0]?.operationId} has ${runs.length} runs on node ${runs[0]?.nodeName}.`,
        ...runs,
      );
  return findings;
}

/** An operation and its runs against what was asked with its key, and answered. */
function judgeAsked(
  operation: OperationRow,
  runs: readonly RunRow[],
  group: readonly Asked[],
  findings: Findings,
): void {
  const { id, kind } = operation;
  const records = group.flatMap(({ request, answer }) => [request, answer]);
  const isRefused = (answer: Answered) =>
    answer.operationId === null && answer.results.every(({ accepted }) => !accepted);
  const answers = group.map(answerOf);
  if (answers.every((answer) => answer !== null && isRefused(answer)))
    findings.violation(
      "doubled",
      `Every request for operation ${id} (${kind}) was refused, and it is there.`,
      operation,
      ...records,
    );
  if (!group.some(({ request }) => request.verb === "restart" || KINDS[request.verb] === kind))
    findings.violation(
      "other",
      `Operation ${id} is ${kind}, which no request with its key asked for.`,
      operation,
      ...records,
    );
  const stranger = runs.find(({ nodeName }) => !group.some(({ request }) => request.nodes.includes(nodeName)));
  if (stranger)
    findings.violation(
      "illegal",
      `Operation ${id} (${kind}) works on node ${stranger.nodeName}, which no request named.`,
      stranger,
      ...records,
    );
  const answer = answers.find((one) => one?.operationId === id && one.replayed === false);
  if (!answer) return;
  findings.fact("operations whose nodes were held against the answer");
  const taken = answer.results.filter(({ accepted }) => accepted).map(({ node }) => node);
  const worked = runs.filter(({ purpose }) => purpose === "WORK").map(({ nodeName }) => nodeName);
  const differing = [
    ...taken.filter((name) => !worked.includes(name)),
    ...worked.filter((name) => !taken.includes(name)),
  ];
  if (differing.length > 0)
    findings.violation(
      "other",
      `Operation ${id} (${kind}) was accepted on other nodes than it has runs on: ${differing.slice(0, 5).join(", ")}.`,
      operation,
      answer,
    );
}

const keyless = new WeakMap<History, { readonly answered: ReadonlySet<string>; readonly open: readonly Asked[] }>();

function isAskedFor(
  history: History,
  byKey: ReadonlyMap<string, readonly Asked[]>,
  { id, key, createdAt }: OperationRow,
): boolean {
  if (key !== null) return byKey.get(key)?.some(({ request }) => request.t <= createdAt + TOLERANCE_MS) ?? false;
  const known = keyless.get(history) ?? {
    answered: new Set(history.asked.flatMap((asked) => answerOf(asked)?.operationId ?? [])),
    open: history.asked.filter(
      (asked) => asked.request.verb in KINDS && asked.request.idempotencyKey === null && answerOf(asked) === null,
    ),
  };
  keyless.set(history, known);
  return known.answered.has(id) || known.open.some(({ request }) => request.t <= createdAt + TOLERANCE_MS);
}

/**
 * P17: a full disk loses nothing that was acknowledged. The facts are the disk's fillings during or just before which
 * something was accepted; what is judged is P1 for those answers, and that the log had no hole afterwards (P3).
 */
export function checkFullDisk(history: History): Findings {
  const findings = new Findings("P17", "a full disk loses nothing acknowledged");
  const fillings = history.blows.filter(({ what }) => what === "disk-full");
  if (fillings.length === 0) return findings;
  for (const { from, to } of fillings) {
    // What was accepted shortly before may still be on its way to the disk.
    const near = history.asked.filter(
      (asked) =>
        (answerOf(asked)?.t ?? -1) >= from - BEFORE_FULL_MS && (answerOf(asked)?.t ?? Infinity) <= to + BEFORE_FULL_MS,
    );
    let promised = 0;
    for (const asked of near) {
      const answer = answerOf(asked);
      if (answer && judgeKept(history, findings, asked, answer)) promised += 1;
    }
    if (promised > 0) findings.fact("fillings of the disk with answers about them");
    findings.fact("accepted answers about a filling", promised);
  }
  return findings;
}

const BEFORE_FULL_MS = 30_000;
