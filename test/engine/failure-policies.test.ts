/** What the failure of one node does to it and to the others of its operation. */
import { afterAll, describe, expect, test } from "vitest";
import { callbackPath } from "../../src/engine/execution/callback.ts";
import { cleanUpFailures } from "../../src/store/operations.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const failing = () =>
  ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.configure": { fail: "the disk is full" } });
const sound = () => ostler.aNode().in("AVAILABLE");

describe("CLEAN_UP_ALL", () => {
  test("is what a commission does unless told otherwise: one failure, and every node is AVAILABLE again [R-025, R-026]", async () => {
    const others = await sound().times(2);
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

  test("lets a running step of the others end, keeps its result, and begins no new one before the clean-up", async () => {
    const gate = aGate();
    const misfortune = aGate();
    const other = await sound()
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .made();
    const bad = await sound()
      .scripted({ "deploy.prepare": { gate: misfortune.name, fail: "no luck" } })
      .made();
    const id = await ostler.begin("COMMISSION", [other, bad]);
    await gate.arrivals();
    misfortune.open();
    await ostler.nodeBecomes(bad, "DEPLOY_FAILED");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.run(id, other)).toMatchObject({ state: "STOPPED" });
    expect(ostler.entered(other)).toEqual([
      "deploy.prepare",
      "deploy.write_image",
      "deploy.remove_system",
      "clean.erase_metadata",
      "clean.erase_disks",
    ]);
    expect(await ostler.story(other, id)).toEqual([
      "deploy → DEPLOYING",
      "stop → STOPPED",
      "undeploy → UNDEPLOYING",
      "clean → CLEANING",
      "done → AVAILABLE",
    ]);
    expect(await ostler.run(id, other, "CLEAN_UP")).toMatchObject({ state: "SUCCEEDED", target: "AVAILABLE" });
  });

  test("leaves alone those that had not had their turn", async () => {
    const bad = await failing().made();
    const queued = await sound().times(2);
    const id = await ostler.begin("COMMISSION", [bad, ...queued], { maxParallel: 1 });
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    for (const node of queued) {
      expect(await ostler.run(id, node)).toMatchObject({ state: "STOPPED", startedAt: null });
      expect(ostler.journal(node)).toEqual([]);
      expect(await ostler.story(node, id)).toEqual([]);
    }
  });

  // What ran on them was undone, though it was none of this operation's making, or was protected by then.
  test("leaves alone those that are protected by then, and those that another operation has worked on since", async () => {
    const misfortune = aGate();
    const bad = await sound()
      .scripted({ "deploy.configure": { gate: misfortune.name, fail: "the disk is full" } })
      .made();
    const [guarded, updated, own] = [await sound().made(), await sound().made(), await sound().made()];
    const id = await ostler.begin("COMMISSION", [bad, guarded, updated, own]);
    for (const node of [guarded, updated, own]) await ostler.nodeBecomes(node, "ACTIVE");
    await ostler.engine.updateNode(ALICE, guarded.id, { isProtected: true });
    const other = await ostler.begin("UPDATE", [updated]);
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

  test("leaves a node in its failed state when its clean-up fails too, and says so [R-025]", async () => {
    const bad = await sound()
      .scripted({ "deploy.configure": { fail: "the disk is full" }, "clean.erase_disks": { fail: "the disk is dead" } })
      .made();
    const other = await sound().made();
    const id = await ostler.begin("COMMISSION", [bad, other]);
    const operation = await ostler.operationEnds(id);
    expect(operation.state).toBe("FAILED");
    // What made the clean-up necessary, and what failed in it, are kept apart.
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

  test("leaves nothing behind that keeps the same request from being posted again, as often as it fails [R-026]", async () => {
    const nodes = [await failing().made(), await sound().made()];
    for (let round = 0; round < 2; round += 1) {
      expect((await ostler.operationEnds(await ostler.begin("COMMISSION", nodes))).state).toBe("FAILED");
      for (const node of nodes) expect(await ostler.nodeState(node)).toBe("AVAILABLE");
    }
    for (const node of nodes)
      await ostler.engine.updateNode({ actor: "alice", project: "default" }, node.id, { settings: { steps: null } });
    expect((await ostler.operationEnds(await ostler.begin("COMMISSION", nodes))).state).toBe("SUCCEEDED");
    for (const node of nodes) expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", lastError: null });
  });

  // The others waited to the end of their wait, which may be days, and the clean-up for them.
  test("ends a reserved wait of the others early, and a driver's not", async () => {
    const misfortune = aGate();
    const bad = await sound()
      .scripted({ "deploy.prepare": { gate: misfortune.name, fail: "no luck" } })
      .made();
    const waiting = await sound().made();
    const parked = await sound()
      .scripted({ "deploy.prepare": { callback: true } })
      .made();
    const steps = [
      { interface: "deploy", name: "prepare", args: {} },
      { interface: "engine", name: "wait", args: { seconds: 86_400 } },
    ] as const;
    const id = await ostler.begin("DEPLOY", [bad, waiting, parked], { onFailure: "CLEAN_UP_ALL", options: { steps } });
    for (const node of [waiting, parked]) await ostler.nodeBecomes(node, "DEPLOY_WAIT");
    misfortune.open();
    await ostler.nodeBecomes(waiting, "STOPPED");
    const run = await ostler.run(id, parked);
    expect(run).toMatchObject({ state: "WAITING", waitReason: "CALLBACK" });
    expect(await ostler.engine.callBack(callbackPath(run, run.generation).split("/").at(-1) ?? "", {})).toBe("TAKEN");
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await Promise.all([bad, waiting, parked].map((node) => ostler.nodeState(node)))).toEqual([
      "AVAILABLE",
      "AVAILABLE",
      "AVAILABLE",
    ]);
  });

  test("stays a failure when the clean-up is aborted", async () => {
    const gate = aGate();
    const bad = await sound()
      .scripted({ "deploy.configure": { fail: "the disk is full" }, "clean.erase_disks": { gate: gate.name } })
      .made();
    const id = await ostler.begin("COMMISSION", [bad, await sound().made()]);
    await gate.arrivals();
    await ostler.engine.abort({ actor: "alice", project: "default" }, { work: { operationId: id } });
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect([await ostler.nodeState(bad), (await ostler.run(id, bad, "CLEAN_UP")).state]).toEqual([
      "CLEAN_FAILED",
      "ABORTED",
    ]);
  });

  test("does not keep a restart from going on where a failed clean-up has left a node [R-105]", async () => {
    const bad = await sound()
      .scripted({ "deploy.prepare": { fail: "no luck" }, "clean.erase_disks": { fail: "the disk is dead" } })
      .made();
    const id = await ostler.begin("COMMISSION", [bad]);
    await ostler.operationEnds(id);
    expect(await ostler.nodeState(bad)).toBe("CLEAN_FAILED");
    await ostler.engine.updateNode({ actor: "alice", project: "default" }, bad.id, { settings: { steps: null } });
    const again = await ostler.engine.restart({ actor: "alice", project: "default" }, { work: { operationId: id } });
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
    expect(await ostler.nodeState(bad)).toBe("ACTIVE");
  });

  test("is undone by a restart on every node, those included whose work had succeeded before it was cleaned up", async () => {
    const [good, bad] = [await sound().made(), await failing().made()];
    const id = await ostler.begin("COMMISSION", [good, bad], { maxParallel: 1 });
    await ostler.operationEnds(id);
    expect(await ostler.run(id, good)).toMatchObject({ state: "SUCCEEDED" });
    await ostler.engine.updateNode({ actor: "alice", project: "default" }, bad.id, { settings: { steps: null } });
    const again = await ostler.engine.restart({ actor: "alice", project: "default" }, { work: { operationId: id } });
    expect(again.results).toMatchObject([
      { nodeId: good.id, accepted: true },
      { nodeId: bad.id, accepted: true },
    ]);
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
    expect([await ostler.nodeState(good), await ostler.nodeState(bad)]).toEqual(["ACTIVE", "ACTIVE"]);
  });
});

test("CLEAN_UP_FAILED cleans up the failed node and goes on with the others", async () => {
  const [first, last] = [await sound().made(), await sound().made()];
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

test("LEAVE leaves the failed node as it is and goes on with the others", async () => {
  const bad = await failing().made();
  const other = await sound().made();
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
  { at: "verify", node: () => ostler.aNode().with("fake", { dead: true }), state: "ENROLLED", code: "TIMEOUT" },
  {
    at: "verify, at the login,",
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
])("a node that fails in $at is left $state with $code", async ({ node, state, code }) => {
  const made = await node().made();
  const id = await ostler.begin("COMMISSION", [made], { onFailure: "LEAVE" });
  expect(await ostler.operationEnds(id)).toMatchObject({ state: "FAILED", firstFailure: { code, nodeId: made.id } });
  expect(await ostler.nodeState(made)).toBe(state);
});
