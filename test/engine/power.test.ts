/** Power: changed on request, softly or hard, never under a run; read in the background, and corrected only when told to. */
import { afterAll, describe, expect, test } from "vitest";
import type { PowerAction, PowerState } from "../../src/drivers/driver.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import type { AnyCall } from "../support/driver.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";

/** Machines whose power changes behind Ostler's back as well, by name of node. */
interface Machine {
  power: PowerState;
  /** What it was asked for. */
  readonly calls: PowerAction[];
  reads: number;
  /** The system takes no notice of a soft power off: until the signal, or by a time-out of the driver's own. */
  deafToSoftOff?: "until the signal" | "by the driver's time-out" | "for good";
  /** What its BMC says in place of an answer. */
  trouble?: Error;
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
  clean: stepsOf(aStep("soak", "clean", async ({ memo, power }) => {
    if (memo === "soaked") return { kind: "done" };
    await power.set("OFF");
    return { kind: "wait", seconds: 600, memo: "soaked" };
  })),
});
const power = {
  async read({ node }: AnyCall) {
    const at = machine(node);
    at.reads += 1;
    if (at.trouble) throw at.trouble;
    return at.power;
  },
  async set({ node, signal }: AnyCall, action: PowerAction) {
    const at = machine(node);
    at.calls.push(action);
    if (action === "SOFT_OFF" && at.deafToSoftOff === "by the driver's time-out") throw driverError("the machine is still on", "TIMEOUT");
    if (action === "SOFT_OFF" && at.deafToSoftOff === "for good") throw driverError("this BMC knows no soft power off", "REFUSED");
    if (action === "SOFT_OFF" && at.deafToSoftOff) await new Promise<never>((_, leave) => signal.addEventListener("abort", () => leave(signal.reason as Error), { once: true }));
    at.power = action === "ON" || action === "REBOOT" ? "ON" : "OFF";
  },
};

const ostler = await engineUnderTest({ drivers: [{ ...lab, power } as unknown as typeof lab] });
afterAll(() => ostler[Symbol.asyncDispose]());

const aMachine = async (state: "ACTIVE" | "AVAILABLE" = "ACTIVE") => {
  const node = await ostler.aNode().in(state).with("lab").made();
  return { node, at: machine(node) };
};

const change = async (node: TestNode, powerAction: PowerAction, softTimeoutSeconds?: number) => {
  const id = await ostler.begin("POWER", [node], { options: { powerAction, ...(softTimeoutSeconds !== undefined && { softTimeoutSeconds }) } });
  const operation = await ostler.operationEnds(id);
  const [step] = await ostler.steps(await ostler.run(id, node));
  return { state: operation.state, failure: operation.firstFailure, output: step?.attempts[0]?.output };
};

describe("a soft power off", () => {
  test("of a system that shuts down is no cut", async () => {
    const { node, at } = await aMachine();
    expect(await change(node, "SOFT_OFF")).toEqual({ state: "SUCCEEDED", failure: null, output: null });
    expect(at.calls).toEqual(["SOFT_OFF"]);
  });

  test.each(["until the signal", "by the driver's time-out"] as const)("that the system ignores (%s) ends in a cut, and says so", async (deafToSoftOff) => {
    const { node, at } = await aMachine();
    at.deafToSoftOff = deafToSoftOff;
    expect(await change(node, "SOFT_OFF", 1)).toEqual({ state: "SUCCEEDED", failure: null, output: { forced: true } });
    expect(at.calls).toEqual(["SOFT_OFF", "OFF"]);
    expect(await ostler.node(node)).toMatchObject({ powerState: "OFF", wantedPower: "OFF" });
  });

  test("that the BMC refuses fails, and nothing is cut", async () => {
    const { node, at } = await aMachine();
    at.deafToSoftOff = "for good";
    expect(await change(node, "SOFT_OFF", 1)).toMatchObject({ state: "FAILED", failure: { code: "BACKEND_FAILED", message: expect.stringContaining("knows no soft power off") } });
    expect(at).toMatchObject({ calls: ["SOFT_OFF"], power: "ON" });
  });

  test("gives the system ten minutes unless told otherwise, and the cut another one", async () => {
    const { node } = await aMachine();
    const timeOf = async (options: { powerAction: "SOFT_OFF"; softTimeoutSeconds?: number }) => (await ostler.submit("POWER", [node], { options, dryRun: true })).results[0]?.plan?.steps.map(({ args, timeoutSeconds }) => [args, timeoutSeconds]);
    expect(await timeOf({ powerAction: "SOFT_OFF" })).toEqual([[{ timeoutSeconds: 600 }, 660]]);
    expect(await timeOf({ powerAction: "SOFT_OFF", softTimeoutSeconds: 30 })).toEqual([[{ timeoutSeconds: 30 }, 90]]);
  });

  test("can be aborted while the system takes its time, and then nothing is cut", async () => {
    const { node, at } = await aMachine();
    at.deafToSoftOff = "until the signal";
    const id = await ostler.begin("POWER", [node], { options: { powerAction: "SOFT_OFF" } });
    await eventually("the system was asked to shut down", () => at.calls.length > 0);
    expect((await ostler.engine.abort(ALICE, { work: { operationId: id } })).results).toMatchObject([{ accepted: true, effect: "NOW" }]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(at).toMatchObject({ calls: ["SOFT_OFF"], power: "ON" });
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", wantedPower: null });
  });
});

describe("the power that is wanted", () => {
  test("is what the last change through Ostler left, be it there already or not", async () => {
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

  test("stays when a change fails", async () => {
    const { node, at } = await aMachine();
    await change(node, "ON");
    at.trouble = new Error("no answer");
    expect((await change(node, "OFF")).state).toBe("FAILED");
    expect((await ostler.node(node)).wantedPower).toBe("ON");
  });

  test("is noted of a step that sets it and then waits", async () => {
    const { node } = await aMachine("AVAILABLE");
    const id = await ostler.begin("CLEAN", [node]);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    expect(await ostler.node(node)).toMatchObject({ powerState: "OFF", wantedPower: "OFF" });
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
  });

  test("is noted of a deployment, and of the abort of one that cut it", async () => {
    const gate = aGate();
    const node = await ostler.aNode().in("AVAILABLE").scripted({ "deploy.configure": { gate: gate.name, ignoreSignal: true } }).made();
    const id = await ostler.begin("DEPLOY", [node]);
    await gate.arrivals();
    expect((await ostler.node(node)).wantedPower).toBe("ON");
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    gate.open();
    await ostler.operationEnds(id);
    expect(await ostler.node(node)).toMatchObject({ powerState: "OFF", wantedPower: "OFF" });
  });
});
