/** The rules of docs/rules.md: each is held by a test that there is. */
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { RULES } from "../docs/print/rule-data.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const ALL = RULES.flatMap(({ rules }) => rules);

/** How often a file says a title: as the first argument of a test, a block, or a table of tests. */
function mentions(text: string, title: string): number {
  const escaped = title.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
  return [...text.matchAll(new RegExp(String.raw`\((["'\x60])${escaped}\1,`, "g"))].length;
}

/** What is wrong with the name of a test; null: there is such a test, and no other of that name. */
function flawOf(named: string): string | null {
  const [file = "", ...rest] = named.split(": ");
  const path = join(HERE, `${file}.test.ts`);
  if (!existsSync(path)) return `there is no test/${file}.test.ts`;
  const text = readFileSync(path, "utf8");
  const parts = rest.join(": ").split(" › ");
  const missing = parts.find((title) => mentions(text, title) === 0);
  if (missing !== undefined) return `test/${file}.test.ts has no test "${missing}"`;
  const [title = ""] = parts;
  return parts.length === 1 && mentions(text, title) > 1
    ? `test/${file}.test.ts has several tests "${title}"; name the block as well`
    : null;
}

describe("each rule", () => {
  test.each(ALL)("$id is held by tests that there are", ({ tests }) => {
    expect(tests.length).toBeGreaterThan(0);
    expect(tests.flatMap((named) => flawOf(named) ?? [])).toEqual([]);
  });

  test("has a number of its own section, one after the other", () => {
    for (const { number, rules } of RULES)
      expect(rules.map(({ id }) => id)).toEqual(rules.map((_, index) => `${number}.${index + 1}`));
  });

  test("is one that has been written down once", () => {
    expect(new Set(ALL.map(({ rule }) => rule)).size).toBe(ALL.length);
  });
});

test("a test that is gone would be missed", () => {
  expect(flawOf("rules: a test that is gone would be missed")).toBeNull();
  expect(flawOf("rules: a test that never was")).toContain("no test");
  expect(flawOf("nowhere: a test")).toContain("no test/nowhere.test.ts");
  expect(flawOf("rules: no such block › a test that is gone would be missed")).toContain("no such block");
});

test("the state of a node is changed in one place", () => {
  const files = globSync("src/**/*.ts", { cwd: join(HERE, "..") });
  const users = files.filter((file) =>
    /\b(moveNodes|changeHeldNodes)\(/.test(readFileSync(join(HERE, "..", file), "utf8")),
  );
  expect(users.toSorted()).toEqual(["src/engine/transaction.ts", "src/store/nodes.ts"]);
});
