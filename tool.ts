/**
 * `npm run tool -- <name> [arguments]`: the programs of contributors that have no script of their own in package.json.
 * The program replaces this process, so arguments, signals and exit codes are its own. Without a name, lists them.
 */
import { nearest } from "./src/runtime/edit-distance.ts";

interface Tool {
  /** Arguments of `node`, which npm starts in the folder of package.json. */
  readonly command: readonly string[];
  readonly help: string;
}

const tool = (command: string, help: string): Tool => ({ command: command.split(" "), help });

export const TOOLS: Readonly<Record<string, Tool>> = {
  language: tool("docs/check-language.ts", "finds words in code and docs that the project does not use"),
  budgets: tool("docs/check-budgets.ts", "counts the lines of code against budgets.txt; `--all` lists them"),
  "schema-changes": tool("docs/schema/changes.ts", "lists the changes of the schema since the last release"),
  migration: tool("drizzle/generate.ts", "writes a migration named `--name <what>` from the tables"),

  bmc: tool("packages/bmc-simulator/src/main.ts", "starts simulated Redfish BMCs"),
  "bmc-check": tool("packages/bmc-simulator/check/check.ts", "clients that others wrote judge the simulated BMCs"),
  "agent-build": tool("packages/agent/build/main.ts", "builds the boot media of the agent"),
  "agent-check": tool("packages/agent/check/check.ts", "boots the media of the agent in QEMU"),
  "demo-vm": tool("test/e2e/demo.ts", "virtual machines to install, for people without a spare server"),
  e2e: tool("test/e2e/e2e.ts", "installs an operating system on virtual machines"),
  "console-check": tool("test/console/browser/run.ts", "drives the web console in a browser"),
  "example-fleet": tool("test/examples/fleet-table.ts", "drives the example for front ends in a browser"),
  "go-client": tool("test/clients/go/go-client.ts", "generates a Go client from the schema, and runs it"),
  certificates: tool("test/hardware/certificates.ts", "prints docs/certificates.md: conformance of the drivers"),
  ansible: tool("test/ansible/lab.ts", "configures hosts in network namespaces with the real Ansible"),
  hardware: tool("test/hardware/ipmi-fleet.ts", "work on a fleet of simulated IPMI BMCs"),
  "hardware-tests": tool(
    "node_modules/vitest/vitest.mjs run --config vitest.hardware.config.ts",
    "tests that need programs or machines",
  ),

  chaos: tool("test/chaos/chaos.ts", "faults in replicas, database, connections, drivers and readers"),
  kills: tool("test/durability/kills.ts", "commissions while the service is killed"),
  "secret-kills": tool("test/durability/secret-kills.ts", "commissions while the rotation of keys is killed"),
  races: tool("test/durability/races.ts", "concurrent aborts, withdrawals, stops and ends of runs"),
  model: tool("test/durability/model.ts", "random requests and faults, compared with a model"),
  "power-cuts": tool("test/durability/power-cuts.ts", "starts after power cuts of the file system"),
  cuts: tool("test/durability/cuts.ts", "streams of transitions while connections are cut"),
  "change-cuts": tool("test/durability/change-cuts.ts", "streams of changes while connections are cut"),
  stalled: tool("test/durability/stalled.ts", "streams of transitions with clients that do not read"),
  "stalled-changes": tool("test/durability/stalled-changes.ts", "streams of changes with clients that do not read"),
  takeover: tool("test/replicas/takeover.ts", "time until the steps of a killed replica continue"),
  upgrade: tool("test/replicas/upgrade.ts", "replicas and the package of an older release are replaced under load"),
  pooler: tool("test/replicas/pooler.ts", "replicas behind PgBouncer"),
  mutations: tool("test/mutations/run.ts", "deliberate defects, each of which a test has to find"),
  soak: tool("bench/soak.ts", "memory and other resources under load for a long time"),
};

function main([name, ...rest]: readonly string[]): void {
  if (name === undefined) {
    process.stdout.write(`npm run tool -- <name> [arguments]\n\n${listed()}`);
    return;
  }
  const found = Object.hasOwn(TOOLS, name) ? TOOLS[name] : undefined;
  if (!found) {
    const meant = nearest(name, Object.keys(TOOLS));
    const help = meant === null ? "`npm run tool` lists them." : `Did you mean ${meant}?`;
    process.stderr.write(`There is no tool ${name}. ${help}\n`);
    process.exitCode = 2;
    return;
  }
  process.execve!(process.execPath, [process.execPath, ...found.command, ...rest]);
}

function listed(): string {
  const width = Math.max(...Object.keys(TOOLS).map((name) => name.length));
  return Object.entries(TOOLS)
    .map(([name, { help }]) => `${name.padEnd(width)}  ${help}\n`)
    .join("");
}

if (import.meta.main) main(process.argv.slice(2));
