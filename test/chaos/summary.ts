/** Numbers of a run for its last lines of output. The checker decides whether the run is correct. */
import { readRecords } from "./records.ts";
import type { Enter } from "./records.ts";

export interface TakeOver {
  /** Entries that a kill interrupted and another process repeated. */
  readonly count: number;
  readonly p50Ms: number;
  readonly maxMs: number;
  readonly slowest: string | null;
}

/**
 * Time from the kill of a process to the next entry of its attempts by another process, with the same attempt key. It
 * includes outages of PostgreSQL, so it is longer than the take-over alone.
 */
export async function takeOver(folder: string): Promise<TakeOver> {
  const killedAt = new Map<number, number>();
  for await (const one of readRecords(folder, "replicas"))
    if (one.k === "replica" && one.what === "killed") killedAt.set(one.pid, one.t);
  const inside = new Map<string, Enter>();
  /** Attempts whose replica was killed inside an entry: time of the kill, and the processes involved. */
  const orphans = new Map<string, { readonly at: number; readonly pids: readonly number[] }>();
  const took: { readonly ms: number; readonly attemptKey: string }[] = [];
  for await (const one of readRecords(folder, "driver")) {
    if (one.k === "enter") {
      const orphan = orphans.get(one.attemptKey);
      if (orphan && !orphan.pids.includes(one.pid)) {
        took.push({ ms: one.t - orphan.at, attemptKey: one.attemptKey });
        orphans.delete(one.attemptKey);
      }
      inside.set(one.entry, one);
    } else if (one.k === "leave") {
      const left = inside.get(one.entry);
      inside.delete(one.entry);
      // The driver runs in the replica's process, or in one that the replica started.
      const at = left && (killedAt.get(left.parent) ?? killedAt.get(left.pid));
      if (left && at !== undefined && one.how === "lost" && one.t >= at)
        orphans.set(left.attemptKey, { at, pids: [left.pid, left.parent] });
    }
  }
  const sorted = took.toSorted((one, other) => one.ms - other.ms);
  return {
    count: sorted.length,
    p50Ms: Math.round(sorted[Math.floor(sorted.length / 2)]?.ms ?? 0),
    maxMs: Math.round(sorted.at(-1)?.ms ?? 0),
    slowest: sorted.at(-1)?.attemptKey ?? null,
  };
}

/** Numbers of calls to the machines: entries of steps, and reads and changes of power; and of their callbacks. */
export async function driverCalls(
  folder: string,
): Promise<{ readonly entries: number; readonly power: number; readonly callbacks: number }> {
  let [entries, power, callbacks] = [0, 0, 0];
  for await (const { k } of readRecords(folder, "driver")) {
    if (k === "enter") entries += 1;
    else if (k === "power") power += 1;
  }
  for await (const _ of readRecords(folder, "callbacks")) callbacks += 1;
  return { entries, power, callbacks };
}
