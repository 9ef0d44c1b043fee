/** The command line in a real bash, and on a real terminal. */
import { execFile, execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, test, vi } from "vitest";
import { COMMANDS, GLOBAL_FLAGS } from "../../packages/cli/src/commands.ts";
import { BASH_COMPLETION, completions } from "../../packages/cli/src/completion.ts";
import { aGate } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { registeredNode, serviceUnderTest } from "../support/service.ts";
import { COMMAND, HOME, onTerminalOf } from "./run-cli.ts";
import type { Keys } from "./run-cli.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());
writeFileSync(join(HOME, "completion"), BASH_COMPLETION);
// A program that is not packed, on a busy machine, starts too slowly for a prompt.
writeFileSync(join(HOME, "patient-completion"), BASH_COMPLETION.replace("-t 0.45", "-t 20"));
const onTerminal = (command: string, keys: Keys, size?: string) => onTerminalOf(ostler.url, command, keys, size);

/** The words that bash offers at the end of a line. */
async function completed(line: string, url = ostler.url, file = "patient-completion"): Promise<string[]> {
  const script = `ostler() { ${COMMAND} "$@"; }
. "$HOME/${file}"
compopt() { :; }
COMP_LINE=$1 COMP_POINT=\${#1}
_ostler_complete
printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout } = await promisify(execFile)("bash", ["--norc", "-c", script, "bash", line], {
    env: { PATH: process.env["PATH"], HOME, OSTLER_URL: url },
    cwd: HOME,
  });
  return stdout.split("\n").filter((word) => word !== "");
}

test.each([
  ["ostler no", ["nodes"]],
  ["ostler nodes com", ["commission"]],
  ["ostler clusters vars ", ["get", "set", "unset"]],
  ["ostler clusters groups set roles ", ["masters", "workers"]],
  ["ostler clusters groups set roles workers --after m", ["masters"]],
  ["ostler clusters vars set roles -g w", ["workers"]],
  ["ostler nodes commission --max-f", ["--max-failures"]],
  ["ostler nodes power soft", ["soft-off", "soft-reboot"]],
  ["ostler nodes deploy --on-failure le", ["leave"]],
  ["ostler nodes get --filter state:av", ["available"]],
  ["ostler nodes commission --cluster ber", ["berlin"]],
  ["ostler nodes show complete-", ["complete-1", "complete-2"]],
])("bash completes %j [R-1028]", async (line, words) => {
  if (line.includes("ber"))
    await ostler.query('mutation { createCluster(input: { name: "berlin" }) { errors { message } } }');
  if (line.includes("roles"))
    await ostler.query(
      'mutation { createCluster(input: { name: "roles", hostGroups: [{ name: "masters" }, { name: "workers" }] }) { errors { message } } }',
    );
  if (line.includes("complete-")) await ostler.register(["complete-1", "complete-2"], {});
  // A completion waits for the service for a moment only, and then offers nothing.
  const offered = await eventually("bash offers words", async () => {
    const found = await completed(line);
    return found.length > 0 && found;
  });
  expect(offered).toEqual(words);
});

test.each([
  "ostler nodes show $(touch harm)",
  "ostler nodes show `touch harm`",
  "ostler nodes show 'a",
  'ostler nodes get --filter "',
  "ostler nodes show ;touch harm",
])("completion of %j runs nothing, and prints nothing [R-1028]", async (line) => {
  expect(await completed(line)).toEqual([]);
  expect(existsSync(join(HOME, "harm"))).toBe(false);
});

test("completion asks the service without fetch, which takes longer to load than all else in Node 20 [R-1351]", async () => {
  await ostler.register(["plain-1"], {});
  vi.stubGlobal("fetch", () => {
    throw new Error("fetch was loaded.");
  });
  const offered = await eventually("a word is offered", async () => {
    const words = await completedHere(["nodes", "show", "plain-"]);
    return words.length > 0 && words;
  });
  vi.unstubAllGlobals();
  expect(offered).toEqual(["plain-1"]);
});

test("completion of more names than it offers has the last one, so that bash inserts no more than all have in common [R-1352]", async () => {
  const names = Array.from({ length: 210 }, (_, at) => `many1-${at}`);
  await ostler.register([...names, "many2"], {});
  const offered = await eventually("bash offers words", async () => {
    const found = await completed("ostler nodes show many");
    return found.length > 0 && found;
  });
  expect(offered).toContain("many2");
  expect(offered.length).toBeLessThan(names.length);
});

test("completion knows a cluster beyond the first hundred, as argument, flag and in a filter", async () => {
  const names = [...Array.from({ length: 101 }, (_, at) => `crowd-${at}`), "zone-1"];
  for (const name of names)
    await ostler.query(`mutation { createCluster(input: { name: "${name}" }) { errors { message } } }`);
  const offers = {
    "clusters get zo": "zone-1",
    "nodes get --cluster zo": "zone-1",
    "nodes get --filter cluster:zo": "cluster:zone-1",
  };
  for (const [words, word] of Object.entries(offers)) {
    const offered = await eventually("a word is offered", async () => {
      const found = await completedHere(words.split(" "));
      return found.length > 0 && found;
    });
    expect(offered).toEqual([word]);
  }
});

/** The words that the program offers, within this process. */
async function completedHere(words: readonly string[]): Promise<string[]> {
  vi.stubEnv("OSTLER_URL", ostler.url);
  vi.stubEnv("XDG_CONFIG_HOME", HOME);
  const found = await completions(COMMANDS, GLOBAL_FLAGS, words);
  vi.unstubAllEnvs();
  return found;
}

test("completion without a service prints nothing [R-1028]", async () => {
  expect(await completed("ostler nodes show c", "http://127.0.0.1:9")).toEqual([]);
});

test.each(["ostler nodes show c", "ostler operations stop c", "ostler nodes get --cluster c"])(
  "completion of %j gives up within half a second on a service that never answers [R-1132]",
  async (line) => {
    const silent = createServer().listen(0, "127.0.0.1");
    await once(silent, "listening");
    const open = new Set<Socket>();
    const times: number[] = [];
    silent.on("connection", (socket) => {
      times.push(performance.now());
      open.add(socket.resume().on("error", () => {}));
      socket.on("close", () => {
        times.push(performance.now());
        open.delete(socket);
      });
    });
    expect(await completed(line, `http://127.0.0.1:${(silent.address() as AddressInfo).port}`)).toEqual([]);
    expect(times.length).toBeGreaterThan(0);
    expect(open.size).toBe(0);
    // Less than two requests one after the other would take.
    expect((times.at(-1) ?? 0) - (times[0] ?? 0)).toBeLessThan(650);
    silent.close();
  },
);

test("completion with a program that prints nothing for long ends within half a second [R-1132]", async () => {
  const script = `ostler() { exec sleep 20; }
. "$HOME/completion"
compopt() { :; }
COMP_LINE="ostler nodes show c" COMP_POINT=19
started=\${EPOCHREALTIME/[^0-9]/}
_ostler_complete
echo $(( (\${EPOCHREALTIME/[^0-9]/} - started) / 1000 ))`;
  const { stdout } = await promisify(execFile)("bash", ["--norc", "-c", script], { env: { ...process.env, HOME } });
  expect(Number(stdout)).toBeGreaterThan(400);
  expect(Number(stdout)).toBeLessThan(1000);
});

test("on a terminal a verb asks: y does what was shown, n and Ctrl-C send nothing", async () => {
  const name = await registeredNode(ostler, "AVAILABLE");
  const stateOf = async () =>
    (await ostler.query<{ node: { state: string } }>(`{ node(by: { name: "${name}" }) { state } }`)).node.state;
  expect(await onTerminal(`nodes deploy ${name} --wait`, [["[y/N]", "n\r"]])).toMatchObject({ code: 2 });
  const interrupted = await onTerminal(`nodes deploy ${name} --wait`, [["[y/N]", "\u0003"]]);
  expect(interrupted).toMatchObject({ code: 130, screen: expect.stringContaining("Nothing was sent") });
  expect(await stateOf()).toBe("AVAILABLE");
  const { code, screen } = await onTerminal(`nodes deploy ${name} --wait`, [["[y/N]", "y\r"]]);
  expect(code).toBe(0);
  expect(screen).toContain("SUCCEEDED");
  expect(await stateOf()).toBe("ACTIVE");
});

test.each(["true", "stty cols 20 rows 5"])("the progress of work is drawn on a terminal after %j", async (size) => {
  const name = await registeredNode(ostler, "AVAILABLE");
  const { code, screen } = await onTerminal(`nodes deploy ${name} --wait --yes`, [], size);
  expect(code).toBe(0);
  expect(screen).toMatch(/[█░]{10}/);
  // The cursor is never hidden, and the terminal wraps lines afterwards.
  expect(screen).not.toContain("\u001b[?25l");
  expect(screen.lastIndexOf("\u001b[?7h")).toBeGreaterThan(screen.lastIndexOf("\u001b[?7l"));
});

test("on a terminal that becomes narrower no line of the earlier progress stays [R-1294]", async () => {
  const gate = aGate();
  const names = await ostler.register(3, { steps: { "deploy.write_image": { gate: gate.name } } });
  const tty = join(HOME, "tty");
  const narrow = () => {
    execFileSync("stty", ["-F", readFileSync(tty, "utf8").trim(), "cols", "20"]);
    return "";
  };
  const open = () => {
    gate.open();
    return "";
  };
  const { code, screen } = await onTerminal(
    `nodes commission ${names.join(" ")} --on-failure leave --wait --yes`,
    [
      ["write_image", narrow],
      ["…\u001b[K", open],
    ],
    `stty cols 100 rows 20; tty > ${tty}`,
  );
  expect(code).toBe(0);
  const draws = screen.split("\u001b[?7l").slice(1).map(drawOf);
  const first = draws.findIndex(({ lines }) => lines.every((line) => line.length < 20));
  expect(first).toBeGreaterThan(0);
  for (const [index, { above }] of draws.entries()) {
    const columns = index < first ? 100 : 20;
    const before = draws[index - 1]?.lines ?? [];
    expect(above).toBe(before.reduce((rows, line) => rows + Math.ceil(line.length / columns), 0));
  }
  expect(Math.max(...draws.map(({ above }) => above))).toBeGreaterThan(draws[first]?.lines.length ?? 0);
});

/** The lines that are drawn, and the rows that the cursor goes up before. */
function drawOf(text: string): { readonly above: number; readonly lines: readonly string[] } {
  const [start = "", ...others] = text.split("\u001b[K\r\n");
  const [, up = "0"] = /^\r.\[(\d+)A/.exec(start) ?? [];
  const lines = [start.replace(/^\r(.\[\d+A)?/, ""), ...others].slice(0, -1);
  return { above: Number(up), lines };
}

test("more than 20 nodes that lose data are confirmed with their number", async () => {
  const names = await ostler.register(21, {});
  const command = `nodes commission ${names.join(" ")}`;
  expect((await onTerminal(command, [["(21): ", "y\r"]])).code).toBe(2);
  expect((await onTerminal(command, [["(21): ", "20\r"]])).code).toBe(2);
});

test("Ctrl-C while waiting on a terminal shows how to go on", async () => {
  const gate = aGate();
  const name = await registeredNode(ostler, "AVAILABLE", { "deploy.write_image": { gate: gate.name } });
  const { code, screen } = await onTerminal(`nodes deploy ${name} --wait --yes`, [["RUNNING  write_image", "\u0003"]]);
  expect(code).toBe(130);
  expect(screen).toContain("ostler operations stop");
  expect(screen.lastIndexOf("\u001b[?7h")).toBeGreaterThan(screen.lastIndexOf("\u001b[?7l"));
  gate.open();
});
