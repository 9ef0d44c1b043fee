/** The program that guards workers is used only where it works: another one of its name would start none of them. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { findGuard } from "../../src/drivers/isolation/parent-death-guard.ts";

const folder = mkdtempSync(join(tmpdir(), "ostler-guard-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A folder with a setpriv that does this. */
function setprivThat(does: string): string {
  const file = join(folder, "setpriv");
  writeFileSync(file, `#!/bin/sh\n${does}\n`);
  chmodSync(file, 0o755);
  return folder;
}

test("one that does what it is told is taken", () => {
  expect(findGuard(`/nowhere:${setprivThat('shift 3; exec "$@"')}`, "linux")).toEqual({
    words: [join(folder, "setpriv"), "--pdeathsig", "KILL", "--"],
  });
});

test("one that does not know the signal is left alone", () => {
  expect(findGuard(setprivThat('echo "unrecognized option: pdeathsig" >&2; exit 1'), "linux")).toEqual({
    problem: expect.stringContaining("does not support --pdeathsig"),
  });
});

test("none there, or no such system, is said", () => {
  expect(findGuard("/nowhere", "linux")).toEqual({ problem: expect.stringContaining("install util-linux") });
  expect(findGuard(setprivThat("exit 0"), "darwin")).toEqual({ problem: expect.stringContaining("parent-death") });
});
