/**
 * The package `ostler-client`, packed and installed: its contents, its types, and that it follows a server across
 * interruptions.
 */
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cutter } from "../support/cutter.ts";
import { eventually } from "../support/eventually.ts";
import { installClient } from "../support/packed-client.ts";
import { serviceUnderTest } from "../support/service.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const ostler = await serviceUnderTest();
const folder = mkdtempSync(join(tmpdir(), "ostler-client-"));
let files: string[] = [];
beforeAll(async () => {
  files = await installClient(folder, [
    "graphql-ws",
    "graphql",
    "@graphql-typed-document-node/core",
    "@types/node",
    "undici-types",
  ]);
});
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

test("the package contains the compiled client, its types, the schema and possible types, and nothing of the service", () => {
  const modules = [
    "change-map",
    "connection",
    "documents",
    "errors",
    "filter-language",
    "follow-changes",
    "follow-log",
    "index",
    "nearest",
    "node-filter",
    "node-state",
    "react",
    "store",
    "stream",
    "watch-nodes",
  ];
  expect(files).toEqual(
    [
      "LICENSE",
      "README.md",
      "package.json",
      "possibleTypes.json",
      "schema.graphql",
      ...modules.flatMap((module) => [`dist/${module}.d.ts`, `dist/${module}.js`]),
    ].toSorted(),
  );
  for (const file of ["schema.graphql", "possibleTypes.json"])
    expect(readFileSync(join(folder, "node_modules/ostler-client", file), "utf8")).toBe(
      readFileSync(join(ROOT, file), "utf8"),
    );
  const versionIn = (path: string) =>
    (JSON.parse(readFileSync(join(ROOT, path), "utf8")) as { version: string }).version;
  expect(versionIn("packages/client/package.json")).toBe(versionIn("package.json"));
});

test("the package's types compile in a strict project and are those of the documents", async () => {
  const use = (line: string) => `
    import type { TypedDocumentNode } from "@graphql-typed-document-node/core";
    import { connect, followChanges, watchNodes, WatchError, type NodeState, type WatchItem } from "ostler-client";
    import { useChanges, useNodes } from "ostler-client/react";
    declare const ROW: TypedDocumentNode<{ name: string; state: NodeState }, unknown>;
    declare const RUNS: TypedDocumentNode<
      { runChanges: { __typename: "RunUpserted"; cursor: string; run: { id: string; progress: number } } | { __typename: "StreamBookmark"; cursor: string } },
      { operation: string; after?: string | null; snapshot: boolean }
    >;
    declare const COUNTS: TypedDocumentNode<{ nodeCountChanges: { totalCount: number } }, { filter?: object | null }>;
    const connection = connect({ url: "http://localhost/graphql", token: async () => "" });
    export const stateOf = (id: string): NodeState | undefined =>
      useNodes(connection, ROW, { filter: { states: ["ACTIVE"] } }).items.get(id)?.state;
    export const total = (): number | undefined => useChanges(connection, COUNTS, {}).value?.totalCount;
    export const runs = followChanges(connection, RUNS, { operation: "x" }, { throttleMs: 100 });
    for await (const item of watchNodes(connection, ROW, { filter: { ids: [] } })) {
      if (item.kind === "node") ${line}
    }
    export const error: Error = new WatchError("");
    export type All = WatchItem<{ name: string }>;
  `;
  const check = async (line: string) => {
    writeFileSync(join(folder, "use.mts"), use(line));
    const tsc = promisify(execFile)(
      process.execPath,
      [
        join(ROOT, "node_modules/typescript/bin/tsc"),
        "--noEmit",
        "--strict",
        "--module",
        "nodenext",
        "--target",
        "es2022",
        "--lib",
        "es2022",
        "--types",
        "node",
        "use.mts",
      ],
      { cwd: folder },
    );
    return tsc.then(
      () => "",
      ({ stdout }: { stdout: string }) => stdout,
    );
  };
  expect(
    await check("console.log(item.node.name.length, runs.getSnapshot().items.get('x')?.progress.toFixed());"),
  ).toBe("");
  expect(await check('if (item.node.state === "DEPLOYNG") break;')).toContain("have no overlap");
  expect(await check("console.log(item.node.reason);")).toContain("Property 'reason' does not exist");
  expect(await check("followChanges(connection, RUNS, {});")).toContain("Property 'operation' is missing");
});

test("the package exports its schema and possible types", async () => {
  writeFileSync(
    join(folder, "read.mjs"),
    `import { readFileSync } from "node:fs";
     import possibleTypes from "ostler-client/possibleTypes.json" with { type: "json" };
     const schema = readFileSync(new URL(import.meta.resolve("ostler-client/schema.graphql")), "utf8");
     console.log(schema.includes("type Mutation"), possibleTypes.NodeStreamItem.join());`,
  );
  const { stdout } = await promisify(execFile)(process.execPath, ["read.mjs"], { cwd: folder });
  expect(stdout).toBe("true NodeSnapshot,StreamBookmark,StreamReset,Transition\n");
});

/** Programs of the README, without the address of their example. */
const programs = [
  ...readFileSync(join(ROOT, "packages/client/README.md"), "utf8").matchAll(/^```ts\n([\s\S]*?)^```$/gm),
];
const program = (name: string, url: string) =>
  (programs.find(([, text = ""]) => text.includes(name))?.[1] ?? "").replace("https://ostler.example", url);

test("the package follows nodes across interruptions, as its README does [R-793]", async () => {
  await using proxy = await cutter(ostler.url);
  const names = await ostler.register(10, { delayMs: 5, waitSeconds: 0.05 });
  writeFileSync(
    join(folder, "follow.ts"),
    program("watchNodes", proxy.url)
      .replace("() => freshToken()", '""')
      .replace(/filter: .*? \}\)/, "})"),
  );
  const child = spawn(process.execPath, ["follow.ts"], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  try {
    let [interruptions, lines] = [0, 0];
    const states = new Map<string, string>();
    createInterface({ input: child.stdout }).on("line", (line) => {
      const [name = "", state = ""] = line.split(" ");
      states.set(name, state);
      if ((lines += 1) % 9 === 0) interruptions += proxy.cut();
    });
    await eventually("the program shows all nodes", () => states.size === names.length);
    await ostler.commission(names);
    await eventually("all nodes are reported ACTIVE", () => names.every((name) => states.get(name) === "ACTIVE"));
    expect(interruptions).toBeGreaterThan(2);
  } finally {
    child.kill();
  }
});

test("the README's program of an operation goes on after a connection that failed before it was open [R-634]", async () => {
  await using proxy = await cutter(ostler.url, (count) => {
    // The first connection is cut later, and the one after it before it is open.
    if (count === 2) proxy.cut();
  });
  writeFileSync(join(folder, "work.ts"), program("followChanges", proxy.url));
  const child = spawn(process.execPath, ["work.ts"], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  try {
    let shown: readonly string[] = [];
    createInterface({ input: child.stdout }).on("line", (line) => (shown = line.split(" ")));
    const [before = "", after = ""] = await ostler.register(["before-cut", "after-cut"], { waitSeconds: 3_600 });
    const begin = async (name: string) => {
      const { commissionNodes } = await ostler.query<{ commissionNodes: { operation: { id: string } } }>(
        "mutation Begin($name: String!) { commissionNodes(input: { nodes: { names: [$name] } }) { operation { id } } }",
        { name },
      );
      return commissionNodes.operation.id;
    };
    const first = await begin(before);
    await eventually("the program shows an operation", () => shown.includes(first));
    expect(proxy.cut()).toBe(1);
    const second = await begin(after);
    await eventually("the program shows the next operation", () => shown.includes(second), 30_000);
    expect(shown).toContain(first);
  } finally {
    child.kill();
  }
});
