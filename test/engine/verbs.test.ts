/**
 * The verbs other than commission: decommission, inspection in place, power, deployment and undeployment, maintenance.
 */
import { afterAll, describe, expect, test } from "vitest";
import { newestInventories } from "../../src/store/nodes/nodes.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { heldIn } from "../support/held-work.ts";
import { changeNode } from "../support/change-node.ts";
import { fakeSteps } from "../support/fake-steps.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

describe("decommission", () => {
  test("decommission of an ACTIVE node undeploys it, cleans it, and ends DECOMMISSIONED", async () => {
    const node = await ostler.aNode().in("ACTIVE").made();
    const id = await ostler.begin("DECOMMISSION", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(ostler.entered(node)).toEqual(fakeSteps("undeploy", "clean"));
    expect(await ostler.story(node, id)).toEqual([
      "undeploy → UNDEPLOYING",
      "clean → CLEANING",
      "retire → DECOMMISSIONED",
    ]);
    expect((await ostler.node(node)).stage).toBe("NONE");
  });

  test("decommission continues after failures, records them, and ends DECOMMISSIONED [R-028, R-029]", async () => {
    const node = await ostler
      .aNode()
      .in("ACTIVE")
      .scripted({ "deploy.remove_system": { fail: "no agent" }, "clean.erase_disks": { throws: "dead disk" } })
      .made();
    const id = await ostler.begin("DECOMMISSION", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED_WITH_ERRORS");
    expect(await ostler.nodeState(node)).toBe("DECOMMISSIONED");
    const run = await ostler.run(id, node);
    expect(run).toMatchObject({
      state: "SUCCEEDED",
      errors: [{ step: "deploy.remove_system" }, { step: "clean.erase_disks" }],
    });
    expect(ostler.entered(node)).toEqual(fakeSteps("undeploy", "clean"));
  });

  test("decommission of an unreachable node ends DECOMMISSIONED [R-028]", async () => {
    const node = await ostler.aNode().in("ACTIVE").with("fake", { dead: true }).made();
    const id = await ostler.begin("DECOMMISSION", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED_WITH_ERRORS");
    expect(await ostler.nodeState(node)).toBe("DECOMMISSIONED");
  });

  test("decommission of a new node ends at once without a step", async () => {
    const node = await ostler.aNode().made();
    const id = await ostler.begin("DECOMMISSION", [node]);
    await ostler.operationEnds(id);
    expect(await ostler.story(node, id)).toEqual(["retire → DECOMMISSIONED"]);
    expect(ostler.journal(node)).toEqual([]);
  });

  test("node that has DISAPPEARED is not deployed, nor is its work restarted, without force [R-030]", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { failures: 1, retryable: false } })
      .made();
    const failed = await ostler.begin("DEPLOY", [node]);
    await ostler.operationEnds(failed);
    await ostler.test.sql`update nodes set presence = 'DISAPPEARED' where id = ${node.id}`;
    const refused = { refusals: [{ code: "INVALID_STATE", message: expect.stringContaining("force: true") }] };
    expect(await ostler.submit("DEPLOY", [node])).toMatchObject(refused);
    const work = { operationId: failed };
    expect(await ostler.engine.restart(ALICE, { work })).toMatchObject(refused);
    const { operationId } = await ostler.engine.restart(ALICE, { work, force: true });
    expect((await ostler.operationEnds(operationId ?? "")).state).toBe("SUCCEEDED");
  });

  test("decommission of a DISAPPEARED node is refused without force [R-030]", async () => {
    const node = await ostler.aNode().in("ACTIVE").made();
    await ostler.test.sql`update nodes set presence = 'DISAPPEARED' where id = ${node.id}`;
    expect((await ostler.submit("DECOMMISSION", [node])).refusals).toMatchObject([{ code: "INVALID_STATE" }]);
    await ostler.operationEnds(await ostler.begin("DECOMMISSION", [node], { options: { force: true } }));
    expect(await ostler.nodeState(node)).toBe("DECOMMISSIONED");
  });
});

describe("inspection", () => {
  test("inspection in place of an ACTIVE node stores a new inventory and keeps the state [R-019]", async () => {
    const node = await ostler.aNode().in("ACTIVE").with("fake", { serial: "first" }).made();
    await ostler.operationEnds(await ostler.begin("INSPECT", [node]));
    await changeNode(ostler.engine, ALICE, node.id, { settings: { serial: "second" } });
    const id = await ostler.begin("INSPECT", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.story(node, id)).toEqual([]);
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", stage: "DEPLOYED" });
    expect((await newestInventories(ostler.database.reader, [node.id])).get(node.id)?.data).toMatchObject({
      serial: "second",
    });
    expect(await ostler.test.sql`select count(*)::int from inventories where node_id = ${node.id}`).toEqual([
      { count: 2 },
    ]);
  });

  test("inspection in place that fails keeps the state and stores the error with the node [R-019]", async () => {
    const node = await ostler
      .aNode()
      .in("ACTIVE")
      .scripted({ "inspect.collect_inventory": { fail: "no answer" } })
      .made();
    const id = await ostler.begin("INSPECT", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.node(node)).toMatchObject({
      state: "ACTIVE",
      lastError: { step: "inspect.collect_inventory" },
    });
    expect(await ostler.story(node, id)).toEqual([]);
  });

  test("inspection in place that parks and resumes keeps the state", async () => {
    const node = await ostler
      .aNode()
      .in("ACTIVE")
      .scripted({ "inspect.collect_inventory": { waitSeconds: 0.1 } })
      .made();
    const id = await ostler.begin("INSPECT", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.story(node, id)).toEqual([]);
  });

  test("inspection of a node in INSPECT_FAILED ends MANAGEABLE", async () => {
    const node = await ostler.aNode().in("INSPECT_FAILED").made();
    await ostler.operationEnds(await ostler.begin("INSPECT", [node]));
    expect(await ostler.nodeState(node)).toBe("MANAGEABLE");
  });
});

describe("power verb", () => {
  const power = async (node: TestNode, powerAction: "ON" | "OFF" | "SOFT_OFF" | "REBOOT") => {
    const id = await ostler.begin("POWER", [node], { options: { powerAction } });
    return ostler.operationEnds(id);
  };

  test("power verb changes the power with one call, and with none if it is in that state already [R-035]", async () => {
    const node = await ostler.aNode().in("ACTIVE").made();
    for (const action of ["ON", "ON", "OFF", "SOFT_OFF", "OFF", "ON", "SOFT_OFF"] as const)
      expect((await power(node, action)).state).toBe("SUCCEEDED");
    expect(ostler.powerCalls(node)).toEqual(["ON", "OFF", "ON", "SOFT_OFF"]);
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", powerState: "OFF" });
  });

  test("power verb REBOOT always sends a power cycle [R-035]", async () => {
    const node = await ostler.aNode().in("ACTIVE").made();
    await power(node, "REBOOT");
    await power(node, "REBOOT");
    expect(ostler.powerCalls(node)).toEqual(["REBOOT", "REBOOT"]);
    expect((await ostler.node(node)).powerState).toBe("ON");
  });

  test("power verb on a node with a silent BMC fails and keeps the state", async () => {
    const node = await ostler.aNode().in("ACTIVE").with("fake", { dead: true }).made();
    expect(await power(node, "OFF")).toMatchObject({
      state: "FAILED",
      firstFailure: { code: "BACKEND_FAILED", kind: "UNREACHABLE", step: "power.power_off" },
    });
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", lastError: { kind: "UNREACHABLE" } });
  });

  test("power verb changes no node state and writes no transition", async () => {
    const node = await ostler.aNode().made();
    await power(node, "ON");
    expect(await ostler.story(node)).toEqual(["register → ENROLLED"]);
  });
});

describe("deployment", () => {
  test("deployment of an ACTIVE node installs it again, and undeployment ends AVAILABLE [R-027]", async () => {
    const node = await ostler.aNode().in("ACTIVE").made();
    await ostler.operationEnds(await ostler.begin("DEPLOY", [node], { options: { reinstall: true } }));
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", stage: "DEPLOYED" });
    const id = await ostler.begin("UNDEPLOY", [node]);
    await ostler.operationEnds(id);
    expect(await ostler.story(node, id)).toEqual(["undeploy → UNDEPLOYING", "clean → CLEANING", "done → AVAILABLE"]);
    expect(await ostler.node(node)).toMatchObject({ state: "AVAILABLE", stage: "NONE", powerState: "OFF" });
  });

  test("deployment passes the variables to its steps", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [node], { variables: { image: "debian-13" } });
    await ostler.operationEnds(id);
    const steps = await ostler.steps(await ostler.run(id, node));
    expect(steps.map(({ attempts: [attempt] }) => attempt?.output)).toEqual([
      { image: "debian-13" },
      { image: "debian-13" },
      null,
      { variables: { image: "debian-13" } },
    ]);
  });
});

describe("manageNodes", () => {
  test.each(["ENROLLED", "AVAILABLE", "INSPECT_FAILED", "CLEAN_FAILED", "STOPPED", "DECOMMISSIONED"] as const)(
    "manageNodes of a node that is %s verifies it and ends MANAGEABLE [R-018]",
    async (state) => {
      const node = await ostler.aNode().in(state).made();
      expect((await ostler.operationEnds(await ostler.begin("MANAGE", [node]))).state).toBe("SUCCEEDED");
      expect(await ostler.nodeState(node)).toBe("MANAGEABLE");
    },
  );

  test("manageNodes that fails leaves an AVAILABLE node as it was [R-018]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("fake", { refusesLogin: true }).made();
    expect((await ostler.operationEnds(await ostler.begin("MANAGE", [node]))).state).toBe("FAILED");
    expect(await ostler.node(node)).toMatchObject({
      state: "AVAILABLE",
      lastError: { message: expect.stringContaining("refuses the login") },
    });
  });
});

describe("maintenance flag", () => {
  test("maintenance flag has a reason, a caller and a time; it starts no work and refuses new work [R-033]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    await ostler.engine.setMaintenance(ALICE, { ids: [node.id] }, "new disk");
    expect(await ostler.node(node)).toMatchObject({
      maintenanceReason: "new disk",
      maintenanceBy: "alice",
      maintenanceSince: expect.any(Date),
      state: "AVAILABLE",
    });
    expect((await ostler.submit("CLEAN", [node])).refusals).toMatchObject([{ code: "IN_MAINTENANCE" }]);
    await ostler.engine.clearMaintenance(ALICE, { ids: [node.id] });
    expect(await ostler.node(node)).toMatchObject({
      maintenanceReason: null,
      maintenanceBy: null,
      maintenanceSince: null,
    });
    expect((await ostler.operationEnds(await ostler.begin("DEPLOY", [node]))).state).toBe("SUCCEEDED");
  });

  test("maintenance flag is set on all nodes of a request or on none", async () => {
    const node = await ostler.aNode().made();
    expect((await ostler.engine.setMaintenance(ALICE, { names: [node.name, "ghost"] }, "why")).refusals).toMatchObject([
      { code: "NOT_FOUND", missing: ["ghost"] },
    ]);
    expect((await ostler.engine.setMaintenance(ALICE, { ids: [node.id] }, " ")).refusals).toMatchObject([
      { code: "INVALID_INPUT" },
    ]);
    expect((await ostler.node(node)).maintenanceSince).toBeNull();
  });

  test("maintenance flag does not interrupt a running step", async () => {
    const { gate, node, id } = await heldIn(ostler, "deploy.configure");
    await ostler.engine.setMaintenance(ALICE, { ids: [node.id] }, "new fan");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", maintenanceReason: "new fan" });
  });
});
