/**
 * `npm run docs`: prints the pages that follow from code. `--check` writes nothing and says which page is stale.
 * A page is a pure function of the tables it prints, so it is the same on every machine.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { printedPages } from "./print/pages.ts";

function main(): void {
  const stale: string[] = [];
  for (const { file, text } of printedPages()) {
    const url = new URL(file, import.meta.url);
    if (!process.argv.includes("--check")) writeFileSync(url, text);
    else if (read(url) !== text) stale.push(`docs/${file}`);
  }
  if (stale.length === 0) return;
  process.stderr.write(
    `${stale.join(", ")} ${stale.length === 1 ? "is" : "are"} not what the code prints; run \`npm run docs\` and commit.\n`,
  );
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
