/** Runs the commands of docs/contiv-session.md and docs/fuel-story.md with a shell, and checks where they lead. */
import { execFile } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { PROGRAM } from "./cli/run-cli.ts";
import { serviceUnderTest } from "./support/service.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const ostler = await serviceUnderTest();
const folder = mkdtempSync(join(tmpdir(), "ostler-stories-"));
writeFileSync(join(folder, "ostler"), `#!/bin/sh\nexec '${process.execPath}' '${PROGRAM}' "$@"\n`);
chmodSync(join(folder, "ostler"), 0o755);
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

/** Each block of commands of a page; ends at the first command that fails. */
async function runPage(name: string): Promise<void> {
  const page = readFileSync(join(ROOT, "docs", name), "utf8");
  for (const [, commands = ""] of page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)) await run(commands);
}

async function run(commands: string): Promise<string> {
  const env = { ...process.env, PATH: `${folder}${delimiter}${process.env["PATH"]}`, HOME: folder };
  const { stdout } = await promisify(execFile)("sh", ["-e", "-c", commands], {
    env: { ...env, OSTLER_URL: ostler.url },
  });
  return stdout;
}

async function statesIn(cluster: string) {
  const found = await ostler.query<{
    cluster: { state: string; pendingChanges: { count: number }; nodes: { nodes: { name: string; state: string }[] } };
  }>(
    `{ cluster(by: { name: "${cluster}" }) { state pendingChanges { count } nodes(first: 9) { nodes { name state } } } }`,
  );
  const { state, pendingChanges, nodes } = found.cluster;
  const nodeStates = Object.fromEntries(nodes.nodes.map((node) => [node.name, node.state]));
  return { state, pending: pendingChanges.count, nodeStates };
}

test("contiv's session ends with one master and three workers, and the last master cannot leave", async () => {
  await runPage("contiv-session.md");
  const expected = { m1: "ACTIVE", m2: "DECOMMISSIONED", w1: "ACTIVE", w2: "ACTIVE", w3: "ACTIVE" };
  expect((await statesIn("prod")).nodeStates).toEqual(expected);
  await expect(run("ostler nodes decommission m1 --yes")).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining("LAST_OF_GROUP"),
  });
  expect((await statesIn("prod")).nodeStates).toEqual(expected);
});

test("Fuel's story ends with an operational cluster that has the changed variable", async () => {
  const names = await ostler.register(["n1", "n2", "n3", "n4", "n5"], {});
  await runPage("fuel-story.md");
  const nodeStates = Object.fromEntries(names.map((name) => [name, "ACTIVE"]));
  expect(await statesIn("berlin")).toEqual({ state: "OPERATIONAL", pending: 0, nodeStates });
  expect(JSON.parse(await run("ostler clusters vars get berlin --json"))).toMatchObject({ ntp: "10.0.0.2" });
});
