import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";

const MODULE = new URL("../../src/runtime/core-dumps.ts", import.meta.url).href;
const FILTER = "/proc/self/coredump_filter";
const PROGRAM = `
const { omitMemoryFromCoreDumps } = await import(${JSON.stringify(MODULE)});
const { execFileSync } = await import("node:child_process");
const { readFileSync } = await import("node:fs");
const read = () => [readFileSync("${FILTER}", "utf8"), execFileSync("cat", ["${FILTER}"], { encoding: "utf8" })];
const before = read();
const omitted = omitMemoryFromCoreDumps();
console.log(JSON.stringify({ before, omitted, after: read() }));
`;

test("core dumps of the service and of the programs that it starts contain no memory [R-680]", () => {
  // Not inherited from the process that runs this test.
  const shell = `echo 0x33 > ${FILTER} && exec "$@"`;
  const words = ["-c", shell, "sh", process.execPath, "--input-type=module", "-e", PROGRAM];
  const printed = JSON.parse(execFileSync("sh", words, { encoding: "utf8" })) as unknown;
  expect(printed).toEqual({
    before: ["00000033\n", "00000033\n"],
    omitted: true,
    after: ["00000000\n", "00000000\n"],
  });
});
