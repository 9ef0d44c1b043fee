/** Flags of a node: maintenance, protection, retirement. Each refuses some verbs; none starts or interrupts work. */
import { afterAll, describe, expect, test } from "vitest";
import type { PowerAction } from "../../src/drivers/driver.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { heldIn } from "../support/held-work.ts";
import { changeNode } from "../support/change-node.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const retire = (node: TestNode) => ostler.engine.setRetired(ALICE, { ids: [node.id] }, "its lease ends");
const unretire = (node: TestNode) => ostler.engine.clearRetired(ALICE, { ids: [node.id] });
const protect = (node: TestNode, isProtected = true) => changeNode(ostler.engine, ALICE, node.id, { isProtected });
const maintain = (node: TestNode) => ostler.engine.setMaintenance(ALICE, { ids: [node.id] }, "new disk");
const endMaintenance = (node: TestNode) => ostler.engine.clearMaintenance(ALICE, { ids: [node.id] });
const codes = async (answer: ReturnType<typeof ostler.submit>) => (await answer).refusals.map(({ code }) => code);

describe("retired node", () => {
  test.each([
    ["COMMISSION", "MANAGEABLE"],
    ["COMMISSION", "ENROLLED"],
    ["DEPLOY", "AVAILABLE"],
    ["DEPLOY", "ACTIVE"],
    ["REDEPLOY", "ACTIVE"],
  ] as const)("retired node refuses %s from %s", async (kind, state) => {
    const node = await ostler.aNode().in(state).made();
    await retire(node);
    const before = await ostler.dump();
    expect((await ostler.submit(kind, [node])).refusals).toMatchObject([
      {
        code: "PROTECTED",
        nodeId: node.id,
        message: expect.stringContaining(`Node ${node.name} is retired. End the retirement with clearRetired`),
      },
    ]);
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  test("retired node is undeployed and cleaned like others, and ends MANAGEABLE instead of AVAILABLE", async () => {
    const node = await ostler.aNode().in("ACTIVE").made();
    await retire(node);
    const id = await ostler.begin("UNDEPLOY", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.story(node, id)).toEqual(["undeploy → UNDEPLOYING", "clean → CLEANING", "manage → MANAGEABLE"]);
  });

  test("retired node whose cleaning failed ends MANAGEABLE when it is cleaned again", async () => {
    const node = await ostler.aNode().in("CLEAN_FAILED").made();
    await retire(node);
    await ostler.operationEnds(await ostler.begin("CLEAN", [node]));
    expect(await ostler.nodeState(node)).toBe("MANAGEABLE");
  });

  test("retired node does not become AVAILABLE by a restart of earlier work", async () => {
    const node = await ostler
      .aNode()
      .in("ACTIVE")
      .scripted({ "deploy.remove_system": { fail: "stuck disk" } })
      .made();
    const id = await ostler.begin("UNDEPLOY", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    await retire(node);
    await changeNode(ostler.engine, ALICE, node.id, { settings: { steps: null } });
    const again = await ostler.engine.restart(ALICE, { work: { operationId: id } });
    expect(again.refusals).toEqual([]);
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
    expect(await ostler.nodeState(node)).toBe("MANAGEABLE");
  });

  test("retired node does not become AVAILABLE by the clean-up after a failure", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: gate.name, fail: "no space left", retryable: false } })
      .made();
    const id = await ostler.begin("DEPLOY", [node], { onFailure: "CLEAN_UP_FAILED" });
    await gate.arrivals();
    await retire(node);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.nodeState(node)).toBe("MANAGEABLE");
  });

  test("retired node accepts inspection, verification, power changes and decommission", async () => {
    const node = await ostler.aNode().in("MANAGEABLE").made();
    await retire(node);
    for (const kind of ["INSPECT", "MANAGE", "POWER", "DECOMMISSION"] as const) {
      const from = kind === "MANAGE" ? await ostler.aNode().in("AVAILABLE").made() : node;
      if (from !== node) await retire(from);
      expect(
        (
          await ostler.operationEnds(
            await ostler.begin(kind, [from], { options: kind === "POWER" ? { powerAction: "ON" } : {} }),
          )
        ).state,
      ).toBe("SUCCEEDED");
    }
    expect(await ostler.node(node)).toMatchObject({ state: "DECOMMISSIONED", retiredReason: "its lease ends" });
  });

  test("retired node is back in service when the flag is cleared", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    await retire(node);
    await unretire(node);
    expect((await ostler.node(node)).retiredReason).toBeNull();
    expect((await ostler.operationEnds(await ostler.begin("DEPLOY", [node]))).state).toBe("SUCCEEDED");
  });

  test("retired node that is being deployed is deployed to the end", async () => {
    const { gate, node, id } = await heldIn(ostler, "deploy.write_image");
    expect((await retire(node)).refusals).toEqual([]);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", retiredReason: "its lease ends" });
  });
});

describe("retirement", () => {
  test("retirement is set on all nodes of a request or on none, and starts no work", async () => {
    const [one, two] = await ostler.aNode().in("ACTIVE").times(2);
    const ids = [one?.id ?? "", two?.id ?? ""];
    expect(
      (await ostler.engine.setRetired(ALICE, { ids: [...ids, "0b7a1f0e-6d3c-4a0e-9a51-0d8d6a7f9f10"] }, "too old"))
        .refusals,
    ).toMatchObject([{ code: "NOT_FOUND" }]);
    expect((await ostler.engine.setRetired(ALICE, { ids }, "  ")).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "reason"] },
    ]);
    expect((await ostler.engine.setRetired(ALICE, { ids }, "x".repeat(1_001))).refusals).toMatchObject([
      { code: "INVALID_INPUT" },
    ]);
    expect((await ostler.node(one as TestNode)).retiredReason).toBeNull();
    expect(await ostler.engine.setRetired(ALICE, { ids }, "too old")).toEqual({
      nodeIds: ids,
      refusals: [],
      results: [],
    });
    expect(await ostler.node(two as TestNode)).toMatchObject({ retiredReason: "too old", state: "ACTIVE" });
  });
});

describe("protected node", () => {
  test.each(["OFF", "SOFT_OFF", "REBOOT"] as const)(
    "protected node refuses %s without a call to its BMC",
    async (powerAction) => {
      const node = await ostler.aNode().in("ACTIVE").made();
      await protect(node);
      expect((await ostler.submit("POWER", [node], { options: { powerAction } })).refusals).toMatchObject([
        { code: "PROTECTED", nodeId: node.id },
      ]);
      expect(ostler.journal(node)).toEqual([]);
    },
  );

  test("protected node accepts power ON", async () => {
    const node = await ostler.aNode().in("ACTIVE").made();
    await protect(node);
    expect(
      (await ostler.operationEnds(await ostler.begin("POWER", [node], { options: { powerAction: "ON" } }))).state,
    ).toBe("SUCCEEDED");
    expect(ostler.powerCalls(node)).toEqual(["ON"]);
  });

  test.each(["CLEAN", "COMMISSION", "DEPLOY", "DECOMMISSION"] as const)(
    "protected node refuses %s until the flag is cleared",
    async (kind) => {
      const node = await ostler.aNode().in("AVAILABLE").made();
      await protect(node);
      expect(await codes(ostler.submit(kind, [node]))).toEqual(["PROTECTED"]);
      await protect(node, false);
      expect((await ostler.operationEnds(await ostler.begin(kind, [node]))).state).toBe("SUCCEEDED");
    },
  );

  test.each(["UNDEPLOY", "REDEPLOY"] as const)("protected node refuses %s", async (kind) => {
    const node = await ostler.aNode().in("ACTIVE").made();
    await protect(node);
    expect(await codes(ostler.submit(kind, [node]))).toEqual(["PROTECTED"]);
  });

  test("protection during a run does not affect the run", async () => {
    const { gate, node, id } = await heldIn(ostler, "deploy.configure");
    const { revision } = await ostler.node(node);
    expect(
      (await changeNode(ostler.engine, ALICE, node.id, { ifRevision: revision, isProtected: true })).refusals,
    ).toEqual([]);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", isProtected: true });
  });
});

describe("node in maintenance", () => {
  test.each([
    ["CLEAN", "AVAILABLE"],
    ["COMMISSION", "ENROLLED"],
    ["DEPLOY", "AVAILABLE"],
    ["REDEPLOY", "ACTIVE"],
  ] as const)("node in maintenance refuses %s [R-033]", async (kind, state) => {
    const node = await ostler.aNode().in(state).made();
    await maintain(node);
    expect((await ostler.submit(kind, [node])).refusals).toMatchObject([
      {
        code: "IN_MAINTENANCE",
        nodeId: node.id,
        message: expect.stringContaining("End the maintenance with clearMaintenance"),
      },
    ]);
    expect(ostler.journal(node)).toEqual([]);
  });

  test.each([
    ["MANAGE", "ENROLLED"],
    ["INSPECT", "MANAGEABLE"],
    ["POWER", "ACTIVE"],
    ["UNDEPLOY", "ACTIVE"],
    ["DECOMMISSION", "ACTIVE"],
  ] as const)(
    "node in maintenance that kept the technician out accepts %s, and the run does not pause [R-033]",
    async (kind, state) => {
      const node = await ostler.aNode().in(state).made();
      await maintain(node);
      const id = await ostler.begin(kind, [node], kind === "POWER" ? { options: { powerAction: "REBOOT" } } : {});
      expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
      expect(await ostler.node(node)).toMatchObject({ maintenanceReason: "new disk" });
    },
  );

  test("node in maintenance refuses a restart, and accepts it when the flag is cleared", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.configure": { failures: 1, retryable: false } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    await maintain(node);
    expect((await ostler.engine.restart(ALICE, { work: { operationId: id } })).results).toMatchObject([
      { accepted: false, refusal: { code: "IN_MAINTENANCE" } },
    ]);
    await endMaintenance(node);
    const again = await ostler.engine.restart(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
  });

  test("node in maintenance can be updated and deleted", async () => {
    const node = await ostler.aNode().made();
    await maintain(node);
    expect((await changeNode(ostler.engine, ALICE, node.id, { labels: { rack: "2" } })).refusals).toEqual([]);
    expect((await ostler.engine.deleteNodes(ALICE, { ids: [node.id] })).refusals).toEqual([]);
  });
});

describe("node with several flags", () => {
  test("node with several flags is refused for one at a time: maintenance first, then protection, then retirement", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    await Promise.all([maintain(node), retire(node), protect(node)]);
    const power = (powerAction: PowerAction) => codes(ostler.submit("POWER", [node], { options: { powerAction } }));
    expect([await codes(ostler.submit("DEPLOY", [node])), await power("OFF")]).toEqual([
      ["IN_MAINTENANCE"],
      ["PROTECTED"],
    ]);
    await endMaintenance(node);
    expect([await codes(ostler.submit("DEPLOY", [node])), await power("OFF")]).toEqual([["PROTECTED"], ["PROTECTED"]]);
    await protect(node, false);
    expect((await ostler.submit("DEPLOY", [node])).refusals[0]?.message).toContain("is retired");
    expect(await power("OFF")).toEqual([]);
  });

  test("node with several flags keeps all that are set at the same moment", async () => {
    const node = await ostler.aNode().made();
    const { revision } = await ostler.node(node);
    await Promise.all([
      maintain(node),
      retire(node),
      protect(node),
      changeNode(ostler.engine, ALICE, node.id, { labels: { a: "1" } }),
    ]);
    expect(await ostler.node(node)).toMatchObject({
      maintenanceReason: "new disk",
      retiredReason: "its lease ends",
      isProtected: true,
      labels: { a: "1" },
      revision: revision + 4,
    });
  });
});
