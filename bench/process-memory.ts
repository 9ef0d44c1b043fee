/**
 * Memory of a service, its drivers' processes and PostgreSQL. A page that several processes share counts once (PSS):
 * its size is divided among them.
 */
import { readFileSync, readdirSync } from "node:fs";
import { pssMb, statOf } from "./testbed.ts";

export const PARTS = ["service", "drivers", "postgres"] as const;
export type Part = (typeof PARTS)[number];

export interface Sample {
  readonly pssMb: Readonly<Record<Part, number>>;
  /** Number of processes. */
  readonly processes: Readonly<Record<Part, number>>;
}

export interface Processes {
  readonly service: readonly number[];
  readonly drivers: readonly number[];
  readonly postgres: readonly number[];
}

/** The service, and its descendants: drivers with their programs, and PostgreSQL. */
export function processesOf(service: number): Processes {
  const parents = new Map(
    readdirSync("/proc")
      .filter((entry) => /^\d+$/.test(entry))
      .map((entry) => [Number(entry), Number(statOf(entry)[1])]),
  );
  const drivers: number[] = [];
  const postgres: number[] = [];
  for (const [pid, parent] of parents) {
    const root = parent === service ? pid : parents.get(parent) === service ? parent : null;
    if (root === null) continue;
    (commandOf(root).includes("isolation/worker") ? drivers : postgres).push(pid);
  }
  return { service: [service], drivers, postgres };
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    // The process has ended.
    return "";
  }
}

/** Now. `sessions` that are not the service's, such as the benchmark's own, are left out. */
export function sampleOf(service: number, sessions: readonly number[] = []): Sample {
  const processes = processesOf(service);
  const own = { ...processes, postgres: processes.postgres.filter((pid) => !sessions.includes(pid)) };
  const each = (value: (pids: readonly number[]) => number) => ({
    service: value(own.service),
    drivers: value(own.drivers),
    postgres: value(own.postgres),
  });
  return {
    pssMb: each((pids) => pids.reduce((sum, pid) => sum + pssMb(String(pid)), 0)),
    processes: each((pids) => pids.length),
  };
}

export function totalMb({ pssMb: mb }: Pick<Sample, "pssMb">): number {
  return PARTS.reduce((sum, part) => sum + mb[part], 0);
}

const SAMPLE_MS = 400;

/** Runs `work`, and returns the sample with the most memory in all. */
export async function withPeak<T>(sample: () => Sample, work: () => Promise<T>): Promise<{ result: T; peak: Sample }> {
  let peak = sample();
  const look = () => {
    const now = sample();
    if (totalMb(now) > totalMb(peak)) peak = now;
  };
  const timer = setInterval(look, SAMPLE_MS);
  try {
    const result = await work();
    look();
    return { result, peak };
  } finally {
    clearInterval(timer);
  }
}
