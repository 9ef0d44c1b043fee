/**
 * Restart: an ordinary submission whose plans come from the runs that it takes up again. First it finds which of them ended
 * before their target, and the steps that each keeps; then it is admitted like all other work.
 */
import type { Refusal } from "../../errors.ts";
import type { Stage } from "../../lifecycle/cluster-state.ts";
import { succeededSteps } from "../../store/attempts.ts";
import { hashOf } from "../../runtime/canonical-json.ts";
import type { Reader } from "../../store/postgres/database.ts";
import { nodesByIds } from "../../store/nodes.ts";
import type { NodeRow } from "../../store/nodes.ts";
import { operationsByIds } from "../../store/operations.ts";
import { plansByHashes } from "../../store/plans.ts";
import type { Plan, PlannedStep } from "../../store/records.ts";
import { cleanedUpNodes, newestWork } from "../../store/runs.ts";
import type { RunRow } from "../../store/runs.ts";
import { listed } from "../input/name-rules.ts";
import { keysOf } from "../plans/plan.ts";
import { isReservedPower, leavesOff } from "../plans/reserved-steps.ts";
import { refusedWhole, replayOf, submitRestart } from "./admit.ts";
import type { EarlierWork, NodeAnswer, RequestTerms, SubmitAnswer, SubmitParts } from "./admit.ts";
import type { Caller } from "../transaction.ts";
import { selectEndedWork } from "../input/work-selector.ts";
import type { SelectedWork, WorkSelector } from "../input/work-selector.ts";

/** How much of what was done a restart keeps. */
export const RESTART_FROM = {
  STAGE:
    "Keep the stage reached: an installed operating system is not installed again. All steps of the unfinished stage run again.",
  UNFINISHED_STEP: "Keep all steps that succeeded.",
  BEGINNING: "Keep nothing: all steps run again that are possible from the present state of the node.",
} as const;
export type RestartFrom = keyof typeof RESTART_FROM;

export interface RestartRequest extends RequestTerms {
  readonly work: WorkSelector;
  readonly from?: RestartFrom | undefined;
}

export async function restartWork(parts: SubmitParts, caller: Caller, request: RestartRequest): Promise<SubmitAnswer> {
  const inputHash = hashOf({ ...request, kind: "RESTART" });
  const prepared = await parts.transact(async ({ tx }) => {
    const found = await prepareRestart(tx, request);
    if (!("refusals" in found)) return found;
    // Asked last: what a repeated request finds in its way is the work of the first, which may have begun just now.
    const replay = await replayOf(tx, caller, request, (keptHash) => keptHash === inputHash);
    return { refused: replay ?? { ...refusedWhole(found.refusals), results: found.results ?? [] } };
  });
  if ("refused" in prepared) return prepared.refused;
  const answer = await submitRestart(parts, caller, { ...request, ...prepared, inputHash });
  return answer.replayed ? answer : { ...answer, results: [...answer.results, ...prepared.passedOver] };
}

const RESTARTABLE = new Set(["STOPPED", "FAILED", "ABORTED"]);

/** What is to be submitted, and the answers to nodes that have nothing to restart; or why nothing is. */
async function prepareRestart(reader: Reader, request: RestartRequest) {
  const found = await selectEndedWork(reader, request.work);
  if ("refusals" in found) return { refusals: found.refusals, results: [] };
  const { taken, passedOver, isUndone } = await whatIsLeft(reader, found);
  const operations = await operationsByIds(reader, [...new Set(taken.map(({ run }) => run.operationId))]);
  const [operation] = operations.toSorted((a, b) => b.createdAt.getTime() - a.createdAt.getTime());
  if (!operation) {
    const busy = passedOver.flatMap(({ refusal }) => (refusal?.code === "BUSY" ? [refusal] : []));
    if (busy.length > 0) return { refusals: busy, results: passedOver };
    return {
      refusals: [
        {
          code: "NOTHING_TO_RESTART",
          message: "Nothing is stopped, failed or aborted there that could be restarted.",
          path: ["input", "work"],
        } satisfies Refusal,
      ],
      results: passedOver,
    };
  }
  // What one was asked for must not be done to the nodes of another.
  const asked = new Set(
    operations.map(({ kind, options, variables, onFailure }) =>
      hashOf({ kind, options, variables, onFailure: request.onFailure ?? onFailure }),
    ),
  );
  if (asked.size > 1) {
    const which = listed(operations.map(({ id, kind }) => `${kind} ${id}`));
    return {
      refusals: [
        {
          code: "INVALID_INPUT",
          message: `These nodes were left by different requests (${which}): not of one kind, or with other options, variables or another failure policy; restart them by operation.`,
          path: ["input", "work"],
        } satisfies Refusal,
      ],
      results: passedOver,
    };
  }
  const plans = await plansByHashes(reader, [...new Set(taken.map(({ run }) => run.planHash))]);
  const succeeded = await succeededSteps(
    reader,
    taken.map(({ run }) => run.id),
  );
  const earlier = new Map(
    taken.flatMap(({ node, run }): [string, EarlierWork][] => {
      const plan = plans.get(run.planHash);
      if (!plan) return [];
      const from = isUndone(run) ? "BEGINNING" : (request.from ?? "STAGE");
      const poweredOff = node.powerState === "OFF" || run.leftAs?.power === "OFF";
      return [
        [
          node.id,
          { run, plan, ...keptOf(from, plan, succeeded.get(run.id) ?? new Set(), { stage: node.stage, poweredOff }) },
        ],
      ];
    }),
  );
  return {
    kind: operation.kind,
    restartOf: operation.id,
    selection: { nodes: taken.map(({ ref, node }) => ({ ref, nodeId: node.id })), clusterId: operation.clusterId },
    options: operation.options,
    earlierVariables: operation.variables,
    onFailure: request.onFailure ?? operation.onFailure,
    earlier,
    passedOver,
  };
}

/** The newest work of each node where it is left undone, or was undone by a failure policy; and the answers to the other nodes. */
async function whatIsLeft(reader: Reader, { nodes: asked, operationId }: SelectedWork) {
  const nodeIds = asked.map(({ nodeId }) => nodeId);
  const newest = new Map((await newestWork(reader, nodeIds, operationId)).map((run) => [run.nodeId, run]));
  const undone = new Set(
    (await cleanedUpNodes(reader, [...new Set([...newest.values()].map((run) => run.operationId))])).map(
      (run) => `${run.operationId} ${run.nodeId}`,
    ),
  );
  const isUndone = (run: RunRow) => undone.has(`${run.operationId} ${run.nodeId}`);
  // Those of an operation that was named may have been deleted since.
  const nodes = new Map((await nodesByIds(reader, nodeIds)).map((node) => [node.id, node]));
  const taken: { readonly ref: string; readonly node: NodeRow; readonly run: RunRow }[] = [];
  const passedOver: NodeAnswer[] = [];
  for (const { ref, nodeId } of asked) {
    const run = newest.get(nodeId);
    const node = nodes.get(nodeId);
    if (
      run &&
      node &&
      (RESTARTABLE.has(run.state) || isUndone(run)) &&
      (operationId === null || run.operationId === operationId)
    )
      taken.push({ ref, node, run });
    else
      passedOver.push({
        ref,
        nodeId,
        runId: null,
        accepted: false,
        refusal: refusalOf(ref, nodeId, node, run),
        plan: null,
      });
  }
  return { taken, passedOver, isUndone };
}

function refusalOf(ref: string, nodeId: string, node: NodeRow | undefined, run: RunRow | undefined): Refusal {
  if (run && run.finishedAt === null)
    return {
      code: "BUSY",
      message: `Node ${ref} is at work in operation ${run.operationId}; stop it, or wait for its end, before you restart it.`,
      nodeId,
      operationId: run.operationId,
    };
  return {
    code: "NOTHING_TO_RESTART",
    message: `Node ${ref} has nothing to restart: ${whyNothing(node, run)}.`,
    nodeId,
  };
}

function whyNothing(node: NodeRow | undefined, run: RunRow | undefined): string {
  if (!node) return "it was deleted";
  if (!run) return "nothing was ever run on it";
  return run.state === "SUCCEEDED" ? "its work is done" : `operation ${run.operationId} has worked on it since`;
}

/** From which leg a restart goes, and which steps it keeps. */
function keptOf(
  from: RestartFrom,
  plan: Plan,
  succeeded: ReadonlySet<number>,
  { stage, poweredOff }: { readonly stage: Stage; readonly poweredOff: boolean },
): Pick<EarlierWork, "firstLeg" | "done"> {
  const isDone = (index: number) => succeeded.has(index) || plan.steps[index]?.kept === true;
  if (from === "BEGINNING") return { firstLeg: 0, done: new Set() };
  const deploy = plan.legs.findIndex(({ phase }) => phase === "deploy");
  const provisioned = plan.steps.findIndex(({ reaches }, index) => reaches === "PROVISIONED" && isDone(index));
  if (from === "UNFINISHED_STEP") {
    // Power that a list of steps has switched off itself is as it is to be.
    const lastPower = plan.steps.findLast((step, index) => isDone(index) && isReservedPower(step));
    const lostPower = poweredOff && !(lastPower && leavesOff(lastPower));
    // What was done on the machine still holds only if its system stands, and what came after that only if it still runs.
    const holds = (step: PlannedStep, index: number) =>
      isDone(index) &&
      !(lostPower && isReservedPower(step)) &&
      (step.phase !== "deploy" || provisioned < 0 || (stage !== "NONE" && (!poweredOff || index <= provisioned)));
    const unfinished = plan.steps.find((step, index) => !holds(step, index));
    return { firstLeg: unfinished?.leg ?? Math.max(0, plan.legs.length - 1), done: keysWhere(plan, holds) };
  }
  if (stage !== "PROVISIONED" || deploy < 0 || provisioned < 0) return { firstLeg: 0, done: new Set() };
  return { firstLeg: deploy, done: keysWhere(plan, (step, index) => step.leg === deploy && index <= provisioned) };
}

function keysWhere(plan: Plan, fits: (step: PlannedStep, index: number) => boolean): ReadonlySet<string> {
  const keys = keysOf(plan);
  return new Set(plan.steps.flatMap((step, index) => (fits(step, index) ? (keys[index] ?? []) : [])));
}
