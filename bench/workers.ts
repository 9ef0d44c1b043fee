/**
 * Subject `workers`: what calls of a driver cost in its processes: memory, CPU and number of these, and the time, with
 * as many calls at a time as there may be runs. Calls that end at once, with and without a nested call, and calls that
 * wait. With `--against`, another checkout is measured in the same minutes, in alternating passes.
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { median, printTable, shown } from "./figures.ts";
import type { WorkerCost, WorkerLoad } from "./worker-calls.ts";

export interface WorkersOptions {
  readonly concurrency: number;
  readonly rounds: number;
  /** Folder with the checkout of another build; empty: only this one is measured. */
  readonly against: string;
}

const PROGRAM = fileURLToPath(new URL("worker-calls.ts", import.meta.url));

export function measureWorkers({ concurrency, rounds, against }: WorkersOptions): void {
  const builds = [fileURLToPath(new URL("../", import.meta.url)), ...(against ? [against] : [])];
  const loads: Readonly<Record<string, WorkerLoad>> = {
    "end at once": { calls: 125 * concurrency, atOnce: concurrency, ms: 0, nested: false },
    "end at once, after a nested one": { calls: 60 * concurrency, atOnce: concurrency, ms: 0, nested: true },
    "wait for 100 ms": { calls: 30 * concurrency, atOnce: concurrency, ms: 100, nested: false },
    "wait for 1 s": { calls: 3 * concurrency, atOnce: concurrency, ms: 1_000, nested: false },
  };
  for (const [what, load] of Object.entries(loads)) {
    const costs = builds.map((): WorkerCost[] => []);
    for (let round = 1; round <= rounds; round += 1)
      for (const index of round % 2 === 1 ? builds.keys() : [...builds.keys()].toReversed())
        costs[index]?.push(costOf(builds[index] ?? "", load));
    console.log(`\n  ${load.calls} calls that ${what}, ${concurrency} at a time; medians of ${rounds} rounds`);
    printTable(
      ["", "seconds", "service CPU ms", "workers CPU ms", "workers MB", "workers"],
      costs.map((list, index) => [
        index === 0 ? "this build" : against,
        shown(median(list.map(({ seconds }) => seconds))),
        shown(median(list.map(({ serviceCpuMs }) => serviceCpuMs)), 0),
        shown(median(list.map(({ workersCpuMs }) => workersCpuMs)), 0),
        shown(median(list.map(({ peakMb }) => peakMb)), 0),
        list.map(({ peakWorkers }) => peakWorkers).join(" "),
      ]),
    );
  }
}

function costOf(checkout: string, load: WorkerLoad): WorkerCost {
  const { stdout, status } = spawnSync(process.execPath, [PROGRAM, checkout, JSON.stringify(load)], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  if (status !== 0) throw new Error(`The calls of ${checkout} ended with ${status}.`);
  return JSON.parse(stdout) as WorkerCost;
}
