/** The program that guards workers is used only if it works: another program of that name would start none of them. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { findGuard } from "../../src/drivers/isolation/parent-death-guard.ts";

const folder = mkdtempSync(join(tmpdir(), "ostler-guard-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A folder with a setpriv that does this. */
function aSetpriv(does: string): string {
  const file = join(folder, "setpriv");
  writeFileSync(file, `#!/bin/sh\n${does}\n`);
  chmodSync(file, 0o755);
  return folder;
}

test("guard: a setpriv that supports the signal is used", () => {
  expect(findGuard(`/nowhere:${aSetpriv('shift 3; exec "$@"')}`, "linux")).toEqual({
    words: [join(folder, "setpriv"), "--pdeathsig", "KILL", "--"],
  });
});

test("guard: a setpriv that does not know the signal is not used", () => {
  expect(findGuard(aSetpriv('echo "unrecognized option: pdeathsig" >&2; exit 1'), "linux")).toEqual({
    problem: expect.stringContaining("does not support --pdeathsig"),
  });
});

test("guard: a missing setpriv and an unsupported system are reported", () => {
  expect(findGuard("/nowhere", "linux")).toEqual({ problem: expect.stringContaining("install util-linux") });
  expect(findGuard(aSetpriv("exit 0"), "darwin")).toEqual({ problem: expect.stringContaining("parent-death") });
});
