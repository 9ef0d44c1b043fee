/**
 * The skeleton of abort, stop, withdraw-abort and unhold. All four check the request, select the work, lock its runs,
 * decide for each node, carry out the decision for the accepted runs, and answer, in one transaction. An interruption
 * supplies the lock, the decision and the effect.
 */
import type { Refusal } from "../../errors.ts";
import type { Forecast } from "../../lifecycle/forecast.ts";
import type { Reader, Tx } from "../../store/postgres/database.ts";
import { keepReadOnly } from "../../store/postgres/transactions.ts";
import { newestWork, unfinishedRuns } from "../../store/runs/runs.ts";
import type { RunRow } from "../../store/runs/runs.ts";
import { nodeIdsOf } from "../input/ids.ts";
import type { EngineContext } from "../context.ts";
import { acceptedNode, operationsOf, refuseRequest, refusedNode, summaryOf } from "../input/answers.ts";
import type { InterruptForecast, NodeAnswer, SubmitAnswer } from "../input/answers.ts";
import type { InterruptRequest } from "../input/interrupt-request.ts";
import type { KnownNode } from "../input/node-selector.ts";
import { answersInOrder, selectUnfinishedWork } from "../input/work-selector.ts";
import type { SelectedWork } from "../input/work-selector.ts";
import type { Caller, Transaction } from "../transaction.ts";
import { endedEntry, entryOf, readForecastRuns } from "./forecast.ts";
import type { ForecastRun } from "./forecast.ts";

/** A node of the request with the run that the interruption concerns, if it has one. */
export interface Target extends KnownNode {
  readonly run: RunRow | undefined;
}

/** The answer for a target, unless there is a refusal. */
export function answerOf({ ref, nodeId, run }: Target, refusal: Refusal | null): NodeAnswer {
  const runId = run?.id ?? null;
  return refusal ? refusedNode(ref, nodeId, runId, refusal) : acceptedNode(ref, nodeId, runId);
}

/** A target whose node was accepted. */
export interface Accepted<Answer extends NodeAnswer> {
  readonly run: RunRow;
  readonly answer: Answer;
}

/** An accepted run that has not ended, with the facts that its forecast follows from. */
export interface Foreseen<Answer extends NodeAnswer> extends Accepted<Answer> {
  readonly found: ForecastRun;
}

export interface Interruption<Answer extends NodeAnswer> {
  readonly caller: Caller;
  /** Unfinished runs of the nodes, locked; a dry run only reads them. At most one run for a node. */
  lock(tx: Tx, nodeIds: readonly string[]): Promise<readonly RunRow[]>;
  /** One answer for each target, in their order. Writes nothing. */
  decide(reader: Reader, targets: readonly Target[]): Promise<readonly Answer[]>;
  carryOut(transaction: Transaction, accepted: readonly Accepted<Answer>[]): Promise<void>;
  /** Whether it also concerns the newest run of a node without one: if it comes after the end, it reports that end. */
  readonly reportsEnds?: boolean;
  /** The effect that the interruption would have on each unfinished run, in a dry run. */
  forecast(reader: Reader, accepted: readonly Foreseen<Answer>[]): Promise<readonly Forecast[]> | readonly Forecast[];
  /** The time that a stop leaves to running steps. */
  readonly timeoutSeconds?: number;
  /** The accepted runs whose operations the answer names. Default: all of them. */
  answeredRuns?(accepted: readonly RunRow[]): readonly RunRow[];
}

type InterruptionAnswer<Answer extends NodeAnswer> = SubmitAnswer & {
  readonly results: readonly (Answer | NodeAnswer)[];
};

/** Interrupts the unfinished work that a request selects. `flaws`: what is wrong with the request itself. */
export async function interruptWork<Answer extends NodeAnswer>(
  context: EngineContext,
  request: InterruptRequest,
  flaws: readonly Refusal[],
  interruption: Interruption<Answer>,
): Promise<InterruptionAnswer<Answer>> {
  if (flaws.length > 0) return refuseRequest(flaws);
  return context.transact(async (transaction) => {
    if (request.dryRun) await keepReadOnly(transaction.tx);
    const selected = await selectUnfinishedWork(transaction.tx, request.work);
    if ("refusals" in selected) return refuseRequest(selected.refusals);
    return interruptSelected(transaction, request, selected, interruption);
  });
}

/** Locks, decides, carries out and answers for work that is already selected. */
export async function interruptSelected<Answer extends NodeAnswer>(
  transaction: Transaction,
  request: InterruptRequest,
  { nodes, unknown, operationId }: SelectedWork,
  interruption: Interruption<Answer>,
): Promise<InterruptionAnswer<Answer>> {
  const { tx } = transaction;
  const nodeIds = nodeIdsOf(nodes);
  const unfinished = request.dryRun ? await unfinishedRuns(tx, nodeIds) : await interruption.lock(tx, nodeIds);
  const busy = new Set(nodeIdsOf(unfinished));
  const atRest = interruption.reportsEnds ? nodeIds.filter((nodeId) => !busy.has(nodeId)) : [];
  const runs = [...unfinished, ...(await newestWork(tx, atRest, null))];
  const runOf = new Map(
    runs.filter((run) => operationId === null || run.operationId === operationId).map((run) => [run.nodeId, run]),
  );
  const targets = nodes.map((node) => ({ ...node, run: runOf.get(node.nodeId) }));
  const decided = await interruption.decide(tx, targets);
  const results = answersInOrder(request.work, decided, unknown);
  const refusals = [...summaryOf(decided), ...(unknown ? [unknown] : [])];
  const accepted = decided.flatMap((answer, index) => {
    const run = targets[index]?.run;
    return run && answer.accepted ? [{ run, answer }] : [];
  });
  const foreseen = request.dryRun ? { forecast: await foresee(tx, accepted, interruption) } : {};
  if (accepted.length === 0 || (refusals.length > 0 && request.acceptance === "ALL_OR_NOTHING"))
    return {
      ...refuseRequest(refusals),
      results: results.map((answer) => ({
        ...answer,
        runId: null,
        accepted: request.dryRun === true && answer.accepted,
      })),
      ...foreseen,
    };
  const known = unknown ? [unknown] : [];
  if (request.dryRun) return { operationId: null, results, refusals: known, replayed: false, ...foreseen };
  await interruption.carryOut(transaction, accepted);
  const acceptedRuns = accepted.map(({ run }) => run);
  const answeredRuns = interruption.answeredRuns?.(acceptedRuns) ?? acceptedRuns;
  transaction.audit(interruption.caller, {
    operationId: answeredRuns[0]?.operationId,
    targets: acceptedRuns.map(({ nodeName }) => nodeName),
  });
  return {
    ...operationsOf(answeredRuns),
    results,
    // A caller that sent wrong names has to notice it, although the others are interrupted.
    refusals: known,
    replayed: false,
  };
}

async function foresee<Answer extends NodeAnswer>(
  reader: Reader,
  accepted: readonly Accepted<Answer>[],
  interruption: Interruption<Answer>,
): Promise<InterruptForecast> {
  const runs = await readForecastRuns(
    reader,
    accepted.flatMap(({ run }) => (run.finishedAt === null ? [run] : [])),
  );
  const open = accepted.flatMap((one) => {
    const found = runs.get(one.run.id);
    return found ? [{ ...one, found }] : [];
  });
  const forecasts = await interruption.forecast(reader, open);
  const byRun = new Map(open.map(({ run }, index) => [run.id, forecasts[index]]));
  const entries = accepted.map(({ run, answer }) => {
    const [found, forecast] = [runs.get(run.id), byRun.get(run.id)];
    return found && forecast ? entryOf(answer, found, forecast) : endedEntry(answer, run);
  });
  return { entries, timeoutSeconds: interruption.timeoutSeconds ?? null };
}
