/** Giving up: what an abort answers, at once, in every situation a run can be in, and how it leaves the node. */
import { afterAll, describe, expect, test } from "vitest";
import type { AbortRequest } from "../../src/engine/interrupt.ts";
import type { Script } from "../../plugins/fake/settings.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { aDriver, aStep } from "../support/driver.ts";

const gateOfInspection = aGate();
const blind = aDriver("blind", {
  inspect: {
    supportsAbort: false,
    withoutReboot: false,
    steps: [
      aStep("look", "inspect", async () => {
        const { passGate } = await import("../../plugins/fake/gates.ts");
        await passGate(gateOfInspection.name, "blind", null);
        return { kind: "done", output: { cpus: 1 } };
      }),
    ],
  },
});

const ostler = await engineUnderTest({ drivers: [blind] });
afterAll(() => ostler[Symbol.asyncDispose]());

const abort = (nodes: readonly TestNode[], more: Partial<AbortRequest> = {}) => ostler.engine.abort(ALICE, { work: { ids: nodes.map(({ id }) => id) }, ...more });

/** A node that is AVAILABLE and whose machine holds a step, with the operation that runs it. */
async function heldIn(step: string, script: Script = {}, kind: "DEPLOY" | "CLEAN" = "DEPLOY") {
  const gate = aGate();
  const node = await ostler.aNode().in("AVAILABLE").scripted({ [step]: { gate: gate.name, ...script } }).made();
  const id = await ostler.begin(kind, [node]);
  await gate.arrivals();
  return { gate, node, id };
}

/** A node that holds in a firmware update, which must not be interrupted. */
async function heldInFirmware() {
  const gate = aGate();
  const node = await ostler.aNode().in("AVAILABLE").scripted({ "clean.update_firmware": { gate: gate.name } }).made();
  const id = await ostler.begin("CLEAN", [node], {
    options: { steps: [{ interface: "clean", name: "update_firmware", args: { version: "2.1" } }, { interface: "clean", name: "erase_disks", args: {} }] },
  });
  await gate.arrivals();
  return { gate, node, id };
}

async function parkedIn(step: string, script: Script, kind: "DEPLOY" | "CLEAN" = "DEPLOY") {
  const node = await ostler.aNode().in("AVAILABLE").scripted({ [step]: script }).made();
  const id = await ostler.begin(kind, [node]);
  await ostler.nodeBecomes(node, kind === "DEPLOY" ? "DEPLOY_WAIT" : "CLEAN_WAIT");
  return { node, id };
}

describe("aborting", () => {
  test("a node with nothing running answers NOTHING_RUNNING and does nothing", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const before = await ostler.dump();
    expect(await abort([node])).toMatchObject({ operationId: null, refusals: [{ code: "NOTHING_RUNNING", nodeId: node.id }], results: [{ accepted: false }] });
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  // The wish used to be recorded on the operation, and then held for all of its runs.
  test("an operation by name leaves alone the node that must not be interrupted: what was refused leaves no trace", async () => {
    const [firmware, disks] = [aGate(), aGate()];
    const refusing = await ostler.aNode().in("AVAILABLE").scripted({ "clean.update_firmware": { gate: firmware.name } }).made();
    const accepting = await ostler.aNode().in("AVAILABLE").scripted({ "clean.erase_disks": { gate: disks.name } }).made();
    const steps = [{ interface: "clean", name: "erase_disks", args: {} }, { interface: "clean", name: "update_firmware", args: { version: "2.1" } }] as const;
    const id = await ostler.begin("CLEAN", [refusing, accepting], { options: { steps } });
    await Promise.all([firmware.arrivals(), disks.arrivals()]);
    const { results } = await ostler.engine.abort(ALICE, { work: { operationId: id } });
    expect(results.map(({ accepted, refusal }) => refusal?.code ?? accepted)).toEqual(["NOT_INTERRUPTIBLE", true]);
    firmware.open();
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
    expect(await ostler.run(id, refusing)).toMatchObject({ state: "SUCCEEDED", wish: null });
    expect([await ostler.nodeState(refusing), await ostler.nodeState(accepting)]).toEqual(["AVAILABLE", "CLEAN_FAILED"]);
  });

  test("a step that may be interrupted ends it now, with the node failed and the operation ABORTED", async () => {
    const { node, id } = await heldIn("deploy.write_image");
    const answer = await abort([node], { reason: "wrong image" });
    expect(answer).toMatchObject({ operationId: id, refusals: [], results: [{ accepted: true, effect: "NOW", afterStep: null }] });
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(await ostler.run(id, node)).toMatchObject({ state: "ABORTED", failure: null, leftAs: { power: "OFF", disksTouched: true, tearDownError: null } });
    expect((await ostler.transitions(node)).at(-1)).toMatchObject({ fromState: "DEPLOYING", toState: "DEPLOY_FAILED", event: "abort", actor: "alice", reason: "wrong image" });
    expect(ostler.journal(node).filter((entry) => entry.abort)).toMatchObject([{ step: "deploy.write_image" }]);
    const attempts = (await ostler.steps(await ostler.run(id, node))).map(({ attempts: [attempt] }) => attempt?.state);
    expect(attempts).toEqual(["SUCCEEDED", "ABORTED", undefined, undefined]);
  });

  test("a step that never ends by itself ends it too", async () => {
    const node = await ostler.aNode().in("AVAILABLE").scripted({ "deploy.prepare": { silent: true } }).made();
    const id = await ostler.begin("DEPLOY", [node]);
    await eventually("the step is entered", () => ostler.entered(node).length > 0);
    await abort([node]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  });

  test.each([
    { parked: "for a time", script: { waitSeconds: 3600 } },
    { parked: "for a call-back", script: { callback: true } },
  ] as const)("a step that is parked $parked ends it now", async ({ script }) => {
    const { node, id } = await parkedIn("deploy.boot_system", script);
    expect((await abort([node])).results).toMatchObject([{ accepted: true, effect: "NOW" }]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(await ostler.nodeState(node)).toBe("DEPLOY_FAILED");
    expect(ostler.journal(node).filter((entry) => entry.abort)).toMatchObject([{ step: "deploy.boot_system" }]);
  });

  test("a step that ends only at its boundary, while it is parked, ends it now", async () => {
    const { node, id } = await parkedIn("clean.erase_metadata", { waitSeconds: 3600 }, "CLEAN");
    expect((await abort([node])).results).toMatchObject([{ accepted: true, effect: "NOW" }]);
    await ostler.operationEnds(id);
    expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
  });

  test("a step that waits to be tried again ends it now", async () => {
    const { node, id } = await parkedIn("deploy.write_image", { failures: 9 });
    expect((await abort([node])).results).toMatchObject([{ accepted: true, effect: "NOW" }]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  });

  test("a running step that ends only at its boundary is PENDING, and takes effect when that step has ended", async () => {
    const { gate, node, id } = await heldIn("clean.erase_metadata", {}, "CLEAN");
    expect((await abort([node])).results).toMatchObject([{ accepted: true, effect: "PENDING", afterStep: "clean.erase_metadata" }]);
    expect(await ostler.nodeState(node)).toBe("CLEANING");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
    const [first, second] = await ostler.steps(await ostler.run(id, node));
    expect(first?.attempts.map(({ state }) => state)).toEqual(["SUCCEEDED"]);
    expect(second?.attempts).toEqual([]);
  });

  test("a step that must not be interrupted is refused, and the step goes on to its end", async () => {
    const { gate, node, id } = await heldInFirmware();
    expect(await abort([node])).toMatchObject({ refusals: [{ code: "NOT_INTERRUPTIBLE", nodeId: node.id, step: "clean.update_firmware" }] });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("a step that must not be interrupted is PENDING when it is meant for the step's end", async () => {
    const { gate, node, id } = await heldInFirmware();
    expect((await abort([node], { mode: "AFTER_STEP" })).results).toMatchObject([{ accepted: true, effect: "PENDING", afterStep: "clean.update_firmware" }]);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(ostler.entered(node)).toEqual(["clean.update_firmware"]);
    expect(ostler.journal(node).filter((entry) => entry.done)).toHaveLength(1);
  });

  test("the last step is an abort, never a success", async () => {
    const { gate, node, id } = await heldIn("deploy.configure");
    expect((await abort([node])).results).toMatchObject([{ effect: "PENDING", afterStep: "deploy.configure" }]);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(await ostler.nodeState(node)).toBe("DEPLOY_FAILED");
  });

  test("a phase whose driver has no abort is UNSUPPORTED_BY_DRIVER", async () => {
    const node = await ostler.aNode().in("MANAGEABLE").with("blind").made();
    const id = await ostler.begin("INSPECT", [node]);
    await gateOfInspection.arrivals();
    expect(await abort([node])).toMatchObject({ refusals: [{ code: "UNSUPPORTED_BY_DRIVER", nodeId: node.id, step: "inspect.look" }] });
    gateOfInspection.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("what is being aborted already gives the same answer again", async () => {
    const { gate, node, id } = await heldIn("clean.erase_metadata", {}, "CLEAN");
    const first = await abort([node]);
    expect(await abort([node])).toEqual(first);
    gate.open();
    await ostler.operationEnds(id);
    expect((await ostler.story(node, id)).filter((line) => line.startsWith("abort"))).toEqual(["abort_pending → CLEANING", "abort → CLEAN_FAILED"]);
  });

  test("the verification of a node brings it back to ENROLLED", async () => {
    const gate = aGate();
    const node = await ostler.aNode().scripted({ "power.read": { gate: gate.name } }).made();
    const id = await ostler.begin("MANAGE", [node]);
    await gate.arrivals();
    await abort([node]);
    await ostler.operationEnds(id);
    expect(await ostler.nodeState(node)).toBe("ENROLLED");
  });

  test("what has had its first state but no owner ends it here and now", async () => {
    await using waiting = await engineUnderTest({ started: false });
    const node = await waiting.aNode().in("AVAILABLE").made();
    const id = await waiting.begin("DEPLOY", [node]);
    await waiting.engine.abort(ALICE, { work: { operationId: id } });
    expect(await waiting.operation(id)).toMatchObject({ state: "ABORTED" });
    expect(await waiting.nodeState(node)).toBe("DEPLOY_FAILED");
    await waiting.engine.start();
    await eventually("the queue is empty", async () => (await waiting.test.sql`select 1 from pgboss.job where name = 'runs' and state < 'completed'`).length === 0);
    expect(waiting.entered(node)).toEqual([]);
  });
});

describe("an abort of a whole operation", () => {
  test("is one as well when it names all its nodes, and the operation says so", async () => {
    const { gate, node, id } = await heldIn("clean.erase_metadata", {}, "CLEAN");
    await abort([node]);
    expect(await ostler.operation(id)).toMatchObject({ state: "ABORTING", wish: "ABORT" });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  });

  test("answers each node by its own situation, and ends when the last of them has", async () => {
    const gate = aGate();
    const always = await ostler.aNode().in("AVAILABLE").scripted({ "deploy.write_image": { gate: gate.name } }).made();
    const boundary = await ostler.aNode().in("AVAILABLE").scripted({ "deploy.configure": { gate: gate.name } }).made();
    const queued = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [always, boundary, queued], { maxParallel: 2 });
    await gate.arrivals(2);
    const answer = await ostler.engine.abort(ALICE, { work: { operationId: id } });
    expect(answer.results.map(({ ref, effect, afterStep }) => [ref, effect, afterStep])).toEqual([
      [always.name, "NOW", null],
      [boundary.name, "PENDING", "deploy.configure"],
      [queued.name, "BEFORE_START", null],
    ]);
    await ostler.nodeBecomes(always, "DEPLOY_FAILED");
    expect((await ostler.operation(id)).state).toBe("ABORTING");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  });

  test("leaves a queued node where it was, without a call", async () => {
    const gate = aGate();
    const first = await ostler.aNode().in("AVAILABLE").scripted({ "deploy.prepare": { gate: gate.name } }).made();
    const queued = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [first, queued], { maxParallel: 1 });
    await gate.arrivals();
    await abort([queued]);
    expect(await ostler.run(id, queued)).toMatchObject({ state: "ABORTED", startedAt: null });
    gate.open();
    await ostler.operationEnds(id);
    expect(await ostler.nodeState(queued)).toBe("AVAILABLE");
    expect([ostler.journal(queued), await ostler.story(queued, id)]).toEqual([[], []]);
  });

  test("that has ended is refused with how it ended, one that never was is not found", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.operationEnds(id);
    expect((await ostler.engine.abort(ALICE, { work: { operationId: id } })).refusals).toMatchObject([{ code: "NOTHING_RUNNING", operationId: id, message: expect.stringContaining("SUCCEEDED") }]);
    expect((await ostler.engine.abort(ALICE, { work: { operationId: "7f2" } })).refusals).toMatchObject([{ code: "NOT_FOUND", missing: ["7f2"] }]);
  });
});

describe("an abort leaves the node", () => {
  async function abortedWithPowerOn(more: Partial<AbortRequest>) {
    const gate = aGate();
    const node = await ostler.aNode().in("AVAILABLE").scripted({ "deploy.write_image": { gate: gate.name } }).made();
    await ostler.operationEnds(await ostler.begin("POWER", [node], { options: { powerAction: "ON" } }));
    const id = await ostler.begin("DEPLOY", [node]);
    await gate.arrivals();
    await abort([node], more);
    await ostler.operationEnds(id);
    return { node, id };
  }

  test("switched off, when it was deploying", async () => {
    const { node, id } = await abortedWithPowerOn({});
    expect(ostler.powerCalls(node)).toEqual(["ON", "OFF"]);
    expect((await ostler.node(node)).powerState).toBe("OFF");
    expect((await ostler.run(id, node)).leftAs?.power).toBe("OFF");
  });

  test("switched on, when that was asked for", async () => {
    const { node, id } = await abortedWithPowerOn({ powerOff: false });
    expect(ostler.powerCalls(node)).toEqual(["ON"]);
    expect((await ostler.run(id, node)).leftAs?.power).toBe("ON");
  });

  test("ABORTED with what the tear-down failed with", async () => {
    const gate = aGate();
    const node = await ostler.aNode().in("AVAILABLE").scripted({ "deploy.write_image": { gate: gate.name }, "driver.abort": { fail: "the agent is gone" } }).made();
    const id = await ostler.begin("DEPLOY", [node]);
    await gate.arrivals();
    await abort([node]);
    await ostler.operationEnds(id);
    expect(await ostler.run(id, node)).toMatchObject({ state: "ABORTED", leftAs: { tearDownError: expect.stringContaining("the agent is gone") } });
    expect((await ostler.node(node)).lastError).toMatchObject({ message: expect.stringContaining("Look at the node before you use it again") });
  });

  test("FAILED, when its step is deaf to the signal: it may still be at work", async () => {
    const { gate, node, id } = await heldIn("deploy.write_image", { ignoreSignal: true });
    await abort([node]);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.run(id, node)).toMatchObject({ state: "FAILED", failure: { code: "TIMEOUT", message: expect.stringContaining("may still be at work") } });
    gate.open();
  });
});

test("no change of power is let in while a run is unfinished", async () => {
  const { gate, node, id } = await heldIn("clean.erase_disks", {}, "CLEAN");
  expect((await ostler.submit("POWER", [node], { options: { powerAction: "OFF" } })).refusals).toMatchObject([{ code: "BUSY", operationId: id }]);
  gate.open();
  await ostler.operationEnds(id);
});
