/**
 * `npm run test:all`: the parts of the test suite that `npm test` leaves out, one after the other. Run it before a
 * release: about half an hour on two cores without other load. Prints the time of each part, and ends `N passed, N
 * failed`. A part that takes longer than half an hour is ended and counts as failed.
 *
 * `--short` runs a form of each part with a fixed seed that takes minutes in all, `--fast` runs `npm test` as the first
 * part, `--only tcp,kills` runs these parts only. `.ci/run` uses `--fast --short`.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { missingForHosts } from "./ansible/prerequisites.ts";
import { missingForPowerCuts } from "./durability/power-cuts.ts";
import { missingForLab } from "./e2e/prerequisites.ts";
import { missingForRelease } from "./release/prerequisites.ts";
import { olderRelease } from "./support/older-release.ts";

interface Part {
  readonly name: string;
  readonly about: string;
  /** Arguments of `node`. */
  readonly command: readonly string[];
  /** The same for `--short`; null where there is no short form. */
  readonly short: readonly string[] | null;
  /** Why this machine cannot run the part; null if it can. */
  readonly missing?: () => string | null;
}

/** Number of tests, of checks, or of programs that print no count. */
interface Counts {
  readonly passed: number;
  readonly failed: number;
}

interface Result extends Counts {
  readonly name: string;
  readonly seconds: number;
  readonly skipped: string | null;
  /** Each failed test with its file and the first line of its message; empty for programs, which end with their own. */
  readonly failures: readonly string[];
}

/** The parts of a report of vitest that are counted. */
interface VitestReport {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numFailedTestSuites: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const VITEST = "node_modules/vitest/vitest.mjs";
const SEED = "20261";
const PART_MINUTES = 30;

const vitest = (project: string, ...files: readonly string[]) => [VITEST, "run", "--project", project, ...files];

const FAST: Part = { name: "fast", about: "npm test", command: vitest("fast*"), short: vitest("fast*") };

/**
 * One file for each way in which engine and feed use the connection: claims, notifier, batches, lease, stream, log.
 */
const TCP_SAMPLE = [
  "test/store/",
  "test/engine/commission.test.ts",
  "test/engine/group-commit.test.ts",
  "test/engine/takeover.test.ts",
  "test/engine/wake-runs.test.ts",
  "test/feed/node-stream.test.ts",
  "test/feed/tail.test.ts",
];
const CHAOS = "test/chaos/chaos.long.test.ts";
const MONITORS = "test/monitors.long.test.ts";
/**
 * All but the chaos run, whose promises with limits in seconds mean little beside other tests, and what needs programs
 * that a machine may lack.
 */
const LONG_FILES = globSync("test/**/*.long.test.ts", { cwd: ROOT }).filter(
  (file) => file !== CHAOS && file !== MONITORS,
);
const LONG_SAMPLE = [
  "test/cli/package.long.test.ts",
  "test/clients/",
  "test/clients-page.long.test.ts",
  "test/client/",
  "test/drivers/",
  "test/durability/races.long.test.ts",
  "test/durability/model.long.test.ts",
  "test/store/",
];

const PARTS: readonly Part[] = [
  {
    name: "tcp",
    about: "store, engine and feed over TCP",
    command: vitest("tcp"),
    short: vitest("tcp", ...TCP_SAMPLE),
  },
  {
    name: "long",
    about: "model, races, replicas, code generators, packed client",
    command: vitest("long", ...LONG_FILES),
    short: vitest("long", ...LONG_SAMPLE),
  },
  {
    name: "chaos",
    about: "faults in replicas, database, connections, drivers and readers for two minutes",
    command: vitest("long", CHAOS),
    short: null,
  },
  {
    name: "kills",
    about: "commissions while the service is killed",
    command: ["test/durability/kills.ts", "--seed", SEED],
    short: ["test/durability/kills.ts", "--seed", SEED, "--nodes", "60", "--kills", "1"],
  },
  {
    name: "secret-kills",
    about: "commissions while the rotation of keys is killed",
    command: ["test/durability/secret-kills.ts"],
    // A kill seldom meets the rotation of few secrets; interrupted rotations are tests of `npm test`.
    short: null,
  },
  {
    name: "power-cuts",
    about: "starts after power cuts of the file system",
    command: ["test/durability/power-cuts.ts", "--seed", SEED],
    short: ["test/durability/power-cuts.ts", "--seed", SEED, "--cuts", "2"],
    missing: missingForPowerCuts,
  },
  {
    name: "cuts",
    about: "streams while connections are cut",
    command: ["test/durability/cuts.ts", "--seed", SEED],
    short: ["test/durability/cuts.ts", "--seed", SEED, "--clients", "10", "--cuts", "40", "--transitions", "3000"],
  },
  {
    name: "change-cuts",
    about: "streams of changes while connections are cut and the service is killed",
    command: ["test/durability/change-cuts.ts", "--seed", SEED],
    // Its short form is a test of `npm test`.
    short: null,
  },
  {
    name: "stalled",
    about: "memory while clients do not read",
    command: ["test/durability/stalled.ts"],
    short: null,
  },
  {
    name: "stalled-changes",
    about: "clients of a stream of changes that do not read, beside 50,000 changes",
    command: ["test/durability/stalled-changes.ts"],
    // Its short form is a test of `npm test`.
    short: null,
  },
  {
    name: "takeover",
    about: "time until the steps of a killed replica continue",
    command: ["test/replicas/takeover.ts"],
    short: ["test/replicas/takeover.ts", "--kills", "1", "--nodes", "20"],
  },
  {
    name: "upgrade",
    about: "replicas and the package of an older release are replaced under load",
    command: ["test/replicas/upgrade.ts"],
    short: null,
    missing: () => (olderRelease() === null ? "the history is not in this clone" : null),
  },
  {
    name: "pooler",
    about: "replicas behind PgBouncer",
    command: ["test/replicas/pooler.ts"],
    short: null,
    missing: () => (spawnSync("pgbouncer", ["--version"]).status === 0 ? null : "pgbouncer is not installed"),
  },
  {
    name: "monitors",
    about: "the examples for Serf and Alertmanager",
    command: vitest("long", MONITORS),
    short: vitest("long", MONITORS),
    missing: () => {
      const lacking = ["serf", "prometheus-alertmanager", "python3"].filter(
        (program) => spawnSync(program, ["--version"]).error !== undefined,
      );
      return lacking.length > 0 ? `not installed: ${lacking.join(", ")}` : null;
    },
  },
  {
    name: "e2e",
    about: "a machine with UEFI is installed through its BMC",
    command: ["test/e2e/e2e.ts", "--short"],
    short: null,
    missing: missingForLab,
  },
  {
    name: "ansible",
    about: "hosts in network namespaces are configured with Ansible",
    command: ["test/ansible/lab.ts"],
    short: null,
    missing: missingForHosts,
  },
  {
    name: "release",
    about: "the newest folder of npm run release, installed on fresh systems",
    command: ["test/release/check.ts"],
    short: null,
    missing: missingForRelease,
  },
  {
    name: "console",
    about: "the web console in a browser, which it installs if there is none",
    command: ["test/console/browser/run.ts"],
    short: ["test/console/browser/run.ts", "--short"],
  },
  {
    name: "example",
    about: "the example for front ends in a browser, which it installs if there is none",
    command: ["test/examples/fleet-table.ts"],
    short: null,
  },
];

async function runPart(part: Part, command: readonly string[]): Promise<Result> {
  const { name } = part;
  const skipped = part.missing?.() ?? null;
  if (skipped !== null) return { name, seconds: 0, passed: 0, failed: 0, skipped, failures: [] };
  const folder = mkdtempSync(join(tmpdir(), "ostler-all-"));
  try {
    const report = join(folder, "report.json");
    const isVitest = command[0] === VITEST;
    const reporters = isVitest ? ["--reporter=default", "--reporter=json", `--outputFile.json=${report}`] : [];
    const began = performance.now();
    const { output, code } = await run([...command, ...reporters]);
    const seconds = (performance.now() - began) / 1_000;
    if (!isVitest) return { name, seconds, skipped, failures: [], ...countsOfOutput(output, code) };
    const results = readReport(report);
    return { name, seconds, skipped, failures: failuresOf(results), ...countsOfReport(results, code) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function run(command: readonly string[]): Promise<{ readonly output: string; readonly code: number | null }> {
  const child = spawn(process.execPath, command, { cwd: ROOT, stdio: ["ignore", "pipe", "inherit"] });
  const timeout = setTimeout(() => {
    console.error(`\nThe part has not ended within ${PART_MINUTES} minutes.`);
    child.kill("SIGTERM");
    // A process that it has left behind may hold its output open.
    setTimeout(() => child.stdout.destroy(), 10_000).unref();
  }, PART_MINUTES * 60_000);
  let output = "";
  child.stdout.on("data", (part: Buffer) => {
    output += part.toString();
    process.stdout.write(part);
  });
  const [code] = (await once(child, "close")) as [number | null];
  clearTimeout(timeout);
  return { output, code };
}

/**
 * Counts of a run of vitest. A file that cannot be loaded, an unhandled error and an exit code without a failed test
 * count as failures.
 */
function countsOfReport(report: VitestReport, code: number | null): Counts {
  const { numPassedTests, numFailedTests, numFailedTestSuites, testResults } = report;
  const broken = testResults.filter(
    ({ status, assertionResults }) => status === "failed" && assertionResults.every((test) => test.status !== "failed"),
  );
  const isClean = code === 0 && numFailedTestSuites === 0 && numPassedTests > 0;
  return { passed: numPassedTests, failed: numFailedTests + broken.length || (isClean ? 0 : 1) };
}

function failuresOf({ testResults }: VitestReport): string[] {
  const firstLine = (text = "") => text.split("\n", 1)[0];
  return testResults.flatMap(({ name, status, message, assertionResults }) => {
    const failed = assertionResults.filter((test) => test.status === "failed");
    if (status === "failed" && failed.length === 0) return [`${relative(ROOT, name)}: ${firstLine(message)}`];
    return failed.map((test) => `${relative(ROOT, name)}: ${test.fullName}\n    ${firstLine(test.failureMessages[0])}`);
  });
}

function readReport(file: string): VitestReport {
  try {
    return JSON.parse(readFileSync(file, "utf8")) as VitestReport;
  } catch {
    return { numPassedTests: 0, numFailedTests: 0, numFailedTestSuites: 0, testResults: [] };
  }
}

/** Counts of a program: its last line `N passed, N failed`; without one, the program itself is one check. */
function countsOfOutput(output: string, code: number | null): Counts {
  const line = [...output.matchAll(/^(\d+) passed, (\d+) failed$/gm)].at(-1);
  const [passed, failed] = line ? [Number(line[1]), Number(line[2])] : [code === 0 ? 1 : 0, 0];
  return { passed, failed: failed || (code === 0 ? 0 : 1) };
}

function chosenParts(options: { readonly fast: boolean; readonly short: boolean; readonly only?: string }) {
  const all = options.fast ? [FAST, ...PARTS] : PARTS;
  const names = options.only?.split(",") ?? all.map(({ name }) => name);
  const unknown = names.filter((name) => all.every((part) => part.name !== name));
  if (unknown.length > 0)
    throw new Error(`Unknown part ${unknown.join(", ")}: use ${all.map(({ name }) => name).join(", ")}.`);
  return all.flatMap((part) => {
    const command = options.short ? part.short : part.command;
    return command && names.includes(part.name) ? [{ part, command }] : [];
  });
}

function lineOf({ name, seconds, passed, failed, skipped }: Result): string {
  return `${name.padEnd(9)} ${seconds.toFixed(0).padStart(5)} s  ${skipped === null ? `${passed} passed, ${failed} failed` : `skipped: ${skipped}`}`;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      short: { type: "boolean", default: false },
      fast: { type: "boolean", default: false },
      only: { type: "string" },
    },
  });
  const began = performance.now();
  const results: Result[] = [];
  for (const { part, command } of chosenParts(values)) {
    console.log(`\n---- ${part.name}: ${part.about}`);
    const result = await runPart(part, command);
    results.push(result);
    console.log(`\n---- ${lineOf(result)}`);
  }
  console.log("");
  for (const result of results) console.log(lineOf(result));
  for (const failure of results.flatMap(({ failures }) => failures)) console.log(`failed: ${failure}`);
  console.log(`${"all".padEnd(9)} ${((performance.now() - began) / 1_000).toFixed(0).padStart(5)} s`);
  const total = (count: keyof Counts) => results.reduce((sum, result) => sum + result[count], 0);
  console.log(`\n${total("passed")} passed, ${total("failed")} failed`);
  process.exitCode = total("failed") === 0 && total("passed") > 0 ? 0 : 1;
}

await main();
