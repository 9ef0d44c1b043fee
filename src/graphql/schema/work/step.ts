/** Steps of a run with their attempts. */
import type { DriverTry, PlannedStep } from "../../../store/records.ts";
import type { AttemptRow } from "../../../store/runs/attempts.ts";
import type { RunRow } from "../../../store/runs/runs.ts";
import { builder, wholeSeconds } from "../../base/builder.ts";
import type { Context } from "../../base/context.ts";
import {
  DriverInterfaceEnum,
  FailureKindEnum,
  InterruptibleEnum,
  PhaseEnum,
  StepPartEnum,
  StepStateEnum,
} from "../../base/enums.ts";
import { FailureRef, RunRef } from "../../base/refs.ts";

export const DriverCallRef = builder.objectRef<DriverTry>("DriverCall").implement({
  description: "Call of one of the drivers that a node names for an interface.",
  fields: (t) => ({
    interface: t.field({
      type: DriverInterfaceEnum,
      description: "Interface that was called.",
      resolve: (call) => call.interface as "power",
    }),
    call: t.exposeString("call", { description: "What was called, such as `power set on`." }),
    driver: t.exposeString("driver", { description: "Driver that was called." }),
    at: t.field({ type: "DateTime", description: "End time of the call.", resolve: ({ at }) => new Date(at) }),
    kind: t.expose("kind", {
      type: FailureKindEnum,
      nullable: true,
      description: "Cause of its failure; null if it succeeded.",
    }),
    error: t.exposeString("error", {
      nullable: true,
      description: "Why it failed, for people; null if it succeeded.",
    }),
  }),
});

export const AttemptRef = builder.objectRef<AttemptRow>("StepAttempt");
builder.objectType(AttemptRef, {
  description: "Attempt of a step. Never deleted.",
  fields: (t) => ({
    run: t.field({
      type: RunRef,
      description: "Run that the attempt belongs to.",
      resolve: ({ runId }, _args, { load }) => runOf(runId, load),
    }),
    step: t.string({ description: "Step, as `interface.name`.", resolve: ({ label }) => label ?? "" }),
    number: t.exposeInt("number", { description: "Number of the attempt, from 1." }),
    state: t.expose("state", { type: StepStateEnum, description: "Current state." }),
    part: t.expose("part", {
      type: StepPartEnum,
      description: "Part of the step that the attempt is in, or ended in.",
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
    durationSeconds: t.float({
      nullable: true,
      description: "Time from its start to its end in seconds, waits included; null if it has not ended.",
      resolve: ({ startedAt, finishedAt }) => finishedAt && (finishedAt.getTime() - startedAt.getTime()) / 1_000,
    }),
    output: t.expose("output", {
      type: "JSON",
      nullable: true,
      description: "Output of the driver; null if there is none.",
    }),
    driverCalls: t.field({
      type: [DriverCallRef],
      description:
        "Calls of interfaces for which the node names several drivers, oldest first, at most the newest 50. Empty if it names one.",
      resolve: ({ driverTries }) => driverTries ?? [],
    }),
    failure: t.expose("failure", {
      type: FailureRef,
      nullable: true,
      description:
        "Reason for the failure; null if it did not fail. While it waits for a controller that is away: why, and since when.",
    }),
  }),
});

async function runOf(id: string, load: Context["load"]): Promise<RunRow> {
  const run = await load.run.load(id);
  if (!run) throw new Error(`Run ${id} has an attempt, but does not exist.`);
  return run;
}

/** A planned step with its attempts. */
export interface StepView {
  readonly index: number;
  readonly planned: PlannedStep;
  readonly attempts: readonly AttemptRow[];
  /** Whether the step can still start. */
  readonly open: boolean;
  /** The node of the plan. */
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
    timeoutSeconds: t.int({
      description:
        "Maximum duration of one attempt in seconds, waits included; rounded up. 2147483647 if it never times out.",
      resolve: ({ planned }) => wholeSeconds(planned.timeoutSeconds),
    }),
    retries: t.int({
      description: "Maximum number of retries after retryable failures.",
      resolve: ({ planned }) => planned.retries,
    }),
    backoffSeconds: t.int({
      description: "Delay before a retry, in seconds; rounded up.",
      resolve: ({ planned }) => wholeSeconds(planned.backoffSeconds),
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
    attempts: t.expose("attempts", {
      type: [AttemptRef],
      description: "Attempts of the step, oldest first.",
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
      description:
        "Progress of the last attempt in percent, as reported by the driver: 100 if it succeeded, null if it reported none.",
      resolve: progressPercent,
    }),
    progressMessage: t.string({
      nullable: true,
      description: "Last progress message of the driver; null if there is none.",
      resolve: ({ attempts }) => attempts.at(-1)?.progressMessage ?? null,
    }),
  }),
});

builder.objectField(StepRef, "revision", (t) =>
  t.string({
    nullable: true,
    description:
      "Revision of the files that the driver runs, such as the project of `ansible`. If they have changed when the step begins, it fails with STALE_REVISION. Null if the step depends on the driver alone.",
    resolve: ({ planned }) => planned.revision ?? null,
  }),
);

function progressPercent({ attempts }: StepView): number | null {
  const last = attempts.at(-1);
  const reported = last?.progressPercent ?? null;
  return last?.state === "SUCCEEDED" && reported !== null ? 100 : reported;
}

/** `interface.name`, as in messages and logs. */
export function stepName(planned: Pick<PlannedStep, "interface" | "name"> | undefined): string {
  return planned ? `${planned.interface}.${planned.name}` : "";
}

function stepState({ planned, attempts, open }: StepView) {
  const last = attempts.at(-1);
  if (last) return last.state;
  return planned.kept ? ("KEPT" as const) : open ? ("PENDING" as const) : ("SKIPPED" as const);
}

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
