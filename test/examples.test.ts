/**
 * The Python program of examples/python against the service. `npm run tool -- example-fleet` drives the one for
 * front ends, in a browser.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { cutter } from "./support/cutter.ts";
import { eventually } from "./support/eventually.ts";
import { serviceUnderTest } from "./support/service.ts";

const PROGRAM = fileURLToPath(new URL("../examples/python/fleet_table.py", import.meta.url));
const CUTS = 6;

const ostler = await serviceUnderTest();
const folder = mkdtempSync(join(tmpdir(), "ostler-examples-"));
afterAll(async () => {
  await ostler[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

/** Python with the package websockets; Debian's python3-websockets is not for another Python on the PATH. */
function findPython(): string | undefined {
  return ["python3", "/usr/bin/python3"].find((path) => spawnSync(path, ["-c", "import websockets"]).status === 0);
}

/** The lines that the program should have written. */
async function stored(): Promise<string> {
  const { nodes } = await ostler.query<{ nodes: { nodes: Readonly<Record<string, string | null>>[] } }>(
    "{ nodes(first: 100) { nodes { name state powerState presence hostGroup maintenance { reason } } } }",
  );
  return nodes.nodes
    .map(({ name, state, powerState, presence, hostGroup, maintenance }) =>
      [
        name,
        state,
        powerState,
        presence,
        hostGroup ?? "",
        "",
        (maintenance as { reason: string } | null | undefined)?.reason ?? "",
      ].join(","),
    )
    .toSorted()
    .join("\n");
}

function written(file: string): string | null {
  return existsSync(file) ? readFileSync(file, "utf8").trimEnd().replaceAll("\r", "") : null;
}

test("the Python example keeps a table equal to the service while its connection is cut", async ({ skip }) => {
  const python = findPython();
  if (python === undefined) return skip("the Debian package python3-websockets is not installed");
  const names = await ostler.register(40);
  let connections = 0;
  await using way = await cutter(ostler.url, (count) => void (connections = count));
  const file = join(folder, "fleet.csv");
  const program = spawn(python, [PROGRAM, file], {
    env: { PATH: process.env["PATH"], OSTLER_URL: `${way.url}/graphql` },
    stdio: ["ignore", "inherit", "pipe"],
  });
  const isEqual = () =>
    eventually("the written table equals the nodes", async () => written(file) === (await stored()));
  try {
    await isEqual();
    for (let cut = 0; cut < CUTS; cut += 1) {
      const before = connections;
      way.cut();
      const [name = "", other = ""] = names.slice(2 * cut);
      await ostler.query(
        `mutation($name: String!, $other: String!, $new: String!) {
          setMaintenance(input: { nodes: { names: [$name] }, reason: "fan" }) { errors { message } }
          updateNodes(input: { nodes: { names: [$name] }, hostGroup: "edge" }) { errors { message } }
          deleteNodes(input: { nodes: { names: [$other] } }) { errors { message } }
          registerNodes(input: { nodes: [{ name: $new, driver: { fake: {} } }] }) { errors { message } }
        }`,
        { name, other, new: `new-${cut}` },
      );
      await eventually("the program connects again", () => connections > before);
    }
    await ostler.commission(names.slice(30, 33), "AVAILABLE");
    await isEqual();
    expect(written(file)?.split("\n")).toHaveLength(40);
  } finally {
    const ended = once(program, "exit");
    program.kill("SIGKILL");
    await ended;
  }
});
