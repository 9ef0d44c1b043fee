/** docs/rules.md: what users can rely on, rule by rule, and the tests that hold each. */
import { paragraphs, table } from "./markdown.ts";
import type { Page } from "./markdown.ts";
import { RULES } from "./rule-data.ts";
import { ruleTests } from "./rule-tests.ts";
import type { RuleTest } from "./rule-tests.ts";

export const RULES_PAGE: Page = { file: "rules.md", source: "docs/print/rule-data.ts", text: rulesPage };

function rulesPage(): string {
  const tests = ruleTests();
  return paragraphs(
    "# Rules",
    "What operators, client developers and driver authors can rely on, and the tests that hold each rule. A test holds a rule if its title ends in the rule's id, as in `… [R-057]`; `npm test` fails for a rule without a test. The tools `races`, `model` and `kills` (`npm run tool`) check random work against the same rules, for as long as you let them run. Ids are permanent, so that they may be quoted: a number that is missing belongs to no rule, and is not given again.",
    ...RULES.flatMap(({ title, rules }) => [
      `## ${title}`,
      table(
        ["id", "rule", "held by"],
        rules.map(({ id, rule }) => [
          id,
          rule,
          tests
            .filter((test) => test.rules.includes(id))
            .map(linkOf)
            .join("; "),
        ]),
      ),
    ]),
  );
}

/** The title of a table of tests keeps its parameters, such as `$name`. */
function linkOf({ file, title }: RuleTest): string {
  const name = file.replace(/^test\//, "").replace(/\.test\.ts$/, "");
  return `[${name}](../${file}): “${title.replaceAll("<", "&lt;")}”`;
}
