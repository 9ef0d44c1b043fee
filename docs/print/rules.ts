/** docs/rules.md: what users can rely on, rule by rule, and the tests that hold each. */
import { paragraphs, table } from "./markdown.ts";
import type { Page } from "./markdown.ts";
import { RULES } from "./rule-data.ts";

export const RULES_PAGE: Page = { file: "rules.md", source: "docs/print/rule-data.ts", text: rulesPage };

function rulesPage(): string {
  return paragraphs(
    "# Rules",
    "What can be relied on, and the tests that hold it: each names its file and its title. A rule whose test is gone or renamed fails `npm test`. Random work is besides held to the rules by `npm run races`, `npm run model` and `npm run kills`, for as long as one likes. The numbers are permanent; those of sections that are missing here belong to other pages.",
    ...RULES.flatMap(({ number, title, rules }) => [
      `## ${number}. ${title}`,
      table(
        ["", "rule", "held by"],
        rules.map(({ id, rule, tests }) => [id, rule, tests.map(linkOf).join("; ")]),
      ),
    ]),
  );
}

/** `file: title` as a link to the file. A title that is filled in for each case of a table is shown as it is written there. */
function linkOf(test: string): string {
  const [file = "", ...title] = test.split(": ");
  return `[${file}](../test/${file}.test.ts): “${title.join(": ").replaceAll("<", "&lt;")}”`;
}
