/**
 * The plan of the house: which room may import what. Reads every import of every file, of types as well as of values,
 * and names who breaks a rule. A room that needs more says so here first, in a change of its own.
 */
import { existsSync, globSync, readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const HOUSE = fileURLToPath(new URL("..", import.meta.url));

interface Import {
  /** File that imports, as in `src/engine/execution/perform-step.ts`. */
  readonly from: string;
  /** File that is imported, a package's name, or `node:fs`. */
  readonly to: string;
  readonly typeOnly: boolean;
}

interface Rule {
  /** Rooms of which it may import everything, beside itself. */
  readonly rooms?: readonly string[];
  /** Single files of other rooms. */
  readonly files?: readonly string[];
  /** Rooms or files of which it may import types. */
  readonly types?: readonly string[];
  readonly packages?: readonly string[] | "any";
  readonly node?: true;
}

const GRAPHQL = [
  "@pothos/*",
  "graphql",
  "graphql-yoga",
  "graphql-ws",
  "@graphql-yoga/*",
  "@graphql-tools/*",
  "dataloader",
  "zod",
];

const RULES: Readonly<Record<string, Rule>> = {
  "src/runtime": { node: true },
  "src/errors.ts": { node: true },
  "src/log.ts": { node: true, packages: ["pino"] },
  "src/observer.ts": {},
  "src/config.ts": { node: true, files: ["src/errors.ts", "src/log.ts"] },
  "src/lifecycle": { types: ["src/errors.ts"] },
  "src/drivers": {
    rooms: ["src/runtime"],
    files: ["src/errors.ts", "src/log.ts"],
    packages: ["@standard-schema/spec"],
    node: true,
  },
  plugins: { types: ["src/drivers/driver.ts"], packages: "any", node: true },
  "src/store": {
    rooms: ["src/lifecycle", "src/runtime"],
    types: ["src/errors.ts"],
    packages: ["drizzle-orm", "postgres"],
    node: true,
  },
  "src/feed": {
    rooms: ["src/store", "src/runtime"],
    files: ["src/errors.ts", "src/log.ts", "src/observer.ts"],
    node: true,
  },
  "src/engine": {
    rooms: ["src/lifecycle", "src/drivers", "src/store", "src/runtime"],
    files: ["src/errors.ts", "src/log.ts", "src/observer.ts"],
    packages: ["pg-boss"],
    node: true,
  },
  // Told of everything, and known to nobody but the composition root.
  "src/telemetry": {
    rooms: ["src/store", "src/runtime"],
    files: ["src/errors.ts", "src/log.ts", "src/observer.ts"],
    types: ["src/engine/engine.ts"],
    packages: [
      "@prometheus-io/client",
      "@opentelemetry/api",
      "@opentelemetry/context-async-hooks",
      "@opentelemetry/core",
      "@opentelemetry/exporter-trace-otlp-http",
      "@opentelemetry/resources",
      "@opentelemetry/sdk-trace",
    ],
    node: true,
  },
  // Published, for browsers too.
  "src/client": { packages: ["graphql-ws"] },
  "src/access": { files: ["src/errors.ts"], node: true },
  "src/graphql": {
    rooms: ["src/lifecycle", "src/store", "src/feed", "src/access", "src/runtime"],
    files: [
      "src/engine/engine.ts",
      "src/drivers/load.ts",
      "src/drivers/registry.ts",
      "src/drivers/settings-shape.ts",
      "src/errors.ts",
    ],
    types: ["src/engine", "src/drivers/driver.ts", "src/log.ts", "src/observer.ts"],
    packages: GRAPHQL,
    node: true,
  },
  "src/commands": {
    rooms: ["src/engine", "src/store", "src/drivers", "src/graphql"],
    files: ["src/app.ts", "src/config.ts", "src/errors.ts", "src/log.ts"],
    node: true,
  },
  "src/http": {
    rooms: ["src/graphql", "src/access", "src/runtime"],
    files: ["src/engine/engine.ts", "src/config.ts", "src/errors.ts", "src/log.ts", "src/observer.ts"],
    types: ["src/store/records.ts"],
    packages: ["graphql", "graphql-yoga", "graphql-ws", "@graphql-yoga/*", "ws"],
    node: true,
  },
};

/** Within a layer: which other parts of it a part may import. A part without a line here imports none. */
const INNER: Readonly<Record<string, readonly string[]>> = {
  "src/store/postgres": [],
  "src/graphql/base": [],
  "src/graphql/execution": ["src/graphql/base"],
  "src/graphql/schema": ["src/graphql/base", "src/graphql/execution"],
  "src/graphql/tools": ["src/graphql/base", "src/graphql/schema"],
  "src/engine/transaction.ts": [],
  "src/engine/input": [],
  "src/engine/plans": ["src/engine/input"],
  "src/engine/jobs": ["src/engine/transaction.ts"],
  "src/engine/scheduling": ["src/engine/input", "src/engine/plans", "src/engine/jobs", "src/engine/transaction.ts"],
  "src/engine/admission": [
    "src/engine/input",
    "src/engine/plans",
    "src/engine/scheduling",
    "src/engine/transaction.ts",
  ],
  "src/engine/execution": [
    "src/engine/input",
    "src/engine/plans",
    "src/engine/jobs",
    "src/engine/scheduling",
    "src/engine/transaction.ts",
  ],
  "src/engine/interruption": [
    "src/engine/input",
    "src/engine/plans",
    "src/engine/scheduling",
    "src/engine/transaction.ts",
  ],
  "src/engine/inventory": [
    "src/engine/input",
    "src/engine/plans",
    "src/engine/jobs",
    "src/engine/scheduling",
    "src/engine/transaction.ts",
  ],
  "src/engine/discovery": [
    "src/engine/input",
    "src/engine/jobs",
    "src/engine/admission",
    "src/engine/execution",
    "src/engine/inventory",
    "src/engine/transaction.ts",
  ],
  "src/engine/power": ["src/engine/input", "src/engine/execution", "src/engine/transaction.ts"],
};

/** Packages that may be imported in one place only. */
const PACKAGE_HOMES: Readonly<Record<string, string>> = {
  "pg-boss": "src/engine/jobs/queue.ts",
  "drizzle-orm": "src/store",
  postgres: "src/store",
};

const FILES = globSync(["src/**/*.ts", "plugins/**/*.ts"], { cwd: HOUSE }).toSorted();
const IMPORTS = FILES.flatMap(importsOf);

describe("the house", () => {
  test("is read at all", () => {
    expect(IMPORTS.length).toBeGreaterThan(100);
    expect(IMPORTS).toContainEqual({ from: "src/engine/jobs/queue.ts", to: "pg-boss", typeOnly: false });
    expect(IMPORTS).toContainEqual({
      from: "src/engine/engine.ts",
      to: "src/engine/admission/admit.ts",
      typeOnly: true,
    });
    expect(IMPORTS).toContainEqual({ from: "src/store/nodes.ts", to: "src/store/tables.ts", typeOnly: false });
  });

  test("has only rooms that the plan knows", () => {
    const unknown = FILES.filter((file) => file.split("/").length > 2 && ruleOf(file) === undefined);
    expect(unknown).toEqual([]);
  });

  test.each(Object.entries(RULES))("%s imports no more than it may", (room, rule) => {
    const offences = IMPORTS.filter(({ from, to }) => isIn(from, room) && !isIn(to, room)).filter(
      (one) => !isAllowed(one, rule),
    );
    expect(offences.map(({ from, to, typeOnly }) => `${from} imports ${to}${typeOnly ? " (types)" : ""}`)).toEqual([]);
  });

  test.each(Object.entries(INNER))("%s imports only the parts of its layer that are below it", (part, allowed) => {
    const layer = part.split("/").slice(0, 2).join("/");
    const offences = IMPORTS.filter(({ from, to }) => isIn(from, part) && isIn(to, layer) && !isIn(to, part)).filter(
      ({ to }) => !allowed.some((one) => isIn(to, one)),
    );
    expect(offences.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
  });

  test("every file of a divided layer stands in one of its parts", () => {
    const faces = ["src/engine/engine.ts"];
    const loose = FILES.filter((file) => /^src\/(engine|graphql)\//.test(file) && !faces.includes(file)).filter(
      (file) => !Object.keys(INNER).some((part) => isIn(file, part)),
    );
    expect(loose).toEqual([]);
  });

  test("a plugin imports nothing of another plugin", () => {
    const offences = IMPORTS.filter(
      ({ from, to }) => isIn(from, "plugins") && isIn(to, "plugins") && from.split("/")[1] !== to.split("/")[1],
    );
    expect(offences.map(({ from, to }) => `${from} imports ${to}`)).toEqual([]);
  });

  test.each(Object.entries(PACKAGE_HOMES))("%s is imported in %s alone", (name, home) => {
    const importers = IMPORTS.filter(({ to }) => to === name).map(({ from }) => from);
    expect(importers.length).toBeGreaterThan(0);
    expect(importers.filter((from) => !isIn(from, home))).toEqual([]);
  });

  test("every file that is imported is there", () => {
    expect(
      IMPORTS.filter(({ to }) => to.endsWith(".ts") && !existsSync(join(HOUSE, to))).map(
        ({ from, to }) => `${from} imports ${to}`,
      ),
    ).toEqual([]);
  });

  test("no import leads back to where it came from", () => {
    expect(cycles(IMPORTS.filter(({ from }) => from.startsWith("src/")))).toEqual([]);
  });

  test("a cycle would be found, and named", () => {
    const round = [
      { from: "a.ts", to: "b.ts" },
      { from: "b.ts", to: "c.ts" },
      { from: "c.ts", to: "b.ts" },
    ].map((one) => ({ ...one, typeOnly: true }));
    expect(cycles(round)).toEqual(["b.ts → c.ts → b.ts"]);
  });
});

function ruleOf(file: string): Rule | undefined {
  const room = Object.keys(RULES).find((name) => isIn(file, name));
  return room === undefined ? undefined : RULES[room];
}

/** Whether a file is a room, or in it. */
function isIn(file: string, room: string): boolean {
  return file === room || file.startsWith(`${room}/`);
}

function isAllowed({ to, typeOnly }: Import, rule: Rule): boolean {
  if (to.startsWith("node:")) return rule.node === true;
  if (!to.endsWith(".ts"))
    return (
      rule.packages === "any" ||
      (rule.packages ?? []).some((name) => (name.endsWith("/*") ? to.startsWith(name.slice(0, -1)) : to === name))
    );
  const open = [...(rule.rooms ?? []), ...(rule.files ?? []), ...(typeOnly ? (rule.types ?? []) : [])];
  return open.some((room) => isIn(to, room));
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(HOUSE, file), "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
  const statements = text.matchAll(/^(?:import|export)\s+(type\s)?(?:[\w*{][^;"']*?\sfrom\s+)?["']([^"']+)["']/gm);
  const dynamic = text.matchAll(/\bimport\(\s*["']([^"']+)["']\s*\)/g);
  return [
    ...[...statements].map(([, type, to = ""]) => ({ from: file, to: target(file, to), typeOnly: type !== undefined })),
    ...[...dynamic].map(([, to = ""]) => ({ from: file, to: target(file, to), typeOnly: false })),
  ];
}

/** A path from the house's root, the name of a package without what is inside it, or a module of Node. */
function target(file: string, specifier: string): string {
  if (specifier.startsWith(".")) return relative(HOUSE, join(HOUSE, dirname(file), specifier));
  if (isBuiltin(specifier)) return specifier.startsWith("node:") ? specifier : `node:${specifier}`;
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/** Every cycle, once, from its first file in the order of the alphabet. */
function cycles(imports: readonly Import[]): string[] {
  const next = new Map<string, string[]>();
  for (const { from, to } of imports) next.set(from, [...(next.get(from) ?? []), to]);
  const found = new Set<string>();
  const done = new Set<string>();
  const visit = (file: string, way: readonly string[]) => {
    const at = way.indexOf(file);
    if (at >= 0) {
      const ring = way.slice(at);
      const first = ring.indexOf(ring.toSorted()[0] ?? "");
      const turned = [...ring.slice(first), ...ring.slice(0, first)];
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
