/**
 * A run that this process has claimed, and what travels with it until its release:
 *
 * - `ClaimedRun`: the run, its plan and its machine. It outlives transactions.
 * - `RunContext`: the claimed run in one transaction, under its lock. The ledger is its only effect.
 * - `StepContext`: the same at one attempt of one step.
 * - `RunDirective`: what the transaction leaves to be done after its commit. boundary.ts, settle-step.ts and claim.ts
 *   produce it; only runner.ts interprets it.
 *
 * The functions here note changes of the run's node in the ledger.
 */
import { isDestructive } from "../../../lifecycle/admission.ts";
import { edge, kindOf } from "../../../lifecycle/machine.ts";
import type { NodeEvent } from "../../../lifecycle/node-states.ts";
import type { Interrupt } from "../../../lifecycle/operation-states.ts";
import { mustNotBeCut } from "../../../lifecycle/touches.ts";
import type { PowerState } from "../../../drivers/driver.ts";
import type { AttemptRow } from "../../../store/runs/attempts.ts";
import type { ImageRow } from "../../../store/images.ts";
import type { ClaimedNodeChange, NodeRow } from "../../../store/nodes/nodes.ts";
import type { JsonObject, LeftAs, Failure, Plan, PlannedStep } from "../../../store/records.ts";
import type { CallbackKey, Keyring } from "../../../store/secrets/keyring.ts";
import { UNTOUCHED } from "../../../store/runs/runs.ts";
import type { LockedRun } from "../../../store/runs/run-locks.ts";
import type { RunRow } from "../../../store/runs/runs.ts";
import { stepLabel } from "../../plans/plan.ts";
import { powerChangeOf } from "../../plans/reserved-steps.ts";
import { ENGINE } from "../../scheduling/start-runs.ts";
import { interruptOf } from "../../scheduling/waiting-runs.ts";
import type { Fault } from "../call/driver-result.ts";
import { faultEnd, reached } from "../../../store/nodes/node-faults.ts";
import type { Ledger } from "../commit/ledger.ts";
import type { Machine } from "../call/machine.ts";
import { newFailure } from "../../input/failures.ts";

/** The image and the user data that a run installs; null without them. */
export interface InstalledImage {
  readonly image: ImageRow | null;
  /** A secret. */
  readonly userData: string | null;
}

export const NOTHING_INSTALLED: InstalledImage = { image: null, userData: null };

export interface ClaimedRun {
  /** As of its last lock. */
  readonly run: LockedRun;
  readonly fence: number;
  readonly plan: Plan;
  readonly machine: Machine;
  readonly installed: InstalledImage;
  /** Decrypted. */
  readonly variables: JsonObject;
  /** Names of the variables that are secret. */
  readonly secretNames: ReadonlySet<string>;
  readonly callbackKey: CallbackKey;
  /** With the changes that this process has noted. */
  node: NodeRow;
  leg: number;
  position: number;
}

/** The parts of the process that a boundary uses. */
export interface RunEnvironment {
  /** Identifies this process. */
  readonly replica: string;
  /** Wakes the slot scheduler. */
  readonly nudge: () => void;
  /** A keyed hash of a secret. */
  readonly digest: (text: string) => string;
  readonly keyring: Keyring;
  /** How long a step may take to end after its signal fired. */
  readonly abortGraceMs: number;
  /** True while runs are released between two steps. */
  isDraining(): boolean;
}

/** A claimed run in a transaction that holds its lock and has found its fence unchanged. */
export interface RunContext {
  readonly environment: RunEnvironment;
  readonly ledger: Ledger;
  readonly claimed: ClaimedRun;
  /** The requested abort or stop, as of the lock. */
  readonly interrupt: Interrupt | null;
}

/** A claimed run at one attempt of one of its steps. */
export interface StepContext extends RunContext {
  readonly step: PlannedStep;
  readonly attempt: AttemptRow;
}

/** The work that a transaction leaves to be done after its commit. */
export type RunDirective = EnterStep | ForcePower | AbortMachine | Release;

/** Call the step's driver. */
export interface EnterStep {
  readonly kind: "ENTER_STEP";
  readonly claimed: ClaimedRun;
  readonly step: PlannedStep;
  readonly attempt: AttemptRow;
  /** Identifies the entry: it rises with every entry of the run. */
  readonly generation: number;
  /** Time left to the attempt, by the database's clock. */
  readonly leftMs: number;
}

/** Change the power beside a step that waits, and goes on waiting. */
export interface ForcePower extends Omit<EnterStep, "kind"> {
  readonly kind: "FORCE_POWER";
}

/** Carry out an abort on the machine. */
export interface AbortMachine {
  readonly kind: "ABORT_MACHINE";
  readonly claimed: ClaimedRun;
  /** The attempt that the abort ends; null if no step was running. */
  readonly attempt: AttemptRow | null;
  /** The step did not end after its signal fired, and may still be running. */
  readonly ignoredSignal: boolean;
  /** Power as the step saw it last; null if it did not look. */
  readonly power: PowerState | null;
  /** The step at the position of the run has ended: the abort waited for it. */
  readonly isStepOver: boolean;
  /** The machine after the step was undone, if only the power is left to be cut; null: nothing was done yet. */
  readonly undone: LeftAs | null;
}

/**
 * Whether the machine is left as it is, with its power: the step that has failed, or is not waited for any longer, must
 * not be cut, and the machine has not reported that it has ended.
 */
export function isLeftAlone({
  claimed: { plan, run },
  attempt,
  ignoredSignal,
  isStepOver,
}: Pick<AbortMachine, "claimed" | "attempt" | "ignoredSignal" | "isStepOver">): boolean {
  const step = attempt && plan.steps[attempt.step];
  if (!step || !mustNotBeCut(step)) return false;
  const failure = attempt.failure ?? run.interruptFailure;
  if (failure) return failure.atRest !== true;
  // A step that ends at its boundary was cut, and the machine goes on.
  return ignoredSignal || (step.interruptible === "AT_BOUNDARY" && !isStepOver);
}

/** Nothing: the run ended, is parked, or was released for another process. */
export interface Release {
  readonly kind: "RELEASE";
}

export const RELEASE: Release = { kind: "RELEASE" };

/** Another process has claimed the run: nothing that this process wanted to write counts. */
export class FencedError extends Error {}

export function isClaimedBy({ fence }: Pick<ClaimedRun, "fence">, run: RunRow): boolean {
  return run.finishedAt === null && run.fence === fence;
}

export function openContext(environment: RunEnvironment, ledger: Ledger, claimed: ClaimedRun): RunContext {
  claimed.node = { ...claimed.node, identityConflict: ledger.run.identityConflict };
  return { environment, ledger, claimed, interrupt: interruptOf(ledger.run, ledger.run.operationInterrupt) };
}

/**
 * Enters the legs up to `leg`, those without steps included. The events that led the node from the previous leg to a
 * state at rest while the run was parked (`leaveLeg`) are not repeated.
 */
export function enterLegs(context: RunContext, leg: number): void {
  const { claimed } = context;
  while (claimed.leg < leg) {
    const isStart = claimed.leg === UNTOUCHED;
    const why = isStart ? causeOfStart(claimed.run) : {};
    // A clean-up leaves the error that it follows from; other work that moves the node is a new beginning.
    const settled = isStart && claimed.run.purpose === "WORK" ? { lastError: null } : {};
    claimed.leg += 1;
    const enter = claimed.plan.legs[claimed.leg]?.enter ?? [];
    // Only work that a person has forced gets here with this fault.
    if (changesMachine(claimed.plan, claimed.leg)) changeNode(context, faultEnd(claimed.node, "MACHINE_BUSY"));
    const next = enter.findIndex((event) => edge(claimed.node.state, event));
    for (const event of enter.slice(next))
      moveNode(context, event, why, { ...stageOnEntering(claimed.plan, claimed.leg), ...settled });
  }
}

/** Whether a leg is in the way of a machine that must not be cut (lifecycle/faults.ts). */
function changesMachine({ legs, steps }: Plan, leg: number): boolean {
  const phase = legs[leg]?.phase;
  const step = steps.find((one) => one.leg === leg);
  const change = phase === "power" && step?.interface === "power" ? powerChangeOf(step) : undefined;
  return (phase !== undefined && isDestructive(phase)) || (change !== undefined && change !== "ON");
}

/**
 * Leads the node to the state at rest before it enters `leg`, if there is one: between verification and inspection it
 * is MANAGEABLE, but between tear-down and cleaning there is none. An untouched node is at rest already.
 */
export function leaveLeg(context: RunContext, leg: number): void {
  const { claimed } = context;
  if (claimed.leg === UNTOUCHED || claimed.leg >= leg) return;
  const enter = claimed.plan.legs[leg]?.enter ?? [];
  if (enter.length < 2) return;
  resume(context);
  enterLegs(context, leg - 1);
  for (const event of enter.slice(0, -1)) if (edge(claimed.node.state, event)) moveNode(context, event);
}

/** Continues the phase that the node waits in. */
export function resume(context: RunContext): void {
  if (kindOf(context.claimed.node.state) === "wait") moveNode(context, "resume");
}

const CLEAN_UP_REASON = "clean-up after a failure";

/** The request moves the node from where it was, before any step; later moves are the engine's. */
function causeOfStart({ purpose, operationActor, operationReason }: LockedRun): MoveCause {
  const [actor, reason] = purpose === "CLEAN_UP" ? [ENGINE, CLEAN_UP_REASON] : [operationActor, operationReason];
  return { actor, reason, step: null };
}

/**
 * The change of a node's stage when a run enters a leg: work on the disks resets it. A deployment that installs nothing
 * was admitted on an installed system only, and keeps it.
 */
function stageOnEntering(plan: Plan, leg: number): Pick<ClaimedNodeChange, "stage" | "imageId" | "outputs"> {
  const phase = plan.legs[leg]?.phase;
  if (phase === "clean" || phase === "undeploy") return NO_SYSTEM;
  if (phase !== "deploy") return {};
  const installs = plan.steps.some(({ kept, reaches }) => !kept && reaches === "PROVISIONED");
  return installs ? NO_SYSTEM : { stage: "PROVISIONED" };
}

const NO_SYSTEM = { stage: "NONE", imageId: null, outputs: {} } as const;

/** Recorded in a node's transition. */
interface MoveCause {
  readonly actor?: string;
  readonly reason?: string | null;
  /** The step that the run is at, if it is not the run's present one. */
  readonly step?: string | null;
}

/** Moves the node along one edge. */
export function moveNode(
  { ledger, claimed }: RunContext,
  event: NodeEvent,
  why: MoveCause = {},
  change: Omit<ClaimedNodeChange, "state"> = {},
): void {
  const { run, node, plan } = claimed;
  const transition = {
    actor: why.actor ?? ENGINE,
    reason: why.reason ?? null,
    target: run.target,
    operationId: run.operationId,
    step: why.step === undefined ? stepLabel(plan.steps[claimed.position]) : why.step,
    runId: run.id,
  };
  claimed.node = { ...node, ...change, state: ledger.moveNode(node.state, event, transition, change) };
}

/** Changes the node without moving it. An empty change leaves it as it is, with its revision. */
export function changeNode({ ledger, claimed }: RunContext, change: Omit<ClaimedNodeChange, "state">): void {
  if (Object.keys(change).length === 0) return;
  ledger.changeNode(claimed.node.state, change);
  claimed.node = { ...claimed.node, ...change };
}

/** Notes the power as a step or an abort saw it last. The power that they set becomes the wanted power. */
export function notePower(context: RunContext, power: PowerState): void {
  const { node, machine } = context.claimed;
  const seen =
    node.powerState === power && node.powerReadAt !== null ? {} : { powerState: power, powerReadAt: new Date() };
  const wantedPower = machine.lastSet?.power ?? node.wantedPower;
  const powerProblem = power === "UNKNOWN" ? node.powerProblem : null;
  const answered = power === "UNKNOWN" ? {} : reached(node);
  const isSame = wantedPower === node.wantedPower && powerProblem === node.powerProblem;
  if (isSame && Object.keys({ ...seen, ...answered }).length === 0) return;
  changeNode(context, { ...seen, ...answered, wantedPower, powerProblem });
}

/** The failure of a step, or before one. `message`: the reason for people who do not see its node and step. */
export function toFailure({ node }: ClaimedRun, step: PlannedStep | undefined, fault: Fault, message: string): Failure {
  const { code, reason: cause, retryable, failureKind, atRest } = fault;
  const kinds = { ...(failureKind && { kind: failureKind }), ...(atRest && { atRest }) };
  const place = { step: stepLabel(step), nodeId: node.id, nodeName: node.name };
  return newFailure({ code, message, cause, retryable, ...place, ...kinds });
}
