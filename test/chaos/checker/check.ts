/**
 * `node test/chaos/checker/check.ts <folder>`: checks the records of a chaos run against the promises P1 to P17 and P19
 * to P22, and prints for each what was checked and what was violated. Shares no code with the service: it takes the
 * legal transitions from the design's data (test/durability/lifecycle.json). Exits with 1 if a promise was violated,
 * and writes `results.json` to the folder. A promise without facts in the run is NOT EXERCISED, which is not HELD.
 *
 * Options: --slack <ms> beyond the 15 s of silence, --memory <MiB> that a replica may use, --lease <ms>.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { argv } from "node:process";
import { parseArgs } from "node:util";
import { checkEndsOfAccess, checkRights } from "./access.ts";
import { checkDurable, checkFullDisk, checkOnce } from "./answers.ts";
import { checkCallbacks } from "./callbacks.ts";
import { checkAtLeastOnce, checkOwners } from "./entries.ts";
import { checkClocks, checkDeadlines, checkFailures } from "./failures.ts";
import { OPTIONS, readHistory } from "./history.ts";
import type { History, Options } from "./history.ts";
import { checkEdges, checkFold, checkRest } from "./log.ts";
import { checkShutdown, checkMemory } from "./replicas.ts";
import { checkStreams } from "./streams.ts";
import { checkTakeOver } from "./take-over.ts";
import type { Harm, CheckResult } from "./findings.ts";
import { checkNoNewStep, checkOneEnd } from "./interrupts.ts";

export interface Report {
  readonly folder: string;
  readonly seed: number;
  readonly results: readonly CheckResult[];
  /** Violations of all checks by consequence. A violation of two promises counts twice. */
  readonly harms: Readonly<Record<Harm, number>>;
  /** Size of the run, and number of faults of each kind. */
  readonly figures: Readonly<Record<string, number>>;
  readonly nemeses: Readonly<Record<string, number>>;
}

export async function check(folder: string, options: Partial<Options> = {}): Promise<Report> {
  const history = await readHistory(folder, { ...OPTIONS, ...options });
  const slow = checkMemory(history);
  const { order, silence } = await checkStreams(history, slow);
  const { findings: owners, stolenClaims } = checkOwners(history);
  const { database, drivers } = checkFailures(history);
  const findings = [
    checkDurable(history),
    checkOnce(history),
    checkFold(history),
    checkEdges(history),
    owners,
    checkAtLeastOnce(history),
    order,
    silence,
    slow,
    checkDeadlines(history),
    checkTakeOver(history),
    database,
    checkNoNewStep(history),
    checkOneEnd(history),
    checkClocks(history, stolenClaims),
    drivers,
    checkFullDisk(history),
    checkShutdown(history),
    checkCallbacks(history),
    checkRights(history),
    await checkEndsOfAccess(history),
    checkRest(history),
  ];
  const results = findings.map((one) => one.result());
  const harms = { lost: 0, doubled: 0, illegal: 0, stuck: 0, other: 0 };
  for (const result of results) for (const harm of Object.keys(harms) as Harm[]) harms[harm] += result.harms[harm];
  return { folder, seed: history.run.seed, results, harms, figures: figuresOf(history), nemeses: nemesesOf(history) };
}

function figuresOf(history: History): Record<string, number> {
  const { exchange, operations, runs, attempts, transitions, entries, callbacks, nodes, lifetimes, begun, over, run } =
    history;
  const ended = (state: string) => [...runs.values()].filter((one) => one.state === state).length;
  return {
    minutes: Math.round((over - begun) / 6_000) / 10,
    replicas: run.replicas.length,
    processes: lifetimes.length,
    nodes: nodes.size,
    streams: run.streams,
    requests: exchange.length,
    "requests without an answer": exchange.filter(({ answer }) => answer?.ok !== true).length,
    operations: operations.size,
    runs: runs.size,
    "runs that succeeded": ended("SUCCEEDED"),
    "runs that failed": ended("FAILED"),
    "runs that were aborted": ended("ABORTED"),
    "runs that were stopped": ended("STOPPED"),
    attempts: attempts.size,
    transitions: transitions.length,
    "entries of steps": entries.length,
    callbacks: callbacks.length,
    kills: lifetimes.filter(({ killed }) => killed !== null).length,
    "restarts of the database": history.faults.filter(({ what }) => what === "postgres-restart").length,
  };
}

function nemesesOf({ faults }: History): Record<string, number> {
  return Object.fromEntries(
    [...Map.groupBy(faults, ({ what }) => what)]
      .map(([what, some]) => [what, some.length] as const)
      .toSorted(([a], [b]) => a.localeCompare(b)),
  );
}

/** The report as text for a terminal. */
export function printed({ results, harms }: Report): string {
  const list = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .map(([what, count]) => `${count.toLocaleString("en")} ${what}`)
      .join(", ");
  const lines = results.flatMap(({ id, title, result, facts, figures, notes, violations, first }) => [
    `${id.padEnd(4)} ${result.padEnd(13)} ${title}: ${list(facts) || "no fact"}`,
    ...Object.entries(figures).map(([what, value]) => `       ${what}: ${value}`),
    ...notes.map((note) => `       ${note}`),
    ...(violations > 0 ? [`       ${violations} violations, the first of them:`] : []),
    ...first.flatMap(({ message, records }) => [
      `     - ${message}`,
      ...records.filter((one) => one != null).map((one) => `         ${clipped(JSON.stringify(one))}`),
    ]),
  ]);
  return [...lines, list(harms)].join("\n");
}

function clipped(text: string): string {
  return text.length > 600 ? `${text.slice(0, 600)}…` : text;
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    args: argv.slice(2),
    allowPositionals: true,
    options: { slack: { type: "string" }, memory: { type: "string" }, lease: { type: "string" } },
  });
  const [folder] = positionals;
  if (folder === undefined) throw new Error("No folder given: node test/chaos/checker/check.ts <folder>");
  const report = await check(folder, {
    ...(values.slack !== undefined && { slackMs: Number(values.slack) }),
    ...(values.memory !== undefined && { memoryBytes: Number(values.memory) * 2 ** 20 }),
    ...(values.lease !== undefined && { leaseMs: Number(values.lease) }),
  });
  writeFileSync(join(folder, "results.json"), `${JSON.stringify(report, null, 1)}\n`);
  console.log(printed(report));
  if (report.results.some(({ result }) => result === "VIOLATED")) process.exitCode = 1;
}
