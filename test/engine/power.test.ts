/**
 * Power: changed on request, softly or hard, never during a run; read in the background, and corrected only by policy.
 */
import { afterAll, describe, expect, test } from "vitest";
import * as z from "zod";
import type { PowerAction, PowerState } from "../../src/drivers/driver.ts";
import type { PowerChange } from "../../src/lifecycle/verbs.ts";
import { dispatchOf } from "../../src/drivers/isolation/dispatch.ts";
import type { Lane } from "../../src/drivers/isolation/lanes.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import type { AnyCall } from "../support/driver.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { heldIn } from "../support/held-work.ts";
import { changeNode } from "../support/change-node.ts";

/** Machines whose power can change without Ostler, by node name. */
interface Machine {
  power: PowerState;
  /** Power actions that the machine received. */
  readonly calls: PowerAction[];
  /** The lane of the last power change. */
  setIn?: Lane;
  reads: number;
  /** The system ignores a soft power off until the signal fires, or until the driver's own timeout, or always. */
  ignoresSoftOff?: "until the signal" | "by the driver's timeout" | "for good";
  /** The error that the BMC returns instead of an answer. */
  trouble?: Error;
  /** A power action that blocks until its signal fires. */
  hangsOn?: PowerAction;
  released?: true;
  /** An answer that comes late and ignores the signal. */
  slowly?: Promise<PowerState>;
}

const machines = new Map<string, Machine>();

function machine({ name }: { readonly name: string }): Machine {
  const known = machines.get(name);
  if (known) return known;
  const made: Machine = { power: "ON", calls: [], reads: 0 };
  machines.set(name, made);
  return made;
}

function driverError(message: string, kind: string): Error {
  return Object.assign(new Error(message), { name: "DriverError", kind, retryable: false });
}

const lab = aDriver("lab", {
  secret: true,
  clean: stepsOf(
    aStep("soak", "clean", async ({ memo, power }) => {
      if (memo === "soaked") return { kind: "done" };
      await power.set("OFF");
      return { kind: "wait", seconds: 600, memo: "soaked" };
    }),
  ),
});
const power = {
  async read({ node }: AnyCall) {
    const at = machine(node);
    at.reads += 1;
    if (at.trouble) throw at.trouble;
    return at.slowly ?? at.power;
  },
  async set(call: AnyCall, action: PowerAction) {
    const { node, signal } = call;
    const at = machine(node);
    at.calls.push(action);
    at.setIn = dispatchOf(call).lane;
    if (action === "SOFT_OFF" && at.ignoresSoftOff === "by the driver's timeout")
      throw driverError("the machine is still on", "TIMEOUT");
    if (action === "SOFT_OFF" && at.ignoresSoftOff === "for good")
      throw driverError("this BMC knows no soft power off", "REFUSED");
    if (action === at.hangsOn || (action === "SOFT_OFF" && at.ignoresSoftOff)) {
      await new Promise<never>((_, leave) =>
        signal.addEventListener("abort", () => leave(signal.reason as Error), { once: true }),
      ).finally(() => (at.released = true));
    }
    at.power = action === "ON" || action === "REBOOT" ? "ON" : "OFF";
  },
};

/** Settings whose check blocks: the moment between reading a node and calling its BMC. */
const latch: { until?: Promise<void>; reached?: true } = {};
const latched = {
  ...lab,
  name: "latched",
  settings: z.looseObject({}).refine(async () => {
    if (latch.until) latch.reached = true;
    await latch.until;
    return true;
  }),
};

const ostler = await engineUnderTest({
  drivers: [lab, latched].map((driver) => ({ ...driver, power }) as unknown as typeof lab),
});
afterAll(() => ostler[Symbol.asyncDispose]());

const aMachine = async (state: "ACTIVE" | "AVAILABLE" = "ACTIVE") => {
  const node = await ostler.aNode().in(state).with("lab").made();
  return { node, at: machine(node) };
};

const change = async (node: TestNode, powerAction: PowerChange, softTimeoutSeconds?: number) => {
  const id = await ostler.begin("POWER", [node], {
    options: { powerAction, ...(softTimeoutSeconds !== undefined && { softTimeoutSeconds }) },
  });
  const operation = await ostler.operationEnds(id);
  const [step] = await ostler.steps(await ostler.run(id, node));
  return { state: operation.state, failure: operation.firstFailure, output: step?.attempts[0]?.output };
};

describe("boot device", () => {
  test("boot device of a machine is set once or for good, also in maintenance, and no node state changes [R-233]", async () => {
    const node = await ostler.aNode().in("ACTIVE").made();
    await ostler.engine.setMaintenance(ALICE, { ids: [node.id] }, "new disk");
    for (const bootDevice of [
      { device: "NETWORK", persistent: false },
      { device: "DISK", persistent: true },
    ] as const) {
      const id = await ostler.begin("BOOT_DEVICE", [node], { options: { bootDevice } });
      expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
      expect(await ostler.story(node, id)).toEqual([]);
    }
    expect(ostler.journal(node)).toMatchObject([
      { boot: "PXE", persistent: false },
      { boot: "DISK", persistent: true },
    ]);
  });

  test("boot device is set by a step of a list, whose device is checked [R-233]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const before = ostler.journal(node).length;
    const list = (args: Record<string, string | boolean>) => ({
      options: { steps: [{ interface: "power", name: "boot_device", args } as const] },
    });
    for (const args of [{}, { device: "PXE" }, { device: "DISK", persistent: "yes" }])
      expect((await ostler.submit("CLEAN", [node], list(args))).refusals).toMatchObject([{ code: "INVALID_INPUT" }]);
    await ostler.operationEnds(await ostler.begin("CLEAN", [node], list({ device: "CDROM" })));
    expect(ostler.journal(node).slice(before)).toMatchObject([{ boot: "CDROM", persistent: false }]);
  });

  test("boot device is refused by a driver that cannot set it, as a verb and as a step [R-233]", async () => {
    const { node } = await aMachine("AVAILABLE");
    const bootDevice = { device: "DISK", persistent: false } as const;
    expect((await ostler.submit("BOOT_DEVICE", [node], { options: { bootDevice } })).refusals).toMatchObject([
      { code: "UNSUPPORTED_BY_DRIVER", message: expect.stringContaining("driver lab cannot set the boot device") },
    ]);
    const steps = [{ interface: "power", name: "boot_device", args: { device: "DISK" } } as const];
    expect((await ostler.submit("CLEAN", [node], { options: { steps } })).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "steps", "0", "name"] },
    ]);
  });
});

describe("soft reboot", () => {
  test("soft reboot of a system that shuts down powers it on again without force [R-232]", async () => {
    const { node, at } = await aMachine();
    expect(await change(node, "SOFT_REBOOT")).toEqual({ state: "SUCCEEDED", failure: null, output: null });
    expect(at.calls).toEqual(["SOFT_OFF", "ON"]);
    expect(await ostler.node(node)).toMatchObject({ powerState: "ON", wantedPower: "ON" });
  });

  test("soft reboot that the system ignores is forced after the timeout [R-232]", async () => {
    const { node, at } = await aMachine();
    at.ignoresSoftOff = "until the signal";
    expect(await change(node, "SOFT_REBOOT", 1)).toEqual({
      state: "SUCCEEDED",
      failure: null,
      output: { forced: true },
    });
    expect(at.calls).toEqual(["SOFT_OFF", "OFF", "ON"]);
  });
});

describe("soft power off", () => {
  test("soft power off of a system that shuts down does not force the power off", async () => {
    const { node, at } = await aMachine();
    expect(await change(node, "SOFT_OFF")).toEqual({ state: "SUCCEEDED", failure: null, output: null });
    expect(at.calls).toEqual(["SOFT_OFF"]);
  });

  test.each(["until the signal", "by the driver's timeout"] as const)(
    "soft power off that the system ignores (%s) is forced, and the result says so [R-035]",
    async (ignoresSoftOff) => {
      const { node, at } = await aMachine();
      at.ignoresSoftOff = ignoresSoftOff;
      expect(await change(node, "SOFT_OFF", 1)).toEqual({
        state: "SUCCEEDED",
        failure: null,
        output: { forced: true },
      });
      expect(at.calls).toEqual(["SOFT_OFF", "OFF"]);
      expect(await ostler.node(node)).toMatchObject({ powerState: "OFF", wantedPower: "OFF" });
    },
  );

  test("soft power off that the BMC refuses fails and is not forced", async () => {
    const { node, at } = await aMachine();
    at.ignoresSoftOff = "for good";
    expect(await change(node, "SOFT_OFF", 1)).toMatchObject({
      state: "FAILED",
      failure: { code: "BACKEND_FAILED", message: expect.stringContaining("knows no soft power off") },
    });
    expect(at).toMatchObject({ calls: ["SOFT_OFF"], power: "ON" });
  });

  test("soft power off waits ten minutes for the system by default, and the forced power off has another minute [R-143]", async () => {
    const { node } = await aMachine();
    const timeOf = async (options: { powerAction: "SOFT_OFF"; softTimeoutSeconds?: number }) =>
      (await ostler.submit("POWER", [node], { options, dryRun: true })).results[0]?.plan?.steps.map(
        ({ args, timeoutSeconds }) => [args, timeoutSeconds],
      );
    expect(await timeOf({ powerAction: "SOFT_OFF" })).toEqual([[{ timeoutSeconds: 600 }, 660]]);
    expect(await timeOf({ powerAction: "SOFT_OFF", softTimeoutSeconds: 30 })).toEqual([[{ timeoutSeconds: 30 }, 90]]);
  });

  test("soft power off can be aborted while the system shuts down, and is not forced then", async () => {
    const { node, at } = await aMachine();
    at.ignoresSoftOff = "until the signal";
    const id = await ostler.begin("POWER", [node], { options: { powerAction: "SOFT_OFF" } });
    await eventually("the system was asked to shut down", () => at.calls.length > 0);
    expect((await ostler.engine.abort(ALICE, { work: { operationId: id } })).results).toMatchObject([
      { accepted: true, effect: "NOW" },
    ]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(at).toMatchObject({ calls: ["SOFT_OFF"], power: "ON" });
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", wantedPower: null });
  });
});

describe("wanted power", () => {
  test("wanted power is what the last change through Ostler set, even if the machine was in that state already", async () => {
    const { node, at } = await aMachine();
    expect((await ostler.node(node)).wantedPower).toBeNull();
    await change(node, "ON");
    expect(at.calls).toEqual([]);
    expect((await ostler.node(node)).wantedPower).toBe("ON");
    await change(node, "OFF");
    expect((await ostler.node(node)).wantedPower).toBe("OFF");
    await change(node, "REBOOT");
    expect((await ostler.node(node)).wantedPower).toBe("ON");
  });

  test("wanted power stays when a change fails", async () => {
    const { node, at } = await aMachine();
    await change(node, "ON");
    at.trouble = new Error("no answer");
    expect((await change(node, "OFF")).state).toBe("FAILED");
    expect((await ostler.node(node)).wantedPower).toBe("ON");
  });

  test("wanted power is recorded for a step that changes the power and then waits", async () => {
    const { node } = await aMachine("AVAILABLE");
    const id = await ostler.begin("CLEAN", [node]);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    expect(await ostler.node(node)).toMatchObject({ powerState: "OFF", wantedPower: "OFF" });
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
  });

  test("wanted power is recorded for a deployment, and for the abort that switches it off", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.configure": { gate: gate.name, ignoreSignal: true } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await gate.arrivals();
    expect((await ostler.node(node)).wantedPower).toBe("ON");
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    gate.open();
    await ostler.operationEnds(id);
    expect(await ostler.node(node)).toMatchObject({ powerState: "OFF", wantedPower: "OFF" });
  });
});

describe("power change", () => {
  const refused = async (node: TestNode) =>
    (await ostler.submit("POWER", [node], { options: { powerAction: "ON" } })).refusals;

  test.each([
    { during: "a verification", state: "ENROLLED", kind: "MANAGE", step: "power.read" },
    { during: "an inspection", state: "MANAGEABLE", kind: "INSPECT", step: "inspect.collect_inventory" },
    { during: "an inspection in place", state: "ACTIVE", kind: "INSPECT", step: "inspect.collect_inventory" },
    { during: "cleaning", state: "AVAILABLE", kind: "CLEAN", step: "clean.erase_disks" },
    { during: "a deployment", state: "AVAILABLE", kind: "DEPLOY", step: "deploy.configure" },
    { during: "an undeployment", state: "ACTIVE", kind: "UNDEPLOY", step: "deploy.remove_system" },
    { during: "another power change", state: "ACTIVE", kind: "POWER", step: "power.set" },
  ] as const)("power change during $during is BUSY [R-085]", async ({ state, kind, step }) => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in(state)
      .scripted({ [step]: { gate: gate.name } })
      .made();
    const id = await ostler.begin(kind, [node], { options: kind === "POWER" ? { powerAction: "REBOOT" } : {} });
    await gate.arrivals();
    expect(await refused(node)).toMatchObject([{ code: "BUSY", nodeId: node.id, operationId: id }]);
    gate.open();
    await ostler.operationEnds(id);
  });

  test("power change while the run is queued is BUSY [R-085]", async () => {
    const gate = aGate();
    const [first, second] = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_disks": { gate: gate.name } })
      .times(2);
    if (!first || !second) throw new Error("Two nodes were asked for.");
    const id = await ostler.begin("CLEAN", [first, second], { maxParallel: 1 });
    await gate.arrivals();
    expect((await ostler.run(id, second)).state).toBe("QUEUED");
    expect(await refused(second)).toMatchObject([{ code: "BUSY", operationId: id }]);
    expect(ostler.powerCalls(second)).toEqual([]);
    gate.open();
    await ostler.operationEnds(id);
  });

  test("power change while the run is parked or on hold is BUSY [R-085]", async () => {
    const parked = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_disks": { waitSeconds: 600 } })
      .made();
    const held = await ostler.aNode().in("AVAILABLE").made();
    const ids = [
      await ostler.begin("CLEAN", [parked]),
      await ostler.begin("CLEAN", [held], { options: { steps: [{ interface: "engine", name: "hold", args: {} }] } }),
    ] as const;
    await eventually(
      "one run is parked, the other on hold",
      async () =>
        (await ostler.run(ids[0], parked)).state === "WAITING" && (await ostler.run(ids[1], held)).state === "HOLDING",
    );
    expect(await refused(parked)).toMatchObject([{ code: "BUSY", operationId: ids[0] }]);
    expect(await refused(held)).toMatchObject([{ code: "BUSY", operationId: ids[1] }]);
    for (const operationId of ids) {
      await ostler.engine.abort(ALICE, { work: { operationId } });
      await ostler.operationEnds(operationId);
    }
  });

  test("power change to the present state calls no BMC [R-036]", async () => {
    const { node, at } = await aMachine();
    expect(await change(node, "ON")).toMatchObject({ state: "SUCCEEDED" });
    expect(at.calls).toEqual([]);
  });
});

describe("power reading on request", () => {
  test("power reading on request returns a result for each node in order, and stores changes", async () => {
    const [on, off, dead] = [await aMachine(), await aMachine(), await aMachine()];
    off.at.power = "OFF";
    dead.at.trouble = driverError("no route to the BMC", "UNREACHABLE");
    const { answers, refusals } = await ostler.engine.readPower({
      ids: [dead.node.id, on.node.id, off.node.id, on.node.id],
    });
    expect(refusals).toEqual([]);
    expect(answers.map(({ nodeId, state, refusal }) => [nodeId, state, refusal?.code ?? null])).toEqual([
      [dead.node.id, null, "BACKEND_FAILED"],
      [on.node.id, "ON", null],
      [off.node.id, "OFF", null],
    ]);
    expect(answers[0]?.refusal?.message).toBe(
      `The power of node ${dead.node.name} could not be read: no route to the BMC.`,
    );
    expect(await ostler.node(dead.node)).toMatchObject({
      powerState: "UNKNOWN",
      powerProblem: "no route to the BMC",
      powerProblemKind: "UNREACHABLE",
      powerReadAt: null,
      powerCheckedAt: expect.any(Date),
    });
    expect(await ostler.node(off.node)).toMatchObject({
      powerState: "OFF",
      powerProblem: null,
      powerReadAt: expect.any(Date),
      wantedPower: null,
    });
  });

  test("power reading of a BMC that answers again clears the error, and an unchanged state is not stored", async () => {
    const { node, at } = await aMachine();
    at.trouble = new Error("busy");
    await ostler.engine.readPower({ ids: [node.id] });
    expect((await ostler.node(node)).powerProblem).toBe("busy");
    delete at.trouble;
    await ostler.engine.readPower({ ids: [node.id] });
    const before = await ostler.node(node);
    expect(before).toMatchObject({ powerState: "ON", powerProblem: null });
    await ostler.engine.readPower({ ids: [node.id] });
    expect(await ostler.node(node)).toMatchObject({ revision: before.revision, updatedAt: before.updatedAt });
  });

  test("power reading masks the node's secrets", async () => {
    const node = await ostler.aNode().in("ACTIVE").with("lab", { password: "Xyzzy-plugh" }).made();
    machine(node).trouble = new Error("login with Xyzzy-plugh refused");
    const { answers } = await ostler.engine.readPower({ ids: [node.id] });
    expect(answers[0]?.refusal).toMatchObject({
      code: "BACKEND_FAILED",
      message: expect.stringContaining("login with *** refused"),
    });
    expect((await ostler.node(node)).powerProblem).toBe("login with *** refused");
  });

  test("power reading of a node with a running operation is BUSY and does not call its BMC", async () => {
    const { gate, node, id } = await heldIn(ostler, "clean.erase_disks");
    const before = await ostler.dump();
    expect((await ostler.engine.readPower({ ids: [node.id] })).answers).toMatchObject([
      { state: null, refusal: { code: "BUSY", operationId: id, nodeId: node.id } },
    ]);
    expect(await ostler.changesSince(before)).toEqual([]);
    gate.open();
    await ostler.operationEnds(id);
  });

  test("power reading during which an operation starts is cancelled and stores nothing", async () => {
    const [readGate, cleanGate] = [aGate(), aGate()];
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "power.read": { gate: readGate.name }, "clean.erase_disks": { gate: cleanGate.name } })
      .made();
    const reading = ostler.engine.readPower({ ids: [node.id] });
    await readGate.arrivals();
    const id = await ostler.begin("CLEAN", [node]);
    expect((await reading).answers).toMatchObject([{ state: null, refusal: { code: "BUSY", operationId: id } }]);
    cleanGate.open();
    await ostler.operationEnds(id);
    expect(await ostler.node(node)).toMatchObject({ powerState: "UNKNOWN", powerProblem: null });
    readGate.open();
  });

  // An operation that started before the call was recorded was missed: a reading or a correction ran beside it.
  test("power reading is not sent if an operation starts after the node was read", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("latched").made();
    const { promise: checked, resolve: check } = Promise.withResolvers<void>();
    latch.until = checked;
    const reading = ostler.engine.readPower({ ids: [node.id] });
    await eventually("the node has been read", () => latch.reached === true);
    delete latch.until;
    const id = await ostler.begin("CLEAN", [node]);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    const { reads } = machine(node);
    check();
    expect((await reading).answers).toMatchObject([{ state: null, refusal: { code: "BUSY", operationId: id } }]);
    expect(machine(node).reads).toBe(reads);
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
  });

  test("power reading that is older than an operation which started and ended meanwhile is not stored", async () => {
    const { node, at } = await aMachine();
    const { promise: answered, resolve: answer } = Promise.withResolvers<PowerState>();
    at.slowly = answered;
    const reading = ostler.engine.readPower({ ids: [node.id] });
    await eventually("the BMC is asked", () => at.reads > 0);
    delete at.slowly;
    await change(node, "OFF");
    answer("ON");
    expect((await reading).answers).toMatchObject([{ state: null, refusal: { code: "BUSY" } }]);
    expect(await ostler.node(node)).toMatchObject({ powerState: "OFF", powerProblem: null });
  });

  test("power reading of a node whose driver is not loaded reports that", async () => {
    const { node } = await aMachine();
    await ostler.test.sql`update nodes set driver = 'tape' where id = ${node.id}`;
    expect((await ostler.engine.readPower({ ids: [node.id] })).answers).toMatchObject([
      { refusal: { code: "UNSUPPORTED_BY_DRIVER", message: expect.stringContaining('driver "tape" is not loaded') } },
    ]);
  });

  test("power reading of unknown nodes, of none or of too many is refused", async () => {
    expect((await ostler.engine.readPower({ names: ["ghost-1", "ghost-2"] })).refusals).toMatchObject([
      { code: "NOT_FOUND", missing: ["ghost-1", "ghost-2"] },
    ]);
    expect((await ostler.engine.readPower({ names: [] })).refusals).toMatchObject([{ code: "INVALID_INPUT" }]);
    await ostler.aNode().labelled({ crowd: "1" }).times(1_001);
    expect((await ostler.engine.readPower({ filter: { labels: { crowd: "1" } } })).refusals).toMatchObject([
      { code: "INVALID_INPUT", message: expect.stringContaining("at most 1000") },
    ]);
  });
});

describe("background power reading", () => {
  /** Nodes of other tests are read too; each test checks its own. */
  const reading = () => ostler.another({ powerSeconds: 0.2 });
  const isRead = (at: Machine, times = 2) => eventually("its power is read", () => at.reads >= times);
  const site = (policy: object) => ostler.test.sql`update site set policy = ${ostler.test.sql.json(policy as never)}`;

  test("background power reading repeats and stores changes", async () => {
    const { node, at } = await aMachine();
    await using _ = await reading();
    await eventually("its power is known", async () => (await ostler.node(node)).powerState === "ON");
    at.power = "OFF";
    await eventually("the change is seen", async () => (await ostler.node(node)).powerState === "OFF");
    at.trouble = driverError("no route to the BMC", "UNREACHABLE");
    await eventually(
      "the missing answer is stored",
      async () => (await ostler.node(node)).powerProblem === "no route to the BMC",
    );
    expect((await ostler.node(node)).powerState).toBe("UNKNOWN");
    delete at.trouble;
    await eventually("the BMC answers again", async () => (await ostler.node(node)).powerState === "OFF");
    expect((await ostler.node(node)).powerProblem).toBeNull();
  });

  test("background power reading of an unchanged state keeps the revision", async () => {
    const { node, at } = await aMachine();
    await using _ = await reading();
    await eventually("its power is known", async () => (await ostler.node(node)).powerState === "ON");
    const before = await ostler.node(node);
    await isRead(at, at.reads + 3);
    const after = await ostler.node(node);
    expect(after).toMatchObject({
      revision: before.revision,
      updatedAt: before.updatedAt,
      powerReadAt: before.powerReadAt,
    });
    expect(after.powerCheckedAt?.getTime()).toBeGreaterThan(before.powerCheckedAt?.getTime() ?? 0);
  });

  test("background power reading skips nodes that are busy, in maintenance, not verified or decommissioned", async () => {
    const gate = aGate();
    const busy = await ostler
      .aNode()
      .in("AVAILABLE")
      .with("lab")
      .borrowing([
        { kinds: ["clean"], driver: "fake", settings: { steps: { "clean.erase_disks": { gate: gate.name } } } },
      ])
      .made();
    const id = await ostler.begin("CLEAN", [busy]);
    await gate.arrivals();
    const [enrolled, gone, resting, free] = [
      await ostler.aNode().with("lab").made(),
      await ostler.aNode().in("DECOMMISSIONED").with("lab").made(),
      await aMachine(),
      await aMachine(),
    ];
    await ostler.engine.setMaintenance(ALICE, { ids: [resting.node.id] }, "new fan");
    await using _ = await reading();
    await isRead(free.at, 3);
    expect([machine(busy), machine(enrolled), machine(gone), resting.at].map(({ reads }) => reads)).toEqual([
      0, 0, 0, 0,
    ]);
    await ostler.engine.clearMaintenance(ALICE, { ids: [resting.node.id] });
    gate.open();
    await ostler.operationEnds(id);
    await Promise.all([isRead(machine(busy)), isRead(resting.at)]);
  });

  test("background power reading reports power drift and does not correct it by default", async () => {
    const { node, at } = await aMachine();
    await change(node, "ON");
    at.power = "OFF";
    await using _ = await reading();
    await eventually("the change is seen", async () => (await ostler.node(node)).powerState === "OFF");
    await isRead(at, at.reads + 2);
    expect(at.calls).toEqual([]);
    expect((await ostler.node(node)).wantedPower).toBe("ON");
  });

  test("background power reading corrects drift by policy, except on nodes whose power was never set through Ostler", async () => {
    const [strayed, own] = [await aMachine(), await aMachine()];
    await change(strayed.node, "ON");
    strayed.at.power = "OFF";
    own.at.power = "OFF";
    await site({ correctPower: true });
    try {
      await using _ = await reading();
      await eventually("the power is corrected", () => strayed.at.calls.length > 0);
      await eventually("the change is stored", async () => (await ostler.node(strayed.node)).powerState === "ON");
      await isRead(own.at, own.at.reads + 2);
      expect(strayed.at).toMatchObject({ calls: ["ON"], power: "ON", setIn: "READING" });
      expect(own.at.calls).toEqual([]);
    } finally {
      await site({});
    }
  });

  test("background power reading does not switch off a protected node", async () => {
    const [guarded, other] = [await aMachine(), await aMachine()];
    for (const { node, at } of [guarded, other]) {
      await change(node, "OFF");
      at.power = "ON";
      at.calls.length = 0;
    }
    await changeNode(ostler.engine, ALICE, guarded.node.id, { isProtected: true });
    await site({ correctPower: true });
    try {
      await using _ = await reading();
      await eventually("the other node is corrected", () => other.at.calls.length > 0);
      await isRead(guarded.at, guarded.at.reads + 2);
      expect(guarded.at).toMatchObject({ calls: [], power: "ON" });
    } finally {
      await site({});
    }
  });

  test("background power correction is cancelled when an operation starts, which sets the power itself", async () => {
    const { node, at } = await aMachine();
    await change(node, "ON");
    at.power = "OFF";
    at.hangsOn = "ON";
    await site({ correctPower: true });
    try {
      await using _ = await reading();
      await eventually("the power correction has started", () => at.calls.includes("ON"));
      const asked = await change(node, "REBOOT");
      expect(asked.state).toBe("SUCCEEDED");
      expect(await ostler.node(node)).toMatchObject({ powerState: "ON", wantedPower: "ON" });
      await eventually("the call is cancelled", () => at.released === true);
      expect(at.calls).toEqual(["ON", "REBOOT"]);
    } finally {
      await site({});
    }
  });

  test("background power reading is done by one of several processes per interval", async () => {
    const nodes = await ostler.aNode().in("ACTIVE").with("lab").times(30);
    await using stack = new AsyncDisposableStack();
    await Promise.all([1, 2, 3].map(async () => stack.use(await ostler.another({ powerSeconds: 3_600 }))));
    await eventually("every node has been read", () => nodes.every((node) => machine(node).reads > 0));
    expect(nodes.map((node) => machine(node).reads)).toEqual(nodes.map(() => 1));
  });

  test("background power reading of dead BMCs does not delay the others", async () => {
    const dead = await Promise.all(Array.from({ length: 40 }, () => aMachine()));
    for (const { at } of dead) at.trouble = new Error("dead");
    await using _ = await reading();
    await eventually("all are known to be dead", async () =>
      (await Promise.all(dead.map(({ node }) => ostler.node(node)))).every(
        ({ powerProblem }) => powerProblem === "dead",
      ),
    );
    for (const { at } of dead) at.slowly = new Promise(() => {});
    for (const { at } of dead) delete at.trouble;
    const alive = await aMachine();
    await isRead(alive.at, 3);
  });
});
