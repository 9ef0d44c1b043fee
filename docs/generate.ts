/**
 * `npm run docs`: prints the pages that follow from code. `--check` writes nothing and says which page is stale.
 * A page is a pure function of the tables it prints, so it is the same on every machine.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { CONFIGURATION_PAGE } from "./print/configuration.ts";
import { ERRORS_PAGE } from "./print/errors.ts";
import { LIFECYCLE_PAGE } from "./print/lifecycle.ts";
import type { Page } from "./print/markdown.ts";
import { verbPages } from "./print/verb-pages.ts";

const PAGES: readonly Page[] = [LIFECYCLE_PAGE, ERRORS_PAGE, CONFIGURATION_PAGE, ...verbPages()];

function main(): void {
  const stale: string[] = [];
  for (const { file, source, text } of PAGES) {
    const url = new URL(file, import.meta.url);
    const printed = `<!-- Printed by \`npm run docs\` from ${source}. Change that, not this page. -->\n\n${text()}`;
    if (!process.argv.includes("--check")) writeFileSync(url, printed);
    else if (read(url) !== printed) stale.push(`docs/${file}`);
  }
  if (stale.length === 0) return;
  process.stderr.write(`${stale.join(", ")} ${stale.length === 1 ? "is" : "are"} not what the code prints; run \`npm run docs\` and commit.\n`);
  process.exitCode = 1;
}

function read(url: URL): string | null {
  try {
    return readFileSync(url, "utf8");
  } catch {
    return null;
  }
}

main();
