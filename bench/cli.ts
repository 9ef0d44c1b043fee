/**
 * Subject `cli`: CPU and memory of the packed command line, as ratios to an empty Node in the same run: help, lists,
 * completion, and waiting for a large operation on a terminal.
 */
import { execFileSync, spawn } from "node:child_process";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { median, printTable, shown } from "./figures.ts";
import { startServed } from "./service.ts";
import type { Testbed } from "./testbed.ts";

const ROUNDS = 15;
const SMALL = 20;
const FLEET = 10_000;
const WORK = 2_500;
const AT_ONCE = 500;
const WAIT_SECONDS = 15;
const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const PROGRAM = path("../packages/cli/dist/ostler.js");

export async function measureCli(testbed: Testbed): Promise<void> {
  execFileSync(process.execPath, [path("../packages/cli/build.ts")]);
  await using service = await startServed(testbed, {
    environment: { OSTLER_DATA: join(testbed.folder, "cli"), OSTLER_PLUGINS: "fake", OSTLER_CONCURRENCY: "500" },
  });
  const empty = join(testbed.folder, "empty.mjs");
  writeFileSync(empty, "");
  const measure = (program: string, args: readonly string[]) =>
    Array.from({ length: ROUNDS }, () => resourcesOf(testbed, service.url, [program, ...args]));
  const cpu = (figures: readonly Resources[]) => median(figures.map(({ cpuMs }) => cpuMs));
  const base = cpu(measure(empty, []));
  const rows: string[][] = [];
  const ratio = (what: string, args: readonly string[], most: number) =>
    rows.push([what, `${shown(cpu(measure(PROGRAM, args)) / base, 2)} times`, `${most} times`]);
  ratio("CPU of --help", ["nodes", "commission", "--help"], 2);
  await register(service.url, 0, SMALL);
  ratio(`CPU of nodes get, ${SMALL} nodes`, ["nodes", "get"], 6);
  await register(service.url, SMALL, FLEET);
  ratio(`CPU of completing a name of ${FLEET}`, ["__complete", "nodes", "show", "cli-0123"], 6);
  const peaks = measure(PROGRAM, ["nodes", "get", "--json"]).map(({ peakMb }) => peakMb);
  rows.push([`peak memory of nodes get --json, ${FLEET} nodes`, `${shown(median(peaks), 0)} MB`, "150 MB"]);
  const wait = await measureWait(testbed, service.url);
  rows.push([`CPU of --wait, ${WORK} nodes`, `${shown(wait.share * 100)} % of a core`, "10 %"]);
  rows.push(["redraws", `${shown(wait.redraws)} per second`, "10"]);
  rows.push(["size of the file", `${shown(statSync(PROGRAM).size / 1000, 0)} kB`, "150 kB"]);
  console.log(`  medians of ${ROUNDS}; an empty Node takes ${shown(base, 0)} ms of CPU`);
  printTable(["", "measured", "at most"], rows);
}

interface Resources {
  readonly cpuMs: number;
  readonly peakMb: number;
}

function environment({ folder }: Testbed, url: string) {
  const own = { OSTLER_URL: url, HOME: folder, RESOURCE_FILE: join(folder, "resources.json"), TERM: "xterm" };
  return { PATH: process.env["PATH"], SHELL: "/bin/bash", ...own };
}

function read({ RESOURCE_FILE }: ReturnType<typeof environment>): Resources {
  return JSON.parse(readFileSync(RESOURCE_FILE, "utf8")) as Resources;
}

function resourcesOf(testbed: Testbed, url: string, args: readonly string[]): Resources {
  const env = environment(testbed, url);
  execFileSync(process.execPath, ["--import", path("resource-file.mjs"), ...args], { env, maxBuffer: 1e9 });
  return read(env);
}

/** Waits on a pseudo-terminal, until its timeout, for work that lasts longer. */
async function measureWait(
  testbed: Testbed,
  url: string,
): Promise<{ readonly share: number; readonly redraws: number }> {
  const env = environment(testbed, url);
  const names = "cli-[00000-02499]";
  const command = `${process.execPath} --import ${path("resource-file.mjs")} ${PROGRAM} nodes commission '${names}' --yes --wait --timeout ${WAIT_SECONDS}s`;
  const child = spawn("script", ["-qefc", command, "/dev/null"], { env });
  testbed.watch(child);
  let screen = "";
  child.stdout.on("data", (chunk: Buffer) => {
    screen += chunk.toString();
  });
  await new Promise((ended) => child.on("close", ended));
  const { cpuMs } = read(env);
  return {
    share: cpuMs / (WAIT_SECONDS * 1000),
    redraws: (screen.match(/COMMISSION (RUNNING|QUEUED)/g) ?? []).length / WAIT_SECONDS,
  };
}

async function register(url: string, from: number, to: number): Promise<void> {
  for (let start = from; start < to; start += AT_ONCE) {
    const count = Math.min(AT_ONCE, to - start);
    const nodes = Array.from({ length: count }, (_, index) => ({
      name: `cli-${String(start + index).padStart(5, "0")}`,
      driver: { fake: { waitSeconds: 2 } },
    }));
    const query =
      "mutation Register($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }";
    const response = await fetch(new URL("/graphql", url), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query, variables: { input: { nodes } } }),
    });
    if (!response.ok) throw new Error(await response.text());
  }
}
