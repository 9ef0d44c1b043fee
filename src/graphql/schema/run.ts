/** Runs and their steps: what one operation does, did and will do on one node. */
import { stepUnderWay } from "../../engine/engine.ts";
import { judgeAbort } from "../../lifecycle/interrupts.ts";
import { isUnfinished } from "../../lifecycle/operation-states.ts";
import type { Failure, LeftAs, PlannedStep } from "../../store/records.ts";
import type { AnomalyRow } from "../../store/rejected-callbacks.ts";
import type { AttemptRow } from "../../store/attempts.ts";
import type { OperationRow } from "../../store/operations.ts";
import type { RunRow } from "../../store/runs.ts";
import { builder, renamedTo } from "../base/builder.ts";
import type { Context } from "../base/context.ts";
import {
  AnomalyKindEnum,
  DriverInterfaceEnum,
  ErrorCodeEnum,
  InterruptEnum,
  InterruptibleEnum,
  NodeStateEnum,
  PhaseEnum,
  PowerStateEnum,
  RunPurposeEnum,
  RunStateEnum,
  StepPartEnum,
  StepStateEnum,
  WishEnum,
} from "../base/enums.ts";
import { globalId } from "../base/ids.ts";
import { connectionType } from "../base/connection.ts";
import { FailureRef, NodeRef, OperationRef, ResourceRef, RunRef } from "../base/refs.ts";

export const AttemptRef = builder.objectRef<AttemptRow>("StepAttempt").implement({
  description: "Attempt of a step. Never deleted.",
  fields: (t) => ({
    number: t.exposeInt("number", { description: "Number of the attempt, from 1." }),
    state: t.field({ type: StepStateEnum, description: "Current state.", resolve: ({ state }) => state }),
    part: t.field({
      type: StepPartEnum,
      description: "Part of the step that the attempt is in, or ended in.",
      resolve: ({ part }) => part,
    }),
    entries: t.exposeInt("entries", {
      description: "Number of driver calls in this attempt, including the calls after waits and crashes.",
    }),
    startedAt: t.expose("startedAt", { type: "DateTime", description: "Start time." }),
    deadlineAt: t.expose("deadlineAt", { type: "DateTime", description: "Time at which it fails with TIMEOUT." }),
    finishedAt: t.expose("finishedAt", {
      type: "DateTime",
      nullable: true,
      description: "End time; null if it has not ended.",
    }),
    output: t.field({
      type: "JSON",
      nullable: true,
      description: "Output of the driver; null if there is none.",
      resolve: ({ output }) => output,
    }),
    failure: t.field({
      type: FailureRef,
      nullable: true,
      description: "Reason for the failure; null if it did not fail.",
      resolve: ({ failure }) => failure,
    }),
  }),
});

/** A step of the plan with its tries. */
export interface StepView {
  readonly index: number;
  readonly planned: PlannedStep;
  readonly attempts: readonly AttemptRow[];
  /** Whether its turn can still come. */
  readonly open: boolean;
  /** The node it is planned for. */
  readonly nodeId: string | null;
}

export const StepRef = builder.objectRef<StepView>("Step").implement({
  description: "Step of a run, with its attempts.",
  fields: (t) => ({
    index: t.exposeInt("index", { description: "Position in the run, from 0." }),
    name: t.string({ description: "Name, such as `erase_disks`.", resolve: ({ planned }) => planned.name }),
    title: t.string({ description: "What the step does, for people.", resolve: ({ planned }) => planned.title }),
    phase: t.field({ type: PhaseEnum, description: "Phase of the step.", resolve: ({ planned }) => planned.phase }),
    interface: t.field({
      type: DriverInterfaceEnum,
      description: "Interface that provides the step.",
      resolve: ({ planned }) => planned.interface as "power",
    }),
    driver: t.string({ description: "Driver that runs the step.", resolve: ({ planned }) => planned.driver }),
    args: t.field({ type: "JSON", description: "Arguments of the step.", resolve: ({ planned }) => planned.args }),
    priority: t.int({
      description: "Priority: steps with a higher one run first.",
      resolve: ({ planned }) => planned.priority,
    }),
    interruptible: t.field({
      type: InterruptibleEnum,
      description: "Whether the running step can be canceled.",
      resolve: ({ planned }) => planned.interruptible,
    }),
    idempotent: t.boolean({
      description: "Whether the step can safely run again after a crash.",
      resolve: ({ planned }) => planned.idempotent,
    }),
    timeoutSeconds: t.float({
      description: "Maximum duration of one attempt in seconds, waits included.",
      resolve: ({ planned }) => planned.timeoutSeconds,
    }),
    retries: t.int({
      description: "Maximum number of retries after retryable failures.",
      resolve: ({ planned }) => planned.retries,
    }),
    backoffSeconds: t.float({
      description: "Delay before a retry, in seconds.",
      resolve: ({ planned }) => planned.backoffSeconds,
    }),
    state: t.field({ type: StepStateEnum, description: "Current state.", resolve: stepState }),
    startedAt: t.field({
      type: "DateTime",
      nullable: true,
      description: "Start time of the first attempt; null before that.",
      resolve: ({ attempts }) => attempts[0]?.startedAt ?? null,
    }),
    finishedAt: t.field({
      type: "DateTime",
      nullable: true,
      description: "End time of the last attempt; null if it has not ended.",
      resolve: ({ attempts }) => attempts.at(-1)?.finishedAt ?? null,
    }),
    attempts: t.field({
      type: [AttemptRef],
      description: "Attempts of the step, oldest first.",
      resolve: ({ attempts }) => [...attempts],
    }),
    output: t.field({
      type: "JSON",
      nullable: true,
      description: "Output of the driver in the last attempt; null if there is none.",
      resolve: ({ attempts }) => attempts.at(-1)?.output ?? null,
    }),
    failure: t.field({
      type: FailureRef,
      nullable: true,
      description: "Reason why the last attempt failed; null if it did not fail.",
      resolve: ({ attempts }) => attempts.at(-1)?.failure ?? null,
    }),
    progressPercent: t.int({
      nullable: true,
      description: "Progress of the last attempt in percent, as reported by the driver; null if it reported none.",
      resolve: ({ attempts }) => attempts.at(-1)?.progressPercent ?? null,
    }),
    progressMessage: t.string({
      nullable: true,
      description: "Last progress message of the driver; null if there is none.",
      resolve: ({ attempts }) => attempts.at(-1)?.progressMessage ?? null,
    }),
  }),
});

/** `interface.name`, as messages and logs name a step. */
export function stepName(planned: Pick<PlannedStep, "interface" | "name"> | undefined): string {
  return planned ? `${planned.interface}.${planned.name}` : "";
}

function stepState({ planned, attempts, open }: StepView) {
  const last = attempts.at(-1);
  if (last) return last.state;
  return planned.kept ? ("KEPT" as const) : open ? ("PENDING" as const) : ("SKIPPED" as const);
}

const AnomalyRef = builder.objectRef<AnomalyRow>("CallBackAnomaly").implement({
  description: "Rejected callback: recorded, without effect on the run.",
  fields: (t) => ({
    kind: t.field({ type: AnomalyKindEnum, description: "Reason for the rejection.", resolve: ({ kind }) => kind }),
    step: t.exposeString("step", {
      nullable: true,
      description: "Step that the run was at, as `interface.name`; null if all its steps had ended.",
    }),
    at: t.expose("at", { type: "DateTime", description: "Time of the callback." }),
  }),
});

const LeftAsRef = builder.objectRef<LeftAs>("LeftAs").implement({
  description: "Condition in which an abort left the node, as far as known.",
  fields: (t) => ({
    power: t.field({
      type: PowerStateEnum,
      description: "Power state after the abort, as last read.",
      resolve: ({ power }) => power,
    }),
    disksTouched: t.exposeBoolean("disksTouched", {
      description:
        "Whether a step that changes disks (`Step.touches`) had started, in this run or in an earlier run whose steps it kept.",
    }),
    firmwareTouched: t.boolean({
      nullable: true,
      description: "Whether a step that changes firmware had started; null in records of earlier versions.",
      resolve: ({ firmwareTouched }) => firmwareTouched ?? null,
    }),
    networkAttached: t.boolean({
      nullable: true,
      description: "Whether a step that attaches networks had started; null in records of earlier versions.",
      resolve: ({ networkAttached }) => networkAttached ?? null,
    }),
    tearDownError: t.exposeString("tearDownError", {
      nullable: true,
      description: "Error of the abort clean-up; null if it succeeded.",
    }),
  }),
});

export async function stepsOf(run: RunRow, { load }: Context): Promise<StepView[]> {
  const [plan, attempts] = await Promise.all([load.plan.load(run.planHash), load.attempts.load(run.id)]);
  const tries = Map.groupBy(attempts, ({ step }) => step);
  return (plan?.steps ?? []).map((planned, index) => ({
    index,
    planned,
    attempts: tries.get(index) ?? [],
    open: run.finishedAt === null && index >= run.position,
    nodeId: run.nodeId,
  }));
}

async function operationOf({ id, operationId }: RunRow, { load }: Context): Promise<OperationRow> {
  const operation = await load.operation.load(operationId);
  if (!operation) throw new Error(`Run ${id} belongs to operation ${operationId}, which does not exist.`);
  return operation;
}

async function abortVerdict(run: RunRow, context: Context) {
  const step = (await stepsOf(run, context))[run.position];
  return judgeAbort(
    { id: run.nodeId, name: run.nodeName },
    { state: run.state, interrupt: run.interrupt, step: stepUnderWay(step?.planned, step?.attempts.at(-1)) },
    "NOW",
  );
}

builder.objectType(RunRef, {
  description: "Part of an operation on one node.",
  interfaces: [ResourceRef],
  isTypeOf: (value) => typeof value === "object" && value !== null && "planHash" in value,
  fields: (t) => ({
    id: t.id({ description: "Global ID: opaque and stable.", resolve: ({ id }) => globalId("Run", id) }),
    operation: t.field({
      type: OperationRef,
      description: "Operation that the run belongs to.",
      resolve: (run, _args, context) => operationOf(run, context),
    }),
    node: t.field({
      type: NodeRef,
      nullable: true,
      description: "Node of the run; null if it has been deleted.",
      resolve: ({ nodeId }, _args, { load }) => load.node.load(nodeId),
    }),
    nodeName: t.exposeString("nodeName", { description: "Name of the node when the run was created." }),
    purpose: t.field({ type: RunPurposeEnum, description: "Purpose of the run.", resolve: ({ purpose }) => purpose }),
    state: t.field({ type: RunStateEnum, description: "Current state.", resolve: ({ state }) => state }),
    target: t.field({
      type: NodeStateEnum,
      description: "State of the node when the run succeeds.",
      resolve: ({ target }) => target,
    }),
    attempt: t.exposeInt("attempt", { description: "Number of the attempt: 1, and one more with each restart." }),
    restartOf: t.field({
      type: RunRef,
      nullable: true,
      description: "Run that this one restarts; null if it is not a restart.",
      resolve: ({ restartOf }, _args, { load }) => (restartOf === null ? null : load.run.load(restartOf)),
    }),
    interrupt: t.field({
      type: InterruptEnum,
      nullable: true,
      description:
        "Stop or abort that was requested for this run; null if none was. A stop of the whole operation is shown at the operation only.",
      resolve: ({ interrupt }) => interrupt,
    }),
    interruptBy: t.exposeString("interruptBy", {
      nullable: true,
      description: "Who requested the interrupt; `engine` if the failure policy or a timeout did.",
    }),
    interruptReason: t.exposeString("interruptReason", {
      nullable: true,
      description: "Reason given for the interrupt.",
    }),
    interruptAt: t.expose("interruptAt", {
      type: "DateTime",
      nullable: true,
      description: "Time of the request to interrupt.",
    }),
    wish: t.field({
      type: WishEnum,
      nullable: true,
      deprecationReason: renamedTo("interrupt"),
      description: "Same as `interrupt`.",
      resolve: ({ interrupt }) => interrupt,
    }),
    wishBy: t.exposeString("interruptBy", {
      nullable: true,
      deprecationReason: renamedTo("interruptBy"),
      description: "Same as `interruptBy`.",
    }),
    wishReason: t.exposeString("interruptReason", {
      nullable: true,
      deprecationReason: renamedTo("interruptReason"),
      description: "Same as `interruptReason`.",
    }),
    wishAt: t.expose("interruptAt", {
      type: "DateTime",
      nullable: true,
      deprecationReason: renamedTo("interruptAt"),
      description: "Same as `interruptAt`.",
    }),
    steps: t.field({
      type: [StepRef],
      description: "All steps of the run, in the order of execution, whether they have started or not.",
      resolve: (run, _args, context) => stepsOf(run, context),
    }),
    currentStep: t.field({
      type: StepRef,
      nullable: true,
      description: "Running or next step; null if the run has ended.",
      resolve: async (run, _args, context) =>
        isUnfinished(run.state) ? ((await stepsOf(run, context))[run.position] ?? null) : null,
    }),
    wakeAt: t.expose("wakeAt", {
      type: "DateTime",
      nullable: true,
      description: "Time at which a parked run continues at the latest; null if it is not parked or has no such time.",
    }),
    abortable: t.boolean({
      description: "Whether an abort without `mode: AFTER_STEP` would be accepted now.",
      resolve: async (run, _args, context) => isUnfinished(run.state) && (await abortVerdict(run, context)).accepted,
    }),
    abortBlockedBy: t.field({
      type: ErrorCodeEnum,
      nullable: true,
      description: "Reason why an abort would be refused now; null if it would be accepted.",
      resolve: async (run, _args, context) => {
        if (!isUnfinished(run.state)) return "NOTHING_RUNNING";
        const verdict = await abortVerdict(run, context);
        return verdict.accepted ? null : verdict.refusal.code;
      },
    }),
    abortPendingAfterStep: t.string({
      nullable: true,
      description: "Step after which a requested abort takes effect; null if no abort is pending.",
      resolve: async (run, _args, context) => {
        if (run.interrupt !== "ABORT" || !isUnfinished(run.state)) return null;
        const verdict = await abortVerdict(run, context);
        return verdict.accepted ? verdict.afterStep : null;
      },
    }),
    abortWithdrawable: t.boolean({
      description: "Whether `withdrawAbort` would be accepted now: an abort is pending and has not started.",
      resolve: async (run, _args, context) => {
        if (run.interrupt !== "ABORT" || run.interruptFailure !== null || !isUnfinished(run.state)) return false;
        const verdict = await abortVerdict(run, context);
        const attempt = (await stepsOf(run, context))[run.position]?.attempts.at(-1);
        return verdict.accepted && verdict.effect === "PENDING" && attempt?.part !== "ABORT";
      },
    }),
    variables: t.field({
      type: "JSON",
      description:
        "Effective variables: the cluster's settings when the operation was accepted, merged with the variables of the request.",
      resolve: ({ variables }) => variables,
    }),
    failure: t.field({
      type: FailureRef,
      nullable: true,
      description: "Reason why the run failed, or why its abort had problems; null otherwise.",
      resolve: ({ failure }) => failure,
    }),
    errors: t.field({
      type: [FailureRef],
      description: "Failures of steps during a best-effort operation.",
      resolve: ({ errors }) => [...errors] as Failure[],
    }),
    cleanupFailed: t.boolean({
      description:
        "Whether a step of a best-effort operation failed: data that it should have removed may still exist.",
      resolve: ({ errors }) => errors.length > 0,
    }),
    anomalies: t.field({
      type: [AnomalyRef],
      description: "Rejected callbacks of the run, oldest first; at most 100 are recorded.",
      resolve: async ({ id }, _args, { load }) => [...(await load.anomalies.load(id))],
    }),
    leftAs: t.field({
      type: LeftAsRef,
      nullable: true,
      description: "Condition in which an abort left the node; null if the run was not aborted.",
      resolve: ({ leftAs }) => leftAs,
    }),
    createdAt: t.expose("createdAt", { type: "DateTime", description: "When it was accepted." }),
    startedAt: t.expose("startedAt", {
      type: "DateTime",
      nullable: true,
      description: "Time when a replica first claimed the run; null before that.",
    }),
    finishedAt: t.expose("finishedAt", {
      type: "DateTime",
      nullable: true,
      description: "End time; null if it has not ended.",
    }),
  }),
});

export const RunConnection = connectionType("Run", RunRef);
