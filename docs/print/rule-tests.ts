/** Finds the tests that hold the rules: those whose titles end in rule ids, such as `[R-057]` or `[R-057, R-058]`. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** A title as the first argument of a test, a block or a table of tests, with its ids. */
const HELD = /(?:\(|^\s+)(["'`])((?:\\.|(?!\1)[^\\\n])*) \[(R-\d+(?:, R-\d+)*)\]\1,/gm;

export interface RuleTest {
  /** Path from the root of the repository. */
  readonly file: string;
  /** Without the ids, and with parameters such as `$name` and `%s` as they are written. */
  readonly title: string;
  readonly rules: readonly string[];
}

export function ruleTestsIn(file: string, text: string): readonly RuleTest[] {
  return [...text.matchAll(HELD)].map(([, , title = "", ids = ""]) => ({
    file,
    title: title.replaceAll(/\\(.)/g, "$1"),
    rules: ids.split(", "),
  }));
}

/** All of them, by file and in the order of each file. */
export function ruleTests(): readonly RuleTest[] {
  return globSync("test/**/*.test.ts", { cwd: ROOT })
    .toSorted()
    .flatMap((file) => ruleTestsIn(file, readFileSync(join(ROOT, file), "utf8")));
}
