/**
 * Requested aborts and stops do not count as failures: they trigger no failure policy, and can prevent one from acting.
 */
import { afterAll, describe, expect, test } from "vitest";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const aHealthyNode = () => ostler.aNode().in("AVAILABLE");
const cleanUps = async (id: string) =>
  (await ostler.runs(id)).filter(({ purpose }) => purpose === "CLEAN_UP").map(({ nodeName }) => nodeName);

describe("abort of a node whose step ignores its signal", () => {
  test("abort that a step ignores fails its node, and the others of its commission go on", async () => {
    const gate = aGate();
    const ignoringGate = aGate();
    const [done, aborted, other] = [
      await aHealthyNode().made(),
      await aHealthyNode()
        .scripted({ "deploy.prepare": { gate: ignoringGate.name, ignoreSignal: true } })
        .made(),
      await aHealthyNode()
        .scripted({ "deploy.configure": { gate: gate.name } })
        .made(),
    ];
    const id = await ostler.begin("COMMISSION", [done, aborted, other]);
    await ostler.nodeBecomes(done, "ACTIVE");
    await Promise.all([gate.arrivals(), ignoringGate.arrivals()]);
    await ostler.engine.abort(ALICE, { work: { names: [aborted.name] } });
    await ostler.nodeBecomes(aborted, "DEPLOY_FAILED");
    gate.open();
    expect(await ostler.operationEnds(id)).toMatchObject({
      state: "PARTIALLY_SUCCEEDED",
      firstFailure: { code: "TIMEOUT", nodeName: aborted.name },
    });
    expect([await ostler.nodeState(done), await ostler.nodeState(other)]).toEqual(["ACTIVE", "ACTIVE"]);
    expect(await cleanUps(id)).toEqual([]);
    ignoringGate.open();
  });

  test("abort that a step ignores leaves the node out of the clean-up, because the step may still be running", async () => {
    const failureGate = aGate();
    const ignoringGate = aGate();
    const [aborted, bad] = [
      await aHealthyNode()
        .scripted({ "deploy.prepare": { gate: ignoringGate.name, ignoreSignal: true } })
        .made(),
      await aHealthyNode()
        .scripted({ "deploy.configure": { gate: failureGate.name, fail: "the disk is full" } })
        .made(),
    ];
    const id = await ostler.begin("COMMISSION", [aborted, bad]);
    await Promise.all([failureGate.arrivals(), ignoringGate.arrivals()]);
    await ostler.engine.abort(ALICE, { work: { names: [aborted.name] } });
    await ostler.nodeBecomes(aborted, "DEPLOY_FAILED");
    failureGate.open();
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await cleanUps(id)).toEqual([bad.name]);
    ignoringGate.open();
  });
});

test("stop while a failure interrupts the other nodes cleans up none of them", async () => {
  const gate = aGate();
  const failureGate = aGate();
  const [done, bad, other] = [
    await aHealthyNode().made(),
    await aHealthyNode()
      .scripted({ "deploy.configure": { gate: failureGate.name, fail: "the disk is full" } })
      .made(),
    await aHealthyNode()
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .made(),
  ];
  const id = await ostler.begin("COMMISSION", [done, bad, other]);
  await ostler.nodeBecomes(done, "ACTIVE");
  await Promise.all([gate.arrivals(), failureGate.arrivals()]);
  failureGate.open();
  await eventually("the failure stops the others", async () => (await ostler.operation(id)).interruptBy === "engine");
  await ostler.engine.stop(ALICE, { work: { operationId: id } });
  gate.open();
  expect(await ostler.operationEnds(id)).toMatchObject({ state: "STOPPED", interruptBy: "alice" });
  expect([await ostler.nodeState(done), await ostler.nodeState(bad), await ostler.nodeState(other)]).toEqual([
    "ACTIVE",
    "DEPLOY_FAILED",
    "STOPPED",
  ]);
  expect(await cleanUps(id)).toEqual([]);
});
