/** The package `ostler-cli`: one program, which runs without any other package. */
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), "ostler-cli-package-"));
const ostler = await serviceUnderTest();
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

test("npm pack makes one program without dependencies, of at most 150 kB, which lists nodes", async () => {
  const cwd = fileURLToPath(new URL("../../packages/cli", import.meta.url));
  await run("npm", ["pack", "--silent", "--pack-destination", folder], { cwd });
  const archive = join(folder, "ostler-cli-0.1.0.tgz");
  await run("tar", ["xzf", archive], { cwd: folder });
  expect(statSync(join(folder, "package/dist/ostler.js")).size).toBeLessThan(150_000);
  const { stdout: list } = await run("tar", ["tzf", archive]);
  expect(list.trim().split("\n").toSorted()).toEqual([
    "package/LICENSE",
    "package/README.md",
    "package/dist/licenses.json",
    "package/dist/ostler.js",
    "package/package.json",
  ]);
  expect(JSON.parse(readFileSync(join(folder, "package/package.json"), "utf8"))).not.toHaveProperty("dependencies");
  const [name = ""] = await ostler.register(1, {});
  const { stdout } = await run(
    process.execPath,
    [join(folder, "package/dist/ostler.js"), "nodes", "get", "--output", "names"],
    {
      env: { HOME: folder, OSTLER_URL: ostler.url },
    },
  );
  expect(stdout).toBe(`${name}\n`);
});
