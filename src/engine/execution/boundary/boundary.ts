/**
 * The boundary between two steps: decides how a claimed run continues and notes it in the run's ledger (ledger.ts). It
 * begins the next step, parks the run, releases it, or ends it. Drivers are never called here; the directive that is
 * returned says what to do after the commit.
 */
import { isDestructive, pausesInMaintenance } from "../../../lifecycle/admission.ts";
import { conflictMessage, conflictReason } from "../../../lifecycle/identity.ts";
import { atBoundary } from "../../../lifecycle/interrupts.ts";
import { edge, kindOf } from "../../../lifecycle/machine.ts";
import { latestAttempt, newAttempt } from "../../../store/runs/attempts.ts";
import type { TimedAttempt } from "../../../store/runs/attempts.ts";
import { lockNodes } from "../../../store/nodes/nodes.ts";
import type { PlannedStep, WaitReason } from "../../../store/records.ts";
import { PRIORITY } from "../../../store/runs/run-claims.ts";
import type { ClaimedRunChange } from "../../../store/runs/runs.ts";
import { readSite } from "../../../store/site.ts";
import { isHold } from "../../plans/reserved-steps.ts";
import { limitOn, slotsOf } from "../../scheduling/capacity-limits.ts";
import { ENGINE } from "../../scheduling/start-runs.ts";
import { RELEASE, changeNode, enterLegs, leaveLeg, moveNode, resume } from "../claim/claimed-run.ts";
import type { ClaimedRun, EnterStep, Release, RunContext, RunDirective, StepContext } from "../claim/claimed-run.ts";
import { configurationOf } from "./deployment-inputs.ts";
import { beginAbort, endCleanUpFault, failRun } from "./end-run.ts";
import type { Ledger } from "../commit/ledger.ts";

/** Continues the run at a position, where no step is running. */
export async function passBoundary(context: RunContext, position: number): Promise<RunDirective> {
  const { environment, ledger, claimed, interrupt } = context;
  endFaultAfterLeg(context, claimed.plan.steps[position]?.leg ?? claimed.plan.legs.length);
  switch (atBoundary({ interrupt, workLeft: position < claimed.plan.steps.length })) {
    case "ABORT":
      return beginAbort(claimed, null, { isStepOver: position > claimed.position });
    case "STOP":
      return stopRun(context, position);
    case "FINISH":
      return completeRun(context, position);
    case "GO_ON":
      if (!environment.isDraining()) return beginStep(context, position, 1);
      ledger.changeRun({ position, leg: claimed.leg, owner: null, dueAt: ledger.now, priority: PRIORITY.begun });
      return RELEASE;
  }
}

function stopRun(context: RunContext, position: number): Release {
  const { ledger, claimed } = context;
  const { run } = claimed;
  // A stop of the whole operation may be recorded on the operation alone.
  const [by, reason] = run.interrupt
    ? [run.interruptBy, run.interruptReason]
    : [run.operationInterruptBy, run.operationInterruptReason];
  if (edge(claimed.node.state, "stop")) moveNode(context, "stop", { actor: by ?? ENGINE, reason });
  ledger.changeRun({ position, leg: claimed.leg });
  ledger.endRun("STOPPED");
  return RELEASE;
}

function completeRun(context: RunContext, position: number): Release {
  const { ledger, claimed } = context;
  const { plan } = claimed;
  resume(context);
  enterLegs(context, plan.legs.length - 1);
  for (const event of plan.finish) {
    const isDeployed = event === "done" && claimed.node.state === "DEPLOYING";
    if (isDeployed) ledger.noteInputs({ configuration: configurationOf(context) });
    moveNode(
      context,
      event,
      {},
      {
        // A clean-up leaves the error that it follows from.
        ...(claimed.run.purpose === "WORK" && { lastError: null }),
        ...(isDeployed && { stage: "DEPLOYED" as const }),
        ...(isDeployed && claimed.run.hostGroup !== null && { hostGroup: claimed.run.hostGroup }),
      },
    );
  }
  if (plan.finish.length === 0 && isSettledInPlace(claimed)) changeNode(context, { lastError: null });
  if (claimed.run.purpose === "CLEAN_UP") endCleanUpFault(context);
  ledger.changeRun({ position, leg: claimed.leg });
  ledger.endRun("SUCCEEDED");
  return RELEASE;
}

/**
 * A verification or a cleaning whose steps have succeeded ends the fault of a failed clean-up, whatever becomes of the
 * legs that follow. A leg of which no step has run (all of them are kept from an earlier run, or it has none) ends no
 * fault: the clean-up may have failed after it.
 */
function endFaultAfterLeg(context: RunContext, nextLeg: number): void {
  const { leg, plan } = context.claimed;
  const phase = plan.legs[leg]?.phase;
  const hasRun = leg < nextLeg && plan.steps.some((step) => step.leg === leg && !step.kept);
  if (hasRun && (phase === "verify" || phase === "clean") && !plan.bestEffort) endCleanUpFault(context);
}

/** Work in place settles the error of earlier work in place, such as a failed change of power, and no other. */
function isSettledInPlace({ node: { state, lastError }, plan }: ClaimedRun): boolean {
  if (lastError === null || kindOf(state) === "failed") return false;
  const { step } = lastError;
  return step === null || plan.steps.some((done) => step.startsWith(`${done.interface}.`));
}

/**
 * Begins attempt `number` of a step, unless maintenance or a limit keeps every new step from beginning. A node that
 * seems to be the same machine as another one is not erased: the run ends.
 */
export async function beginStep(context: RunContext, position: number, number: number): Promise<RunDirective> {
  const { ledger, claimed } = context;
  const step = claimed.plan.steps[position];
  if (!step) throw new Error(`Run ${claimed.run.id} has no step ${position}.`);
  const { identityConflict } = claimed.node;
  if (identityConflict && isDestructive(step.phase)) {
    leaveLeg(context, step.leg);
    const [message, reason] = [conflictMessage(claimed.node.name, identityConflict), conflictReason(identityConflict)];
    const before = number === 1 ? undefined : await latestAttempt(ledger.transaction.tx, claimed.run.id, position);
    return failRun(context, before ?? null, { code: "IDENTITY_CONFLICT", reason, message, retryable: false });
  }
  if (pausesInMaintenance(claimed.plan) && (await maintenanceSince(context)) !== null)
    return parkBetween(context, position, { waitReason: "MAINTENANCE", ...slotsOf(undefined, null) });
  const waitFor = await slotWanted(context, step);
  if (waitFor !== null) return parkBetween(context, position, { waitReason: "CAPACITY", waitFor, slotPhase: null });
  resume(context);
  enterLegs(context, step.leg);
  const attempt = newAttempt(
    {
      runId: claimed.run.id,
      step: position,
      number,
      timeoutSeconds: step.timeoutSeconds,
      label: `${step.interface}.${step.name}`,
      driver: step.driver,
      model: claimed.node.model,
      operationId: claimed.run.operationId,
      nodeId: claimed.run.nodeId,
      clusterId: claimed.run.clusterId,
      hostGroup: claimed.run.hostGroup ?? claimed.node.hostGroup,
      actor: claimed.run.operationActor,
    },
    ledger.now,
  );
  ledger.beginAttempt(attempt);
  const inStep: StepContext = { ...context, step, attempt };
  return isHold(step) ? beginHold(inStep) : enterStep(inStep);
}

/**
 * The flag was read without the node's lock. A request that clears it takes that lock and wakes the runs it finds
 * parked.
 */
export async function maintenanceSince({ ledger, claimed }: RunContext): Promise<Date | null> {
  if (ledger.run.maintenanceSince === null) return null;
  const [node] = await lockNodes(ledger.transaction.tx, [claimed.node.id]);
  return node?.maintenanceSince ?? null;
}

/** The limit that the run waits for before it begins the step; null if it has its slots or needs none. */
async function slotWanted({ ledger, claimed }: RunContext, step: PlannedStep): Promise<string | null> {
  const { run, plan } = claimed;
  const phase = plan.legs[step.leg]?.phase;
  const controller = run.slotController === run.controller ? null : run.controller;
  if (!run.isLimited || (run.slotPhase === phase && controller === null)) return null;
  const { policy } = await readSite(ledger.transaction.tx);
  return limitOn(policy, run.slotPhase === phase ? undefined : phase, controller);
}

/**
 * Parks a run between two steps, until the end of its wait wakes it. Between two phases the node waits at
 * rest, where the route has such a state.
 */
function parkBetween(
  context: RunContext,
  position: number,
  why: ClaimedRunChange & { readonly waitReason: WaitReason },
): Release {
  const { ledger, claimed } = context;
  leaveLeg(context, claimed.plan.steps[position]?.leg ?? claimed.leg);
  if (edge(claimed.node.state, "wait"))
    moveNode(context, "wait", {
      reason: why.waitReason === "MAINTENANCE" ? "the node is in maintenance" : "a limit of the service is reached",
    });
  ledger.changeRun({ ...parked(ledger, why.waitReason, null), position, leg: claimed.leg, ...why });
  return releaseParked(context);
}

/** Parked for a number of seconds; null: until a request or a free slot wakes it. */
export function parked(ledger: Ledger, waitReason: WaitReason, seconds: number | null): ClaimedRunChange {
  const wakeAt = seconds === null ? null : new Date(ledger.now.getTime() + seconds * 1000);
  return {
    state: "WAITING",
    owner: null,
    waitReason,
    waitingSince: ledger.now,
    wakeAt,
    dueAt: wakeAt,
    priority: PRIORITY.begun,
  };
}

function releaseParked({ environment, ledger }: RunContext): Release {
  ledger.wakeIfStopped();
  ledger.afterCommit(environment.nudge);
  return RELEASE;
}

/** During a hold the run has no slots. */
function beginHold(context: StepContext): Release {
  const { ledger, claimed, step, attempt } = context;
  claimed.position = attempt.step;
  ledger.changeAttempt(attempt, { state: "WAITING" });
  const reason = typeof step.args["reason"] === "string" ? step.args["reason"] : null;
  const event = edge(claimed.node.state, "hold") ? "hold" : "wait";
  if (edge(claimed.node.state, event)) moveNode(context, event, { reason });
  // A hold is a new generation without a callback URL, so a report to the previous step's URL is rejected as LATE.
  const entry = { generation: claimed.run.generation + 1, openGeneration: null };
  ledger.changeRun({
    ...parked(ledger, "HOLD", null),
    state: "HOLDING",
    position: attempt.step,
    leg: claimed.leg,
    ...entry,
    ...slotsOf(undefined, null),
  });
  return releaseParked(context);
}

function enterStep({ environment, ledger, claimed, step, attempt }: StepContext): EnterStep {
  const generation = claimed.run.generation + 1;
  claimed.position = attempt.step;
  const slots = slotsOf(claimed.plan.legs[claimed.leg]?.phase, claimed.run.controller);
  ledger.changeRun({
    position: attempt.step,
    leg: claimed.leg,
    state: "RUNNING",
    generation,
    openGeneration: generation,
    ...slots,
  });
  // The slot of the previous phase is free.
  if (claimed.run.slotPhase !== slots.slotPhase) ledger.afterCommit(environment.nudge);
  const leftMs = attempt.deadlineAt.getTime() - ledger.now.getTime();
  return { kind: "ENTER_STEP", claimed, step, attempt, generation, leftMs };
}

/** Enters the attempt again. Time during which no process worked on it does not count against its deadline. */
export function enterAgain(context: StepContext & { readonly attempt: TimedAttempt }): EnterStep {
  const { ledger, step, attempt } = context;
  const deadlineAt = attempt.expired ? new Date(ledger.now.getTime() + step.timeoutSeconds * 1000) : attempt.deadlineAt;
  const again = { state: "RUNNING", entries: attempt.entries + 1, deadlineAt } as const;
  // The callback stays until this entry has an outcome: if the process dies, the next one still has the report.
  ledger.changeAttempt(attempt, again);
  return enterStep({ ...context, attempt: { ...attempt, ...again } });
}
