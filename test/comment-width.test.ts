/** Comments keep the width that the formatter gives to code; it does not wrap them. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const WIDTH = 120;
const FILES = globSync(["{src,plugins,test,bench,packages,docs,examples}/**/*.{ts,tsx,js,mjs}", "*.ts"], {
  cwd: ROOT,
  exclude: ["**/node_modules/**", "{examples,packages}/*/dist/**", "examples/*/generated/**"],
});

/** A line that is nothing but a comment, or a part of one. */
const COMMENT = /^\s*(?:\/\/|\/?\*)/;

test("comment lines have at most 120 columns", () => {
  const tooLong = FILES.toSorted().flatMap((file) =>
    readFileSync(join(ROOT, file), "utf8")
      .split("\n")
      .flatMap((line, index) => (COMMENT.test(line) && line.length > WIDTH ? [`${file}:${index + 1}`] : [])),
  );
  expect(FILES.length).toBeGreaterThan(100);
  expect(tooLong).toEqual([]);
});
