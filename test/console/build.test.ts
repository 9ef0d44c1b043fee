/** The build of the console: it never breaks what follows it, and never leaves half a page. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const LEFT_OUT = /node_modules|\/dist$|\/\.build-|build-error|screenshots|\/check$/;

const checkouts: string[] = [];
afterAll(() => checkouts.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

/** The sources of the console in a checkout of their own. */
function checkout({ isInstalled }: { readonly isInstalled: boolean }): string {
  const folder = mkdtempSync(join(tmpdir(), "ostler-build-"));
  checkouts.push(folder);
  for (const path of ["packages/console", "packages/client/src", "package-lock.json"])
    cpSync(join(ROOT, path), join(folder, path), { recursive: true, filter: (source) => !LEFT_OUT.test(source) });
  if (isInstalled) symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return folder;
}

async function build(folder: string, ...args: readonly string[]) {
  // As in the shell of a developer.
  const env = { ...process.env, NODE_ENV: "development" };
  const child = spawn(process.execPath, [join(folder, "packages/console/build.ts"), ...args], { cwd: folder, env });
  const [errors, [code]] = await Promise.all([text(child.stderr), once(child, "close") as Promise<[number]>]);
  return { code, errors };
}

const inConsole = (folder: string, path: string) => join(folder, "packages/console", path);
const page = (folder: string) => readFileSync(inConsole(folder, "dist/index.html"), "utf8");

test("a checkout without the packages is installed and started all the same, and the reason is kept [R-1173]", async () => {
  const folder = checkout({ isInstalled: false });
  const soft = await build(folder, "--if-changed");
  expect(soft.code).toBe(0);
  expect(soft.errors).toContain("its packages are not installed");
  expect(soft.errors).toContain("npm run console:build");
  expect(readFileSync(inConsole(folder, "build-error.txt"), "utf8")).toContain("its packages are not installed");
  expect((await build(folder)).code).toBe(1);
  expect(existsSync(inConsole(folder, "dist"))).toBe(false);
  expect(readdirSync(inConsole(folder, ".")).filter((name) => name.startsWith(".build-"))).toEqual([]);
});

test("the last good build stays when the sources do not compile, and is replaced when they do [R-1173]", async () => {
  const folder = checkout({ isInstalled: true });
  // Two at the same time, as two services on one checkout.
  expect(await Promise.all([build(folder, "--if-changed"), build(folder, "--if-changed")])).toEqual([
    { code: 0, errors: "" },
    { code: 0, errors: "" },
  ]);
  const good = page(folder);
  const assets = readdirSync(inConsole(folder, "dist/assets"));
  const [script] = /assets\/[\w-]+\.js/.exec(good) ?? [""];
  expect(assets.map((name) => `assets/${name}`)).toEqual(
    expect.arrayContaining([script, `${script}.br`, `${script}.gz`]),
  );
  expect(assets.length).toBe(6);
  expect(readFileSync(inConsole(folder, `dist/${script}`), "utf8")).not.toContain("Each child in a list should have");
  expect(good).not.toMatch(/<script(?! type="module" crossorigin src="\/console\/)|<style/);

  const builtAt = statSync(inConsole(folder, "dist/index.html")).mtimeMs;
  expect(await build(folder, "--if-changed")).toEqual({ code: 0, errors: "" });
  expect(statSync(inConsole(folder, "dist/index.html")).mtimeMs).toBe(builtAt);

  const source = inConsole(folder, "src/main.tsx");
  const main = readFileSync(source, "utf8");
  writeFileSync(source, `${main}\nconst = ;\n`);
  const broken = await build(folder, "--if-changed");
  expect(broken.code).toBe(0);
  expect(broken.errors).toContain("The console of the last good build stays.");
  expect(broken.errors).not.toContain(folder);
  expect(page(folder)).toBe(good);
  expect(existsSync(inConsole(folder, `dist/${script}`))).toBe(true);

  writeFileSync(source, `${main}\ndocument.title = "another";\n`);
  expect((await build(folder, "--if-changed")).code).toBe(0);
  expect(page(folder)).not.toBe(good);
  expect(existsSync(inConsole(folder, "build-error.txt"))).toBe(false);
  expect(existsSync(inConsole(folder, `dist/${script}`))).toBe(false);
}, 120_000);

test("a folder that cannot be written breaks nothing [R-1173]", async () => {
  const folder = checkout({ isInstalled: true });
  writeFileSync(join(folder, "file"), "");
  const { code, errors } = await build(folder, "--if-changed", "--out", join(folder, "file/dist"));
  expect(code).toBe(0);
  expect(errors).toContain("The console was not built: ENOTDIR");
});
