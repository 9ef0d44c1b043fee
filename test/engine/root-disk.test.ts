/** The root disk is known, shown and checked before a disk is erased, by what the agent has found. */
import { afterAll, describe, expect, test } from "vitest";
import createAgent from "../../plugins/agent/index.ts";
import type { Driver, Json } from "../../src/drivers/driver.ts";
import { newestInventories } from "../../src/store/nodes/nodes.ts";
import type { JsonObject } from "../../src/store/records.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aStep, stepsOf } from "../support/driver.ts";
import { ScriptedMachine, benchDriver } from "../support/scripted-machine.ts";

const GIB = 2 ** 30;
const IMAGE = { image: { name: "debian" } };

const machines = new Map<string, ScriptedMachine>();
const machineOf = (name: string): ScriptedMachine => {
  const known = machines.get(name) ?? new ScriptedMachine(() => ostler.engine);
  machines.set(name, known);
  return known;
};
/** Inventories of the BMCs, by node. */
const bmcs = new Map<string, Json>();
const bench: Driver<never> = {
  ...benchDriver(machineOf),
  inspect: {
    ...stepsOf({
      ...aStep("collect_inventory", "inspect", async () => ({ kind: "done" })),
      run: async ({ node }) => ({ kind: "done", output: bmcs.get(node.name) ?? { serial: "S", disks: [] } }),
    }),
    withoutReboot: true,
  },
};

const ostler = await engineUnderTest({
  drivers: [bench, createAgent({ log: () => {} }) as unknown as Driver<never>],
  provisioning: { url: "http://10.0.0.1:4010", mediaFor: () => ({ version: "0.1.0", protocol: 2 }) },
});
await ostler.engine.registerImages(ALICE, [
  {
    name: "debian",
    url: "https://images.example/debian.raw.zst",
    format: "RAW_ZST",
    sizeBytes: 100,
    diskBytes: 10 * GIB,
    checksum: { algorithm: "SHA256", value: "ab".repeat(32) },
    architecture: "X64",
    bootMode: null,
    callsHome: true,
  },
]);
afterAll(async () => {
  for (const machine of machines.values()) machine.turn("OFF");
  await Promise.all([...machines.values()].map((machine) => machine.ended()));
  await ostler[Symbol.asyncDispose]();
});

const aDisk = (name: string, gibibytes: number, more: JsonObject = {}): JsonObject => ({
  id: name,
  name: `/dev/${name}`,
  serial: name.toUpperCase(),
  kind: "SSD",
  sizeBytes: gibibytes * GIB,
  removable: false,
  readOnly: false,
  ...more,
});

interface Disks {
  /** As the agent finds them. */
  readonly disks: readonly JsonObject[];
  readonly hints?: JsonObject;
  /** The agent's own inventory as a whole, in place of that of its disks. */
  readonly inventory?: JsonObject;
}

/** A node with a BMC, which the agent cleans and installs. */
async function aMachine(state: "MANAGEABLE" | "AVAILABLE", { disks, hints, inventory }: Disks) {
  const settings = hints ? { rootDisk: hints } : {};
  const made = ostler.aNode().in(state).with("bench");
  const node = await made.borrowing([{ kinds: ["clean", "deploy"], driver: "agent", settings }]).made();
  const machine = machineOf(node.name);
  Object.assign(machine.works, {
    inventory: async () => inventory ?? { disks: [...disks] },
    erase: async () => ({
      disks: disks.map(({ name, serial, sizeBytes }) => ({ path: name, serial, bytes: sizeBytes })),
    }),
    write_image: async () => ({ disk: { path: "/dev/sda" }, bytes: 1000 }),
    configure: async () => ({ partitions: 2, bootEntry: "0001" }),
  });
  return { node, machine };
}

const ends = async (kind: "INSPECT" | "COMMISSION", node: TestNode, more = {}) =>
  ostler.operationEnds(await ostler.begin(kind, [node], more));

const planOf = async (node: TestNode, more: JsonObject = {}) => {
  const answer = await ostler.submit("COMMISSION", [node], { ...IMAGE, dryRun: true, ...more });
  return { ...answer.results[0], code: answer.results[0]?.refusal?.code ?? null, planHash: answer.planHash };
};

describe("a node that the agent installs", () => {
  test("is inspected by its BMC, then by the agent, and each leaves an inventory; both are compared with erasures [R-811]", async () => {
    const { node, machine } = await aMachine("MANAGEABLE", { disks: [aDisk("sda", 20)] });
    bmcs.set(node.name, {
      serial: "S1",
      psus: 2,
      disks: [{ serial: "SDA", sizeBytes: 20 * GIB }],
      incomplete: ["disks"],
    });
    expect((await ends("COMMISSION", node, IMAGE)).state).toBe("SUCCEEDED");
    expect(machine.journal.filter((entry) => entry === "task inventory")).toHaveLength(1);
    const { reader } = ostler.database;
    const inventory = async (driver?: string) => (await newestInventories(reader, [node.id], driver)).get(node.id);
    expect(await inventory("bench")).toMatchObject({ driver: "bench", data: bmcs.get(node.name) });
    expect((await inventory())?.data).toEqual({ serial: "S1", psus: 2, disks: [aDisk("sda", 20)] });

    const unseen = await aMachine("MANAGEABLE", { disks: [aDisk("sda", 20)] });
    bmcs.set(unseen.node.name, { disks: [{ serial: "SDA" }, { serial: "BEHIND-RAID" }] });
    const { state, firstFailure } = await ends("COMMISSION", unseen.node, IMAGE);
    expect([state, firstFailure?.message]).toEqual(["FAILED", expect.stringContaining("serial BEHIND-RAID")]);
  });

  test("is inspected in service without the agent, which would restart it [R-811]", async () => {
    const { node, machine } = await aMachine("AVAILABLE", { disks: [] });
    expect((await ends("INSPECT", node)).state).toBe("SUCCEEDED");
    expect(machine.journal).toEqual([]);
    expect(await ostler.nodeState(node)).toBe("AVAILABLE");
  });

  test.each<[string, Disks, string]>([
    [
      "hints that match two disks",
      { disks: [aDisk("sda", 20), aDisk("sdb", 30)], hints: { kind: "SSD" } },
      "DISK_AMBIGUOUS",
    ],
    ["hints that match none", { disks: [aDisk("sda", 20)], hints: { serial: "OTHER" } }, "DISK_NOT_FOUND"],
    ["no disk of 4 GiB", { disks: [aDisk("sda", 2), aDisk("sdb", 3)] }, "DISK_NOT_FOUND"],
    ["no disk but a removable one", { disks: [aDisk("mmcblk0", 20, { removable: true })] }, "DISK_NOT_FOUND"],
    [
      "an image that the default disk is too small for",
      { disks: [aDisk("sda", 8), aDisk("sdb", 30)] },
      "IMAGE_TOO_LARGE",
    ],
  ])("with %s fails after its inspection, and nothing is erased [R-812]", async (_what, disks, code) => {
    const { node, machine } = await aMachine("MANAGEABLE", disks);
    const id = await ostler.begin("COMMISSION", [node], IMAGE);
    const { state, firstFailure } = await ostler.operationEnds(id);
    expect([state, firstFailure?.code]).toEqual(["FAILED", code]);
    expect(machine.journal.filter((entry) => entry.startsWith("task"))).toEqual(["task inventory"]);
    expect(await ostler.nodeState(node)).toBe("MANAGEABLE");
    const runs = await ostler.test.sql`select purpose from runs where operation_id = ${id}`;
    expect(runs.map(({ purpose }) => purpose)).toEqual(["WORK"]);
    // From now on the plan says so.
    const again = await ostler.submit("COMMISSION", [node], IMAGE);
    expect(again.refusals).toMatchObject([{ code }]);
    expect(again.refusals[0]?.message).toContain(node.name);
  });

  test("whose commission failed for its hints goes on with those of a restart [R-812]", async () => {
    const { node } = await aMachine("MANAGEABLE", {
      disks: [aDisk("sda", 20), aDisk("sdb", 30)],
      hints: { kind: "SSD" },
    });
    const id = await ostler.begin("COMMISSION", [node], IMAGE);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    const request = { work: { operationId: id }, variables: { root_disk: { serial: "SDB" } } };
    const { refusals, results } = await ostler.engine.restart(ALICE, request);
    expect([refusals, results[0]?.rootDisk?.serial]).toEqual([[], "SDB"]);
    await ostler.nodeBecomes(node, "ACTIVE");
  });
});

describe("the plan", () => {
  const disks = [aDisk("sdc", 900), aDisk("sda", 20), aDisk("sdb", 2)];

  async function anInspectedMachine(hints?: JsonObject) {
    const { node } = await aMachine("MANAGEABLE", { disks, ...(hints && { hints }) });
    expect((await ends("INSPECT", node)).state).toBe("SUCCEEDED");
    return node;
  }

  test("has the root disk and why it was chosen, or a refusal [R-813]", async () => {
    const node = await anInspectedMachine();
    expect((await planOf(node)).rootDisk).toMatchObject({
      name: "/dev/sda",
      serial: "SDA",
      sizeBytes: 20 * GIB,
      why: "the smallest disk of at least 4 GiB",
    });
    const hinted = (root_disk: JsonObject) => planOf(node, { variables: { root_disk } });
    expect((await hinted({ serial: "sdc" })).rootDisk?.serial).toBe("SDC");
    expect((await hinted({ kind: "SSD" })).code).toBe("DISK_AMBIGUOUS");
    expect((await hinted({ kind: "NVME" })).code).toBe("DISK_NOT_FOUND");
    expect((await hinted({ path: "/dev/sdb" })).code).toBe("IMAGE_TOO_LARGE");
  });

  test("of a node that only its BMC has inspected has no root disk, and no refusal for the hints [R-813]", async () => {
    const { node } = await aMachine("AVAILABLE", { disks, hints: { serial: "OTHER" } });
    bmcs.set(node.name, { disks: [{ serial: "SDA", sizeBytes: 20 * GIB }] });
    expect((await ends("INSPECT", node)).state).toBe("SUCCEEDED");
    expect(await planOf(node)).toMatchObject({ code: null, rootDisk: null });
  });

  test("is stale when another disk would be chosen [R-813]", async () => {
    const node = await anInspectedMachine();
    const { planHash } = await planOf(node);
    const smaller = { disks: [...disks, aDisk("sdd", 12)] };
    await ostler.test.sql`
      insert into inventories (id, node_id, run_id, driver, data)
      values (gen_random_uuid(), ${node.id}, gen_random_uuid(), 'agent', ${JSON.stringify(smaller)}::text::jsonb)`;
    const { refusals } = await ostler.submit("COMMISSION", [node], { ...IMAGE, planHash: planHash ?? "" });
    expect(refusals).toMatchObject([{ code: "STALE_REVISION" }]);
    expect((await planOf(node)).rootDisk?.serial).toBe("SDD");
  });
});
