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
  description: "One try of one step. Kept for good.",
  fields: (t) => ({
    number: t.exposeInt("number", { description: "1 for the first try." }),
    state: t.field({ type: StepStateEnum, description: "Where it stands.", resolve: ({ state }) => state }),
    part: t.field({
      type: StepPartEnum,
      description: "Which part of the step it is in, or ended in.",
      resolve: ({ part }) => part,
    }),
    entries: t.exposeInt("entries", {
      description: "How often the driver was called for it: waits, and crashes that it survived, included.",
    }),
    startedAt: t.expose("startedAt", { type: "DateTime", description: "When it began." }),
    deadlineAt: t.expose("deadlineAt", { type: "DateTime", description: "When it fails with TIMEOUT." }),
    finishedAt: t.expose("finishedAt", { type: "DateTime", nullable: true, description: "When it ended." }),
    output: t.field({
      type: "JSON",
      nullable: true,
      description: "What the driver put out.",
      resolve: ({ output }) => output,
    }),
    failure: t.field({
      type: FailureRef,
      nullable: true,
      description: "Why it failed.",
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
  description: "One step of a run: what it is, was and took.",
  fields: (t) => ({
    index: t.exposeInt("index", { description: "Place in the run, from 0." }),
    name: t.string({ description: "Name, e.g. `erase_disks`.", resolve: ({ planned }) => planned.name }),
    title: t.string({ description: "What it does, for people.", resolve: ({ planned }) => planned.title }),
    phase: t.field({ type: PhaseEnum, description: "Phase it belongs to.", resolve: ({ planned }) => planned.phase }),
    interface: t.field({
      type: DriverInterfaceEnum,
      description: "Interface that offers it.",
      resolve: ({ planned }) => planned.interface as "power",
    }),
    driver: t.string({ description: "Driver that runs it.", resolve: ({ planned }) => planned.driver }),
    args: t.field({ type: "JSON", description: "Its arguments.", resolve: ({ planned }) => planned.args }),
    priority: t.int({ description: "Higher ran first.", resolve: ({ planned }) => planned.priority }),
    interruptible: t.field({
      type: InterruptibleEnum,
      description: "Whether it may be cut while it runs.",
      resolve: ({ planned }) => planned.interruptible,
    }),
    idempotent: t.boolean({
      description: "Whether it may be entered again after a crash.",
      resolve: ({ planned }) => planned.idempotent,
    }),
    timeoutSeconds: t.float({
      description: "Longest time of one try from its beginning to its end, waits included.",
      resolve: ({ planned }) => planned.timeoutSeconds,
    }),
    retries: t.int({
      description: "How often it is tried again after a failure that may pass.",
      resolve: ({ planned }) => planned.retries,
    }),
    backoffSeconds: t.float({
      description: "How long after a failure it is tried again.",
      resolve: ({ planned }) => planned.backoffSeconds,
    }),
    state: t.field({ type: StepStateEnum, description: "Where it stands.", resolve: stepState }),
    startedAt: t.field({
      type: "DateTime",
      nullable: true,
      description: "When its first try began.",
      resolve: ({ attempts }) => attempts[0]?.startedAt ?? null,
    }),
    finishedAt: t.field({
      type: "DateTime",
      nullable: true,
      description: "When its last try ended.",
      resolve: ({ attempts }) => attempts.at(-1)?.finishedAt ?? null,
    }),
    attempts: t.field({
      type: [AttemptRef],
      description: "Its tries, oldest first.",
      resolve: ({ attempts }) => [...attempts],
    }),
    output: t.field({
      type: "JSON",
      nullable: true,
      description: "What the driver put out at the last try.",
      resolve: ({ attempts }) => attempts.at(-1)?.output ?? null,
    }),
    failure: t.field({
      type: FailureRef,
      nullable: true,
      description: "Why the last try failed.",
      resolve: ({ attempts }) => attempts.at(-1)?.failure ?? null,
    }),
    progressPercent: t.int({
      nullable: true,
      description: "Progress of the last try, 0 to 100, as the driver told it.",
      resolve: ({ attempts }) => attempts.at(-1)?.progressPercent ?? null,
    }),
    progressMessage: t.string({
      nullable: true,
      description: "What the driver said of it last.",
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
  description: "A call-back that was not taken. Recorded, never applied.",
  fields: (t) => ({
    kind: t.field({ type: AnomalyKindEnum, description: "Why it was not taken.", resolve: ({ kind }) => kind }),
    step: t.exposeString("step", {
      nullable: true,
      description: "Step that the run was at, as `interface.name`; null when all its steps were done.",
    }),
    at: t.expose("at", { type: "DateTime", description: "When it came." }),
  }),
});

const LeftAsRef = builder.objectRef<LeftAs>("LeftAs").implement({
  description: "In what condition an abort left the node, as far as is known.",
  fields: (t) => ({
    power: t.field({
      type: PowerStateEnum,
      description: "Whether the node was left powered on, as last read.",
      resolve: ({ power }) => power,
    }),
    disksTouched: t.exposeBoolean("disksTouched", {
      description:
        "Whether a step had begun that touches disks (`Step.touches`), in this run or in the one whose steps it kept.",
    }),
    firmwareTouched: t.boolean({
      nullable: true,
      description: "Whether a step had begun that writes firmware; null in records of older versions.",
      resolve: ({ firmwareTouched }) => firmwareTouched ?? null,
    }),
    networkAttached: t.boolean({
      nullable: true,
      description: "Whether a step had begun that attaches networks; null in records of older versions.",
      resolve: ({ networkAttached }) => networkAttached ?? null,
    }),
    tearDownError: t.exposeString("tearDownError", {
      nullable: true,
      description: "What the tear-down itself failed with.",
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
  description: "The share of one operation on one node.",
  interfaces: [ResourceRef],
  isTypeOf: (value) => typeof value === "object" && value !== null && "planHash" in value,
  fields: (t) => ({
    id: t.id({ description: "Global ID.", resolve: ({ id }) => globalId("Run", id) }),
    operation: t.field({
      type: OperationRef,
      description: "The operation it is a share of.",
      resolve: (run, _args, context) => operationOf(run, context),
    }),
    node: t.field({
      type: NodeRef,
      nullable: true,
      description: "The node, null if it has been deleted since.",
      resolve: ({ nodeId }, _args, { load }) => load.node.load(nodeId),
    }),
    nodeName: t.exposeString("nodeName", { description: "Name of the node when the run was made." }),
    purpose: t.field({ type: RunPurposeEnum, description: "Why it is made.", resolve: ({ purpose }) => purpose }),
    state: t.field({ type: RunStateEnum, description: "Where it stands.", resolve: ({ state }) => state }),
    target: t.field({
      type: NodeStateEnum,
      description: "State of the node at the end of it, if all goes well.",
      resolve: ({ target }) => target,
    }),
    attempt: t.exposeInt("attempt", { description: "1, and one more with each restart." }),
    restartOf: t.field({
      type: RunRef,
      nullable: true,
      description: "Run that it takes up again.",
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
      description: "All its steps, in the order of execution: before, during and after.",
      resolve: (run, _args, context) => stepsOf(run, context),
    }),
    currentStep: t.field({
      type: StepRef,
      nullable: true,
      description: "The step that is under way or next; null when it has ended.",
      resolve: async (run, _args, context) =>
        isUnfinished(run.state) ? ((await stepsOf(run, context))[run.position] ?? null) : null,
    }),
    wakeAt: t.expose("wakeAt", { type: "DateTime", nullable: true, description: "Until when it is parked at most." }),
    abortable: t.boolean({
      description: "Whether an abort would be accepted now without `mode: AFTER_STEP`.",
      resolve: async (run, _args, context) => isUnfinished(run.state) && (await abortVerdict(run, context)).accepted,
    }),
    abortBlockedBy: t.field({
      type: ErrorCodeEnum,
      nullable: true,
      description: "Why an abort would be refused now, null when it would not.",
      resolve: async (run, _args, context) => {
        if (!isUnfinished(run.state)) return "NOTHING_RUNNING";
        const verdict = await abortVerdict(run, context);
        return verdict.accepted ? null : verdict.refusal.code;
      },
    }),
    abortPendingAfterStep: t.string({
      nullable: true,
      description: "The step after which a recorded abort takes effect; null when none is pending.",
      resolve: async (run, _args, context) => {
        if (run.interrupt !== "ABORT" || !isUnfinished(run.state)) return null;
        const verdict = await abortVerdict(run, context);
        return verdict.accepted ? verdict.afterStep : null;
      },
    }),
    abortWithdrawable: t.boolean({
      description:
        "Whether `withdrawAbort` would be accepted now: an abort is pending, and nothing of it has been done.",
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
        "Effective variables: the cluster's settings as they were when the operation was accepted, overlaid with the request's.",
      resolve: ({ variables }) => variables,
    }),
    failure: t.field({
      type: FailureRef,
      nullable: true,
      description: "Why it failed, or what went wrong with its abort.",
      resolve: ({ failure }) => failure,
    }),
    errors: t.field({
      type: [FailureRef],
      description: "Steps that failed on the way of a best-effort operation.",
      resolve: ({ errors }) => [...errors] as Failure[],
    }),
    cleanupFailed: t.boolean({
      description:
        "Whether a step failed on the way of a best-effort operation: what it was to clean may still be there.",
      resolve: ({ errors }) => errors.length > 0,
    }),
    anomalies: t.field({
      type: [AnomalyRef],
      description: "Call-backs for it that were not taken, oldest first; at most 100 are recorded.",
      resolve: async ({ id }, _args, { load }) => [...(await load.anomalies.load(id))],
    }),
    leftAs: t.field({
      type: LeftAsRef,
      nullable: true,
      description: "In what condition an abort left the node.",
      resolve: ({ leftAs }) => leftAs,
    }),
    createdAt: t.expose("createdAt", { type: "DateTime", description: "When it was accepted." }),
    startedAt: t.expose("startedAt", {
      type: "DateTime",
      nullable: true,
      description: "When a process first took it up.",
    }),
    finishedAt: t.expose("finishedAt", { type: "DateTime", nullable: true, description: "When it ended." }),
  }),
});

export const RunConnection = connectionType("Run", RunRef);
