/** docs/cli.md: the commands that work with a running service. */
import { readFileSync } from "node:fs";
import { COMMANDS } from "../../packages/cli/src/commands.ts";
import { fence, paragraphs, table } from "./markdown.ts";
import type { Page } from "./markdown.ts";

/** Of a command with its arguments. */
const WIDTH = 49;
const TEMPLATE = "docs/templates/cli.md";

export const CLI_PAGE: Page = {
  file: "cli.md",
  source: `packages/cli/src/commands.ts, packages/cli/src/verbs.ts and ${TEMPLATE}`,
  text: cliPage,
};

/** Words of contiv's clusterctl. */
const CLUSTERCTL = [
  ["`nodes get [names]`", "`nodes get [NODES]`, which skips unknown names too"],
  ["`nodes commission --extra-vars J --host-group G names`", "`nodes commission -e J -g G NODES`"],
  ["`nodes decommission`, `nodes maintenance` (an upgrade)", "`nodes decommission`, `nodes redeploy`"],
  ["`discover addresses`", "`discover ADDRESS… --driver …`"],
  ["`global get`, `global set`", "`site get`, `site set`; variables with `clusters vars set`"],
];

function cliPage(): string {
  const commands = COMMANDS.filter(({ path }) => !path.startsWith("plan "));
  return paragraphs(
    "# The command line",
    readFileSync(new URL(`../../${TEMPLATE}`, import.meta.url), "utf8").trimEnd(),
    "## Commands",
    "`--help` of each command has its flags and an example. `ostler plan VERB …` takes those of the verb, and changes nothing.",
    fence(
      "text",
      commands
        .map(({ path, args = [], summary }) => `${[path, ...args].join(" ").padEnd(WIDTH)}  ${summary}`)
        .join("\n"),
    ),
    "## For users of clusterctl",
    "[contiv's session](contiv-session.md) uses these:",
    table(["clusterctl", "ostler"], CLUSTERCTL),
  );
}
