/**
 * What becomes of a run at a boundary: after its claim, after a step, between two steps, and when an abort has been carried
 * out. Everything is noted in the run's ledger (ledger.ts); nothing here calls a driver. The answer says what is to be done
 * next, outside of the transaction.
 */
import { atBoundary } from "../../lifecycle/interrupts.ts";
import { edge, kindOf } from "../../lifecycle/machine.ts";
import type { NodeEvent } from "../../lifecycle/node-states.ts";
import type { Interrupt } from "../../lifecycle/operation-states.ts";
import type { PowerState } from "../../drivers/driver.ts";
import { latestAttempt, newAttempt } from "../../store/attempts.ts";
import type { AttemptRow, TimedAttempt } from "../../store/attempts.ts";
import { lockNodes } from "../../store/nodes.ts";
import type { Failure, LeftAs, PlannedStep, StoredJson, WaitReason } from "../../store/records.ts";
import type { HeldRunChange, RunRow } from "../../store/runs.ts";
import { readSite } from "../../store/site.ts";
import { ENGINE } from "../scheduling/start-runs.ts";
import { changeClaimed, describe, enterLegs, failureOf, moveClaimed, noteInventory, notePower } from "./claimed-run.ts";
import type { Fault, ClaimedRun } from "./claimed-run.ts";
import type { Ledger } from "./ledger.ts";
import { limitOn, slotsOf } from "../scheduling/capacity-limits.ts";
import { hostGroupFlaw } from "../input/name-rules.ts";
import { nextPosition, stepLabel } from "../plans/plan.ts";
import type { Queue } from "../jobs/queue.ts";
import { isHold, isReservedWait } from "../plans/reserved-steps.ts";
import type { StepOutcome } from "./perform-step.ts";
import { interruptOf } from "../scheduling/waiting-runs.ts";

/** What a transaction leaves to be done outside of it. Null: nothing, the job is over. */
export type Next =
  /** `leftMs`: of the attempt's time, by the database's clock. */
  | {
      readonly do: "STEP";
      readonly held: ClaimedRun;
      readonly step: PlannedStep;
      readonly attempt: AttemptRow;
      readonly generation: number;
      readonly leftMs: number;
    }
  | {
      readonly do: "ABORT";
      readonly held: ClaimedRun;
      readonly attempt: AttemptRow | null;
      readonly ignoredSignal: boolean;
      readonly power: PowerState | null;
    }
  | null;

export interface BoundaryParts {
  readonly queue: Queue;
  readonly nudge: () => void;
  /** How long a step may take to end after its signal fired. */
  readonly abortGraceMs: number;
  /** Whether runs are handed back between two steps. */
  isDraining(): boolean;
}

/** A wait for a call-back without a bound of its own: the attempt's deadline bounds it. */
const CALLBACK_WAIT_SECONDS_MAX = 30 * 86_400;

// ---- between two steps

export async function atTheBoundary(
  parts: BoundaryParts,
  ledger: Ledger,
  held: ClaimedRun,
  position: number,
  interrupt: Interrupt | null,
): Promise<Next> {
  const workLeft = position < held.plan.steps.length;
  switch (atBoundary({ interrupt, workLeft })) {
    case "ABORT":
      return beginAbort(held, null);
    case "STOP":
      if (edge(held.node.state, "stop"))
        moveClaimed(ledger, held, "stop", { actor: held.run.interruptBy ?? ENGINE, reason: held.run.interruptReason });
      ledger.changeRun({ position, leg: held.leg });
      return finish(ledger, held, "STOPPED");
    case "FINISH":
      resume(ledger, held);
      enterLegs(ledger, held, held.plan.legs.length - 1);
      for (const event of held.plan.finish)
        moveClaimed(
          ledger,
          held,
          event,
          {},
          event === "done" && held.node.state === "DEPLOYING"
            ? { stage: "DEPLOYED", lastError: null, ...hostGroupOf(held.run) }
            : { lastError: null },
        );
      if (held.plan.finish.length === 0 && held.node.lastError && kindOf(held.node.state) !== "failed")
        changeClaimed(ledger, held, { lastError: null });
      ledger.changeRun({ position, leg: held.leg });
      return finish(ledger, held, "SUCCEEDED");
    case "GO_ON":
      if (!parts.isDraining()) return goOn(parts, ledger, held, position, 1);
      ledger.changeRun({ position, leg: held.leg, owner: null });
      ledger.endJob(held.job, 0);
      return null;
  }
}

/** Begins a step, or its next try, unless something keeps every new one from beginning. */
export async function goOn(
  parts: BoundaryParts,
  ledger: Ledger,
  held: ClaimedRun,
  position: number,
  number: number,
): Promise<Next> {
  const step = held.plan.steps[position];
  if (!step) throw new Error(`Run ${held.run.id} has no step ${position}.`);
  if (await isInMaintenance(ledger, held))
    return parkBetween(parts, ledger, held, position, { waitReason: "MAINTENANCE", ...slotsOf(undefined, null) });
  const waitFor = await placeWanted(ledger, held, step);
  if (waitFor !== null)
    return parkBetween(parts, ledger, held, position, { waitReason: "CAPACITY", waitFor, slotPhase: null });
  resume(ledger, held);
  enterLegs(ledger, held, step.leg);
  const attempt = newAttempt(
    {
      runId: held.run.id,
      step: position,
      number,
      timeoutSeconds: step.timeoutSeconds,
      label: `${step.interface}.${step.name}`,
      driver: step.driver,
      model: held.node.model,
    },
    ledger.now,
  );
  ledger.beginAttempt(attempt);
  return isHold(step) ? beginHold(parts, ledger, held, step, attempt) : enterStep(parts, ledger, held, step, attempt);
}

/** The mark was read without the node's lock; whoever clears it holds that lock and wakes the runs it finds parked. */
async function isInMaintenance(ledger: Ledger, held: ClaimedRun): Promise<boolean> {
  if (!ledger.run.inMaintenance) return false;
  const [node] = await lockNodes(ledger.work.tx, [held.node.id]);
  return node?.maintenanceSince != null;
}

/** The limit that a run has to wait for before it begins the step; null: it has its places, or needs none. */
async function placeWanted(ledger: Ledger, { run, plan }: ClaimedRun, step: PlannedStep): Promise<string | null> {
  const phase = plan.legs[step.leg]?.phase;
  const controller = run.slotController === run.controller ? null : run.controller;
  if (!run.isLimited || (run.slotPhase === phase && controller === null)) return null;
  const { policy } = await readSite(ledger.work.tx);
  return limitOn(policy, run.slotPhase === phase ? undefined : phase, controller);
}

/** Parks a run between two steps, without a job: who or what it waits for wakes it. */
function parkBetween(
  parts: BoundaryParts,
  ledger: Ledger,
  held: ClaimedRun,
  position: number,
  why: HeldRunChange & { readonly waitReason: WaitReason },
): null {
  if (edge(held.node.state, "wait"))
    moveClaimed(ledger, held, "wait", {
      reason: why.waitReason === "MAINTENANCE" ? "the node is in maintenance" : "a limit of the service is reached",
    });
  ledger.changeRun({ ...parked(ledger, why.waitReason, null), position, leg: held.leg, ...why });
  leaveParked(parts, ledger, held);
  return null;
}

/** Parked until so many seconds from now; null: until something wakes it. */
function parked(ledger: Ledger, waitReason: WaitReason, seconds: number | null): HeldRunChange {
  return {
    state: "WAITING",
    owner: null,
    waitReason,
    waitingSince: ledger.now,
    wakeAt: seconds === null ? null : new Date(ledger.now.getTime() + seconds * 1000),
  };
}

/** The run has no job any more. */
function leaveParked(parts: BoundaryParts, ledger: Ledger, held: ClaimedRun): void {
  ledger.endJob(held.job);
  ledger.wakeIfStopped();
  ledger.afterCommit(parts.nudge);
}

/** A hold is no work: the run gives its places back and has no job until somebody lifts the hold. */
function beginHold(
  parts: BoundaryParts,
  ledger: Ledger,
  held: ClaimedRun,
  step: PlannedStep,
  attempt: AttemptRow,
): null {
  held.position = attempt.step;
  ledger.changeAttempt(attempt, { state: "WAITING" });
  const reason = typeof step.args["reason"] === "string" ? step.args["reason"] : null;
  const event = edge(held.node.state, "hold") ? "hold" : "wait";
  if (edge(held.node.state, event)) moveClaimed(ledger, held, event, { reason });
  // An entry like any other, but one that gave no path out: what comes by that of the step before comes too late.
  const entry = { generation: held.run.generation + 1, openGeneration: null };
  ledger.changeRun({
    ...parked(ledger, "HOLD", null),
    state: "HOLDING",
    position: attempt.step,
    leg: held.leg,
    ...entry,
    ...slotsOf(undefined, null),
  });
  leaveParked(parts, ledger, held);
  return null;
}

function enterStep(
  parts: BoundaryParts,
  ledger: Ledger,
  held: ClaimedRun,
  step: PlannedStep,
  attempt: AttemptRow,
): Next {
  const generation = held.run.generation + 1;
  held.position = attempt.step;
  const places = slotsOf(held.plan.legs[held.leg]?.phase, held.run.controller);
  ledger.changeRun({
    position: attempt.step,
    leg: held.leg,
    state: "RUNNING",
    generation,
    openGeneration: generation,
    ...places,
  });
  // Its place in the phase before is free.
  if (held.run.slotPhase !== places.slotPhase) ledger.afterCommit(parts.nudge);
  return { do: "STEP", held, step, attempt, generation, leftMs: attempt.deadlineAt.getTime() - ledger.now.getTime() };
}

/** Enters the attempt once more. Time during which no process was there to work on it does not count against it. */
export function enterAgain(
  parts: BoundaryParts,
  ledger: Ledger,
  held: ClaimedRun,
  step: PlannedStep,
  attempt: TimedAttempt,
): Next {
  const deadlineAt = attempt.expired ? new Date(ledger.now.getTime() + step.timeoutSeconds * 1000) : attempt.deadlineAt;
  const again = { state: "RUNNING", entries: attempt.entries + 1, deadlineAt } as const;
  // Its call-back stays until the entry has come to something: a process that dies in it leaves the report to the next.
  ledger.changeAttempt(attempt, again);
  return enterStep(parts, ledger, held, step, { ...attempt, ...again });
}

export function resume(ledger: Ledger, held: ClaimedRun): void {
  if (kindOf(held.node.state) === "wait") moveClaimed(ledger, held, "resume");
}

/** A node that is deployed is in the host group that it was deployed for. */
function hostGroupOf({ variables }: RunRow): { readonly hostGroup?: string } {
  const group = variables["host_group"];
  return typeof group === "string" && hostGroupFlaw(group, []).length === 0 ? { hostGroup: group } : {};
}

// ---- after a step

/** `generation`: of the entry that has come to the outcome. */
export async function settleStep(
  parts: BoundaryParts,
  ledger: Ledger,
  held: ClaimedRun,
  { step, attempt, generation }: NonNullable<Extract<Next, { do: "STEP" }>>,
  outcome: StepOutcome,
): Promise<Next> {
  const { run } = held;
  // The commit was made though its answer was lost. Nobody else has claimed the run since, so it was this process that
  // parked it, and gave up its ownership, or that began its next entry, which alone raises the generation.
  if (run.owner !== held.job.id) return null;
  if (run.generation !== generation) return goOnWithWhatWasBegun(ledger, held);
  const interrupt = interruptOf(run, run.operationInterrupt);
  if (outcome.powerState !== null) notePower(ledger, held, outcome.powerState);
  switch (outcome.kind) {
    case "done":
      if (outcome.toVerify) return enterVerify(parts, ledger, held, step, attempt, outcome.output, interrupt);
      ledger.changeAttempt(attempt, {
        state: "SUCCEEDED",
        ...(attempt.part !== "VERIFY" && { output: outcome.output }),
        finishedAt: ledger.now,
      });
      if (step.reaches) changeClaimed(ledger, held, { stage: step.reaches });
      if (step.phase === "inspect")
        await noteInventory(ledger, held, attempt.step, attempt.part === "VERIFY" ? attempt.output : outcome.output);
      return atTheBoundary(parts, ledger, held, nextPosition(held.plan, attempt.step + 1), interrupt);
    case "wait":
      return parkStep(parts, ledger, held, step, attempt, outcome, interrupt);
    case "failed":
      return stepFailed(parts, ledger, held, step, attempt, outcome, interrupt);
    case "aborted":
      return beginAbort(held, attempt, outcome);
  }
}

/** The step that the run is in, which this process has begun and not entered: none of its time has been used. */
async function goOnWithWhatWasBegun(ledger: Ledger, held: ClaimedRun): Promise<Next> {
  const { run, plan } = held;
  const attempt = await latestAttempt(ledger.work.tx, run.id, run.position);
  const step = plan.steps[run.position];
  if (!attempt || !step) throw new Error(`Run ${run.id} has lost its step ${run.position}.`);
  const [node] = await lockNodes(ledger.work.tx, [run.nodeId]);
  const now = { ...held, node: node ?? held.node, leg: run.leg, position: run.position };
  if (interruptOf(run, run.operationInterrupt) === "ABORT") return beginAbort(now, attempt);
  const deadlineAt = new Date(ledger.now.getTime() + step.timeoutSeconds * 1000);
  ledger.changeAttempt(attempt, { deadlineAt });
  return {
    do: "STEP",
    held: now,
    step,
    attempt: { ...attempt, deadlineAt },
    generation: run.generation,
    leftMs: step.timeoutSeconds * 1000,
  };
}

/** The work is done and kept; whether it has taken effect is looked at next, in the same attempt. Nothing runs in between. */
function enterVerify(
  parts: BoundaryParts,
  ledger: Ledger,
  held: ClaimedRun,
  step: PlannedStep,
  attempt: AttemptRow,
  output: StoredJson,
  interrupt: Interrupt | null,
): Next {
  const isCut = isCutBy(interrupt, step, held.run);
  const change = { part: isCut ? "ABORT" : "VERIFY", output, memo: null, callback: null } as const;
  ledger.changeAttempt(attempt, change);
  if (isCut) return beginAbort(held, { ...attempt, ...change });
  return enterAgain(parts, ledger, held, step, { ...attempt, ...change, expired: false });
}

/** Whether an abort need not wait for the end of the step. */
export function isCutBy(interrupt: Interrupt | null, step: PlannedStep, run: RunRow): boolean {
  return interrupt === "ABORT" && (step.interruptible !== "NEVER" || run.interruptFailure !== null);
}

async function parkStep(
  parts: BoundaryParts,
  ledger: Ledger,
  held: ClaimedRun,
  step: PlannedStep,
  attempt: AttemptRow,
  outcome: Extract<StepOutcome, { kind: "wait" }>,
  interrupt: Interrupt | null,
): Promise<Next> {
  if (isCutBy(interrupt, step, held.run)) {
    ledger.changeAttempt(attempt, { memo: outcome.memo, part: "ABORT" });
    return beginAbort(held, { ...attempt, memo: outcome.memo });
  }
  // The entry's path is closed by the report that was made to it.
  const now =
    held.run.openGeneration === null ? await latestAttempt(ledger.work.tx, held.run.id, attempt.step) : undefined;
  if (outcome.onCallback && now && now.callback !== null) {
    ledger.changeAttempt(attempt, { memo: outcome.memo });
    return enterAgain(parts, ledger, held, step, { ...now, memo: outcome.memo, expired: false });
  }
  ledger.changeAttempt(attempt, { state: "WAITING", memo: outcome.memo, callback: null });
  if (edge(held.node.state, "wait")) moveClaimed(ledger, held, "wait");
  const left = Math.max(0, (attempt.deadlineAt.getTime() - ledger.now.getTime()) / 1000);
  const seconds = Math.min(outcome.seconds, left, CALLBACK_WAIT_SECONDS_MAX);
  ledger.changeRun(parked(ledger, outcome.onCallback ? "CALLBACK" : "TIME", seconds));
  ledger.endJob(held.job, seconds);
  if (isReservedWait(step)) ledger.wakeIfStopped();
  return null;
}

export async function stepFailed(
  parts: BoundaryParts,
  ledger: Ledger,
  held: ClaimedRun,
  step: PlannedStep,
  attempt: AttemptRow,
  fault: Fault,
  interrupt: Interrupt | null,
): Promise<Next> {
  const failure = failureOf(held, step, { ...fault, reason: describe(held, step, fault.reason) });
  if (interrupt === "ABORT") {
    ledger.changeAttempt(attempt, { part: "ABORT" });
    return beginAbort(held, attempt);
  }
  ledger.changeAttempt(attempt, { state: "FAILED", failure, finishedAt: ledger.now });
  if (!fault.retryable || attempt.number > step.retries || interrupt !== null)
    return givenUp(parts, ledger, held, attempt, failure, interrupt);
  if (edge(held.node.state, "wait")) moveClaimed(ledger, held, "wait", { reason: failure.message });
  ledger.changeRun(parked(ledger, "RETRY", step.backoffSeconds));
  ledger.endJob(held.job, step.backoffSeconds);
  ledger.wakeIfStopped();
  return null;
}

/** A step has failed for good. */
export async function givenUp(
  parts: BoundaryParts,
  ledger: Ledger,
  held: ClaimedRun,
  attempt: AttemptRow,
  failure: Failure,
  interrupt: Interrupt | null,
): Promise<Next> {
  if (!held.plan.bestEffort) return endFailed(ledger, held, failure);
  const errors = [...held.run.errors, failure];
  ledger.changeRun({ errors });
  return atTheBoundary(
    parts,
    ledger,
    { ...held, run: { ...held.run, errors } },
    nextPosition(held.plan, attempt.step + 1),
    interrupt,
  );
}

export function failRun(ledger: Ledger, held: ClaimedRun, attempt: AttemptRow | null, fault: Fault): null {
  const failure = failureOf(held, held.plan.steps[held.position], fault);
  if (attempt && attempt.finishedAt === null)
    ledger.changeAttempt(attempt, { state: "FAILED", failure, finishedAt: ledger.now });
  return endFailed(ledger, held, failure);
}

function endFailed(ledger: Ledger, held: ClaimedRun, failure: Failure): null {
  if (edge(held.node.state, "fail"))
    moveClaimed(ledger, held, "fail", { reason: failure.message }, { lastError: failure });
  else changeClaimed(ledger, held, { lastError: failure });
  return finish(ledger, held, "FAILED", { failure });
}

function finish(
  ledger: Ledger,
  held: ClaimedRun,
  state: "SUCCEEDED" | "FAILED" | "STOPPED",
  change: { readonly failure?: Failure } = {},
): null {
  ledger.endJob(held.job);
  ledger.endRun(state, change);
  return null;
}

// ---- abort

export function beginAbort(
  held: ClaimedRun,
  attempt: AttemptRow | null,
  outcome?: Extract<StepOutcome, { kind: "aborted" }>,
): Next {
  return {
    do: "ABORT",
    held,
    attempt,
    ignoredSignal: outcome?.ignoredSignal ?? false,
    power: outcome?.powerState ?? null,
  };
}

/** The machine has been torn down; the run ends. */
export function settleAbort(
  { abortGraceMs }: BoundaryParts,
  ledger: Ledger,
  held: ClaimedRun,
  { attempt, ignoredSignal }: Extract<Next, { do: "ABORT" }>,
  left: LeftAs,
): null {
  const { run } = held;
  const step = held.plan.steps[run.position];
  if (attempt && attempt.finishedAt === null)
    ledger.changeAttempt(attempt, { state: "ABORTED", finishedAt: ledger.now });
  const flaw = [
    ignoredSignal
      ? `${stepLabel(step)} did not end within ${abortGraceMs / 1000} s of the abort and may still be at work`
      : null,
    left.tearDownError,
  ].filter((text) => text !== null);
  const failure =
    withDeafness(run.interruptFailure, ignoredSignal) ??
    (flaw.length > 0
      ? failureOf(held, step, {
          code: ignoredSignal ? "TIMEOUT" : "BACKEND_FAILED",
          reason: `Node ${held.node.name} was aborted, but ${flaw.join("; ")}. Look at the node before you use it again.`,
          retryable: false,
        })
      : null);
  const event: NodeEvent = run.interruptFailure ? "fail" : "abort";
  if (edge(held.node.state, event))
    moveClaimed(
      ledger,
      held,
      event,
      { actor: run.interruptBy ?? ENGINE, reason: run.interruptReason ?? failure?.message ?? null },
      { lastError: failure },
    );
  else if (failure) changeClaimed(ledger, held, { lastError: failure });
  notePower(ledger, held, left.power);
  ledger.endJob(held.job);
  ledger.endRun(run.interruptFailure || ignoredSignal ? "FAILED" : "ABORTED", {
    ...(failure && { failure }),
    leftAs: left,
  });
  return null;
}

/** The failure that an abort is the consequence of, with what makes it worse. */
function withDeafness(failure: Failure | null, ignoredSignal: boolean): Failure | null {
  return failure && ignoredSignal
    ? { ...failure, message: `${failure.message} The step did not end when it was told to, and may still be at work.` }
    : failure;
}
