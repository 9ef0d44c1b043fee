/**
 * `npm run tool -- e2e`: installs an operating system on virtual machines behind simulated BMCs, through the API, and
 * shows that each failure stays with its node. docs/e2e.md describes it.
 *
 * `--short` installs one machine, `--only NAME,NAME` runs these scenarios, `--list` prints them, `--keep` keeps the
 * files of the machines, `--rebuild` builds the image and the agent again, `--release DIR` takes the service from the
 * package and the agent from the boot media of that folder. Prints a line for each check, the seconds of each scenario,
 * then `N passed, N failed`.
 *
 * Needs root and the Debian packages that it names. Everything runs in namespaces of its own.
 */
import { parseArgs } from "node:util";
import { fileURLToPath } from "node:url";
import { missingForLab } from "./prerequisites.ts";
import { runInNamespace } from "./namespace.ts";
import { prepare } from "./prepare.ts";
import { SCENARIOS } from "./scenarios.ts";

const { values } = parseArgs({
  options: {
    short: { type: "boolean", default: false },
    only: { type: "string" },
    list: { type: "boolean", default: false },
    keep: { type: "boolean", default: false },
    rebuild: { type: "boolean", default: false },
    release: { type: "string" },
  },
});

async function main(): Promise<number> {
  if (values.list) {
    for (const { name, about } of SCENARIOS) console.log(`${name.padEnd(14)} ${about}`);
    return 0;
  }
  const missing = missingForLab();
  if (missing !== null) {
    console.error(`The end-to-end test cannot run. ${missing}`);
    return 1;
  }
  const names = chosenNames();
  const artifacts = await prepare(values);
  const words = JSON.stringify({ names, keep: values.keep, artifacts });
  return runInNamespace(fileURLToPath(new URL("inside.ts", import.meta.url)), [words]);
}

function chosenNames(): readonly string[] {
  if (values.short) return ["short"];
  if (values.only === undefined) return SCENARIOS.flatMap(({ name, isExtra }) => (isExtra ? [] : [name]));
  const names = values.only.split(",");
  const unknown = names.filter((name) => SCENARIOS.every((scenario) => scenario.name !== name));
  if (unknown.length > 0)
    throw new Error(`Unknown scenario ${unknown.join(", ")}: use ${SCENARIOS.map(({ name }) => name).join(", ")}.`);
  return names;
}

try {
  process.exit(await main());
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
