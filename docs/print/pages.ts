/** All pages that are printed from code; each starts with a comment that names its sources. */
import { ARCHITECTURE_PAGE } from "./architecture.ts";
import { CLI_PAGE } from "./cli.ts";
import { CONFIGURATION_PAGE } from "./configuration.ts";
import { ERRORS_PAGE } from "./errors.ts";
import { LIFECYCLE_PAGE } from "./lifecycle.ts";
import type { Page } from "./markdown.ts";
import { rulePages } from "./rules.ts";
import { verbPages } from "./verb-pages.ts";

export interface PrintedPage {
  /** Path from `docs/`. */
  readonly file: string;
  readonly text: string;
}

const PAGES: readonly Page[] = [
  ARCHITECTURE_PAGE,
  LIFECYCLE_PAGE,
  ...verbPages(),
  ...rulePages(),
  ERRORS_PAGE,
  CONFIGURATION_PAGE,
  CLI_PAGE,
];

export function printedPages(): readonly PrintedPage[] {
  return PAGES.map(({ file, source, text }) => ({
    file,
    text: `<!-- Printed by \`npm run docs\` from ${source}. -->\n\n${text()}`,
  }));
}
