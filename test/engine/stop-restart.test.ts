/** Stop and restart: what a stop keeps, and what a restart repeats. */
import { afterAll, describe, expect, test } from "vitest";
import type { RestartFrom } from "../../src/engine/admission/earlier-work.ts";
import { passGate } from "../../plugins/fake/gates.ts";
import type { Script } from "../../plugins/fake/settings.ts";
import { newestInventories } from "../../src/store/nodes/nodes.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { unsound } from "../support/soundness.ts";
import { changeNode } from "../support/change-node.ts";
import { fakeSteps } from "../support/fake-steps.ts";

const endOfCleaning = aGate();
const careful = aDriver("careful", {
  clean: stepsOf(
    aStep(
      "wipe",
      "clean",
      async ({ node }) => {
        await passGate(endOfCleaning.name, node.name, null);
        return { kind: "done" };
      },
      { interruptible: "AT_BOUNDARY" },
    ),
  ),
  deploy: stepsOf(
    aStep("install", "deploy", async () => ({ kind: "done" })),
    aStep("remove", "undeploy", async () => ({ kind: "done" })),
  ),
});

/** Fails, and is retried after a minute. */
const stubborn = aDriver("stubborn", {
  clean: stepsOf(aStep("wipe", "clean", async () => ({ kind: "done" }))),
  deploy: stepsOf(
    aStep("remove", "undeploy", async () => ({ kind: "failed", reason: "the agent is gone", retryable: true }), {
      retries: { times: 3, backoffSeconds: 60 },
    }),
  ),
});

/** Inspects in three steps; the second one fails the first time. */
let inspections = 0;
const thorough = aDriver("thorough", {
  inspect: {
    supportsAbort: true,
    withoutReboot: false,
    steps: [
      aStep("board", "inspect", async () => ({ kind: "done", output: { model: "T1000", disks: "unknown" } }), {
        priority: 30,
      }),
      aStep(
        "disks",
        "inspect",
        async () =>
          (inspections += 1) === 1
            ? { kind: "failed", reason: "the disks spin up", retryable: false }
            : { kind: "done", output: { disks: inspections } },
        { priority: 20 },
      ),
      aStep("ports", "inspect", async () => ({ kind: "done", output: { ports: 4 } })),
    ],
  },
});

const ostler = await engineUnderTest({ drivers: [careful, stubborn, thorough] });
afterAll(() => ostler[Symbol.asyncDispose]());

const stop = (operationId: string, timeoutSeconds?: number) =>
  ostler.engine.stop(ALICE, { work: { operationId }, timeoutSeconds });
const restart = (operationId: string, from?: RestartFrom) =>
  ostler.engine.restart(ALICE, { work: { operationId }, from });

async function blockedIn(step: string, script: Script = {}, kind: "DEPLOY" | "COMMISSION" = "DEPLOY") {
  const gate = aGate();
  const node = await ostler
    .aNode()
    .in(kind === "DEPLOY" ? "AVAILABLE" : "ENROLLED")
    .scripted({ [step]: { gate: gate.name, ...script } })
    .made();
  const id = await ostler.begin(kind, [node]);
  await gate.arrivals();
  return { gate, node, id };
}

/** A node that was stopped at the end of a step. */
async function stoppedAfter(step: string, kind: "DEPLOY" | "COMMISSION" = "DEPLOY") {
  const { gate, node, id } = await blockedIn(step, {}, kind);
  await stop(id);
  gate.open();
  await ostler.operationEnds(id);
  return { node, id };
}

/** Steps that the driver entered on a node after a position of its journal. */
function enteredSince(node: TestNode, mark: number): string[] {
  return ostler.entered(node).slice(mark);
}

describe("stop", () => {
  test("stop lets the running step end, keeps its result, and starts no new step [R-087, R-088, R-091, R-094]", async () => {
    const { gate, node, id } = await blockedIn("deploy.write_image");
    expect(await stop(id)).toMatchObject({
      operationId: id,
      refusals: [],
      results: [{ nodeId: node.id, accepted: true }],
    });
    expect((await ostler.operation(id)).state).toBe("STOPPING");
    expect(await ostler.nodeState(node)).toBe("DEPLOYING");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect(await ostler.node(node)).toMatchObject({ state: "STOPPED", stage: "PROVISIONED" });
    expect(ostler.entered(node)).toEqual(["deploy.prepare", "deploy.write_image"]);
    expect((await ostler.steps(await ostler.run(id, node)))[1]?.attempts.map(({ state }) => state)).toEqual([
      "SUCCEEDED",
    ]);
    expect(await ostler.story(node, id)).toEqual(["deploy → DEPLOYING", "stop → STOPPED"]);
  });

  test("stop during the last step ends SUCCEEDED, because no work is left [R-089]", async () => {
    const { node, id } = await stoppedAfter("deploy.configure");
    expect((await ostler.operation(id)).state).toBe("SUCCEEDED");
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", stage: "DEPLOYED" });
  });

  test("stop of a queued node leaves it as it was and makes no call to it [R-092]", async () => {
    const gate = aGate();
    const first = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const queued = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [first, queued], { maxParallel: 1 });
    await gate.arrivals();
    await stop(id);
    expect(await ostler.run(id, queued)).toMatchObject({ state: "STOPPED", startedAt: null });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect(await ostler.nodeState(queued)).toBe("AVAILABLE");
    expect([ostler.journal(queued), await ostler.story(queued, id)]).toEqual([[], []]);
  });

  test("stop of a run that waits for a worker leaves its node as it is, and runs no step [R-092, R-180]", async () => {
    await using waiting = await engineUnderTest({ started: false });
    const node = await waiting.aNode().in("AVAILABLE").made();
    const id = await waiting.begin("DEPLOY", [node]);
    await waiting.engine.stop(ALICE, { work: { operationId: id } });
    expect((await waiting.operation(id)).state).toBe("STOPPED");
    expect(await waiting.nodeState(node)).toBe("AVAILABLE");
    expect(waiting.entered(node)).toEqual([]);
    await waiting.engine.start();
    const again = await waiting.engine.restart(ALICE, { work: { operationId: id } });
    expect((await waiting.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
  });

  test("stop during a step that fails starts no retry [R-088, R-090]", async () => {
    const { gate, node, id } = await blockedIn("deploy.write_image", { failures: 1 });
    await stop(id);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.nodeState(node)).toBe("DEPLOY_FAILED");
    expect((await ostler.steps(await ostler.run(id, node)))[1]?.attempts.map(({ state }) => state)).toEqual(["FAILED"]);
  });

  test("stop during the backoff before a retry ends the run as failed at once [R-090]", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { failures: 9 } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.nodeBecomes(node, "DEPLOY_WAIT");
    await stop(id);
    await ostler.operationEnds(id);
    expect(await ostler.run(id, node)).toMatchObject({
      state: "FAILED",
      failure: { message: expect.stringContaining("failure 1 of 9") },
    });
    expect(await ostler.nodeState(node)).toBe("DEPLOY_FAILED");
  });

  test("stop of a parked step waits for the end of the step [R-088]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("fake", { waitSeconds: 60 }).made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.nodeBecomes(node, "DEPLOY_WAIT");
    await stop(id);
    await ostler.waitIsOver(node);
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect(await ostler.story(node, id)).toEqual([
      "deploy → DEPLOYING",
      "wait → DEPLOY_WAIT",
      "resume → DEPLOYING",
      "stop → STOPPED",
    ]);
    expect((await ostler.steps(await ostler.run(id, node)))[2]?.attempts.map(({ state }) => state)).toEqual([
      "SUCCEEDED",
    ]);
  });

  test("stop that times out fails the running step with STOP_TIMEOUT, and the run can be restarted [R-095]", async () => {
    const { gate, node, id } = await blockedIn("deploy.write_image");
    await stop(id, 1);
    const operation = await ostler.operationEnds(id);
    expect(operation).toMatchObject({ state: "FAILED", firstFailure: { code: "STOP_TIMEOUT", nodeName: node.name } });
    expect(await ostler.run(id, node)).toMatchObject({
      state: "FAILED",
      failure: { code: "STOP_TIMEOUT", retryable: true },
    });
    expect(await ostler.nodeState(node)).toBe("DEPLOY_FAILED");
    gate.open();
    const again = await restart(id);
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
  });

  test("stop that times out fails a step that must not be interrupted without cancelling it or changing the power [R-095]", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.update_firmware": { gate: gate.name } })
      .made();
    const id = await ostler.begin("CLEAN", [node], {
      options: { steps: [{ interface: "clean", name: "update_firmware", args: { version: "2.1" } }] },
    });
    await gate.arrivals();
    await stop(id, 1);
    expect((await ostler.operationEnds(id)).firstFailure).toMatchObject({ code: "STOP_TIMEOUT" });
    expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
    expect(ostler.journal(node).some((entry) => "abort" in entry || "power" in entry)).toBe(false);
    gate.open();
  });

  test("stop of an operation waited for the rows that its steps were writing: it is recorded without them [R-088]", async () => {
    const { gate, node, id } = await blockedIn("deploy.prepare");
    const { id: runId } = await ostler.run(id, node);
    const [locked, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const writing = ostler.test.sql.begin(async (sql) => {
      await sql`select id from runs where id = ${runId} for no key update`;
      locked.resolve();
      await release.promise;
    });
    await locked.promise;
    expect(await stop(id)).toMatchObject({ operationId: id, refusals: [] });
    expect(await ostler.operation(id)).toMatchObject({ state: "STOPPING", interrupt: "STOP" });
    release.resolve();
    await writing;
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect((await ostler.transitions(node)).at(-1)).toMatchObject({ event: "stop", actor: "alice" });
    expect(ostler.entered(node)).toEqual(["deploy.prepare"]);
  });

  test("stop that is repeated returns the same operation [R-096]", async () => {
    const { gate, id } = await blockedIn("deploy.prepare");
    const first = await stop(id);
    expect(await stop(id)).toEqual(first);
    gate.open();
    await ostler.operationEnds(id);
  });

  test("stop of an operation that has ended does not return it as if it had been stopped [R-097]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.operationEnds(id);
    expect(await stop(id)).toMatchObject({
      operationId: null,
      refusals: [{ code: "NOTHING_RUNNING", operationId: id, message: expect.stringContaining("SUCCEEDED") }],
      results: [{ nodeId: node.id, accepted: false, refusal: { code: "NOTHING_RUNNING" } }],
    });
    expect((await ostler.operation(id)).state).toBe("SUCCEEDED");
  });

  test("stop at the moment at which the operation ends completes, and so does the operation [R-097]", async () => {
    for (let round = 0; round < 10; round += 1) {
      const { gate, node, id } = await blockedIn("deploy.configure");
      gate.open();
      await stop(id);
      expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
      expect(await ostler.nodeState(node)).toBe("ACTIVE");
    }
  });

  test("stop of one node leaves the others of the operation running [R-087]", async () => {
    const gate = aGate();
    const [one, two] = (await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(2)) as [TestNode, TestNode];
    const id = await ostler.begin("DEPLOY", [one, two]);
    await gate.arrivals(2);
    expect(await ostler.engine.stop(ALICE, { work: { ids: [one.id] } })).toMatchObject({
      operationId: id,
      results: [{ accepted: true }],
    });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect([await ostler.nodeState(one), await ostler.nodeState(two)]).toEqual(["STOPPED", "ACTIVE"]);
  });

  test("stop of a cluster stops its operation and no other [R-087, R-093]", async () => {
    const gate = aGate();
    await ostler.engine.createCluster(ALICE, { name: "stopped" });
    const member = await ostler
      .aNode()
      .inCluster("stopped")
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const stranger = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const answer = await ostler.engine.submit(ALICE, { kind: "DEPLOY", nodes: { cluster: { name: "stopped" } } });
    const other = await ostler.begin("DEPLOY", [stranger]);
    await gate.arrivals(2);
    expect(await ostler.engine.stop(ALICE, { work: { cluster: { name: "stopped" } } })).toMatchObject({
      operationId: answer.operationId,
    });
    gate.open();
    expect((await ostler.operationEnds(answer.operationId ?? "")).state).toBe("STOPPED");
    expect((await ostler.operationEnds(other)).state).toBe("SUCCEEDED");
    expect(await ostler.nodeState(member)).toBe("STOPPED");
  });

  test("stop without running work is refused", async () => {
    const node = await ostler.aNode().made();
    expect((await ostler.engine.stop(ALICE, { work: { ids: [node.id] } })).refusals).toMatchObject([
      {
        code: "NOTHING_RUNNING",
        nodeId: node.id,
        message: `Nothing is running on node ${node.name} that could be stopped.`,
      },
    ]);
    expect((await stop("7f2")).refusals).toMatchObject([{ code: "NOT_FOUND" }]);
    expect((await stop("7f2", 0)).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "timeoutSeconds"] },
    ]);
  });

  test("stop of a cluster with several operations stops all work on its nodes, and repeated returns the same [R-087]", async () => {
    const gate = aGate();
    await ostler.engine.createCluster(ALICE, { name: "twice" });
    const nodes = await ostler
      .aNode()
      .in("AVAILABLE")
      .inCluster("twice")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(3);
    const [one, ...others] = nodes as [TestNode, ...TestNode[]];
    await ostler.aNode().inCluster("twice").made();
    const first = await ostler.begin("DEPLOY", [one]);
    const cluster = { cluster: { name: "twice" } };
    const { operationId: second } = await ostler.engine.submit(ALICE, {
      kind: "DEPLOY",
      nodes: cluster,
      acceptance: "BEST_EFFORT",
    });
    await gate.arrivals(3);
    const forecast = await ostler.engine.stop(ALICE, { work: cluster, dryRun: true });
    expect(forecast).toMatchObject({ refusals: [], forecast: { entries: { length: 3 } } });
    const answer = await ostler.engine.stop(ALICE, { work: cluster });
    expect(answer).toMatchObject({ refusals: [], operationIds: expect.arrayContaining([first, second]) as unknown });
    expect(await ostler.engine.stop(ALICE, { work: cluster })).toEqual(answer);
    gate.open();
    for (const id of [first, second ?? ""]) expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    for (const node of [one, ...others]) expect(await ostler.nodeState(node)).toBe("STOPPED");
  });

  test("stop does not prevent an abort [R-098]", async () => {
    const { node, id } = await blockedIn("deploy.write_image");
    await stop(id);
    expect((await ostler.engine.abort(ALICE, { work: { operationId: id } })).results).toMatchObject([
      { accepted: true, effect: "NOW" },
    ]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(await ostler.nodeState(node)).toBe("DEPLOY_FAILED");
  });
});

describe("stop of nodes", () => {
  const stopNodes = (nodes: readonly TestNode[], timeoutSeconds?: number) =>
    ostler.engine.stop(ALICE, { work: { ids: nodes.map(({ id }) => id) }, timeoutSeconds });

  test("stop of nodes of several operations stops their runs in each and returns the run of each node [R-087]", async () => {
    const gate = aGate();
    const nodes = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(4);
    const [one, two, three, four] = nodes as [TestNode, TestNode, TestNode, TestNode];
    const [first, second] = [await ostler.begin("DEPLOY", [one, two]), await ostler.begin("DEPLOY", [three, four])];
    await gate.arrivals(4);
    const answer = await stopNodes([one, three]);
    expect(answer).toMatchObject({
      operationId: null,
      operationIds: [first, second],
      refusals: [],
      results: [
        { nodeId: one.id, accepted: true },
        { nodeId: three.id, accepted: true },
      ],
    });
    expect(answer.results.map(({ runId }) => runId)).toEqual([
      (await ostler.run(first, one)).id,
      (await ostler.run(second, three)).id,
    ]);
    expect([(await ostler.operation(first)).state, (await ostler.operation(second)).state]).toEqual([
      "RUNNING",
      "RUNNING",
    ]);
    gate.open();
    for (const id of [first, second]) expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect(await Promise.all(nodes.map((node) => ostler.nodeState(node)))).toEqual([
      "STOPPED",
      "ACTIVE",
      "STOPPED",
      "ACTIVE",
    ]);
  });

  test("stop of all nodes of an operation is a stop of the operation, and returns the same when repeated, even after its end [R-096]", async () => {
    const { gate, node, id } = await blockedIn("deploy.write_image");
    const first = await stopNodes([node]);
    expect(first).toMatchObject({ operationId: id, refusals: [], results: [{ nodeId: node.id, accepted: true }] });
    expect(await ostler.operation(id)).toMatchObject({ state: "STOPPING", interrupt: "STOP" });
    expect(await stopNodes([node])).toEqual(first);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect(await stopNodes([node])).toEqual(first);
  });

  test("stop with nothing to stop returns no operation, and one error for all nodes", async () => {
    const [one, two, idle] = (await ostler.aNode().in("AVAILABLE").times(3)) as [TestNode, TestNode, TestNode];
    await ostler.operationEnds(await ostler.begin("DEPLOY", [one, two]));
    const answer = await stopNodes([one, two, idle]);
    expect(answer).toMatchObject({
      operationId: null,
      refusals: [{ code: "NOTHING_RUNNING", nodes: { count: 3, refs: [one.id, two.id, idle.id] } }],
    });
    expect(answer.results.map(({ refusal }) => refusal?.code)).toEqual(Array(3).fill("NOTHING_RUNNING"));
  });

  test("stop of a node whose work has ended names the operation and how it ended", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.operationEnds(id);
    expect(await stopNodes([node])).toMatchObject({
      operationId: null,
      refusals: [{ code: "NOTHING_RUNNING", operationId: id, message: expect.stringContaining("SUCCEEDED") }],
    });
  });

  // The first timer to fire used to fail every stopping run of the operation.
  test("stop of nodes has its own timeout, independent of an earlier stop of other nodes", async () => {
    const gate = aGate();
    const [first, second] = (await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(2)) as [TestNode, TestNode];
    const id = await ostler.begin("DEPLOY", [first, second]);
    await gate.arrivals(2);
    await stopNodes([first], 1);
    await stopNodes([second], 600);
    await ostler.nodeBecomes(first, "DEPLOY_FAILED");
    expect(await ostler.run(id, second)).toMatchObject({ state: "RUNNING", interrupt: "STOP", interruptFailure: null });
    gate.open();
    expect(await ostler.operationEnds(id)).toMatchObject({
      state: "STOPPED",
      firstFailure: { code: "STOP_TIMEOUT", nodeName: first.name },
    });
    expect(await ostler.nodeState(second)).toBe("STOPPED");
  });

  test("stop of nodes that are in a clean-up is refused, and the clean-up goes on", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { fail: "no luck" }, "clean.erase_disks": { gate: gate.name } })
      .made();
    const id = await ostler.begin("COMMISSION", [node]);
    await gate.arrivals();
    expect((await stopNodes([node])).refusals).toMatchObject([
      {
        code: "NOTHING_RUNNING",
        nodeId: node.id,
        operationId: id,
        message: expect.stringContaining("is being cleaned up"),
      },
    ]);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.nodeState(node)).toBe("AVAILABLE");
  });
});

describe("stop that times out", () => {
  test("stop that times out names the step of each node, though stuck steps occupy every slot, and frees the slots [R-095]", async () => {
    await using lab = await engineUnderTest({ concurrency: 2 });
    const deaf = { silent: true, ignoreSignal: true };
    const parked = await lab
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.boot_system": { callback: true } })
      .made();
    const waiting = await lab.begin("DEPLOY", [parked]);
    await lab.nodeBecomes(parked, "DEPLOY_WAIT");
    const stuck = [
      await lab.aNode().in("AVAILABLE").scripted({ "deploy.write_image": deaf }).made(),
      await lab.aNode().in("AVAILABLE").scripted({ "clean.erase_metadata": deaf }).made(),
    ] as const;
    const ids = [await lab.begin("DEPLOY", [stuck[0]]), await lab.begin("CLEAN", [stuck[1]])];
    await eventually(
      "both steps are stuck",
      () => lab.entered(stuck[0]).includes("deploy.write_image") && lab.entered(stuck[1]).length > 0,
    );
    const queued = await lab.aNode().in("AVAILABLE").made();
    const later = await lab.begin("DEPLOY", [queued]);
    for (const operationId of [waiting, ...ids])
      await lab.engine.stop(ALICE, { work: { operationId }, timeoutSeconds: 1 });
    const failures = await Promise.all([waiting, ...ids].map(async (id) => (await lab.operationEnds(id)).firstFailure));
    expect(failures).toMatchObject([
      {
        code: "STOP_TIMEOUT",
        step: "deploy.boot_system",
        nodeName: parked.name,
        message: expect.stringContaining("deploy.boot_system was still running"),
      },
      { code: "STOP_TIMEOUT", step: "deploy.write_image", nodeName: stuck[0].name },
      { code: "STOP_TIMEOUT", step: "clean.erase_metadata", nodeName: stuck[1].name },
    ]);
    expect((await lab.operationEnds(later)).state).toBe("SUCCEEDED");
    expect(await unsound(lab)).toEqual([]);
  });

  // The abort used to replace the stop on these runs, so the operation was STOPPING for as long as their steps lasted.
  test("stop that times out also fails runs whose abort is pending or was withdrawn during the stop", async () => {
    const gate = aGate();
    const nodes = (await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { gate: gate.name } })
      .times(3)) as [TestNode, TestNode, TestNode];
    const [pending, withdrawn, plain] = nodes;
    const id = await ostler.begin("CLEAN", nodes);
    await gate.arrivals(3);
    await stop(id, 1);
    for (const node of [pending, withdrawn]) await ostler.engine.abort(ALICE, { work: { ids: [node.id] } });
    await ostler.engine.withdrawAbort(ALICE, { work: { ids: [withdrawn.id] } });
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    for (const node of [pending, withdrawn, plain])
      expect(await ostler.run(id, node)).toMatchObject({
        state: "FAILED",
        failure: { code: "STOP_TIMEOUT", step: "clean.erase_metadata" },
      });
    gate.open();
  });

  test("stop that times out does not fail a run with a pending abort before the timeout of its own stop", async () => {
    const gate = aGate();
    const [first, second] = (await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { gate: gate.name } })
      .times(2)) as [TestNode, TestNode];
    const id = await ostler.begin("CLEAN", [first, second]);
    await gate.arrivals(2);
    await ostler.engine.stop(ALICE, { work: { ids: [first.id] }, timeoutSeconds: 1 });
    await ostler.engine.abort(ALICE, { work: { ids: [second.id] } });
    await stop(id, 600);
    await eventually("the first stop has timed out", async () => (await ostler.run(id, first)).state === "FAILED");
    expect(await ostler.run(id, second)).toMatchObject({
      state: "RUNNING",
      interrupt: "ABORT",
      interruptFailure: null,
    });
    gate.open();
    await ostler.operationEnds(id);
    expect(await ostler.run(id, second)).toMatchObject({ state: "ABORTED" });
  });

  test("stop that times out while no process runs fails the step when a process starts", async () => {
    await using lab = await engineUnderTest({ started: false });
    const first = await lab.another({ started: true });
    const node = await lab
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.boot_system": { callback: true } })
      .made();
    const id = await lab.begin("DEPLOY", [node]);
    await lab.nodeBecomes(node, "DEPLOY_WAIT");
    await lab.engine.stop(ALICE, { work: { operationId: id }, timeoutSeconds: 1 });
    await first[Symbol.asyncDispose]();
    await lab.engine.start();
    expect(await lab.operationEnds(id)).toMatchObject({
      state: "FAILED",
      firstFailure: { code: "STOP_TIMEOUT", step: "deploy.boot_system" },
    });
  });
});

test("stop and restart leave no trace on nodes outside the operation [R-093]", async () => {
  const gate = aGate();
  const [parked, idle] = (await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.boot_system": { callback: true } })
    .times(2)) as [TestNode, TestNode];
  const other = await ostler.begin("DEPLOY", [parked]);
  await ostler.nodeBecomes(parked, "DEPLOY_WAIT");
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.write_image": { gate: gate.name } })
    .made();
  const id = await ostler.begin("DEPLOY", [node]);
  await gate.arrivals();
  const before = await ostler.dump();
  await stop(id);
  gate.open();
  await ostler.operationEnds(id);
  await ostler.operationEnds((await restart(id)).operationId ?? "");
  const changes = await ostler.changesSince(before);
  expect(changes.filter((row) => row.includes(node.id)).length).toBeGreaterThan(0);
  for (const bystander of [parked.id, idle.id, other])
    expect(changes.filter((row) => row.includes(bystander))).toEqual([]);
  await ostler.engine.abort(ALICE, { work: { operationId: other } });
});

// The failure used to fail the run, though no failure ends a decommission.
test("stop of a decommission between two attempts of a step records the failure and ends STOPPED", async () => {
  const node = await ostler.aNode().in("ACTIVE").with("stubborn").made();
  const id = await ostler.begin("DECOMMISSION", [node]);
  await ostler.nodeBecomes(node, "UNDEPLOY_WAIT");
  await stop(id);
  expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
  expect(await ostler.run(id, node)).toMatchObject({
    state: "STOPPED",
    failure: null,
    errors: [{ step: "deploy.remove", message: expect.stringContaining("the agent is gone") }],
  });
  expect(await ostler.nodeState(node)).toBe("STOPPED");
});

describe("restart", () => {
  test("restart is a new operation that names the one it restarts [R-099]", async () => {
    const { node, id } = await stoppedAfter("deploy.write_image");
    const answer = await restart(id);
    expect(await ostler.operationEnds(answer.operationId ?? "")).toMatchObject({
      state: "SUCCEEDED",
      restartOf: id,
      kind: "DEPLOY",
    });
    const earlier = await ostler.run(id, node);
    expect(await ostler.run(answer.operationId ?? "", node)).toMatchObject({ restartOf: earlier.id, attempt: 2 });
    expect((await ostler.operation(id)).state).toBe("STOPPED");
  });

  test("restart keeps an installed system and does not write the image again [R-011, R-101]", async () => {
    const { node, id } = await stoppedAfter("deploy.write_image", "COMMISSION");
    const mark = ostler.entered(node).length;
    const answer = await restart(id);
    await ostler.operationEnds(answer.operationId ?? "");
    expect(enteredSince(node, mark)).toEqual(["deploy.boot_system", "deploy.configure"]);
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", stage: "DEPLOYED" });
    const kept = (await ostler.steps(await ostler.run(answer.operationId ?? "", node)))
      .filter((step) => step.kept)
      .map(({ name }) => name);
    expect(kept).toEqual(["deploy.prepare", "deploy.write_image"]);
  });

  test("restart repeats the unfinished stage before a system is installed, except for erasures [R-011, R-101]", async () => {
    const { node, id } = await stoppedAfter("clean.erase_metadata", "COMMISSION");
    const mark = ostler.entered(node).length;
    await ostler.operationEnds((await restart(id)).operationId ?? "");
    expect(enteredSince(node, mark)).toEqual([
      "inspect.collect_inventory",
      ...fakeSteps("clean").slice(1),
      ...fakeSteps("deploy"),
    ]);
  });

  test("restart from UNFINISHED_STEP runs only steps that have not succeeded [R-102]", async () => {
    const { node, id } = await stoppedAfter("clean.erase_metadata", "COMMISSION");
    const mark = ostler.entered(node).length;
    await ostler.operationEnds((await restart(id, "UNFINISHED_STEP")).operationId ?? "");
    expect(enteredSince(node, mark)).toEqual([...fakeSteps("clean").slice(1), ...fakeSteps("deploy")]);
    expect(await ostler.nodeState(node)).toBe("ACTIVE");
  });

  // An abort at the end of a phase used to leave the node in a state without a restart.
  test("restart from UNFINISHED_STEP continues with the next phase after an abort that took effect at the end of a phase", async () => {
    const node = await ostler.aNode().in("CLEAN_FAILED").with("careful").made();
    const id = await ostler.begin("COMMISSION", [node], { onFailure: "LEAVE" });
    await endOfCleaning.arrivals();
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    endOfCleaning.open();
    await ostler.operationEnds(id);
    expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
    const again = await restart(id, "UNFINISHED_STEP");
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
    expect(await endOfCleaning.arrivals()).toEqual([node.name]);
    expect(await ostler.story(node, again.operationId ?? "")).toEqual([
      "clean → CLEANING",
      "done → AVAILABLE",
      "deploy → DEPLOYING",
      "done → ACTIVE",
    ]);
  });

  test("restart from BEGINNING repeats everything [R-103]", async () => {
    const { node, id } = await stoppedAfter("deploy.boot_system", "COMMISSION");
    const mark = ostler.entered(node).length;
    await ostler.operationEnds((await restart(id, "BEGINNING")).operationId ?? "");
    expect(enteredSince(node, mark)).toHaveLength(7);
    expect(await ostler.nodeState(node)).toBe("ACTIVE");
  });

  test("restart includes failed nodes and leaves ACTIVE nodes alone [R-099, R-104]", async () => {
    const bad = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.configure": { failures: 1 } })
      .made();
    const sound = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [bad, sound]);
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
    const marks = [bad, sound].map((node) => ostler.entered(node).length);
    const answer = await restart(id);
    expect(answer.results.map(({ ref, accepted, refusal }) => [ref, accepted, refusal?.code])).toEqual([
      [bad.name, true, undefined],
      [sound.name, false, "NOTHING_TO_RESTART"],
    ]);
    expect(await ostler.operationEnds(answer.operationId ?? "")).toMatchObject({ state: "SUCCEEDED", totalCount: 1 });
    expect(enteredSince(bad, marks[0] ?? 0)).toEqual(["deploy.boot_system", "deploy.configure"]);
    expect(enteredSince(sound, marks[1] ?? 0)).toEqual([]);
    expect(await ostler.nodeState(bad)).toBe("ACTIVE");
  });

  test("restart includes aborted nodes [R-099]", async () => {
    const { gate, node, id } = await blockedIn("deploy.write_image");
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
    gate.open();
    await ostler.operationEnds((await restart(id)).operationId ?? "");
    expect(await ostler.nodeState(node)).toBe("ACTIVE");
  });

  test("restart includes nodes that were stopped while queued [R-099]", async () => {
    const gate = aGate();
    const first = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const queued = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [first, queued], { maxParallel: 1 });
    await gate.arrivals();
    await stop(id);
    gate.open();
    await ostler.operationEnds(id);
    expect((await ostler.operationEnds((await restart(id)).operationId ?? "")).state).toBe("SUCCEEDED");
    expect([await ostler.nodeState(first), await ostler.nodeState(queued)]).toEqual(["ACTIVE", "ACTIVE"]);
  });

  test("restart uses the present settings [R-100]", async () => {
    await ostler.engine.createCluster(ALICE, { name: "edited", variables: { ntp: "old", dns: "kept" } });
    const gate = aGate();
    const node = await ostler
      .aNode()
      .inCluster("edited")
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const id = await ostler.begin("DEPLOY", [node], { variables: { image: "debian-13" } });
    await gate.arrivals();
    await stop(id);
    gate.open();
    await ostler.operationEnds(id);
    expect(
      (await ostler.engine.updateCluster(ALICE, { name: "edited" }, { variables: { ntp: "new" } })).refusals,
    ).toEqual([]);
    const answer = await restart(id);
    await ostler.operationEnds(answer.operationId ?? "");
    const steps = await ostler.steps(await ostler.run(answer.operationId ?? "", node));
    expect(steps.at(-1)?.attempts[0]?.output).toEqual({ variables: { ntp: "new", dns: "kept", image: "debian-13" } });
  });

  test("restart of a restart continues like the first one", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.configure": { failures: 2 } })
      .made();
    // With the power off, the restart would boot the system again.
    const id = await ostler.begin("DEPLOY", [node], { powerOnFailure: "LEAVE" });
    await ostler.operationEnds(id);
    const second = (await restart(id, "UNFINISHED_STEP")).operationId ?? "";
    expect((await ostler.operationEnds(second)).state).toBe("FAILED");
    const third = (await restart(second, "UNFINISHED_STEP")).operationId ?? "";
    expect((await ostler.operationEnds(third)).state).toBe("SUCCEEDED");
    expect(ostler.entered(node)).toEqual([...fakeSteps("deploy"), "deploy.configure", "deploy.configure"]);
    expect(await ostler.run(third, node)).toMatchObject({ attempt: 3 });
  });

  test("restart of a succeeded or a running operation is refused [R-106]", async () => {
    const { gate, node, id } = await blockedIn("deploy.prepare");
    expect((await restart(id)).refusals).toMatchObject([{ code: "BUSY", operationId: id }]);
    gate.open();
    await ostler.operationEnds(id);
    expect((await restart(id)).refusals).toMatchObject([{ code: "NOTHING_TO_RESTART" }]);
    const fresh = await ostler.aNode().made();
    expect((await ostler.engine.restart(ALICE, { work: { ids: [fresh.id, node.id] } })).refusals).toMatchObject([
      { code: "NOTHING_TO_RESTART" },
    ]);
  });

  test("restart of some nodes includes these, and a later one the others [R-099]", async () => {
    const gate = aGate();
    const nodes = (await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(3)) as [TestNode, TestNode, TestNode];
    const id = await ostler.begin("DEPLOY", nodes);
    await gate.arrivals(3);
    await stop(id);
    gate.open();
    await ostler.operationEnds(id);
    const some = await ostler.engine.restart(ALICE, { work: { ids: [nodes[2].id, nodes[0].id] } });
    expect(some.results.map(({ nodeId, accepted }) => [nodeId, accepted])).toEqual([
      [nodes[2].id, true],
      [nodes[0].id, true],
    ]);
    expect(await ostler.operationEnds(some.operationId ?? "")).toMatchObject({
      state: "SUCCEEDED",
      totalCount: 2,
      restartOf: id,
    });
    expect(await ostler.nodeState(nodes[1])).toBe("STOPPED");
    const rest = await restart(id);
    expect(rest.results.map(({ nodeId, accepted }) => [nodeId, accepted])).toEqual([
      [nodes[0].id, false],
      [nodes[1].id, true],
      [nodes[2].id, false],
    ]);
    expect((await ostler.operationEnds(rest.operationId ?? "")).state).toBe("SUCCEEDED");
  });

  // Each node used to have its own plan, which was hashed twice: ten thousand nodes blocked the process for seconds.
  test("restart of nodes that keep the same steps creates one plan for them", async () => {
    const gate = aGate();
    const nodes = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .times(2);
    const other = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const id = await ostler.begin("DEPLOY", [...nodes, other]);
    await gate.arrivals(3);
    await stop(id);
    gate.open();
    await ostler.operationEnds(id);
    const { operationId, results } = await restart(id);
    const [first, second, third] = results.map(({ plan }) => plan);
    expect(first?.steps.map(({ kept }) => kept)).toEqual([true, true, false, false]);
    expect(second).toBe(first);
    expect(third?.steps.some(({ kept }) => kept)).toBe(false);
    await ostler.operationEnds(operationId ?? "");
  });

  test("restart of a cluster includes its unfinished nodes [R-099]", async () => {
    await ostler.engine.createCluster(ALICE, { name: "restarted" });
    const gate = aGate();
    const members = await ostler
      .aNode()
      .inCluster("restarted")
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .times(2);
    const { operationId } = await ostler.engine.submit(ALICE, {
      kind: "DEPLOY",
      nodes: { cluster: { name: "restarted" } },
    });
    await gate.arrivals(2);
    await ostler.engine.stop(ALICE, { work: { cluster: { name: "restarted" } } });
    gate.open();
    expect((await ostler.operationEnds(operationId ?? "")).state).toBe("STOPPED");
    const again = await ostler.engine.restart(ALICE, { work: { cluster: { name: "restarted" } } });
    expect(again.results.map(({ accepted }) => accepted)).toEqual([true, true]);
    expect(await ostler.operationEnds(again.operationId ?? "")).toMatchObject({
      state: "SUCCEEDED",
      restartOf: operationId,
    });
    for (const node of members) expect(await ostler.nodeState(node)).toBe("ACTIVE");
  });

  test("restart of nodes of which some are busy is refused for those, with the operation that runs on them", async () => {
    const { node, id } = await stoppedAfter("deploy.write_image");
    const busy = await blockedIn("deploy.prepare");
    const answer = await ostler.engine.restart(ALICE, { work: { ids: [busy.node.id, node.id] } });
    expect(answer.results.find(({ nodeId }) => nodeId === busy.node.id)).toMatchObject({
      accepted: false,
      refusal: { code: "BUSY", operationId: busy.id },
    });
    expect(await ostler.operationEnds(answer.operationId ?? "")).toMatchObject({
      state: "SUCCEEDED",
      totalCount: 1,
      restartOf: id,
    });
    busy.gate.open();
    await ostler.operationEnds(busy.id);
  });

  test("restart of a node whose operation is still stopping is BUSY and leaves no trace", async () => {
    const { gate, id } = await blockedIn("deploy.write_image");
    await stop(id);
    const before = await ostler.dump();
    expect((await restart(id)).refusals).toMatchObject([
      { code: "BUSY", operationId: id, message: expect.stringContaining("STOPPING") },
    ]);
    expect(await ostler.changesSince(before)).toEqual([]);
    gate.open();
    await ostler.operationEnds(id);
  });

  test("restart is refused for a node that another operation has changed since", async () => {
    const { node, id } = await stoppedAfter("deploy.write_image");
    await ostler.operationEnds(await ostler.begin("UNDEPLOY", [node]));
    const answer = await restart(id);
    expect(answer).toMatchObject({
      operationId: null,
      results: [{ accepted: false, refusal: { code: "NOTHING_TO_RESTART" } }],
    });
  });

  // Both nodes used to get the steps and the variables of the newer request.
  test.each([
    ["options", { options: { steps: [{ interface: "clean", name: "erase_metadata", args: {} }] } }],
    ["variables", { variables: { image: "debian-13" } }],
    ["a failure policy", { onFailure: "CLEAN_UP_FAILED" }],
  ] as const)(
    "restart of nodes from two requests with different %s has an operation for each",
    async (_what, second) => {
      const nodes = (await ostler
        .aNode()
        .in("AVAILABLE")
        .scripted({ "clean.erase_metadata": { fail: "no luck" }, "clean.erase_disks": { fail: "no luck" } })
        .times(2)) as [TestNode, TestNode];
      const ids = [await ostler.begin("CLEAN", [nodes[0]]), await ostler.begin("CLEAN", [nodes[1]], second)];
      for (const id of ids) await ostler.operationEnds(id);
      const { operationIds = [], refusals } = await ostler.engine.restart(ALICE, {
        work: { ids: nodes.map(({ id }) => id) },
      });
      expect(refusals).toEqual([]);
      const again = await Promise.all(operationIds.map((id) => ostler.operationEnds(id)));
      const earlier = new Map(await Promise.all(ids.map(async (id) => [id, await ostler.operation(id)] as const)));
      expect(new Set(again.map(({ restartOf }) => restartOf))).toEqual(new Set(ids));
      for (const { restartOf, options, variables, onFailure } of again)
        expect({ options, variables, onFailure }).toEqual(
          ((of) => of && { options: of.options, variables: of.variables, onFailure: of.onFailure })(
            earlier.get(restartOf ?? ""),
          ),
        );
    },
  );

  test("restart of nodes from two equal requests includes both", async () => {
    const nodes = (await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { failures: 1 } })
      .times(2)) as [TestNode, TestNode];
    for (const node of nodes)
      await ostler.operationEnds(await ostler.begin("CLEAN", [node], { variables: { image: "debian-13" } }));
    const answer = await ostler.engine.restart(ALICE, { work: { ids: nodes.map(({ id }) => id) } });
    expect(await ostler.operationEnds(answer.operationId ?? "")).toMatchObject({ state: "SUCCEEDED", totalCount: 2 });
  });

  // The restart used to be refused as a whole for a node that the request did not name.
  test("restart of an operation skips nodes that were deleted since", async () => {
    const nodes = (await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { failures: 1 } })
      .times(2)) as [TestNode, TestNode];
    const id = await ostler.begin("CLEAN", nodes);
    await ostler.operationEnds(id);
    await ostler.engine.deleteNodes(ALICE, { ids: [nodes[0].id] });
    const answer = await restart(id);
    expect(answer.results).toMatchObject([
      {
        ref: nodes[0].name,
        accepted: false,
        refusal: { code: "NOTHING_TO_RESTART", message: expect.stringContaining("it was deleted") },
      },
      { ref: nodes[1].name, accepted: true },
    ]);
    expect(await ostler.operationEnds(answer.operationId ?? "")).toMatchObject({ state: "SUCCEEDED", totalCount: 1 });
  });

  test("restart has the same preconditions as any verb", async () => {
    const { node, id } = await stoppedAfter("deploy.write_image");
    await ostler.engine.setMaintenance(ALICE, { ids: [node.id] }, "new fan");
    expect((await restart(id)).refusals).toMatchObject([{ code: "IN_MAINTENANCE", nodeId: node.id }]);
  });

  test("restart with the same idempotency key at the same moment creates one operation", async () => {
    const { id } = await stoppedAfter("deploy.write_image");
    const answers = await Promise.all(
      [1, 2, 3].map(() => ostler.engine.restart(ALICE, { work: { operationId: id }, idempotencyKey: `restart-${id}` })),
    );
    const ids = new Set(answers.map(({ operationId }) => operationId));
    expect([...ids]).toEqual([expect.any(String)]);
    await ostler.operationEnds([...ids][0] ?? "");
  });

  // The second request was BUSY while the first ran, and NOTHING_TO_RESTART after it.
  test("restart with the same idempotency key returns the same operation while it runs, when it has failed and when it has succeeded", async () => {
    const { node, id } = await stoppedAfter("deploy.prepare");
    for (const work of [{ operationId: id }, { ids: [node.id] }]) {
      const held = aGate();
      await changeNode(ostler.engine, ALICE, node.id, {
        settings: { steps: { "deploy.configure": { gate: held.name, fail: "no luck" } } },
      });
      const request = { work, idempotencyKey: `again-${JSON.stringify(work)}` };
      const first = await ostler.engine.restart(ALICE, request);
      expect(first).toMatchObject({ operationId: expect.any(String), replayed: false });
      const again = {
        operationId: first.operationId,
        replayed: true,
        refusals: [],
        results: [{ nodeId: node.id, accepted: true, runId: first.results[0]?.runId }],
      };
      expect(await ostler.engine.restart(ALICE, request)).toMatchObject(again);
      held.open();
      expect((await ostler.operationEnds(first.operationId ?? "")).state).toBe("FAILED");
      expect(await ostler.engine.restart(ALICE, request)).toMatchObject(again);
      if ("operationId" in work) continue;
      await changeNode(ostler.engine, ALICE, node.id, { settings: { steps: null } });
      await ostler.operationEnds((await restart(first.operationId ?? "")).operationId ?? "");
      expect(await ostler.nodeState(node)).toBe("ACTIVE");
      expect(await ostler.engine.restart(ALICE, request)).toMatchObject(again);
    }
  });

  test("restart with an idempotency key of another input is refused with the operation it was used for", async () => {
    const { node, id } = await stoppedAfter("deploy.write_image");
    const idempotencyKey = `other-${id}`;
    const { operationId } = await ostler.engine.restart(ALICE, { work: { operationId: id }, idempotencyKey });
    const mismatch = { operationId: null, refusals: [{ code: "IDEMPOTENCY_MISMATCH", operationId }] };
    const others = [
      { work: { ids: [node.id] } },
      { work: { operationId: id }, from: "BEGINNING" },
      { work: { operationId: id }, onFailure: "CLEAN_UP_ALL" },
    ] as const;
    for (const other of others)
      expect(await ostler.engine.restart(ALICE, { ...other, idempotencyKey })).toMatchObject(mismatch);
    expect(await ostler.submit("DEPLOY", [node], { idempotencyKey })).toMatchObject(mismatch);
    await ostler.operationEnds(operationId ?? "");
    for (const other of others)
      expect(await ostler.engine.restart(ALICE, { ...other, idempotencyKey })).toMatchObject(mismatch);
  });
});

describe("restart from the unfinished step", () => {
  test("restart from the unfinished step boots a system that the abort switched off, and installs nothing twice", async () => {
    const { gate, node, id } = await blockedIn("deploy.configure");
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    gate.open();
    await ostler.operationEnds(id);
    expect(await ostler.node(node)).toMatchObject({ state: "DEPLOY_FAILED", powerState: "OFF" });
    const again = await restart(id, "UNFINISHED_STEP");
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
    expect(ostler.entered(node).filter((step) => step === "deploy.write_image")).toHaveLength(1);
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", powerState: "ON" });
  });

  // The inventory used to contain only what was found after the restart.
  test("restart from the unfinished step stores an inventory with earlier results too", async () => {
    const node = await ostler.aNode().in("MANAGEABLE").with("thorough").made();
    const id = await ostler.begin("INSPECT", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    const again = await restart(id, "UNFINISHED_STEP");
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
    const inventory = (await newestInventories(ostler.database.reader, [node.id])).get(node.id);
    expect(inventory?.data).toEqual({ model: "T1000", disks: 2, ports: 4 });
    expect((await ostler.node(node)).model).toBe("T1000");
  });

  // The system used to be configured on a machine that was off.
  test("restart from the unfinished step boots a system that was switched off since, and keeps steps that do not depend on the power", async () => {
    const { node } = await stoppedAfter("deploy.boot_system", "COMMISSION");
    expect(await ostler.node(node)).toMatchObject({ state: "STOPPED", powerState: "ON" });
    await ostler.operationEnds(await ostler.begin("POWER", [node], { options: { powerAction: "OFF" } }));
    const mark = ostler.entered(node).length;
    const again = await ostler.engine.restart(ALICE, { work: { ids: [node.id] }, from: "UNFINISHED_STEP" });
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
    expect(enteredSince(node, mark)).toEqual(["deploy.boot_system", "deploy.configure"]);
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", powerState: "ON" });
  });

  test.each([
    { what: "switches a machine on that a list of steps had switched on", last: "power_on", calls: ["ON"] },
    { what: "leaves a machine off that a list of steps had switched off", last: "power_off", calls: [] },
  ])("restart from the unfinished step $what", async ({ last, calls }) => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_disks": { gate: gate.name, fail: "the disk is busy" } })
      .made();
    const steps = [
      ...["power_on", last].map((name) => ({ interface: "power" as const, name, args: {} })),
      { interface: "clean" as const, name: "erase_disks", args: {} },
    ];
    const id = await ostler.begin("CLEAN", [node], { options: { steps } });
    gate.open();
    await ostler.operationEnds(id);
    await ostler.operationEnds(await ostler.begin("POWER", [node], { options: { powerAction: "OFF" } }));
    const mark = ostler.powerCalls(node).length;
    await changeNode(ostler.engine, ALICE, node.id, { settings: { steps: null } });
    const again = await restart(id, "UNFINISHED_STEP");
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
    expect(ostler.powerCalls(node).slice(mark)).toEqual(calls);
  });

  test("restart from the unfinished step works after a power change in between, which keeps the last error", async () => {
    const { gate, node, id } = await blockedIn("deploy.boot_system", { fail: "no boot device" });
    gate.open();
    await ostler.operationEnds(id);
    await ostler.operationEnds(await ostler.begin("POWER", [node], { options: { powerAction: "REBOOT" } }));
    expect((await ostler.node(node)).lastError?.message).toContain("no boot device");
    await changeNode(ostler.engine, ALICE, node.id, { settings: { steps: null } });
    const again = await ostler.engine.restart(ALICE, { work: { ids: [node.id] }, from: "UNFINISHED_STEP" });
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
    expect(await ostler.nodeState(node)).toBe("ACTIVE");
  });
});

test("stop records its caller and reason", async () => {
  const { gate, node, id } = await blockedIn("deploy.write_image");
  await ostler.engine.stop(ALICE, { work: { operationId: id }, reason: "wrong image" });
  gate.open();
  await ostler.operationEnds(id);
  const [last] = await ostler.test
    .sql`select actor, reason from transitions where node_id = ${node.id} order by position desc limit 1`;
  expect(last).toEqual({ actor: ALICE.actor, reason: "wrong image" });
});

test("stops and restarts of one node are all recorded in the log [R-105]", async () => {
  const nodes = await ostler.aNode().in("AVAILABLE").with("fake", { delayMs: 5 }).times(10);
  let id = await ostler.begin("DEPLOY", nodes);
  for (let round = 0; round < 3; round += 1) {
    await eventually("some step is entered", () => nodes.some((node) => ostler.entered(node).length > 0));
    await stop(id);
    const ended = await ostler.operationEnds(id);
    if (ended.state === "SUCCEEDED") break;
    id = (await restart(id)).operationId ?? "";
  }
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  expect(await ostler.foldedLog()).toEqual(await ostler.nodeStates());
});
