/** What somebody asks for is no failure of the fleet's: it sets no failure policy in motion, and may keep one from its work. */
import { afterAll, describe, expect, test } from "vitest";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const sound = () => ostler.aNode().in("AVAILABLE");
const cleanUps = async (id: string) =>
  (await ostler.runs(id)).filter(({ purpose }) => purpose === "CLEAN_UP").map(({ nodeName }) => nodeName);

describe("a node that is deaf to its abort", () => {
  test("fails, and the others of its commission go on", async () => {
    const gate = aGate();
    const deaf = aGate();
    const [done, aborted, other] = [
      await sound().made(),
      await sound()
        .scripted({ "deploy.prepare": { gate: deaf.name, ignoreSignal: true } })
        .made(),
      await sound()
        .scripted({ "deploy.configure": { gate: gate.name } })
        .made(),
    ];
    const id = await ostler.begin("COMMISSION", [done, aborted, other]);
    await ostler.nodeBecomes(done, "ACTIVE");
    await Promise.all([gate.arrivals(), deaf.arrivals()]);
    await ostler.engine.abort(ALICE, { work: { names: [aborted.name] } });
    await ostler.nodeBecomes(aborted, "DEPLOY_FAILED");
    gate.open();
    expect(await ostler.operationEnds(id)).toMatchObject({
      state: "PARTIALLY_SUCCEEDED",
      firstFailure: { code: "TIMEOUT", nodeName: aborted.name },
    });
    expect([await ostler.nodeState(done), await ostler.nodeState(other)]).toEqual(["ACTIVE", "ACTIVE"]);
    expect(await cleanUps(id)).toEqual([]);
    deaf.open();
  });

  test("is not cleaned up after another's failure either: its step may still be at work", async () => {
    const misfortune = aGate();
    const deaf = aGate();
    const [aborted, bad] = [
      await sound()
        .scripted({ "deploy.prepare": { gate: deaf.name, ignoreSignal: true } })
        .made(),
      await sound()
        .scripted({ "deploy.configure": { gate: misfortune.name, fail: "the disk is full" } })
        .made(),
    ];
    const id = await ostler.begin("COMMISSION", [aborted, bad]);
    await Promise.all([misfortune.arrivals(), deaf.arrivals()]);
    await ostler.engine.abort(ALICE, { work: { names: [aborted.name] } });
    await ostler.nodeBecomes(aborted, "DEPLOY_FAILED");
    misfortune.open();
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await cleanUps(id)).toEqual([bad.name]);
    deaf.open();
  });
});

test("a stop that comes while a failure stops the others keeps what stands: nothing is cleaned up", async () => {
  const gate = aGate();
  const misfortune = aGate();
  const [done, bad, other] = [
    await sound().made(),
    await sound()
      .scripted({ "deploy.configure": { gate: misfortune.name, fail: "the disk is full" } })
      .made(),
    await sound()
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .made(),
  ];
  const id = await ostler.begin("COMMISSION", [done, bad, other]);
  await ostler.nodeBecomes(done, "ACTIVE");
  await Promise.all([gate.arrivals(), misfortune.arrivals()]);
  misfortune.open();
  await eventually("the failure stops the others", async () => (await ostler.operation(id)).wishBy === "engine");
  await ostler.engine.stop(ALICE, { work: { operationId: id } });
  gate.open();
  expect(await ostler.operationEnds(id)).toMatchObject({ state: "STOPPED", wishBy: "alice" });
  expect([await ostler.nodeState(done), await ostler.nodeState(bad), await ostler.nodeState(other)]).toEqual([
    "ACTIVE",
    "DEPLOY_FAILED",
    "STOPPED",
  ]);
  expect(await cleanUps(id)).toEqual([]);
});
