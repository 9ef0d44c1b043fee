/** Progress of runs and operations, and the time that an operation still needs. */
import { progressOf, secondsLeft } from "../../../lifecycle/progress.ts";
import type { StepWeight } from "../../../lifecycle/progress.ts";
import type { OperationRow } from "../../../store/operations/operations.ts";
import { builder } from "../../base/builder.ts";
import type { Context } from "../../base/context.ts";
import { OperationRef, RunRef } from "../../base/refs.ts";
import { stepHistory } from "../plans/step-history.ts";

/** The steps of a plan that run, with their expected durations. Steps kept from an earlier run do not count. */
async function weightsOf(planHash: string, context: Context): Promise<readonly StepWeight[]> {
  const plan = await context.load.plan.load(planHash);
  const open = (plan?.steps ?? []).flatMap((step, index) => (step.kept ? [] : [{ step, index }]));
  return Promise.all(
    open.map(async ({ step, index }) => {
      const history = await stepHistory(step, null, context);
      return { index, seconds: history?.medianSeconds ?? null };
    }),
  );
}

async function groupsOf({ id }: OperationRow, context: Context) {
  const groups = await context.load.runGroups.load(id);
  const hashes = [...new Set(groups.map(({ planHash }) => planHash))];
  const weights = await Promise.all(hashes.map(async (hash) => [hash, await weightsOf(hash, context)] as const));
  const stepsOf = new Map(weights);
  return groups.map((group) => ({ ...group, steps: stepsOf.get(group.planHash) ?? [] }));
}

async function shareDone(operation: OperationRow, context: Context): Promise<number> {
  if (operation.totalCount === 0) return 1;
  if (operation.kind === "DISCOVER") {
    const { QUEUED = 0 } = await context.load.addressCounts.load(operation.id);
    return (operation.totalCount - QUEUED) / operation.totalCount;
  }
  const groups = await groupsOf(operation, context);
  return groups.reduce((sum, group) => sum + progressOf(group) * group.count, 0) / operation.totalCount;
}

/** Null where the work has ended and will not be done: a share would look like one that still grows. */
async function progressOfOperation(operation: OperationRow, context: Context): Promise<number | null> {
  const share = await shareDone(operation, context);
  return share < 1 && operation.finishedAt !== null ? null : share;
}

/** Null where the end is not up to the work: a discovery, an interrupt, and waves that wait for a request. */
async function etaSeconds(operation: OperationRow, context: Context): Promise<number | null> {
  const { kind, finishedAt, interrupt, waveState, maxParallel, waves } = operation;
  const isHeld = waveState === "HALTED" || waveState === "AWAITING" || waves?.manual === true;
  if (kind === "DISCOVER" || finishedAt !== null || interrupt !== null || isHeld) return null;
  return secondsLeft(await groupsOf(operation, context), { maxParallel, pauseSeconds: waves?.pauseSeconds ?? null });
}

builder.objectFields(OperationRef, (t) => ({
  progress: t.float({
    nullable: true,
    description:
      "Share of the work that is done, 0 to 1: finished steps, weighted by their expected durations (for a discovery: addresses). Of an ended operation 1, or null if work was left out or taken back; see `reachedCount`.",
    resolve: (operation, _args, context) => progressOfOperation(operation, context),
  }),
  etaSeconds: t.int({
    nullable: true,
    description:
      "Expected seconds until the operation ends, from the durations of earlier steps, its waves and `maxParallel`; limits of the site and of replicas are not considered. Null if it has ended or is being ended, waits for a request, or has a step that never succeeded before.",
    resolve: (operation, _args, context) => etaSeconds(operation, context),
  }),
}));

builder.objectField(RunRef, "progress", (t) =>
  t.float({
    description:
      "Share of the work that is done, 0 to 1: finished steps, weighted by their expected durations. Steps kept from an earlier run do not count; 0 if the run is UNDONE.",
    resolve: async ({ state, position, planHash }, _args, context) =>
      progressOf({ state, position, steps: await weightsOf(planHash, context) }),
  }),
);
