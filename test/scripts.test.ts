/** Scripts of package.json, and tools of tool.ts: every command that a text of the repository names exists. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { TOOLS } from "../tool.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SCRIPTS_MAX = 16;
/** npm runs these before others. */
const HOOKS = ["postinstall", "prepare", "predemo", "predev", "prestart"];
/** This file names commands that do not exist. */
const HERE = "test/scripts.test.ts";
const FILES = globSync(
  [
    "{.ci,bench,docs,drizzle,examples,packages,plugins,src,test}/**/*.{ts,tsx,js,mjs,md,json,go,py,sh}",
    ".ci/run",
    "*.{ts,md,json}",
  ],
  { cwd: ROOT, exclude: ["**/node_modules/**", "test/clients/projects/**", HERE] },
);
/** Pages about a package that has scripts of its own. */
const ABOUT: Readonly<Record<string, string>> = { "docs/drivers.md": "packages/driver/template" };

const COMMAND = /\bnpm run (?:-s )?(?:tool -- (?<tool>[\w:-]*\w)|(?<script>[\w:-]*\w))/g;

/** Commands in a text, also where a line of a comment ends within them. */
function commandsIn(text: string): readonly { readonly tool?: string; readonly script?: string }[] {
  return [...text.replaceAll(/\n\s*(?:\*|\/\/)? ?/g, " ").matchAll(COMMAND)].map(({ groups }) => ({ ...groups }));
}

function scripts(folder: string): Readonly<Record<string, string>> {
  const read = JSON.parse(readFileSync(join(ROOT, folder, "package.json"), "utf8")) as {
    readonly scripts?: Readonly<Record<string, string>>;
  };
  return read.scripts ?? {};
}

/** Of the package that a file is in, or is about, and of the repository. */
function scriptsFor(file: string): readonly string[] {
  let folder = ABOUT[file] ?? dirname(file);
  while (!existsSync(join(ROOT, folder, "package.json"))) folder = dirname(folder);
  return [...Object.keys(scripts(".")), ...Object.keys(scripts(folder))];
}

/** The command of the script `tool`, without npm and the shell, which take a second. */
const TOOL = ["--disable-warning=ExperimentalWarning", "tool.ts"];
const run = (...args: readonly string[]) =>
  spawnSync(process.execPath, [...TOOL, ...args], { cwd: ROOT, encoding: "utf8" });

test("the example for front ends has the packages of the repository, so that it needs no installation of its own", () => {
  const packagesOf = (folder: string) => {
    const { dependencies, devDependencies } = JSON.parse(readFileSync(join(ROOT, folder, "package.json"), "utf8")) as {
      readonly dependencies: Readonly<Record<string, string>>;
      readonly devDependencies: Readonly<Record<string, string>>;
    };
    return { ...dependencies, ...devDependencies };
  };
  expect(packagesOf(".")).toMatchObject(packagesOf("examples/fleet-table"));
});

describe("scripts and tools", () => {
  test("every script and every tool that a text names exists", () => {
    const commands = FILES.flatMap((file) =>
      commandsIn(readFileSync(join(ROOT, file), "utf8")).map((command) => ({ file, ...command })),
    );
    expect(commands.length).toBeGreaterThan(100);
    const unknown = commands.filter(({ file, tool, script }) =>
      tool === undefined ? !scriptsFor(file).includes(script ?? "") : !Object.hasOwn(TOOLS, tool),
    );
    expect(unknown).toEqual([]);
  });

  test("commands are found in prose and code, and across lines of comments", () => {
    expect(commandsIn("`npm run tool -- a-b --c`, npm run\n * tool -- d; `npm run -s e:f`. // npm run tool")).toEqual([
      { tool: "a-b" },
      { tool: "d" },
      { script: "e:f" },
      { script: "tool" },
    ]);
  });

  test("package.json has few scripts, and every tool is a program", () => {
    const commands = Object.keys(scripts(".")).filter((name) => !HOOKS.includes(name));
    expect(commands.length).toBeLessThanOrEqual(SCRIPTS_MAX);
    expect(Object.values(TOOLS).filter(({ command: [file = ""] }) => !existsSync(join(ROOT, file)))).toEqual([]);
  });

  test("without a name, all tools are listed with their help", () => {
    const { stdout, status } = run();
    expect(status).toBe(0);
    for (const [name, { help }] of Object.entries(TOOLS)) expect(stdout).toMatch(new RegExp(`^${name} +${help}$`, "m"));
  });

  test.each([
    ["power-cut", "There is no tool power-cut. Did you mean power-cuts?\n"],
    ["constructor", "There is no tool constructor. `npm run tool` lists them.\n"],
  ])("the unknown tool %s is refused", (name, message) => {
    expect(run(name)).toMatchObject({ status: 2, stdout: "", stderr: message });
  });

  test("a tool gets its arguments, and its exit code is that of the script", () => {
    expect(run("bmc", "--no-such-option")).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("--no-such-option"),
    });
    expect(scripts(".")["tool"]).toBe(["exec node", ...TOOL].join(" "));
  });

  test("a signal ends the tool itself, as no process is between", async () => {
    const child = spawn(process.execPath, [...TOOL, "bmc", "--count", "1"], {
      cwd: ROOT,
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(child.stdout, "data");
    expect(readFileSync(`/proc/${child.pid}/cmdline`, "utf8")).toContain("packages/bmc-simulator/src/main.ts");
    child.kill("SIGTERM");
    await once(child, "exit");
  });
});
