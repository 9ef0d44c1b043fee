/**
 * Samples of processes during a run: memory and open files of the replicas, and the time in which the processes between
 * a change and a subscriber waited for a CPU. The checker needs it to distinguish a silent service from an overloaded
 * computer.
 */
import { readFileSync, readdirSync } from "node:fs";
import type { Arena } from "./arena.ts";
import { clock } from "./records.ts";
import type { Recorder, Sample } from "./records.ts";

const SIZES_EVERY_MS = 5_000;
const WAITS_EVERY_MS = 1_000;

/** Starts to record samples. Stops when it is disposed of. */
export function startSampling(
  { replicas, database }: Arena,
  watchers: number | undefined,
  recorder: Recorder<"replicas">,
): Disposable {
  const write = (what: Sample["what"], replica: string, pid: number, value: number | null) => {
    if (value !== null) recorder.write({ t: clock(), k: "sample", what, replica, pid, value });
  };
  const sizes = setInterval(() => {
    for (const { name, pid } of replicas) {
      const id = pid();
      const sample = id === null ? null : sizesOf(id);
      if (id === null || !sample) continue;
      write("memory", name, id, sample.memory);
      write("handles", name, id, sample.handles);
    }
  }, SIZES_EVERY_MS);
  const backends = createSlowestBackend();
  const waits = setInterval(() => {
    for (const { name, pid } of replicas) {
      const id = pid();
      if (id !== null) write("waited", name, id, waitedMs(id));
    }
    // The proxies are part of this process.
    write("waited", "proxies", process.pid, waitedMs(process.pid));
    if (watchers !== undefined) write("waited", "watchers", watchers, waitedMs(watchers));
    const postmaster = database.pid();
    if (postmaster !== null) write("waited", "postgres", 0, backends(postmaster));
  }, WAITS_EVERY_MS);
  return {
    [Symbol.dispose]() {
      clearInterval(sizes);
      clearInterval(waits);
    },
  };
}

/** Resident bytes and open descriptors of a process; null if it has ended. */
function sizesOf(pid: number): { readonly memory: number; readonly handles: number } | null {
  try {
    const pages = Number(readFileSync(`/proc/${pid}/statm`, "latin1").split(" ")[1]);
    return { memory: pages * 4096, handles: readdirSync(`/proc/${pid}/fd`).length };
  } catch {
    return null;
  }
}

/**
 * Milliseconds, since its start, in which the first thread of a process was ready to run and had no CPU: in Node the
 * thread of the event loop. Null if the process has ended, or on a system that does not count this.
 */
function waitedMs(pid: number): number | null {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "latin1").split(" ")[1]) / 1e6;
  } catch {
    return null;
  }
}

/** Sums up, over the samples, the longest time that one process of PostgreSQL has waited for a CPU since the last. */
function createSlowestBackend(): (postmaster: number) => number | null {
  let before = new Map<number, number>();
  let sum = 0;
  return (postmaster) => {
    try {
      const children = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, "latin1");
      const now = new Map<number, number>();
      for (const pid of children.trim().split(" ").map(Number)) {
        const waited = waitedMs(pid);
        if (waited !== null) now.set(pid, waited);
      }
      sum += Math.max(0, ...[...now].map(([pid, waited]) => waited - (before.get(pid) ?? 0)));
      before = now;
      return sum;
    } catch {
      return null;
    }
  };
}
