/** The driver `agent` in an engine, with scripted machines. */
import { afterAll, describe, expect, test } from "vitest";
import createAgent from "../../plugins/agent/index.ts";
import type { Driver, Json } from "../../src/drivers/driver.ts";
import type { Provisioning } from "../../src/engine/input/agent-media.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { ScriptedMachine, benchDriver } from "../support/scripted-machine.ts";

const PROVISIONING: Provisioning = {
  url: "http://10.0.0.1:4010",
  mediaFor: () => ({ version: "0.1.0", protocol: 2 }),
};
const USER_DATA = "#cloud-config\npassword: canary-of-user-data\n";

const machines = new Map<string, ScriptedMachine>();
const machineOf = (name: string): ScriptedMachine => {
  const known = machines.get(name) ?? new ScriptedMachine(() => ostler.engine);
  machines.set(name, known);
  return known;
};

const ostler = await engineUnderTest({
  drivers: [benchDriver(machineOf), createAgent({ log: () => {} }) as unknown as Driver<never>],
  provisioning: PROVISIONING,
});
await ostler.engine.registerImages(ALICE, [
  {
    name: "debian",
    url: "https://images.example/debian.raw.zst",
    format: "RAW_ZST",
    sizeBytes: 100,
    diskBytes: 1000,
    checksum: { algorithm: "SHA256", value: "ab".repeat(32) },
    architecture: "X64",
    bootMode: null,
    userData: USER_DATA,
    callsHome: true,
  },
]);
afterAll(async () => {
  for (const machine of machines.values()) machine.turn("OFF");
  await Promise.all([...machines.values()].map((machine) => machine.ended()));
  await ostler[Symbol.asyncDispose]();
});

const IMAGE = { image: { name: "debian" } };
const DISK = { path: "/dev/vda", serial: "D1", wwn: null, bytes: 9000 };

async function aMachine(state: "MANAGEABLE" | "AVAILABLE") {
  const node = await ostler
    .aNode()
    .in(state)
    .with("bench")
    .borrowing([{ kinds: ["inspect", "clean", "deploy"], driver: "agent", settings: {} }])
    .made();
  const machine = machineOf(node.name);
  Object.assign(machine.works, {
    inventory: async () => ({ serial: "S-1", model: "M-1", disks: [{ name: "vda", sizeBytes: 9000 }] }),
    erase: async () => ({ disks: [DISK] }),
    write_image: async () => ({ disk: DISK, bytes: 1000, seconds: 1, restarts: 0 }),
    configure: async () => ({ partitions: 2, bootEntry: "0001" }),
  });
  return { node, machine };
}

async function succeeds(kind: "INSPECT" | "COMMISSION" | "UNDEPLOY" | "DEPLOY", node: TestNode, more = {}) {
  const id = await ostler.begin(kind, [node], more);
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  return ostler.steps(await ostler.run(id, node));
}

const namesOf = (steps: Awaited<ReturnType<typeof succeeds>>) => steps.map(({ name }) => name);
const outputOf = (steps: Awaited<ReturnType<typeof succeeds>>, name: string): Json =>
  steps.find((step) => step.name === name)?.attempts.at(-1)?.output ?? null;

describe("driver agent in an engine", () => {
  test("a machine is inspected, cleaned and deployed through one boot of the agent, and torn down [R-490, R-498]", async () => {
    const { node, machine } = await aMachine("MANAGEABLE");
    const commissioned = await succeeds("COMMISSION", node, IMAGE);
    expect(namesOf(commissioned)).toEqual(
      expect.arrayContaining(["inspect.collect_inventory", "clean.erase_disks", "deploy.await_call_home"]),
    );
    expect(machine.journal).toEqual([
      "ON",
      "task inventory",
      "task erase",
      "task erase",
      "task write_image",
      "task configure",
      "OFF",
      "ON",
    ]);
    expect([machine.running, machine.medium]).toEqual(["SYSTEM", null]);
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", model: "M-1" });
    expect(outputOf(commissioned, "deploy.await_call_home")).toMatchObject({
      calledHome: true,
      hostName: "installed",
      hostKeys: ["ssh-ed25519 AAAA root@installed"],
    });
    expect(namesOf(await succeeds("UNDEPLOY", node))).toContain("deploy.erase_disks");
    expect(await ostler.nodeState(node)).toBe("AVAILABLE");
    const [shown] = await ostler.test.sql<{ text: string }[]>`
      select string_agg(concat(output, memo, failure), ' ') as text from attempts`;
    expect(shown?.text).not.toContain("canary-of-user-data");
  });

  test("an abort while the image is written ends the agent's work and its session, and switches the machine off", async () => {
    const { node, machine } = await aMachine("AVAILABLE");
    const stopped = Promise.withResolvers<void>();
    machine.works["write_image"] = (_args, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => {
          stopped.resolve();
          reject(new Error("CANCELLED"));
        });
      });
    const id = await ostler.begin("DEPLOY", [node], IMAGE);
    await eventually("the image is being written", () => machine.journal.includes("task write_image"));
    await ostler.engine.abort(ALICE, { work: { operationId: id }, reason: "enough" });
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    await stopped.promise;
    await machine.ended();
    expect([machine.power, machine.medium]).toEqual(["OFF", null]);
    const [session] = await ostler.test.sql<{ open: boolean; task: unknown }[]>`
      select ended_at is null as open, task from agent_sessions where node_id = ${node.id}`;
    expect(session).toEqual({ open: false, task: null });
  });

  test("an error of the agent fails the run with its kind and the remedy [R-494]", async () => {
    const { node, machine } = await aMachine("AVAILABLE");
    machine.works["write_image"] = () => Promise.reject(new Error("IMAGE_TOO_LARGE"));
    const id = await ostler.begin("DEPLOY", [node], IMAGE);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    const { lastError } = await ostler.node(node);
    expect(lastError?.message).toContain("Choose a smaller image or a larger disk.");
    await eventually("the machine is off", () => machine.power === "OFF");
  });

  test("a system that calls home while its deployment is stopped is not installed again by the restart [R-497]", async () => {
    const { node, machine } = await aMachine("AVAILABLE");
    const reached = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    machine.callsHome = false;
    machine.beforeDisk = () => {
      reached.resolve();
      return gate.promise;
    };
    const id = await ostler.begin("DEPLOY", [node], IMAGE);
    await reached.promise;
    await ostler.engine.stop(ALICE, { work: { operationId: id }, reason: "later" });
    gate.resolve();
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect(await machine.callHome()).toBe(true);
    await restarted(id, node);
    expect(machine.journal.filter((entry) => entry === "task write_image")).toHaveLength(1);
    expect(machine.running).toBe("SYSTEM");
  });

  test("a machine whose deployment was aborted while it waited for the call home is started from its disk by the restart [R-497]", async () => {
    const { node, machine } = await aMachine("AVAILABLE");
    machine.callsHome = false;
    const id = await ostler.begin("DEPLOY", [node], IMAGE);
    await eventually("the system runs", () => machine.running === "SYSTEM");
    await ostler.nodeBecomes(node, "DEPLOY_WAIT");
    await ostler.engine.abort(ALICE, { work: { operationId: id }, reason: "enough" });
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(machine.power).toBe("OFF");
    machine.callsHome = true;
    await restarted(id, node);
    expect(machine.journal.filter((entry) => entry === "task write_image")).toHaveLength(1);
    expect(machine.running).toBe("SYSTEM");
  });
});

async function restarted(operationId: string, node: TestNode): Promise<void> {
  const answer = await ostler.engine.restart(ALICE, { work: { operationId } });
  expect(answer.refusals).toEqual([]);
  await ostler.nodeBecomes(node, "ACTIVE");
}
