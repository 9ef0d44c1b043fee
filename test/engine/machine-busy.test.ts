/**
 * A step that must not be cut fails after it began, and its machine may still be writing firmware or erasing disks: the
 * engine leaves the machine as it is, marks the node, and refuses work that would touch it.
 */
import { afterAll, describe, expect, test } from "vitest";
import { passGate } from "../../plugins/fake/gates.ts";
import type { StepResult } from "../../src/drivers/driver.ts";
import type { VerbRequest } from "../../src/engine/admission/request-terms.ts";
import type { NodeState } from "../../src/lifecycle/node-states.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnyCall } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { changeNode } from "../support/change-node.ts";

/** Calls of a machine that a failure must not lead to, by node name. */
const touched = new Map<string, string[]>();
const note = (name: string, what: string) => touched.set(name, [...(touched.get(name) ?? []), what]);

const failed = (more: Partial<Extract<StepResult, { kind: "failed" }>> = {}): StepResult => ({
  kind: "failed",
  reason: "the BMC answered 502",
  retryable: false,
  ...more,
});

/** The ways in which a step can end without a word of its machine. */
const ENDS: Readonly<Record<string, (call: AnyCall) => Promise<StepResult>>> = {
  "a failure": async () => failed(),
  "a failure that can be retried": async () => failed({ retryable: true }),
  "an error": async () => {
    throw new Error("socket hang up");
  },
  "an error that says AUTHENTICATION": async () => {
    throw Object.assign(new Error("the login was refused"), { name: "DriverError", kind: "AUTHENTICATION" });
  },
  "a BMC that cannot be asked until the timeout": async () => {
    const kind = { name: "DriverError", kind: "UNREACHABLE", retryable: true };
    throw Object.assign(new Error("the host name does not resolve"), kind);
  },
  "an invalid result": async () => ({ kind: "perhaps" }) as unknown as StepResult,
  "its timeout": () => new Promise<never>(() => {}),
};

/** A step that has begun its work in an earlier entry, if `waits`, and then ends as the node's settings say. */
const working = (waits: boolean) => async (call: AnyCall) => {
  if (waits && call.memo === null) return { kind: "wait", seconds: 0, memo: { task: "1" } } as const;
  const { gate, end, atRest, parks, restAt } = call.settings;
  if (parks) return { kind: "wait", seconds: 3600, memo: { task: "1" } } as const;
  if (Array.isArray(restAt)) {
    const number = Number(call.attemptKey.split(":").at(-1));
    return failed({ retryable: true, ...(restAt.includes(number) && { atRest: true }) });
  }
  if (typeof gate === "string") await passGate(gate, call.node.name, null);
  if (atRest) return failed({ atRest: true });
  return (ENDS[String(end)] ?? (async () => failed()))(call);
};

const timeoutSeconds = 1;
const abort = async ({ node }: AnyCall) => void note(node.name, "abort");
const declared = { timeoutSeconds, idempotent: false, priority: 0, retries: { times: 1, backoffSeconds: 0 }, abort };
const done = async () => ({ kind: "done" }) as const;

const base = aDriver("flasher", {
  inspect: { ...stepsOf(aStep("look", "inspect", done)), withoutReboot: false },
  clean: stepsOf(
    aStep("wipe", "clean", done, { touches: ["DISKS"] }),
    aStep("flash", "clean", working(true), { ...declared, interruptible: "NEVER", touches: ["FIRMWARE"] }),
    aStep("never", "clean", working(false), { ...declared, interruptible: "NEVER", touches: [] }),
    aStep("set_bios", "clean", working(true), { ...declared, interruptible: "AT_BOUNDARY", touches: ["FIRMWARE"] }),
    aStep("erase", "clean", working(true), {
      ...declared,
      interruptible: "AT_BOUNDARY",
      touches: ["DISKS"],
      worksAlone: true,
    }),
    aStep("repeat", "clean", working(false), { ...declared, idempotent: true, interruptible: "NEVER", touches: [] }),
    aStep("ordinary", "clean", working(true), { ...declared, interruptible: "AT_BOUNDARY", touches: ["DISKS"] }),
  ),
  deploy: stepsOf(
    aStep("install", "deploy", done),
    aStep("fuse", "undeploy", working(true), { ...declared, priority: 10, interruptible: "NEVER", touches: [] }),
  ),
});
const activities = new Map<string, string | null>();
const flasher = {
  ...base,
  power: {
    ...base.power,
    read: async () => "ON",
    async set({ node }: AnyCall, action: string) {
      note(node.name, `power ${action}`);
    },
    readActivity: async ({ node }: AnyCall) => activities.get(node.name) ?? null,
  },
} as unknown as typeof base;

const ostler = await engineUnderTest({ drivers: [flasher] });
afterAll(() => ostler[Symbol.asyncDispose]());

const STEPS = ["flash", "never", "set_bios", "erase"] as const;

const aFlasher = (settings: Record<string, unknown> = {}, state: NodeState = "AVAILABLE") =>
  ostler.aNode().in(state).with("flasher", settings).made();
const cleaning = (name: string): Partial<VerbRequest> => ({
  options: { steps: [{ interface: "clean", name, args: {} }] },
});

/** A node whose flash has failed, so that its machine may still be writing. */
async function busyNode(settings: Record<string, unknown> = {}): Promise<{ node: TestNode; id: string }> {
  const node = await aFlasher(settings);
  activities.set(node.name, "writes the firmware of BIOS");
  const id = await ostler.begin("CLEAN", [node], cleaning("flash"));
  await ostler.operationEnds(id);
  return { node, id };
}

describe("machine that may still be at a step that must not be cut", () => {
  test.each(STEPS.flatMap((step) => Object.keys(ENDS).map((end) => ({ step, end }))))(
    "machine was switched off in mid-flash: $step ends with $end, and the machine is left as it is [R-720]",
    async ({ step, end }) => {
      const node = await aFlasher({ end });
      const id = await ostler.begin("CLEAN", [node], cleaning(step));
      expect((await ostler.operationEnds(id)).state).toBe("FAILED");
      expect(touched.get(node.name)).toBeUndefined();
      const run = await ostler.run(id, node);
      expect(run).toMatchObject({
        state: "FAILED",
        failure: { message: expect.stringContaining("do not switch it off before it has ended") },
        leftAs: { mayBeWorking: true },
      });
      expect(await ostler.node(node)).toMatchObject({ state: "CLEAN_FAILED", faultKind: "MACHINE_BUSY" });
      const attempts = (await ostler.steps(run)).flatMap((one) => one.attempts);
      expect(attempts, "It is not begun again beside itself.").toHaveLength(1);
    },
  );

  test.each(STEPS)(
    "%s: a machine that has ended by its own word is cleaned up as after every failure",
    async (step) => {
      const node = await aFlasher({ atRest: true });
      const id = await ostler.begin("CLEAN", [node], cleaning(step));
      await ostler.operationEnds(id);
      expect(touched.get(node.name)).toEqual(["abort", "power OFF"]);
      expect(await ostler.node(node)).toMatchObject({ state: "CLEAN_FAILED", faultKind: null });
      expect(await ostler.run(id, node)).toMatchObject({ leftAs: { mayBeWorking: false } });
    },
  );

  test("driver's word that the machine is at rest counts for an attempt, not for an earlier one that left it working", async () => {
    const [first, second] = [await aFlasher({ restAt: [1] }), await aFlasher({ restAt: [2] })];
    for (const node of [first, second])
      await ostler.operationEnds(await ostler.begin("CLEAN", [node], cleaning("repeat")));
    expect((await ostler.node(first)).faultKind, "Its second attempt is not at rest.").toBe("MACHINE_BUSY");
    expect((await ostler.node(second)).faultKind, "Its first attempt was not at rest.").toBe("MACHINE_BUSY");
    expect([touched.get(first.name), touched.get(second.name)]).toEqual([undefined, undefined]);
  });

  test("machine that was not reached in any attempt is cleaned up as after every failure", async () => {
    const node = await aFlasher({ restAt: [1, 2] });
    await ostler.operationEnds(await ostler.begin("CLEAN", [node], cleaning("repeat")));
    expect((await ostler.node(node)).faultKind).toBeNull();
  });

  test("step that may be cut is cleaned up after its failure", async () => {
    const node = await aFlasher();
    await ostler.operationEnds(await ostler.begin("CLEAN", [node], cleaning("ordinary")));
    expect(touched.get(node.name)).toEqual(["abort", "power OFF"]);
    expect(await ostler.node(node)).toMatchObject({ faultKind: null });
  });

  test("abort that waited for a step that must not be cut switched the machine off after the step's failure", async () => {
    const gate = aGate();
    const node = await aFlasher({ gate: gate.name });
    const id = await ostler.begin("CLEAN", [node], cleaning("never"));
    await gate.arrivals();
    const asked = await ostler.engine.abort(ALICE, { work: { ids: [node.id] }, mode: "AFTER_STEP", powerOff: true });
    expect(asked.results).toMatchObject([{ accepted: true, effect: "PENDING" }]);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(touched.get(node.name)).toBeUndefined();
    expect(await ostler.node(node)).toMatchObject({ faultKind: "MACHINE_BUSY" });
    expect(await ostler.run(id, node)).toMatchObject({ state: "ABORTED", leftAs: { mayBeWorking: true } });
  });

  test.each(["set_bios", "erase"])(
    "abort with mode: CUT switched off a machine that goes on with %s; it is left alone",
    async (step) => {
      const node = await aFlasher({ parks: true });
      const id = await ostler.begin("CLEAN", [node], cleaning(step));
      await ostler.nodeBecomes(node, "CLEAN_WAIT");
      await ostler.engine.abort(ALICE, { work: { ids: [node.id] }, mode: "CUT" });
      expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
      expect(touched.get(node.name)).toBeUndefined();
      expect(await ostler.node(node)).toMatchObject({ faultKind: "MACHINE_BUSY" });
      const { refusals } = await ostler.engine.restart(ALICE, { work: { operationId: id } });
      expect(refusals, "An abort does not say that a person has looked.").toMatchObject([{ code: "INVALID_STATE" }]);
    },
  );

  test("forced abort of a step that must not be cut marks the node", async () => {
    const gate = aGate();
    const node = await aFlasher({ gate: gate.name });
    await ostler.begin("CLEAN", [node], cleaning("never"));
    await gate.arrivals();
    await ostler.engine.abort(ALICE, { work: { ids: [node.id] }, mode: "FORCE", reason: "burnt" });
    gate.open();
    expect(await ostler.node(node)).toMatchObject({ faultKind: "MACHINE_BUSY" });
    expect((await ostler.submit("CLEAN", [node])).refusals).toMatchObject([{ code: "INVALID_STATE" }]);
  });

  test.each(["CLEAN_UP_ALL", "CLEAN_UP_FAILED"] as const)(
    "clean-up by %s erased and switched off a machine in mid-flash",
    async (onFailure) => {
      const node = await ostler.aNode().in("ACTIVE").with("flasher", {}).made();
      const id = await ostler.begin("UNDEPLOY", [node], { onFailure });
      await ostler.operationEnds(id);
      expect(touched.get(node.name)).toBeUndefined();
      expect((await ostler.runs(id)).map(({ purpose }) => purpose)).toEqual(["WORK"]);
      expect(await ostler.node(node)).toMatchObject({ state: "UNDEPLOY_FAILED", faultKind: "MACHINE_BUSY" });
    },
  );

  test("best-effort decommission went on to the next steps while the machine was at one that must not be cut", async () => {
    const node = await aFlasher({}, "ACTIVE");
    const id = await ostler.begin("DECOMMISSION", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(touched.get(node.name)).toBeUndefined();
    expect(await ostler.node(node)).toMatchObject({ faultKind: "MACHINE_BUSY" });
  });
});

describe("node with the fault MACHINE_BUSY", () => {
  const TOUCHING = ["CLEAN", "COMMISSION", "DECOMMISSION", "INSPECT", "POWER"] as const;

  test.each(TOUCHING)("%s is refused until the machine has ended, or a person forces it [R-720]", async (kind) => {
    const { node } = await busyNode();
    if (kind === "INSPECT") await ostler.operationEnds(await ostler.begin("MANAGE", [node]));
    expect((await ostler.submit(kind, [node])).refusals).toMatchObject([
      { code: "INVALID_STATE", message: expect.stringContaining("MACHINE_BUSY") },
    ]);
    expect((await ostler.submit(kind, [node], { options: { force: true }, dryRun: true })).refusals).toEqual([]);
  });

  test("verification, power on and deletion are allowed", async () => {
    const { node } = await busyNode();
    expect((await ostler.submit("MANAGE", [node], { dryRun: true })).refusals).toEqual([]);
    const on = { options: { powerAction: "ON" as const }, dryRun: true };
    expect((await ostler.submit("POWER", [node], on)).refusals).toEqual([]);
    await ostler.operationEnds(await ostler.begin("MANAGE", [node]));
    expect(await ostler.node(node), "A verification says nothing about it.").toMatchObject({
      faultKind: "MACHINE_BUSY",
    });
  });

  test("restart of the failed work is refused, too", async () => {
    const { node, id } = await busyNode();
    const { refusals } = await ostler.engine.restart(ALICE, { work: { operationId: id } });
    expect(refusals).toMatchObject([{ code: "INVALID_STATE", message: expect.stringContaining(node.name) }]);
  });

  test("machine's own report that it has ended ends the fault; no report and a report of work do not", async () => {
    const { node } = await busyNode();
    await ostler.engine.readPower({ ids: [node.id] });
    expect((await ostler.node(node)).faultKind).toBe("MACHINE_BUSY");
    activities.delete(node.name);
    await ostler.engine.readPower({ ids: [node.id] });
    expect((await ostler.node(node)).faultKind).toBeNull();
    await ostler.operationEnds(await ostler.begin("CLEAN", [node]));
    expect(await ostler.nodeState(node)).toBe("AVAILABLE");

    const mute = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.update_firmware": { fail: "502" } })
      .made();
    const steps = [{ interface: "clean", name: "update_firmware", args: { version: "2.1" } }] as const;
    await ostler.operationEnds(await ostler.begin("CLEAN", [mute], { options: { steps } }));
    await ostler.engine.readPower({ ids: [mute.id] });
    expect((await ostler.node(mute)).faultKind).toBe("MACHINE_BUSY");
    await changeNode(ostler.engine, ALICE, mute.id, { settings: { activity: null } });
    await ostler.engine.readPower({ ids: [mute.id] });
    expect((await ostler.node(mute)).faultKind).toBeNull();
  });

  test("power that differs from what was wanted is not set back", async () => {
    const { node } = await busyNode();
    await ostler.engine.updateSite(ALICE, { correctPower: true });
    await ostler.test.sql`update nodes set wanted_power = 'OFF' where id = ${node.id}`;
    const control = await aFlasher();
    await ostler.test.sql`update nodes set wanted_power = 'OFF' where id = ${control.id}`;
    await using reader = await ostler.another({ started: true, powerSeconds: 0.2 });
    expect(reader).toBeDefined();
    await eventually("the power of the other node is set back", () => touched.get(control.name)?.includes("power OFF"));
    expect(touched.get(node.name)).toBeUndefined();
    await ostler.engine.updateSite(ALICE, { correctPower: false });
  });

  test("change of power that a person forces ends the fault, and switching it on does not", async () => {
    const { node } = await busyNode();
    await ostler.operationEnds(await ostler.begin("POWER", [node], { options: { powerAction: "ON" } }));
    expect((await ostler.node(node)).faultKind).toBe("MACHINE_BUSY");
    await ostler.operationEnds(await ostler.begin("POWER", [node], { options: { powerAction: "OFF", force: true } }));
    expect((await ostler.node(node)).faultKind).toBeNull();
  });

  test("work that a person forces ends the fault when it begins", async () => {
    const { node } = await busyNode();
    const id = await ostler.begin("CLEAN", [node], { options: { force: true } });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.node(node)).toMatchObject({ state: "AVAILABLE", faultKind: null });
  });
});
