/** Pure parts of the command line: ranges, selections, values of flags, and texts for terminals. */
import { execFileSync } from "node:child_process";
import { closeSync, constants, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { COMMANDS } from "../../packages/cli/src/commands.ts";
import { CliError } from "../../packages/cli/src/exit.ts";
import { expandRange } from "../../packages/cli/src/ranges.ts";
import { readInput, readSelection } from "../../packages/cli/src/selection.ts";
import { safe, safeJson, table } from "../../packages/cli/src/text.ts";
import { extraVariables, share } from "../../packages/cli/src/values.ts";
import { commandWords, NODE_VERBS as CLI_VERBS } from "../../packages/cli/src/verbs.ts";
import { NODE_VERBS, verbOf } from "../../src/lifecycle/verbs.ts";

const folder = mkdtempSync(join(tmpdir(), "ostler-cli-"));
afterAll(() => rmSync(folder, { recursive: true }));

function errorOf(work: () => unknown): CliError {
  try {
    work();
  } catch (error) {
    if (error instanceof CliError) return error;
  }
  throw new Error("It was accepted.");
}

test.each([
  ["Send the request with force: true.", "Send the request with --force."],
  ["or use `redeployNodes`, or updateSite.", "or use `ostler nodes redeploy`, or `ostler site set`."],
  ["abort with mode: FORCE; use `mode: AFTER_STEP`", "abort with --mode force; use --mode after-step"],
  ["The BMC says: readPower failed, code: BUSY", "The BMC says: readPower failed, code: BUSY"],
])("the sentence %j is %j on the command line", (sentence, words) => {
  expect(commandWords(sentence)).toBe(words);
});

test("standard input whose writer is slow is read to its end", () => {
  const pipe = join(folder, "pipe");
  execFileSync("mkfifo", [pipe]);
  const reading = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
  const writing = openSync(pipe, "w");
  const lines = ["u1\n", "u2\n"];
  const text = readInput(reading, () => {
    const line = lines.shift();
    if (line !== undefined) writeSync(writing, line);
    if (lines.length === 0) closeSync(writing);
  });
  expect(text).toBe("u1\nu2\n");
  closeSync(reading);
});

test.each([
  ["u07", ["u07"]],
  ["u[1,3]", ["u1", "u3"]],
  ["u[08-11]", ["u08", "u09", "u10", "u11"]],
  ["u[9-11]", ["u9", "u10", "u11"]],
  ["r[1-2]-u[01,03-04]x", ["r1-u01x", "r1-u03x", "r1-u04x", "r2-u01x", "r2-u03x", "r2-u04x"]],
])("range %s has the names that it describes, with leading zeros kept [R-1021]", (range, names) => {
  expect(expandRange(range)).toEqual(names);
});

test.each([
  ["", 1],
  ["u[3-1]", 3],
  ["u[]", 3],
  ["u*", 2],
  ["u[1,]", 5],
  ["u[1-]", 3],
  ["u[-3]", 3],
  ["u[1-[2]]", 5],
  ["u[a]", 3],
  ["u[1-2-3]", 3],
  ["u[1", 2],
  ["u1]", 3],
  ["u[1-1000000000000]", 2],
  ["u[0-99][0-99][0-1]", 14],
  ["u[1-99999999999999999]", 3],
])("range %s is refused with position %i, before a name is made [R-1021]", (range, position) => {
  expect(errorOf(() => expandRange(range))).toMatchObject({
    exitCode: 64,
    message: expect.stringContaining(`position ${position}:`),
  });
});

test("a file of names may have carriage returns, comments, ranges and repeated names", () => {
  const file = join(folder, "names");
  writeFileSync(file, "# rack 1\r\nu01\r\n\r\nU01  # twice\nu[02-03]\n");
  expect(readSelection([`@${file}`], {})).toEqual({ kind: "names", names: ["u01", "u02", "u03"] });
});

test.each([
  [["u1"], { all: true }],
  [["u1"], { filter: "u" }],
  [[], { cluster: "a", all: true }],
  [["u1", "-"], {}],
  [["@/no/such/file"], {}],
  [[], { filter: "stat:x" }],
  [[], { filter: "  " }],
])("selection %j %j is refused with exit code 64", (words, flags) => {
  expect(errorOf(() => readSelection(words, flags)).exitCode).toBe(64);
});

test("an empty file of names is refused, and does not select all nodes", () => {
  const file = join(folder, "empty");
  writeFileSync(file, "# none\n");
  expect(errorOf(() => readSelection([`@${file}`], {})).exitCode).toBe(64);
});

test.each(["5%%", "-1", "1e9", "", "101%", "1.5", "%"])("share %j is refused", (text) => {
  expect(errorOf(() => share("--waves", text)).exitCode).toBe(64);
});

test("--extra-vars are merged in order, and are a JSON object of at most 64 KiB", () => {
  const file = join(folder, "vars");
  writeFileSync(file, '{"b": 3}');
  expect(extraVariables(['{"a": 1, "b": 2}', `@${file}`])).toEqual({ a: 1, b: 3 });
  for (const flaw of ["[]", "{", "7", `{"a": "${"x".repeat(65 * 1024)}"}`, "@/no/such/file"])
    expect(errorOf(() => extraVariables([flaw])).exitCode).toBe(64);
});

describe("texts for terminals", () => {
  const hostile = "a\u001b[31m\n\u0007\u202e\u009b\u2028b";

  test("no control character and no change of direction reaches a terminal [R-1022]", () => {
    expect(safe(hostile)).toBe("a\\x1b[31m\\x0a\\x07\\u202e\\x9b\\u2028b");
    expect(table(["A"], [[hostile]], { width: 80, hasColor: false, hasHeader: false })).toBe(`${safe(hostile)}\n`);
    expect(safeJson({ hostile })).toMatch(/^[\u0020-\u007e]+$/);
    expect(JSON.parse(safeJson({ hostile }, 2))).toEqual({ hostile });
  });

  test("a table is cut at the width of the terminal", () => {
    const style = { width: 12, hasColor: false, hasHeader: true };
    expect(table(["NAME", "ERROR"], [["u01", "no space left"]], style)).toBe("NAME  ERROR\nu01   no sp…\n");
  });
});

test("every verb of the service has a command", () => {
  const mutations = NODE_VERBS.map((kind) => verbOf(kind).mutation);
  expect(CLI_VERBS.map(({ mutation }) => mutation as string).toSorted()).toEqual(mutations.toSorted());
});

test("every command has an example that begins with its own words", () => {
  for (const { path, example } of COMMANDS) expect(`${example} `).toContain(`${path} `);
  expect(new Set(COMMANDS.map(({ path }) => path)).size).toBe(COMMANDS.length);
});
