/** docs/architecture.md: docs/templates/architecture.md with the tables of layers and parts filled in. */
import { readFileSync } from "node:fs";
import { LAYERS, PARTS } from "./layer-data.ts";
import { meanings } from "./markdown.ts";
import type { Page } from "./markdown.ts";

export const ARCHITECTURE_PAGE: Page = {
  file: "architecture.md",
  source: "docs/templates/architecture.md and docs/print/layer-data.ts",
  text: () =>
    readFileSync(new URL("../templates/architecture.md", import.meta.url), "utf8")
      .replace("{{layers}}", () => purposes("layer", LAYERS))
      .replace("{{parts}}", () => purposes("part", PARTS)),
};

function purposes(what: string, rules: Readonly<Record<string, { readonly purpose: string }>>): string {
  return meanings(what, Object.fromEntries(Object.entries(rules).map(([name, { purpose }]) => [name, purpose])));
}
