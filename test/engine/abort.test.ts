/** The immediate answer to an abort, in every situation of a run, and the state in which it leaves the node. */
import { afterAll, describe, expect, test } from "vitest";
import type { Call, Driver } from "../../src/drivers/driver.ts";
import { dispatchOf } from "../../src/drivers/isolation/dispatch.ts";
import type { AbortRequest } from "../../src/engine/input/interrupt-request.ts";
import { passGate } from "../../plugins/fake/gates.ts";
import type { Script } from "../../plugins/fake/settings.ts";
import type { Interruptible } from "../../src/lifecycle/interrupts.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { unsound } from "../support/soundness.ts";

const inspectionGate = aGate();
const driverWithoutAbort = aDriver("no-abort", {
  inspect: {
    supportsAbort: false,
    withoutReboot: false,
    steps: [
      aStep("look", "inspect", async () => {
        await passGate(inspectionGate.name, "no-abort", null);
        return { kind: "done", output: { cpus: 1 } };
      }),
    ],
  },
});

/** One phase: the verb that starts it, the node's states in it, and the state in which an abort leaves the node. */
const PHASES = [
  {
    phase: "inspect",
    kind: "INSPECT",
    from: "MANAGEABLE",
    running: "INSPECTING",
    waits: "INSPECT_WAIT",
    failed: "INSPECT_FAILED",
    cutsPower: false,
  },
  {
    phase: "clean",
    kind: "CLEAN",
    from: "AVAILABLE",
    running: "CLEANING",
    waits: "CLEAN_WAIT",
    failed: "CLEAN_FAILED",
    cutsPower: true,
  },
  {
    phase: "deploy",
    kind: "DEPLOY",
    from: "AVAILABLE",
    running: "DEPLOYING",
    waits: "DEPLOY_WAIT",
    failed: "DEPLOY_FAILED",
    cutsPower: true,
  },
  {
    phase: "undeploy",
    kind: "UNDEPLOY",
    from: "ACTIVE",
    running: "UNDEPLOYING",
    waits: "UNDEPLOY_WAIT",
    failed: "UNDEPLOY_FAILED",
    cutsPower: false,
  },
] as const;

/** Callback path of each machine, by node name. */
const callbackPaths = new Map<string, string>();
/** Names of nodes whose step was undone, in the order of the calls. */
const undone: string[] = [];
/** Calls of a driver and the lane each ran in, by node name. */
const lanesOf = new Map<string, string[]>();
const noteLane = (call: Pick<Call<unknown>, "node">, what: string) =>
  lanesOf.set(call.node.name, [...(lanesOf.get(call.node.name) ?? []), `${what} ${dispatchOf(call).lane}`]);

/**
 * A driver with one step in each phase. In the phase that a node's settings name, the step waits at the gate of the
 * settings or parks for a callback; in the other phases it returns at once.
 */
function workingDriver(
  name: string,
  interruptible: Interruptible,
  { supportsAbort = true, ignoresSignal = false } = {},
) {
  const work = (phase: (typeof PHASES)[number]["phase"]) =>
    aStep(
      "work",
      phase,
      async ({ node, settings, memo, callbackPath, signal }) => {
        if (settings["phase"] !== phase) return { kind: "done" };
        if (!settings["parks"])
          await passGate(
            String(settings["gate"]),
            node.name,
            interruptible === "ALWAYS" && !ignoresSignal ? signal : null,
          );
        else if (memo === null) {
          callbackPaths.set(node.name, callbackPath);
          return { kind: "wait", callback: true, seconds: 3600, memo: "parked" };
        }
        return { kind: "done" };
      },
      {
        interruptible,
        timeoutSeconds: 7200,
        abort: async (call) => {
          noteLane(call, "abort");
          undone.push(call.node.name);
        },
      },
    );
  const driver = aDriver(name, {
    inspect: { supportsAbort, withoutReboot: false, steps: [work("inspect")] },
    clean: { supportsAbort, steps: [work("clean")] },
    deploy: { supportsAbort, steps: [work("deploy"), { ...work("undeploy"), name: "unwork" }] },
  }) as unknown as Driver<Record<string, unknown>>;
  const power: Driver<Record<string, unknown>>["power"] = {
    read: async (call) => (call.settings["on"] ? "ON" : driver.power.read(call)),
    async set(call, action) {
      noteLane(call, "set");
      await driver.power.set?.(call, action);
    },
  };
  return { ...driver, power } as unknown as Driver<never>;
}

const ostler = await engineUnderTest({
  drivers: [
    driverWithoutAbort,
    workingDriver("always", "ALWAYS"),
    workingDriver("boundary", "AT_BOUNDARY"),
    workingDriver("never", "NEVER"),
    workingDriver("fixed", "ALWAYS", { supportsAbort: false }),
    workingDriver("deaf", "ALWAYS", { ignoresSignal: true }),
  ],
});
afterAll(() => ostler[Symbol.asyncDispose]());

const abort = (nodes: readonly TestNode[], more: Partial<AbortRequest> = {}) =>
  ostler.engine.abort(ALICE, { work: { ids: nodes.map(({ id }) => id) }, ...more });

/** An AVAILABLE node whose machine is blocked in a step, with the operation that runs it. */
async function blockedIn(step: string, script: Script = {}, kind: "DEPLOY" | "CLEAN" = "DEPLOY") {
  const gate = aGate();
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ [step]: { gate: gate.name, ...script } })
    .made();
  const id = await ostler.begin(kind, [node]);
  await gate.arrivals();
  return { gate, node, id };
}

/** A node that is blocked in a firmware update, which must not be interrupted. */
async function blockedInFirmware() {
  const gate = aGate();
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "clean.update_firmware": { gate: gate.name } })
    .made();
  const id = await ostler.begin("CLEAN", [node], {
    options: {
      steps: [
        { interface: "clean", name: "update_firmware", args: { version: "2.1" } },
        { interface: "clean", name: "erase_disks", args: {} },
      ],
    },
  });
  await gate.arrivals();
  return { gate, node, id };
}

async function parkedIn(step: string, script: Script, kind: "DEPLOY" | "CLEAN" = "DEPLOY") {
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ [step]: script })
    .made();
  const id = await ostler.begin(kind, [node]);
  await ostler.nodeBecomes(node, kind === "DEPLOY" ? "DEPLOY_WAIT" : "CLEAN_WAIT");
  return { node, id };
}

describe("abort", () => {
  test.each(["abort", "stop"] as const)(
    "%s of eleven nodes is not refused because of one unknown name [R-153]",
    async (verb) => {
      const gate = aGate();
      const nodes = await ostler
        .aNode()
        .in("AVAILABLE")
        .scripted({ "deploy.prepare": { gate: gate.name } })
        .times(11);
      const id = await ostler.begin("DEPLOY", nodes);
      await gate.arrivals(11);
      const known = nodes.map(({ name }) => name);
      const work = { names: [...known.slice(0, 5), "ghost", ...known.slice(5)] };
      const before = await ostler.dump();
      expect(await ostler.engine[verb](ALICE, { work, acceptance: "ALL_OR_NOTHING" })).toMatchObject({
        operationId: null,
        refusals: [{ code: "NOT_FOUND", missing: ["ghost"] }],
        results: work.names.map((ref) => ({ ref, accepted: false })),
      });
      expect(await ostler.changesSince(before)).toEqual([]);
      expect(await ostler.engine[verb](ALICE, { work })).toMatchObject({
        operationId: id,
        refusals: [{ code: "NOT_FOUND", missing: ["ghost"], path: ["input", "work", "names"] }],
        results: work.names.map((ref) =>
          ref === "ghost"
            ? { ref, accepted: false, nodeId: null, refusal: { code: "NOT_FOUND", missing: ["ghost"] } }
            : { ref, accepted: true },
        ),
      });
      gate.open();
      await ostler.operationEnds(id);
    },
  );

  test("error of an aborted run stayed on the node while later work ran: it ends when that moves the node", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_disks": { gate: gate.name } })
      .made();
    const id = await ostler.begin("CLEAN", [node]);
    await gate.arrivals(1);
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
    expect((await ostler.node(node)).lastError).toMatchObject({ code: "ABORTED" });
    const later = await ostler.begin("CLEAN", [node]);
    await gate.arrivals(2);
    expect(await ostler.node(node)).toMatchObject({ state: "CLEANING", lastError: null });
    gate.open();
    await ostler.operationEnds(later);
  });

  test("abort of unknown names alone is refused and names all of them", async () => {
    const answer = await ostler.engine.abort(ALICE, { work: { names: ["ghost-1", "ghost-2"] } });
    expect(answer).toMatchObject({
      operationId: null,
      refusals: [{ code: "NOT_FOUND", missing: ["ghost-1", "ghost-2"] }],
      results: [{ ref: "ghost-1" }, { ref: "ghost-2" }],
    });
  });

  test("abort of a node without a running operation answers NOTHING_RUNNING and changes nothing [R-074]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const before = await ostler.dump();
    expect(await abort([node])).toMatchObject({
      operationId: null,
      refusals: [{ code: "NOTHING_RUNNING", nodeId: node.id, message: expect.stringContaining(node.name) }],
      results: [{ accepted: false }],
    });
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  // The interrupt used to be recorded on the operation, and then applied to all of its runs.
  test("abort of an operation leaves no trace on the node that refused it, whose step must not be interrupted", async () => {
    const [firmware, disks] = [aGate(), aGate()];
    const refusing = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.update_firmware": { gate: firmware.name } })
      .made();
    const accepting = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_disks": { gate: disks.name } })
      .made();
    const steps = [
      { interface: "clean", name: "erase_disks", args: {} },
      { interface: "clean", name: "update_firmware", args: { version: "2.1" } },
    ] as const;
    const id = await ostler.begin("CLEAN", [refusing, accepting], { options: { steps } });
    await Promise.all([firmware.arrivals(), disks.arrivals()]);
    const { results } = await ostler.engine.abort(ALICE, { work: { operationId: id } });
    expect(results.map(({ accepted, refusal }) => refusal?.code ?? accepted)).toEqual(["NOT_INTERRUPTIBLE", true]);
    firmware.open();
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
    expect(await ostler.run(id, refusing)).toMatchObject({ state: "SUCCEEDED", interrupt: null });
    expect([await ostler.nodeState(refusing), await ostler.nodeState(accepting)]).toEqual([
      "AVAILABLE",
      "CLEAN_FAILED",
    ]);
  });

  test("abort during an interruptible step takes effect now: the node fails and the operation is ABORTED [R-076, R-081]", async () => {
    const { node, id } = await blockedIn("deploy.write_image");
    const answer = await abort([node], { reason: "wrong image" });
    expect(answer).toMatchObject({
      operationId: id,
      refusals: [],
      results: [{ accepted: true, effect: "NOW", afterStep: null }],
    });
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    const failure = {
      code: "ABORTED",
      step: "deploy.write_image",
      message: `Node ${node.name} was aborted by alice at deploy.write_image: wrong image.`,
    };
    expect(await ostler.run(id, node)).toMatchObject({
      state: "ABORTED",
      failure,
      leftAs: { power: "OFF", disksTouched: true, tearDownError: null },
    });
    expect((await ostler.node(node)).lastError).toMatchObject(failure);
    expect((await ostler.transitions(node)).at(-1)).toMatchObject({
      fromState: "DEPLOYING",
      toState: "DEPLOY_FAILED",
      event: "abort",
      actor: "alice",
      reason: "wrong image",
    });
    expect(ostler.journal(node).filter((entry) => entry.abort)).toMatchObject([{ step: "deploy.write_image" }]);
    const attempts = (await ostler.steps(await ostler.run(id, node))).map(({ attempts: [attempt] }) => attempt?.state);
    expect(attempts).toEqual(["SUCCEEDED", "ABORTED", undefined, undefined]);
  });

  test("abort during a step that never returns takes effect now [R-076]", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { silent: true } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await eventually("the step is entered", () => ostler.entered(node).length > 0);
    await abort([node]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  });

  test.each([
    { parked: "for a time", script: { waitSeconds: 3600 } },
    { parked: "for a callback", script: { callback: true } },
  ] as const)("abort during a step that is parked $parked takes effect now [R-075]", async ({ script }) => {
    const { node, id } = await parkedIn("deploy.boot_system", script);
    expect((await abort([node])).results).toMatchObject([{ accepted: true, effect: "NOW" }]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(await ostler.nodeState(node)).toBe("DEPLOY_FAILED");
    expect(ostler.journal(node).filter((entry) => entry.abort)).toMatchObject([{ step: "deploy.boot_system" }]);
  });

  test("abort with CUT during an AT_BOUNDARY step takes effect now, parked or running, and also after a pending abort [R-192]", async () => {
    const parked = await parkedIn("clean.erase_metadata", { waitSeconds: 3600 }, "CLEAN");
    const running = await blockedIn("clean.erase_metadata", {}, "CLEAN");
    const twice = await parkedIn("clean.erase_metadata", { waitSeconds: 3600 }, "CLEAN");
    expect((await abort([twice.node])).results).toMatchObject([{ accepted: true, effect: "PENDING" }]);
    const nodes = [parked.node, running.node, twice.node];
    expect((await abort(nodes, { mode: "CUT" })).results).toMatchObject(
      nodes.map(() => ({ accepted: true, effect: "NOW" })),
    );
    for (const { node, id } of [parked, running, twice]) {
      expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
      expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
      expect(ostler.journal(node).filter((entry) => entry.abort)).toMatchObject([{ step: "clean.erase_metadata" }]);
    }
  });

  test("abort with CUT during a step that must not be interrupted is refused [R-078, R-192]", async () => {
    const { gate, node, id } = await blockedInFirmware();
    expect((await abort([node], { mode: "CUT" })).refusals).toMatchObject([{ code: "NOT_INTERRUPTIBLE" }]);
    gate.open();
    await ostler.operationEnds(id);
  });

  test("abort during the backoff before a retry takes effect now [R-075]", async () => {
    const { node, id } = await parkedIn("deploy.write_image", { failures: 9 });
    expect((await abort([node])).results).toMatchObject([{ accepted: true, effect: "NOW" }]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  });

  test("abort during a running AT_BOUNDARY step is PENDING and takes effect when the step ends [R-077]", async () => {
    const { gate, node, id } = await blockedIn("clean.erase_metadata", {}, "CLEAN");
    expect((await abort([node])).results).toMatchObject([
      { accepted: true, effect: "PENDING", afterStep: "clean.erase_metadata" },
    ]);
    expect(await ostler.nodeState(node)).toBe("CLEANING");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
    const [first, second] = await ostler.steps(await ostler.run(id, node));
    expect(first?.attempts.map(({ state }) => state)).toEqual(["SUCCEEDED"]);
    expect(second?.attempts).toEqual([]);
  });

  test("abort that waited for a step was reported as before that step: the error says after it", async () => {
    const { gate, node, id } = await blockedIn("clean.erase_metadata", {}, "CLEAN");
    await abort([node]);
    gate.open();
    await ostler.operationEnds(id);
    expect((await ostler.node(node)).lastError?.message).toContain(" after clean.erase_metadata");
  });

  test("abort during a step that must not be interrupted is refused and the step runs to its end [R-078]", async () => {
    const { gate, node, id } = await blockedInFirmware();
    expect(await abort([node])).toMatchObject({
      refusals: [{ code: "NOT_INTERRUPTIBLE", nodeId: node.id, step: "clean.update_firmware" }],
    });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("abort with AFTER_STEP during a step that must not be interrupted is PENDING and takes effect when the step ends [R-078]", async () => {
    const { gate, node, id } = await blockedInFirmware();
    expect((await abort([node], { mode: "AFTER_STEP" })).results).toMatchObject([
      { accepted: true, effect: "PENDING", afterStep: "clean.update_firmware" },
    ]);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(ostler.entered(node)).toEqual(["clean.update_firmware"]);
    expect(ostler.journal(node).filter((entry) => entry.done)).toHaveLength(1);
  });

  test("abort during the last step ends ABORTED, even though the step succeeds [R-083]", async () => {
    const { gate, node, id } = await blockedIn("deploy.configure");
    expect((await abort([node])).results).toMatchObject([{ effect: "PENDING", afterStep: "deploy.configure" }]);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(await ostler.nodeState(node)).toBe("DEPLOY_FAILED");
  });

  test("abort during a phase whose driver has no abort is refused with UNSUPPORTED_BY_DRIVER [R-079]", async () => {
    const node = await ostler.aNode().in("MANAGEABLE").with("no-abort").made();
    const id = await ostler.begin("INSPECT", [node]);
    await inspectionGate.arrivals();
    expect(await abort([node])).toMatchObject({
      refusals: [{ code: "UNSUPPORTED_BY_DRIVER", nodeId: node.id, step: "inspect.look" }],
    });
    inspectionGate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("abort that is repeated while it is pending gives the same answer again [R-080]", async () => {
    const { gate, node, id } = await blockedIn("clean.erase_metadata", {}, "CLEAN");
    const first = await abort([node]);
    expect(await abort([node])).toEqual(first);
    gate.open();
    await ostler.operationEnds(id);
    expect((await ostler.story(node, id)).filter((line) => line.startsWith("abort"))).toEqual([
      "abort_pending → CLEANING",
      "abort → CLEAN_FAILED",
    ]);
  });

  test("abort during the verification of a node returns the node to ENROLLED", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .scripted({ "power.read": { gate: gate.name } })
      .made();
    const id = await ostler.begin("MANAGE", [node]);
    await gate.arrivals();
    await abort([node]);
    await ostler.operationEnds(id);
    expect(await ostler.nodeState(node)).toBe("ENROLLED");
  });

  test("abort of a run that waits for a worker leaves its node as it is, and calls no driver [R-180]", async () => {
    await using waiting = await engineUnderTest({ started: false });
    const node = await waiting.aNode().in("AVAILABLE").made();
    const id = await waiting.begin("DEPLOY", [node]);
    expect(await waiting.run(id, node)).toMatchObject({ state: "QUEUED", waitReason: "CONCURRENCY", startedAt: null });
    const before = await waiting.foldedLog();
    const { results } = await waiting.engine.abort(ALICE, { work: { operationId: id } });
    expect(results).toMatchObject([{ accepted: true, effect: "BEFORE_START", afterStep: null }]);
    expect(await waiting.operation(id)).toMatchObject({ state: "ABORTED" });
    expect([await waiting.nodeState(node), await waiting.foldedLog()]).toEqual(["AVAILABLE", before]);
    await waiting.engine.start();
    await eventually(
      "nothing is due",
      async () => (await waiting.test.sql`select from runs where due_at is not null`).length === 0,
    );
    expect(waiting.entered(node)).toEqual([]);
  });
});

describe("abort of a whole operation", () => {
  test("abort of all nodes of an operation marks the operation as ABORTING", async () => {
    const { gate, node, id } = await blockedIn("clean.erase_metadata", {}, "CLEAN");
    await abort([node]);
    expect(await ostler.operation(id)).toMatchObject({ state: "ABORTING", interrupt: "ABORT" });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  });

  test("abort of an operation answers each node by its own situation and ends with the last of them [R-073]", async () => {
    const gate = aGate();
    const always = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .made();
    const boundary = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.configure": { gate: gate.name } })
      .made();
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

  test("abort of a queued node leaves the node as it was and makes no call to it", async () => {
    const gate = aGate();
    const first = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
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

  test("abort of an ended operation is refused with its final state, and of an unknown one with NOT_FOUND", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.operationEnds(id);
    expect((await ostler.engine.abort(ALICE, { work: { operationId: id } })).refusals).toMatchObject([
      { code: "NOTHING_RUNNING", operationId: id, message: expect.stringContaining("SUCCEEDED") },
    ]);
    expect((await ostler.engine.abort(ALICE, { work: { operationId: "7f2" } })).refusals).toMatchObject([
      { code: "NOT_FOUND", missing: ["7f2"] },
    ]);
  });
});

describe("node after an abort", () => {
  async function abortedWithPowerOn(more: Partial<AbortRequest>) {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .made();
    await ostler.operationEnds(await ostler.begin("POWER", [node], { options: { powerAction: "ON" } }));
    const id = await ostler.begin("DEPLOY", [node]);
    await gate.arrivals();
    await abort([node], more);
    await ostler.operationEnds(id);
    return { node, id };
  }

  test("abort of a deployment switches the node off", async () => {
    const { node, id } = await abortedWithPowerOn({});
    expect(ostler.powerCalls(node)).toEqual(["ON", "OFF"]);
    expect((await ostler.node(node)).powerState).toBe("OFF");
    expect((await ostler.run(id, node)).leftAs?.power).toBe("OFF");
  });

  test("abort clean-up calls run in the ENDING lane, which waits for no step", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .with("always", { phase: "deploy", gate: gate.name, on: true })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await gate.arrivals();
    await abort([node]);
    await ostler.operationEnds(id);
    expect(lanesOf.get(node.name)).toEqual(["abort ENDING", "set ENDING"]);
  });

  test("abort with powerOff: false leaves the node switched on", async () => {
    const { node, id } = await abortedWithPowerOn({ powerOff: false });
    expect(ostler.powerCalls(node)).toEqual(["ON"]);
    expect((await ostler.run(id, node)).leftAs?.power).toBe("ON");
  });

  test("abort whose clean-up fails ends ABORTED with the error of the clean-up", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: gate.name }, "driver.abort": { fail: "the agent is gone" } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await gate.arrivals();
    await abort([node]);
    await ostler.operationEnds(id);
    expect(await ostler.run(id, node)).toMatchObject({
      state: "ABORTED",
      leftAs: { tearDownError: expect.stringContaining("the agent is gone") },
    });
    expect((await ostler.node(node)).lastError).toMatchObject({
      message: expect.stringContaining("Check the node before you use it again"),
    });
  });

  test("abort of a step that ignores its signal ends FAILED, because the step may still be running", async () => {
    const { gate, node, id } = await blockedIn("deploy.write_image", { ignoreSignal: true });
    await abort([node]);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.run(id, node)).toMatchObject({
      state: "FAILED",
      failure: { code: "TIMEOUT", message: expect.stringContaining("may still be running") },
    });
    gate.open();
  });
});

test("power change during an unfinished run is refused with BUSY", async () => {
  const { gate, node, id } = await blockedIn("clean.erase_disks", {}, "CLEAN");
  expect((await ostler.submit("POWER", [node], { options: { powerAction: "OFF" } })).refusals).toMatchObject([
    { code: "BUSY", operationId: id },
  ]);
  gate.open();
  await ostler.operationEnds(id);
});

describe.each(PHASES)(
  "abort while a node is $running or $waits",
  ({ phase, kind, from, running, waits, failed, cutsPower }) => {
    const label = `${phase === "undeploy" ? "deploy" : phase}.${phase === "undeploy" ? "unwork" : "work"}`;

    /** A node that runs the step, or is parked in it. */
    async function at(driver: string, where: "running" | "parked") {
      const gate = aGate();
      const node = await ostler
        .aNode()
        .in(from)
        .with(driver, { phase, gate: gate.name, parks: where === "parked" })
        .made();
      await ostler.test.sql`update nodes set power_state = 'ON' where id = ${node.id}`;
      const id = await ostler.begin(kind, [node]);
      await (where === "parked" ? ostler.nodeBecomes(node, waits) : gate.arrivals());
      expect(await ostler.nodeState(node)).toBe(where === "parked" ? waits : running);
      /** Lets the step end normally. */
      const endStep = async () => {
        gate.open();
        if (where === "parked")
          expect(
            await ostler.engine.receiveCallback((callbackPaths.get(node.name) ?? "").split("/").at(-1) ?? "", {}),
          ).toBe("TAKEN");
      };
      return { node, id, endStep };
    }

    async function expectAborted(
      id: string,
      node: TestNode,
      { last, attempt }: { readonly last: string; readonly attempt: "ABORTED" | "SUCCEEDED" },
    ): Promise<void> {
      expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
      const run = await ostler.run(id, node);
      const failure = { code: "ABORTED", message: expect.stringContaining("was aborted by alice") };
      expect(run).toMatchObject({
        state: "ABORTED",
        failure,
        leftAs: { power: cutsPower ? "OFF" : "ON", tearDownError: null },
      });
      expect(await ostler.node(node)).toMatchObject({ state: failed, lastError: failure });
      expect((await ostler.transitions(node)).at(-1)).toMatchObject({
        event: "abort",
        fromState: last,
        toState: failed,
        actor: "alice",
        reason: "wrong node",
        step: label,
      });
      expect((await ostler.steps(run)).map(({ attempts }) => attempts.map(({ state }) => state).join(" "))[0]).toBe(
        attempt,
      );
      expect(undone.filter((name) => name === node.name)).toHaveLength(attempt === "ABORTED" ? 1 : 0);
      expect(await unsound(ostler)).toEqual([]);
    }

    const INTERRUPTED = [
      { driver: "always", where: "running", which: "running interruptible step" },
      { driver: "always", where: "parked", which: "parked interruptible step" },
    ] as const;

    test.each(INTERRUPTED)(
      "abort of a $which takes effect now and undoes the step [R-076]",
      async ({ driver, where }) => {
        const { node, id } = await at(driver, where);
        expect((await abort([node], { reason: "wrong node" })).results).toMatchObject([
          { accepted: true, effect: "NOW", afterStep: null },
        ]);
        await expectAborted(id, node, { last: where === "parked" ? waits : running, attempt: "ABORTED" });
      },
    );

    const PENDING = [
      { driver: "boundary", where: "running", which: "running AT_BOUNDARY step", refused: false },
      { driver: "boundary", where: "parked", which: "parked AT_BOUNDARY step", refused: false },
      { driver: "never", where: "running", which: "running step that must not be interrupted", refused: true },
      { driver: "never", where: "parked", which: "parked step that must not be interrupted", refused: true },
    ] as const;

    test.each(PENDING)(
      "abort of a $which is PENDING until the step ends [R-077]",
      async ({ driver, where, refused }) => {
        const { node, id, endStep } = await at(driver, where);
        if (refused)
          expect((await abort([node])).refusals).toMatchObject([
            { code: "NOT_INTERRUPTIBLE", nodeId: node.id, step: label },
          ]);
        const answer = await abort([node], { reason: "wrong node", mode: refused ? "AFTER_STEP" : "NOW" });
        expect(answer.results).toMatchObject([{ accepted: true, effect: "PENDING", afterStep: label }]);
        // The same answer again, with or without the mode.
        expect(await abort([node], { reason: "wrong node" })).toEqual(answer);
        const [last] = (await ostler.transitions(node)).slice(-1);
        expect(last).toMatchObject({
          event: "abort_pending",
          fromState: where === "parked" ? waits : running,
          step: label,
          actor: "alice",
          reason: "wrong node",
        });
        await endStep();
        await expectAborted(id, node, { last: running, attempt: "SUCCEEDED" });
      },
    );

    test.each(["running", "parked"] as const)(
      "abort of a %s step whose driver has no abort for the phase is refused and the step goes on [R-079]",
      async (where) => {
        const { node, id, endStep } = await at("fixed", where);
        for (const mode of ["NOW", "AFTER_STEP"] as const)
          expect((await abort([node], { mode })).refusals).toMatchObject([
            { code: "UNSUPPORTED_BY_DRIVER", nodeId: node.id, step: label },
          ]);
        expect(await ostler.run(id, node)).toMatchObject({ interrupt: null });
        await endStep();
        expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
        expect(undone).not.toContain(node.name);
      },
    );

    test("abort of a step that ignores its signal fails the run within a bounded time and flags the node [R-082]", async () => {
      const { node, id, endStep } = await at("deaf", "running");
      expect((await abort([node])).results).toMatchObject([{ accepted: true, effect: "NOW" }]);
      expect((await ostler.operationEnds(id)).state).toBe("FAILED");
      const failure = {
        code: "TIMEOUT",
        step: label,
        message: expect.stringMatching(/did not end within .* s of the abort and may still be running.*Check the node/),
      };
      expect(await ostler.run(id, node)).toMatchObject({ state: "FAILED", failure });
      expect(await ostler.node(node)).toMatchObject({ state: failed, lastError: failure });
      await endStep();
    });
  },
);

describe("abort during a stop", () => {
  test("abort during a stop at a running AT_BOUNDARY step takes precedence over the stop [R-098]", async () => {
    const { gate, node, id } = await blockedIn("clean.erase_metadata", {}, "CLEAN");
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    expect((await abort([node])).results).toMatchObject([
      { accepted: true, effect: "PENDING", afterStep: "clean.erase_metadata" },
    ]);
    expect(await ostler.operation(id)).toMatchObject({ state: "ABORTING", interrupt: "ABORT" });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
  });

  test("abort during a stop of a parked step takes effect now", async () => {
    const { node, id } = await parkedIn("deploy.boot_system", { callback: true });
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    expect(await ostler.nodeState(node)).toBe("DEPLOY_WAIT");
    expect((await abort([node])).results).toMatchObject([{ accepted: true, effect: "NOW" }]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  });

  test("abort of one node during a stop leaves the other nodes stopping", async () => {
    const gate = aGate();
    const [one, two] = (await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(2)) as [TestNode, TestNode];
    const id = await ostler.begin("DEPLOY", [one, two]);
    await gate.arrivals(2);
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    await abort([one]);
    await ostler.nodeBecomes(one, "DEPLOY_FAILED");
    expect((await ostler.operation(id)).state).toBe("STOPPING");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect(await ostler.nodeState(two)).toBe("STOPPED");
  });
});

test("abort that is repeated while it is carried out gives the same answer and is carried out once [R-080]", async () => {
  const [step, undoing] = [aGate(), aGate()];
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.write_image": { gate: step.name }, "driver.abort": { gate: undoing.name } })
    .made();
  const id = await ostler.begin("DEPLOY", [node]);
  await step.arrivals();
  const first = await abort([node]);
  await undoing.arrivals();
  expect(await abort([node])).toEqual(first);
  undoing.open();
  expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  expect(ostler.journal(node).filter((entry) => entry.abort)).toHaveLength(1);
});

// Ending a parked run used to wait for a slot, behind steps that may be stuck indefinitely.
test("abort of a parked run takes effect although stuck steps occupy every slot", async () => {
  await using lab = await engineUnderTest({ concurrency: 2 });
  const gate = aGate();
  const parked = await lab
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.boot_system": { callback: true } })
    .times(3);
  const id = await lab.begin("DEPLOY", parked);
  for (const node of parked) await lab.nodeBecomes(node, "DEPLOY_WAIT");
  const stuck = await lab
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.prepare": { gate: gate.name } })
    .times(2);
  const other = await lab.begin("DEPLOY", stuck);
  await gate.arrivals(2);
  await lab.engine.abort(ALICE, { work: { operationId: id } });
  expect((await lab.operationEnds(id)).state).toBe("ABORTED");
  expect((await lab.operation(other)).state).toBe("RUNNING");
  gate.open();
  expect((await lab.operationEnds(other)).state).toBe("SUCCEEDED");
});

test("abort that is pending takes effect although the process that ran the step has died", async () => {
  await using lab = await engineUnderTest({ started: false });
  const gate = aGate();
  const node = await lab
    .aNode()
    .in("AVAILABLE")
    .scripted({ "clean.erase_metadata": { gate: gate.name } })
    .made();
  const victim = await lab.inAnotherProcess();
  const id = await lab.begin("CLEAN", [node]);
  await eventually("the step is entered", () => lab.entered(node).length === 1);
  expect((await lab.engine.abort(ALICE, { work: { operationId: id } })).results).toMatchObject([{ effect: "PENDING" }]);
  await victim.kill();
  await lab.leasesRunOut();
  await lab.engine.start();
  expect((await lab.operationEnds(id)).state).toBe("ABORTED");
  expect(lab.entered(node)).toEqual(["clean.erase_metadata"]);
  expect(await lab.nodeState(node)).toBe("CLEAN_FAILED");
  expect(await unsound(lab)).toEqual([]);
});

test.each([
  { when: "before the process dies", isAskedFirst: true },
  { when: "while no process holds the run", isAskedFirst: false },
])(
  "abort during a step that must not be run twice was lost if the process died in the step: asked $when [R-190]",
  async ({ isAskedFirst }) => {
    await using lab = await engineUnderTest({ started: false });
    const node = await lab
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.update_firmware": { gate: aGate().name } })
      .made();
    await lab.test.sql`update nodes set power_state = 'ON' where id = ${node.id}`;
    const victim = await lab.inAnotherProcess();
    const steps = [{ interface: "clean", name: "update_firmware", args: { version: "2.1" } }] as const;
    const id = await lab.begin("CLEAN", [node], { options: { steps } });
    await eventually("the step is entered", () => lab.entered(node).length === 1);
    if (!isAskedFirst) await victim.kill();
    const asked = await lab.engine.abort(ALICE, { work: { operationId: id }, mode: "AFTER_STEP" });
    expect(asked.results).toMatchObject([{ accepted: true, effect: "PENDING" }]);
    if (isAskedFirst) await victim.kill();
    await lab.leasesRunOut();
    await lab.engine.start();
    expect((await lab.operationEnds(id)).state).toBe("ABORTED");
    expect(await lab.run(id, node)).toMatchObject({
      state: "ABORTED",
      leftAs: { power: "ON", firmwareTouched: true, mayBeWorking: true },
    });
    expect(lab.entered(node)).toEqual(["clean.update_firmware"]);
    expect(lab.powerCalls(node)).toEqual([]);
    expect(await lab.nodeState(node)).toBe("CLEAN_FAILED");
    expect(await unsound(lab)).toEqual([]);
  },
);

describe("forced abort", () => {
  const forced = { mode: "FORCE", reason: "the machine has burnt" } as const;
  const expectForced = async (lab: typeof ostler, id: string, node: TestNode) => {
    expect((await lab.operationEnds(id)).state).toBe("ABORTED");
    expect(await lab.run(id, node)).toMatchObject({
      state: "ABORTED",
      interruptMode: "FORCE",
      interruptReason: forced.reason,
      failure: { code: "ABORTED", message: expect.stringContaining(forced.reason) },
      leftAs: { power: "UNKNOWN", tearDownError: expect.stringContaining("forced") },
    });
    expect(await lab.node(node)).toMatchObject({ state: "CLEAN_FAILED", lastError: { code: "ABORTED" } });
    expect(await unsound(lab)).toEqual([]);
  };

  test("forced abort without a reason is refused", async () => {
    const { gate, node, id } = await blockedInFirmware();
    expect((await abort([node], { mode: "FORCE" })).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "reason"] },
    ]);
    gate.open();
    await ostler.operationEnds(id);
  });

  test("hung step that must not be interrupted could not be ended by anything: a forced abort ends it at once [R-193]", async () => {
    await using lab = await engineUnderTest();
    const node = await lab
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.update_firmware": { silent: true, ignoreSignal: true } })
      .made();
    const steps = [{ interface: "clean", name: "update_firmware", args: { version: "2.1" } }] as const;
    const id = await lab.begin("CLEAN", [node], { options: { steps } });
    await eventually("the step is entered", () => lab.entered(node).length === 1);
    expect((await lab.engine.abort(ALICE, { work: { ids: [node.id] }, ...forced })).results).toMatchObject([
      { accepted: true, effect: "NOW" },
    ]);
    await expectForced(lab, id, node);
    // The node takes new work.
    expect((await lab.operationEnds(await lab.begin("MANAGE", [node]))).state).toBe("SUCCEEDED");
  });

  test("forced abort, also after another abort, left the process of a hung step alive: it is killed [R-263]", async () => {
    const kills: (AbortSignal | undefined)[] = [];
    const hanging = aDriver("hanging", {
      clean: stepsOf(
        aStep("hang", "clean", async (call) => {
          kills.push(dispatchOf(call).kill);
          return new Promise(() => {});
        }),
      ),
    });
    await using lab = await engineUnderTest({ drivers: [hanging], abortGraceMs: 60_000 });
    const node = await lab.aNode().in("AVAILABLE").with("hanging").made();
    const id = await lab.begin("CLEAN", [node]);
    await eventually("the step is entered", () => kills.length === 1);
    await lab.engine.abort(ALICE, { work: { ids: [node.id] } });
    expect(kills[0]?.aborted).toBe(false);
    await lab.engine.abort(ALICE, { work: { ids: [node.id] }, ...forced });
    await lab.operationEnds(id);
    await eventually("its process is killed", () => kills[0]?.aborted === true);
  });

  test("abort of the driver that hung kept its node busy: a forced abort ends it at once [R-193]", async () => {
    const [step, undoing] = [aGate(), aGate()];
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_disks": { gate: step.name }, "driver.abort": { gate: undoing.name } })
      .made();
    const id = await ostler.begin("CLEAN", [node]);
    await step.arrivals();
    await abort([node]);
    await undoing.arrivals();
    const busy = await ostler.submit("POWER", [node], { options: { powerAction: "OFF" } });
    expect(busy.refusals).toMatchObject([
      { code: "BUSY", message: expect.stringContaining("being ended after an abort or a failure") },
    ]);
    await abort([node], forced);
    await expectForced(ostler, id, node);
    undoing.open();
  });

  test("deletion of a node that is being aborted advised to abort it: the refusal says what it waits for", async () => {
    const undoing = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_disks": { callback: true }, "driver.abort": { gate: undoing.name } })
      .made();
    const id = await ostler.begin("CLEAN", [node]);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    await abort([node]);
    await undoing.arrivals();
    expect((await ostler.engine.deleteNodes(ALICE, { ids: [node.id] })).refusals).toMatchObject([
      { code: "BUSY", message: expect.stringContaining("being ended after an abort or a failure") },
    ]);
    undoing.open();
    await ostler.operationEnds(id);
  });

  test.each([
    { where: "for a callback", script: { callback: true } },
    { where: "for a time", script: { waitSeconds: 3600 } },
  ])("forced abort ends a run that is parked $where [R-193]", async ({ script }) => {
    const { node, id } = await parkedIn("clean.erase_disks", script, "CLEAN");
    await abort([node], forced);
    await expectForced(ostler, id, node);
  });
});
