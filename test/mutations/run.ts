/**
 * `npm run tool -- mutations`: shows that `npm test` can fail. Applies each deliberate defect of list.ts to a copy of
 * the repository, runs the tests that should find it, then, if they pass, the whole fast tier, and prints the first
 * test that fails. A defect that no test finds is a missing test.
 *
 * Options: --only M01,M02; --related (does not run the whole fast tier). Ends `N passed, N failed`.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { messageOf } from "../../src/errors.ts";
import { check, prove } from "../support/proof.ts";
import { MUTATIONS } from "./list.ts";
import type { Mutation } from "./list.ts";

interface Report {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[];
  }[];
}

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const VITEST = "node_modules/vitest/vitest.mjs";

/** Copies what is tracked, or would be, and links the packages. */
function copyRepository(): string {
  const copy = mkdtempSync(join(tmpdir(), "ostler-mutations-"));
  const listed = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  for (const file of listed.split("\0").filter((name) => name !== "" && !name.startsWith("node_modules")))
    cpSync(join(ROOT, file), join(copy, file), { force: true });
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  return copy;
}

/** The source with the defect. Throws if the text to replace does not occur exactly once. */
export function mutated({ id, file, from, to }: Mutation, source: string): string {
  const count = source.split(from).length - 1;
  if (count !== 1) throw new Error(`${id}: ${file} has the text ${count} times, not once: ${from}`);
  return source.replace(from, () => to);
}

/** The first test that fails; null if all pass. */
function firstFailure(copy: string, files: readonly string[]): string | null {
  const report = join(copy, "mutation-report.json");
  rmSync(report, { force: true });
  const { status } = spawnSync(
    process.execPath,
    [VITEST, "run", "--project", "fast*", "--bail=1", "--reporter=json", `--outputFile.json=${report}`, ...files],
    { cwd: copy, stdio: "ignore" },
  );
  if (status === 0) return null;
  const { testResults } = JSON.parse(readFileSync(report, "utf8")) as Report;
  for (const { name, status: state, assertionResults } of testResults) {
    const title = assertionResults.find((one) => one.status === "failed")?.fullName;
    const file = name.slice(name.indexOf("test/"));
    if (title !== undefined) return `${file}: ${title}`;
    if (state === "failed") return `${file}: the file fails to load or to clean up`;
  }
  return "an unhandled error";
}

function finderOf(copy: string, mutation: Mutation, onlyRelated: boolean): string | null {
  const path = join(copy, mutation.file);
  const source = readFileSync(path, "utf8");
  writeFileSync(path, mutated(mutation, source));
  try {
    return firstFailure(copy, mutation.tests) ?? (onlyRelated ? null : firstFailure(copy, []));
  } finally {
    writeFileSync(path, source);
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { only: { type: "string" }, related: { type: "boolean", default: false } },
  });
  const ids = values.only?.split(",");
  const copy = copyRepository();
  process.once("exit", () => rmSync(copy, { recursive: true, force: true }));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));
  await prove(async () => {
    for (const mutation of MUTATIONS) {
      if (ids && !ids.includes(mutation.id)) continue;
      const began = performance.now();
      const title = `${mutation.id} ${mutation.breaks}`;
      try {
        const finder = finderOf(copy, mutation, values.related);
        const seconds = ((performance.now() - began) / 1_000).toFixed(0);
        check(title, finder !== null, `${seconds} s, ${finder ?? "no test fails"}`);
      } catch (error) {
        check(title, false, messageOf(error));
      }
    }
  });
}
