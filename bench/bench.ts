/**
 * `npm run bench`: how fast it is, on this machine, now. Rates say little by themselves; the ratio against the bare loop
 * of the same minute says what the engine costs. The figures, and what they do not say, are in docs/performance.md.
 */
import { parseArgs } from "node:util";
import { messageOf } from "../src/errors.ts";
import { measureAdmission } from "./admission.ts";
import { measureColdStart } from "./cold-start.ts";
import { measureCycles } from "./cycles.ts";
import { measureIsolation } from "./isolation.ts";
import { measureLatency } from "./latency.ts";
import { measureLists } from "./lists.ts";
import { measureProfile } from "./profile.ts";
import { measureRuns } from "./runs.ts";
import { openSite } from "./site.ts";
import type { Site } from "./site.ts";
import { countStatements } from "./statements.ts";
import { measureStreams } from "./streams.ts";
import { measureWholeFleet } from "./whole-fleet.ts";

const FLAGS = {
  only: { type: "string", help: "subjects, separated by commas; all of them if absent" },
  runs: { type: "string", default: "2000", help: "runs, profile: how many" },
  rounds: { type: "string", default: "2", help: "runs, cycles, admission, lists and start: how often each" },
  concurrency: { type: "string", default: "32", help: "runs, cycles, fleet, profile, statements: how many at a time" },
  fleets: { type: "string", default: "100,1000,10000", help: "cycles: sizes" },
  cycles: { type: "string", default: "10000", help: "cycles: how many each fleet lives through" },
  fleet: { type: "string", default: "10000", help: "fleet: nodes" },
  nodes: { type: "string", default: "2000,10000", help: "admission: sizes" },
  subscribers: { type: "string", default: "1,100", help: "latency: counts" },
  transitions: { type: "string", default: "300", help: "latency: how many are committed" },
  tables: { type: "string", default: "1000,100000", help: "lists: nodes in the table" },
  requests: { type: "string", default: "200", help: "lists: how many a round" },
  fanout: { type: "string", default: "1,100,1000,5000", help: "streams: counts of subscribers" },
  events: { type: "string", default: "40", help: "streams: how many transitions reach each of them" },
  calls: { type: "string", default: "20000", help: "isolation: how many" },
  help: { type: "boolean" },
} as const;

const { values: flags } = parseArgs({ options: FLAGS });
const numbers = (text: string) => text.split(",").map(Number);
const runs = Number(flags.runs);
const rounds = Number(flags.rounds);
const concurrency = Number(flags.concurrency);

interface Subject {
  /** The flags that it goes by, for the command that is printed. */
  readonly flags: readonly Exclude<keyof typeof FLAGS, "only" | "help">[];
  measure(site: Site): Promise<void>;
}

const SUBJECTS: Readonly<Record<string, Subject>> = {
  start: { flags: ["rounds"], measure: (site) => measureColdStart(site, { rounds }) },
  statements: { flags: ["concurrency"], measure: (site) => countStatements(site, { concurrency }) },
  isolation: { flags: ["calls"], measure: () => measureIsolation({ calls: Number(flags.calls) }) },
  latency: {
    flags: ["subscribers", "transitions"],
    measure: (site) =>
      measureLatency(site, { subscribers: numbers(flags.subscribers), transitions: Number(flags.transitions) }),
  },
  lists: {
    flags: ["tables", "requests", "rounds"],
    measure: (site) => measureLists(site, { nodes: numbers(flags.tables), rounds, requests: Number(flags.requests) }),
  },
  admission: {
    flags: ["nodes", "rounds"],
    measure: (site) => measureAdmission(site, { nodes: numbers(flags.nodes), rounds }),
  },
  streams: {
    flags: ["fanout", "events"],
    measure: (site) => measureStreams(site, { subscribers: numbers(flags.fanout), events: Number(flags.events) }),
  },
  fleet: {
    flags: ["fleet", "concurrency"],
    measure: (site) => measureWholeFleet(site, { nodes: Number(flags.fleet), concurrency }),
  },
  cycles: {
    flags: ["fleets", "cycles", "rounds", "concurrency"],
    measure: (site) =>
      measureCycles(site, { fleets: numbers(flags.fleets), cycles: Number(flags.cycles), rounds, concurrency }),
  },
  profile: { flags: ["runs", "concurrency"], measure: (site) => measureProfile(site, { runs, concurrency }) },
  runs: {
    flags: ["runs", "rounds", "concurrency"],
    measure: (site) => measureRuns(site, { runs, rounds, concurrency }),
  },
};

async function main(): Promise<void> {
  if (flags.help) {
    for (const [name, flag] of Object.entries(FLAGS))
      if ("help" in flag)
        console.log(`  --${name.padEnd(12)} ${flag.help}${"default" in flag ? ` (${flag.default})` : ""}`);
    console.log(`  subjects: ${Object.keys(SUBJECTS).join(", ")}`);
    return;
  }
  const wanted = flags.only?.split(",") ?? Object.keys(SUBJECTS);
  const unknown = wanted.filter((name) => !(name in SUBJECTS));
  if (unknown.length > 0)
    throw new Error(`There is no subject ${unknown.join(", ")}. There are ${Object.keys(SUBJECTS).join(", ")}.`);
  const opening = openSite();
  endWhenTold(opening);
  await using site = await opening;
  for (const name of wanted) {
    const subject = SUBJECTS[name];
    if (!subject) continue;
    console.log(
      `\n${name}: npm run bench -- --only ${name}${subject.flags.map((flag) => ` --${flag} ${flags[flag]}`).join("")}`,
    );
    await subject.measure(site);
  }
}

let ending = false;

/** Takes everything down when the benchmark is interrupted; what then fails in the middle of its work is no news. */
function endWhenTold(opening: Promise<Site>): void {
  const exit = () => process.exit(130);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      if (ending) return;
      ending = true;
      opening.then((site) => site[Symbol.asyncDispose]()).then(exit, exit);
    });
  }
}

const isNews = (error: unknown) => {
  if (ending) return;
  process.stderr.write(`${messageOf(error)}\n`);
  process.exitCode = 1;
};
process.on("unhandledRejection", isNews);
main().catch(isNews);
