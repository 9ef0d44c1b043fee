/**
 * A process takes a run in hand: the fence is raised, so that whoever held it before can write no more, and what was under
 * way is looked at. A step that crashed is entered again, or fails when it must not be; one that was parked is entered again.
 */
import type { Interrupt } from "../../lifecycle/operation-states.ts";
import type { Registry } from "../../drivers/registry.ts";
import type { Observer } from "../../observer.ts";
import { attemptsUnderWay } from "../../store/attempts.ts";
import type { AttemptRow, TimedAttempt } from "../../store/attempts.ts";
import { nodesByIds, secretsOfNodes } from "../../store/nodes.ts";
import type { NodeRow, Secrets } from "../../store/nodes.ts";
import { plansByHashes } from "../../store/plans.ts";
import type { Plan, PlannedStep } from "../../store/records.ts";
import type { LockedRun, RunRow } from "../../store/runs.ts";
import {
  atTheBoundary,
  enterAgain,
  failRun,
  givenUp,
  goOn,
  isCutBy,
  resume,
  stepFailed,
  beginAbort,
} from "./boundary.ts";
import type { BoundaryParts, Next } from "./boundary.ts";
import { describe, failureOf, moveClaimed } from "./claimed-run.ts";
import type { ClaimedRun } from "./claimed-run.ts";
import { NeedsOwnTransactionError } from "./ledger.ts";
import type { Ledger } from "./ledger.ts";
import { endedByStop } from "../scheduling/parked.ts";
import { nextPosition, stepLabel } from "../plans/plan.ts";
import type { HeldJob } from "../jobs/leases.ts";
import type { Queue } from "../jobs/queue.ts";
import { isHold, isReservedWait } from "../plans/reserved-steps.ts";
import { openMachine } from "./perform-step.ts";
import type { Machine } from "./perform-step.ts";
import type { Transaction } from "../transaction.ts";
import { interruptOf } from "../scheduling/waiting-runs.ts";

export interface ClaimParts extends BoundaryParts {
  readonly queue: Queue;
  readonly registry: Registry;
  readonly observer: Observer;
  /** Whether this process began an attempt and knows that it never entered it: it was not told whether that was stored. */
  wasNeverEntered(run: RunRow, attempt: AttemptRow): boolean;
}

/** What a claim needs to read beside its run. */
export interface ClaimReads {
  readonly node: NodeRow;
  readonly secrets: Secrets;
  readonly plan: Plan;
  /** The newest attempt at the step that the run is at. */
  readonly attempt: TimedAttempt | undefined;
}

const PLANS_KEPT = 1_000;

export type ReadClaims = (work: Transaction, runs: readonly LockedRun[]) => Promise<ReadonlyMap<string, ClaimReads>>;

/** Reads for many claims at once. Plans never change, so those used last are kept. */
export function createClaimReader(): ReadClaims {
  const plans = new Map<string, Plan>();

  async function keepPlans(work: Transaction, hashes: readonly string[]): Promise<void> {
    const unknown = [...new Set(hashes)].filter((hash) => !plans.has(hash));
    for (const [hash, plan] of unknown.length === 0 ? [] : await plansByHashes(work.tx, unknown)) plans.set(hash, plan);
    for (const hash of plans.keys()) {
      if (plans.size <= PLANS_KEPT) break;
      if (!hashes.includes(hash)) plans.delete(hash);
    }
  }

  return async (work, runs) => {
    const unfinished = runs.filter(({ finishedAt }) => finishedAt === null);
    const nodeIds = unfinished.map(({ nodeId }) => nodeId);
    const [nodes, secrets, attempts] = await Promise.all([
      nodesByIds(work.tx, nodeIds),
      secretsOfNodes(work.tx, nodeIds),
      attemptsUnderWay(
        work.tx,
        unfinished.map(({ id }) => id),
      ),
      keepPlans(
        work,
        unfinished.map(({ planHash }) => planHash),
      ),
    ]);
    const byId = new Map(nodes.map((node) => [node.id, node]));
    return new Map(
      unfinished.flatMap(({ id, nodeId, planHash }) => {
        const [node, plan] = [byId.get(nodeId), plans.get(planHash)];
        return node && plan
          ? [[id, { node, plan, secrets: secrets.get(nodeId) ?? {}, attempt: attempts.get(id) }]]
          : [];
      }),
    );
  };
}

/** Claims a run for a job. `reads`: undefined where the run has ended. */
export async function claim(
  parts: ClaimParts,
  ledger: Ledger,
  job: HeldJob,
  reads: ClaimReads | undefined,
): Promise<Next> {
  const { run } = ledger;
  if (
    !reads ||
    run.state === "QUEUED" ||
    isParkedWithoutJob(run) ||
    (await isEarly(ledger, reads)) ||
    (await isHeldByOther(parts, run, job))
  ) {
    ledger.endJob(job);
    return null;
  }
  const { node, plan, attempt } = reads;
  const fence = run.fence + 1;
  ledger.changeRun({
    fence,
    owner: job.id,
    state: "RUNNING",
    startedAt: run.startedAt ?? ledger.now,
    wakeAt: null,
    waitReason: null,
    waitingSince: null,
    waitFor: null,
  });
  const opened = await openInTime(parts, ledger, reads);
  ledger.afterCommit(() =>
    parts.observer.runClaimed(
      { operationId: run.operationId, runId: run.id, node: node.name, purpose: run.purpose },
      { first: run.startedAt === null, takenOver: attempt?.state === "RUNNING" },
    ),
  );
  const held: ClaimedRun = {
    run,
    fence,
    job,
    plan,
    node,
    leg: run.leg,
    position: run.position,
    machine: "problem" in opened ? unusable(node) : opened,
  };
  if ("problem" in opened) {
    return failRun(ledger, held, attempt ?? null, {
      code: "UNSUPPORTED_BY_DRIVER",
      reason: `Node ${node.name}: ${opened.problem}`,
      retryable: false,
    });
  }
  return takeUp(parts, ledger, held, attempt, interruptOf(run, run.operationInterrupt));
}

async function takeUp(
  parts: ClaimParts,
  ledger: Ledger,
  held: ClaimedRun,
  attempt: TimedAttempt | undefined,
  interrupt: Interrupt | null,
): Promise<Next> {
  const { run, plan } = held;
  const step = plan.steps[run.position];
  if (!step || !attempt) return atTheBoundary(parts, ledger, held, run.position, interrupt);
  switch (attempt.state) {
    case "RUNNING":
      return recover(parts, ledger, held, step, attempt, interrupt);
    case "WAITING":
      if (isCutBy(interrupt, step, run)) return beginAbort(held, attempt);
      if (interrupt === "STOP" && (isHold(step) || isReservedWait(step))) {
        ledger.changeAttempt(attempt, { state: "ABORTED", finishedAt: ledger.now });
        return atTheBoundary(parts, ledger, held, run.position, interrupt);
      }
      resume(ledger, held);
      if (attempt.expired && attempt.callback === null && isWokenByDeadline(run, attempt)) {
        return stepFailed(
          parts,
          ledger,
          held,
          step,
          attempt,
          { code: "TIMEOUT", reason: `it did not end within ${step.timeoutSeconds} s`, retryable: true },
          interrupt,
        );
      }
      return enterAgain(parts, ledger, held, step, attempt);
    case "FAILED":
      if (interrupt === "ABORT") return beginAbort(held, null);
      if (interrupt === "STOP")
        return givenUp(
          parts,
          ledger,
          held,
          attempt,
          attempt.failure ??
            failureOf(held, step, { code: "BACKEND_FAILED", reason: "The step failed.", retryable: true }),
          interrupt,
        );
      return goOn(parts, ledger, held, run.position, attempt.number + 1);
    default:
      return atTheBoundary(parts, ledger, held, nextPosition(plan, run.position + 1), interrupt);
  }
}

/** A driver's schema checks settings in this process, and may take as long as it likes; others do not wait for it. */
const OPEN_MS = { shared: 500, own: 10_000 } as const;

async function openInTime(
  parts: ClaimParts,
  ledger: Ledger,
  { node, secrets }: ClaimReads,
): ReturnType<typeof openMachine> {
  const ms = ledger.hasOwnTransaction ? OPEN_MS.own : OPEN_MS.shared;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((give) => {
    timer = setTimeout(() => give(null), ms);
  });
  try {
    const opened = await Promise.race([openMachine(parts.registry, node, secrets, parts.observer), late]);
    if (opened !== null) return opened;
    if (!ledger.hasOwnTransaction) throw new NeedsOwnTransactionError();
    return { problem: `its drivers did not come to an end with checking its settings within ${ms / 1000} s.` };
  } finally {
    clearTimeout(timer);
  }
}

/** A machine that nothing is asked of. */
function unusable(node: NodeRow): Machine {
  return {
    node,
    composition: { giver: () => null, inspect: null, drivers: [] },
    redactor: { text: (text) => text, json: (json) => json },
    settingsOf: () => undefined,
  };
}

/** A step that is parked until its deadline may wake a moment before it: the one is our clock's, the other the database's. */
const DEADLINE_TOLERANCE_MS = 1_000;

/** A parked step's time is over when its deadline woke it; one that was due earlier has only been waited on by nobody. */
function isWokenByDeadline(run: RunRow, attempt: AttemptRow): boolean {
  return run.wakeAt === null || run.wakeAt.getTime() >= attempt.deadlineAt.getTime() - DEADLINE_TOLERANCE_MS;
}

/** Held, or waiting for a place: only an interrupt, or whoever ends the wait, makes a job of it count. */
function isParkedWithoutJob(run: LockedRun): boolean {
  return (run.state === "HOLDING" || run.waitFor !== null) && interruptOf(run, run.operationInterrupt) === null;
}

/**
 * Parked until later: this is the job of an earlier stretch, whose lease ran out while that was still at work, or one that
 * woke the run when another had woken it. The parked run has a job of its own, which comes in time, or is brought forward
 * by a call-back or by an interrupt that ends what the run is parked in.
 */
async function isEarly(ledger: Ledger, { plan, attempt }: ClaimReads): Promise<boolean> {
  const { run } = ledger;
  if (run.isDue || run.state !== "WAITING" || (await isEndedNow(ledger, plan))) return false;
  return (attempt?.callback ?? null) === null;
}

/** Whether an interrupt ends a run that is parked now, and not when its step has ended. */
async function isEndedNow({ work, run }: Ledger, plan: Plan): Promise<boolean> {
  const interrupt = interruptOf(run, run.operationInterrupt);
  if (interrupt !== "ABORT") return interrupt === "STOP" && (await endedByStop(work.tx, [run])).length > 0;
  return (
    run.waitReason === "RETRY" || run.interruptFailure !== null || plan.steps[run.position]?.interruptible !== "NEVER"
  );
}

/** A run that was woken while its job was being fetched has two jobs: the one that came first works, the other ends. */
async function isHeldByOther({ queue }: ClaimParts, run: RunRow, job: HeldJob): Promise<boolean> {
  return run.state === "RUNNING" && run.owner !== null && run.owner !== job.id && queue.isHeld(run.owner);
}

/** A process died inside the step. */
function recover(
  parts: ClaimParts,
  ledger: Ledger,
  held: ClaimedRun,
  step: PlannedStep,
  attempt: TimedAttempt,
  interrupt: Interrupt | null,
): Next | Promise<Next> {
  // A step that must not be cut is not cut by a take-over either: its abort still waits for its end.
  if (attempt.part === "ABORT" || isCutBy(interrupt, step, held.run)) {
    ledger.changeAttempt(attempt, { part: "ABORT" });
    return beginAbort(held, attempt);
  }
  if (parts.wasNeverEntered(held.run, attempt))
    return enterAgain(parts, ledger, held, step, { ...attempt, expired: true });
  if (!step.idempotent && attempt.memo === null && attempt.part === "RUN") {
    const reason = `the process that ran it ended, and the step must not be run twice. Find out how far it came, then restart the operation`;
    return failRun(ledger, held, attempt, {
      code: "INTERRUPTED",
      reason: describe(held, step, reason),
      retryable: true,
    });
  }
  moveClaimed(ledger, held, "recover", {
    reason: `the process that ran ${stepLabel(step)} ended; the step is entered again`,
  });
  return enterAgain(parts, ledger, held, step, { ...attempt, expired: true });
}
