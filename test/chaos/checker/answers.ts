/** Answers and their consequences: P1, P2, P17. An answer is a promise; a missing answer promises nothing. */
import { isDeepStrictEqual } from "node:util";
import { Findings } from "./findings.ts";
import { KIND_OF } from "../../durability/expectations.ts";
import { TOLERANCE_MS, answerOf } from "./history.ts";
import type { Exchange, History, OperationRow, RunRow, Answered } from "./history.ts";
import type { Request } from "../records.ts";

/** Verbs whose answer names an existing operation instead of a new one. */
const INTERRUPTS = new Set(["abort", "stop", "withdrawAbort"]);

/** An answer was given just before a fault if the fault occurred within this time, in milliseconds. */
const SHORTLY_MS = 1_000;

/**
 * P1: accepted work is stored before the answer. The operation of every answer that a client received exists at the
 * end, with the run of each accepted node on that node. A registered node has its first transition. The maintenance and
 * presence of nodes, and the settings of a cluster, are those of a request that may have been the last one. Answers are
 * recorded by a process without faults after they have been read completely. A lost answer therefore counts as none,
 * and any outcome of its request is correct.
 */
export function checkDurable(history: History): Findings {
  const findings = new Findings("P1", "accepted work is stored before the answer");
  const kills = history.lifetimes.flatMap(({ name, killed }) => (killed === null ? [] : [{ name, t: killed }]));
  const restarts = history.faults
    .filter(({ what }) => what === "postgres-restart")
    .map(({ from }) => ({ name: null, t: from }));
  for (const exchange of history.exchange) {
    const answer = answerOf(exchange);
    if (!answer) continue;
    const { request } = exchange;
    const isPromise = checkStored(history, findings, exchange, answer);
    if (!isPromise) continue;
    findings.fact("accepted answers");
    const soon = (name: string | null, t: number) =>
      (name === null || name === request.replica) && t >= answer.t && t - answer.t < SHORTLY_MS;
    if (kills.some(({ name, t }) => soon(name, t)))
      findings.fact("of them less than a second before their replica was killed");
    if (restarts.some(({ name, t }) => soon(name, t)))
      findings.fact("of them less than a second before the database was stopped");
  }
  for (const setting of SETTINGS) checkSetting(history, setting, findings);
  return findings;
}

/** A setting that a request overwrites on everything that it names. */
interface Setting {
  readonly verbs: readonly string[];
  /** Values at the end, by name. */
  readonly at: (history: History) => Iterable<readonly [name: string, value: unknown]>;
  readonly named: (request: Request) => readonly string[];
  readonly valueIn: (input: Input) => unknown;
}

type Input = Readonly<Record<string, unknown>> & {
  readonly cluster?: { readonly name: string };
  readonly variables?: Readonly<Record<string, unknown>>;
};

const inputOf = ({ input }: Request) => (input ?? {}) as Input;
/** The variable that the clients of the arena set. */
const VARIABLE = "ntp";

const SETTINGS: readonly Setting[] = [
  {
    verbs: ["setMaintenance", "clearMaintenance"],
    at: ({ nodes }) => nodes.values().map(({ name, maintenance }) => [name, maintenance]),
    named: ({ nodes }) => nodes,
    valueIn: ({ reason }) => reason ?? null,
  },
  {
    verbs: ["reportPresence"],
    at: ({ nodes }) => nodes.values().map(({ name, conditions }) => [name, conditions.presence]),
    named: ({ nodes }) => nodes,
    valueIn: ({ event }) => event,
  },
  {
    verbs: ["updateCluster"],
    at: ({ clusters }) => clusters.map(({ name, variables }) => [name, variables[VARIABLE]]),
    named: (request) => [inputOf(request).cluster?.name ?? ""],
    valueIn: ({ variables }) => variables?.[VARIABLE],
  },
];

function checkSetting(history: History, { verbs, at, named: namesIn, valueIn }: Setting, findings: Findings): void {
  const what = verbs.join(" or ");
  const byName = Map.groupBy(
    history.exchange
      .filter(({ request }) => verbs.includes(request.verb))
      .flatMap((one) => namesIn(one.request).map((name) => ({ name, one }))),
    ({ name }) => name,
  );
  for (const [name, value] of at(history)) {
    const about = (byName.get(name) ?? []).map(({ one }) => one);
    const done = about.filter((one) => answerOf(one)?.refusals.length === 0);
    if (done.length === 0) continue;
    findings.fact(`final values of ${what} compared`);
    const lastSent = Math.max(...done.map(({ request }) => request.t));
    const possible = about.filter((one) => (answerOf(one)?.t ?? Infinity) >= lastSent);
    if (!possible.some(({ request }) => valueIn(inputOf(request)) === value)) {
      findings.violation(
        "lost",
        `${name} has ${JSON.stringify(value)} at the end, which no ${what} that may have been the last one set.`,
        { name, value },
        ...possible.flatMap(({ request, answer }) => [request, answer]),
      );
    }
  }
}

/** Whether the answer made a promise that must be stored. */
function checkStored(history: History, findings: Findings, { request }: Exchange, answer: Answered): boolean {
  const { operations, runs, nodes, transitions } = history;
  let promised = false;
  if (answer.operationId !== null) {
    promised = true;
    if (!operations.has(answer.operationId))
      findings.violation(
        "lost",
        `Operation ${answer.operationId} was accepted (${request.verb}, ${request.id}), but does not exist.`,
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
        `Run ${result.runId} on node ${result.node} was accepted (${request.verb}, ${request.id}), but does not exist.`,
        request,
        answer,
      );
    else if (run.nodeName !== result.node)
      findings.violation(
        "other",
        `Run ${run.id} was returned for node ${result.node}, but is on ${run.nodeName}.`,
        request,
        answer,
        run,
      );
    else if (!INTERRUPTS.has(request.verb) && answer.operationId !== null && run.operationId !== answer.operationId)
      findings.violation(
        "other",
        `Run ${run.id} was returned with operation ${answer.operationId}, but belongs to ${run.operationId}.`,
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
        `Nodes ${missing.slice(0, 5).join(", ")} were registered (${request.id}), but do not exist.`,
        request,
        answer,
      );
  }
  return promised;
}

const named = new WeakMap<object, ReadonlySet<string>>();

/** Names of existing and deleted nodes. */
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
 * P2: one key belongs to one operation, however often it is sent and whatever happened to the answers. All answers to a
 * key with the same input name one operation, and at most one of them lacks `replayed`; another input is never accepted
 * with that key. Conversely, every operation in the database was requested: by its key or, without a key, by a request
 * that was answered with it or not answered. It has the requested kind. Its runs are on nodes that the request named,
 * and exactly on those that the answer accepted. A refused request leaves its key free and stores nothing.
 */
export function checkOnce(history: History): Findings {
  const findings = new Findings("P2", "a repeated key starts nothing twice");
  const byKey = Map.groupBy(
    history.exchange.filter(({ request }) => request.idempotencyKey !== null),
    ({ request }) => request.idempotencyKey ?? "",
  );
  const stored = Map.groupBy(history.operations.values(), ({ key }) => key ?? "");
  for (const [key, group] of byKey) {
    const accepted = group.flatMap((exchange) => {
      const answer = answerOf(exchange);
      return answer?.operationId == null ? [] : [{ exchange, answer }];
    });
    if (group.length > 1) {
      findings.fact("keys sent more than once");
      findings.fact(
        "of them with a request that was not answered",
        group.some((exchange) => answerOf(exchange) === null) ? 1 : 0,
      );
    }
    const records = () => group.flatMap(({ request, answer }) => [request, answer]);
    const ids = new Set(accepted.map(({ answer }) => answer.operationId));
    if (ids.size > 1)
      findings.violation("doubled", `Key ${key} was answered with ${ids.size} operations.`, ...records());
    if (accepted.filter(({ answer }) => answer.replayed === false).length > 1)
      findings.violation("doubled", `Key ${key} was accepted as new more than once.`, ...records());
    const others = accepted.filter(
      ({ exchange }) => !isDeepStrictEqual(exchange.request.input, accepted[0]?.exchange.request.input),
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
        `Key ${key} was answered with an operation other than the stored one.`,
        rows[0],
        ...records(),
      );
  }
  const runsOf = Map.groupBy(history.runs.values(), ({ operationId }) => operationId);
  for (const operation of history.operations.values()) {
    findings.fact("operations traced to a request");
    if (!hasRequest(history, byKey, operation))
      findings.violation("doubled", `No request asked for operation ${operation.id} (${operation.kind}).`, operation);
    else if (operation.key !== null)
      checkRequested(operation, runsOf.get(operation.id) ?? [], byKey.get(operation.key) ?? [], findings);
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

/** Compares an operation and its runs with the requests and answers of its key. */
function checkRequested(
  operation: OperationRow,
  runs: readonly RunRow[],
  group: readonly Exchange[],
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
      `Every request for operation ${id} (${kind}) was refused, but the operation exists.`,
      operation,
      ...records,
    );
  if (!group.some(({ request }) => request.verb === "restart" || KIND_OF[request.verb] === kind))
    findings.violation(
      "other",
      `Operation ${id} is ${kind}, which no request with its key asked for.`,
      operation,
      ...records,
    );
  const unnamed = runs.find(({ nodeName }) => !group.some(({ request }) => request.nodes.includes(nodeName)));
  if (unnamed)
    findings.violation(
      "illegal",
      `Operation ${id} (${kind}) works on node ${unnamed.nodeName}, which no request named.`,
      unnamed,
      ...records,
    );
  const answer = answers.find((one) => one?.operationId === id && one.replayed === false);
  if (!answer) return;
  findings.fact("operations whose nodes were compared with the answer");
  const taken = answer.results.filter(({ accepted }) => accepted).map(({ node }) => node);
  const worked = runs.filter(({ purpose }) => purpose === "WORK").map(({ nodeName }) => nodeName);
  const differing = [
    ...taken.filter((name) => !worked.includes(name)),
    ...worked.filter((name) => !taken.includes(name)),
  ];
  if (differing.length > 0)
    findings.violation(
      "other",
      `The nodes accepted for operation ${id} (${kind}) differ from those of its runs: ${differing.slice(0, 5).join(", ")}.`,
      operation,
      answer,
    );
}

const keyless = new WeakMap<
  History,
  {
    readonly answered: ReadonlySet<string>;
    readonly open: readonly Exchange[];
    readonly keys: ReadonlyMap<string | null, string>;
  }
>();

function hasRequest(
  history: History,
  byKey: ReadonlyMap<string, readonly Exchange[]>,
  { id, key: ownKey, batch, createdAt }: OperationRow,
): boolean {
  const known = keyless.get(history) ?? {
    answered: new Set(history.exchange.flatMap((exchange) => answerOf(exchange)?.operationId ?? [])),
    keys: new Map(
      history.operations
        .values()
        .flatMap((one) => (one.batch !== null && one.key !== null ? [[one.batch, one.key]] : [])),
    ),
    open: history.exchange.filter(
      (exchange) =>
        exchange.request.verb in KIND_OF && exchange.request.idempotencyKey === null && answerOf(exchange) === null,
    ),
  };
  keyless.set(history, known);
  const key = ownKey ?? known.keys.get(batch);
  if (key !== undefined) return byKey.get(key)?.some(({ request }) => request.t <= createdAt + TOLERANCE_MS) ?? false;
  return known.answered.has(id) || known.open.some(({ request }) => request.t <= createdAt + TOLERANCE_MS);
}

/**
 * P17: a full disk loses nothing that was acknowledged. The facts are full disks with accepted requests during them or
 * shortly before. Checked are P1 for these answers, and that the log has no gap (P3).
 */
export function checkFullDisk(history: History): Findings {
  const findings = new Findings("P17", "a full disk loses nothing acknowledged");
  const fullDisks = history.faults.filter(({ what }) => what === "disk-full");
  if (fullDisks.length === 0) return findings;
  for (const { from, to } of fullDisks) {
    // Work accepted shortly before may still be on its way to the disk.
    const near = history.exchange.filter(
      (exchange) =>
        (answerOf(exchange)?.t ?? -1) >= from - NEAR_MS && (answerOf(exchange)?.t ?? Infinity) <= to + NEAR_MS,
    );
    let promised = 0;
    for (const exchange of near) {
      const answer = answerOf(exchange);
      if (answer && checkStored(history, findings, exchange, answer)) promised += 1;
    }
    if (promised > 0) findings.fact("full disks with accepted answers close to them");
    findings.fact("accepted answers close to a full disk", promised);
  }
  return findings;
}

const NEAR_MS = 30_000;
