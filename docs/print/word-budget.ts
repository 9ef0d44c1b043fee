/** The length of the documentation for users, which `npm run docs -- --check` holds. */
import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** docs/rules is for reference, docs/decisions for contributors. */
const PAGES = ["README.md", "docs/*.md", "docs/verbs/*.md"];
const MAX_WORDS = 69_984;
const NAMED_PAGES = 10;

/** Why the documentation is too long, with the longest pages; null if it is not. */
export function excessWords(): string | null {
  const pages = globSync(PAGES, { cwd: ROOT }).map((file) => ({
    file,
    words: readFileSync(`${ROOT}${file}`, "utf8").split(/\s+/).filter(Boolean).length,
  }));
  const total = pages.reduce((sum, { words }) => sum + words, 0);
  if (total <= MAX_WORDS) return null;
  const longest = pages.toSorted((a, b) => b.words - a.words).slice(0, NAMED_PAGES);
  return [
    `The documentation has ${total} words, ${total - MAX_WORDS} more than allowed (${PAGES.join(", ")}). Shorten a page, or raise MAX_WORDS in docs/print/word-budget.ts in a commit that says what it bought. The longest pages:`,
    ...longest.map(({ file, words }) => `  ${words} ${file}`),
    "",
  ].join("\n");
}
