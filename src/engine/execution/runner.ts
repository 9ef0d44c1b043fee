/**
 * Works on runs: one job of the queue is the next stretch of one run. A stretch begins with a claim, goes from step to
 * step, and ends when the run ends, parks, or is handed back because the process is leaving.
 *
 * Modes of a run in the hands of this process:
 * - claimed (claim.ts): the fence is raised, so that whoever held it before can write no more.
 * - in a step: the driver is called outside any transaction. Left by the step's outcome, its deadline, or an abort.
 * - settling (boundary.ts): one transaction, with other runs' (together.ts), ends the attempt and begins the next, parks, or
 *   ends the run. It checks the fence.
 * - tearing down: an abort is carried out; the driver's `abort` and the power, then one transaction ends the run.
 */
import { setTimeout as delay } from "node:timers/promises";
import { Deadline } from "../../drivers/deadline.ts";
import type { PlannedStep } from "../../store/records.ts";
import type { Registry } from "../../drivers/registry.ts";
import type { Log } from "../../log.ts";
import type { Observer } from "../../observer.ts";
import type { AttemptRow } from "../../store/attempts.ts";
import type { Notifier } from "../../store/postgres/notifier.ts";
import { isConnectionLoss } from "../../store/postgres/database.ts";
import type { Database } from "../../store/postgres/database.ts";
import { interruptsOf } from "../../store/runs.ts";
import { settleAbort, settleStep } from "./boundary.ts";
import type { BoundaryParts, Next } from "./boundary.ts";
import { callbackPath } from "./callback.ts";
import { claim, createClaimReader } from "./claim.ts";
import type { ClaimReads } from "./claim.ts";
import { createOwnershipCheck } from "./ownership-check.ts";
import { FencedError, isClaimedBy } from "./claimed-run.ts";
import type { ClaimedRun } from "./claimed-run.ts";
import type { Ledger } from "./ledger.ts";
import type { HeldJob } from "../jobs/leases.ts";
import type { Queue } from "../jobs/queue.ts";
import { performStep } from "./perform-step.ts";
import type { StepBasis } from "./perform-step.ts";
import { createStepLog } from "./step-log.ts";
import type { StepLog } from "./step-log.ts";
import { abortMachine } from "./abort-machine.ts";
import { createGroupCommit } from "./group-commit.ts";
import type { Change } from "./group-commit.ts";
import type { Transact } from "../transaction.ts";

export interface RunnerParts {
  readonly database: Database;
  readonly transact: Transact;
  readonly registry: Registry;
  readonly queue: Queue;
  readonly nudge: () => void;
  readonly bell: Notifier;
  readonly log: Log;
  readonly observer: Observer;
  /** How long a step may take to end after its signal fired, and how long a tear-down may take, in ms. */
  readonly abortGraceMs: number;
  readonly tearDownMs: number;
}

export interface Runner {
  run(runId: string, job: HeldJob): Promise<void>;
  /** Looks whether somebody wants a run that this process holds to be aborted. */
  checkInterrupts(): void;
  /** From now on runs are handed back between two steps. */
  drain(): void;
  /** Gives up what is held: from now on nothing is written about it, its steps are told to end, and its machines asked for nothing more. */
  letGo(): void;
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

const WISH_POLL_MS = 1_000;
const WISH_AFTER_BELL_MS = 100;
const DATABASE_RETRY_MS = 500;
const AWAY_TOLD_EVERY_MS = 10_000;
/** Claims of which this process was not told whether they were stored. */
const UNACKNOWLEDGED_MAX = 10_000;

export function createRunner(parts: RunnerParts): Runner {
  const { database, registry, queue, log } = parts;
  const holdings = new Map<string, Holding>();
  /** Runs whose claim was not acknowledged: the fence it raised, and the deadline of the attempt that nobody has entered. */
  const unacknowledged = new Map<string, { readonly fence: number; readonly deadline: number }>();
  const together = createGroupCommit<ClaimReads>({ ...parts, read: createClaimReader() });
  /** Runs whose result could not be stored yet, and when that was told last. */
  const unstored = new Set<string>();
  let awayToldAt = Number.NEGATIVE_INFINITY;
  let draining = false;
  let released = false;
  const boundary: BoundaryParts = {
    queue,
    nudge: parts.nudge,
    abortGraceMs: parts.abortGraceMs,
    isDraining: () => draining,
  };
  const claims = {
    ...boundary,
    registry,
    observer: parts.observer,
    wasNeverEntered: (run: { readonly id: string; readonly fence: number }, attempt: AttemptRow) => {
      const known = unacknowledged.get(run.id);
      return known !== undefined && known.fence === run.fence && known.deadline === attempt.deadlineAt.getTime();
    },
  };

  async function judge<Verdict>(
    runId: string,
    judged: Change<ClaimReads, Verdict>,
    reads = false,
  ): Promise<Verdict | null> {
    if (released) throw new FencedError();
    return together.run(runId, judged, { reads });
  }

  async function claimRun(runId: string, job: HeldJob): Promise<Next> {
    let tried: Next = null;
    try {
      const next = await judge(runId, async (ledger, reads) => (tried = await claim(claims, ledger, job, reads)), true);
      unacknowledged.delete(runId);
      return next;
    } catch (error) {
      noteUnacknowledged(runId, tried);
      throw error;
    }
  }

  function noteUnacknowledged(runId: string, tried: Next): void {
    // Known again by the moment at which its time began, if that was in this claim: one that goes on with what was left of it
    // cannot be told from the same made by another process meanwhile.
    if (tried?.do !== "STEP" || tried.leftMs !== tried.step.timeoutSeconds * 1000) return;
    if (unacknowledged.size >= UNACKNOWLEDGED_MAX) unacknowledged.delete(unacknowledged.keys().next().value ?? "");
    unacknowledged.set(runId, { fence: tried.held.fence, deadline: tried.attempt.deadlineAt.getTime() });
  }

  /**
   * Has something written about a run that this process holds, and with it what its step said last. While the database is
   * away both are kept in memory and offered again: an outage fails no operation.
   */
  async function persist<Verdict>(
    held: ClaimedRun,
    said: StepLog | null,
    note: (ledger: Ledger, held: ClaimedRun) => Promise<Verdict> | Verdict,
  ): Promise<Verdict | null> {
    await said?.end();
    try {
      for (;;) {
        try {
          // Another transaction may judge it again, so each begins with what was held before it. Interrupts were recorded since then.
          return await judge(held.run.id, async (ledger) => {
            if (!isClaimedBy(held, ledger.run)) throw new FencedError();
            await said?.store(ledger);
            return note(ledger, { ...held, run: ledger.run });
          });
        } catch (error) {
          if (!isConnectionLoss(error) || released) throw error;
          unstored.add(held.run.id);
          tellAway(error);
          await delay(DATABASE_RETRY_MS);
        }
      }
    } finally {
      unstored.delete(held.run.id);
    }
  }

  /** One line for all that wait, and again after a while. */
  function tellAway(error: unknown): void {
    if (performance.now() - awayToldAt < AWAY_TOLD_EVERY_MS) return;
    awayToldAt = performance.now();
    log.warn({ err: error, results: unstored.size }, "the database is away; results wait to be stored");
  }

  function stepLog(held: ClaimedRun, attempt: AttemptRow): StepLog {
    const write = async (note: (ledger: Ledger) => Promise<void>) => {
      await judge(held.run.id, async (ledger) => {
        if (!isClaimedBy(held, ledger.run)) throw new FencedError();
        await note(ledger);
      });
    };
    return createStepLog({ log, write }, attempt);
  }

  // ---- one stretch

  /** `leftMs`: how long the step may yet take; this process's clock may be wrong, so the stored deadline says nothing here. */
  function requestOf(
    held: ClaimedRun,
    step: PlannedStep,
    attempt: AttemptRow,
    generation: number,
    leftMs: number,
    said: StepLog,
  ): StepBasis {
    return {
      machine: { ...held.machine, node: held.node },
      step,
      part: attempt.part,
      deadline: new Deadline(leftMs),
      memo: attempt.memo,
      callback: attempt.callback,
      callbackPath: callbackPath(held.run, generation),
      attemptKey: `${attempt.runId}:${attempt.step}:${attempt.number}`,
      variables: held.run.variables,
      confirm: confirmed(held),
      about: { operationId: held.run.operationId, runId: held.run.id, attempt: attempt.number },
      log,
      said,
    };
  }

  const confirmed = ({ run, fence, job }: ClaimedRun) =>
    createOwnershipCheck(
      {
        queue,
        fenceOf: async (id) => (await interruptsOf(database.reader, [id]))[0]?.fence,
        isReleased: () => released,
      },
      { runId: run.id, fence, job },
    );

  async function stretch(runId: string, job: HeldJob): Promise<void> {
    let next = await claimRun(runId, job);
    while (next !== null) {
      const current: NonNullable<Next> = next;
      const { held, attempt } = current;
      if (current.do === "STEP") {
        const { step, generation, leftMs } = current;
        const { cut, abandon } = hold(held, step);
        const said = stepLog(held, current.attempt);
        const outcome = await performStep({
          ...requestOf(held, step, current.attempt, generation, leftMs, said),
          abort: cut.signal,
          abandon: abandon.signal,
          graceMs: parts.abortGraceMs,
        });
        if (outcome.kind === "lost") {
          // Where nobody else has claimed the run meanwhile, it is claimed anew, as after a crash.
          await confirmed(held)();
          throw new Error(outcome.reason);
        }
        next = await persist(held, said, (ledger, now) => settleStep(boundary, ledger, now, current, outcome));
      } else {
        const step = attempt && held.plan.steps[attempt.step];
        // A step that may still be at work, though it must not be cut, is not undone under its own hands.
        const said = attempt && stepLog(held, attempt);
        const request =
          attempt && said && step && !(current.ignoredSignal && step.interruptible !== "ALWAYS")
            ? requestOf(held, step, attempt, held.run.generation, parts.tearDownMs, said)
            : null;
        const left = await abortMachine(parts, {
          held,
          attempt,
          request,
          power: current.power,
          confirm: confirmed(held),
        });
        next = await persist(held, said, (ledger, now) => settleAbort(boundary, ledger, now, current, left));
      }
    }
  }

  /** Notes that this process is inside a step, so that an abort finds it. */
  function hold(held: ClaimedRun, step: PlannedStep): Holding {
    const { done } = holdings.get(held.run.id) ?? { done: Promise.resolve() };
    const holding = {
      fence: held.fence,
      cut: new AbortController(),
      abandon: new AbortController(),
      done,
      interruptible: step.interruptible,
    };
    if (released) holding.abandon.abort();
    holdings.set(held.run.id, holding);
    return holding;
  }

  async function lookForInterrupts(): Promise<void> {
    const ids = [...holdings].filter(([, { interruptible }]) => interruptible !== null).map(([id]) => id);
    for (const { id, interrupt, fence, overdue } of await interruptsOf(database.reader, ids)) {
      const holding = holdings.get(id);
      if (!holding || holding.interruptible === null) continue;
      if (fence > holding.fence || (interrupt === "ABORT" && holding.interruptible === "ALWAYS"))
        holding.cut.abort(new Error("The step was aborted."));
      else if (overdue) holding.abandon.abort();
    }
  }

  let soon: NodeJS.Timeout | undefined;
  const look = () =>
    void lookForInterrupts().catch((error: unknown) => log.warn({ err: error }, "interrupts could not be read"));
  const poll = setInterval(look, WISH_POLL_MS);
  const unring = parts.bell.subscribe(() => {
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
          if (!(error instanceof FencedError)) throw error;
          if (released) return;
          parts.observer.fenced({ runId });
          await parts.transact((work) => queue.end(work, [job]));
        })
        .finally(() => holdings.delete(runId));
      holdings.set(runId, {
        fence: 0,
        cut: new AbortController(),
        abandon: new AbortController(),
        done: done.catch(() => {}),
        interruptible: null,
      });
      await done;
    },
    checkInterrupts: look,
    drain() {
      draining = true;
    },
    letGo() {
      released = true;
      for (const { cut, abandon } of holdings.values()) {
        cut.abort(new Error("The process is leaving."));
        abandon.abort();
      }
    },
    close() {
      clearInterval(poll);
      clearTimeout(soon);
      unring();
    },
  };
}
