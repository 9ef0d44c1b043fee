/** Runs the programs of docs/clients.md against the service, unchanged, and checks their output. */
import { execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cutter } from "./support/cutter.ts";
import { eventually } from "./support/eventually.ts";
import { installClient } from "./support/packed-client.ts";
import { serviceUnderTest } from "./support/service.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TOKEN = "a token for the page";
const page = readFileSync(join(ROOT, "docs/clients.md"), "utf8");
const blocks = [...page.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language = "", text = ""]) => ({
  language,
  text,
  file: /^(?:\/\/|#) (\S+\.\w+)\n/.exec(text)?.[1],
}));
const programs = blocks.flatMap(({ text, file }) => (file === undefined ? [] : [{ file, text }]));

const ostler = await serviceUnderTest({ token: TOKEN });
const folder = mkdtempSync(join(tmpdir(), "ostler-page-"));
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

/** A language and how to run its programs. Without the tool, its tests are skipped with that reason. */
interface Language {
  readonly name: string;
  readonly tool: readonly [string, ...string[]];
  readonly commands: Readonly<Record<"list" | "commission" | "follow", readonly [string, ...string[]]>>;
}

const GO = join(folder, "go/example");
const LANGUAGES: readonly Language[] = [
  {
    name: "TypeScript",
    tool: [process.execPath, "--version"],
    commands: {
      list: [process.execPath, "list.ts"],
      commission: [process.execPath, "commission.ts"],
      follow: [process.execPath, "follow.ts"],
    },
  },
  {
    name: "Python",
    tool: ["python3", "--version"],
    commands: {
      list: ["python3", "list.py"],
      commission: ["python3", "commission.py"],
      follow: ["python3", "follow.py"],
    },
  },
  {
    name: "Go",
    tool: ["go", "version"],
    commands: { list: [GO, "list"], commission: [GO, "commission"], follow: [GO, "follow"] },
  },
];

const isHere = ([command, ...args]: readonly [string, ...string[]]) =>
  spawnSync(command, args, { stdio: "ignore" }).status === 0;
const environment = (url = ostler.url) => ({ ...process.env, OSTLER_URL: `${url}/graphql`, OSTLER_TOKEN: TOKEN });

async function output([command, ...args]: readonly [string, ...string[]], ...more: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(command, [...args, ...more], { cwd: folder, env: environment() });
  return stdout;
}

const CUTS_IN_SNAPSHOT = 5;
const NAMES = Array.from({ length: 105 }, (_, index) => `berlin-${String(index + 1).padStart(2, "0")}`).toSorted();

beforeAll(async () => {
  await ostler.register(NAMES, { delayMs: 5, waitSeconds: 0.05 });
  await ostler.query(
    'mutation Found($names: [String!]!) { createCluster(input: { name: "berlin", nodes: { names: $names } }) { errors { message } } }',
    { names: NAMES },
  );
  await installClient(folder, ["graphql-ws", "graphql", "@types/node", "undici-types"]);
  for (const { file, text } of programs) {
    const path = join(folder, file.endsWith(".go") ? "go" : ".", file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  if (isHere(["go", "version"])) {
    writeFileSync(join(folder, "go/go.mod"), "module example\n\ngo 1.18\n");
    await promisify(execFile)("go", ["build", "-o", GO, "."], {
      cwd: join(folder, "go"),
      env: { ...process.env, GOFLAGS: "", GOTOOLCHAIN: "local", GOCACHE: join(folder, "cache") },
    });
  }
}, 120_000);

test("docs/clients.md has exactly the programs that this test runs", () => {
  expect(programs.map(({ file }) => file)).toEqual([
    "list.sh",
    "commission.sh",
    "ask.ts",
    "list.ts",
    "commission.ts",
    "follow.ts",
    "same-schema.ts",
    "ostler.py",
    "list.py",
    "commission.py",
    "follow.py",
    "follow_httpx.py",
    "ostler.go",
    "main.go",
  ]);
});

describe.each(LANGUAGES)("the client page in $name", ({ tool, commands }) => {
  const node = NAMES[LANGUAGES.findIndex((language) => language.commands === commands) + 1] ?? "";

  test("the program of docs/clients.md reads a list to its end", async ({ skip }) => {
    if (!isHere(tool)) skip(`${tool[0]} is not installed`);
    expect(
      (await output(commands.list))
        .trim()
        .split("\n")
        .map((line) => line.split(" ")[0]),
    ).toEqual(NAMES);
  });

  test("the program of docs/clients.md requests a verb, waits for its end, and prints a refusal with its details", async ({
    skip,
  }) => {
    if (!isHere(tool)) skip(`${tool[0]} is not installed`);
    expect(await output(commands.commission, node, "missing")).toMatch(/^(not there:|NOT_FOUND) .*missing/);
    expect(await output(commands.commission, node)).toMatch(/ended SUCCEEDED\n$/);
    expect(await output(commands.commission, node)).toMatch(new RegExp(`^(${node} must be|INVALID_STATE) .*AVAILABLE`));
  });

  test("the program of docs/clients.md follows transitions across connection losses, each exactly once", async ({
    skip,
  }) => {
    if (!isHere(tool)) skip(`${tool[0]} is not installed`);
    await using way = await cutter(ostler.url);
    const [command, ...args] = commands.follow;
    const child = spawn(command, args, { cwd: folder, env: environment(way.url), stdio: ["ignore", "pipe", "ignore"] });
    try {
      const lines: string[] = [];
      let cuts = 0;
      createInterface({ input: child.stdout }).on("line", (line) => {
        lines.push(line);
        // A snapshot begins again after each cut, so it may never end if the cuts do not.
        const mayCut = cuts < CUTS_IN_SNAPSHOT || lines.some((one) => / as of \d+/.test(one));
        if (lines.length % 15 === 0 && mayCut) cuts += way.cut();
      });
      const end = await eventually("the program has printed its snapshot", () =>
        lines.find((line) => / as of \d+/.test(line)),
      );
      const start = Number(/ as of (\d+)/.exec(end)?.[1]);
      const first = lines.indexOf(end) + 1;
      const names = await ostler.register(4, { delayMs: 5, waitSeconds: 0.05 });
      await ostler.commission(names);
      await eventually("the program has printed all transitions to ACTIVE", () =>
        names.every((name) => lines.some((line) => new RegExp(`^[\\w-]+ ${name} \\w+ -> ACTIVE$`).test(line))),
      );
      expect(lines.slice(first).map((line) => Number.parseInt(line, 10))).toEqual(
        lines.slice(first).map((_, index) => start + index + 1),
      );
      expect(cuts).toBeGreaterThan(0);
    } finally {
      child.kill();
    }
  });
});

test("follow.py ends with the reader of its output", async ({ skip }) => {
  if (!isHere(["python3", "--version"])) skip("python3 is not installed");
  const follow = spawn("python3", ["follow.py"], {
    cwd: folder,
    env: environment(ostler.url),
    stdio: ["ignore", "pipe", "ignore"],
  });
  const ended = once(follow, "exit");
  await once(follow.stdout, "data");
  follow.stdout.destroy();
  await ostler.register(1);
  expect(await ended).toEqual([0, null]);
});

test("the httpx program of docs/clients.md follows transitions across connection losses", async ({ skip }) => {
  const python = ["python3", "/usr/bin/python3"].find((path) => isHere([path, "-c", "import httpx"]));
  if (python === undefined) return skip("httpx is not installed");
  await using way = await cutter(ostler.url);
  const child = spawn(python, ["follow_httpx.py"], {
    cwd: folder,
    env: environment(way.url),
    stdio: ["ignore", "pipe", "ignore"],
  });
  try {
    const lines: string[] = [];
    createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
    const begin = await eventually("the program follows", () => lines[0]);
    const [one = ""] = await ostler.register(1);
    await eventually("the first node is printed", () => lines.some((line) => line.includes(one)));
    expect(way.cut()).toBeGreaterThan(0);
    const [other = ""] = await ostler.register(1);
    await eventually("the second node is printed", () => lines.some((line) => line.includes(other)));
    const start = Number(/after (\d+)/.exec(begin)?.[1]);
    expect(lines.slice(1).map((line) => Number.parseInt(line, 10))).toEqual([start + 1, start + 2]);
  } finally {
    child.kill();
  }
});

describe("the client page with curl", () => {
  const CURL = ["curl", "--version"] as const;

  test("the curl command of docs/clients.md reads a page", async ({ skip }) => {
    if (!isHere(CURL)) skip("curl is not installed");
    const { data } = JSON.parse(await output(["sh", "list.sh"])) as {
      data: { nodes: { edges: { node: { name: string } }[]; pageInfo: { hasNextPage: boolean } } };
    };
    expect(data.nodes.edges.map((edge) => edge.node.name)).toEqual(NAMES.slice(0, 2));
    expect(data.nodes.pageInfo.hasNextPage).toBe(true);
  });

  test("the curl command of docs/clients.md requests a verb and waits; repeated with its key it returns the same operation", async ({
    skip,
  }) => {
    if (!isHere(CURL)) skip("curl is not installed");
    const [first, again] = [await output(["sh", "commission.sh"]), await output(["sh", "commission.sh"])];
    expect(first).toContain('"state":"SUCCEEDED"');
    expect(first).toMatch(/"finishedAt":"[^\n]*\n$/);
    const uuid = /"uuid":"([^"]+)"/;
    expect(uuid.exec(again)?.[1]).toBe(uuid.exec(first)?.[1]);
  });
});

describe("the schema of the client page", () => {
  test("the schema of docs/clients.md has a hash, and requests that are invalid against another schema are found", async () => {
    const served = await (
      await fetch(`${ostler.url}/schema.graphql`, { headers: { authorization: `Bearer ${TOKEN}` } })
    ).text();
    const { service } = await ostler.query<{ service: { schemaHash: string } }>("{ service { schemaHash } }");
    expect(service.schemaHash).toBe(createHash("sha256").update(served).digest("hex").slice(0, 16));
    writeFileSync(join(folder, "served.graphql"), served);
    writeFileSync(join(folder, "older.graphql"), served.replace("type Query {", "type Query {\n  old: Int"));
    const check = (file: string) =>
      output([process.execPath, "same-schema.ts"], file, "{ old }", "{ viewer { subject } }");
    expect(await check("served.graphql")).toBe("[]\n");
    expect(await check("older.graphql")).toContain('Cannot query field "old" on type "Query".');
  });

  test("docs/clients.md has the generator settings that other tests use", () => {
    const [codegen, editor] = blocks
      .filter(({ language }) => language === "json")
      .map(({ text }) => JSON.parse(text) as { schema: string });
    expect(codegen).toEqual(JSON.parse(readFileSync(join(ROOT, "test/clients/projects/codegen/codegen.json"), "utf8")));
    expect(editor?.schema).toBe("node_modules/ostler-client/schema.graphql");
    expect(existsSync(join(folder, editor?.schema ?? ""))).toBe(true);
    const tada = blocks.find(({ text }) => text.includes("initGraphQLTada"))?.text ?? "none";
    expect(readFileSync(join(ROOT, "test/clients/projects/tada/graphql.ts"), "utf8")).toContain(tada);
    const { customScalarTypes } = JSON.parse(
      readFileSync(join(ROOT, "test/clients/projects/relay/relay.config.json"), "utf8"),
    ) as { customScalarTypes: object };
    expect(page).toContain(
      `"customScalarTypes": ${JSON.stringify(customScalarTypes)
        .replaceAll(/([{:,])/g, "$1 ")
        .replace("}", " }")}`,
    );
    // The formatter breaks the line in the program.
    const cache =
      "new InMemoryCache({ possibleTypes, typePolicies: { Subscription: { fields: { nodeTransitions: { merge: false } } } } })";
    const apollo = readFileSync(join(ROOT, "test/clients/apollo.ts"), "utf8");
    expect(apollo.replaceAll(/\s+/g, " ").replaceAll(", })", " })")).toContain(cache);
    expect(page).toContain(cache);
  });
});

test("the TypeScript programs of docs/clients.md compile with the strictest options", async () => {
  const files = programs.flatMap(({ file }) => (file.endsWith(".ts") ? [file] : []));
  const options = [
    "--noEmit",
    "--strict",
    "--exactOptionalPropertyTypes",
    "--noUncheckedIndexedAccess",
    "--noPropertyAccessFromIndexSignature",
    "--module",
    "nodenext",
    "--target",
    "es2024",
    "--lib",
    "es2024",
    "--types",
    "node",
    "--allowImportingTsExtensions",
  ];
  const errors = await promisify(execFile)(
    process.execPath,
    [join(ROOT, "node_modules/typescript/bin/tsc"), ...options, ...files],
    { cwd: folder },
  ).then(
    () => "",
    ({ stdout }: { stdout: string }) => stdout,
  );
  expect(errors).toBe("");
});
