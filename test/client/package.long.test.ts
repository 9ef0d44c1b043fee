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
  files = await installClient(folder, ["graphql-ws", "graphql", "@types/node", "undici-types"]);
});
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

test("the package contains the compiled client, its types, the schema and possible types, and nothing of the service", () => {
  const modules = [
    "change-map",
    "filter",
    "index",
    "items",
    "node-filter",
    "node-map",
    "node-state",
    "node-store",
    "position",
    "queue",
    "react",
    "session",
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

test("the package's types compile in a strict project and reflect the requested fields", async () => {
  const use = (line: string) => `
    import { createNodeMap, watchNodes, WatchError, type NodeState, type WatchItem } from "ostler-client";
    import { useNodes } from "ostler-client/react";
    export const stateOf = (uuid: string): NodeState | undefined =>
      useNodes({ url: "/graphql", filter: { states: ["ACTIVE"] }, throttleMs: 100 }).nodes.get(uuid)?.state;
    const map = createNodeMap();
    for await (const item of watchNodes<{ name: string; state: NodeState }, { actor: string }>({ url: "http://localhost/graphql", transitionFields: "actor", filter: { ids: [] } })) {
      map.apply(item);
      if (item.kind === "transition") ${line}
    }
    export const error: Error = new WatchError("GAP", "");
    export type All = WatchItem;
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
  expect(await check("console.log(item.transition.actor.length, item.node?.name.length);")).toBe("");
  expect(await check('if (item.transition.to === "DEPLOYNG") break;')).toContain("have no overlap");
  expect(await check("console.log(item.transition.reason);")).toContain("Property 'reason' does not exist");
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

test("the package follows a server across interruptions without gaps or duplicates", async () => {
  await using proxy = await cutter(ostler.url);
  const names = await ostler.register(10, { delayMs: 5, waitSeconds: 0.05 });
  writeFileSync(
    join(folder, "follow.mjs"),
    `import { watchNodes } from "ostler-client";
     for await (const item of watchNodes({ url: process.argv[2], firstPauseMs: 20, onBreak: ({ why }) => console.error(why) })) console.log(JSON.stringify(item));`,
  );
  const child = spawn(process.execPath, ["follow.mjs", `${proxy.url}/graphql`], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  try {
    let [interruptions, complete] = [0, ""];
    const received: string[] = [];
    const active = new Set<string>();
    createInterface({ input: child.stdout }).on("line", (line) => {
      const item = JSON.parse(line) as {
        kind: string;
        cursor: string;
        live?: boolean;
        transition?: { nodeName: string; to: string };
      };
      if (item.kind === "complete") complete = item.cursor;
      if (item.kind !== "transition") return;
      received.push(item.cursor);
      if (item.transition?.to === "ACTIVE") active.add(item.transition.nodeName);
      if (received.length % 9 === 0) interruptions += proxy.cut();
    });
    let breaks = "";
    child.stderr.on("data", (part: Buffer) => (breaks += part.toString()));
    await eventually("the package's watcher is subscribed", () => complete !== "" && ostler.listeners() === 1);
    await ostler.commission(names);
    await eventually("all nodes are reported ACTIVE", () => active.size === names.length);
    const log = await ostler.query<{ transitions: { edges: { node: { cursor: string } }[] } }>(
      "query Log($after: String!) { transitions(after: $after, first: 500) { edges { node { cursor } } } }",
      { after: complete },
    );
    expect(received).toEqual(log.transitions.edges.map(({ node }) => node.cursor).slice(0, received.length));
    expect(received.length).toBeGreaterThan(10 * 5);
    expect(interruptions).toBeGreaterThan(3);
    expect(breaks.trim().split("\n").length).toBeGreaterThan(3);
  } finally {
    child.kill();
  }
});

test("the README's program of streams of changes ended when a connection failed before it was open [R-634]", async () => {
  const readme = readFileSync(join(ROOT, "packages/client/README.md"), "utf8");
  const program = [...readme.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].find(([, text = ""]) =>
    text.includes("createChangeMap"),
  );
  await using proxy = await cutter(ostler.url, (count) => {
    // The first connection is cut later, and the one after it before it is open.
    if (count === 2) proxy.cut();
  });
  writeFileSync(
    join(folder, "work.ts"),
    `${(program?.[1] ?? "").replace("wss://ostler.example", proxy.url.replace("http", "ws"))}
     setInterval(() => console.log([...operations.objects.values()].map(({ id }) => id).join()), 50);`,
  );
  const child = spawn(process.execPath, ["work.ts"], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  try {
    let shown: readonly string[] = [];
    createInterface({ input: child.stdout }).on("line", (line) => (shown = line.split(",")));
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
