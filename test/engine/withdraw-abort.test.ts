/**
 * Withdrawing a pending abort: as long as no part of it has been carried out, the run continues as if the abort had not
 * been requested.
 */
import { afterAll, describe, expect, test } from "vitest";
import { passGate } from "../../plugins/fake/gates.ts";
import type { Script } from "../../plugins/fake/settings.ts";
import type { StepChoice } from "../../src/store/records.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { heldIn } from "../support/held-work.ts";
import { unsound } from "../support/soundness.ts";
import { fakeSteps } from "../support/fake-steps.ts";

/** Writes firmware while the machine restarts: the step must not be interrupted, and waits. */
const slow = aDriver("slow", {
  clean: stepsOf(
    aStep(
      "flash",
      "clean",
      async ({ memo, settings }) =>
        memo === null ? { kind: "wait", seconds: Number(settings["seconds"]), memo: "restarted" } : { kind: "done" },
      { interruptible: "NEVER", priority: 20 },
    ),
    aStep("wipe", "clean", async () => ({ kind: "done" })),
  ),
});

const flakyGate = aGate();
let flakyCalls = 0;
/** Succeeds at the second attempt. */
const flaky = aDriver("flaky", {
  clean: stepsOf(
    aStep(
      "scrub",
      "clean",
      async ({ node }) => {
        await passGate(flakyGate.name, node.name, null);
        flakyCalls += 1;
        return flakyCalls === 1 ? { kind: "failed", reason: "no luck", retryable: true } : { kind: "done" };
      },
      { interruptible: "AT_BOUNDARY", retries: { times: 1, backoffSeconds: 0.1 } },
    ),
  ),
});

const ostler = await engineUnderTest({ drivers: [slow, flaky] });
afterAll(() => ostler[Symbol.asyncDispose]());

const byNodes = (...nodes: readonly TestNode[]) => ({ work: { ids: nodes.map(({ id }) => id) } });
const abort = (node: TestNode, more = {}) => ostler.engine.abort(ALICE, { ...byNodes(node), ...more });
const withdraw = (node: TestNode, reason?: string) => ostler.engine.withdrawAbort(ALICE, { ...byNodes(node), reason });

/** A node inside a step that ends only at its boundary. */
async function blockedAtBoundary(script: Script = {}) {
  const gate = aGate();
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "clean.erase_metadata": { gate: gate.name, ...script } })
    .made();
  const id = await ostler.begin("CLEAN", [node]);
  await gate.arrivals();
  return { gate, node, id };
}

const FIRMWARE: readonly StepChoice[] = [
  { interface: "clean", name: "update_firmware", args: { version: "2.1" } },
  { interface: "clean", name: "erase_disks", args: {} },
];

describe("withdrawn abort", () => {
  // The run was read under its lock, and its operation without: as it had been before the wait for that lock.
  test("withdrawn abort counts, though the end of the step was waiting for the lock of the run", async () => {
    const { gate, node, id } = await blockedAtBoundary();
    await abort(node);
    await ostler.test.sql.begin(async (sql) => {
      await sql`select from runs where operation_id = ${id} for update`;
      gate.open();
      await eventually("the end of the step waits", async () => (await ostler.waitingForLocks()) > 0);
      await sql`update runs set interrupt = null, interrupt_by = null where operation_id = ${id}`;
      await sql`update operations set interrupt = null, interrupt_by = null, state = 'RUNNING' where id = ${id}`;
    });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.nodeState(node)).toBe("AVAILABLE");
  });

  test("withdrawn abort lets the run continue to success, and the log records both [R-086]", async () => {
    const { gate, node, id } = await blockedAtBoundary();
    expect((await abort(node, { reason: "oops" })).results).toMatchObject([
      { accepted: true, effect: "PENDING", afterStep: "clean.erase_metadata" },
    ]);
    expect(await ostler.operation(id)).toMatchObject({ state: "ABORTING", interrupt: "ABORT" });
    expect(await withdraw(node, "no, go on")).toMatchObject({
      operationId: id,
      refusals: [],
      results: [{ nodeId: node.id, accepted: true, refusal: null }],
    });
    expect(await ostler.operation(id)).toMatchObject({ state: "RUNNING", interrupt: null, interruptBy: null });
    expect(await ostler.run(id, node)).toMatchObject({
      interrupt: null,
      interruptBy: null,
      interruptReason: null,
      interruptAt: null,
    });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.nodeState(node)).toBe("AVAILABLE");
    expect(await ostler.story(node, id)).toEqual([
      "clean → CLEANING",
      "abort_pending → CLEANING",
      "abort_withdrawn → CLEANING",
      "done → AVAILABLE",
    ]);
    const [, pending, withdrawn] = (await ostler.transitions(node)).filter(({ operationId }) => operationId === id);
    expect(pending).toMatchObject({
      event: "abort_pending",
      step: "clean.erase_metadata",
      actor: "alice",
      reason: "oops",
    });
    expect(withdrawn).toMatchObject({
      event: "abort_withdrawn",
      step: "clean.erase_metadata",
      actor: "alice",
      reason: "no, go on",
    });
    expect(ostler.entered(node)).toEqual(fakeSteps("clean"));
    expect(await unsound(ostler)).toEqual([]);
  });

  test.each(["operation", "node"] as const)(
    "withdrawn abort withdraws a stop of the %s that was accepted while it was pending",
    async (what) => {
      const { gate, node, id } = await blockedAtBoundary();
      await abort(node, { mode: "AFTER_STEP" });
      const work = what === "operation" ? { operationId: id } : { ids: [node.id] };
      const stopped = await ostler.engine.stop(ALICE, { work });
      expect(stopped.results).toMatchObject([{ accepted: true }]);
      const { results } = await withdraw(node);
      expect(results).toMatchObject([{ accepted: true }]);
      gate.open();
      expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
      expect(await unsound(ostler)).toEqual([]);
    },
  );

  test("withdrawn abort of a step that must not be interrupted lets the run continue", async () => {
    const { gate, node, id } = await heldIn(ostler, "clean.update_firmware", { options: { steps: FIRMWARE } });
    await abort(node, { mode: "AFTER_STEP", powerOff: true });
    expect((await withdraw(node)).results).toMatchObject([{ accepted: true }]);
    expect((await ostler.run(id, node)).powerOff).toBeNull();
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("withdrawn abort can be requested again, and then takes effect", async () => {
    const { gate, node, id } = await blockedAtBoundary();
    await abort(node);
    await withdraw(node);
    expect((await abort(node, { reason: "yes, after all" })).results).toMatchObject([{ effect: "PENDING" }]);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect((await ostler.story(node, id)).slice(1)).toEqual([
      "abort_pending → CLEANING",
      "abort_withdrawn → CLEANING",
      "abort_pending → CLEANING",
      "abort → CLEAN_FAILED",
    ]);
    expect((await ostler.transitions(node)).at(-1)?.reason).toBe("yes, after all");
  });

  test("withdrawn abort lets a failed step be retried", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("flaky").made();
    const id = await ostler.begin("CLEAN", [node]);
    await flakyGate.arrivals();
    await abort(node);
    await withdraw(node);
    flakyGate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect((await ostler.steps(await ostler.run(id, node)))[0]?.attempts.map(({ state }) => state)).toEqual([
      "FAILED",
      "SUCCEEDED",
    ]);
  });

  // The abort used to wake the step, which took that for the end of its wait.
  test("withdrawn abort of a parked step that must not be interrupted does not end its wait", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("slow", { seconds: 1 }).made();
    const id = await ostler.begin("CLEAN", [node]);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    const { wakeAt } = await ostler.run(id, node);
    expect((await abort(node)).refusals).toMatchObject([{ code: "NOT_INTERRUPTIBLE", step: "clean.flash" }]);
    expect((await abort(node, { mode: "AFTER_STEP" })).results).toMatchObject([
      { accepted: true, effect: "PENDING", afterStep: "clean.flash" },
    ]);
    expect((await withdraw(node)).results).toMatchObject([{ accepted: true }]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    const resumed = (await ostler.transitions(node)).find(
      ({ event, operationId }) => event === "resume" && operationId === id,
    );
    expect(resumed?.at.getTime()).toBeGreaterThanOrEqual((wakeAt?.getTime() ?? Infinity) - 1);
  });
});

test("abort that is pending on a parked step takes effect when the step has ended", async () => {
  const node = await ostler.aNode().in("AVAILABLE").with("slow", { seconds: 0.6 }).made();
  const id = await ostler.begin("CLEAN", [node]);
  await ostler.nodeBecomes(node, "CLEAN_WAIT");
  const { wakeAt } = await ostler.run(id, node);
  await abort(node, { mode: "AFTER_STEP" });
  expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  expect(
    (await ostler.steps(await ostler.run(id, node))).map(({ attempts }) => attempts.map(({ state }) => state)),
  ).toEqual([["SUCCEEDED"], []]);
  const resumed = (await ostler.transitions(node)).find(
    ({ event, operationId }) => event === "resume" && operationId === id,
  );
  expect(resumed?.at.getTime()).toBeGreaterThanOrEqual((wakeAt?.getTime() ?? Infinity) - 1);
});

test("withdrawn abort of one node keeps the stop of its operation in force", async () => {
  const gate = aGate();
  const [node, other] = (await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "clean.erase_metadata": { gate: gate.name } })
    .times(2)) as [TestNode, TestNode];
  const id = await ostler.begin("CLEAN", [node, other]);
  await gate.arrivals(2);
  await ostler.engine.stop(ALICE, { work: { operationId: id } });
  await abort(node);
  await withdraw(node);
  expect((await ostler.operation(id)).state).toBe("STOPPING");
  gate.open();
  expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
  expect([await ostler.nodeState(node), await ostler.nodeState(other)]).toEqual(["STOPPED", "STOPPED"]);
});

// The abort of the last node replaced the engine's stop, and its withdrawal left none.
test("withdrawn abort keeps the decision that a failure undoes the operation", async () => {
  const [inFailing, inWriting] = [aGate(), aGate()];
  const failing = await ostler
    .aNode()
    .scripted({ "deploy.prepare": { gate: inFailing.name, fail: "no luck" } })
    .made();
  const writing = await ostler
    .aNode()
    .scripted({ "clean.erase_metadata": { gate: inWriting.name } })
    .made();
  const id = await ostler.begin("COMMISSION", [failing, writing], { onFailure: "CLEAN_UP_ALL" });
  await Promise.all([inFailing.arrivals(), inWriting.arrivals()]);
  inFailing.open();
  await eventually("the failure stops the others", async () => (await ostler.operation(id)).interrupt === "STOP");
  expect((await abort(writing)).results).toMatchObject([{ effect: "PENDING" }]);
  expect(await ostler.operation(id)).toMatchObject({ state: "ABORTING" });
  expect((await withdraw(writing)).results).toMatchObject([{ accepted: true }]);
  expect(await ostler.operation(id)).toMatchObject({ state: "STOPPING", interrupt: "STOP", interruptBy: "engine" });
  inWriting.open();
  expect((await ostler.operationEnds(id)).state).toBe("FAILED");
  expect((await ostler.run(id, writing)).state).toBe("UNDONE");
  for (const node of [failing, writing])
    expect([await ostler.nodeState(node), (await ostler.run(id, node, "CLEAN_UP")).state]).toEqual([
      "AVAILABLE",
      "SUCCEEDED",
    ]);
  expect(await unsound(ostler)).toEqual([]);
});

test("withdrawal skips runs that have not started, and does not wait for their locks", async () => {
  const gate = aGate();
  const [node, queued] = (await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "clean.erase_metadata": { gate: gate.name } })
    .times(2)) as [TestNode, TestNode];
  const id = await ostler.begin("CLEAN", [node, queued], { maxParallel: 1 });
  await gate.arrivals();
  await abort(node);
  await ostler.test.sql.begin(async (sql) => {
    await sql`select from runs where operation_id = ${id} and state = 'QUEUED' for update`;
    let answer: Awaited<ReturnType<typeof withdraw>> | undefined;
    void ostler.engine.withdrawAbort(ALICE, { work: { operationId: id } }).then((given) => (answer = given));
    await eventually("the request is answered", () => answer !== undefined);
    expect(answer?.results).toMatchObject([
      { nodeId: node.id, accepted: true },
      { nodeId: queued.id, accepted: false, refusal: { code: "NOTHING_RUNNING" } },
    ]);
  });
  gate.open();
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
});

describe("refused withdrawal", () => {
  test("withdrawal without a pending abort or without running work is refused", async () => {
    const { gate, node, id } = await blockedAtBoundary();
    const idle = await ostler.aNode().in("AVAILABLE").made();
    const before = await ostler.dump();
    const answer = await ostler.engine.withdrawAbort(ALICE, byNodes(node, idle));
    expect(answer.results.map(({ refusal }) => refusal)).toMatchObject([
      { code: "NOTHING_RUNNING", nodeId: node.id },
      { code: "NOTHING_RUNNING", nodeId: idle.id },
    ]);
    expect(answer.refusals).toMatchObject([{ code: "NOTHING_RUNNING", nodes: { count: 2 } }]);
    expect(await ostler.changesSince(before)).toEqual([]);
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    expect((await withdraw(node)).refusals).toMatchObject([{ code: "NOTHING_RUNNING" }]);
    gate.open();
    await ostler.operationEnds(id);
    expect((await ostler.engine.withdrawAbort(ALICE, { work: { operationId: id } })).refusals).toMatchObject([
      { code: "NOTHING_RUNNING", operationId: id },
    ]);
    expect((await ostler.engine.withdrawAbort(ALICE, { work: { operationId: "7f2" } })).refusals).toMatchObject([
      { code: "NOT_FOUND" },
    ]);
  });

  test("withdrawal after the step was interrupted is refused [R-086]", async () => {
    const [step, undoing] = [aGate(), aGate()];
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: step.name }, "driver.abort": { gate: undoing.name } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await step.arrivals();
    await abort(node);
    expect((await withdraw(node)).refusals).toMatchObject([
      {
        code: "INVALID_STATE",
        nodeId: node.id,
        operationId: id,
        message: expect.stringContaining("has started already"),
      },
    ]);
    await undoing.arrivals();
    expect((await withdraw(node)).refusals).toMatchObject([{ code: "INVALID_STATE" }]);
    undoing.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  });

  test.each([
    { how: "succeeded", script: {} },
    { how: "failed", script: { fail: "no luck" } },
  ])("withdrawal during the abort clean-up is refused, though the step before it $how [R-086]", async ({ script }) => {
    const power = aGate();
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { gate: gate.name, ...script }, "power.set": { gate: power.name } })
      .made();
    await ostler.test.sql`update nodes set power_state = 'ON' where id = ${node.id}`;
    const id = await ostler.begin("CLEAN", [node]);
    await gate.arrivals();
    await abort(node);
    gate.open();
    await power.arrivals();
    expect((await withdraw(node)).refusals).toMatchObject([
      { code: "INVALID_STATE", message: expect.stringContaining("has started already") },
    ]);
    power.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
  });

  test("withdrawal after the timeout of a stop is refused", async () => {
    const { node, id } = await blockedAtBoundary({ ignoreSignal: true });
    await ostler.engine.stop(ALICE, { work: { operationId: id }, timeoutSeconds: 1 });
    await eventually(
      "the run is released or has ended",
      async () => (await ostler.run(id, node)).interruptFailure !== null,
    );
    expect((await withdraw(node)).refusals[0]?.code).toMatch(/^(INVALID_STATE|NOTHING_RUNNING)$/);
    expect((await ostler.operationEnds(id)).firstFailure).toMatchObject({ code: "STOP_TIMEOUT" });
  });
});

describe("withdrawal after an abort of the whole operation", () => {
  async function abortedWhole() {
    const [kept, lost] = [aGate(), aGate()];
    const going = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { gate: kept.name } })
      .made();
    const leaving = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { gate: lost.name } })
      .made();
    const queued = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("CLEAN", [going, leaving, queued], { maxParallel: 2 });
    await Promise.all([kept.arrivals(), lost.arrivals()]);
    const { results } = await ostler.engine.abort(ALICE, { work: { operationId: id } });
    expect(results.map(({ effect }) => effect)).toEqual(["PENDING", "PENDING", "BEFORE_START"]);
    return { id, going, leaving, queued, kept, lost };
  }

  test("withdrawal for one node lets it continue, and the others end ABORTED", async () => {
    const { id, going, leaving, queued, kept, lost } = await abortedWhole();
    expect((await withdraw(going)).results).toMatchObject([{ nodeId: going.id, accepted: true }]);
    expect((await ostler.operation(id)).state).toBe("RUNNING");
    kept.open();
    lost.open();
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
    expect(
      (await Promise.all([going, leaving, queued].map((node) => ostler.run(id, node)))).map(({ state }) => state),
    ).toEqual(["SUCCEEDED", "ABORTED", "ABORTED"]);
    expect([await ostler.nodeState(going), await ostler.nodeState(leaving), await ostler.nodeState(queued)]).toEqual([
      "AVAILABLE",
      "CLEAN_FAILED",
      "AVAILABLE",
    ]);
    expect(ostler.journal(queued)).toEqual([]);
  });

  test("withdrawal for the operation continues every pending run; runs that never started stay ABORTED", async () => {
    const { id, going, leaving, queued, kept, lost } = await abortedWhole();
    const answer = await ostler.engine.withdrawAbort(ALICE, { work: { operationId: id } });
    expect(answer).toMatchObject({
      operationId: id,
      refusals: [],
      results: [
        { nodeId: going.id, accepted: true },
        { nodeId: leaving.id, accepted: true },
      ],
    });
    kept.open();
    lost.open();
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
    expect(
      (await Promise.all([going, leaving, queued].map((node) => ostler.run(id, node)))).map(({ state }) => state),
    ).toEqual(["SUCCEEDED", "SUCCEEDED", "ABORTED"]);
  });
});

test("withdrawal counts, though the process that ran the step has died", async () => {
  await using lab = await engineUnderTest({ started: false });
  const gate = aGate();
  gate.open();
  // Gates belong to one process: they stay shut in the other one and are open here.
  const node = await lab
    .aNode()
    .in("AVAILABLE")
    .scripted({ "clean.erase_metadata": { gate: gate.name } })
    .made();
  const victim = await lab.inAnotherProcess();
  const id = await lab.begin("CLEAN", [node]);
  await eventually("the step is entered", () => lab.entered(node).length === 1);
  expect((await lab.engine.abort(ALICE, byNodes(node))).results).toMatchObject([{ effect: "PENDING" }]);
  await victim.kill();
  expect((await lab.engine.withdrawAbort(ALICE, byNodes(node))).results).toMatchObject([{ accepted: true }]);
  await lab.leasesRunOut();
  await lab.engine.start();
  expect((await lab.operationEnds(id)).state).toBe("SUCCEEDED");
  expect((await lab.story(node, id)).map((line) => line.split(" ")[0])).toEqual([
    "clean",
    "abort_pending",
    "abort_withdrawn",
    "recover",
    "done",
  ]);
  expect(await unsound(lab)).toEqual([]);
});
