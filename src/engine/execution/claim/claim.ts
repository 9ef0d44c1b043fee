/**
 * Takes up a run that this process has claimed, and decides how it continues. The claim has raised the fence, so that
 * an earlier holder can write no more. With its first claim a run is no longer QUEUED, and its node enters the first
 * phase. A parked step is entered again. A step whose process died is entered again, or fails if it must not run twice
 * or has ended three processes.
 */
import { createRedactor } from "../../input/secret-redactor.ts";
import { LruMap } from "../../../runtime/lru-map.ts";
import { withinTime } from "../../../runtime/timeout.ts";
import { Circuits } from "../../../drivers/circuits.ts";
import type { Registry } from "../../../drivers/registry.ts";
import type { Observer } from "../../../observer.ts";
import { attemptsUnderWay } from "../../../store/runs/attempts.ts";
import type { AttemptRow, TimedAttempt } from "../../../store/runs/attempts.ts";
import { mustNotBeCut } from "../../../lifecycle/touches.ts";
import { imagesByIds } from "../../../store/images.ts";
import type { Tx } from "../../../store/postgres/database.ts";
import { nodesByIds } from "../../../store/nodes/nodes.ts";
import type { NodeRow, Secrets } from "../../../store/nodes/nodes.ts";
import { DEADLINE_TOLERANCE_MS } from "../../../store/runs/parked-runs.ts";
import { SecretError, orThrow, readable } from "../../../store/secrets/keyring.ts";
import type { CallbackKey, Keyring } from "../../../store/secrets/keyring.ts";
import { NO_VARIABLES, openVariables, SECRETS, secretsOf } from "../../../store/secrets/secrets.ts";
import type { OpenVariables, VariablesParts } from "../../../store/secrets/secrets.ts";
import { plansByHashes } from "../../../store/runs/plans.ts";
import type { ForcedPower, JsonObject, Plan } from "../../../store/records.ts";
import type { Claim } from "../../../store/runs/run-claims.ts";
import type { LockedRun } from "../../../store/runs/run-locks.ts";
import type { RunRow } from "../../../store/runs/runs.ts";
import { beginStep, enterAgain, maintenanceSince, parked, passBoundary } from "../boundary/boundary.ts";
import {
  NOTHING_INSTALLED,
  RELEASE,
  isClaimedBy,
  isLeftAlone,
  moveNode,
  openContext,
  resume,
  toFailure,
} from "./claimed-run.ts";
import type {
  ClaimedRun,
  InstalledImage,
  RunContext,
  RunDirective,
  RunEnvironment,
  StepContext,
} from "./claimed-run.ts";
import { beginAbort, failRun } from "../boundary/end-run.ts";
import { NeedsOwnTransactionError } from "../commit/ledger.ts";
import type { Ledger } from "../commit/ledger.ts";
import { nextPosition, stepLabel } from "../../plans/plan.ts";
import { isHold, isReservedWait } from "../../plans/reserved-steps.ts";
import { openMachine } from "../call/machine.ts";
import type { Machine } from "../call/machine.ts";
import { failStep, giveUpStep, isCancelledBy, settleAbort } from "../boundary/settle-step.ts";
import { parkAgain } from "../boundary/settle-power.ts";
import { UNKNOWN_CONDITION } from "../../scheduling/abort-outcome.ts";
import { interruptOf } from "../../scheduling/waiting-runs.ts";
import { secretTexts } from "../../input/variables.ts";
import { secretOutputs, takenOutputs } from "./taken-outputs.ts";
import type { Transaction } from "../../transaction.ts";

export interface ClaimParts extends RunEnvironment {
  readonly registry: Registry;
  readonly observer: Observer;
  /** True if this process began the attempt in a claim that was not acknowledged, and so never entered it. */
  wasNeverEntered(run: RunRow, attempt: AttemptRow): boolean;
}

/** The rows that a claim reads beside its run. */
export interface ClaimReads {
  readonly node: NodeRow;
  /** An error if one of them cannot be read. */
  readonly secrets: ClaimSecrets | SecretError;
  readonly plan: Plan;
  /** The newest attempt at the run's current step. */
  readonly attempt: TimedAttempt | undefined;
}

/** The secrets of a run and its node, decrypted, and what they are a part of. */
interface ClaimSecrets {
  readonly ofNode: Secrets;
  readonly installed: InstalledImage;
  readonly variables: OpenVariables;
  /** Secret texts among the outputs of the node's own steps. */
  readonly ownOutputs: readonly string[];
  /** The variables as they are stored from now on, if outputs of other nodes were filled in. */
  readonly filledIn: JsonObject | null;
  /** The output that no node has; null if none is missing. */
  readonly lacks: string | null;
  readonly callbackKey: CallbackKey;
}

const PLANS_KEPT = 1_000;

type ReadClaims = (transaction: Transaction, runs: readonly LockedRun[]) => Promise<ReadonlyMap<string, ClaimReads>>;

/** Reads for many claims at once. Plans never change, so the most recent ones are cached. */
export function createClaimReader(parts: VariablesParts): ReadClaims {
  const { keyring } = parts;
  const cache = new LruMap<string, Plan>(PLANS_KEPT);

  async function readPlans({ tx }: Transaction, hashes: readonly string[]): Promise<ReadonlyMap<string, Plan>> {
    const plans = new Map<string, Plan>();
    for (const hash of hashes) {
      const plan = cache.get(hash);
      if (plan) plans.set(hash, plan);
    }
    const unknown = [...new Set(hashes)].filter((hash) => !plans.has(hash));
    for (const [hash, plan] of await plansByHashes(tx, unknown)) {
      plans.set(hash, plan);
      cache.set(hash, plan);
    }
    return plans;
  }

  return async (transaction, runs) => {
    const { tx } = transaction;
    const unfinished = runs.filter(({ finishedAt }) => finishedAt === null);
    const nodeIds = unfinished.map(({ nodeId }) => nodeId);
    const runIds = unfinished.map(({ id }) => id);
    const hashes = unfinished.map(({ planHash }) => planHash);
    const [nodes, secrets, attempts, plans, installedOf, variablesOf] = await Promise.all([
      nodesByIds(tx, nodeIds),
      secretsOf(tx, keyring, SECRETS.ofNodes, nodeIds),
      attemptsUnderWay(tx, runIds),
      readPlans(transaction, hashes),
      readInstalled(tx, keyring, unfinished),
      openVariables(tx, parts, SECRETS.runVariables, unfinished),
    ]);
    const outputsOf = await secretOutputs(tx, parts, nodes);
    const taken = await takenOutputs(tx, parts, unfinished, (run) => variablesOf(run.id));
    const callbackKeys = unfinished.map(({ callbackKey }) => callbackKey);
    await keyring.load(tx, callbackKeys);
    const readSecrets = (run: LockedRun) =>
      readable(() => ({
        ofNode: orThrow(secrets.get(run.nodeId) ?? {}),
        installed: installedOf(run),
        variables: orThrow(variablesOf(run.id)),
        ownOutputs: outputsOf(run.nodeId),
        filledIn: null,
        lacks: null,
        ...taken.get(run.id),
        callbackKey: keyring.callbackKey(run),
      }));
    const byId = new Map(nodes.map((node) => [node.id, node]));
    return new Map(
      unfinished.flatMap((run) => {
        const { id, nodeId, planHash } = run;
        const [node, plan] = [byId.get(nodeId), plans.get(planHash)];
        return node && plan ? [[id, { node, plan, secrets: readSecrets(run), attempt: attempts.get(id) }]] : [];
      }),
    );
  };
}

/** The image and the user data of each run. Clean-up runs install nothing. Throws for a run that it cannot read. */
async function readInstalled(
  tx: Tx,
  keyring: Keyring,
  runs: readonly LockedRun[],
): Promise<(run: LockedRun) => InstalledImage> {
  const work = runs.filter(({ purpose }) => purpose === "WORK");
  const imageIds = new Set(work.flatMap(({ operationImageId }) => operationImageId ?? []));
  const withUserData = work.filter(({ operationUserDataBytes }) => operationUserDataBytes !== null);
  const operationIds = new Set(withUserData.map(({ operationId }) => operationId));
  const [images, userData] = await Promise.all([
    imagesByIds(tx, [...imageIds]),
    secretsOf(tx, keyring, SECRETS.operationUserData, [...operationIds]),
  ]);
  const byId = new Map(images.map((image) => [image.id, image]));
  return ({ purpose, operationId, operationImageId }) =>
    purpose === "WORK"
      ? { image: byId.get(operationImageId ?? "") ?? null, userData: orThrow(userData.get(operationId) ?? null) }
      : NOTHING_INSTALLED;
}

/** For a run that fails, because its secrets cannot be read. */
const NOTHING_READ: Omit<ClaimSecrets, "ofNode"> = {
  installed: NOTHING_INSTALLED,
  variables: NO_VARIABLES,
  ownOutputs: [],
  filledIn: null,
  lacks: null,
  callbackKey: "",
};

const NO_WAIT = { wakeAt: null, waitReason: null, waitingSince: null, waitFor: null } as const;

/** Takes up a claimed run. `reads`: undefined if the run has ended. */
export async function claimRun(
  parts: ClaimParts,
  ledger: Ledger,
  { fence }: Claim,
  reads: ClaimReads | undefined,
): Promise<RunDirective> {
  const { run } = ledger;
  if (!reads || !isClaimedBy({ fence }, run)) return RELEASE;
  // What made it due was withdrawn since: its start, or the end of its wait.
  if (run.owner === null && !run.isDue) {
    ledger.changeRun({});
    return RELEASE;
  }
  // It was woken by an interrupt that was withdrawn since.
  if (run.state === "HOLDING" && interruptOf(run, run.operationInterrupt) === null) {
    ledger.changeRun({ dueAt: null });
    return RELEASE;
  }
  const { node, plan, attempt, secrets } = reads;
  ledger.changeRun({
    owner: parts.replica,
    dueAt: null,
    state: "RUNNING",
    startedAt: run.startedAt ?? ledger.now,
    // The wait of a step goes on after a change of power, whichever process carries it out.
    ...(run.forcedPower === null && NO_WAIT),
  });
  const opened = await openInTime(parts, ledger, reads);
  ledger.afterCommit(() =>
    parts.observer.runClaimed(
      { operationId: run.operationId, runId: run.id, node: node.name, purpose: run.purpose },
      { first: run.startedAt === null, takenOver: attempt?.state === "RUNNING" },
    ),
  );
  const machine = "problem" in opened ? unusableMachine(node) : opened;
  const known = secrets instanceof SecretError ? NOTHING_READ : secrets;
  const { values: variables, secretNames } = known.variables;
  machine.redactor.hide([...secretTexts(known.variables), ...known.ownOutputs]);
  const place = { node, leg: run.leg, position: run.position };
  const claimed: ClaimedRun = { run, fence, plan, machine, ...place, ...known, variables, secretNames };
  const context = openContext(parts, ledger, claimed);
  if (known.lacks !== null)
    return failRun(context, null, {
      code: "GROUP_REQUIRED",
      reason: known.lacks,
      message: `Node ${node.name}: ${known.lacks}`,
      retryable: true,
    });
  if (known.filledIn) ledger.changeRun({ variables: known.filledIn });
  if ("problem" in opened)
    return failRun(context, attempt ?? null, {
      code: opened.code ?? "UNSUPPORTED_BY_DRIVER",
      reason: opened.problem,
      message: `Node ${node.name}: ${opened.problem}`,
      retryable: false,
    });
  return continueRun(parts, context, attempt);
}

/** Continues where the run was parked, released or lost. */
async function continueRun(
  parts: ClaimParts,
  run: RunContext,
  attempt: TimedAttempt | undefined,
): Promise<RunDirective> {
  const { claimed, interrupt } = run;
  const { plan, position } = claimed;
  const step = plan.steps[position];
  // Its failure was stored, and the process died before it had cleaned up the machine.
  if (claimed.run.interruptFailure !== null)
    return recoverAbort(run, attempt && attempt.state !== "SUCCEEDED" ? attempt : null);
  if (!step || !attempt) return passBoundary(run, position);
  const context = { ...run, step, attempt };
  switch (attempt.state) {
    case "RUNNING":
      return recoverStep(parts, context);
    case "WAITING":
      return wakeStep(context);
    case "FAILED": {
      if (interrupt === "ABORT") return recoverAbort(run, attempt);
      if (interrupt !== "STOP") return beginStep(run, position, attempt.number + 1);
      const unknown = { code: "BACKEND_FAILED", reason: "The step failed.", retryable: true } as const;
      return giveUpStep(context, attempt.failure ?? toFailure(claimed, step, unknown, unknown.reason));
    }
    default:
      return passBoundary(run, nextPosition(plan, position + 1));
  }
}

type TimedContext = StepContext & { readonly attempt: TimedAttempt };

/** Continues a step that was parked. */
async function wakeStep(context: TimedContext): Promise<RunDirective> {
  const { ledger, claimed, step, attempt, interrupt } = context;
  if (isCancelledBy(interrupt, step, claimed.run)) return recoverAbort(context, attempt);
  // Of a controller that is away.
  const { failure } = attempt;
  if (failure && interrupt === "ABORT") return recoverAbort(context, attempt);
  if (claimed.run.forcedPower) return forcePower(context, claimed.run.forcedPower);
  if (failure && interrupt === "STOP") return giveUpStep(context, failure);
  if (interrupt === "STOP" && (isHold(step) || isReservedWait(step))) {
    ledger.changeAttempt(attempt, { state: "ABORTED", finishedAt: ledger.now });
    return passBoundary(context, claimed.position);
  }
  const stoodFrom = await standsStillFrom(context);
  if (stoodFrom !== null) return wakeInMaintenance(context, stoodFrom);
  resume(context);
  if (attempt.expired && attempt.callback === null && isWokenByDeadline(claimed.run, attempt))
    return failStep(context, {
      code: "TIMEOUT",
      reason: `it did not end within ${step.timeoutSeconds} s`,
      retryable: true,
    });
  return enterAgain(context);
}

/**
 * Changes the power beside the step that waits. If a process died at the change, what must not be done twice is not
 * repeated, and nothing is that ends each process.
 */
function forcePower(context: TimedContext, { step, position }: ForcedPower): RunDirective {
  const { ledger, claimed, attempt } = context;
  const recoveries = recoveriesOf(claimed.run, attempt);
  const mayRepeat = claimed.run.owner === null || (step.idempotent && recoveries < RECOVERIES_MAX);
  ledger.changeAttempt(attempt, { recoveries: mayRepeat ? recoveries : 0 });
  if (!mayRepeat || position !== claimed.position) return parkAgain(context, attempt, { forcedPower: null });
  const { generation } = claimed.run;
  return { kind: "FORCE_POWER", claimed, step, attempt, generation, leftMs: step.timeoutSeconds * 1000 };
}

/**
 * Since when the timeout of a parked step has stood still; null if its node is not in maintenance, or if the work was
 * requested in maintenance and so does not wait for the end of it.
 */
async function standsStillFrom(context: TimedContext): Promise<Date | null> {
  if (context.claimed.plan.inMaintenance) return null;
  const since = await maintenanceSince(context);
  const { waitingSince } = context.claimed.run;
  return since === null || waitingSince === null ? since : new Date(Math.max(since.getTime(), waitingSince.getTime()));
}

/** How often a run whose timeout stands still is looked at. The end of maintenance wakes it in time. */
const MAINTENANCE_LOOK_SECONDS = 60;

/** Continues a parked step of a node in maintenance, except that its time is never over. */
function wakeInMaintenance(context: TimedContext, stoodFrom: Date): RunDirective {
  const { ledger, claimed, attempt } = context;
  const { run } = claimed;
  const deadlineAt = new Date(attempt.deadlineAt.getTime() + ledger.now.getTime() - stoodFrom.getTime());
  const { failure } = attempt;
  // A controller that is away may be so during maintenance.
  const at = failure && new Date(Date.parse(failure.at) + ledger.now.getTime() - stoodFrom.getTime()).toISOString();
  ledger.changeAttempt(attempt, { deadlineAt, ...(failure && at && { failure: { ...failure, at } }) });
  const isPlainWait = run.waitReason === "CALLBACK" || (run.waitReason === "TIME" && isWokenByDeadline(run, attempt));
  if (failure !== null || (isPlainWait && attempt.callback === null)) {
    const left = Math.max(0, ((run.wakeAt ?? ledger.now).getTime() - stoodFrom.getTime()) / 1000);
    const dueAt = new Date(ledger.now.getTime() + Math.max(left, MAINTENANCE_LOOK_SECONDS) * 1000);
    ledger.changeRun({ ...parked(ledger, run.waitReason ?? "TIME", left), dueAt });
    return RELEASE;
  }
  resume(context);
  return enterAgain({ ...context, attempt: { ...attempt, deadlineAt, expired: deadlineAt <= ledger.now } });
}

/** Continues a step whose process died in it. */
async function recoverStep(parts: ClaimParts, context: TimedContext): Promise<RunDirective> {
  const { ledger, claimed, step, attempt, interrupt } = context;
  const wasNeverEntered = parts.wasNeverEntered(claimed.run, attempt);
  const isLost = !wasNeverEntered && !step.idempotent && attempt.memo === null && attempt.part === "RUN";
  if (attempt.part === "ABORT") return recoverAbort(context, attempt);
  // After a takeover too, an abort waits for the end of a step that must not be interrupted, or that has left a memo
  // because its machine may still work. One that ends at its boundary was cut by the death of its process.
  const wasCut = step.interruptible === "AT_BOUNDARY" && attempt.memo === null && !isLost && !mustNotBeCut(step);
  if (isCancelledBy(interrupt, step, claimed.run) || (interrupt === "ABORT" && wasCut)) {
    ledger.changeAttempt(attempt, { part: "ABORT", recoveries: 0 });
    return beginAbort(claimed, attempt);
  }
  const again = { ...context, attempt: { ...attempt, expired: true } };
  if (wasNeverEntered) return enterAgain(again);
  if (isLost) {
    const reason = `the process that ran it ended, and the step must not be run twice. Find out how far it came, then restart the operation`;
    return failStep(context, { code: "INTERRUPTED", reason, retryable: true, retried: true });
  }
  const recoveries = recoveriesOf(claimed.run, attempt);
  if (recoveries >= RECOVERIES_MAX) {
    const reason = `the process that ran it ended ${recoveries} times during it. Find the cause in the logs of the service and of its system, such as a crash or a lack of memory, then restart the operation`;
    ledger.changeAttempt(attempt, { recoveries: 0 });
    return failStep(context, { code: "INTERRUPTED", reason, retryable: true, retried: true });
  }
  // What this entry did is not known, so that an earlier failure says nothing about the machine.
  ledger.changeAttempt(attempt, { recoveries, failure: null });
  moveNode(context, "recover", {
    reason: `the process that ran ${stepLabel(step)} ended; the step is entered again`,
  });
  return enterAgain({ ...again, attempt: { ...again.attempt, failure: null } });
}

/** A step, or the undoing of one, that ends three processes one after the other would end all that enter it. */
const RECOVERIES_MAX = 3;

/** A run that was parked, or released by a process that shut down or was paused, has no owner. */
function recoveriesOf({ owner }: RunRow, { recoveries }: AttemptRow): number {
  return owner === null ? recoveries : recoveries + 1;
}

/** Begins the abort clean-up, or ends it without calling the machine if too many processes have ended in it. */
async function recoverAbort(context: RunContext, attempt: AttemptRow | null): Promise<RunDirective> {
  const { ledger, claimed } = context;
  const directive = beginAbort(claimed, attempt);
  if (!attempt) return directive;
  const recoveries = recoveriesOf(claimed.run, attempt);
  ledger.changeAttempt(attempt, { recoveries });
  if (recoveries < RECOVERIES_MAX) return directive;
  const step = stepLabel(claimed.plan.steps[attempt.step]);
  const tearDownError = `${step} could not be undone: the process that undid it ended ${recoveries} times`;
  const held = { ...context, claimed: { ...claimed, run: { ...claimed.run, owner: context.environment.replica } } };
  const left = { ...UNKNOWN_CONDITION, mayBeWorking: isLeftAlone(directive), tearDownError };
  return settleAbort(held, directive, { left, mayCutPower: false });
}

/**
 * A driver's settings schema runs in this process and may take any time. Other runs in the transaction wait only
 * briefly.
 */
const OPEN_MS = { shared: 500, own: 10_000 } as const;

async function openInTime(
  parts: ClaimParts,
  ledger: Ledger,
  { node, secrets }: ClaimReads,
): ReturnType<typeof openMachine> {
  const ofNode = secrets instanceof SecretError ? secrets : secrets.ofNode;
  const ms = ledger.hasOwnTransaction ? OPEN_MS.own : OPEN_MS.shared;
  const opened = await withinTime(ms, openMachine(parts.registry, node, ofNode, parts.observer), null);
  if (opened !== null) return opened;
  if (!ledger.hasOwnTransaction) throw new NeedsOwnTransactionError();
  return { problem: `its drivers did not finish checking its settings within ${ms / 1000} s.` };
}

/** Stands for a machine that could not be opened; it is never called. */
function unusableMachine(node: NodeRow): Machine {
  return {
    node,
    composition: { giver: () => null, givers: () => [], inspectors: [], drivers: [] },
    redactor: createRedactor([]),
    circuits: new Circuits(),
    settingsOf: () => undefined,
  };
}

/** False if the step was due before its deadline, and only the lack of a worker made it late. */
function isWokenByDeadline(run: RunRow, attempt: AttemptRow): boolean {
  return run.wakeAt === null || run.wakeAt.getTime() >= attempt.deadlineAt.getTime() - DEADLINE_TOLERANCE_MS;
}
