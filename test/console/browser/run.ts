/**
 * `npm run tool -- console-check`: drives the console in a real browser, against a real service with simulated nodes
 * and a proxy between them that cuts. Prints a line for each check, and finally `N passed, N failed`.
 *
 * Options: --short (150 nodes, no scenario of a minute), --only sign-in,outage (these scenarios alone), --pictures
 * (pictures of each screen in both themes, in `packages/console/screenshots`), --docs (takes the pictures of
 * docs/console.md, and checks nothing).
 */
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { findBrowser, launch } from "./browser.ts";
import { takePictures } from "./pictures.ts";
import { SCENARIOS } from "./scenarios.ts";
import type { Lab } from "./lab.ts";
import { openLab } from "./lab.ts";

const CONSOLE = fileURLToPath(new URL("../../../packages/console/", import.meta.url));
const DOCS = fileURLToPath(new URL("../../../docs/", import.meta.url));
/** Scenarios of a minute. */
const LONG = ["tabs"];
const NODES = { short: 150, long: 2_000 };

const { values } = parseArgs({
  options: {
    short: { type: "boolean", default: false },
    only: { type: "string" },
    pictures: { type: "boolean", default: false },
    docs: { type: "boolean", default: false },
  },
});

let passed = 0;
let failed = 0;

function check(title: string, flaws: readonly string[]): void {
  if (flaws.length === 0) passed += 1;
  else failed += 1;
  console.log(
    `${flaws.length === 0 ? "ok  " : "FAIL"} ${title}${flaws
      .slice(0, 5)
      .map((flaw) => `\n       ${flaw}`)
      .join("")}`,
  );
}

async function main(): Promise<void> {
  const found = await findBrowser();
  const { status } = spawnSync(process.execPath, [`${CONSOLE}build.ts`, "--if-changed"], { stdio: "inherit" });
  if (status !== 0) throw new Error("console: the build failed.");
  mkdirSync(`${CONSOLE}screenshots`, { recursive: true });
  await using browser = await launch(found);
  if (values.docs) {
    await takePictures(browser, DOCS);
    return check("the pictures are taken", []);
  }
  const all = Object.keys(SCENARIOS).filter((name) => !values.short || !LONG.includes(name));
  const names = values.only?.split(",") ?? all;
  await using lab: Lab = await openLab({
    browser,
    nodes: values.short ? NODES.short : NODES.long,
    pictures: values.pictures ? `${CONSOLE}screenshots/` : null,
    check,
  });
  for (const name of names) {
    const scenario = SCENARIOS[name];
    if (!scenario) throw new Error(`Unknown scenario ${name}: use ${Object.keys(SCENARIOS).join(", ")}.`);
    const began = performance.now();
    await scenario(lab).catch((error: unknown) =>
      check(name, [error instanceof Error ? error.message : String(error)]),
    );
    console.log(`---- ${name}: ${((performance.now() - began) / 1_000).toFixed(1)} s`);
  }
}

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  failed += 1;
}
console.log(`\n${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
