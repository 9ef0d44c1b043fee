/** docs/configuration.md: every variable and flag. */
import { VARIABLES } from "../../src/config.ts";
import { code, paragraphs, table } from "./markdown.ts";
import type { Page } from "./markdown.ts";

export const CONFIGURATION_PAGE: Page = { file: "configuration.md", source: "src/config.ts", text: configurationPage };

function configurationPage(): string {
  return paragraphs(
    "# Configuration",
    "From the environment, or the same as flags (`npm start -- --port 4001`); a flag wins. Everything is checked before anything starts, and a variable that begins with `OSTLER_` and is not listed here is refused. The configuration is logged at the start, without its secrets.",
    table(
      ["variable", "flag", "default", "meaning"],
      Object.entries(VARIABLES).map(([name, { flag, fallback, help }]) => [
        code(name),
        code(`--${flag}`),
        fallback === "" ? "–" : code(fallback),
        help,
      ]),
    ),
    "`--demo` registers the demonstration fleet where there are no nodes yet. It has no variable.",
  );
}
