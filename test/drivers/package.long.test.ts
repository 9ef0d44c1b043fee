/**
 * The package `ostler-driver`, packed and installed: a driver made from its template passes, and the service loads it.
 */
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadPlugins } from "../../src/drivers/load.ts";
import { createLog } from "../../src/log.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), "ostler-driver-"));
const project = join(folder, "pdu");
const command = join(folder, "node_modules/ostler-driver/dist/packages/driver/src/main.js");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

beforeAll(async () => {
  const workshop = join(folder, "workshop");
  for (const path of ["packages/driver", "src", "package.json", "tsconfig.json", "LICENSE"])
    cpSync(join(ROOT, path), join(workshop, path), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(workshop, "node_modules"));
  await run("npm", ["pack", "--pack-destination", folder], { cwd: join(workshop, "packages/driver") });
  const tarball = readdirSync(folder).find((name) => name.endsWith(".tgz")) ?? "";
  const installed = join(folder, "node_modules/ostler-driver");
  mkdirSync(installed, { recursive: true });
  await run("tar", ["-xzf", join(folder, tarball), "--strip-components=1", "-C", installed]);
  for (const name of ["@standard-schema/spec", "zod", "typescript", "@types/node", "undici-types"]) {
    const link = join(folder, "node_modules", name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", name), link);
  }
  await run(process.execPath, [command, "new", project]);
  await run(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", project]);
}, 120_000);

test("a driver made from the template passes its own tests against the simulated machine [R-433]", async () => {
  const { stdout } = await run(process.execPath, [
    "--test",
    "--test-reporter=tap",
    join(project, "test/driver.test.js"),
  ]);
  expect(stdout).toMatch(/^# pass 3\d$/m);
  expect(stdout).toMatch(/^# fail 0$/m);
}, 120_000);

test("ostler-driver check prints a certificate, and fails with the reason for a driver that breaks the contract [R-433]", async () => {
  const settings = join(project, "settings.example.json");
  const module = join(project, "dist/index.js");
  const { stdout } = await run(process.execPath, [command, "check", module, "--settings", settings, "--json"]);
  expect(JSON.parse(stdout)).toMatchObject({ driver: "pdu", contract: 2, live: false, failed: 0 });
  const broken = join(project, "dist/broken.js");
  writeFileSync(broken, readFileSync(module, "utf8").replace('name: "pdu"', 'name: "P D U"'));
  const failure: unknown = await run(process.execPath, [command, "check", broken, "--settings", settings]).catch(
    (error: unknown) => error,
  );
  expect(failure).toMatchObject({ code: 1 });
  expect(failure).toMatchObject({ stdout: expect.stringMatching(/FAIL {2}has a name.*\n.*"P D U" is invalid/) });
}, 120_000);

test("the service loads the driver by the path of its folder [R-431]", async () => {
  await using registry = await loadPlugins([project], createLog("silent"));
  expect(registry.drivers.map(({ name }) => name)).toEqual(["pdu"]);
});
