/**
 * Time in which processes waited for a CPU. The limits in seconds are promises of the service on a computer that gives
 * it the CPU time that it needs. The samples (samples.ts) count how long the event loop of a process was ready to run
 * and did not: in that time the service could do nothing. Time in which it ran, or waited for anything else, counts in
 * full, so a service that is blocked or that has lost a stream is never excused by it.
 */
import type { History } from "./history.ts";

interface Total {
  readonly t: number;
  /** Milliseconds since the beginning of the run, over all processes of that name. */
  readonly sum: number;
}

const totals = new WeakMap<History, ReadonlyMap<string, readonly Total[]>>();

function totalsOf(history: History): ReadonlyMap<string, readonly Total[]> {
  const known = totals.get(history);
  if (known) return known;
  const made = new Map<string, Total[]>();
  const lastOf = new Map<string, { readonly pid: number; readonly value: number }>();
  for (const { what, replica, pid, t, value } of history.samples) {
    if (what !== "waited") continue;
    const before = lastOf.get(replica);
    // A process counts from its start.
    const more = before?.pid === pid ? value - before.value : value;
    lastOf.set(replica, { pid, value });
    const all = made.get(replica) ?? [];
    all.push({ t, sum: (all.at(-1)?.sum ?? 0) + Math.max(0, more) });
    made.set(replica, all);
  }
  totals.set(history, made);
  return made;
}

/** The sum at a moment: between two samples in proportion. */
function sumAt(all: readonly Total[], t: number): number {
  const index = all.findIndex((one) => one.t > t);
  const after = index < 0 ? undefined : all[index];
  const before = index < 0 ? all.at(-1) : all[index - 1];
  if (!before) return after?.sum ?? 0;
  if (!after) return before.sum;
  return before.sum + ((after.sum - before.sum) * (t - before.t)) / (after.t - before.t);
}

/** Milliseconds between two moments in which the processes waited for a CPU, one after the other. */
export function waitedForCpu(history: History, names: readonly string[], from: number, to: number): number {
  const all = totalsOf(history);
  const waited = names.reduce((sum, name) => {
    const own = all.get(name);
    return own ? sum + sumAt(own, to) - sumAt(own, from) : sum;
  }, 0);
  return Math.min(waited, to - from);
}
