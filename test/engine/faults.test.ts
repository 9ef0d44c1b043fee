/** Faults of nodes: the service sets them, refuses the work that they would spoil, and ends them when the cause is gone. */
import { afterAll, describe, expect, test } from "vitest";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const faultOf = async (node: TestNode) => (await ostler.node(node)).faultKind;
const kill = (node: TestNode, dead: boolean) => ostler.engine.updateNode(ALICE, node.id, { settings: { dead } });

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
    await ostler.engine.updateNode(ALICE, node.id, { settings: { steps: null } });
    await ostler.operationEnds(await ostler.begin("CLEAN", [node]));
    expect([await ostler.nodeState(node), await faultOf(node)]).toEqual(["AVAILABLE", null]);
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
    await ostler.engine.updateNode(ALICE, node.id, { settings: { steps: scripts } });
    await abort();
    expect(await faultOf(node)).toBeNull();
  });
});
