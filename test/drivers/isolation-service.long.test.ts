/**
 * Isolation of a whole service with a misbehaving driver, and the end of a running driver when the service is killed,
 * or paused until others consider it dead.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startService } from "../../src/app.ts";
import type { Service } from "../../src/app.ts";
import { readConfig } from "../../src/config/config.ts";
import { createLog } from "../../src/log.ts";
import { eventually } from "../support/eventually.ts";

const EVIL = fileURLToPath(new URL("misbehaving/evil.ts", import.meta.url));
const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "ostler-evil-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const flags = (data: string) => [
  "--data",
  join(folder, data),
  "--port",
  "0",
  "--plugins",
  `fake,${EVIL}`,
  "--power-seconds",
  "1",
];

interface Run {
  readonly nodeName: string;
  readonly state: string;
  readonly failure: { readonly code: string; readonly message: string } | null;
}

/** The API of a service at an address. */
function apiAt(url: () => string) {
  async function ask<Data>(query: string, variables: object = {}): Promise<Data> {
    const response = await fetch(url(), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query, variables }),
    });
    const { data, errors } = (await response.json()) as { data: Data; errors?: readonly { message: string }[] };
    expect(errors).toBeUndefined();
    return data;
  }
  return {
    ask,
    async register(deeds: Readonly<Record<string, { readonly does: string; readonly file?: string }>>): Promise<void> {
      const nodes = Object.entries(deeds).map(([name, evil]) => ({
        name,
        driver: { evil },
        interfaces: [{ kinds: ["INSPECT"], driver: { fake: {} } }],
      }));
      const { registerNodes } = await ask<{ registerNodes: { errors: unknown[] } }>(
        "mutation Register($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }",
        { input: { nodes } },
      );
      expect(registerNodes.errors).toEqual([]);
    },
    /** Starts a commission of the nodes, each independent of the others; returns the operation. */
    async commission(names: readonly string[]): Promise<string> {
      const { commissionNodes } = await ask<{
        commissionNodes: { operation: { uuid: string } | null; errors: { message: string }[] };
      }>(
        "mutation Commission($input: CommissionNodesInput!) { commissionNodes(input: $input) { operation { uuid } errors { message } } }",
        { input: { nodes: { names }, until: "AVAILABLE", onFailure: "LEAVE" } },
      );
      expect(commissionNodes.errors).toEqual([]);
      return commissionNodes.operation?.uuid ?? expect.fail("There is no operation.");
    },
    async runs(id: string): Promise<{
      readonly state: string;
      readonly finishedAt: string | null;
      readonly runs: Readonly<Record<string, Run>>;
    }> {
      const { operation } = await ask<{
        operation: { state: string; finishedAt: string | null; runs: { edges: { node: Run }[] } };
      }>(
        "query Runs($id: ID!) { operation(id: $id) { state finishedAt runs(first: 100) { edges { node { nodeName state failure { code message } } } } } }",
        { id },
      );
      return { ...operation, runs: Object.fromEntries(operation.runs.edges.map(({ node }) => [node.nodeName, node])) };
    },
  };
}

describe("service with a misbehaving driver", () => {
  let service: Service;
  const api = apiAt(() => `${service.url}/graphql`);
  beforeAll(async () => {
    service = await startService(readConfig({}, flags("service")), createLog("silent"));
  }, 60_000);
  afterAll(() => service[Symbol.asyncDispose]());

  const ENDING = [
    "throws",
    "returns nothing",
    "ends its process",
    "kills its process",
    "fills its heap",
    "throws in a timer",
    "rejects without a handler",
    "writes into the channel",
  ];
  const ENDLESS = ["hangs", "spins forever", "sleeps in a system call"];

  test("service with a misbehaving driver fails its steps with a reason, completes the others of that driver, and answers requests meanwhile [R-072]", async () => {
    const bad = [...ENDING, ...ENDLESS];
    const nameOf = (does: string) => does.replaceAll(" ", "-");
    await api.register(
      Object.fromEntries([
        ...bad.map((does) => [nameOf(does), { does }]),
        ...Array.from({ length: 8 }, (_, index) => [`sound-${index}`, { does: "sound" }]),
      ]) as Record<string, { does: string }>,
    );
    const names = [...bad.map(nameOf), ...Array.from({ length: 8 }, (_, index) => `sound-${index}`)];
    const id = await api.commission(names);
    const seen = await eventually(
      "all but those that never end have ended",
      async () => {
        const now = await api.runs(id);
        return (
          Object.values(now.runs).filter(({ state }) => state === "RUNNING").length === ENDLESS.length &&
          Object.values(now.runs).every(({ state }) => ["RUNNING", "SUCCEEDED", "FAILED"].includes(state)) &&
          now
        );
      },
      60_000,
    );
    for (const name of names.slice(bad.length))
      expect(seen.runs[name], name).toMatchObject({ state: "SUCCEEDED", failure: null });
    for (const does of ENDING)
      expect(seen.runs[nameOf(does)], does).toMatchObject({
        state: "FAILED",
        failure: { code: "BACKEND_FAILED", message: expect.stringContaining("clean.erase") },
      });
    for (const does of ENDLESS) expect(seen.runs[nameOf(does)], does).toMatchObject({ state: "RUNNING" });
    expect(seen.finishedAt).toBeNull();

    // Steps that never end are aborted, and end: their processes are killed before the engine would release them.
    await api.ask("mutation Abort($input: AbortInput!) { abort(input: $input) { errors { message } } }", {
      input: { work: { operationId: id } },
    });
    const after = await eventually(
      "the operation ends",
      async () => {
        const now = await api.runs(id);
        return now.finishedAt !== null && now;
      },
      60_000,
    );
    for (const does of ENDLESS) expect(after.runs[nameOf(does)], does).toMatchObject({ state: "ABORTED" });
  }, 150_000);
});

describe("running driver", () => {
  const children = new Set<ChildProcess>();
  afterAll(() => {
    for (const child of children) if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
  });

  /** A service in its own process, whose driver has started to write to a file and does not end. */
  async function withRunningDriver(data: string, does: string) {
    const child = spawn(process.execPath, [MAIN, ...flags(data)], { stdio: ["ignore", "pipe", "ignore"] });
    children.add(child);
    let output = "";
    child.stdout.on("data", (part: Buffer) => (output += part.toString()));
    const url = await eventually("the service is ready", () => /^Ostler is ready: (\S+)\n/.exec(output)?.[1], 60_000);
    const api = apiAt(() => url);
    const file = join(folder, `${data}-writes`);
    await api.register({ writing: { does, file } });
    await api.commission(["writing"]);
    await eventually("the driver writes", () => existsSync(file) && statSync(file).size > 5);
    return { child, file };
  }

  const writesNoMore = (file: string) => async () => {
    const { size } = statSync(file);
    await delay(200);
    return statSync(file).size === size;
  };

  // A worker that loops does not notice the end of its service; where the kernel supports it, the kernel kills the
  // worker.
  test.each(["keeps writing", ...(process.platform === "linux" ? ["writes in a loop"] : [])])(
    "running driver that %s dies with its service",
    async (does) => {
      const { child, file } = await withRunningDriver(does.replaceAll(" ", "-"), does);
      child.kill("SIGKILL");
      await once(child, "exit");
      await eventually("it writes no more", writesNoMore(file), 5_000);
    },
    90_000,
  );

  test("running driver ends when its service has been paused for the lease time", async () => {
    const { child, file } = await withRunningDriver("paused", "keeps writing");
    child.kill("SIGSTOP");
    await eventually("it writes no more", writesNoMore(file), 20_000);
    child.kill("SIGKILL");
    await once(child, "exit");
  }, 90_000);
});
