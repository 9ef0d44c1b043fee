/**
 * Which layer may import what, by the tables of docs/print/layer-data.ts. Reads every import of every file, of types as
 * well as of values, and names the imports that break a rule.
 */
import { existsSync, globSync, readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { LAYERS, PACKAGE_HOMES, PARTS } from "../docs/print/layer-data.ts";
import type { LayerRule } from "../docs/print/layer-data.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

interface Import {
  /** File that imports, as in `src/engine/execution/call/perform-step.ts`. */
  readonly from: string;
  /** File that is imported, a package's name, or `node:fs`. */
  readonly to: string;
  readonly typeOnly: boolean;
}

const FILES = globSync(["src/**/*.ts", "plugins/**/*.ts", "packages/**/*.{ts,tsx}"], {
  cwd: ROOT,
  exclude: ["**/node_modules/**"],
}).toSorted();
const IMPORTS = FILES.flatMap(importsOf);

describe("architecture", () => {
  test("the architecture test reads the imports of all files", () => {
    expect(IMPORTS.length).toBeGreaterThan(100);
    expect(IMPORTS).toContainEqual({ from: "src/store/tables.ts", to: "drizzle-orm", typeOnly: false });
    expect(IMPORTS).toContainEqual({
      from: "src/engine/engine.ts",
      to: "src/engine/context.ts",
      typeOnly: true,
    });
    expect(IMPORTS).toContainEqual({ from: "src/store/nodes/nodes.ts", to: "src/store/tables.ts", typeOnly: false });
  });

  test("every directory has an architecture rule", () => {
    const unknown = FILES.filter((file) => file.split("/").length > 2 && ruleOf(file) === undefined);
    expect(unknown).toEqual([]);
  });

  test.each(Object.entries(LAYERS))("no file of %s has an import that its rule forbids", (layer, rule) => {
    const offences = IMPORTS.filter(({ from, to }) => isIn(from, layer) && !isIn(to, layer)).filter(
      (one) => !isAllowed(one, rule),
    );
    expect(offences.map(({ from, to, typeOnly }) => `${from} imports ${to}${typeOnly ? " (types)" : ""}`)).toEqual([]);
  });

  test.each(Object.entries(PARTS))("%s imports nothing from a part above it in its layer", (part, { imports }) => {
    const layer = part.split("/").slice(0, 2).join("/");
    const offences = IMPORTS.filter(({ from, to }) => isIn(from, part) && isIn(to, layer) && !isIn(to, part)).filter(
      ({ to }) => !imports.some((one) => isIn(to, one)),
    );
    expect(offences.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
  });

  test("every file of a divided layer is in one of its parts", () => {
    const facades = ["src/engine/engine.ts", "src/engine/views.ts"];
    const loose = FILES.filter((file) => /^src\/(engine|graphql)\//.test(file) && !facades.includes(file)).filter(
      (file) => !Object.keys(PARTS).some((part) => isIn(file, part)),
    );
    expect(loose).toEqual([]);
  });

  test("no plugin imports another plugin", () => {
    const shared = ["bmc-settings", "lazy-schema", "private-folder", "program-on-path"].map(
      (name) => `plugins/${name}.ts`,
    );
    const offences = IMPORTS.filter(
      ({ from, to }) =>
        isIn(from, "plugins") && isIn(to, "plugins") && from.split("/")[1] !== to.split("/")[1] && !shared.includes(to),
    );
    expect(offences.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
  });

  test("a worker loads neither schemas nor the registry of drivers, which only the service needs [R-653]", () => {
    const loaded = new Set(["src/drivers/isolation/worker.ts", "src/drivers/egress.ts"]);
    for (const file of loaded)
      for (const { from, to, typeOnly } of IMPORTS) if (from === file && !typeOnly) loaded.add(to);
    expect(loaded).toContain("src/drivers/interfaces.ts");
    expect([...loaded].filter((one) => !isBuiltin(one) && !one.startsWith("src/"))).toEqual([]);
    expect(loaded).not.toContain("src/drivers/registry.ts");
    expect(loaded).not.toContain("src/drivers/settings-shape.ts");
  });

  test.each(Object.entries(PACKAGE_HOMES))("the package %s is imported by %s only", (name, home) => {
    const importers = IMPORTS.filter(({ to }) => to === name).map(({ from }) => from);
    expect(importers.length).toBeGreaterThan(0);
    expect(importers.filter((from) => !isIn(from, home))).toEqual([]);
  });

  test("every imported file exists", () => {
    expect(
      IMPORTS.filter(({ to }) => /\.tsx?$/.test(to) && !existsSync(join(ROOT, to))).map(
        ({ from, to }) => `${from} imports ${to}`,
      ),
    ).toEqual([]);
  });

  test("there is no import cycle", () => {
    expect(cycles(IMPORTS)).toEqual([]);
  });

  test("an import cycle is reported with its files", () => {
    const round = [
      { from: "a.ts", to: "b.ts" },
      { from: "b.ts", to: "c.ts" },
      { from: "c.ts", to: "b.ts" },
    ].map((one) => ({ ...one, typeOnly: true }));
    expect(cycles(round)).toEqual(["b.ts → c.ts → b.ts"]);
  });
});

function ruleOf(file: string): LayerRule | undefined {
  const layer = Object.keys(LAYERS).find((name) => isIn(file, name));
  return layer === undefined ? undefined : LAYERS[layer];
}

/** True for the path itself and for files below it. */
function isIn(file: string, path: string): boolean {
  return file === path || file.startsWith(`${path}/`);
}

function isAllowed({ to, typeOnly }: Import, rule: LayerRule): boolean {
  if (to.startsWith("node:")) return rule.node === true;
  if (!/\.tsx?$/.test(to))
    return (
      rule.packages === "any" ||
      (rule.packages ?? []).some((name) => (name.endsWith("/*") ? to.startsWith(name.slice(0, -1)) : to === name))
    );
  const open = [...(rule.layers ?? []), ...(rule.files ?? []), ...(typeOnly ? (rule.types ?? []) : [])];
  return open.some((path) => isIn(to, path));
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(ROOT, file), "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
  const statements = text.matchAll(/^(?:import|export)\s+(type\s)?(?:[\w*{][^;"']*?\sfrom\s+)?["']([^"']+)["']/gm);
  const dynamic = text.matchAll(/\bimport\(\s*["']([^"']+)["']\s*\)/g);
  return [
    ...[...statements].map(([, type, to = ""]) => ({ from: file, to: target(file, to), typeOnly: type !== undefined })),
    ...[...dynamic].map(([, to = ""]) => ({ from: file, to: target(file, to), typeOnly: false })),
  ];
}

/** A path from the repository root, the name of a package without its subpath, or a module of Node. */
function target(file: string, specifier: string): string {
  if (specifier.startsWith(".")) return relative(ROOT, join(ROOT, dirname(file), specifier));
  if (isBuiltin(specifier)) return specifier.startsWith("node:") ? specifier : `node:${specifier}`;
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/** Every cycle once, starting at its alphabetically first file. */
function cycles(imports: readonly Import[]): string[] {
  const next = new Map<string, string[]>();
  for (const { from, to } of imports) next.set(from, [...(next.get(from) ?? []), to]);
  const found = new Set<string>();
  const done = new Set<string>();
  const visit = (file: string, way: readonly string[]) => {
    const at = way.indexOf(file);
    if (at >= 0) {
      const cycle = way.slice(at);
      const first = cycle.indexOf(cycle.toSorted()[0] ?? "");
      const turned = [...cycle.slice(first), ...cycle.slice(0, first)];
      found.add([...turned, turned[0]].join(" → "));
      return;
    }
    if (done.has(file)) return;
    for (const to of next.get(file) ?? []) visit(to, [...way, file]);
    done.add(file);
  };
  for (const file of [...next.keys()].toSorted()) visit(file, []);
  return [...found].toSorted();
}
