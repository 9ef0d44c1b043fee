/** The process: start on an empty folder, kill, orderly shutdown, and one-line errors when it cannot start. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSchema as parsedSchema, validateSchema } from "graphql";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { COMMANDS } from "../packages/cli/src/commands.ts";
import { VARIABLES } from "../src/config/variables.ts";
import { describeDrivers } from "../src/drivers/load.ts";
import { buildSchema, schemaText } from "../src/graphql/schema/schema.ts";
import { ask } from "./support/ask.ts";
import { createDataFolder } from "./support/data-folder.ts";
import { testDatabase } from "./support/database.ts";
import { eventually } from "./support/eventually.ts";
import { aCertificate } from "./support/tls-files.ts";

const MAIN = fileURLToPath(new URL("../src/main.ts", import.meta.url));
const ROOT = fileURLToPath(new URL("..", import.meta.url));
const folder = createDataFolder();
const children = new Set<ChildProcess>();
afterAll(async () => {
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  rmSync(folder, { recursive: true, force: true });
});

interface Process {
  readonly child: ChildProcess;
  readonly output: { stdout: string; stderr: string };
  /** Exit code and signal. */
  readonly exited: Promise<readonly [number | null, string | null]>;
}

function run(args: readonly string[], environment: Readonly<Record<string, string>> = {}): Process {
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd: ROOT,
    env: {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      ...environment,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.add(child);
  const output = { stdout: "", stderr: "" };
  child.stdout.on("data", (part: Buffer) => (output.stdout += part.toString()));
  child.stderr.on("data", (part: Buffer) => (output.stderr += part.toString()));
  return {
    child,
    output,
    exited: once(child, "close").then(([code, signal]) => [code as number | null, signal as string | null] as const),
  };
}

/** Starts a service on a data folder; resolves with it and its API's URL once it reports that it is ready. */
async function start(data: string, ...more: readonly string[]): Promise<Process & { readonly url: string }> {
  const started = run(["--data", data, "--port", "0", ...more]);
  const url = await Promise.race([
    eventually(
      "the service is ready",
      () => /^Ostler is ready: (http:\/\/127\.0\.0\.1:\d+\/graphql)\n/.exec(started.output.stdout)?.[1],
      60_000,
    ),
    started.exited.then(([code]) => Promise.reject(new Error(`It ended with ${code}: ${started.output.stderr}`))),
  ]);
  return { ...started, url };
}

test.each(["schema", "secrets status"])(
  "ostler %s hides the master keys and the database's password from the plugins that it loads [R-213]",
  async (command) => {
    const plugin = join(folder, "spy.ts");
    const files = `["environ", "cmdline"].map((file) => readFileSync("/proc/self/" + file, "latin1"))`;
    const seen = `${files}.concat(JSON.stringify(process.env)).join().includes("canary")`;
    writeFileSync(plugin, `import { readFileSync } from "node:fs";\nthrow new Error("canaries: " + ${seen});`);
    const { exited, output } = run([...command.split(" "), "--plugins", plugin], {
      OSTLER_SECRET_KEYS: `canary-key:${Buffer.alloc(32, 7).toString("base64")}`,
      DATABASE_URL: "postgres://ostler:canary-password@127.0.0.1:1/ostler",
    });
    expect((await exited)[0]).toBe(1);
    expect(output.stderr).toContain("canaries: false");
  },
);

describe("service process", () => {
  const data = join(folder, "data");

  test("the service starts on an empty folder, responds, and exits with 0 on SIGTERM [R-138]", async () => {
    const { url, child, exited, output } = await start(data);
    expect(
      await ask(
        url,
        `mutation { registerNodes(input: { nodes: [{ name: "first", driver: { fake: {} } }] }) { nodes { name } errors { message } } }`,
      ),
    ).toEqual({ registerNodes: { nodes: [{ name: "first" }], errors: [] } });
    expect(output.stdout).toBe(`Ostler is ready: ${url}\n`);
    const began = Date.now();
    child.kill("SIGTERM");
    expect(await exited).toEqual([0, null]);
    expect(Date.now() - began).toBeLessThan(10_000);
    for (const line of output.stderr.trim().split("\n")) expect(() => JSON.parse(line) as unknown, line).not.toThrow();
  }, 60_000);

  test("a service that is killed during an operation continues it after the restart [R-131, R-132]", async () => {
    const first = await start(data);
    await ask(
      first.url,
      `mutation { registerNodes(input: { nodes: [{ name: "slow", driver: { fake: { waitSeconds: 1 } } }] }) { errors { message } } }`,
    );
    const { commissionNodes } = await ask(
      first.url,
      `mutation { commissionNodes(input: { nodes: { names: ["first", "slow"] } }) { operation { uuid } errors { message } } }`,
    );
    const { uuid } = (commissionNodes as { operation: { uuid: string } }).operation;
    first.child.kill("SIGKILL");
    expect(await first.exited).toEqual([null, "SIGKILL"]);
    const second = await start(data);
    expect(await ask(second.url, "{ nodes { edges { node { name } } } }")).toEqual({
      nodes: { edges: [{ node: { name: "first" } }, { node: { name: "slow" } }] },
    });
    const operation = await eventually(
      "the operation ends",
      async () => {
        const { operation: seen } = (await ask(second.url, `{ operation(id: "${uuid}") { state finishedAt } }`)) as {
          operation: { state: string; finishedAt: string | null };
        };
        return seen.finishedAt !== null && seen;
      },
      60_000,
    );
    expect(operation.state).toBe("SUCCEEDED");
    second.child.kill("SIGINT");
    expect(await second.exited).toEqual([0, null]);
  }, 150_000);

  test("--demo registers the demonstration fleet once, and --plugins loads a plugin by path", async () => {
    const plugin = join(folder, "own.mjs");
    writeFileSync(
      plugin,
      `
      const shape = { type: "object", properties: {} };
      export default () => ({
        contract: 2, name: "own", version: "1.0.0", description: "Made for a test.",
        settings: { "~standard": { version: 1, vendor: "none", validate: (value) => ({ value: value ?? {} }), jsonSchema: { input: () => shape, output: () => shape } } },
        power: { async read() { return "ON"; }, async set() {} },
      });
    `,
    );
    const demo = join(folder, "demo");
    for (const time of ["first", "second"]) {
      const { url, child, exited } = await start(demo, "--demo", "--plugins", `fake,${plugin}`);
      const seen = await ask(url, "{ nodes { totalCount } clusters { edges { node { name } } } drivers { name } }");
      expect(seen, time).toEqual({
        nodes: { totalCount: 20 },
        clusters: { edges: [{ node: { name: "berlin" } }, { node: { name: "oslo" } }] },
        drivers: [{ name: "fake" }, { name: "own" }],
      });
      child.kill("SIGTERM");
      expect(await exited).toEqual([0, null]);
    }
  }, 120_000);
});

describe("ostler schema", () => {
  const schemaOf = async (args: readonly string[], environment: Readonly<Record<string, string>> = {}) => {
    const { output, exited } = run(["schema", ...args], environment);
    return { ended: await exited, ...output };
  };

  test("ostler schema prints the schema of the named plugins without a database or the programs that they use", async () => {
    const { ended, stdout, stderr } = await schemaOf(["--plugins", "fake,ipmi"], { PATH: folder });
    expect({ ended, stderr }).toEqual({ ended: [0, null], stderr: "" });
    expect(stdout).toBe(schemaText(buildSchema(await describeDrivers(["fake", "ipmi"]))));
    expect(validateSchema(parsedSchema(stdout))).toEqual([]);
  });

  test("ostler schema uses the plugins of the service by default", async () => {
    const { stdout } = await schemaOf([], { OSTLER_PLUGINS: "ipmi" });
    expect([stdout.includes("input IpmiSettingsInput"), stdout.includes("input FakeSettingsInput")]).toEqual([
      true,
      false,
    ]);
    expect((await schemaOf([])).stdout).toContain("input FakeSettingsInput");
  });

  test.each([
    {
      what: "a flag of the service",
      args: ["--port", "1"],
      says: /^Unknown option '--port'\..*`ostler schema` takes --plugins, .*\.\n$/,
    },
    {
      what: "a missing plugin",
      args: ["--plugins", "no-such-plugin"],
      says: /^Plugin "no-such-plugin" cannot be used: it cannot be loaded .*\n$/,
    },
  ])("ostler schema rejects $what in one sentence", async ({ args, says }) => {
    const { ended, stdout, stderr } = await schemaOf(args);
    expect({ ended, stdout }).toEqual({ ended: [1, null], stdout: "" });
    expect(stderr).toMatch(says);
  });

  test.each(["help", "--help", "-h"])(
    "%s fits a terminal, and begins with the commands for operators",
    async (word) => {
      const { output, exited } = run([word]);
      expect(await exited).toEqual([0, null]);
      for (const group of new Set(COMMANDS.map(({ path }) => path.split(" ")[0])))
        expect(output.stdout).toContain(group);
      expect(output.stdout).toMatch(/^These work with a running service[^]*ostler nodes [^]*ostler migrate /);
      expect(output.stdout.split("\n").length).toBeLessThan(24);
    },
  );

  test("help flags prints every flag, and help of a command that command's", async () => {
    const flags = run(["help", "flags"]);
    expect(await flags.exited).toEqual([0, null]);
    for (const [name, { flag }] of Object.entries(VARIABLES))
      expect(flags.output.stdout).toContain(`--${flag} (${name})`);
    const command = run(["help", "clusters", "edit"]);
    expect(await command.exited).toEqual([0, null]);
    expect(command.output.stdout).toContain("Usage: ostler clusters edit");
  });
});

test("a command for operators loads no module of the service, so that completion is in time [R-1351]", () => {
  expect(readFileSync(MAIN, "utf8")).not.toMatch(/^import /m);
});

test("an unknown command ends with 64 and names the nearest one", async () => {
  const { output, exited } = run(["nodez"]);
  expect(await exited).toEqual([64, null]);
  expect(output).toEqual({ stdout: "", stderr: expect.stringMatching(/'nodez'\n\(Did you mean nodes\?\)/) });
});

describe("ostler migrate", () => {
  const migrate = async (args: readonly string[], environment: Readonly<Record<string, string>> = {}) => {
    const { output, exited } = run(["migrate", ...args], environment);
    return { ended: await exited, ...output };
  };

  test("ostler migrate migrates the database, reports it, and accepts the service's flags", async () => {
    await using database = await testDatabase({ empty: true });
    for (const time of ["first", "second"]) {
      expect(await migrate(["--database-url", database.url, "--log", "warn"]), time).toEqual({
        ended: [0, null],
        stdout: "The database is at the newest migration.\n",
        stderr: "",
      });
    }
    expect(await database.sql`select from runs`).toEqual([]);
  }, 60_000);

  test.each<{ what: string; args?: string[]; environment?: Record<string, string>; says: RegExp }>([
    { what: "no database", says: /^DATABASE_URL is not set\. .*\n$/ },
    {
      what: "a list of databases",
      args: ["--database-url", "postgres://a,b/ostler"],
      says: /^DATABASE_URL names several hosts\. .*\n$/,
    },
    { what: "an unknown flag", args: ["--prot", "1"], says: /--prot.*--database-url.*\n$/ },
    {
      what: "an unreachable database",
      args: ["--db-wait-seconds", "0"],
      environment: { DATABASE_URL: "postgres://ostler:s3cret@127.0.0.1:1/ostler" },
      says: /^The database postgres:\/\/ostler:\*\*\*@127\.0\.0\.1:1\/ostler is not available: .*\n$/,
    },
  ])("ostler migrate with $what exits with 1 and one sentence", async ({ args = [], environment, says }) => {
    const { ended, stdout, stderr } = await migrate(args, environment);
    expect({ ended, stdout }).toEqual({ ended: [1, null], stdout: "" });
    expect(stderr).toMatch(says);
    expect(stderr.trim().split("\n")).toHaveLength(1);
    expect(stderr).not.toContain("s3cret");
  });

  test("ostler migrate waits for a database that cannot be reached, and logs it", async () => {
    const { child, exited, output } = run(["migrate"], { DATABASE_URL: "postgres://ostler@127.0.0.1:1/ostler" });
    await eventually("it waits", () => output.stderr.includes("cannot reach the database yet"), 30_000);
    child.kill("SIGTERM");
    expect(await exited).toEqual([1, null]);
  }, 60_000);
});

describe("start that fails", () => {
  const broken = (name: string, text: string) => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };

  test.each<{
    what: string;
    args?: () => string[];
    environment?: Record<string, string>;
    says: RegExp;
    /** Exit code. */
    code?: number;
  }>([
    {
      what: "an unknown variable",
      environment: { OSTLER_PROT: "1" },
      says: /^Unknown variable OSTLER_PROT\. Known variables: .*OSTLER_PORT.*\.\n$/,
    },
    { what: "an unknown flag", args: () => ["--prot", "1"], says: /--prot.*--port.*\n$/ },
    { what: "a bad port", environment: { OSTLER_PORT: "high" }, says: /^OSTLER_PORT is "high"\. .*\n$/ },
    {
      what: "an open address without a token",
      environment: { OSTLER_HOST: "0.0.0.0" },
      says: /^OSTLER_HOST is 0\.0\.0\.0, .*OSTLER_TOKEN.*\n$/,
    },
    {
      what: "files of TLS that are not there",
      args: () => ["--tls-cert", join(folder, "nowhere.pem"), "--tls-key", join(folder, "nowhere.key")],
      says: /^The file \S+nowhere\.pem of OSTLER_TLS_CERT cannot be read: .*\n$/,
    },
    {
      what: "a network of proxies without a prefix",
      environment: { OSTLER_PROXIES: "10.0.0.5" },
      says: /^OSTLER_PROXIES has "10\.0\.0\.5", which is not a network\. .*\n$/,
    },
    {
      what: "a missing plugin",
      args: () => ["--plugins", join(folder, "nowhere.mjs")],
      says: /Plugin ".*nowhere\.mjs" cannot be used: .*\n$/,
    },
    {
      what: "a plugin that throws",
      args: () => [
        "--plugins",
        broken("throws.mjs", `export default () => { throw new Error("ipmitool is not installed."); };`),
      ],
      says: /Plugin ".*throws\.mjs" cannot be used: ipmitool is not installed\. Repair it or remove it from OSTLER_PLUGINS\.\n$/,
    },
    {
      what: "a plugin with a syntax error",
      args: () => ["--plugins", broken("syntax.mjs", "export default (")],
      says: /Plugin ".*syntax\.mjs" cannot be used: it cannot be loaded .*\n$/,
    },
    {
      what: "a plugin that makes no driver",
      args: () => ["--plugins", broken("none.mjs", "export default () => ({});")],
      says: /Plugin ".*none\.mjs" cannot be used: .*contract undefined.*\n$/,
    },
    {
      what: "an unreachable database",
      environment: {
        DATABASE_URL: "postgres://ostler:s3cret@127.0.0.1:1/ostler",
        OSTLER_SECRET_KEYS: "off",
        OSTLER_DB_WAIT_SECONDS: "0",
      },
      code: 1,
      says: /^Ostler cannot start: The database postgres:\/\/ostler:\*\*\*@127\.0\.0\.1:1\/ostler is not available: .*ECONNREFUSED 127\.0\.0\.1:1\.\n$/,
    },
    {
      what: "a list of databases",
      environment: { DATABASE_URL: "postgres://ostler:s3cret@127.0.0.1:1,127.0.0.1:2/ostler" },
      says: /^DATABASE_URL names several hosts\. .*\n$/,
    },
  ])(
    "a start with $what exits with one sentence, and with 78 if only another setting helps [R-865]",
    async ({ args, environment, says, code = 78 }) => {
      const { exited, output } = run(["--data", join(folder, "never"), "--log", "silent", ...(args?.() ?? [])], {
        OSTLER_PORT: "0",
        ...environment,
      });
      expect(await exited).toEqual([code, null]);
      expect(output.stdout).toBe("");
      expect(output.stderr).toMatch(says);
      expect(output.stderr.trim().split("\n")).toHaveLength(1);
      expect(output.stderr).not.toMatch(/\n\s+at |s3cret/);
    },
    30_000,
  );

  test("a start that waits for its database exits at once on SIGTERM", async () => {
    const { child, exited, output } = run([], {
      OSTLER_PORT: "0",
      OSTLER_SECRET_KEYS: "off",
      DATABASE_URL: "postgres://ostler@127.0.0.1:1/ostler",
    });
    await eventually("it waits", () => output.stderr.includes("cannot reach the database yet"), 30_000);
    child.kill("SIGTERM");
    expect(await exited).toEqual([0, null]);
    expect(output.stdout).toBe("");
  }, 60_000);

  describe("beside another service", () => {
    const data = join(folder, "data");
    let other: Awaited<ReturnType<typeof start>> | undefined;
    const running = () => {
      if (!other) throw new Error("The other service did not start.");
      return other;
    };
    beforeAll(async () => {
      other = await start(data);
    }, 60_000);
    afterAll(async () => {
      running().child.kill("SIGTERM");
      const [code] = await running().exited;
      if (code !== 0) throw new Error(`The other service ended with ${code}.`);
    }, 60_000);

    test("a start on a data folder that another process uses is refused, and the other process continues", async () => {
      const second = run(["--data", data, "--port", "0", "--log", "silent"]);
      expect(await second.exited).toEqual([1, null]);
      expect(second.output.stderr).toMatch(/^Ostler cannot start: .*\n$/);
      expect(await ask(running().url, "{ viewer { subject } }")).toEqual({ viewer: { subject: "anonymous" } });
    }, 60_000);

    test.each([
      ["neither TLS nor a proxy", [], 1],
      ["a proxy", ["--proxies", "10.0.0.0/8"], 0],
      ["TLS", ["--tls-cert", join(folder, "cert.pem"), "--tls-key", join(folder, "key.pem")], 0],
    ])(
      "a start on an address other than loopback with %s gives %s warning [R-898]",
      async (_, flags, count) => {
        const { certificate, key } = aCertificate();
        writeFileSync(join(folder, "cert.pem"), certificate);
        writeFileSync(join(folder, "key.pem"), key, { mode: 0o600 });
        const { port } = new URL(running().url);
        const open = ["--host", "0.0.0.0", "--token", "a-token-of-the-test", "--data", join(folder, "open")];
        // The port is in use, so that the start ends.
        const { exited: refused, output } = run([...open, "--port", port, ...flags]);
        expect(await refused).toEqual([78, null]);
        expect(output.stderr.match(/OSTLER_HOST is 0\.0\.0\.0, .*OSTLER_TLS_CERT.*OSTLER_PROXIES/g) ?? []).toHaveLength(
          count,
        );
      },
      60_000,
    );

    test("a start on a port that is in use is refused before a database is made", async () => {
      const unused = join(folder, "other");
      const { port } = new URL(running().url);
      const { exited: refused, output } = run(["--data", unused, "--port", port, "--log", "silent"]);
      expect(await refused).toEqual([78, null]);
      expect(output.stderr).toMatch(
        /^Ostler cannot start: Port \d+ on 127\.0\.0\.1 is in use; choose another one with OSTLER_PORT or --port\.\n$/,
      );
      expect(existsSync(unused)).toBe(false);
    }, 60_000);
  });
});
