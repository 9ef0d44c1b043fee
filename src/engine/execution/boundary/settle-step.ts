/**
 * The outcome of a step: notes it in the run's ledger and continues the run. A step that is done passes the boundary or
 * enters its verify part, one that waits is parked, and one that failed is retried, or undone like an aborted one
 * before it ends the run. A machine that must not be cut is left alone.
 */
import { SECRETS, variablesEncryption, withSecretNames } from "../../../store/secrets/secrets.ts";
import { cancels } from "../../../lifecycle/interrupts.ts";
import { edge } from "../../../lifecycle/machine.ts";
import type { Interrupt } from "../../../lifecycle/operation-states.ts";
import { mustNotBeCut } from "../../../lifecycle/touches.ts";
import { isPoweredOffByAbort } from "../../../lifecycle/verbs.ts";
import { attemptsOf, latestAttempt } from "../../../store/runs/attempts.ts";
import { lockNodes } from "../../../store/nodes/nodes.ts";
import type { Failure, JsonObject, PlannedStep, StoredJson } from "../../../store/records.ts";
import type { RunRow } from "../../../store/runs/runs.ts";
import { sentence } from "../../../runtime/text.ts";
import { fitOf } from "../../images/machine-facts.ts";
import { installStepOf, nextPosition, stepLabel } from "../../plans/plan.ts";
import { isReservedWait, isVerification } from "../../plans/reserved-steps.ts";
import type { AbortedMachine } from "../call/abort-machine.ts";
import { enterAgain, parked, passBoundary } from "./boundary.ts";
import { installedSystem } from "./deployment-inputs.ts";
import { RELEASE, changeNode, leaveLeg, moveNode, notePower, toFailure } from "../claim/claimed-run.ts";
import type { AbortMachine, EnterStep, RunContext, RunDirective, StepContext } from "../claim/claimed-run.ts";
import type { Fault } from "../call/driver-result.ts";
import { beginAbort, endAborted, failRun } from "./end-run.ts";
import { erasureFault } from "../call/erasure.ts";
import { noteInventory } from "./note-inventory.ts";
import type { StepOutcome } from "../call/perform-step.ts";

/**
 * Why the image of the run cannot be installed on the disks that the agent has just found. Nothing has been erased yet.
 */
function diskFault({ ledger, claimed, step }: StepContext, found: JsonObject | null) {
  const { plan, node, run, machine, installed } = claimed;
  const { driver, leg } = installStepOf(plan) ?? {};
  const isOfAgent =
    step.driver === driver && machine.composition.drivers.some((one) => one.name === driver && one.usesAgent);
  if (!installed.image || !found || leg === undefined || leg < step.leg || !isOfAgent) return null;
  const inspection = { data: found, takenAt: ledger.now };
  const { flaws } = fitOf(
    installed.image,
    { node, driver: step.driver, variables: run.variables },
    { newest: inspection, byAgent: inspection },
  );
  const [flaw] = flaws;
  return flaw ? { code: flaw.code, reason: flaw.message, message: flaw.message, retryable: false } : null;
}

/** A wait for a callback without a limit of its own ends with the attempt's deadline. */
const CALLBACK_WAIT_SECONDS_MAX = 30 * 86_400;

export async function settleStep(
  run: RunContext,
  { step, attempt: entered, generation }: EnterStep,
  outcome: StepOutcome,
): Promise<RunDirective> {
  const { ledger, claimed, interrupt } = run;
  // An earlier commit of this outcome succeeded although its answer was lost. No other process has claimed the run
  // since, so this process parked it and gave up its ownership, or began its next entry, which alone raises the
  // generation.
  if (claimed.run.owner === null) return RELEASE;
  if (claimed.run.generation !== generation) return continueBegunStep(run);
  if (entered.recoveries > 0) ledger.changeAttempt(entered, { recoveries: 0 });
  const attempt = noteEntry(run, { ...entered, recoveries: 0 }, outcome);
  const context: StepContext = { ...run, step, attempt };
  if (outcome.powerState !== null) notePower(context, outcome.powerState);
  if (outcome.kind !== "failed" && attempt.failure) ledger.changeAttempt(attempt, { failure: null });
  switch (outcome.kind) {
    case "done": {
      const unproven = attempt.part === "VERIFY" ? null : await erasureFault(context, outcome.output);
      if (unproven) {
        ledger.changeAttempt(attempt, { output: outcome.output });
        return failStep(context, unproven);
      }
      if (outcome.given) await noteOutputs(context, outcome.given);
      if (outcome.toVerify) return enterVerify(context, outcome.output);
      ledger.changeAttempt(attempt, {
        state: "SUCCEEDED",
        ...(attempt.part !== "VERIFY" && { output: outcome.output }),
        finishedAt: ledger.now,
      });
      if (step.reaches) {
        changeNode(context, { stage: step.reaches, imageId: claimed.installed.image?.id ?? null });
        ledger.noteInputs({ system: installedSystem(context) });
      }
      const next = nextPosition(claimed.plan, attempt.step + 1);
      if (step.phase === "inspect") {
        const output = attempt.part === "VERIFY" ? attempt.output : outcome.output;
        const unfit = diskFault(context, await noteInventory(context, attempt.step, output));
        if (unfit && interrupt === null) {
          leaveLeg(context, claimed.plan.steps[next]?.leg ?? claimed.leg);
          return failRun(context, null, unfit);
        }
      }
      return passBoundary(context, next);
    }
    case "wait":
      return parkStep(context, outcome);
    case "failed":
      return failStep(context, await believedFault(context, outcome), outcome.ignoredSignal);
    case "aborted":
      return beginAbort(claimed, attempt, { ignoredSignal: outcome.ignoredSignal, power: outcome.powerState });
  }
}

/** Stores what other nodes can take of the output of a step. */
async function noteOutputs(context: StepContext, given: JsonObject): Promise<void> {
  const { environment, ledger, claimed, step } = context;
  const secret = withSecretNames(given, step.outputs?.secret ?? []);
  const encrypt = await variablesEncryption(ledger.transaction.tx, environment.keyring, SECRETS.nodeOutputs, [secret]);
  changeNode(context, { outputs: { ...claimed.node.outputs, ...encrypt(claimed.node.id, secret) } });
}

/** The newest calls that an attempt keeps. */
const TRIES_MAX = 50;

/** A wait that is not worth a change of the deadline. */
const HELD_MS_MIN = 1_000;

/** Adds calls of drivers to those of earlier entries, and moves its deadline by the time before its call. */
function noteEntry({ ledger }: RunContext, attempt: EnterStep["attempt"], { tries = [], heldMs = 0 }: StepOutcome) {
  const change = {
    ...(tries.length > 0 && { driverTries: [...(attempt.driverTries ?? []), ...tries].slice(-TRIES_MAX) }),
    ...(heldMs >= HELD_MS_MIN && { deadlineAt: new Date(attempt.deadlineAt.getTime() + heldMs) }),
  };
  if (Object.keys(change).length > 0) ledger.changeAttempt(attempt, change);
  return { ...attempt, ...change };
}

/** Continues a step that this process has begun and not entered: none of its time has been used. */
export async function continueBegunStep({ ledger, claimed, interrupt }: RunContext): Promise<RunDirective> {
  const { run, plan } = claimed;
  const attempt = await latestAttempt(ledger.transaction.tx, run.id, run.position);
  const step = plan.steps[run.position];
  if (!attempt || !step) throw new Error(`Run ${run.id} has lost its step ${run.position}.`);
  const [node] = await lockNodes(ledger.transaction.tx, [run.nodeId]);
  const current = { ...claimed, node: node ?? claimed.node, leg: run.leg, position: run.position };
  if (interrupt === "ABORT") return beginAbort(current, attempt);
  const deadlineAt = new Date(ledger.now.getTime() + step.timeoutSeconds * 1000);
  ledger.changeAttempt(attempt, { deadlineAt });
  return {
    kind: "ENTER_STEP",
    claimed: current,
    step,
    attempt: { ...attempt, deadlineAt },
    generation: run.generation,
    leftMs: step.timeoutSeconds * 1000,
  };
}

/** Stores the output, and enters the verify part in the same attempt. A pending abort does not wait for that part. */
function enterVerify(context: StepContext, output: StoredJson): RunDirective {
  const { ledger, claimed, step, attempt, interrupt } = context;
  const { interruptFailure } = claimed.run;
  const isCancelled = interrupt === "ABORT" && (interruptFailure !== null || step.interruptible !== "NEVER");
  const change = { part: isCancelled ? "ABORT" : "VERIFY", output, memo: null, callback: null } as const;
  ledger.changeAttempt(attempt, change);
  if (isCancelled) return beginAbort(claimed, { ...attempt, ...change }, { isStepOver: true });
  return enterAgain({ ...context, attempt: { ...attempt, ...change, expired: false } });
}

/** True if an abort need not wait for the end of the step. */
export function isCancelledBy(interrupt: Interrupt | null, step: PlannedStep, run: RunRow): boolean {
  return interrupt === "ABORT" && (run.interruptFailure !== null || cancels(run.interruptMode, step.interruptible));
}

async function parkStep(context: StepContext, outcome: Extract<StepOutcome, { kind: "wait" }>): Promise<RunDirective> {
  const { ledger, claimed, step, attempt, interrupt } = context;
  const { run } = claimed;
  if (isCancelledBy(interrupt, step, run)) {
    ledger.changeAttempt(attempt, { memo: outcome.memo, part: "ABORT" });
    return beginAbort(claimed, { ...attempt, memo: outcome.memo });
  }
  // A closed generation means that the callback of this entry came before its outcome.
  const reported =
    run.openGeneration === null ? await latestAttempt(ledger.transaction.tx, run.id, attempt.step) : undefined;
  if (outcome.onCallback && reported && reported.callback !== null) {
    ledger.changeAttempt(attempt, { memo: outcome.memo });
    return enterAgain({ ...context, attempt: { ...reported, memo: outcome.memo, expired: false } });
  }
  ledger.changeAttempt(attempt, { state: "WAITING", memo: outcome.memo, callback: null });
  if (edge(claimed.node.state, "wait")) moveNode(context, "wait");
  const left = Math.max(0, (attempt.deadlineAt.getTime() - ledger.now.getTime()) / 1000);
  const seconds = Math.min(outcome.seconds, left, CALLBACK_WAIT_SECONDS_MAX);
  ledger.changeRun(parked(ledger, outcome.onCallback ? "CALLBACK" : "TIME", seconds));
  if (isReservedWait(step)) ledger.wakeIfStopped();
  return RELEASE;
}

/** How long a controller that is away is waited for, and how often it is asked: BMCs restart in two to five minutes. */
const AWAY_SECONDS = 300;
const AWAY_LOOK_SECONDS = 10;

/**
 * Parks the run until the step is entered again, in the same attempt, if its controller has not been away for too long:
 * the failure of the attempt is the first in a row. A change of power that a person waits for does not wait, nor does
 * work in maintenance, whose machine counts as broken.
 */
function parkAway({ ledger, claimed, step, attempt }: StepContext, failure: Failure): boolean {
  if (step.phase === "power" || claimed.plan.inMaintenance) return false;
  const since = attempt.failure?.at ?? ledger.now.toISOString();
  const until = Math.min(Date.parse(since) + AWAY_SECONDS * 1000, attempt.deadlineAt.getTime());
  if (ledger.now.getTime() + AWAY_LOOK_SECONDS * 1000 >= until) return false;
  ledger.changeAttempt(attempt, { state: "WAITING", failure: { ...failure, at: since } });
  ledger.changeRun(parked(ledger, "RETRY", AWAY_LOOK_SECONDS));
  return true;
}

/** Parks the run until the step's next attempt, or gives the step up. `ignoredSignal`: it may still be running. */
export function failStep(context: StepContext, fault: Fault, ignoredSignal = false): RunDirective {
  const { ledger, claimed, step, attempt, interrupt } = context;
  const message = `Node ${claimed.node.name}: ${stepLabel(step)} failed: ${sentence(fault.reason)}`;
  const failure = toFailure(claimed, step, fault, message);
  if (interrupt === "ABORT") {
    ledger.changeAttempt(attempt, { part: "ABORT", failure });
    return beginAbort(claimed, { ...attempt, failure }, { ignoredSignal });
  }
  // A second entry could begin again what the machine is still doing.
  const canRepeat = step.idempotent || fault.atRest === true || !mustNotBeCut(step);
  const isAwaited = canRepeat && fault.away === true && interrupt === null && parkAway(context, failure);
  const wasAwaited = fault.away === true && attempt.failure !== null;
  const mayRetry =
    canRepeat && fault.retryable && fault.retried !== true && !wasAwaited && attempt.number <= step.retries;
  if (!isAwaited && (!mayRetry || interrupt !== null)) return giveUpStep(context, failure, ignoredSignal);
  if (!isAwaited) {
    ledger.changeAttempt(attempt, { state: "FAILED", failure, finishedAt: ledger.now });
    ledger.changeRun(parked(ledger, "RETRY", step.backoffSeconds));
  }
  if (edge(claimed.node.state, "wait")) moveNode(context, "wait", { reason: failure.message });
  ledger.wakeIfStopped();
  return RELEASE;
}

/**
 * A driver's word that the machine is at rest counts only if it can know: without a memo it knows of no entry whose
 * process died, and of no earlier attempt that may have left the machine working. The entry before may have left it at
 * rest.
 */
async function believedFault({ ledger, step, attempt }: StepContext, fault: Fault): Promise<Fault> {
  const { atRest, ...rest } = fault;
  if (!atRest || !mustNotBeCut(step) || attempt.memo !== null) return fault;
  const earlier = (await attemptsOf(ledger.transaction.tx, [attempt.runId])).filter(
    (one) => one.step === attempt.step && one.number < attempt.number,
  );
  const isFirst = attempt.entries === 1 || attempt.failure?.atRest === true;
  const isKnown = isFirst && earlier.every(({ failure }) => failure?.atRest === true);
  return isKnown ? fault : rest;
}

/** A step has failed finally: the machine is cleaned up as after an abort, and then the failure settles. */
export function giveUpStep(context: StepContext, failure: Failure, ignoredSignal = false): AbortMachine {
  const { ledger, claimed, attempt } = context;
  ledger.changeRun({ interruptFailure: failure });
  if (attempt.finishedAt === null) ledger.changeAttempt(attempt, { part: "ABORT", failure });
  return beginAbort(claimed, { ...attempt, failure }, { ignoredSignal });
}

/** Settles an abort or a failure after it was carried out on the machine. */
export async function settleAbort(
  context: RunContext,
  directive: AbortMachine,
  { left, mayCutPower }: AbortedMachine,
): Promise<RunDirective> {
  const { ledger, claimed, interrupt } = context;
  const { run, plan, node, leg } = claimed;
  const { interruptFailure: failure } = run;
  const { attempt } = directive;
  // An abort was accepted while a failure was undone that left the power as it is.
  const place = { ...plan, state: node.state, phase: plan.legs[leg]?.phase };
  if (interrupt === "ABORT" && mayCutPower && isPoweredOffByAbort(run.powerOff, place))
    return { ...directive, claimed, power: left.power, undone: left };
  if (!plan.bestEffort || interrupt === "ABORT" || left.mayBeWorking) return endAborted(context, directive, left);
  // An earlier commit succeeded although its answer was lost, as in `settleStep`.
  if (run.owner === null) return RELEASE;
  if (failure === null || !attempt) return continueBegunStep(context);
  if (attempt.finishedAt === null) ledger.changeAttempt(attempt, { state: "FAILED", failure, finishedAt: ledger.now });
  notePower(context, left.power);
  const passed = { errors: [...run.errors, failure], interruptFailure: null };
  ledger.changeRun(passed);
  const passing = { ...context, claimed: { ...claimed, run: { ...run, ...passed } } };
  // A machine that does not answer is not cleaned, and leaves all the same.
  const failed = plan.steps[attempt.step];
  const next =
    interrupt !== "STOP" && failed && isVerification(failed) ? plan.steps.length : nextPosition(plan, attempt.step + 1);
  return passBoundary(passing, next);
}
