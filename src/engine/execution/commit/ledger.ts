/**
 * The unit of work of one run at one boundary. The holder of the run notes its changes here, and when the changes of
 * all runs that share the transaction have run, their ledgers are stored together: one statement a table, however many
 * runs there are. A ledger whose change failed is dropped and leaves nothing behind.
 *
 * Statements of the same transaction do not see what is noted until it is stored. What must come after it is passed to
 * `afterwards`.
 */
import { next } from "../../../lifecycle/machine.ts";
import type { NodeEvent, NodeState } from "../../../lifecycle/node-states.ts";
import type { FinalRunState } from "../../../lifecycle/operation-states.ts";
import type { Failure } from "../../../store/records.ts";
import { beginAttempts, changeClaimedAttempts } from "../../../store/runs/attempts.ts";
import type { AttemptRow, ClaimedAttemptChange } from "../../../store/runs/attempts.ts";
import { insertInventories } from "../../../store/nodes/nodes.ts";
import type { ClaimedNodeChange } from "../../../store/nodes/nodes.ts";
import { storeDeployments } from "../../../store/nodes/node-deployments.ts";
import type { NewInputs } from "../../../store/nodes/node-deployments.ts";
import { operationsBegin } from "../../../store/operations/operations.ts";
import { ENDED, UNTOUCHED, changeClaimedRuns, undoWork } from "../../../store/runs/runs.ts";
import type { LockedRun } from "../../../store/runs/run-locks.ts";
import type { ClaimedRunChange } from "../../../store/runs/runs.ts";
import { appendLines } from "../../../store/runs/step-log.ts";
import type { StepLogRow } from "../../../store/runs/step-log.ts";
import { applyRunEnds } from "../../scheduling/finish-run.ts";
import type { FinishParts } from "../../scheduling/finish-run.ts";
import { changeNodes } from "../../transaction.ts";
import type { Hop, Transaction } from "../../transaction.ts";
import { wakeStopped } from "../../scheduling/waiting-runs.ts";

type NewInventory = Parameters<typeof insertInventories>[1][number];

type AttemptKey = Pick<AttemptRow, "runId" | "step" | "number">;

/** The changes that a ledger stores. */
class Notes {
  run: ClaimedRunChange | null = null;
  readonly begun: AttemptRow[] = [];
  readonly attempts = new Map<string, AttemptKey & { change: ClaimedAttemptChange }>();
  readonly hops: Hop[] = [];
  readonly inventories: NewInventory[] = [];
  inputs: Omit<NewInputs, "nodeId"> | null = null;
  readonly lines: StepLogRow[] = [];
  wakesIfStopped = false;
  end: { readonly state: FinalRunState; readonly failure: Failure | null } | null = null;
  readonly afterwards: (() => Promise<void>)[] = [];
  readonly afterCommit: (() => void)[] = [];
}

/** Thrown to run the change again in a transaction of its own. */
export class NeedsOwnTransactionError extends Error {}

/** The changes of a node that leave its state. */
type PlainChange = Omit<ClaimedNodeChange, "state">;

/** The share of one run in a transaction that holds its lock. */
export class Ledger {
  readonly transaction: Transaction;
  /** As it was locked. */
  readonly run: LockedRun;
  /** True if no other run shares the transaction: only then may a change take long or lock other runs. */
  readonly hasOwnTransaction: boolean;
  /** For `storeLedgers`. */
  readonly notes = new Notes();

  constructor(transaction: Transaction, run: LockedRun, hasOwnTransaction: boolean) {
    this.transaction = transaction;
    this.run = run;
    this.hasOwnTransaction = hasOwnTransaction;
  }

  /** When the transaction began, by the database's clock. */
  get now(): Date {
    return this.run.lockedAt;
  }

  /** An empty change raises the run's revision, so that watchers look at it again. */
  changeRun(change: ClaimedRunChange): void {
    this.notes.run = { ...this.notes.run, ...change };
  }

  beginAttempt(attempt: AttemptRow): void {
    this.notes.begun.push(attempt);
  }

  changeAttempt({ runId, step, number }: AttemptKey, change: ClaimedAttemptChange): void {
    const { attempts } = this.notes;
    const key = `${step}:${number}`;
    attempts.set(key, { runId, step, number, change: { ...attempts.get(key)?.change, ...change } });
  }

  /** Moves the node, which is in `from`, along an edge. Returns its new state; throws if the table has no such edge. */
  moveNode(
    from: NodeState,
    event: NodeEvent,
    why: Omit<NonNullable<Hop["why"]>, "event">,
    change: PlainChange,
  ): NodeState {
    const to = next(from, event);
    this.#addHop(from, { ...why, event }, { ...change, state: to });
    return to;
  }

  /** Changes the node without moving it. */
  changeNode(state: NodeState, change: PlainChange): void {
    this.#addHop(state, null, change);
  }

  /** A change that does not move the node is merged with the hop before it, and a move with the change before it. */
  #addHop(from: NodeState, why: Hop["why"], change: ClaimedNodeChange): void {
    const { hops } = this.notes;
    const last = hops.at(-1);
    if (last && (why === null || last.why === null))
      hops[hops.length - 1] = { ...last, why: last.why ?? why, change: { ...last.change, ...change } };
    else hops.push({ nodeId: this.run.nodeId, from, why, change });
  }

  addInventory(row: NewInventory): void {
    this.notes.inventories.push(row);
  }

  /** Stores inputs of the node's deployment. */
  noteInputs(inputs: Omit<NewInputs, "nodeId">): void {
    this.notes.inputs = { ...this.notes.inputs, ...inputs };
  }

  addLines(rows: readonly StepLogRow[]): void {
    this.notes.lines.push(...rows);
  }

  /** Ends the run, which may end, undo or stop other runs of its operation. */
  endRun(
    state: FinalRunState,
    change: { readonly failure?: Failure; readonly leftAs?: LockedRun["leftAs"] } = {},
  ): void {
    // Other runs of the operation may have to be undone, stopped or cleaned up.
    if (state !== "SUCCEEDED" && !this.hasOwnTransaction) throw new NeedsOwnTransactionError();
    const { notes, run, now } = this;
    notes.run = {
      ...notes.run,
      ...change,
      ...ENDED,
      state,
      finishedAt: now,
      fence: (notes.run?.fence ?? run.fence) + 1,
    };
    notes.end = { state, failure: change.failure ?? null };
  }

  /** The run is parked where a stop ends it: wakes it if a stop has been requested in the meantime. */
  wakeIfStopped(): void {
    this.notes.wakesIfStopped = true;
  }

  /** Runs when everything is stored, before the commit. */
  afterwards(effect: () => Promise<void>): void {
    this.notes.afterwards.push(effect);
  }

  /** Runs after the commit. */
  afterCommit(effect: () => void): void {
    this.notes.afterCommit.push(effect);
  }
}

export interface StoreParts extends FinishParts {
  /** Called after the commit with the time after which a parked run is due. */
  readonly dueIn: (seconds: number) => void;
}

/** Stores the ledgers of one transaction. */
export async function storeLedgers(
  transaction: Transaction,
  parts: StoreParts,
  ledgers: readonly Ledger[],
): Promise<void> {
  const { tx } = transaction;
  const notes = ledgers.map((ledger) => ledger.notes);
  for (const { afterCommit } of notes) for (const effect of afterCommit) transaction.afterCommit(effect);
  for (const { now, notes: note } of ledgers) {
    const { dueAt } = note.run ?? {};
    if (dueAt) transaction.afterCommit(() => parts.dueIn((dueAt.getTime() - now.getTime()) / 1000));
  }
  const runChanges = ledgers.flatMap(({ run, notes: { run: change } }) => (change ? [{ id: run.id, change }] : []));
  const begunOperations = ledgers.flatMap(({ run, notes: { run: change } }) =>
    run.operationState === "QUEUED" && change?.startedAt ? [run.operationId] : [],
  );
  // Pipelined: all are sent before the first answer. They are awaited together, because no statement may be sent after
  // the first error is thrown.
  const stored = await Promise.allSettled([
    ...changeNodes(
      transaction,
      notes.map(({ hops }) => hops),
    ),
    beginAttempts(
      tx,
      notes.flatMap(({ begun }) => begun),
    ),
    changeClaimedAttempts(
      tx,
      notes.flatMap(({ attempts }) => [...attempts.values()]),
    ),
    insertInventories(
      tx,
      notes.flatMap(({ inventories }) => inventories),
    ),
    storeDeployments(
      tx,
      ledgers.flatMap(({ run: { nodeId }, notes: { inputs } }) => (inputs ? [{ ...inputs, nodeId }] : [])),
    ),
    appendLines(
      tx,
      notes.flatMap(({ lines }) => lines),
    ),
    changeClaimedRuns(tx, runChanges),
    operationsBegin(tx, [...new Set(begunOperations)]),
  ]);
  const failed = stored.find((answer) => answer.status === "rejected");
  if (failed) throw failed.reason;
  const cleanUps = ledgers.flatMap(({ run, notes: { run: change } }) =>
    run.purpose === "CLEAN_UP" && run.leg === UNTOUCHED && (change?.leg ?? UNTOUCHED) > UNTOUCHED ? [run.id] : [],
  );
  if (cleanUps.length > 0) {
    const undone = await undoWork(tx, cleanUps);
    transaction.afterCommit(() => parts.observer.runsUndone(undone));
  }
  const ends = ledgers.flatMap(({ run, notes: { run: change, end } }) =>
    end ? [{ run: { ...run, errors: change?.errors ?? run.errors }, ...end }] : [],
  );
  await applyRunEnds(transaction, parts, ends);
  const stoppable = ledgers.flatMap(({ run, notes: { wakesIfStopped } }) => (wakesIfStopped ? [run] : []));
  await wakeStopped(transaction, stoppable);
  for (const { afterwards } of notes) for (const effect of afterwards) await effect();
}
