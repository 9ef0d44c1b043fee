/** Maintenance during a run: the running step ends, no new step starts, and the run waits until the flag is cleared. */
import { afterAll, describe, expect, test } from "vitest";
import type { Script } from "../../plugins/fake/settings.ts";
import type { VerbRequest } from "../../src/engine/admission/request-terms.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { heldIn } from "../support/held-work.ts";
import { unsound } from "../support/soundness.ts";
import { fakeSteps } from "../support/fake-steps.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

/** Sets the maintenance flag, or clears it with null. */
async function setMaintenance(
  nodes: readonly TestNode[],
  reason: string | null,
  lab: EngineUnderTest = ostler,
): Promise<void> {
  const selector = { ids: nodes.map(({ id }) => id) };
  const answer = await (reason === null
    ? lab.engine.clearMaintenance(ALICE, selector)
    : lab.engine.setMaintenance(ALICE, selector, reason));
  expect(answer.refusals).toEqual([]);
}

async function expectPaused(id: string, node: TestNode, lab: EngineUnderTest = ostler): Promise<void> {
  await eventually(
    `the run on ${node.name} is paused`,
    async () => (await lab.run(id, node)).waitReason === "MAINTENANCE",
  );
}

/** A node whose run was paused at the end of a step. */
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
  await setMaintenance([node], "new fan", lab);
  gate.open();
  await expectPaused(id, node, lab);
  return { node, id };
}

const attemptsOf = async (id: string, node: TestNode) =>
  (await ostler.steps(await ostler.run(id, node))).map(({ attempts }) => attempts.map(({ state }) => state).join(" "));

describe("maintenance during a run", () => {
  test("maintenance during a run lets the running step end, keeps its result, and starts no new step [R-034]", async () => {
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
    await setMaintenance([node], null);
    await ostler.operationEnds(id);
  });

  test("maintenance that is cleared resumes the run at once and repeats no step [R-034]", async () => {
    const { node, id } = await pausedAfter("deploy.write_image");
    await setMaintenance([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(ostler.entered(node)).toEqual(fakeSteps("deploy"));
    expect(await ostler.story(node, id)).toEqual([
      "deploy → DEPLOYING",
      "wait → DEPLOY_WAIT",
      "resume → DEPLOYING",
      "done → ACTIVE",
    ]);
    expect(await ostler.run(id, node)).toMatchObject({ state: "SUCCEEDED", waitReason: null, waitingSince: null });
    expect(await unsound(ostler)).toEqual([]);
  });

  test("maintenance whose reason changes keeps the run paused", async () => {
    const { node, id } = await pausedAfter("deploy.prepare");
    await setMaintenance([node], "and a new disk");
    expect(await ostler.run(id, node)).toMatchObject({ state: "WAITING", waitReason: "MAINTENANCE" });
    expect(ostler.entered(node)).toEqual(["deploy.prepare"]);
    await setMaintenance([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("maintenance that is cleared before the step ends does not pause the run", async () => {
    const { gate, node, id } = await heldIn(ostler, "deploy.prepare");
    await setMaintenance([node], "a mistake");
    await setMaintenance([node], null);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.story(node, id)).toEqual(["deploy → DEPLOYING", "done → ACTIVE"]);
  });

  test("maintenance during the last step lets the run succeed", async () => {
    const { gate, node, id } = await heldIn(ostler, "deploy.configure");
    await setMaintenance([node], "new fan");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.nodeState(node)).toBe("ACTIVE");
  });

  test("maintenance before a retry delays the retry until the flag is cleared", async () => {
    const { node, id } = await pausedAfter("deploy.write_image", "DEPLOY", { failures: 1 });
    expect(await attemptsOf(id, node)).toEqual(["SUCCEEDED", "FAILED", "", ""]);
    await setMaintenance([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await attemptsOf(id, node)).toEqual(["SUCCEEDED", "FAILED SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]);
  });

  test("maintenance during a parked step lets the step come to its end", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.boot_system": { waitSeconds: 60 } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.nodeBecomes(node, "DEPLOY_WAIT");
    await setMaintenance([node], "new fan");
    await ostler.waitIsOver(node);
    await expectPaused(id, node);
    expect(await attemptsOf(id, node)).toEqual(["SUCCEEDED", "SUCCEEDED", "SUCCEEDED", ""]);
    await setMaintenance([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("maintenance between two phases leaves the node in its last state at rest [R-182]", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .scripted({ "power.read": { gate: gate.name } })
      .made();
    const id = await ostler.begin("COMMISSION", [node], { options: { until: "AVAILABLE" } });
    await gate.arrivals();
    await setMaintenance([node], "new fan");
    gate.open();
    await expectPaused(id, node);
    expect([await ostler.nodeState(node), ostler.entered(node)]).toEqual(["MANAGEABLE", []]);
    await setMaintenance([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("maintenance of one node does not delay the others of its operation", async () => {
    const gate = aGate();
    const [node, other] = (await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(2)) as [TestNode, TestNode];
    const id = await ostler.begin("DEPLOY", [node, other]);
    await gate.arrivals(2);
    await setMaintenance([node], "new fan");
    gate.open();
    await ostler.nodeBecomes(other, "ACTIVE");
    await expectPaused(id, node);
    await setMaintenance([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("maintenance of a queued node leaves its machine untouched until the flag is cleared", async () => {
    const gate = aGate();
    const first = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const queued = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [first, queued], { maxParallel: 1 });
    await gate.arrivals();
    await setMaintenance([queued], "new fan");
    gate.open();
    await expectPaused(id, queued);
    expect(ostler.journal(queued)).toEqual([]);
    await setMaintenance([queued], null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("maintenance gives the slot of a limit to others, and the run waits for a slot when the flag is cleared", async () => {
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
    await setMaintenance([node], null);
    await eventually("the run waits for a slot", async () => (await ostler.run(id, node)).waitReason === "CAPACITY");
    gate.open();
    for (const one of [id, second]) expect((await ostler.operationEnds(one)).state).toBe("SUCCEEDED");
    await ostler.engine.updateSite(ALICE, { phaseLimits: null });
  });
});

describe("timeout of a parked step", () => {
  /** A deployment that waits at most ten minutes, for a callback or for a longer time. */
  async function parked(waitReason: "CALLBACK" | "TIME") {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.boot_system": { callback: waitReason === "CALLBACK", waitSeconds: 600 } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.nodeBecomes(node, "DEPLOY_WAIT");
    const { sql } = ostler.test;
    const runId = (await ostler.run(id, node)).id;
    if (waitReason === "TIME")
      await sql`update attempts set deadline_at = (select wake_at from runs where id = ${runId}) where run_id = ${runId} and state = 'WAITING'`;
    /** Moves every stored time of the node and its run an hour into the past. */
    const hourPasses = async () => {
      const hour = sql`interval '1 hour'`;
      await sql`update nodes set maintenance_since = maintenance_since - ${hour} where id = ${node.id}`;
      await sql`update attempts set deadline_at = deadline_at - ${hour} where run_id = ${runId} and state = 'WAITING'`;
      await sql`update runs set waiting_since = waiting_since - ${hour}, wake_at = wake_at - ${hour}, due_at = due_at - ${hour} where id = ${runId}`;
    };
    const leftSeconds = async () => ((await ostler.run(id, node)).wakeAt?.getTime() ?? 0) / 1000 - Date.now() / 1000;
    return { node, id, hourPasses, leftSeconds };
  }
  const lasts = async (seconds: Promise<number>) => {
    expect(await seconds).toBeGreaterThan(500);
    expect(await seconds).toBeLessThan(601);
  };

  test.each(["CALLBACK", "TIME"] as const)(
    "timeout of a parked step that ran on in maintenance stands still, and runs on when the flag is cleared: %s [R-170]",
    async (waitReason) => {
      const { node, id, hourPasses, leftSeconds } = await parked(waitReason);
      await setMaintenance([node], "new fan");
      await hourPasses();
      await eventually("the run is parked again", async () => (await leftSeconds()) > 0);
      await lasts(leftSeconds());
      await hourPasses();
      await setMaintenance([node], "another fan");
      await setMaintenance([node], null);
      await lasts(leftSeconds());
      expect((await ostler.run(id, node)).waitReason).toBe(waitReason);
      await hourPasses();
      await eventually("the wait is over", async () => (await ostler.run(id, node)).waitReason !== waitReason);
      await ostler.engine.abort(ALICE, { work: { operationId: id } });
      await ostler.operationEnds(id);
    },
  );
});

describe("run paused by maintenance", () => {
  test.each([
    { after: "a step", step: "deploy.write_image", script: {}, tried: "SUCCEEDED" },
    { after: "a failed attempt", step: "deploy.write_image", script: { failures: 1 }, tried: "FAILED" },
  ])("run paused by maintenance after $after is ended at once by an abort", async ({ step, script, tried }) => {
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
    { after: "a failed attempt", script: { failures: 1 }, run: "FAILED", state: "DEPLOY_FAILED" },
  ])("run paused by maintenance after $after is ended at once by a stop: $state", async ({ script, run, state }) => {
    const { node, id } = await pausedAfter("deploy.write_image", "DEPLOY", script);
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(id)).state).toBe(run);
    expect([(await ostler.run(id, node)).state, await ostler.nodeState(node)]).toEqual([run, state]);
    expect((await ostler.engine.restart(ALICE, { work: { operationId: id } })).refusals).toMatchObject([
      { code: "IN_MAINTENANCE" },
    ]);
    await setMaintenance([node], null);
    const again = (await ostler.engine.restart(ALICE, { work: { operationId: id } })).operationId ?? "";
    expect((await ostler.operationEnds(again)).state).toBe("SUCCEEDED");
  });

  test("run paused by maintenance is stopped when another node's failure undoes the operation, and cleaned up when the flag is cleared", async () => {
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
    await setMaintenance([node], "new fan");
    gate.open();
    await expectPaused(id, node);
    misfortune.open();
    await ostler.nodeBecomes(bad, "AVAILABLE");
    expect((await ostler.run(id, node)).state).toBe("STOPPED");
    expect(ostler.entered(node)).toEqual(["deploy.prepare"]);
    await setMaintenance([node], null);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.nodeState(node)).toBe("AVAILABLE");
  });

  test("run paused by maintenance resumes after a restart, if the flag was cleared while no process ran", async () => {
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
    await setMaintenance([node], null, lab);
    await lab.engine.start();
    expect((await lab.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(lab.entered(node)).toEqual(fakeSteps("deploy"));
  });

  test("runs paused by maintenance all resume, however often the flags change", async () => {
    const nodes = await ostler.aNode().in("AVAILABLE").with("fake", { delayMs: 3 }).times(10);
    const id = await ostler.begin("DEPLOY", nodes);
    for (let round = 0; round < 6; round += 1) await setMaintenance(nodes, round % 2 === 0 ? "new fans" : null);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await unsound(ostler)).toEqual([]);
  });
});

describe("departure of a node in maintenance", () => {
  const DEAF = { "power.read": { fail: "the BMC is silent" } };

  async function leaving(kind: "UNDEPLOY" | "DECOMMISSION", scripts: Readonly<Record<string, Script>>) {
    const node = await ostler.aNode().in("ACTIVE").scripted(scripts).made();
    await setMaintenance([node], "broken");
    const id = await ostler.begin(kind, [node]);
    const ended = await ostler.operationEnds(id);
    const steps = await ostler.steps(await ostler.run(id, node));
    const begun = steps.filter(({ attempts }) => attempts.length > 0).map(({ name }) => name);
    return { state: ended.state, node: await ostler.nodeState(node), begun };
  }

  test("departure of a machine that answers cleans it, without a wait for the end of maintenance [R-784]", async () => {
    expect(await leaving("UNDEPLOY", {})).toMatchObject({
      state: "SUCCEEDED",
      node: "AVAILABLE",
      begun: ["deploy.remove_system", "power.verify", "clean.erase_metadata", "clean.erase_disks"],
    });
  });

  test("departure enters a step again at the end of its wait, as outside of maintenance [R-784]", async () => {
    const boot = aStep("boot", "clean", async ({ memo }) =>
      memo === null ? { kind: "wait", callback: true, seconds: 0, memo: "asked" } : { kind: "done" },
    );
    await using lab = await engineUnderTest({ drivers: [aDriver("patient", { clean: stepsOf(boot) })] });
    const node = await lab.aNode().in("MANAGEABLE").with("patient").made();
    await setMaintenance([node], "broken", lab);
    const id = await lab.begin("DECOMMISSION", [node]);
    expect((await lab.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("departure that is stopped while the machine is checked is stopped, and not ended [R-784]", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("ACTIVE")
      .scripted({ "power.read": { gate: gate.name, fail: "the BMC is silent" } })
      .made();
    await setMaintenance([node], "broken");
    const id = await ostler.begin("DECOMMISSION", [node]);
    await gate.arrivals();
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect(await ostler.nodeState(node)).toBe("STOPPED");
  });

  test("departure of a machine that does not answer stops before cleaning; decommissioned, it leaves [R-784]", async () => {
    const undeployed = await leaving("UNDEPLOY", DEAF);
    expect(undeployed).toMatchObject({ state: "FAILED", node: "UNDEPLOY_FAILED" });
    const decommissioned = await leaving("DECOMMISSION", DEAF);
    expect(decommissioned).toMatchObject({ state: "SUCCEEDED_WITH_ERRORS", node: "DECOMMISSIONED" });
    for (const { begun } of [undeployed, decommissioned])
      expect(begun.filter((name) => name.startsWith("clean."))).toEqual([]);
  });
});
