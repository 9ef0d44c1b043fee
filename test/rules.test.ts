/** The rules of docs/rules: each is held by a test whose title ends in its id. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { RULES } from "../docs/print/rule-data.ts";
import { ruleTests, ruleTestsIn } from "../docs/print/rule-tests.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const ALL = RULES.flatMap(({ rules }) => rules);
const HELD = ruleTests();

describe("rules", () => {
  test.each(ALL)("rule $id is in at least one test title", ({ id }) => {
    expect(HELD.filter(({ rules }) => rules.includes(id)).length).toBeGreaterThan(0);
  });

  test("rules have unique ids of the form R-000 or R-0000", () => {
    const ids = ALL.map(({ id }) => id);
    expect(ids.filter((id) => !/^R-\d{3,4}$/.test(id))).toEqual([]);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("each rule is written once", () => {
    expect(new Set(ALL.map(({ rule }) => rule)).size).toBe(ALL.length);
  });

  test("every rule in a test title exists", () => {
    const known = new Set(ALL.map(({ id }) => id));
    expect(HELD.filter(({ rules }) => rules.some((id) => !known.has(id)))).toEqual([]);
  });

  test("every mention of a rule in a test file is found", () => {
    const files = globSync("**/*.test.ts", { cwd: HERE }).filter((file) => file !== "rules.test.ts");
    const missed = files.filter((file) => {
      const mentions = readFileSync(join(HERE, file), "utf8").match(/\bR-\d{3,4}\b/g) ?? [];
      const held = HELD.filter((one) => one.file === `test/${file}`).flatMap(({ rules }) => rules);
      return mentions.length !== held.length;
    });
    expect(missed, "A rule is named in brackets at the end of a title: … [R-713].").toEqual([]);
  });

  test("rules are read from titles of tests, blocks and tables, in any quotes", () => {
    const held = (text: string) => ruleTestsIn("", text).map(({ title, rules }) => [title, ...rules]);
    // Composed, so that this file holds no rule with it.
    const [first, second] = [1, 2].map((n) => `R-00${n}`);
    expect(held(`test("it's plain [${first}]", () => {`)).toEqual([["it's plain", first]]);
    expect(held(`each(\n  'a "quoted" one [${first}, ${second}]',`)).toEqual([['a "quoted" one', first, second]]);
    expect(held(`describe(\`of \${count} nodes [${first}]\`, () => {`)).toEqual([["of ${count} nodes", first]]);
    expect(held(`test("without an id", () => {`)).toEqual([]);
  });
});

test("the state of a node is changed in one place [R-003]", () => {
  const files = globSync("src/**/*.ts", { cwd: join(HERE, "..") });
  const users = files.filter((file) => /\bchangeClaimedNodes\b/.test(readFileSync(join(HERE, "..", file), "utf8")));
  expect(users.toSorted()).toEqual(["src/engine/transaction.ts", "src/store/nodes/nodes.ts"]);
});
