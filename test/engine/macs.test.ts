/** MAC addresses of nodes: given by requests, taken over from inspections, and of one node each. */
import { afterAll, describe, expect, test } from "vitest";
import type { Json } from "../../src/drivers/driver.ts";
import { inventoryMacs } from "../../src/engine/input/machine-identities.ts";
import { nodeKeys } from "../../src/store/nodes/nodes.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { macOf } from "../../src/runtime/mac-address.ts";
import type { Provisioning } from "../../src/engine/input/agent-media.ts";
import { changeNode } from "../support/change-node.ts";

/** The network interfaces that the machine of a node reports. */
const interfacesOf = new Map<string, Json>();

const DRIVERS = [
  aDriver("nics", {
    inspect: {
      withoutReboot: true,
      ...stepsOf(
        aStep("look", "inspect", async ({ node }) => ({
          kind: "done",
          output: { model: "M1", networkInterfaces: interfacesOf.get(node.name) ?? [] },
        })),
      ),
    },
    usesAgent: true,
    clean: stepsOf(
      aStep("boot", "clean", async ({ memo, agent }) => {
        if (memo === null)
          await agent.open({ medium: "NETWORK", architecture: "X64", kernelArguments: ["console=ttyS0"] });
        return memo === null ? { kind: "wait", callback: true, seconds: 600, memo: 1 } : { kind: "done" };
      }),
    ),
  }),
];
const PROVISIONING: Provisioning = {
  url: "http://10.0.0.1:4010",
  mediaFor: () => ({ version: "1.0.0", protocol: 2 }),
};

const ostler = await engineUnderTest({ drivers: DRIVERS, provisioning: PROVISIONING });
afterAll(() => ostler[Symbol.asyncDispose]());

let count = 0;
/** A MAC that no other test uses. */
const aMac = () => `52:54:00:00:${String((count += 1)).padStart(2, "0")}:0a`;
const nic = (mac: string) => ({ name: "eth0", mac });
const macsOf = async (node: TestNode) => (await ostler.node(node)).macs;

async function register(name: string, macs: readonly string[]) {
  return ostler.engine.registerNodes(ALICE, [{ name, driver: "nics", macs }]);
}

async function inspected(node: TestNode, macs: readonly string[]): Promise<string> {
  interfacesOf.set(node.name, macs.map(nic));
  const id = await ostler.begin("INSPECT", [node]);
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  return id;
}

describe("MACs that a request gives", () => {
  test("MACs that a request gives are stored in one form, sorted", async () => {
    const [one, other] = [aMac(), aMac()];
    const { nodeIds } = await register("forms", [other.toUpperCase(), one.replaceAll(":", "-")]);
    expect(await macsOf({ id: nodeIds[0] ?? "", name: "forms" })).toEqual([one, other]);
  });

  test.each(["", "52:54:00:00:00", "52:54:00:00:00:0g", "00:00:00:00:00:00", "FF-FF-FF-FF-FF-FF", "x".repeat(99)])(
    "MAC %j is refused",
    async (mac) => {
      const { refusals } = await register("invalid", [mac]);
      expect(refusals).toMatchObject([{ code: "INVALID_INPUT", path: ["input", "nodes", "0", "macs", "0"] }]);
      expect(macOf(mac)).toBeNull();
    },
  );

  test("MACs that a request gives twice to a node, to two nodes, or too many, are refused", async () => {
    const mac = aMac();
    expect((await register("twice", [mac, mac.toUpperCase()])).refusals).toMatchObject([
      { code: "INVALID_INPUT", message: `The MAC address ${mac} is given twice.` },
    ]);
    const both = ["first", "second"].map((name) => ({ name, driver: "nics", macs: [mac] }));
    expect((await ostler.engine.registerNodes(ALICE, both)).refusals).toMatchObject([
      {
        code: "INVALID_INPUT",
        message: `The MAC address ${mac} is given to node first and to node second. Give it to one of them.`,
      },
    ]);
    expect(
      (
        await register(
          "many",
          Array.from({ length: 65 }, () => mac),
        )
      ).refusals,
    ).toMatchObject([{ code: "INVALID_INPUT", message: "A node has at most 64 MAC addresses; remove some." }]);
  });

  test("a MAC of another node is refused with the names of both, when registering and when updating [R-467]", async () => {
    const mac = aMac();
    const owner = await register("owner", [mac]);
    const message = "because node owner has it. Remove it there with updateNodes, or leave it out.";
    expect((await register("thief", [mac])).refusals).toEqual([
      {
        code: "MAC_TAKEN",
        message: `Node thief cannot have the MAC address ${mac}, ${message}`,
        nodeId: owner.nodeIds[0],
        path: ["input", "nodes", "0", "macs", "0"],
      },
    ]);
    const node = await ostler.aNode().with("nics").made();
    for (const change of [{ macs: [mac] }, { macs: [mac], settings: {}, name: "renamed" }])
      expect((await changeNode(ostler.engine, ALICE, node.id, change)).refusals).toMatchObject([
        { code: "MAC_TAKEN", nodeId: owner.nodeIds[0], path: ["input", "macs", "0"] },
      ]);
    expect(await macsOf(node)).toEqual([]);
  });

  test("of many requests at the same time for one MAC, one gets it [R-467]", async () => {
    const mac = aMac();
    const answers = await Promise.all(Array.from({ length: 8 }, (_, index) => register(`racer-${index}`, [mac])));
    expect(answers.filter(({ refusals }) => refusals.length === 0)).toHaveLength(1);
    expect(answers.flatMap(({ refusals }) => refusals.map(({ code }) => code))).toEqual(Array(7).fill("MAC_TAKEN"));
  });

  test("an update replaces the MACs and raises the revision once; null removes them, and others can have them", async () => {
    const [one, other] = [aMac(), aMac()];
    const { nodeIds } = await register("replaced", [one]);
    const node = { id: nodeIds[0] ?? "", name: "replaced" };
    expect((await changeNode(ostler.engine, ALICE, node.id, { macs: [other] })).refusals).toEqual([]);
    expect(await ostler.node(node)).toMatchObject({ macs: [other], revision: 2 });
    await changeNode(ostler.engine, ALICE, node.id, { macs: [other.toUpperCase()] });
    await changeNode(ostler.engine, ALICE, node.id, { description: "x" });
    expect(await ostler.node(node)).toMatchObject({ macs: [other], revision: 3 });
    await changeNode(ostler.engine, ALICE, node.id, { macs: null });
    expect(await macsOf(node)).toEqual([]);
    expect((await register("heir", [one, other])).refusals).toEqual([]);
  });

  test("the MACs of a deleted node are free", async () => {
    const mac = aMac();
    const { nodeIds } = await register("deleted", [mac]);
    await ostler.engine.deleteNodes(ALICE, { ids: nodeIds });
    expect((await register("next", [mac])).refusals).toEqual([]);
  });

  test("nodes are found by a MAC, in any usual form", async () => {
    const mac = aMac();
    const { nodeIds } = await register("found", [mac, aMac()]);
    for (const given of [mac, mac.toUpperCase(), mac.replaceAll(":", "")])
      expect((await nodeKeys(ostler.database.reader, { mac: given })).map(({ id }) => id)).toEqual(nodeIds);
    expect(await nodeKeys(ostler.database.reader, { mac: "nonsense" })).toEqual([]);
  });
});

describe("MACs of an inspection", () => {
  test("MACs of an inspection are added to those that were given, and replaced by the next inspection", async () => {
    const [given, first, second] = [aMac(), aMac(), aMac()];
    const node = await ostler.aNode().in("MANAGEABLE").with("nics").made();
    await changeNode(ostler.engine, ALICE, node.id, { macs: [given] });
    await inspected(node, [first.toUpperCase(), given]);
    expect(await macsOf(node)).toEqual([given, first]);
    await inspected(node, [second]);
    expect(await macsOf(node)).toEqual([given, second]);
    await inspected(node, []);
    expect(await macsOf(node)).toEqual([given, second]);
  });

  test("MACs of an inspection that another node has stay there, and the step log names both nodes [R-467]", async () => {
    const [shared, own] = [aMac(), aMac()];
    const [one, other] = (await ostler.aNode().in("MANAGEABLE").with("nics").times(2)) as [TestNode, TestNode];
    await inspected(one, [shared]);
    const id = await inspected(other, [own, shared]);
    expect([await macsOf(one), await macsOf(other)]).toEqual([[shared], [own]]);
    const { id: runId } = await ostler.run(id, other);
    const lines = await ostler.test.sql<{ text: string }[]>`select text from step_log where run_id = ${runId}`;
    expect(lines.map(({ text }) => text)).toEqual([
      `MAC address ${shared} of node ${other.name} stays with node ${one.name}, which has it already. If it belongs to this machine, remove it there with updateNodes, and inspect this node again.`,
    ]);
  });

  test("MACs of inspections of many nodes at the same time are each of one node [R-467]", async () => {
    const mac = aMac();
    const nodes = await ostler.aNode().in("MANAGEABLE").with("nics").times(12);
    const own = new Map(nodes.map((node) => [node.id, aMac()]));
    for (const node of nodes) interfacesOf.set(node.name, [nic(mac), nic(own.get(node.id) ?? "")]);
    expect((await ostler.operationEnds(await ostler.begin("INSPECT", nodes))).state).toBe("SUCCEEDED");
    const found = await Promise.all(nodes.map(macsOf));
    expect(found.filter((macs) => macs.includes(mac))).toHaveLength(1);
    for (const [index, node] of nodes.entries()) expect(found[index]).toContain(own.get(node.id));
  });

  test.each([
    [null],
    [{}],
    [{ networkInterfaces: "eth0" }],
    [{ networkInterfaces: [null, 1, {}, { mac: null }, { mac: 7 }, { mac: "nonsense" }] }],
  ])("MACs of an inspection: %j has none", (output) => {
    expect(inventoryMacs(output)).toEqual([]);
  });
});

describe("network boot", () => {
  const booting = async () => {
    const mac = aMac();
    const node = await ostler.aNode().in("AVAILABLE").with("nics").made();
    await changeNode(ostler.engine, ALICE, node.id, { macs: [mac] });
    const id = await ostler.begin("CLEAN", [node]);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    return { mac, node, id };
  };
  const report = (instance: string) =>
    ({
      instance,
      version: "1.0.0",
      protocol: 2,
      architecture: "X64",
      bootMode: "BIOS",
      address: "10.0.0.8",
      macs: [],
    }) as const;

  test("network boot: a machine is known by its MAC while its session waits, and gets a new secret each time [R-468]", async () => {
    const { agents } = ostler.engine;
    const { mac, id } = await booting();
    expect(await agents.networkBoot({ macs: [aMac()], address: "10.0.0.7", isLeased: false })).toBeNull();
    expect(await agents.networkBoot({ macs: [], address: "10.0.0.7", isLeased: false })).toBeNull();
    await agents.leased(mac.toUpperCase());
    const first = await agents.networkBoot({
      macs: ["nonsense", mac.replaceAll(":", "-")],
      address: "10.0.0.7",
      isLeased: false,
    });
    const second = await agents.networkBoot({ macs: [mac], address: "10.0.0.7", isLeased: false });
    expect(second).toMatchObject({ architecture: "X64", kernelArguments: ["console=ttyS0"], network: null });
    if (!first || !second) throw new Error("The machine is unknown.");
    expect(second.session).toBe(first.session);
    await agents.reached(second.session, "KERNEL");
    expect(await agents.poll(first, report("one"))).toBe("UNKNOWN");
    expect(await agents.poll(second, report("one"))).toEqual({ do: "wait", seconds: 2 });
    // The agent has come: the machine is not booted again.
    expect(await agents.networkBoot({ macs: [mac], address: "10.0.0.7", isLeased: false })).toBeNull();
    expect(await agents.medium(second)).toBeNull();
    await ostler.operationEnds(id);
    const [row] = await ostler.test.sql<{ seen: boolean }[]>`
      select dhcp_at is not null and script_at is not null and kernel_at is not null as seen
      from agent_sessions where id = ${second.session}`;
    expect(row?.seen).toBe(true);
  });

  test("network boot: a machine of an ended run is not known [R-468]", async () => {
    const { mac, id } = await booting();
    await ostler.engine.abort(ALICE, { work: { operationId: id }, reason: "enough" });
    await ostler.operationEnds(id);
    expect(await ostler.engine.agents.networkBoot({ macs: [mac], address: "10.0.0.7", isLeased: false })).toBeNull();
  });

  test("network boot of a node without a MAC fails, and the failure says what to do", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("nics").made();
    const id = await ostler.begin("CLEAN", [node]);
    await eventually("it has failed", async () => (await ostler.operation(id)).finishedAt !== null);
    expect((await ostler.run(id, node)).failure).toMatchObject({
      code: "BACKEND_FAILED",
      kind: "UNSUPPORTED",
      message: expect.stringContaining("has no MAC address, by which it is known") as string,
    });
  });
});
