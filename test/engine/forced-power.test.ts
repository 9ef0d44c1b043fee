/** A change of power that is forced while a step of other work waits. */
import { afterAll, describe, expect, test } from "vitest";
import type { PowerInterface, StepResult } from "../../src/drivers/driver.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";

/** Changes of power, by node, and a gate that each of them passes. */
const calls = new Map<string, string[]>();
let gate: Promise<void> = Promise.resolve();
/** Entries of the step that waits, by node: what it is given, and what it answers. */
const entries = new Map<string, unknown[]>();
let answer: (entry: number) => StepResult = () => ({ kind: "done" });

/** The path that the newest entry was given, by node. */
const paths = new Map<string, string>();

const power: PowerInterface<never> = {
  read: async () => "ON",
  async set({ node }, action) {
    calls.set(node.name, [...(calls.get(node.name) ?? []), action]);
    await gate;
  },
};
const driver = aDriver("bmc", {
  deploy: stepsOf({
    ...aStep("wait", "deploy", async () => ({ kind: "done" })),
    reaches: "PROVISIONED",
    run: async ({ node, callback, callbackPath }) => {
      paths.set(node.name, callbackPath);
      const seen = [...(entries.get(node.name) ?? []), callback];
      entries.set(node.name, seen);
      return callback === null ? answer(seen.length) : { kind: "done" };
    },
  }),
  clean: stepsOf({
    ...aStep("flash", "clean", async () => ({ kind: "wait", callback: true, seconds: 600, memo: {} })),
    priority: 10,
    interruptible: "NEVER",
    touches: ["FIRMWARE"],
  }),
});
const ostler = await engineUnderTest({ drivers: [{ ...driver, power }] });
afterAll(() => ostler[Symbol.asyncDispose]());

const CALLBACK = (): StepResult => ({ kind: "wait", callback: true, seconds: 600, memo: {} });

async function waitingNode(result: () => StepResult = CALLBACK) {
  answer = (entry) => (entry === 1 ? result() : { kind: "done" });
  const node = await ostler.aNode().with("bmc").in("AVAILABLE").made();
  const id = await ostler.begin("DEPLOY", [node]);
  await ostler.nodeBecomes(node, "DEPLOY_WAIT");
  return { node, id };
}

const force = (node: TestNode, more = {}) =>
  ostler.submit("POWER", [node], { options: { powerAction: "REBOOT", force: true }, reason: "hangs", ...more });

const runOf = async (id: string, node: TestNode) => {
  const { waitReason, state, forcedPower, generation, wakeAt } = await ostler.run(id, node);
  return { waitReason, state, forcedPower, generation, wakeAt };
};
const carriedOut = (id: string, node: TestNode) =>
  eventually("the change is carried out", async () => {
    const run = await runOf(id, node);
    return run.forcedPower === null && run.state === "WAITING";
  });

const reports = (node: TestNode) =>
  ostler.engine.receiveCallback((paths.get(node.name) ?? "").split("/").at(-1) ?? "", { up: true });

describe("setPower with force, while a step waits", () => {
  test("changes the power, is an event of the node, and leaves the wait and its callback as they are; a repeated request has the same results [R-814]", async () => {
    const { node, id } = await waitingNode();
    const before = await runOf(id, node);
    const { results, refusals, operationId } = await force(node, { idempotencyKey: node.name });
    expect([refusals, results[0]?.accepted, results[0]?.runId]).toEqual([[], true, (await ostler.run(id, node)).id]);
    expect((await ostler.operationEnds(operationId ?? "")).state).toBe("SUCCEEDED");
    await carriedOut(id, node);
    expect(calls.get(node.name)).toEqual(["REBOOT"]);
    expect(await runOf(id, node)).toEqual(before);
    expect((await ostler.transitions(node)).filter(({ event }) => event === "power_forced")).toMatchObject([
      { fromState: "DEPLOY_WAIT", toState: "DEPLOY_WAIT", actor: ALICE.actor, reason: "hangs", step: "power.reboot" },
    ]);
    // A repeated request is the same one.
    const repeated = await force(node, { idempotencyKey: node.name });
    expect(repeated).toMatchObject({ operationId, replayed: true });
    expect(repeated.results).toMatchObject([{ nodeId: node.id, accepted: true, runId: results[0]?.runId }]);
    expect(await reports(node)).toBe("TAKEN");
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect([calls.get(node.name), entries.get(node.name)]).toEqual([["REBOOT"], [null, { up: true }]]);
  });

  test("leaves a wait for a time at its end [R-814]", async () => {
    const { node, id } = await waitingNode(() => ({ kind: "wait", seconds: 600, memo: {} }));
    const before = await runOf(id, node);
    expect((await force(node)).refusals).toEqual([]);
    await carriedOut(id, node);
    const { wakeAt, ...after } = await runOf(id, node);
    expect({ ...after, wakeAt: before.wakeAt }).toEqual(before);
    expect(Math.abs((wakeAt?.getTime() ?? 0) - (before.wakeAt?.getTime() ?? 0))).toBeLessThan(50);
    expect(entries.get(node.name)).toEqual([null]);
  });

  test("holds a callback that comes meanwhile, and an abort ends the work [R-814]", async () => {
    const called = await waitingNode();
    const aborted = await waitingNode();
    const held = Promise.withResolvers<void>();
    gate = held.promise;
    for (const { node } of [called, aborted]) await force(node);
    await eventually("both are at it", () => [called, aborted].every(({ node }) => calls.has(node.name)));
    expect(await reports(called.node)).toBe("TAKEN");
    const stopped = ostler.engine.abort(ALICE, { work: { operationId: aborted.id } });
    expect(entries.get(called.node.name)).toEqual([null]);
    expect((await force(called.node)).refusals).toMatchObject([{ code: "BUSY" }]);
    held.resolve();
    await stopped;
    expect((await ostler.operationEnds(called.id)).state).toBe("SUCCEEDED");
    expect((await ostler.operationEnds(aborted.id)).state).toBe("ABORTED");
  });

  test.each([
    ["OFF", ["OFF", "OFF"]],
    ["REBOOT", ["REBOOT"]],
  ] as const)(
    "%s is repeated by the replica that takes over only if it may be done twice [R-814]",
    async (powerAction, done) => {
      const { node, id } = await waitingNode();
      const before = await runOf(id, node);
      const died = Promise.withResolvers<void>();
      gate = died.promise;
      await force(node, { options: { powerAction, force: true } });
      await eventually("it has begun", () => calls.has(node.name));
      gate = Promise.resolve();
      await using _ = await ostler.another({ started: true });
      const { fence } = await ostler.run(id, node);
      await eventually("it is claimed again", async () => {
        await ostler.leasesRunOut();
        return (await ostler.run(id, node)).fence > fence;
      });
      died.resolve();
      await carriedOut(id, node);
      expect([calls.get(node.name), await runOf(id, node)]).toEqual([done, before]);
    },
  );

  test("is refused without force, naming it, and for a step that must not be cut [R-815]", async () => {
    const { node } = await waitingNode();
    const { refusals } = await force(node, { options: { powerAction: "REBOOT" } });
    expect(refusals).toMatchObject([{ code: "BUSY", message: expect.stringContaining("force: true") }]);
    const flashed = await ostler.aNode().with("bmc").in("AVAILABLE").made();
    await ostler.begin("CLEAN", [flashed]);
    await ostler.nodeBecomes(flashed, "CLEAN_WAIT");
    expect((await force(flashed)).refusals).toMatchObject([{ code: "NOT_INTERRUPTIBLE", step: "clean.flash" }]);
    expect((await force(flashed, { options: { powerAction: "ON", force: true } })).refusals).toEqual([]);
  });

  test("of a request with an idle node has a run for that one alone [R-814]", async () => {
    const { node } = await waitingNode();
    const idle = await ostler.aNode().with("bmc").in("AVAILABLE").made();
    const { operationId, refusals } = await ostler.submit("POWER", [node, idle], {
      options: { powerAction: "REBOOT", force: true },
    });
    expect(refusals).toEqual([]);
    expect((await ostler.operationEnds(operationId ?? "")).state).toBe("SUCCEEDED");
    expect((await ostler.runs(operationId ?? "")).map(({ nodeName }) => nodeName)).toEqual([idle.name]);
    await eventually("both were changed", () => [node, idle].every(({ name }) => calls.get(name)?.length === 1));
  });
});
