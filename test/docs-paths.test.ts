/** The pages for contributors name files; each of them has to exist. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** A path from the root of the repository. Patterns such as `docs/decisions/NNNN-title.md` and `src/<…>` are not. */
const PATH = /(?<![\w./<-])(?:src|plugins|test|bench|docs|packages|drizzle|\.ci)\/[\w./-]*[\w/](?![\w<*…{])/g;

const pathsIn = (text: string) =>
  [...text.matchAll(PATH)].map(([path]) => path).filter((path) => !path.includes("NNNN"));

test.each(["docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md", "README.md"])(
  "every path that %s names exists",
  (page) => {
    const paths = pathsIn(readFileSync(join(ROOT, page), "utf8"));
    expect(paths.length).toBeGreaterThan(5);
    expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  },
);

test("the check of paths finds paths in prose, code and tables, and leaves patterns out", () => {
  expect(
    pathsIn("`src/a.ts`, [b](docs/b.md) src/c/d.ts. docs/decisions/NNNN-title.md test/<name>.ts xsrc/e.ts"),
  ).toEqual(["src/a.ts", "docs/b.md", "src/c/d.ts"]);
});
