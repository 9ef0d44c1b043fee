/**
 * What is to be written about a run at one boundary. The holder of a run notes it here, in the terms of the run, and when
 * the runs that share a transaction have all been judged, their ledgers are stored together: each table takes one statement,
 * however many runs there are. A ledger that is not stored, because judging its run failed, leaves nothing behind.
 *
 * What is noted is not to be seen by statements of the same transaction until it is stored; what has to come after it is
 * given to `afterwards`.
 */
import { next } from "../../lifecycle/machine.ts";
import type { NodeEvent, NodeState } from "../../lifecycle/node-states.ts";
import type { FinalRunState } from "../../lifecycle/operation-states.ts";
import type { Failure } from "../../store/records.ts";
import { beginAttempts, changeHeldAttempts } from "../../store/attempts.ts";
import type { AttemptRow, HeldAttemptChange } from "../../store/attempts.ts";
import { insertInventories } from "../../store/nodes.ts";
import type { HeldNodeChange } from "../../store/nodes.ts";
import { operationsBegin } from "../../store/operations.ts";
import { ENDED, changeHeldRuns } from "../../store/runs.ts";
import type { HeldRunChange, LockedRun } from "../../store/runs.ts";
import { appendLines } from "../../store/step-log.ts";
import type { StepLogRow } from "../../store/step-log.ts";
import type { HeldJob } from "../jobs/leases.ts";
import type { Queue } from "../jobs/queue.ts";
import { applyRunEnds } from "../scheduling/finish-run.ts";
import type { FinishParts } from "../scheduling/finish-run.ts";
import { changeNodes } from "../transaction.ts";
import type { Hop, Transaction } from "../transaction.ts";
import { wakeStopped } from "../scheduling/waiting-runs.ts";

/** The share of one run in a transaction that holds it locked. */
export interface Ledger {
  readonly work: Transaction;
  /** As it was found. */
  readonly run: LockedRun;
  /** When the transaction began, by the database's clock. */
  readonly now: Date;
  /** Whether the transaction is this run's alone: what takes long, or many locks, is not for others to wait for. */
  readonly hasOwnTransaction: boolean;
  /** A change of nothing tells whoever watches that something about it has changed. */
  changeRun(change: HeldRunChange): void;
  beginAttempt(attempt: AttemptRow): void;
  changeAttempt(attempt: Pick<AttemptRow, "runId" | "step" | "number">, change: HeldAttemptChange): void;
  /** Takes the node, which is in `from`, along an edge. Answers where that leads; throws where the table has no such edge. */
  moveNode(
    from: NodeState,
    event: NodeEvent,
    why: Omit<NonNullable<Hop["why"]>, "event">,
    change: Omit<HeldNodeChange, "state">,
  ): NodeState;
  /** Changes what is not the node's state. */
  changeNode(state: NodeState, change: Omit<HeldNodeChange, "state">): void;
  addInventory(row: Parameters<typeof insertInventories>[1][number]): void;
  addLines(rows: readonly StepLogRow[]): void;
  /** The job ends; where the run is parked its next one is due in so many seconds. */
  endJob(job: HeldJob, nextInSeconds?: number): void;
  /** The run ends, and its operation draws the consequences. */
  endRun(state: FinalRunState, change?: { readonly failure?: Failure; readonly leftAs?: LockedRun["leftAs"] }): void;
  /** The run is left parked where a stop ends it: it is woken if one has been asked for in the meantime. */
  wakeIfStopped(): void;
  /** Done when everything is stored, before the commit. */
  afterwards(effect: () => Promise<void>): void;
  /** Runs after the commit, and not at all where the ledger was not stored. */
  afterCommit(effect: () => void): void;
}

/** A ledger with what was noted in it. */
export interface OpenLedger extends Ledger {
  readonly notes: Notes;
}

interface Notes {
  run: HeldRunChange | null;
  readonly begun: AttemptRow[];
  readonly attempts: Map<string, Pick<AttemptRow, "runId" | "step" | "number"> & { change: HeldAttemptChange }>;
  readonly hops: Hop[];
  readonly inventories: Parameters<typeof insertInventories>[1][number][];
  readonly lines: StepLogRow[];
  readonly jobs: { readonly job: HeldJob; readonly nextInSeconds: number | null }[];
  wakesIfStopped: boolean;
  end: { readonly state: FinalRunState; readonly failure: Failure | null } | null;
  readonly afterwards: (() => Promise<void>)[];
  readonly afterCommit: (() => void)[];
}

/** Thrown to have a run judged again in a transaction of its own. */
export class NeedsOwnTransactionError extends Error {}

export function openLedger(work: Transaction, run: LockedRun, hasOwnTransaction: boolean): OpenLedger {
  const notes: Notes = {
    run: null,
    begun: [],
    attempts: new Map(),
    hops: [],
    inventories: [],
    lines: [],
    jobs: [],
    wakesIfStopped: false,
    end: null,
    afterwards: [],
    afterCommit: [],
  };
  const { lockedAt: now } = run;

  /** What does not move the node joins the hop before it; the next move takes it along. */
  function noteHop(from: NodeState, why: Hop["why"], change: HeldNodeChange): void {
    const last = notes.hops.at(-1);
    if (last && (why === null || last.why === null)) {
      notes.hops[notes.hops.length - 1] = { ...last, why: last.why ?? why, change: { ...last.change, ...change } };
    } else notes.hops.push({ nodeId: run.nodeId, from, why, change });
  }

  return {
    work,
    run,
    now,
    hasOwnTransaction,
    notes,
    changeRun(change) {
      notes.run = { ...notes.run, ...change };
    },
    beginAttempt(attempt) {
      notes.begun.push(attempt);
    },
    changeAttempt({ runId, step, number }, change) {
      const key = `${step}:${number}`;
      notes.attempts.set(key, { runId, step, number, change: { ...notes.attempts.get(key)?.change, ...change } });
    },
    moveNode(from, event, why, change) {
      const to = next(from, event);
      noteHop(from, { ...why, event }, { ...change, state: to });
      return to;
    },
    changeNode(state, change) {
      noteHop(state, null, change);
    },
    addInventory(row) {
      notes.inventories.push(row);
    },
    addLines(rows) {
      notes.lines.push(...rows);
    },
    endJob(job, nextInSeconds) {
      notes.jobs.push({ job, nextInSeconds: nextInSeconds ?? null });
    },
    endRun(state, change = {}) {
      // Others of the operation may have to be undone, stopped or cleaned up.
      if (state !== "SUCCEEDED" && !hasOwnTransaction) throw new NeedsOwnTransactionError();
      notes.run = {
        ...notes.run,
        ...change,
        ...ENDED,
        state,
        finishedAt: now,
        fence: (notes.run?.fence ?? run.fence) + 1,
      };
      notes.end = { state, failure: change.failure ?? null };
    },
    wakeIfStopped() {
      notes.wakesIfStopped = true;
    },
    afterwards(effect) {
      notes.afterwards.push(effect);
    },
    afterCommit(effect) {
      notes.afterCommit.push(effect);
    },
  };
}

/** Stores what ledgers of one transaction hold. */
export async function storeLedgers(
  work: Transaction,
  parts: FinishParts & { readonly queue: Queue },
  ledgers: readonly OpenLedger[],
): Promise<void> {
  const { tx } = work;
  const notes = ledgers.map((ledger) => ledger.notes);
  const jobs = notes.flatMap((note) => note.jobs);
  for (const { afterCommit } of notes) for (const effect of afterCommit) work.afterCommit(effect);
  const parked = ledgers.flatMap(({ run, notes: { jobs: ended } }) =>
    ended.flatMap(({ nextInSeconds }) => (nextInSeconds === null ? [] : [{ runId: run.id, seconds: nextInSeconds }])),
  );
  // Sent one behind the other, and answered together: nothing is sent any more when the first failure is told.
  const answers = await Promise.allSettled([
    ...changeNodes(
      work,
      notes.map(({ hops }) => hops),
    ),
    beginAttempts(
      tx,
      notes.flatMap(({ begun }) => begun),
    ),
    changeHeldAttempts(
      tx,
      notes.flatMap(({ attempts }) => [...attempts.values()]),
    ),
    insertInventories(
      tx,
      notes.flatMap(({ inventories }) => inventories),
    ),
    appendLines(
      tx,
      notes.flatMap(({ lines }) => lines),
    ),
    changeHeldRuns(
      tx,
      ledgers.flatMap(({ run, notes: { run: change } }) => (change ? [{ id: run.id, change }] : [])),
    ),
    parts.queue.end(
      work,
      jobs.map(({ job }) => job),
    ),
    parts.queue.park(work, parked),
    operationsBegin(tx, [
      ...new Set(
        ledgers.flatMap(({ run, notes: { run: change } }) =>
          run.operationState === "QUEUED" && change?.startedAt ? [run.operationId] : [],
        ),
      ),
    ]),
  ]);
  const failed = answers.find((answer) => answer.status === "rejected");
  if (failed) throw failed.reason;
  await applyRunEnds(
    work,
    parts,
    ledgers.flatMap(({ run, notes: { end } }) => (end ? [{ run, ...end }] : [])),
  );
  await wakeStopped(
    work,
    parts.queue,
    ledgers.flatMap(({ run, notes: { wakesIfStopped } }) => (wakesIfStopped ? [run] : [])),
  );
  for (const { afterwards } of notes) for (const effect of afterwards) await effect();
}
