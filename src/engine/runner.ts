/**
 * Works on runs: one job of the queue is the next stretch of one run. A stretch begins with a claim, goes from step to
 * step, and ends when the run ends, parks, or is handed back because the process is leaving.
 *
 * Modes of a run in the hands of this process:
 * - claimed: the fence is raised, so that whoever held it before can write no more. What was under way is looked at:
 *   a step that crashed is entered again, or fails when it must not be; one that was parked is entered again.
 * - in a step: the driver is called outside any transaction. Left by the step's outcome, its deadline, or an abort.
 * - settling: one transaction ends the attempt and begins the next, parks, or ends the run. It checks the fence.
 * - tearing down: an abort is carried out; the driver's `abort` and the power, then one transaction ends the run.
 */
import { setTimeout as delay } from "node:timers/promises";
import { atBoundary } from "../lifecycle/interrupts.ts";
import { edge, kindOf } from "../lifecycle/machine.ts";
import type { NodeEvent } from "../lifecycle/node-states.ts";
import type { Wish } from "../lifecycle/operation-states.ts";
import type { PowerState } from "../drivers/driver.ts";
import type { Registry } from "../drivers/registry.ts";
import type { Log } from "../log.ts";
import type { Bell } from "../store/bell.ts";
import { isConnectionLoss } from "../store/database.ts";
import type { Database } from "../store/database.ts";
import { lockNodes, secretsOf, updateNode } from "../store/nodes.ts";
import { operationBegins, operationWish } from "../store/operations.ts";
import type { Failure, LeftAs, Plan, PlannedStep, StoredJson, WaitReason } from "../store/records.ts";
import { beginAttempt, latestAttempt, reenterAttempt, updateAttempt } from "../store/attempts.ts";
import { plansByHashes } from "../store/plans.ts";
import { lockRun, parkRun, updateRun, wishesOf } from "../store/runs.ts";
import type { AttemptRow } from "../store/attempts.ts";
import type { LockedRun, RunChange, RunRow } from "../store/runs.ts";
import { readSite } from "../store/site.ts";
import { ENGINE, limitOn, placesOf } from "./begin.ts";
import { callbackPath } from "./callback.ts";
import { Fenced, describe, enterLegs, failureOf, lockHeld, moveHeld, noteInventory, notePower, noteStage, wishOf } from "./held.ts";
import type { Fault, Held } from "./held.ts";
import { hostGroupFlaw } from "./names.ts";
import { endedByStop } from "./parked.ts";
import { isHold, isReservedWait, nextPosition, stepLabel } from "./plan.ts";
import type { HeldJob, Queue } from "./queue.ts";
import { endRun } from "./settle.ts";
import { openMachine, performStep } from "./step.ts";
import type { Machine, StepBasis, StepOutcome } from "./step.ts";
import { createStepLog } from "./step-log.ts";
import type { StepLog } from "./step-log.ts";
import { tearDownMachine } from "./tear-down.ts";
import type { Transact, Work } from "./transition.ts";

export interface RunnerParts {
  readonly database: Database;
  readonly transact: Transact;
  readonly registry: Registry;
  readonly queue: Queue;
  readonly nudge: () => void;
  readonly bell: Bell;
  readonly log: Log;
  /** How long a step may take to end after its signal fired, and how long a tear-down may take, in ms. */
  readonly abortGraceMs: number;
  readonly tearDownMs: number;
}

export interface Runner {
  run(runId: string, job: HeldJob): Promise<void>;
  /** Looks whether somebody wants a run that this process holds to be aborted. */
  checkWishes(): void;
  /** From now on runs are handed back between two steps. */
  drain(): void;
  close(): void;
}

/** A run that this process works on, as an abort has to find it. */
interface Holding {
  readonly fence: number;
  readonly cut: AbortController;
  readonly abandon: AbortController;
  readonly done: Promise<void>;
  /** Of the step it is in; null between two steps. */
  readonly interruptible: PlannedStep["interruptible"] | null;
}

/** What a transaction leaves to be done outside of it. Null: nothing, the job is over. */
type Next =
  | { readonly do: "STEP"; readonly held: Held; readonly step: PlannedStep; readonly attempt: AttemptRow; readonly generation: number }
  | { readonly do: "ABORT"; readonly held: Held; readonly attempt: AttemptRow | null; readonly ignoredSignal: boolean; readonly power: PowerState | null }
  | null;

const WISH_POLL_MS = 1_000;
const WISH_AFTER_BELL_MS = 100;
const DATABASE_RETRY_MS = 500;
/** A wait for a call-back without a bound of its own: the attempt's deadline bounds it. */
const CALLBACK_WAIT_SECONDS_MAX = 30 * 86_400;
const PLANS_KEPT = 1_000;
/** A step that is parked until its deadline may wake a moment before it: the one is our clock's, the other the database's. */
const DEADLINE_TOLERANCE_MS = 1_000;

export function createRunner(parts: RunnerParts): Runner {
  const { database, transact, registry, queue, log } = parts;
  const holdings = new Map<string, Holding>();
  const plans = new Map<string, Plan>();
  let draining = false;

  async function planOf(work: Work, hash: string): Promise<Plan> {
    const known = plans.get(hash);
    if (known) return known;
    const plan = (await plansByHashes(work.tx, [hash])).get(hash);
    if (!plan) throw new Error(`Plan ${hash} is gone.`);
    if (plans.size >= PLANS_KEPT) plans.delete(plans.keys().next().value ?? "");
    plans.set(hash, plan);
    return plan;
  }

  // ---- claiming

  async function claim(work: Work, runId: string, job: HeldJob): Promise<Next> {
    const run = await lockRun(work.tx, runId);
    const [node] = run && !run.finishedAt ? await lockNodes(work.tx, [run.nodeId]) : [];
    if (!run || !node || run.finishedAt || run.state === "QUEUED" || isParkedWithoutJob(run) || (await isEarly(work, run)) || (await isHeldByOther(run, job))) {
      await queue.end(work, job);
      return null;
    }
    const plan = await planOf(work, run.planHash);
    const fence = run.fence + 1;
    await updateRun(work.tx, runId, { fence, owner: job.id, state: "RUNNING", startedAt: run.startedAt ?? new Date(), wakeAt: null, waitReason: null, waitingSince: null, waitFor: null });
    if (run.startedAt === null) await operationBegins(work.tx, run.operationId);
    const opened = await openMachine(registry, node, await secretsOf(work.tx, node.id));
    const unusable: Machine = { node, composition: { giver: () => null, inspect: null, drivers: [] }, redactor: { text: (text) => text, json: (json) => json }, settingsOf: () => undefined };
    const held: Held = { run, fence, plan, node, leg: run.leg, position: run.position, machine: "problem" in opened ? unusable : opened };
    const wish = wishOf(run, run.operationWish);
    const step = plan.steps[run.position];
    const attempt = step ? await latestAttempt(work.tx, runId, run.position) : undefined;
    if ("problem" in opened) {
      return failRun(work, job, held, attempt ?? null, { code: "UNSUPPORTED_BY_DRIVER", reason: `Node ${node.name}: ${opened.problem}`, retryable: false });
    }
    if (!step || !attempt) return atTheBoundary(work, job, held, run.position, wish);
    switch (attempt.state) {
      case "RUNNING":
        return recover(work, job, held, step, attempt, wish);
      case "WAITING":
        if (wish === "ABORT" && (step.interruptible !== "NEVER" || run.wishFailure)) return tearDown(held, attempt);
        if (wish === "STOP" && (isHold(step) || isReservedWait(step))) {
          await updateAttempt(work.tx, attempt, { state: "ABORTED", ended: true });
          return atTheBoundary(work, job, held, run.position, wish);
        }
        await resume(work, held);
        if (attempt.expired && attempt.callback === null && isWokenByDeadline(run, attempt)) {
          return stepFailed(work, job, held, step, attempt, { code: "TIMEOUT", reason: `it did not end within ${step.timeoutSeconds} s`, retryable: true }, wish);
        }
        return enterAgain(work, held, step, attempt);
      case "FAILED":
        if (wish === "ABORT") return tearDown(held, null);
        if (wish === "STOP") return givenUp(work, job, held, attempt, attempt.failure ?? failureOf(held, step, { code: "BACKEND_FAILED", reason: "The step failed.", retryable: true }), wish);
        return goOn(work, job, held, run.position, attempt.number + 1);
      default:
        return atTheBoundary(work, job, held, nextPosition(plan, run.position + 1), wish);
    }
  }

  /** A parked step's time is over when its deadline woke it; one that was due earlier has only been waited on by nobody. */
  function isWokenByDeadline(run: RunRow, attempt: AttemptRow): boolean {
    return run.wakeAt === null || run.wakeAt.getTime() >= attempt.deadlineAt.getTime() - DEADLINE_TOLERANCE_MS;
  }

  /** Held, or waiting for a place: only a wish, or whoever ends the wait, makes a job of it count. */
  function isParkedWithoutJob(run: LockedRun): boolean {
    return (run.state === "HOLDING" || run.waitFor !== null) && wishOf(run, run.operationWish) === null;
  }

  /**
   * Parked until later: this is the job of an earlier stretch, whose lease ran out while that was still at work, or one that
   * woke the run when another had woken it. The parked run has a job of its own, which comes in time, or is brought forward
   * by a call-back or by a wish that ends what the run is parked in.
   */
  async function isEarly(work: Work, run: LockedRun): Promise<boolean> {
    if (run.isDue || run.state !== "WAITING" || (await isEndedNow(work, run))) return false;
    return ((await latestAttempt(work.tx, run.id, run.position))?.callback ?? null) === null;
  }

  /** Whether a wish ends a run that is parked now, and not when its step has ended. */
  async function isEndedNow(work: Work, run: LockedRun): Promise<boolean> {
    const wish = wishOf(run, run.operationWish);
    if (wish !== "ABORT") return wish === "STOP" && (await endedByStop(work.tx, [run])).length > 0;
    const step = (await planOf(work, run.planHash)).steps[run.position];
    return run.waitReason === "RETRY" || run.wishFailure !== null || step?.interruptible !== "NEVER";
  }

  /** A run that was woken while its job was being fetched has two jobs: the one that came first works, the other ends. */
  async function isHeldByOther(run: RunRow, job: HeldJob): Promise<boolean> {
    return run.state === "RUNNING" && run.owner !== null && run.owner !== job.id && queue.isHeld(run.owner);
  }

  /** A process died inside the step. */
  async function recover(work: Work, job: HeldJob, held: Held, step: PlannedStep, attempt: AttemptRow & { readonly expired: boolean }, wish: Wish | null): Promise<Next> {
    // A step that must not be cut is not cut by a take-over either: its abort still waits for its end.
    if (attempt.part === "ABORT" || (wish === "ABORT" && (step.interruptible !== "NEVER" || held.run.wishFailure))) {
      await updateAttempt(work.tx, attempt, { part: "ABORT" });
      return tearDown(held, attempt);
    }
    if (!step.idempotent && attempt.memo === null && attempt.part === "RUN") {
      const reason = `the process that ran it ended, and the step must not be run twice. Find out how far it came, then restart the operation`;
      return failRun(work, job, held, attempt, { code: "INTERRUPTED", reason: describe(held, step, reason), retryable: true });
    }
    await moveHeld(work, held, "recover", { reason: `the process that ran ${stepLabel(step)} ended; the step is entered again` });
    return enterAgain(work, held, step, { ...attempt, expired: true });
  }

  /** Enters the attempt once more. Time during which no process was there to work on it does not count against it. */
  async function enterAgain(work: Work, held: Held, step: PlannedStep, attempt: AttemptRow & { readonly expired: boolean }): Promise<Next> {
    const deadlineAt = await reenterAttempt(work.tx, attempt, attempt.expired ? step.timeoutSeconds : null);
    return enterStep(work, held, step, { ...attempt, deadlineAt });
  }

  async function resume(work: Work, held: Held): Promise<void> {
    if (kindOf(held.node.state) === "wait") await moveHeld(work, held, "resume");
  }

  // ---- between two steps

  async function atTheBoundary(work: Work, job: HeldJob, held: Held, position: number, wish: Wish | null): Promise<Next> {
    const workLeft = position < held.plan.steps.length;
    switch (atBoundary({ wish, workLeft })) {
      case "ABORT":
        return tearDown(held, null);
      case "STOP":
        if (edge(held.node.state, "stop")) await moveHeld(work, held, "stop", { actor: held.run.wishBy ?? ENGINE, reason: held.run.wishReason });
        await updateRun(work.tx, held.run.id, { position, leg: held.leg });
        return finish(work, job, held, "STOPPED");
      case "FINISH":
        await resume(work, held);
        await enterLegs(work, held, held.plan.legs.length - 1);
        for (const event of held.plan.finish) await moveHeld(work, held, event, {}, event === "done" && held.node.state === "DEPLOYING" ? { stage: "DEPLOYED", lastError: null, ...hostGroupOf(held.run) } : { lastError: null });
        if (held.plan.finish.length === 0 && held.node.lastError && kindOf(held.node.state) !== "failed") await updateNode(work.tx, held.node.id, { lastError: null });
        await updateRun(work.tx, held.run.id, { position, leg: held.leg });
        return finish(work, job, held, "SUCCEEDED");
      case "GO_ON":
        if (draining) {
          await updateRun(work.tx, held.run.id, { position, leg: held.leg, owner: null });
          await queue.park(work, job, held.run.id, 0);
          return null;
        }
        return goOn(work, job, held, position, 1);
    }
  }

  /** Begins a step, or its next try, unless something keeps every new one from beginning. */
  async function goOn(work: Work, job: HeldJob, held: Held, position: number, number: number): Promise<Next> {
    const step = held.plan.steps[position];
    if (!step) throw new Error(`Run ${held.run.id} has no step ${position}.`);
    if (await isInMaintenance(work, held)) return parkBetween(work, job, held, position, { waitReason: "MAINTENANCE", ...placesOf(undefined, null) });
    const waitFor = await placeWanted(work, held, step);
    if (waitFor !== null) return parkBetween(work, job, held, position, { waitReason: "CAPACITY", waitFor, slotPhase: null });
    await resume(work, held);
    const attempt = await openAttempt(work, held, step, position, number);
    return isHold(step) ? beginHold(work, job, held, step, attempt) : enterStep(work, held, step, attempt);
  }

  /** The mark was read without the node's lock; whoever clears it holds that lock and wakes the runs it finds parked. */
  async function isInMaintenance(work: Work, held: Held): Promise<boolean> {
    if (!held.run.inMaintenance) return false;
    const [node] = await lockNodes(work.tx, [held.node.id]);
    return node?.maintenanceSince != null;
  }

  /** The limit that a run has to wait for before it begins the step; null: it has its places, or needs none. */
  async function placeWanted(work: Work, { run, plan }: Held, step: PlannedStep): Promise<string | null> {
    const phase = plan.legs[step.leg]?.phase;
    const controller = run.slotController === run.controller ? null : run.controller;
    if (!run.isLimited || (run.slotPhase === phase && controller === null)) return null;
    const { policy } = await readSite(work.tx);
    return limitOn(policy, run.slotPhase === phase ? undefined : phase, controller);
  }

  /** Parks a run between two steps, without a job: who or what it waits for wakes it. */
  async function parkBetween(work: Work, job: HeldJob, held: Held, position: number, why: RunChange & { readonly waitReason: WaitReason }): Promise<null> {
    if (edge(held.node.state, "wait")) await moveHeld(work, held, "wait", { reason: why.waitReason === "MAINTENANCE" ? "the node is in maintenance" : "a limit of the service is reached" });
    await parkRun(work.tx, held.run.id, why.waitReason, null);
    await updateRun(work.tx, held.run.id, { position, leg: held.leg, ...why });
    await leaveParked(work, job, held);
    return null;
  }

  /** The run has no job any more. */
  async function leaveParked(work: Work, job: HeldJob, held: Held): Promise<void> {
    await queue.end(work, job);
    await wakeIfStopped(work, held);
    work.afterCommit(parts.nudge);
  }

  /** Whoever stops an operation wakes those of its runs that are parked where a stop ends them, and must not miss this one. */
  async function wakeIfStopped(work: Work, { run }: Held): Promise<void> {
    if (wishOf(run, await operationWish(work.tx, run.operationId)) !== null) await queue.wakeToEnd(work, run.id);
  }

  /** A hold is no work: the run gives its places back and has no job until somebody lifts the hold. */
  async function beginHold(work: Work, job: HeldJob, held: Held, step: PlannedStep, attempt: AttemptRow): Promise<null> {
    held.position = attempt.step;
    await updateAttempt(work.tx, attempt, { state: "WAITING" });
    const reason = typeof step.args["reason"] === "string" ? step.args["reason"] : null;
    const event = edge(held.node.state, "hold") ? "hold" : "wait";
    if (edge(held.node.state, event)) await moveHeld(work, held, event, { reason });
    await parkRun(work.tx, held.run.id, "HOLD", null);
    await updateRun(work.tx, held.run.id, { state: "HOLDING", position: attempt.step, leg: held.leg, ...placesOf(undefined, null) });
    await leaveParked(work, job, held);
    return null;
  }

  async function openAttempt(work: Work, held: Held, step: PlannedStep, position: number, number: number): Promise<AttemptRow> {
    await enterLegs(work, held, step.leg);
    return beginAttempt(work.tx, { runId: held.run.id, step: position, number, timeoutSeconds: step.timeoutSeconds, label: `${step.interface}.${step.name}`, driver: step.driver, model: held.node.model });
  }

  async function enterStep(work: Work, held: Held, step: PlannedStep, attempt: AttemptRow): Promise<Next> {
    const generation = held.run.generation + 1;
    held.position = attempt.step;
    const places = placesOf(held.plan.legs[held.leg]?.phase, held.run.controller);
    await updateRun(work.tx, held.run.id, { position: attempt.step, leg: held.leg, state: "RUNNING", generation, openGeneration: generation, ...places });
    // Its place in the phase before is free.
    if (held.run.slotPhase !== places.slotPhase) work.afterCommit(parts.nudge);
    return { do: "STEP", held, step, attempt, generation };
  }

  /** A node that is deployed is in the host group that it was deployed for. */
  function hostGroupOf({ variables }: RunRow): { readonly hostGroup?: string } {
    const group = variables["host_group"];
    return typeof group === "string" && hostGroupFlaw(group, []).length === 0 ? { hostGroup: group } : {};
  }

  // ---- after a step

  async function settle(work: Work, job: HeldJob, claimed: Held, step: PlannedStep, attempt: AttemptRow, outcome: StepOutcome): Promise<Next> {
    const run = await lockHeld(work, claimed);
    // Wishes were recorded since the claim.
    const held: Held = { ...claimed, run };
    const wish = wishOf(run, run.operationWish);
    if (outcome.powerState !== null) await notePower(work, held, outcome.powerState);
    switch (outcome.kind) {
      case "done":
        if (outcome.toVerify) return enterVerify(work, held, step, attempt, outcome.output, wish);
        await updateAttempt(work.tx, attempt, { state: "SUCCEEDED", ...(attempt.part !== "VERIFY" && { output: outcome.output }), ended: true });
        if (step.reaches) await noteStage(work, held, step.reaches);
        if (step.phase === "inspect") await noteInventory(work, held, attempt.step);
        return atTheBoundary(work, job, held, nextPosition(held.plan, attempt.step + 1), wish);
      case "wait":
        return parkStep(work, job, held, step, attempt, outcome, wish);
      case "failed":
        return stepFailed(work, job, held, step, attempt, { ...outcome, reason: outcome.reason }, wish);
      case "aborted":
        return tearDown(held, attempt, outcome);
    }
  }

  /** The work is done and kept; whether it has taken effect is looked at next, in the same attempt. Nothing runs in between. */
  async function enterVerify(work: Work, held: Held, step: PlannedStep, attempt: AttemptRow, output: StoredJson, wish: Wish | null): Promise<Next> {
    const isCut = wish === "ABORT" && (step.interruptible !== "NEVER" || held.run.wishFailure !== null);
    const change = { part: isCut ? "ABORT" : "VERIFY", output, memo: null, callback: null } as const;
    await updateAttempt(work.tx, attempt, change);
    if (isCut) return tearDown(held, { ...attempt, ...change });
    return enterAgain(work, held, step, { ...attempt, ...change, expired: false });
  }

  async function parkStep(work: Work, job: HeldJob, held: Held, step: PlannedStep, attempt: AttemptRow, outcome: Extract<StepOutcome, { kind: "wait" }>, wish: Wish | null): Promise<Next> {
    if (wish === "ABORT" && (step.interruptible !== "NEVER" || held.run.wishFailure)) {
      await updateAttempt(work.tx, attempt, { memo: outcome.memo, part: "ABORT" });
      return tearDown(held, { ...attempt, memo: outcome.memo });
    }
    // The entry's path is closed by the report that was made to it.
    const now = held.run.openGeneration === null ? await latestAttempt(work.tx, held.run.id, attempt.step) : undefined;
    if (outcome.onCallback && now && now.callback !== null) {
      await updateAttempt(work.tx, attempt, { memo: outcome.memo });
      return enterAgain(work, held, step, { ...now, memo: outcome.memo, expired: false });
    }
    await updateAttempt(work.tx, attempt, { state: "WAITING", memo: outcome.memo, callback: null });
    if (edge(held.node.state, "wait")) await moveHeld(work, held, "wait");
    const left = Math.max(0, (attempt.deadlineAt.getTime() - Date.now()) / 1000);
    const seconds = Math.min(outcome.seconds, left, CALLBACK_WAIT_SECONDS_MAX);
    await parkRun(work.tx, held.run.id, outcome.onCallback ? "CALLBACK" : "TIME", seconds);
    await queue.park(work, job, held.run.id, seconds);
    if (isReservedWait(step)) await wakeIfStopped(work, held);
    return null;
  }

  async function stepFailed(work: Work, job: HeldJob, held: Held, step: PlannedStep, attempt: AttemptRow, fault: Fault, wish: Wish | null): Promise<Next> {
    const failure = failureOf(held, step, { ...fault, reason: describe(held, step, fault.reason) });
    if (wish === "ABORT") {
      await updateAttempt(work.tx, attempt, { part: "ABORT" });
      return tearDown(held, attempt);
    }
    await updateAttempt(work.tx, attempt, { state: "FAILED", failure, ended: true });
    if (fault.retryable && attempt.number <= step.retries && wish === null) {
      if (edge(held.node.state, "wait")) await moveHeld(work, held, "wait", { reason: failure.message });
      await parkRun(work.tx, held.run.id, "RETRY", step.backoffSeconds);
      await queue.park(work, job, held.run.id, step.backoffSeconds);
      await wakeIfStopped(work, held);
      return null;
    }
    return givenUp(work, job, held, attempt, failure, wish);
  }

  /** A step has failed for good. */
  async function givenUp(work: Work, job: HeldJob, held: Held, attempt: AttemptRow, failure: Failure, wish: Wish | null): Promise<Next> {
    if (!held.plan.bestEffort) return endFailed(work, job, held, failure);
    const errors = [...held.run.errors, failure];
    await updateRun(work.tx, held.run.id, { errors });
    return atTheBoundary(work, job, { ...held, run: { ...held.run, errors } }, nextPosition(held.plan, attempt.step + 1), wish);
  }

  async function failRun(work: Work, job: HeldJob, held: Held, attempt: AttemptRow | null, fault: Fault): Promise<Next> {
    const failure = failureOf(held, held.plan.steps[held.position], fault);
    if (attempt && attempt.finishedAt === null) await updateAttempt(work.tx, attempt, { state: "FAILED", failure, ended: true });
    return endFailed(work, job, held, failure);
  }

  async function endFailed(work: Work, job: HeldJob, held: Held, failure: Failure): Promise<Next> {
    if (edge(held.node.state, "fail")) await moveHeld(work, held, "fail", { reason: failure.message }, { lastError: failure });
    else await updateNode(work.tx, held.node.id, { lastError: failure });
    return finish(work, job, held, "FAILED", { failure });
  }

  async function finish(work: Work, job: HeldJob, held: Held, state: "SUCCEEDED" | "FAILED" | "STOPPED", change: { readonly failure?: Failure } = {}): Promise<null> {
    // The operation's lock is taken by the last statement but the log's, since runs that end together wait for it.
    await queue.end(work, job);
    await endRun(work, parts, held.run, state, change);
    return null;
  }

  // ---- abort

  function tearDown(held: Held, attempt: AttemptRow | null, outcome?: Extract<StepOutcome, { kind: "aborted" }>): Next {
    return { do: "ABORT", held, attempt, ignoredSignal: outcome?.ignoredSignal ?? false, power: outcome?.powerState ?? null };
  }

  async function settleAbort(work: Work, job: HeldJob, next: Extract<Next, { do: "ABORT" }>, left: LeftAs): Promise<Next> {
    const { held, attempt, ignoredSignal } = next;
    const run = await lockHeld(work, held);
    const step = held.plan.steps[run.position];
    if (attempt && attempt.finishedAt === null) await updateAttempt(work.tx, attempt, { state: "ABORTED", ended: true });
    const flaw = [
      ignoredSignal ? `${stepLabel(step)} did not end within ${parts.abortGraceMs / 1000} s of the abort and may still be at work` : null,
      left.tearDownError,
    ].filter((text) => text !== null);
    const failure = withDeafness(run.wishFailure, ignoredSignal) ?? (flaw.length > 0 ? failureOf(held, step, { code: ignoredSignal ? "TIMEOUT" : "BACKEND_FAILED", reason: `Node ${held.node.name} was aborted, but ${flaw.join("; ")}. Look at the node before you use it again.`, retryable: false }) : null);
    const event: NodeEvent = run.wishFailure ? "fail" : "abort";
    if (edge(held.node.state, event)) await moveHeld(work, held, event, { actor: run.wishBy ?? ENGINE, reason: run.wishReason ?? failure?.message ?? null }, { lastError: failure });
    else if (failure) await updateNode(work.tx, held.node.id, { lastError: failure });
    await notePower(work, held, left.power);
    await queue.end(work, job);
    await endRun(work, parts, run, run.wishFailure || ignoredSignal ? "FAILED" : "ABORTED", {
      ...(failure && { failure }),
      leftAs: left,
    });
    return null;
  }

  /** The failure that an abort is the consequence of, with what makes it worse. */
  function withDeafness(failure: Failure | null, ignoredSignal: boolean): Failure | null {
    return failure && ignoredSignal ? { ...failure, message: `${failure.message} The step did not end when it was told to, and may still be at work.` } : failure;
  }

  // ---- one stretch

  function requestOf(held: Held, step: PlannedStep, attempt: AttemptRow, generation: number, said: StepLog): StepBasis {
    return {
      machine: { ...held.machine, node: held.node },
      step,
      part: attempt.part,
      deadline: attempt.deadlineAt,
      memo: attempt.memo,
      callback: attempt.callback,
      callbackPath: callbackPath(held.run, generation),
      attemptKey: `${attempt.runId}:${attempt.step}:${attempt.number}`,
      variables: held.run.variables,
      log,
      said,
    };
  }

  async function stretch(runId: string, job: HeldJob): Promise<void> {
    let next = await transact((work) => claim(work, runId, job));
    while (next !== null) {
      const current: NonNullable<Next> = next;
      if (current.do === "STEP") {
        const { held, step, attempt, generation } = current;
        const { cut, abandon } = hold(held, step);
        const said = createStepLog(parts, held, attempt);
        const outcome = await performStep({ ...requestOf(held, step, attempt, generation, said), abort: cut.signal, abandon: abandon.signal, graceMs: parts.abortGraceMs });
        // A transaction may be run again, so each try begins with what was held before it.
        next = await persistWith(said, (work) => settle(work, job, { ...held }, step, attempt, outcome));
      } else {
        const { held, attempt } = current;
        const step = attempt && held.plan.steps[attempt.step];
        // A step that may still be at work, though it must not be cut, is not undone under its own hands.
        const said = attempt && createStepLog(parts, held, attempt);
        const request = attempt && said && step && !(current.ignoredSignal && step.interruptible !== "ALWAYS") ? requestOf(held, step, attempt, held.run.generation, said) : null;
        const left = await tearDownMachine(parts, { held, attempt, request, power: current.power });
        next = await persistWith(said, (work) => settleAbort(work, job, { ...current, held: { ...current.held } }, left));
      }
    }
  }

  /**
   * Stores a result, and with it what the step said last. While the database is away both are kept in memory and offered
   * again: an outage fails no operation.
   */
  async function persistWith<T>(said: StepLog | null, write: (work: Work) => Promise<T>): Promise<T> {
    await said?.end();
    for (;;) {
      try {
        return await transact(async (work) => {
          await said?.store(work);
          return write(work);
        });
      } catch (error) {
        if (!isConnectionLoss(error) || draining) throw error;
        log.warn({ err: error }, "the database is away; a result waits to be stored");
        await delay(DATABASE_RETRY_MS);
      }
    }
  }

  /** Notes that this process is inside a step, so that an abort finds it. */
  function hold(held: Held, step: PlannedStep): Holding {
    const { done } = holdings.get(held.run.id) ?? { done: Promise.resolve() };
    const holding = { fence: held.fence, cut: new AbortController(), abandon: new AbortController(), done, interruptible: step.interruptible };
    holdings.set(held.run.id, holding);
    return holding;
  }

  async function lookForWishes(): Promise<void> {
    const ids = [...holdings].filter(([, { interruptible }]) => interruptible !== null).map(([id]) => id);
    for (const { id, wish, fence, overdue } of await wishesOf(database.reader, ids)) {
      const holding = holdings.get(id);
      if (!holding || holding.interruptible === null) continue;
      if (fence > holding.fence || (wish === "ABORT" && holding.interruptible === "ALWAYS")) holding.cut.abort(new Error("The step was aborted."));
      else if (overdue) holding.abandon.abort();
    }
  }

  let soon: NodeJS.Timeout | undefined;
  const look = () => void lookForWishes().catch((error: unknown) => log.warn({ err: error }, "wishes could not be read"));
  const poll = setInterval(look, WISH_POLL_MS);
  const unring = parts.bell.onRing(() => {
    soon ??= setTimeout(() => {
      soon = undefined;
      look();
    }, WISH_AFTER_BELL_MS);
  });

  return {
    async run(runId, job) {
      // The same run twice in one process: its lease ran out while the database was away. The first goes on, or finds
      // itself fenced off; the second waits for it.
      await holdings.get(runId)?.done;
      const done = stretch(runId, job)
        .catch(async (error: unknown) => {
          if (!(error instanceof Fenced)) throw error;
          log.info({ runId }, "another process has taken over the run");
          await transact((work) => queue.end(work, job));
        })
        .finally(() => holdings.delete(runId));
      holdings.set(runId, { fence: 0, cut: new AbortController(), abandon: new AbortController(), done: done.catch(() => {}), interruptible: null });
      await done;
    },
    checkWishes: look,
    drain() {
      draining = true;
    },
    close() {
      clearInterval(poll);
      clearTimeout(soon);
      unring();
    },
  };
}
