/** An attempt that ends the process which runs it is entered again, but not forever. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestGate, TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { unsound } from "../support/soundness.ts";
import { changeNode } from "../support/change-node.ts";

const FIRMWARE = {
  options: { steps: [{ interface: "clean", name: "update_firmware", args: { version: "2.1" } }] },
} as const;

let ostler: EngineUnderTest;
let trap: TestGate;
beforeEach(async () => {
  trap = aGate();
  ostler = await engineUnderTest({ started: false, isAlone: true, abortCleanUpMs: 60_000 });
});
afterEach(async () => {
  trap.open();
  await ostler[Symbol.asyncDispose]();
});

/**
 * Takes each of the next entries, of which `count` counts those so far, from its engine as if its process had ended.
 * The run is taken over by the next engine that starts.
 */
async function loseEach(times: number, count: () => number): Promise<void> {
  for (let lost = 0; lost < times; lost += 1) {
    const before = count();
    const { database } = await ostler.another({ started: true });
    await eventually("it is entered", () => count() > before);
    // Else it would take the run back: the step that it has lost is canceled, which frees its slot.
    await database.disconnect();
  }
}

/** Kills the process of the next entry. */
async function killInNext(count: () => number): Promise<void> {
  const before = count();
  const victim = await ostler.inAnotherProcess();
  await eventually("it is entered", () => count() > before);
  await victim.kill();
}

async function script(node: TestNode, writeImage: Record<string, unknown>): Promise<void> {
  const settings = { steps: { "deploy.write_image": writeImage } };
  expect(await changeNode(ostler.engine, ALICE, node.id, { settings })).toMatchObject({ refusals: [] });
}

/** Runs the work in another process until the run waits. */
async function waitInAnother(id: string, node: TestNode): Promise<void> {
  await using _ = await ostler.another({ started: true, concurrency: 1 });
  await eventually("it waits", async () => (await ostler.run(id, node)).waitReason === "TIME");
}

const entriesOf = (node: TestNode, step: string) => () => ostler.entered(node).filter((at) => at === step).length;
const abortsOf = (node: TestNode) => () => ostler.journal(node).filter((entry) => entry.abort).length;

describe("step that ends its process", () => {
  test("step that ended three processes was entered again forever: it fails with INTERRUPTED and can be restarted [R-713]", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: trap.name } })
      .made();
    const id = await ostler.begin("DEPLOY", [node], { onFailure: "LEAVE" });
    const entries = entriesOf(node, "deploy.write_image");
    await loseEach(2, entries);
    await killInNext(entries);
    trap.open();
    await ostler.engine.start();
    const { state, firstFailure } = await ostler.operationEnds(id);
    expect({ state, firstFailure }).toMatchObject({
      state: "FAILED",
      firstFailure: { code: "INTERRUPTED", step: "deploy.write_image", retryable: true },
    });
    expect(firstFailure?.message).toMatch(
      /the process that ran it ended 3 times during it\. Find the cause .* restart/,
    );
    expect(entries()).toBe(3);
    expect(await ostler.nodeState(node)).toBe("DEPLOY_FAILED");
    const { operationId } = await ostler.engine.restart(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(operationId ?? "")).state).toBe("SUCCEEDED");
    expect(await unsound(ostler)).toEqual([]);
  });

  test("step that ended two processes, waited, and ended two more has an outcome in between: it goes on [R-713]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    await script(node, { gate: trap.name });
    const id = await ostler.begin("DEPLOY", [node], { onFailure: "LEAVE" });
    await loseEach(2, entriesOf(node, "deploy.write_image"));
    await script(node, { waitSeconds: 60 });
    await waitInAnother(id, node);
    await script(node, { gate: trap.name });
    await ostler.waitIsOver(node);
    await loseEach(1, entriesOf(node, "deploy.write_image"));
    await script(node, {});
    await ostler.engine.start();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await unsound(ostler)).toEqual([]);
  });

  test("step that left a memo ended three processes: it fails with INTERRUPTED [R-713]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    await script(node, { waitSeconds: 60 });
    const id = await ostler.begin("DEPLOY", [node], { onFailure: "LEAVE" });
    await waitInAnother(id, node);
    await script(node, { gate: trap.name });
    await ostler.waitIsOver(node);
    await loseEach(3, entriesOf(node, "deploy.write_image"));
    await ostler.engine.start();
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "FAILED", firstFailure: { code: "INTERRUPTED" } });
    expect(entriesOf(node, "deploy.write_image")()).toBe(4);
    expect(await unsound(ostler)).toEqual([]);
  });

  test("verification of a step ended three processes: the step fails with INTERRUPTED [R-713]", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.update_firmware.verify": { gate: trap.name } })
      .made();
    const id = await ostler.begin("CLEAN", [node], FIRMWARE);
    await loseEach(3, () => ostler.journal(node).filter((entry) => entry.verify).length);
    await ostler.engine.start();
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "FAILED", firstFailure: { code: "INTERRUPTED" } });
    expect(entriesOf(node, "clean.update_firmware")()).toBe(1);
    expect(await unsound(ostler)).toEqual([]);
  });
});

describe("abort clean-up that ends its process", () => {
  test("abort whose clean-up ended three processes was repeated forever: it ends ABORTED without a further call [R-714]", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: trap.name }, "driver.abort": { gate: trap.name } })
      .made();
    const id = await ostler.begin("DEPLOY", [node], { onFailure: "LEAVE" });
    await killInNext(entriesOf(node, "deploy.write_image"));
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await loseEach(3, abortsOf(node));
    await ostler.engine.start();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect((await ostler.run(id, node)).failure?.message).toMatch(
      /could not be undone: the process that undid it ended 3 times/,
    );
    expect(abortsOf(node)()).toBe(3);
    expect((await ostler.run(id, node)).leftAs).toMatchObject({ power: "UNKNOWN" });
    await script(node, {});
    const { operationId } = await ostler.engine.restart(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(operationId ?? "")).state).toBe("SUCCEEDED");
    expect(await unsound(ostler)).toEqual([]);
  });

  test("failure whose clean-up ended three processes keeps the failure of the step [R-714]", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { fail: "the disk is full" }, "driver.abort": { gate: trap.name } })
      .made();
    const id = await ostler.begin("DEPLOY", [node], { onFailure: "LEAVE" });
    await loseEach(3, abortsOf(node));
    await ostler.engine.start();
    const { state, firstFailure } = await ostler.operationEnds(id);
    expect({ state, firstFailure }).toMatchObject({ state: "FAILED", firstFailure: { step: "deploy.write_image" } });
    expect(firstFailure?.message).toMatch(/the disk is full/);
    expect((await ostler.run(id, node)).leftAs?.tearDownError).toMatch(/ended 3 times/);
    expect(abortsOf(node)()).toBe(3);
    expect(await unsound(ostler)).toEqual([]);
  });
});

test("step that four processes released when they were shut down goes on: a release is not a recovery [R-713]", async () => {
  const gate = aGate();
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.write_image": { gate: gate.name } })
    .made();
  const id = await ostler.begin("DEPLOY", [node], { onFailure: "LEAVE" });
  for (let count = 1; count <= 4; count += 1) {
    const process = await ostler.another({ started: true, handsBack: true });
    await eventually("it is entered", () => entriesOf(node, "deploy.write_image")() === count);
    await process[Symbol.asyncDispose]();
  }
  gate.open();
  await ostler.engine.start();
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  expect(await unsound(ostler)).toEqual([]);
});
