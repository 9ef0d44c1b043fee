/**
 * Runs that come to a boundary at about the same time are judged in one transaction, and what follows is stored together: a
 * commit, and the lock under which positions are drawn, are then paid for once and not by each. A run that comes alone is
 * judged at once; while transactions are under way others gather for the next one.
 *
 * Nobody waits for a stranger's trouble. A run that somebody else holds just now, one whose judging fails, and one that has
 * to do what may take long are judged again in a transaction of their own; and when a transaction of several fails, all of
 * its runs are.
 */
import { isConnectionLoss, sqlState } from "../../store/postgres/database.ts";
import type { LockedRun } from "../../store/runs.ts";
import { lockRuns } from "../../store/runs.ts";
import { FencedError } from "./claimed-run.ts";
import { openLedger, storeLedgers } from "./ledger.ts";
import type { Ledger, OpenLedger } from "./ledger.ts";
import type { Queue } from "../jobs/queue.ts";
import type { FinishParts } from "../scheduling/finish-run.ts";
import type { Transact, Transaction } from "../transaction.ts";

/**
 * Judges a run: reads what it needs, and writes through its ledger alone. `given` is what was read for it. May be called again,
 * in another transaction.
 */
export type Change<Given, Verdict> = (ledger: Ledger, given: Given | undefined) => Promise<Verdict>;

export interface GroupCommitParts<Given> extends FinishParts {
  readonly transact: Transact;
  readonly queue: Queue;
  /** What those who ask for it need to read, for all of them at once, by run. */
  read(work: Transaction, runs: readonly LockedRun[]): Promise<ReadonlyMap<string, Given>>;
}

export interface GroupCommit<Given> {
  /** Has a run judged under its lock, and what its ledger holds stored. Null: there is no such run. */
  run<Verdict>(
    runId: string,
    judge: Change<Given, Verdict>,
    options?: { readonly reads?: boolean },
  ): Promise<Verdict | null>;
}

interface Entry<Given> {
  readonly runId: string;
  readonly judge: Change<Given, unknown>;
  readonly reads: boolean;
  readonly resolve: (verdict: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** What the server says of a transaction that it has ended because nothing came of it for too long. */
const CUT_FOR_IDLING = "25P03";
/** Transactions that runs gather behind. Whoever comes while so many are under way waits for the next one. */
const AT_ONCE = 2;
/** One that takes longer waits for a stranger's lock, and nobody gathers behind it any more. */
const SLOW_MS = 250;
/** Transactions of several at a time, slow ones included; and of single runs. */
const SHARED_MAX = 6;
const OWN_MAX = 8;
const RUNS_MAX = 64;

export function createGroupCommit<Given>(parts: GroupCommitParts<Given>): GroupCommit<Given> {
  const { transact } = parts;
  const waiting: Entry<Given>[] = [];
  const waitingForOwn: Entry<Given>[] = [];
  let gatheredBehind = 0;
  let shared = 0;
  let own = 0;
  let isScheduled = false;

  function begin(): void {
    isScheduled = false;
    while (gatheredBehind < AT_ONCE && shared < SHARED_MAX && waiting.length > 0) {
      const entries = takeSome();
      gatheredBehind += 1;
      shared += 1;
      let isSlow = false;
      const noLongerBehind = () => {
        if (isSlow) return;
        isSlow = true;
        gatheredBehind -= 1;
        begin();
      };
      const slow = setTimeout(noLongerBehind, SLOW_MS);
      void perform(entries).finally(() => {
        clearTimeout(slow);
        shared -= 1;
        noLongerBehind();
        begin();
      });
    }
  }

  /** Has a run judged in a transaction of its own, which may wait for locks. */
  function alone(entry: Entry<Given>): void {
    waitingForOwn.push(entry);
    beginOwn();
  }

  function beginOwn(): void {
    while (own < OWN_MAX) {
      const entry = waitingForOwn.shift();
      if (!entry) return;
      own += 1;
      void performAlone(entry).finally(() => {
        own -= 1;
        beginOwn();
      });
    }
  }

  /** The first ones; a run that is there twice is judged in two transactions. */
  function takeSome(): Entry<Given>[] {
    const runIds = new Set<string>();
    const taken: Entry<Given>[] = [];
    for (let index = 0; index < waiting.length && taken.length < RUNS_MAX;) {
      const entry = waiting[index];
      if (!entry || runIds.has(entry.runId)) {
        index += 1;
        continue;
      }
      runIds.add(entry.runId);
      taken.push(entry);
      waiting.splice(index, 1);
    }
    return taken;
  }

  async function perform(entries: readonly Entry<Given>[]): Promise<void> {
    try {
      const { judged, toJudgeAlone } = await transact((work) => judgeAll(work, entries));
      for (const [entry, verdict] of judged) {
        if (verdict instanceof FencedError) entry.reject(verdict);
        else entry.resolve(verdict);
      }
      for (const entry of toJudgeAlone) alone(entry);
    } catch (error) {
      for (const entry of entries) {
        if (isConnectionLoss(error) && sqlState(error) !== CUT_FOR_IDLING) entry.reject(error);
        else alone(entry);
      }
    }
  }

  async function judgeAll(work: Transaction, entries: readonly Entry<Given>[]) {
    const runs = await lockRuns(
      work.tx,
      entries.map(({ runId }) => runId),
      { skipLocked: true },
    );
    const given = await readFor(work, entries, runs);
    const judged: (readonly [Entry<Given>, unknown])[] = [];
    const toJudgeAlone: Entry<Given>[] = [];
    const ledgers: OpenLedger[] = [];
    for (const entry of entries) {
      const run = runs.get(entry.runId);
      if (!run) {
        toJudgeAlone.push(entry);
        continue;
      }
      const ledger = openLedger(work, run, entries.length === 1);
      try {
        judged.push([entry, await entry.judge(ledger, given.get(entry.runId))]);
        ledgers.push(ledger);
      } catch (error) {
        if (error instanceof FencedError) judged.push([entry, error]);
        // Its transaction is lost to the others as well.
        else if (isConnectionLoss(error) || sqlState(error) !== undefined) throw error;
        else toJudgeAlone.push(entry);
      }
    }
    await storeLedgers(work, parts, ledgers);
    return { judged, toJudgeAlone };
  }

  async function performAlone(entry: Entry<Given>): Promise<void> {
    try {
      entry.resolve(
        await transact(async (work) => {
          const runs = await lockRuns(work.tx, [entry.runId]);
          const run = runs.get(entry.runId);
          if (!run) return null;
          const ledger = openLedger(work, run, true);
          const verdict = await entry.judge(ledger, (await readFor(work, [entry], runs)).get(entry.runId));
          await storeLedgers(work, parts, [ledger]);
          return verdict;
        }),
      );
    } catch (error) {
      entry.reject(error);
    }
  }

  async function readFor(
    work: Transaction,
    entries: readonly Entry<Given>[],
    runs: ReadonlyMap<string, LockedRun>,
  ): Promise<ReadonlyMap<string, Given>> {
    const readers = entries.flatMap(({ runId, reads }) => (reads ? (runs.get(runId) ?? []) : []));
    return readers.length === 0 ? new Map() : parts.read(work, readers);
  }

  return {
    run<Verdict>(runId: string, judge: Change<Given, Verdict>, { reads = false } = {}) {
      const verdict = new Promise<unknown>((resolve, reject) => {
        waiting.push({ runId, judge, reads, resolve, reject });
      });
      // Those that end in the same turn of the event loop come together.
      if (!isScheduled) setImmediate(begin);
      isScheduled = true;
      return verdict as Promise<Verdict | null>;
    },
  };
}
