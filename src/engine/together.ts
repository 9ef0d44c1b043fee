/**
 * Runs that come to a boundary at about the same time are judged in one transaction, and what follows is stored together: a
 * commit, and the lock under which positions are drawn, are then paid for once and not by each. A run that comes alone is
 * judged at once; while transactions are under way others gather for the next one.
 *
 * Nobody waits for a stranger's trouble. A run that somebody else holds just now, one whose judging fails, and one that has
 * to do what may take long are judged again in a transaction of their own; and when a transaction of several fails, all of
 * its runs are.
 */
import { isConnectionLoss } from "../store/database.ts";
import type { LockedRun } from "../store/runs.ts";
import { lockRuns } from "../store/runs.ts";
import { Fenced } from "./held.ts";
import { openLedger, storeLedgers } from "./ledger.ts";
import type { Ledger, OpenLedger } from "./ledger.ts";
import type { Queue } from "./queue.ts";
import type { SettleParts } from "./settle.ts";
import type { Transact, Work } from "./transition.ts";

/** Judges a run: reads what it needs and fills its ledger. `given` is what was read for it. May be called again, in another transaction. */
export type Judge<Given, Verdict> = (ledger: Ledger, given: Given | undefined) => Promise<Verdict>;

export interface TogetherParts<Given> extends SettleParts {
  readonly transact: Transact;
  readonly queue: Queue;
  /** What those who ask for it need to read, for all of them at once, by run. */
  read(work: Work, runs: readonly LockedRun[]): Promise<ReadonlyMap<string, Given>>;
}

export interface Together<Given> {
  /** Has a run judged under its lock, and what its ledger holds stored. Null: there is no such run. */
  judge<Verdict>(runId: string, judge: Judge<Given, Verdict>, options?: { readonly reads?: boolean }): Promise<Verdict | null>;
}

interface Entry<Given> {
  readonly runId: string;
  readonly judge: Judge<Given, unknown>;
  readonly reads: boolean;
  readonly resolve: (verdict: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** Transactions of several at a time, and runs in one of them. One more gathers while these are under way. */
const AT_ONCE = 2;
const RUNS_MAX = 64;

export function createTogether<Given>(parts: TogetherParts<Given>): Together<Given> {
  const { transact } = parts;
  const waiting: Entry<Given>[] = [];
  let underWay = 0;
  let isDue = false;

  function begin(): void {
    isDue = false;
    while (underWay < AT_ONCE && waiting.length > 0) {
      const entries = takeSome();
      underWay += 1;
      void perform(entries).finally(() => {
        underWay -= 1;
        begin();
      });
    }
  }

  /** The first ones; a run that is there twice is judged in two transactions. */
  function takeSome(): Entry<Given>[] {
    const runIds = new Set<string>();
    const taken: Entry<Given>[] = [];
    for (let index = 0; index < waiting.length && taken.length < RUNS_MAX; ) {
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
    const [only] = entries;
    if (entries.length === 1 && only) return performAlone(only);
    try {
      const { judged, left } = await transact((work) => judgeAll(work, entries));
      for (const [entry, verdict] of judged) {
        if (verdict instanceof Fenced) entry.reject(verdict);
        else entry.resolve(verdict);
      }
      for (const entry of left) void performAlone(entry);
    } catch (error) {
      for (const entry of entries) {
        if (isConnectionLoss(error)) entry.reject(error);
        else void performAlone(entry);
      }
    }
  }

  async function judgeAll(work: Work, entries: readonly Entry<Given>[]) {
    const runs = await lockRuns(work.tx, entries.map(({ runId }) => runId), { skipLocked: true });
    const given = await readFor(work, entries, runs);
    const judged: (readonly [Entry<Given>, unknown])[] = [];
    const left: Entry<Given>[] = [];
    const ledgers: OpenLedger[] = [];
    for (const entry of entries) {
      const run = runs.get(entry.runId);
      if (!run) {
        left.push(entry);
        continue;
      }
      const ledger = openLedger(work, run, false);
      try {
        judged.push([entry, await entry.judge(ledger, given.get(entry.runId))]);
        ledgers.push(ledger);
      } catch (error) {
        if (error instanceof Fenced) judged.push([entry, error]);
        else if (isConnectionLoss(error)) throw error;
        else left.push(entry);
      }
    }
    await storeLedgers(work, parts, ledgers);
    return { judged, left };
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

  async function readFor(work: Work, entries: readonly Entry<Given>[], runs: ReadonlyMap<string, LockedRun>): Promise<ReadonlyMap<string, Given>> {
    const readers = entries.flatMap(({ runId, reads }) => (reads ? (runs.get(runId) ?? []) : []));
    return readers.length === 0 ? new Map() : parts.read(work, readers);
  }

  return {
    judge<Verdict>(runId: string, judge: Judge<Given, Verdict>, { reads = false } = {}) {
      const verdict = new Promise<unknown>((resolve, reject) => {
        waiting.push({ runId, judge, reads, resolve, reject });
      });
      // Those that end in the same turn of the event loop come together.
      if (!isDue) setImmediate(begin);
      isDue = true;
      return verdict as Promise<Verdict | null>;
    },
  };
}
