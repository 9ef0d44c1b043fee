/** docs/configuration.md: every variable and flag. */
import { VARIABLES } from "../../src/config/variables.ts";
import { code, paragraphs, table } from "./markdown.ts";
import type { Page } from "./markdown.ts";

export const CONFIGURATION_PAGE: Page = {
  file: "configuration.md",
  source: "src/config/variables.ts",
  text: configurationPage,
};

function configurationPage(): string {
  return paragraphs(
    "# Configuration",
    "This page is for operators: it lists every setting of the service. Set them as environment variables or as flags (`npm start -- --port 4001`); a flag takes precedence. The service checks all settings before it starts, refuses unknown variables that begin with `OSTLER_`, and logs its configuration at startup without secrets.",
    table(
      ["variable", "flag", "default", "meaning"],
      Object.entries(VARIABLES).map(([name, { flag, fallback = "", help }]) => [
        code(name),
        code(`--${flag}`),
        fallback === "" ? "–" : code(fallback),
        help,
      ]),
    ),
    "`--demo` registers the demonstration fleet if there are no nodes yet. It has no variable.",
  );
}
