/** Failure policies: what the failure of one node does to the node and to the others of its operation. */
import { afterAll, describe, expect, test } from "vitest";
import { callbackPath } from "../../src/engine/execution/boundary/callback.ts";
import { cleanUpFailures } from "../../src/store/operations/operation-failures.ts";
import { testKeyring } from "../support/keyring.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { changeNode } from "../support/change-node.ts";
import { fakeSteps } from "../support/fake-steps.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const failing = () =>
  ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.configure": { fail: "the disk is full" } });
const healthy = () => ostler.aNode().in("AVAILABLE");

describe("CLEAN_UP_ALL", () => {
  test("CLEAN_UP_ALL is the default of a commission: after one failure every node is AVAILABLE again [R-025, R-026]", async () => {
    const others = await healthy().times(2);
    const bad = await failing().made();
    const id = await ostler.begin("COMMISSION", [...others, bad]);
    const operation = await ostler.operationEnds(id);
    expect(operation.state).toBe("FAILED");
    expect(operation.firstFailure).toMatchObject({
      nodeName: bad.name,
      step: "deploy.configure",
      code: "BACKEND_FAILED",
      message: expect.stringContaining("the disk is full"),
    });
    for (const node of [...others, bad])
      expect(await ostler.node(node)).toMatchObject({ state: "AVAILABLE", stage: "NONE" });
  });

  test("clean-up hid which node had failed: the cause stays until the next success of work [R-194]", async () => {
    const other = await healthy().made();
    const bad = await failing().made();
    await ostler.operationEnds(await ostler.begin("COMMISSION", [other, bad]));
    const cause = { code: "BACKEND_FAILED", nodeName: bad.name };
    expect(await ostler.node(bad)).toMatchObject({ state: "AVAILABLE", lastError: cause });
    expect(await ostler.node(other)).toMatchObject({ state: "AVAILABLE", lastError: null });
    await ostler.operationEnds(await ostler.begin("POWER", [bad], { options: { powerAction: "ON" } }));
    expect(await ostler.node(bad)).toMatchObject({ lastError: cause });
    await ostler.operationEnds(await ostler.begin("CLEAN", [bad]));
    expect(await ostler.node(bad)).toMatchObject({ state: "AVAILABLE", lastError: null });
  });

  test("CLEAN_UP_ALL lets a running step of the other nodes end, keeps its result, and starts no new step before the clean-up", async () => {
    const gate = aGate();
    const misfortune = aGate();
    const other = await healthy()
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .made();
    const bad = await healthy()
      .scripted({ "deploy.prepare": { gate: misfortune.name, fail: "no luck" } })
      .made();
    const id = await ostler.begin("COMMISSION", [other, bad]);
    await gate.arrivals();
    misfortune.open();
    await ostler.nodeBecomes(bad, "DEPLOY_FAILED");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.run(id, other)).toMatchObject({ state: "UNDONE", interrupt: null });
    expect(ostler.entered(other)).toEqual(["deploy.prepare", "deploy.write_image", ...fakeSteps("undeploy", "clean")]);
    expect(await ostler.story(other, id)).toEqual([
      "deploy → DEPLOYING",
      "stop → STOPPED",
      "undeploy → UNDEPLOYING",
      "clean → CLEANING",
      "done → AVAILABLE",
    ]);
    expect(await ostler.run(id, other, "CLEAN_UP")).toMatchObject({ state: "SUCCEEDED", target: "AVAILABLE" });
  });

  test("CLEAN_UP_ALL leaves queued nodes as they were", async () => {
    const bad = await failing().made();
    const queued = await healthy().times(2);
    const id = await ostler.begin("COMMISSION", [bad, ...queued], { maxParallel: 1 });
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    for (const node of queued) {
      expect(await ostler.run(id, node)).toMatchObject({ state: "STOPPED", startedAt: null });
      expect(ostler.journal(node)).toEqual([]);
      expect(await ostler.story(node, id)).toEqual([]);
    }
  });

  // The clean-up used to undo work that another operation had done, and to touch protected nodes.
  test("CLEAN_UP_ALL skips nodes that are protected by then, or that another operation has changed since", async () => {
    const misfortune = aGate();
    const bad = await healthy()
      .scripted({ "deploy.configure": { gate: misfortune.name, fail: "the disk is full" } })
      .made();
    const [guarded, updated, own] = [await healthy().made(), await healthy().made(), await healthy().made()];
    const id = await ostler.begin("COMMISSION", [bad, guarded, updated, own]);
    for (const node of [guarded, updated, own]) await ostler.nodeBecomes(node, "ACTIVE");
    await changeNode(ostler.engine, ALICE, guarded.id, { isProtected: true });
    const other = await ostler.begin("REDEPLOY", [updated], { options: { reinstall: true } });
    expect((await ostler.operationEnds(other)).state).toBe("SUCCEEDED");
    const entered = ostler.entered(updated).length;
    await misfortune.arrivals();
    misfortune.open();
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await Promise.all([guarded, updated, own, bad].map((node) => ostler.nodeState(node)))).toEqual([
      "ACTIVE",
      "ACTIVE",
      "AVAILABLE",
      "AVAILABLE",
    ]);
    expect(ostler.entered(updated)).toHaveLength(entered);
  });

  test("CLEAN_UP_ALL leaves a node in its failed state if its clean-up fails too, and reports both failures [R-025]", async () => {
    const bad = await healthy()
      .scripted({ "deploy.configure": { fail: "the disk is full" }, "clean.erase_disks": { fail: "the disk is dead" } })
      .made();
    const other = await healthy().made();
    const id = await ostler.begin("COMMISSION", [bad, other]);
    const operation = await ostler.operationEnds(id);
    expect(operation.state).toBe("FAILED");
    // The first failure and the failure of the clean-up are kept apart.
    expect(operation.firstFailure).toMatchObject({
      nodeName: bad.name,
      step: "deploy.configure",
      message: expect.stringContaining("the disk is full"),
    });
    expect((await cleanUpFailures(ostler.database.reader, [id])).get(id)).toMatchObject([
      { nodeName: bad.name, step: "clean.erase_disks", message: expect.stringContaining("the disk is dead") },
    ]);
    expect(await ostler.run(id, bad)).toMatchObject({ state: "FAILED", failure: { step: "deploy.configure" } });
    expect(await ostler.run(id, bad, "CLEAN_UP")).toMatchObject({
      state: "FAILED",
      failure: { step: "clean.erase_disks" },
    });
    expect(await ostler.node(bad)).toMatchObject({
      state: "CLEAN_FAILED",
      lastError: { message: expect.stringContaining("the disk is dead") },
    });
    expect(await ostler.nodeState(other)).toBe("AVAILABLE");
  });

  test("CLEAN_UP_ALL lets the same request be posted again, however often it fails [R-026]", async () => {
    const nodes = [await failing().made(), await healthy().made()];
    for (let round = 0; round < 2; round += 1) {
      expect((await ostler.operationEnds(await ostler.begin("COMMISSION", nodes))).state).toBe("FAILED");
      for (const node of nodes) expect(await ostler.nodeState(node)).toBe("AVAILABLE");
    }
    for (const node of nodes)
      await changeNode(ostler.engine, { actor: "alice", project: "default", scope: "ADMIN" as const }, node.id, {
        settings: { steps: null },
      });
    expect((await ostler.operationEnds(await ostler.begin("COMMISSION", nodes))).state).toBe("SUCCEEDED");
    for (const node of nodes) expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", lastError: null });
  });

  // The clean-up of a node used to start only after its wait, which may take days.
  test("CLEAN_UP_ALL ends a reserved wait of the other nodes early, and a wait of a driver not", async () => {
    const misfortune = aGate();
    const bad = await healthy()
      .scripted({ "deploy.prepare": { gate: misfortune.name, fail: "no luck" } })
      .made();
    const waiting = await healthy().made();
    const parked = await healthy()
      .scripted({ "deploy.prepare": { callback: true } })
      .made();
    const steps = [
      { interface: "deploy", name: "prepare", args: {} },
      { interface: "engine", name: "wait", args: { seconds: 86_400 } },
      { interface: "deploy", name: "write_image", args: {} },
    ] as const;
    const id = await ostler.begin("DEPLOY", [bad, waiting, parked], { onFailure: "CLEAN_UP_ALL", options: { steps } });
    for (const node of [waiting, parked]) await ostler.nodeBecomes(node, "DEPLOY_WAIT");
    misfortune.open();
    await ostler.nodeBecomes(waiting, "STOPPED");
    const run = await ostler.run(id, parked);
    expect(run).toMatchObject({ state: "WAITING", waitReason: "CALLBACK" });
    const key = (await testKeyring(ostler.database)).callbackKey(run);
    const path = callbackPath(run.id, key, run.generation);
    expect(await ostler.engine.receiveCallback(path.split("/").at(-1) ?? "", {})).toBe("TAKEN");
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await Promise.all([bad, waiting, parked].map((node) => ostler.nodeState(node)))).toEqual([
      "AVAILABLE",
      "AVAILABLE",
      "AVAILABLE",
    ]);
  });

  test("CLEAN_UP_ALL ends FAILED if the clean-up is aborted", async () => {
    const gate = aGate();
    const bad = await healthy()
      .scripted({ "deploy.configure": { fail: "the disk is full" }, "clean.erase_disks": { gate: gate.name } })
      .made();
    const id = await ostler.begin("COMMISSION", [bad, await healthy().made()]);
    await gate.arrivals();
    await ostler.engine.abort(
      { actor: "alice", project: "default", scope: "ADMIN" as const },
      { work: { operationId: id } },
    );
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect([await ostler.nodeState(bad), (await ostler.run(id, bad, "CLEAN_UP")).state]).toEqual([
      "CLEAN_FAILED",
      "ABORTED",
    ]);
  });

  test("CLEAN_UP_ALL: a node whose clean-up failed can be restarted [R-105]", async () => {
    const bad = await healthy()
      .scripted({ "deploy.prepare": { fail: "no luck" }, "clean.erase_disks": { fail: "the disk is dead" } })
      .made();
    const id = await ostler.begin("COMMISSION", [bad]);
    await ostler.operationEnds(id);
    expect(await ostler.nodeState(bad)).toBe("CLEAN_FAILED");
    await changeNode(ostler.engine, { actor: "alice", project: "default", scope: "ADMIN" as const }, bad.id, {
      settings: { steps: null },
    });
    const again = await ostler.engine.restart(
      { actor: "alice", project: "default", scope: "ADMIN" as const },
      { work: { operationId: id } },
    );
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
    expect(await ostler.nodeState(bad)).toBe("ACTIVE");
  });

  test("CLEAN_UP_ALL counted runs as SUCCEEDED that it had taken back: they are UNDONE as soon as their clean-up begins, and not before [R-785]", async () => {
    const gate = aGate();
    const misfortune = aGate();
    const undone = await healthy()
      .scripted({ "deploy.remove_system": { gate: gate.name } })
      .made();
    const kept = await healthy().made();
    const bad = await healthy()
      .scripted({ "deploy.configure": { gate: misfortune.name, fail: "the disk is full" } })
      .made();
    await ostler.engine.updateSite(ALICE, { phaseLimits: [{ phase: "undeploy", limit: 1 }] });
    const id = await ostler.begin("COMMISSION", [undone, kept, bad]);
    for (const node of [undone, kept]) await ostler.nodeBecomes(node, "ACTIVE");
    await misfortune.arrivals();
    misfortune.open();
    await gate.arrivals();
    const statesOf = (nodes: readonly TestNode[]) =>
      Promise.all(nodes.map(async (node) => (await ostler.run(id, node)).state));
    expect(await statesOf([undone, kept, bad])).toEqual(["UNDONE", "SUCCEEDED", "FAILED"]);
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    await ostler.engine.updateSite(ALICE, { phaseLimits: null });
    expect(await statesOf([undone, kept, bad])).toEqual(["UNDONE", "SUCCEEDED", "FAILED"]);
    expect(await ostler.nodeState(kept)).toBe("ACTIVE");
    const again = await ostler.engine.restart(ALICE, { work: { operationId: id }, dryRun: true });
    expect(again.results.filter(({ nodeId }) => nodeId === kept.id)).toMatchObject([
      { accepted: false, refusal: { code: "NOTHING_TO_RESTART" } },
    ]);
  });

  test("CLEAN_UP_ALL: a restart includes the nodes that had succeeded before their clean-up", async () => {
    const [good, bad] = [await healthy().made(), await failing().made()];
    const id = await ostler.begin("COMMISSION", [good, bad], { maxParallel: 1 });
    await ostler.operationEnds(id);
    expect(await ostler.run(id, good)).toMatchObject({ state: "UNDONE" });
    await changeNode(ostler.engine, { actor: "alice", project: "default", scope: "ADMIN" as const }, bad.id, {
      settings: { steps: null },
    });
    const again = await ostler.engine.restart(
      { actor: "alice", project: "default", scope: "ADMIN" as const },
      { work: { operationId: id } },
    );
    expect(again.results).toMatchObject([
      { nodeId: good.id, accepted: true },
      { nodeId: bad.id, accepted: true },
    ]);
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
    expect([await ostler.nodeState(good), await ostler.nodeState(bad)]).toEqual(["ACTIVE", "ACTIVE"]);
  });
});

describe("Site.commissionOnFailure", () => {
  test("commission takes its default from the site when it is accepted: a later change does not reach it, or its restart [R-786]", async () => {
    const gate = aGate();
    const bad = await healthy()
      .scripted({ "deploy.configure": { gate: gate.name, fail: "the disk is full" } })
      .made();
    const other = await healthy().made();
    await ostler.engine.updateSite(ALICE, { commissionOnFailure: "LEAVE" });
    const id = await ostler.begin("COMMISSION", [bad, other]);
    const chosen = await ostler.begin("COMMISSION", [await healthy().made()], { onFailure: "CLEAN_UP_FAILED" });
    await gate.arrivals();
    await ostler.engine.updateSite(ALICE, { commissionOnFailure: null });
    gate.open();
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "PARTIALLY_SUCCEEDED", onFailure: "LEAVE" });
    expect([await ostler.nodeState(bad), await ostler.nodeState(other)]).toEqual(["DEPLOY_FAILED", "ACTIVE"]);
    expect((await ostler.operationEnds(chosen)).onFailure).toBe("CLEAN_UP_FAILED");
    const restarted = async (more: object) => {
      const { operationId } = await ostler.engine.restart(ALICE, { work: { ids: [bad.id] }, ...more });
      return (await ostler.operationEnds(operationId ?? "")).onFailure;
    };
    expect([await restarted({}), await restarted({ onFailure: null })]).toEqual(["LEAVE", "CLEAN_UP_ALL"]);
  });

  test("plan without onFailure has the hash of a request with the default, and a change of the default is found by it [R-786]", async () => {
    const nodes = await healthy().times(2);
    const hashOf = async (more: Parameters<typeof ostler.submit>[2] = {}) =>
      (await ostler.submit("COMMISSION", nodes, { dryRun: true, ...more })).planHash;
    const planHash = await hashOf();
    expect(await hashOf({ onFailure: "CLEAN_UP_ALL" })).toBe(planHash);
    await ostler.engine.updateSite(ALICE, { commissionOnFailure: "CLEAN_UP_FAILED" });
    const since = await hashOf();
    const { refusals } = await ostler.submit("COMMISSION", nodes, { planHash: planHash ?? "" });
    expect(refusals).toMatchObject([{ code: "STALE_REVISION", path: ["input", "planHash"] }]);
    const deploy = await ostler.submit("DEPLOY", nodes, { dryRun: true });
    await ostler.engine.updateSite(ALICE, { commissionOnFailure: null });
    expect(await hashOf({ onFailure: "CLEAN_UP_FAILED" })).toBe(since);
    expect((await ostler.submit("DEPLOY", nodes, { dryRun: true })).planHash).toBe(deploy.planHash);
  });
});

test("CLEAN_UP_FAILED cleans up the failed node and continues with the others", async () => {
  const [first, last] = [await healthy().made(), await healthy().made()];
  const bad = await failing().made();
  const id = await ostler.begin("COMMISSION", [first, bad, last], { onFailure: "CLEAN_UP_FAILED", maxParallel: 1 });
  expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
  expect([await ostler.nodeState(first), await ostler.nodeState(bad), await ostler.nodeState(last)]).toEqual([
    "ACTIVE",
    "AVAILABLE",
    "ACTIVE",
  ]);
  expect(await ostler.run(id, bad)).toMatchObject({ state: "FAILED" });
  expect(await ostler.run(id, bad, "CLEAN_UP")).toMatchObject({ state: "SUCCEEDED" });
});

test("LEAVE leaves the failed node as it is and continues with the others", async () => {
  const bad = await failing().made();
  const other = await healthy().made();
  const id = await ostler.begin("COMMISSION", [bad, other], { onFailure: "LEAVE", maxParallel: 1 });
  expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
  expect(await ostler.node(bad)).toMatchObject({
    state: "DEPLOY_FAILED",
    stage: "PROVISIONED",
    lastError: { step: "deploy.configure", nodeName: bad.name },
  });
  expect(await ostler.nodeState(other)).toBe("ACTIVE");
});

test.each([
  { at: "verify", node: () => ostler.aNode().with("fake", { dead: true }), state: "ENROLLED", code: "BACKEND_FAILED" },
  {
    at: "the login of verify",
    node: () => ostler.aNode().with("fake", { refusesLogin: true }),
    state: "ENROLLED",
    code: "BACKEND_FAILED",
  },
  {
    at: "inspect",
    node: () => ostler.aNode().scripted({ "inspect.collect_inventory": { fail: "no answer" } }),
    state: "INSPECT_FAILED",
    code: "BACKEND_FAILED",
  },
  {
    at: "clean",
    node: () => ostler.aNode().scripted({ "clean.erase_disks": { fail: "no answer" } }),
    state: "CLEAN_FAILED",
    code: "BACKEND_FAILED",
  },
  {
    at: "deploy",
    node: () => ostler.aNode().scripted({ "deploy.prepare": { fail: "no answer" } }),
    state: "DEPLOY_FAILED",
    code: "BACKEND_FAILED",
  },
])("node that fails in $at is left $state with $code", async ({ node, state, code }) => {
  const made = await node().made();
  const id = await ostler.begin("COMMISSION", [made], { onFailure: "LEAVE" });
  expect(await ostler.operationEnds(id)).toMatchObject({ state: "FAILED", firstFailure: { code, nodeId: made.id } });
  expect(await ostler.nodeState(made)).toBe(state);
});
