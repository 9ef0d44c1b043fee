/** Maintenance under running work: the running step ends, no new one begins, and the run says so until the mark is cleared. */
import { afterAll, describe, expect, test } from "vitest";
import type { Script } from "../../plugins/fake/settings.ts";
import type { VerbRequest } from "../../src/engine/admission/admit.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { unsound } from "../support/soundness.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

/** Sets the mark, or clears it with null. */
async function mark(nodes: readonly TestNode[], reason: string | null, lab: EngineUnderTest = ostler): Promise<void> {
  expect((await lab.engine.setMaintenance(ALICE, { ids: nodes.map(({ id }) => id) }, reason)).refusals).toEqual([]);
}

async function pauses(id: string, node: TestNode, lab: EngineUnderTest = ostler): Promise<void> {
  await eventually(
    `the run on ${node.name} is paused`,
    async () => (await lab.run(id, node)).waitReason === "MAINTENANCE",
  );
}

/** A node whose run was paused when a step had ended. */
async function pausedAfter(
  step: string,
  kind: VerbRequest["kind"] = "DEPLOY",
  script: Script = {},
  lab: EngineUnderTest = ostler,
) {
  const gate = aGate();
  const node = await lab
    .aNode()
    .in("AVAILABLE")
    .scripted({ [step]: { gate: gate.name, ...script } })
    .made();
  const id = await lab.begin(kind, [node]);
  await gate.arrivals();
  await mark([node], "new fan", lab);
  gate.open();
  await pauses(id, node, lab);
  return { node, id };
}

const attemptsOf = async (id: string, node: TestNode) =>
  (await ostler.steps(await ostler.run(id, node))).map(({ attempts }) => attempts.map(({ state }) => state).join(" "));

describe("a node that is put in maintenance while work runs on it", () => {
  test("lets its running step end, keeps the result, and begins no new one [R-034]", async () => {
    const { node, id } = await pausedAfter("deploy.write_image");
    expect(await ostler.run(id, node)).toMatchObject({
      state: "WAITING",
      waitReason: "MAINTENANCE",
      waitingSince: expect.any(Date),
      waitFor: null,
      owner: null,
      wakeAt: null,
      position: 2,
    });
    expect(await ostler.nodeState(node)).toBe("DEPLOY_WAIT");
    expect((await ostler.transitions(node)).at(-1)).toMatchObject({
      event: "wait",
      reason: "the node is in maintenance",
      actor: "engine",
    });
    expect(ostler.entered(node)).toEqual(["deploy.prepare", "deploy.write_image"]);
    expect(await attemptsOf(id, node)).toEqual(["SUCCEEDED", "SUCCEEDED", "", ""]);
    expect((await ostler.operation(id)).state).toBe("RUNNING");
    await mark([node], null);
    await ostler.operationEnds(id);
  });

  test("goes on at once when the mark is cleared, with nothing run twice [R-034]", async () => {
    const { node, id } = await pausedAfter("deploy.write_image");
    await mark([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(ostler.entered(node)).toEqual([
      "deploy.prepare",
      "deploy.write_image",
      "deploy.boot_system",
      "deploy.configure",
    ]);
    expect(await ostler.story(node, id)).toEqual([
      "deploy → DEPLOYING",
      "wait → DEPLOY_WAIT",
      "resume → DEPLOYING",
      "done → ACTIVE",
    ]);
    expect(await ostler.run(id, node)).toMatchObject({ state: "SUCCEEDED", waitReason: null, waitingSince: null });
    expect(await unsound(ostler)).toEqual([]);
  });

  test("stays paused when only the reason of the mark is changed", async () => {
    const { node, id } = await pausedAfter("deploy.prepare");
    await mark([node], "and a new disk");
    expect(await ostler.run(id, node)).toMatchObject({ state: "WAITING", waitReason: "MAINTENANCE" });
    expect(ostler.entered(node)).toEqual(["deploy.prepare"]);
    await mark([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("is not paused when the mark is gone before the step ends", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await gate.arrivals();
    await mark([node], "a mistake");
    await mark([node], null);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.story(node, id)).toEqual(["deploy → DEPLOYING", "done → ACTIVE"]);
  });

  test("is done when the step was the last one", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.configure": { gate: gate.name } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await gate.arrivals();
    await mark([node], "new fan");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.nodeState(node)).toBe("ACTIVE");
  });

  test("begins no new try of a step that failed, and goes on with it", async () => {
    const { node, id } = await pausedAfter("deploy.write_image", "DEPLOY", { failures: 1 });
    expect(await attemptsOf(id, node)).toEqual(["SUCCEEDED", "FAILED", "", ""]);
    await mark([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await attemptsOf(id, node)).toEqual(["SUCCEEDED", "FAILED SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]);
  });

  test("lets a step that is parked come to its end", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.boot_system": { waitSeconds: 0.3 } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.nodeBecomes(node, "DEPLOY_WAIT");
    await mark([node], "new fan");
    await pauses(id, node);
    expect(await attemptsOf(id, node)).toEqual(["SUCCEEDED", "SUCCEEDED", "SUCCEEDED", ""]);
    await mark([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("is paused between two phases as well, where it has no state to wait in", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .scripted({ "power.read": { gate: gate.name } })
      .made();
    const id = await ostler.begin("COMMISSION", [node], { options: { until: "AVAILABLE" } });
    await gate.arrivals();
    await mark([node], "new fan");
    gate.open();
    await pauses(id, node);
    expect([await ostler.nodeState(node), ostler.entered(node)]).toEqual(["VERIFYING", []]);
    await mark([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("holds up no other node of its operation", async () => {
    const gate = aGate();
    const [node, other] = (await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(2)) as [TestNode, TestNode];
    const id = await ostler.begin("DEPLOY", [node, other]);
    await gate.arrivals(2);
    await mark([node], "new fan");
    gate.open();
    await ostler.nodeBecomes(other, "ACTIVE");
    await pauses(id, node);
    await mark([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("before its turn keeps its machine untouched until the mark is cleared", async () => {
    const gate = aGate();
    const first = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const queued = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [first, queued], { maxParallel: 1 });
    await gate.arrivals();
    await mark([queued], "new fan");
    gate.open();
    await pauses(id, queued);
    expect(ostler.journal(queued)).toEqual([]);
    await mark([queued], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("gives its place below a limit to others, and waits for one when the mark is cleared", async () => {
    await ostler.engine.updateSite(ALICE, { phaseLimits: [{ phase: "deploy", limit: 1 }] });
    const { node, id } = await pausedAfter("deploy.prepare");
    expect(await ostler.run(id, node)).toMatchObject({ slotPhase: null, slotController: null });
    const gate = aGate();
    const other = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const second = await ostler.begin("DEPLOY", [other]);
    await gate.arrivals();
    await mark([node], null);
    await eventually("it waits for a place", async () => (await ostler.run(id, node)).waitReason === "CAPACITY");
    gate.open();
    for (const one of [id, second]) expect((await ostler.operationEnds(one)).state).toBe("SUCCEEDED");
    await ostler.engine.updateSite(ALICE, { phaseLimits: null });
  });
});

describe("work that is paused by maintenance", () => {
  test.each([
    { after: "a step", step: "deploy.write_image", script: {}, tried: "SUCCEEDED" },
    { after: "a failed try", step: "deploy.write_image", script: { failures: 1 }, tried: "FAILED" },
  ])("after $after is ended now by an abort", async ({ step, script, tried }) => {
    const { node, id } = await pausedAfter(step, "DEPLOY", script);
    expect((await ostler.engine.abort(ALICE, { work: { ids: [node.id] } })).results).toMatchObject([
      { accepted: true, effect: "NOW" },
    ]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(await ostler.nodeState(node)).toBe("DEPLOY_FAILED");
    expect(await attemptsOf(id, node)).toEqual(["SUCCEEDED", tried, "", ""]);
    expect(await unsound(ostler)).toEqual([]);
  });

  test.each([
    { after: "a step", script: {}, run: "STOPPED", state: "STOPPED" },
    { after: "a failed try", script: { failures: 1 }, run: "FAILED", state: "DEPLOY_FAILED" },
  ])("after $after is ended at once by a stop: $state", async ({ script, run, state }) => {
    const { node, id } = await pausedAfter("deploy.write_image", "DEPLOY", script);
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(id)).state).toBe(run);
    expect([(await ostler.run(id, node)).state, await ostler.nodeState(node)]).toEqual([run, state]);
    expect((await ostler.engine.restart(ALICE, { work: { operationId: id } })).refusals).toMatchObject([
      { code: "IN_MAINTENANCE" },
    ]);
    await mark([node], null);
    const again = (await ostler.engine.restart(ALICE, { work: { operationId: id } })).operationId ?? "";
    expect((await ostler.operationEnds(again)).state).toBe("SUCCEEDED");
  });

  test("is stopped when another node's failure undoes the operation, and cleaned up when the mark is cleared", async () => {
    const misfortune = aGate();
    const gate = aGate();
    const bad = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: misfortune.name, fail: "no luck" } })
      .made();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const id = await ostler.begin("COMMISSION", [bad, node]);
    await gate.arrivals();
    await mark([node], "new fan");
    gate.open();
    await pauses(id, node);
    misfortune.open();
    await ostler.nodeBecomes(bad, "AVAILABLE");
    expect((await ostler.run(id, node)).state).toBe("STOPPED");
    expect(ostler.entered(node)).toEqual(["deploy.prepare"]);
    await mark([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.nodeState(node)).toBe("AVAILABLE");
  });

  test("survives the end of the process, and goes on when the mark was cleared while none was there", async () => {
    await using lab = await engineUnderTest({ started: false });
    const first = await lab.another({ started: true });
    const { node, id } = await pausedAfter("deploy.write_image", "DEPLOY", {}, lab);
    await first[Symbol.asyncDispose]();
    await lab.test.sql`update runs set updated_at = now() - interval '1 day'`;
    const second = await lab.another({ started: true });
    const other = await lab.aNode().in("AVAILABLE").made();
    await lab.operationEnds(await lab.begin("CLEAN", [other]));
    expect(await lab.run(id, node)).toMatchObject({ state: "WAITING", waitReason: "MAINTENANCE" });
    await second[Symbol.asyncDispose]();
    await mark([node], null, lab);
    await lab.engine.start();
    expect((await lab.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(lab.entered(node)).toEqual([
      "deploy.prepare",
      "deploy.write_image",
      "deploy.boot_system",
      "deploy.configure",
    ]);
  });

  test("of many nodes misses none, however often the marks come and go", async () => {
    const nodes = await ostler.aNode().in("AVAILABLE").with("fake", { delayMs: 3 }).times(10);
    const id = await ostler.begin("DEPLOY", nodes);
    for (let round = 0; round < 6; round += 1) await mark(nodes, round % 2 === 0 ? "new fans" : null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await unsound(ostler)).toEqual([]);
  });
});
