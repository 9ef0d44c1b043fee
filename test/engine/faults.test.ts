/**
 * Faults of nodes: the service sets them, refuses the work that they would spoil, and ends them when the cause is gone.
 */
import { afterAll, describe, expect, test } from "vitest";
import { passGate } from "../../plugins/fake/gates.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { changeNode } from "../support/change-node.ts";

const wiping = aGate();
const done = async () => ({ kind: "done" }) as const;
const wiper = aDriver("wiper", {
  inspect: { ...stepsOf(aStep("look", "inspect", done)), withoutReboot: true },
  clean: stepsOf(
    aStep(
      "wipe",
      "clean",
      async ({ node }) => {
        await passGate(wiping.name, node.name, null);
        return { kind: "done" };
      },
      { interruptible: "AT_BOUNDARY", touches: ["DISKS"] },
    ),
  ),
  deploy: stepsOf(aStep("install", "deploy", done)),
});

const ostler = await engineUnderTest({ drivers: [wiper] });
afterAll(() => ostler[Symbol.asyncDispose]());

const faultOf = async (node: TestNode) => (await ostler.node(node)).faultKind;
const kill = (node: TestNode, dead: boolean) => changeNode(ostler.engine, ALICE, node.id, { settings: { dead } });

describe("fault BMC_UNREACHABLE", () => {
  test("BMC that is dead for any number of readings kept its node free for work; it becomes a fault, which the next reading ends [R-171]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    await kill(node, true);
    await using reader = await ostler.another({ started: true, powerSeconds: 0.2 });
    expect(reader).toBeDefined();
    await eventually("the node has a fault", async () => (await faultOf(node)) === "BMC_UNREACHABLE");
    expect(await ostler.node(node)).toMatchObject({
      failedReadings: 3,
      faultSince: expect.any(Date),
      faultMessage: expect.stringContaining("could not be read 3 times in a row"),
      maintenanceSince: null,
    });
    for (const kind of ["CLEAN", "DEPLOY", "POWER"] as const)
      expect((await ostler.submit(kind, [node])).refusals).toMatchObject([
        { code: "INVALID_STATE", message: expect.stringContaining("BMC_UNREACHABLE") },
      ]);
    expect((await ostler.submit("CLEAN", [node], { options: { force: true }, dryRun: true })).refusals).toEqual([]);
    expect((await ostler.submit("MANAGE", [node], { dryRun: true })).refusals).toEqual([]);
    await kill(node, false);
    await eventually("the fault has ended", async () => (await faultOf(node)) === null);
    expect(await ostler.node(node)).toMatchObject({ failedReadings: 0, faultSince: null, faultMessage: null });
    expect((await ostler.operationEnds(await ostler.begin("CLEAN", [node]))).state).toBe("SUCCEEDED");
  });

  test("fault BMC_UNREACHABLE is ended by manageNodes and by readPower, and readPower begins none", async () => {
    const [one, two] = (await ostler.aNode().in("AVAILABLE").times(2)) as [TestNode, TestNode];
    const unreach = (node: TestNode) =>
      ostler.test
        .sql`update nodes set failed_readings = 3, fault_kind = 'BMC_UNREACHABLE', fault_since = now(), fault_message = 'x' where id = ${node.id}`;
    await Promise.all([unreach(one), unreach(two)]);
    await ostler.operationEnds(await ostler.begin("MANAGE", [one]));
    await ostler.engine.readPower({ ids: [two.id] });
    expect([await faultOf(one), await faultOf(two)]).toEqual([null, null]);
    await kill(two, true);
    for (let reading = 0; reading < 5; reading += 1) await ostler.engine.readPower({ ids: [two.id] });
    expect(await faultOf(two)).toBeNull();
  });
});

describe("fault CLEAN_UP_FAILED", () => {
  test("clean-up that failed is a fault until the node is cleaned [R-171]", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { fail: "no luck" }, "clean.erase_disks": { fail: "worn out" } })
      .made();
    const id = await ostler.begin("COMMISSION", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.node(node)).toMatchObject({
      state: "CLEAN_FAILED",
      faultKind: "CLEAN_UP_FAILED",
      faultMessage: expect.stringContaining("worn out"),
    });
    await changeNode(ostler.engine, ALICE, node.id, { settings: { steps: null } });
    await ostler.operationEnds(await ostler.begin("CLEAN", [node]));
    expect([await ostler.nodeState(node), await faultOf(node)]).toEqual(["AVAILABLE", null]);
  });

  const failCleanUp = (node: TestNode) =>
    ostler.test
      .sql`update nodes set fault_kind = 'CLEAN_UP_FAILED', fault_since = now(), fault_message = 'x' where id = ${node.id}`;

  test("fault stayed although the node had been cleaned, because a later phase of the same run failed [R-280]", async () => {
    const node = await ostler
      .aNode()
      .in("MANAGEABLE")
      .scripted({ "deploy.prepare": { fail: "no luck" } })
      .made();
    await failCleanUp(node);
    const id = await ostler.begin("COMMISSION", [node], { onFailure: "LEAVE" });
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect([await ostler.nodeState(node), await faultOf(node)]).toEqual(["DEPLOY_FAILED", null]);
  });

  test("verification ends the fault of a node whose run is stopped after it [R-280]", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("STOPPED")
      .scripted({ "power.read": { gate: gate.name } })
      .made();
    await failCleanUp(node);
    const id = await ostler.begin("COMMISSION", [node]);
    await gate.arrivals();
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect(await faultOf(node)).toBeNull();
  });

  test("cleaning that a restart keeps from before the failed clean-up does not end the fault", async () => {
    const node = await ostler.aNode().in("MANAGEABLE").with("wiper", {}).made();
    const id = await ostler.begin("COMMISSION", [node]);
    await wiping.arrivals();
    await ostler.engine.abort(ALICE, { work: { operationId: id }, mode: "AFTER_STEP" });
    wiping.open();
    await ostler.operationEnds(id);
    expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
    await failCleanUp(node);
    const { operationId } = await ostler.engine.restart(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(operationId ?? "")).state).toBe("SUCCEEDED");
    expect([await ostler.nodeState(node), await faultOf(node)]).toEqual(["ACTIVE", "CLEAN_UP_FAILED"]);
  });

  test("node whose clean-up failed is not deployed again before it is cleaned", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.boot_system": { callback: true }, "driver.abort": { fail: "nothing can be undone" } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.nodeBecomes(node, "DEPLOY_WAIT");
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
    expect((await ostler.submit("DEPLOY", [node])).refusals).toMatchObject([
      { code: "INVALID_STATE", message: expect.stringContaining("CLEAN_UP_FAILED") },
    ]);
    await ostler.operationEnds(await ostler.begin("UNDEPLOY", [node]));
    expect([await ostler.nodeState(node), await faultOf(node)]).toEqual(["AVAILABLE", null]);
  });

  test("abort whose clean-up failed is a fault until an abort cleans up", async () => {
    const scripts = { "clean.erase_disks": { callback: true } };
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ ...scripts, "driver.abort": { fail: "nothing can be undone" } })
      .made();
    const abort = async () => {
      const id = await ostler.begin("CLEAN", [node]);
      await ostler.nodeBecomes(node, "CLEAN_WAIT");
      await ostler.engine.abort(ALICE, { work: { operationId: id } });
      await ostler.operationEnds(id);
    };
    await abort();
    expect(await ostler.node(node)).toMatchObject({
      faultKind: "CLEAN_UP_FAILED",
      faultMessage: expect.stringContaining("nothing can be undone"),
    });
    await changeNode(ostler.engine, ALICE, node.id, { settings: { steps: scripts } });
    await abort();
    expect(await faultOf(node)).toBeNull();
  });
});
