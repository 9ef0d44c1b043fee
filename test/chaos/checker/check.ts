/**
 * `node test/chaos/checker/check.ts <folder>`: holds the records of a chaos run against the promises P1 to P17, P19 and P20, and says of
 * each what was looked at and what was wrong. Shares no code with the service: what is legal it knows from the design's data
 * (test/durability/lifecycle.json) and from the promises. Ends with 1 if any is broken, and writes `verdicts.json` beside the
 * records. A promise that no fact of the run put to the test is NOT EXERCISED, which is not HELD.
 *
 * Options: --slack <ms> over the 15 s of silence, --memory <MiB> that a replica may hold, --lease <ms>.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { argv } from "node:process";
import { parseArgs } from "node:util";
import { checkDurable, checkFullDisk, checkOnce } from "./answers.ts";
import { checkCallbacks } from "./callbacks.ts";
import { checkAtLeastOnce, checkOwners } from "./entries.ts";
import { checkClocks, checkDeadlines, checkFailures } from "./failures.ts";
import { OPTIONS, readHistory } from "./history.ts";
import type { History, Options } from "./history.ts";
import { checkEdges, checkFold, checkRest } from "./log.ts";
import { checkLeaving, checkMemory } from "./replicas.ts";
import { checkStreams } from "./streams.ts";
import { checkTakeOver } from "./take-over.ts";
import type { Harm, Verdict } from "./verdict.ts";
import { checkNoNewStep, checkOneEnd } from "./interrupts.ts";

export interface Report {
  readonly folder: string;
  readonly seed: number;
  readonly verdicts: readonly Verdict[];
  /** Violations of all checks by what they come to. Some break two promises and count twice. */
  readonly harms: Readonly<Record<Harm, number>>;
  /** What the run was made of, and how often each nemesis struck. */
  readonly figures: Readonly<Record<string, number>>;
  readonly nemeses: Readonly<Record<string, number>>;
}

export async function check(folder: string, options: Partial<Options> = {}): Promise<Report> {
  const history = await readHistory(folder, { ...OPTIONS, ...options });
  const slow = checkMemory(history);
  const { order, silence } = await checkStreams(history, slow);
  const { findings: owners, robberies } = checkOwners(history);
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
    checkClocks(history, robberies),
    drivers,
    checkFullDisk(history),
    checkLeaving(history),
    checkCallbacks(history),
    checkRest(history),
  ];
  const verdicts = findings.map((one) => one.verdict());
  const harms = { lost: 0, doubled: 0, illegal: 0, stuck: 0, other: 0 };
  for (const verdict of verdicts) for (const harm of Object.keys(harms) as Harm[]) harms[harm] += verdict.harms[harm];
  return { folder, seed: history.run.seed, verdicts, harms, figures: figuresOf(history), nemeses: nemesesOf(history) };
}

function figuresOf(history: History): Record<string, number> {
  const { asked, operations, runs, attempts, transitions, entries, callbacks, nodes, lives, begun, over, run } =
    history;
  const ended = (state: string) => [...runs.values()].filter((one) => one.state === state).length;
  return {
    minutes: Math.round((over - begun) / 6_000) / 10,
    replicas: run.replicas.length,
    processes: lives.length,
    nodes: nodes.size,
    streams: run.streams,
    requests: asked.length,
    "requests without an answer": asked.filter(({ answer }) => answer?.ok !== true).length,
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
    kills: lives.filter(({ killed }) => killed !== null).length,
    "restarts of the database": history.blows.filter(({ what }) => what === "postgres-restart").length,
  };
}

function nemesesOf({ blows }: History): Record<string, number> {
  return Object.fromEntries(
    [...Map.groupBy(blows, ({ what }) => what)]
      .map(([what, some]) => [what, some.length] as const)
      .toSorted(([a], [b]) => a.localeCompare(b)),
  );
}

/** The report for readers of the terminal. */
export function printed({ verdicts, harms }: Report): string {
  const list = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .map(([what, count]) => `${count.toLocaleString("en")} ${what}`)
      .join(", ");
  const lines = verdicts.flatMap(({ id, title, verdict, facts, figures, notes, violations, first }) => [
    `${id.padEnd(4)} ${verdict.padEnd(13)} ${title}: ${list(facts) || "no fact"}`,
    ...Object.entries(figures).map(([what, value]) => `       ${what}: ${value}`),
    ...notes.map((note) => `       ${note}`),
    ...(violations > 0 ? [`       ${violations} violations, the first of them:`] : []),
    ...first.flatMap(({ says, records }) => [
      `     - ${says}`,
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
  if (folder === undefined) throw new Error("Say which folder: node test/chaos/checker/check.ts <folder>");
  const report = await check(folder, {
    ...(values.slack !== undefined && { slackMs: Number(values.slack) }),
    ...(values.memory !== undefined && { memoryBytes: Number(values.memory) * 2 ** 20 }),
    ...(values.lease !== undefined && { leaseMs: Number(values.lease) }),
  });
  writeFileSync(join(folder, "verdicts.json"), `${JSON.stringify(report, null, 1)}\n`);
  console.log(printed(report));
  if (report.verdicts.some(({ verdict }) => verdict === "VIOLATED")) process.exitCode = 1;
}
