/** docs/architecture.md: docs/templates/architecture.md with the tables of layers and parts filled in. */
import { readFileSync } from "node:fs";
import { LAYERS, PARTS } from "./layer-data.ts";
import type { LayerRule } from "./layer-data.ts";
import { code, codes, table } from "./markdown.ts";
import type { Page } from "./markdown.ts";

export const ARCHITECTURE_PAGE: Page = {
  file: "architecture.md",
  source: "docs/templates/architecture.md and docs/print/layer-data.ts",
  text: () =>
    readFileSync(new URL("../templates/architecture.md", import.meta.url), "utf8")
      .replace("{{layers}}", layerTable)
      .replace("{{parts}}", partTable),
};

function layerTable(): string {
  return table(
    ["layer", "for", "may import"],
    Object.entries(LAYERS).map(([layer, rule]) => [code(layer), rule.purpose, importsOf(rule)]),
  );
}

function importsOf({ layers = [], files = [], types = [], packages = [] }: LayerRule): string {
  const parts = [
    ...[...layers, ...files].map(code),
    ...types.map((path) => `${code(path)} (types)`),
    ...(packages === "any" ? ["any package"] : packages.map(code)),
  ];
  return parts.length > 0 ? parts.join(", ") : "–";
}

function partTable(): string {
  return table(
    ["part", "for", "may import"],
    Object.entries(PARTS).map(([part, { purpose, imports }]) => [code(part), purpose, codes(imports) || "–"]),
  );
}
