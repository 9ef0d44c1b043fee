/** Runs: the part of an operation on one node, with its steps, its interrupt and how it ended. */
import { stepUnderWay } from "../../../engine/views.ts";
import { judgeAbort } from "../../../lifecycle/interrupts.ts";
import { isUnfinished } from "../../../lifecycle/operation-states.ts";
import type { LeftAs } from "../../../store/records.ts";
import type { RejectedCallbackRow } from "../../../store/runs/rejected-callbacks.ts";
import type { OperationRow } from "../../../store/operations/operations.ts";
import type { RunRow } from "../../../store/runs/runs.ts";
import { builder, needs } from "../../base/builder.ts";
import type { Context } from "../../base/context.ts";
import {
  RejectedCallbackKindEnum,
  ErrorCodeEnum,
  NodeStateEnum,
  PowerStateEnum,
  RunPurposeEnum,
  RunStateEnum,
} from "../../base/enums.ts";
import { globalId, keyOf, uuidOrNone } from "../../base/ids.ts";
import { connectionType } from "../../base/connection.ts";
import { FailureRef, OperationRef, RunRef } from "../../base/refs.ts";
import { nodeField, variablesField } from "../../base/shared-fields.ts";
import { StepRef, stepsOf } from "./step.ts";

const RejectedCallbackRef = builder.objectRef<RejectedCallbackRow>("RejectedCallback").implement({
  description: "Rejected callback: recorded, without effect on the run.",
  fields: (t) => ({
    kind: t.expose("kind", {
      type: RejectedCallbackKindEnum,
      description: "Reason for the rejection.",
    }),
    step: t.exposeString("step", {
      nullable: true,
      description: "Step that the run was at, as `interface.name`; null if all its steps had ended.",
    }),
    at: t.expose("at", { type: "DateTime", description: "Time of the callback." }),
  }),
});

const MachineConditionRef = builder.objectRef<LeftAs>("MachineCondition").implement({
  description: "Condition in which an abort left the node, as far as known.",
  fields: (t) => ({
    power: t.expose("power", {
      type: PowerStateEnum,
      description: "Power state after the abort, as last read.",
    }),
    disksChanged: t.exposeBoolean("disksTouched", {
      description:
        "Whether a step that changes disks (`Step.changes`) had started, in this run or in an earlier run whose steps it kept.",
    }),
    firmwareChanged: t.boolean({
      nullable: true,
      description: "Whether a step that changes firmware had started; null in records of earlier versions.",
      resolve: ({ firmwareTouched }) => firmwareTouched ?? null,
    }),
    networkAttached: t.exposeBoolean("networkAttached", {
      nullable: true,
      description: "Whether a step that attaches networks had started; null in records of earlier versions.",
    }),
    mayBeWorking: t.exposeBoolean("mayBeWorking", {
      nullable: true,
      description:
        "Whether the machine may still be at a step that must not be cut, such as writing firmware, and was left as it is; null in records of earlier versions.",
    }),
    cleanUpError: t.exposeString("tearDownError", {
      nullable: true,
      description: "Error of the abort clean-up; null if it succeeded.",
    }),
  }),
});

builder.objectType(RunRef, {
  description: "Part of an operation on one node.",
  fields: (t) => ({
    id: t.id({ description: "Global ID: opaque and stable.", resolve: ({ id }) => globalId("Run", id) }),
    operation: t.field({
      type: OperationRef,
      description: "Operation that the run belongs to.",
      resolve: (run, _args, context) => operationOf(run, context),
    }),
    node: nodeField(t, "Node of the run; null if it has been deleted."),
    nodeName: t.exposeString("nodeName", { description: "Name of the node when the run was created." }),
    purpose: t.expose("purpose", { type: RunPurposeEnum, description: "Purpose of the run." }),
    state: t.expose("state", { type: RunStateEnum, description: "Current state." }),
    target: t.expose("target", {
      type: NodeStateEnum,
      description: "State of the node when the run succeeds.",
    }),
    attempt: t.exposeInt("attempt", { description: "Number of the attempt: 1, and one more with each restart." }),
    restartOfRun: t.field({
      type: RunRef,
      nullable: true,
      description: "Run that this one restarts; null if it is not a restart.",
      resolve: ({ restartOf }, _args, { load }) => (restartOf === null ? null : load.run.load(restartOf)),
    }),
    variables: variablesField(
      t,
      "Effective variables: the cluster's settings when the operation was accepted, merged with the variables of the request.",
    ),
    wakeAt: t.expose("wakeAt", {
      type: "DateTime",
      nullable: true,
      description: "Time at which a parked run continues at the latest; null if it is not parked or has no such time.",
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

builder.objectFields(RunRef, (t) => ({
  steps: t.field({
    type: [StepRef],
    description: "All steps of the run, in the order of execution, whether they have started or not.",
    resolve: (run, _args, context) => stepsOf(run, context),
  }),
  currentStep: t.field({
    type: StepRef,
    nullable: true,
    description:
      "Running or next step, of a STOPPED run the one before which it stopped; null if it has ended otherwise.",
    resolve: async (run, _args, context) =>
      isUnfinished(run.state) || run.state === "STOPPED" ? ((await stepsOf(run, context))[run.position] ?? null) : null,
  }),
  failure: t.field({
    type: FailureRef,
    nullable: true,
    description: "Reason why the run failed, or why its abort had problems; null otherwise.",
    resolve: ({ failure, interruptFailure }) => failure ?? interruptFailure,
  }),
  errors: t.expose("errors", {
    type: [FailureRef],
    description: "Failures of steps during a best-effort operation.",
  }),
  cleanupFailed: t.boolean({
    description: "Whether a step of a best-effort operation failed: data that it should have removed may still exist.",
    resolve: ({ errors }) => errors.length > 0,
  }),
  rejectedCallbacks: t.field({
    type: [RejectedCallbackRef],
    description: "Rejected callbacks of the run, oldest first; at most 100 are recorded.",
    resolve: ({ id }, _args, { load }) => load.rejectedCallbacks.load(id),
  }),
  machineCondition: t.expose("leftAs", {
    type: MachineConditionRef,
    nullable: true,
    description:
      "Condition in which an abort or the failure of a step left the node; null if neither has ended the run.",
  }),
}));

builder.objectFields(RunRef, (t) => ({
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
}));

async function operationOf({ id, operationId }: RunRow, { load }: Context): Promise<OperationRow> {
  const operation = await load.operation.load(operationId);
  if (!operation) throw new Error(`Run ${id} belongs to operation ${operationId}, which does not exist.`);
  return operation;
}

async function abortVerdict(run: RunRow, context: Context) {
  const step = (await stepsOf(run, context))[run.position];
  return judgeAbort(
    { id: run.nodeId, name: run.nodeName },
    { ...run, step: stepUnderWay(step?.planned, step?.attempts.at(-1)) },
    "NOW",
  );
}

export const RunConnection = connectionType("Run", RunRef, true);

builder.queryField("run", (t) =>
  t.field({
    type: RunRef,
    nullable: true,
    ...needs("READ"),
    description: "One run by global ID or UUID; null if it does not exist.",
    args: { id: t.arg.id({ required: true, description: "Global ID or UUID of the run." }) },
    resolve: (_root, { id }, { load }) => load.run.load(uuidOrNone(keyOf("Run", id))),
  }),
);
