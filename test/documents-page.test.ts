/** Runs the programs of docs/trusted-documents.md against the service, unchanged, and checks their output. */
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { serviceUnderTest } from "./support/service.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TOKEN = "a-token-of-some-length";
const NAMES = ["berlin-01", "berlin-02", "berlin-03"];
/** Programs that the page needs and that are not installed: its tests are skipped then. */
const LACKING = ["curl", "python3"].filter((program) => spawnSync(program, ["--version"]).status !== 0);
const page = readFileSync(join(ROOT, "docs/trusted-documents.md"), "utf8");
const programs = [...page.matchAll(/^```\w+\n(?:\/\/|#) (\S+\.\w+)\n[\s\S]*?^```$/gm)].map(([block, file = ""]) => ({
  file,
  text: block.replace(/^```.*\n?/gm, ""),
}));

const ostler = await serviceUnderTest({ token: TOKEN });
const folder = mkdtempSync(join(tmpdir(), "ostler-page-"));
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

async function run([command, ...args]: readonly [string, ...string[]], token: string): Promise<string> {
  const env = { ...process.env, OSTLER_URL: `${ostler.url}/graphql`, OSTLER_TOKEN: token };
  return (await promisify(execFile)(command, args, { cwd: folder, env })).stdout;
}

let robot: string | undefined;

beforeAll(async () => {
  if (LACKING.length > 0) return;
  for (const { file, text } of programs) writeFileSync(join(folder, file), text);
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  await ostler.register([...NAMES, "berlin-04"]);
  await ostler.commission(NAMES, "AVAILABLE");
  const { data } = JSON.parse(await run(["sh", "set-up.sh"], TOKEN)) as { data: { createToken: { secret: string } } };
  robot = data.createToken.secret;
});

test("docs/trusted-documents.md has exactly the programs that this test runs", () => {
  expect(programs.map(({ file }) => file)).toEqual(["set-up.sh", "reboot.sh", "reboot.ts", "reboot.py"]);
});

test.skipIf(LACKING.length > 0).each([
  { language: "curl", command: ["sh", "reboot.sh"] },
  { language: "TypeScript", command: [process.execPath, "reboot.ts"] },
  { language: "Python", command: ["python3", "reboot.py"] },
] as const)(
  "the robot of docs/trusted-documents.md reboots its three nodes in $language, and does nothing else",
  async ({ command }) => {
    const { data } = JSON.parse(await run(command, robot ?? "")) as {
      data: { setPower: { operation: { uuid: string }; errors: unknown[] } };
    };
    expect(data.setPower.errors).toEqual([]);
    const { uuid } = data.setPower.operation;
    expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
    const { operation } = await ostler.query<{
      operation: { runs: { edges: { node: { node: { name: string } } }[] } };
    }>("query Of($id: ID!) { operation(id: $id) { runs { edges { node { node { name } } } } } }", { id: uuid });
    expect(operation.runs.edges.map(({ node }) => node.node.name).toSorted()).toEqual(NAMES);
    const other = await ostler.ask("{ nodes { totalCount } }", {}, { authorization: `Bearer ${robot ?? ""}` });
    expect(other.errors[0]?.extensions?.["code"]).toBe("FORBIDDEN");
  },
);
