/**
 * `npm run docs`: prints the pages that are generated from code. `--check` writes nothing, and reports stale pages and
 * documentation that is longer than its budget.
 * A page is a pure function of the tables it prints, so the output is identical on every machine.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { printedPages } from "./print/pages.ts";
import { excessWords } from "./print/word-budget.ts";

function main(): void {
  const stale: string[] = [];
  for (const { file, text } of printedPages()) {
    const url = new URL(file, import.meta.url);
    if (!process.argv.includes("--check")) writeFileSync(url, text);
    else if (read(url) !== text) stale.push(`docs/${file}`);
  }
  if (stale.length > 0)
    report(
      `${stale.join(", ")} ${stale.length === 1 ? "is" : "are"} stale: run \`npm run docs\` and commit the result.\n`,
    );
  const excess = process.argv.includes("--check") ? excessWords() : null;
  if (excess !== null) report(excess);
}

function report(problem: string): void {
  process.stderr.write(problem);
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
