/**
 * Group commit: runs a change under the lock of its run, and commits it together with the changes of other runs. The
 * commit, and the lock under which positions of transitions are drawn, are then paid once a group.
 *
 * Modes of a change:
 *
 * ## Gathering (runtime/batches.ts)
 * Entered by `run`. Left for a group: the oldest changes, at most `GROUP_SIZE_MAX`, each of another run.
 *
 * ## In a group
 * One transaction locks the runs, except those that another transaction has locked, runs their changes one after the
 * other, and stores their ledgers together. A group of one has its transaction alone, so its change may take long. Left
 * with the result after the commit; with the `FencedError` that the change throws; with the error if the connection is
 * lost; otherwise for a transaction of its own: if the run was locked elsewhere, if the change asks for it or throws,
 * and, for every change of the group, if the group's transaction fails.
 *
 * ## In a transaction of its own
 * At most `OWN_MAX` at a time; the others wait in order. The transaction waits for the run's lock, and the change may
 * take long and lock other runs. Left with the result of the change, or with its error.
 */
import { Batches } from "../../../runtime/batches.ts";
import { isDatabaseUnavailable, sqlState } from "../../../store/postgres/connection-errors.ts";
import type { LockedRun } from "../../../store/runs/run-locks.ts";
import { lockRuns } from "../../../store/runs/run-locks.ts";
import { FencedError } from "../claim/claimed-run.ts";
import { Ledger, storeLedgers } from "./ledger.ts";
import type { StoreParts } from "./ledger.ts";
import type { Transact, Transaction } from "../../transaction.ts";

/**
 * A change of a locked run. It writes through the ledger alone, because it may run again in another transaction.
 * `reads`: what was read for it.
 */
export type Change<Reads, Result> = (ledger: Ledger, reads: Reads | undefined) => Promise<Result>;

export interface GroupCommitParts<Reads> extends StoreParts {
  readonly transact: Transact;
  /** Reads for the changes that ask for it, for all of a group at once, by run. */
  read(transaction: Transaction, runs: readonly LockedRun[]): Promise<ReadonlyMap<string, Reads>>;
}

interface Entry<Reads> {
  readonly runId: string;
  readonly change: Change<Reads, unknown>;
  readonly needsReads: boolean;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** The outcome of a group. A result may be a `FencedError`. */
interface GroupResult<Reads> {
  readonly results: readonly (readonly [Entry<Reads>, unknown])[];
  readonly postponed: readonly Entry<Reads>[];
}

/** idle_in_transaction_session_timeout. It ends the connection as well, but says that this process was too slow. */
const IDLE_IN_TRANSACTION = "25P03";
/** A group that takes longer waits for a lock of another transaction, and is not waited for. */
const SLOW_MS = 250;
/** Groups at a time, slow ones included, and transactions of single changes at a time. */
const GROUPS_MAX = 6;
const OWN_MAX = 8;
const GROUP_SIZE_MAX = 64;

export class GroupCommit<Reads> {
  readonly #parts: GroupCommitParts<Reads>;
  readonly #batches: Batches<Entry<Reads>>;
  readonly #alone: Batches<Entry<Reads>>;

  constructor(parts: GroupCommitParts<Reads>) {
    this.#parts = parts;
    this.#batches = new Batches({
      sizeMax: GROUP_SIZE_MAX,
      slowMs: SLOW_MS,
      concurrency: GROUPS_MAX,
      keyOf: ({ runId }) => runId,
      work: (group) => this.#commitGroup(group),
    });
    this.#alone = new Batches({
      sizeMax: 1,
      slowMs: 0,
      concurrency: OWN_MAX,
      work: async ([entry]) => entry && this.#commitAlone(entry),
    });
  }

  /** Runs a change under the lock of its run and stores its ledger. Returns null if there is no such run. */
  run<Result>(
    runId: string,
    change: Change<Reads, Result>,
    { needsReads = false }: { readonly needsReads?: boolean } = {},
  ): Promise<Result | null> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#batches.add({ runId, change, needsReads, resolve, reject });
    return promise as Promise<Result | null>;
  }

  async #commitGroup(group: readonly Entry<Reads>[]): Promise<void> {
    try {
      const { results, postponed } = await this.#parts.transact((transaction) => this.#runGroup(transaction, group));
      for (const [entry, result] of results) {
        if (result instanceof FencedError) entry.reject(result);
        else entry.resolve(result);
      }
      for (const entry of postponed) this.#alone.add(entry);
    } catch (error) {
      for (const entry of group) {
        if (isDatabaseUnavailable(error) && sqlState(error) !== IDLE_IN_TRANSACTION) entry.reject(error);
        else this.#alone.add(entry);
      }
    }
  }

  async #runGroup(transaction: Transaction, group: readonly Entry<Reads>[]): Promise<GroupResult<Reads>> {
    const runIds = group.map(({ runId }) => runId);
    const runs = await lockRuns(transaction.tx, runIds, { skipLocked: true });
    const reads = await this.#readFor(transaction, group, runs);
    const results: (readonly [Entry<Reads>, unknown])[] = [];
    const postponed: Entry<Reads>[] = [];
    const ledgers: Ledger[] = [];
    for (const entry of group) {
      const run = runs.get(entry.runId);
      if (!run) {
        postponed.push(entry);
        continue;
      }
      const ledger = new Ledger(transaction, run, group.length === 1);
      try {
        results.push([entry, await entry.change(ledger, reads.get(entry.runId))]);
        ledgers.push(ledger);
      } catch (error) {
        if (error instanceof FencedError) results.push([entry, error]);
        // A database error has ended the transaction for the others as well.
        else if (isDatabaseUnavailable(error) || sqlState(error) !== undefined) throw error;
        else postponed.push(entry);
      }
    }
    await storeLedgers(transaction, this.#parts, ledgers);
    return { results, postponed };
  }

  async #commitAlone(entry: Entry<Reads>): Promise<void> {
    try {
      entry.resolve(
        await this.#parts.transact(async (transaction) => {
          const runs = await lockRuns(transaction.tx, [entry.runId]);
          const run = runs.get(entry.runId);
          if (!run) return null;
          const ledger = new Ledger(transaction, run, true);
          const reads = await this.#readFor(transaction, [entry], runs);
          const result = await entry.change(ledger, reads.get(entry.runId));
          await storeLedgers(transaction, this.#parts, [ledger]);
          return result;
        }),
      );
    } catch (error) {
      entry.reject(error);
    }
  }

  async #readFor(
    transaction: Transaction,
    entries: readonly Entry<Reads>[],
    runs: ReadonlyMap<string, LockedRun>,
  ): Promise<ReadonlyMap<string, Reads>> {
    const wanted = entries.flatMap(({ runId, needsReads }) => (needsReads ? (runs.get(runId) ?? []) : []));
    return wanted.length === 0 ? new Map() : this.#parts.read(transaction, wanted);
  }
}
