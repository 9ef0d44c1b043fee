/**
 * `npm run bench`: measures performance on this machine. Absolute rates depend on the machine and its load; compare the
 * ratios, such as that of the engine to the bare loop in the same minute. Figures and their limits:
 * bench/README.md.
 */
import { parseArgs } from "node:util";
import { messageOf } from "../src/errors.ts";
import { measureAdmission } from "./admission.ts";
import { measureAnsible } from "./ansible.ts";
import { measureAuthentication } from "./authentication.ts";
import { measureBehind } from "./behind.ts";
import { measureBmcs } from "./bmcs.ts";
import { measureCli } from "./cli.ts";
import { measureClusters } from "./clusters.ts";
import { measureColdStart } from "./cold-start.ts";
import { measureChanges } from "./changes.ts";
import { measureConsole } from "./console.ts";
import { measureCycle } from "./cycle.ts";
import { measureCycles } from "./cycles.ts";
import { measureImages } from "./images.ts";
import { measureIronic } from "./ironic/side-by-side.ts";
import { measureIsolation } from "./isolation.ts";
import { measureLatency } from "./latency.ts";
import { measureLists } from "./lists.ts";
import { measureMemory } from "./memory.ts";
import { measureProfile } from "./profile.ts";
import { measureReaders } from "./readers.ts";
import { measureRecording } from "./recording.ts";
import { measureRelabel } from "./relabel.ts";
import { measureRuns } from "./runs.ts";
import { measureSnapshots } from "./snapshots.ts";
import { openTestbed } from "./testbed.ts";
import type { Testbed } from "./testbed.ts";
import { countStatements } from "./statements.ts";
import { measureStreams } from "./streams.ts";
import { measureTls } from "./tls.ts";
import { measureTriggers } from "./triggers.ts";
import { measureWall } from "./wall.ts";
import { measureWholeFleet } from "./whole-fleet.ts";
import { measureWorkers } from "./workers.ts";

const FLAGS = {
  only: {
    type: "string",
    help: "subjects, separated by commas; default: all except ansible, console, ironic and wall, which need other programs",
  },
  runs: { type: "string", default: "2000", help: "runs, profile: number of runs" },
  rounds: {
    type: "string",
    default: "2",
    help: "cycle, ironic, triggers, recording, memory, runs, cycles, admission, clusters, lists, snapshots, readers, behind, start, tls, workers: number of rounds",
  },
  concurrency: {
    type: "string",
    default: "32",
    help: "cycle, ironic, triggers, memory, runs, cycles, admission, fleet, profile, statements: nodes at a time; workers: calls at a time",
  },
  bulk: { type: "string", default: "200", help: "cycle, ironic, triggers: number of nodes" },
  singles: { type: "string", default: "100", help: "cycle, ironic, triggers: number of nodes with a request each" },
  against: {
    type: "string",
    default: "",
    help: "cycle, memory, behind, workers: folder of another checkout, measured in alternating passes; cycle: off for this one without encryption",
  },
  flight: { type: "string", default: "16", help: "cycle, ironic, triggers: requests for one node at a time" },
  layouts: {
    type: "string",
    default: "one,two",
    help: "ironic: API and conductor in one process, or in two services",
  },
  theirs: { type: "string", default: "200", help: "ironic: nodes of a pass of Ironic, at most as many as --bulk" },
  fleets: { type: "string", default: "100,1000,10000", help: "cycles: sizes of the fleets" },
  cycles: { type: "string", default: "10000", help: "cycles: number of cycles of each fleet" },
  fleet: {
    type: "string",
    default: "10000",
    help: "fleet, snapshots, relabel, clusters, console, wall: number of nodes",
  },
  nodes: { type: "string", default: "2000,10000", help: "admission: sizes of the fleets" },
  subscribers: { type: "string", default: "1,100", help: "latency: numbers of subscribers" },
  transitions: { type: "string", default: "300", help: "latency: number of transitions" },
  tables: { type: "string", default: "1000,100000", help: "lists: nodes in the table" },
  requests: { type: "string", default: "200", help: "auth, lists, tls: requests per round" },
  fanout: { type: "string", default: "1,100,1000,5000", help: "streams, changes: numbers of subscribers" },
  events: { type: "string", default: "40", help: "streams, changes: number of transitions" },
  readers: { type: "string", default: "20", help: "readers: number of streams that catch up" },
  log: { type: "string", default: "30000", help: "readers: transitions that each of them catches up over" },
  writes: { type: "string", default: "200", help: "readers: writes per measurement" },
  behind: { type: "string", default: "1,5,16", help: "behind: numbers of readers" },
  changed: { type: "string", default: "1000,10000", help: "behind: numbers of nodes that changed" },
  calls: { type: "string", default: "20000", help: "isolation: number of calls" },
  bmcs: { type: "string", default: "100", help: "bmcs: number of simulated BMCs" },
  group: { type: "string", default: "100", help: "bmcs: nodes that are commissioned together" },
  clients: { type: "string", default: "20", help: "images: number of clients that download at a time" },
  megabytes: { type: "string", default: "500", help: "images: size of the image" },
  seconds: { type: "string", default: "10", help: "images, console, wall: duration of each measurement" },
  consoles: { type: "string", default: "100", help: "console: number of idle consoles" },
  changes: { type: "string", default: "2000", help: "recording: changed rows per round" },
  followers: { type: "string", default: "100,1000", help: "relabel: numbers of clients with one of ten filters" },
  held: { type: "string", default: "200", help: "memory: number of nodes" },
  delays: { type: "string", default: "0,1000", help: "memory: durations of calls, in ms" },
  help: { type: "boolean" },
} as const;

const { values: flags } = parseArgs({ options: FLAGS });
const numbers = (text: string) => text.split(",").map(Number);
const runs = Number(flags.runs);
const rounds = Number(flags.rounds);
const concurrency = Number(flags.concurrency);

interface Subject {
  /** Flags that apply to the subject, for the printed command. */
  readonly flags: readonly Exclude<keyof typeof FLAGS, "only" | "help">[];
  /** Measured only if it is named, because it needs programs that Ostler does not bring. */
  readonly named?: boolean;
  measure(testbed: Testbed): Promise<void>;
}

const SUBJECTS: Readonly<Record<string, Subject>> = {
  start: { flags: ["rounds"], measure: (testbed) => measureColdStart(testbed, { rounds }) },
  cli: { flags: [], measure: measureCli },
  statements: { flags: ["concurrency"], measure: (testbed) => countStatements(testbed, { concurrency }) },
  isolation: { flags: ["calls"], measure: () => measureIsolation({ calls: Number(flags.calls) }) },
  workers: {
    flags: ["rounds", "concurrency", "against"],
    measure: async () => measureWorkers({ rounds, concurrency, against: flags.against }),
  },
  bmcs: {
    flags: ["bmcs", "group"],
    measure: (testbed) => measureBmcs(testbed, { bmcs: Number(flags.bmcs), group: Number(flags.group) }),
  },
  ansible: { flags: ["rounds"], named: true, measure: (testbed) => measureAnsible(testbed, rounds) },
  latency: {
    flags: ["subscribers", "transitions"],
    measure: (testbed) =>
      measureLatency(testbed, { subscribers: numbers(flags.subscribers), transitions: Number(flags.transitions) }),
  },
  lists: {
    flags: ["tables", "requests", "rounds"],
    measure: (testbed) =>
      measureLists(testbed, { nodes: numbers(flags.tables), rounds, requests: Number(flags.requests) }),
  },
  auth: {
    flags: ["requests"],
    measure: () => measureAuthentication({ requests: Number(flags.requests) }),
  },
  tls: {
    flags: ["requests", "rounds"],
    measure: (testbed) => measureTls(testbed, { requests: Number(flags.requests), rounds }),
  },
  snapshots: {
    flags: ["fleet", "rounds"],
    measure: (testbed) => measureSnapshots(testbed, { nodes: Number(flags.fleet), rounds }),
  },
  admission: {
    flags: ["nodes", "rounds", "concurrency"],
    measure: (testbed) => measureAdmission(testbed, { nodes: numbers(flags.nodes), rounds, concurrency }),
  },
  clusters: {
    flags: ["fleet", "rounds"],
    measure: (testbed) => measureClusters(testbed, { nodes: Number(flags.fleet), rounds }),
  },
  console: {
    flags: ["fleet", "consoles", "seconds"],
    named: true,
    measure: () =>
      measureConsole({
        nodes: Number(flags.fleet),
        consoles: Number(flags.consoles),
        seconds: Number(flags.seconds),
      }),
  },
  wall: {
    flags: ["fleet", "seconds"],
    named: true,
    measure: () => measureWall({ nodes: Number(flags.fleet), seconds: Number(flags.seconds) }),
  },
  streams: {
    flags: ["fanout", "events"],
    measure: (testbed) => measureStreams(testbed, { subscribers: numbers(flags.fanout), events: Number(flags.events) }),
  },
  changes: {
    flags: ["fanout", "events"],
    measure: (testbed) => measureChanges(testbed, { subscribers: numbers(flags.fanout), events: Number(flags.events) }),
  },
  readers: {
    flags: ["readers", "log", "writes", "rounds"],
    measure: (testbed) =>
      measureReaders(testbed, {
        readers: Number(flags.readers),
        log: Number(flags.log),
        writes: Number(flags.writes),
        rounds,
      }),
  },
  behind: {
    flags: ["behind", "changed", "rounds", "against"],
    measure: (testbed) =>
      measureBehind(testbed, {
        behind: numbers(flags.behind),
        changed: numbers(flags.changed),
        rounds,
        against: flags.against,
      }),
  },
  relabel: {
    flags: ["followers", "fleet"],
    measure: (testbed) => measureRelabel(testbed, { followers: numbers(flags.followers), nodes: Number(flags.fleet) }),
  },
  images: {
    flags: ["clients", "megabytes", "seconds"],
    measure: (testbed) =>
      measureImages(testbed, {
        clients: Number(flags.clients),
        megabytes: Number(flags.megabytes),
        seconds: Number(flags.seconds),
      }),
  },
  cycle: {
    flags: ["bulk", "singles", "flight", "rounds", "concurrency", "against"],
    measure: (testbed) =>
      measureCycle(testbed, {
        nodes: Number(flags.bulk),
        singles: Number(flags.singles),
        inFlight: Number(flags.flight),
        rounds,
        concurrency,
        against: flags.against,
      }),
  },
  triggers: {
    flags: ["bulk", "singles", "flight", "rounds", "concurrency"],
    measure: (testbed) =>
      measureTriggers(testbed, {
        nodes: Number(flags.bulk),
        singles: Number(flags.singles),
        inFlight: Number(flags.flight),
        rounds,
        concurrency,
      }),
  },
  ironic: {
    flags: ["bulk", "singles", "flight", "rounds", "concurrency", "layouts", "theirs"],
    named: true,
    measure: (testbed) =>
      measureIronic(testbed, {
        nodes: Number(flags.bulk),
        singles: Number(flags.singles),
        inFlight: Number(flags.flight),
        rounds,
        concurrency,
        layouts: flags.layouts.split(","),
        theirs: Number(flags.theirs),
      }),
  },
  recording: {
    flags: ["changes", "rounds"],
    measure: (testbed) => measureRecording(testbed, { changes: Number(flags.changes), rounds }),
  },
  memory: {
    flags: ["held", "delays", "rounds", "concurrency", "against"],
    measure: (testbed) =>
      measureMemory(testbed, {
        nodes: Number(flags.held),
        delays: numbers(flags.delays),
        rounds,
        concurrency,
        against: flags.against,
      }),
  },
  fleet: {
    flags: ["fleet", "concurrency"],
    measure: (testbed) => measureWholeFleet(testbed, { nodes: Number(flags.fleet), concurrency }),
  },
  cycles: {
    flags: ["fleets", "cycles", "rounds", "concurrency"],
    measure: (testbed) =>
      measureCycles(testbed, { fleets: numbers(flags.fleets), cycles: Number(flags.cycles), rounds, concurrency }),
  },
  profile: { flags: ["runs", "concurrency"], measure: (testbed) => measureProfile(testbed, { runs, concurrency }) },
  runs: {
    flags: ["runs", "rounds", "concurrency"],
    measure: (testbed) => measureRuns(testbed, { runs, rounds, concurrency }),
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
  const requested = flags.only?.split(",") ?? Object.keys(SUBJECTS).filter((name) => !SUBJECTS[name]?.named);
  const unknown = requested.filter((name) => !(name in SUBJECTS));
  if (unknown.length > 0)
    throw new Error(`Unknown subject ${unknown.join(", ")}: use ${Object.keys(SUBJECTS).join(", ")}.`);
  const opening = openTestbed();
  closeOnSignal(opening);
  await using testbed = await opening;
  for (const name of requested) {
    const subject = SUBJECTS[name];
    if (!subject) continue;
    console.log(
      `\n${name}: npm run bench -- --only ${name}${subject.flags.map((flag) => (flags[flag] === "" ? "" : ` --${flag} ${flags[flag]}`)).join("")}`,
    );
    await subject.measure(testbed);
  }
}

let closing = false;

/** Closes everything when the benchmark is interrupted. Errors that follow from this are not reported. */
function closeOnSignal(opening: Promise<Testbed>): void {
  const exit = () => process.exit(130);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => {
      if (closing) return;
      closing = true;
      opening.then((testbed) => testbed[Symbol.asyncDispose]()).then(exit, exit);
    });
  }
}

const reportError = (error: unknown) => {
  if (closing) return;
  process.stderr.write(`${messageOf(error)}\n`);
  process.exitCode = 1;
};
process.on("unhandledRejection", reportError);
main().catch(reportError);
