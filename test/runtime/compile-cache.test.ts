/** The folder for compiled code: only this user can write to it, and a killed process has kept what it compiled. */
import { spawnSync } from "node:child_process";
import { chmodSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { compileFolder } from "../../src/runtime/compile-cache.ts";

const before = process.env["TMPDIR"];
let temporary = "";
let base = "";

beforeEach(() => {
  temporary = mkdtempSync(join(tmpdir(), "compile-cache-"));
  base = join(temporary, `ostler-compiled-${process.getuid?.() ?? 0}`);
  process.env["TMPDIR"] = temporary;
});

afterEach(() => {
  if (before === undefined) delete process.env["TMPDIR"];
  else process.env["TMPDIR"] = before;
  rmSync(temporary, { recursive: true, force: true });
});

describe("folder for compiled code", () => {
  test("the folder for compiled code is made for this user alone, and found again", () => {
    const folder = compileFolder("service");
    expect(folder).toBe(join(base, "service"));
    expect(lstatSync(base).mode & 0o777).toBe(0o700);
    expect(compileFolder("service")).toBe(folder);
  });

  test("compiled code is kept in the cache folder of the unit, where it outlives a stop", () => {
    process.env["CACHE_DIRECTORY"] = join(temporary, "cache");
    const folder = compileFolder("service");
    delete process.env["CACHE_DIRECTORY"];
    expect(folder).toBe(join(temporary, "cache", basename(base), "service"));
  });

  test("a folder for compiled code that others can write to is not used", () => {
    mkdirSync(base);
    chmodSync(base, 0o777);
    expect(compileFolder("service")).toBeNull();
  });

  test("a link in the place of the folder for compiled code is not followed", () => {
    const elsewhere = join(temporary, "elsewhere");
    mkdirSync(elsewhere, { mode: 0o700 });
    symlinkSync(elsewhere, base);
    expect(compileFolder("service")).toBeNull();
    expect(readdirSync(elsewhere)).toEqual([]);
  });

  test("a process that is killed after its start has kept its compiled modules", () => {
    const path = (file: string) => fileURLToPath(new URL(`../../src/${file}`, import.meta.url));
    const { NODE_COMPILE_CACHE: _, NODE_DISABLE_COMPILE_CACHE: __, ...environment } = process.env;
    const { signal } = spawnSync(
      process.execPath,
      [
        "--input-type=module",
        "--eval",
        `const { cacheCompiledModules, keepCompiledModules } = await import(${JSON.stringify(path("runtime/compile-cache.ts"))});
         cacheCompiledModules();
         await import(${JSON.stringify(path("errors.ts"))});
         keepCompiledModules();
         process.kill(process.pid, "SIGKILL");`,
      ],
      { env: environment },
    );
    expect(signal).toBe("SIGKILL");
    expect(
      readdirSync(join(base, "service"), { recursive: true, withFileTypes: true }).some((entry) => entry.isFile()),
    ).toBe(true);
  });
});
