/**
 * docs/rules: what users can rely on, rule by rule, and the tests that hold each. A page for each section of
 * rule-data.ts, and an index.
 */
import { paragraphs, table } from "./markdown.ts";
import type { Page } from "./markdown.ts";
import { RULES } from "./rule-data.ts";
import type { RuleSection } from "./rule-data.ts";
import { ruleTests } from "./rule-tests.ts";
import type { RuleTest } from "./rule-tests.ts";

const SOURCE = "docs/print/rule-data.ts";

export function rulePages(): readonly Page[] {
  const tests = ruleTests();
  return [
    { file: "rules/README.md", source: SOURCE, text: indexPage },
    ...RULES.map((section): Page => ({
      file: `rules/${fileOf(section)}`,
      source: `${SOURCE} and the titles of the tests`,
      text: () => sectionPage(section, tests),
    })),
  ];
}

/** Name of the page of a section. */
function fileOf({ title }: RuleSection): string {
  return `${title.toLowerCase().replaceAll(/\W+/g, "-")}.md`;
}

function indexPage(): string {
  return paragraphs(
    "# Rules",
    "What operators, client developers and driver authors can rely on, and the tests that hold each rule. A test holds a rule if its title ends in the rule's id, as in `… [R-057]`; `npm test` fails for a rule without a test. The tools `races`, `model` and `kills` (`npm run tool`) check random work against the same rules, for as long as you let them run. Ids are permanent, so that they may be quoted: a number that is missing belongs to no rule, and is not given again.",
    table(
      ["section", "rules"],
      RULES.map((section) => [`[${section.title}](${fileOf(section)})`, String(section.rules.length)]),
    ),
  );
}

function sectionPage({ title, rules }: RuleSection, tests: readonly RuleTest[]): string {
  return paragraphs(
    `# Rules: ${title}`,
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
  );
}

/** The title of a table of tests keeps its parameters, such as `$name`. */
function linkOf({ file, title }: RuleTest): string {
  const name = file.replace(/^test\//, "").replace(/\.test\.ts$/, "");
  return `[${name}](../../${file}): “${title.replaceAll("<", "&lt;")}”`;
}
