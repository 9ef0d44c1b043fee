/**
 * Sweeps over every step of a commission: it fails there, is aborted there, stopped there, its process is killed there,
 * its owner is taken for dead there and wakes up. Each sweep has one node for each step, all in one operation.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { unsound } from "../support/soundness.ts";

/** The steps of a commission in order; how each is scripted, and where a node is left that goes no further. */
const STEPS = [
  { step: "power.verify", script: "power.read", failed: "ENROLLED", boundary: false },
  { step: "inspect.collect_inventory", script: "inspect.collect_inventory", failed: "INSPECT_FAILED", boundary: false },
  { step: "clean.erase_metadata", script: "clean.erase_metadata", failed: "CLEAN_FAILED", boundary: true },
  { step: "clean.erase_disks", script: "clean.erase_disks", failed: "CLEAN_FAILED", boundary: false },
  { step: "deploy.prepare", script: "deploy.prepare", failed: "DEPLOY_FAILED", boundary: false },
  { step: "deploy.write_image", script: "deploy.write_image", failed: "DEPLOY_FAILED", boundary: false },
  { step: "deploy.boot_system", script: "deploy.boot_system", failed: "DEPLOY_FAILED", boundary: false },
  { step: "deploy.configure", script: "deploy.configure", failed: "DEPLOY_FAILED", boundary: true },
] as const;
const LAST = STEPS.length - 1;
/** With this step the system stands; what follows it needs the machine to run. */
const INSTALLED = STEPS.findIndex(({ step }) => step === "deploy.write_image");

let ostler: EngineUnderTest;
const using = (setup?: Parameters<typeof engineUnderTest>[0]) => {
  beforeEach(async () => {
    ostler = await engineUnderTest(setup);
  });
  afterEach(() => ostler[Symbol.asyncDispose]());
};

/** Node k of the fleet does at step k what the script says. */
async function fleet(script: (index: number) => Record<string, unknown>): Promise<TestNode[]> {
  return Promise.all(
    STEPS.map((at, index) =>
      ostler
        .aNode()
        .scripted({ [at.script]: script(index) })
        .made(),
    ),
  );
}

const begin = (nodes: readonly TestNode[]) => ostler.begin("COMMISSION", nodes, { onFailure: "LEAVE" });

/** States of the attempts at each step, as in ["SUCCEEDED", "FAILED", "", …]. */
async function progress(id: string, node: TestNode): Promise<string[]> {
  return (await ostler.steps(await ostler.run(id, node))).map(({ attempts }) =>
    attempts.map(({ state }) => state).join(" "),
  );
}

const upTo = (index: number, at: string) =>
  STEPS.map((_, step) => (step < index ? "SUCCEEDED" : step === index ? at : ""));

/** Each node is inside its step. */
async function allInside(id: string): Promise<void> {
  await eventually("every node holds in its step", async () => {
    const runs = await ostler.runs(id);
    const entered = await Promise.all(
      runs.map(async (run) => (await ostler.steps(run))[run.ordinal]?.attempts.at(-1)?.state === "RUNNING"),
    );
    return entered.every(Boolean);
  });
}

describe("at every step of a commission", () => {
  using();

  test("a failure fails the node there, keeps what was done, and begins nothing more", async () => {
    const nodes = await fleet(() => ({ fail: "no luck" }));
    const id = await begin(nodes);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    for (const [index, node] of nodes.entries()) {
      expect(await progress(id, node), node.name).toEqual(upTo(index, "FAILED"));
      expect(await ostler.node(node)).toMatchObject({
        state: STEPS[index]?.failed,
        lastError: { step: STEPS[index]?.step },
      });
      expect(await ostler.run(id, node)).toMatchObject({
        state: "FAILED",
        failure: { step: STEPS[index]?.step, nodeId: node.id },
      });
    }
    expect(await unsound(ostler)).toEqual([]);
  });

  test("a failure that is cleaned up leaves the node AVAILABLE, or where it began", async () => {
    const nodes = await fleet(() => ({ failures: 1, retryable: false }));
    const id = await ostler.begin("COMMISSION", nodes, { onFailure: "CLEAN_UP_FAILED" });
    await ostler.operationEnds(id);
    // A script of power.read counts no failures of a clean-up: there is none before the node is verified.
    expect(await Promise.all(nodes.map((node) => ostler.nodeState(node)))).toEqual([
      "ENROLLED",
      ...Array.from({ length: LAST }, () => "AVAILABLE"),
    ]);
    expect(await unsound(ostler)).toEqual([]);
  });

  test("an abort ends the node there, or after a step that must not be cut", async () => {
    const gates = STEPS.map(() => aGate());
    const nodes = await fleet((index) => ({ gate: gates[index]?.name }));
    const id = await begin(nodes);
    await allInside(id);
    const { results } = await ostler.engine.abort(ALICE, { work: { operationId: id } });
    expect(results.map(({ effect }) => effect)).toEqual(STEPS.map(({ boundary }) => (boundary ? "PENDING" : "NOW")));
    for (const [index, at] of STEPS.entries()) if (at.boundary) gates[index]?.open();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    for (const [index, node] of nodes.entries()) {
      expect(await progress(id, node), node.name).toEqual(
        upTo(index, STEPS[index]?.boundary ? "SUCCEEDED" : "ABORTED"),
      );
      expect(await ostler.nodeState(node), node.name).toBe(STEPS[index]?.failed);
      expect((await ostler.run(id, node)).state).toBe("ABORTED");
    }
    expect(await unsound(ostler)).toEqual([]);
  });

  test("a stop lets the step end and leaves the node STOPPED; a restart brings it to ACTIVE and installs nothing twice [R-091]", async () => {
    const gates = STEPS.map(() => aGate());
    const nodes = await fleet((index) => ({ gate: gates[index]?.name }));
    const id = await begin(nodes);
    await allInside(id);
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    for (const gate of gates) gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    for (const [index, node] of nodes.entries()) {
      expect(await progress(id, node), node.name).toEqual(upTo(index, "SUCCEEDED"));
      expect(await ostler.nodeState(node), node.name).toBe(index === LAST ? "ACTIVE" : "STOPPED");
    }
    expect(await unsound(ostler)).toEqual([]);
    const again = await ostler.engine.restart(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
    for (const node of nodes)
      expect(
        ostler.entered(node).filter((step) => step === "deploy.write_image"),
        node.name,
      ).toHaveLength(1);
    expect(Object.values(await ostler.nodeStates())).toEqual(STEPS.map(() => "ACTIVE"));
    expect(await unsound(ostler)).toEqual([]);
  });

  test("an abort and a restart from the unfinished step enter each step that succeeded once, but for what needs the machine that the abort switched off [R-102]", async () => {
    const gates = STEPS.map(() => aGate());
    const nodes = await fleet((index) => ({ gate: gates[index]?.name }));
    const id = await begin(nodes);
    await allInside(id);
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    for (const [index, at] of STEPS.entries()) if (at.boundary) gates[index]?.open();
    await ostler.operationEnds(id);
    for (const gate of gates) gate.open();
    const again = await ostler.engine.restart(ALICE, { work: { operationId: id }, from: "UNFINISHED_STEP" });
    expect(again.refusals).toEqual([]);
    expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
    for (const [index, node] of nodes.entries()) {
      const times = Map.groupBy(ostler.entered(node), (step) => step);
      const cut = (step: number) => step === index && !STEPS[step]?.boundary;
      const needsPower = (step: number) => index > INSTALLED && step > INSTALLED && step <= index;
      expect(
        STEPS.slice(1).map(({ step }) => times.get(step)?.length),
        node.name,
      ).toEqual(STEPS.slice(1).map((_, step) => (cut(step + 1) || needsPower(step + 1) ? 2 : 1)));
    }
    expect(Object.values(await ostler.nodeStates())).toEqual(STEPS.map(() => "ACTIVE"));
    expect(await unsound(ostler)).toEqual([]);
  });
});

describe("when the process is killed", () => {
  using({ started: false });

  test("inside every step, another process enters each of them again and goes on to the end [R-132, R-133, R-135]", async () => {
    const gates = STEPS.map(() => aGate());
    // Gates are a process's own: in the other one they stay shut, here they are open.
    for (const gate of gates) gate.open();
    const nodes = await fleet((index) => ({ gate: gates[index]?.name }));
    const parked = await ostler
      .aNode()
      .scripted({ "deploy.boot_system": { waitSeconds: 2 } })
      .made();
    const victim = await ostler.inAnotherProcess();
    const id = await begin(nodes);
    const waiting = await begin([parked]);
    await allInside(id);
    await ostler.nodeBecomes(parked, "DEPLOY_WAIT");
    await victim.kill();
    expect(await unsound(ostler)).toEqual([]);

    await ostler.leasesRunOut();
    await ostler.engine.start();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect((await ostler.operationEnds(waiting)).state).toBe("SUCCEEDED");
    for (const [index, node] of nodes.entries()) {
      const steps = await ostler.steps(await ostler.run(id, node));
      expect(
        steps.map(({ attempts }) => attempts.map(({ entries }) => entries)),
        node.name,
      ).toEqual(STEPS.map((_, step) => [step === index ? 2 : 1]));
      const recoveries = (await ostler.transitions(node)).filter(({ event }) => event === "recover");
      expect(recoveries, node.name).toMatchObject([{ step: STEPS[index]?.step, actor: "engine" }]);
    }
    expect((await ostler.story(parked)).filter((line) => line.startsWith("recover"))).toEqual([]);
    expect(Object.values(await ostler.nodeStates())).toEqual([...STEPS, parked].map(() => "ACTIVE"));
    expect(await unsound(ostler)).toEqual([]);
  });

  test("inside a step that must not be run twice, it fails with INTERRUPTED and can be restarted [R-105, R-134]", async () => {
    const gate = aGate();
    gate.open();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.update_firmware": { gate: gate.name } })
      .made();
    const victim = await ostler.inAnotherProcess();
    const id = await ostler.begin("CLEAN", [node], {
      options: { steps: [{ interface: "clean", name: "update_firmware", args: { version: "2.1" } }] },
    });
    await eventually("the step is entered", () => ostler.entered(node).length === 1);
    await victim.kill();
    await ostler.leasesRunOut();
    await ostler.engine.start();
    expect(await ostler.operationEnds(id)).toMatchObject({
      state: "FAILED",
      firstFailure: { code: "INTERRUPTED", step: "clean.update_firmware", retryable: true },
    });
    expect(ostler.entered(node)).toHaveLength(1);
    expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
    expect(
      (
        await ostler.operationEnds(
          (await ostler.engine.restart(ALICE, { work: { operationId: id } })).operationId ?? "",
        )
      ).state,
    ).toBe("SUCCEEDED");
    expect(await unsound(ostler)).toEqual([]);
  });

  test("in the middle of an abort, another process carries it out", async () => {
    const [step, tearDown] = [aGate(), aGate()];
    tearDown.open();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: step.name }, "driver.abort": { gate: tearDown.name } })
      .made();
    const victim = await ostler.inAnotherProcess();
    const id = await ostler.begin("DEPLOY", [node]);
    await eventually("the step is entered", () => ostler.entered(node).includes("deploy.write_image"));
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await eventually("the tear-down has begun", () => ostler.journal(node).some((entry) => entry.abort));
    await victim.kill();
    await ostler.leasesRunOut();
    await ostler.engine.start();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(ostler.entered(node).filter((entered) => entered === "deploy.write_image")).toHaveLength(1);
    expect(await ostler.nodeState(node)).toBe("DEPLOY_FAILED");
    expect(await unsound(ostler)).toEqual([]);
  });

  test("at any moment of a busy day, nothing is lost and nothing hangs [R-131]", async () => {
    const nodes = await ostler.aNode().with("fake", { delayMs: 4 }).times(30);
    const id = await ostler.begin("COMMISSION", nodes, { maxParallel: 20, onFailure: "LEAVE" });
    for (const entries of [40, 120]) {
      const victim = await ostler.inAnotherProcess();
      await eventually(`${entries} steps are entered`, () => ostler.entriesOfSteps() >= entries);
      await victim.kill();
      await ostler.leasesRunOut();
      expect(await unsound(ostler)).toEqual([]);
    }
    await ostler.engine.start();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(Object.values(await ostler.nodeStates())).toEqual(nodes.map(() => "ACTIVE"));
    expect(await unsound(ostler)).toEqual([]);
  });
});

describe("an owner that was taken for dead", () => {
  using({ started: false });

  test("and wakes up in any step finds itself fenced off, and writes nothing [R-137]", async () => {
    const gates = STEPS.map(() => aGate());
    const end = aGate();
    const nodes = await fleet((index) => ({ gate: gates[index]?.name, ignoreSignal: true }));
    // As many runs as it has room for, so that it does not take its own work over.
    const sleeper = await ostler.another({ started: true, concurrency: STEPS.length, abortGraceMs: 60_000 });
    const id = await begin(nodes);
    await allInside(id);
    for (const node of nodes)
      await ostler.engine.updateNode(ALICE, node.id, {
        settings: { steps: { "deploy.configure": { gate: end.name } } },
      });
    await ostler.engine.start();
    await eventually("every run has a new owner", async () => {
      await ostler.leasesRunOut("first owners");
      return (await ostler.runs(id)).every(({ fence }) => fence > 1);
    });
    await end.arrivals(nodes.length);
    const before = await ostler.dump();
    for (const gate of gates) gate.open();
    await sleeper[Symbol.asyncDispose]();
    expect(await ostler.changesSince(before)).toEqual([]);
    end.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(Object.values(await ostler.nodeStates())).toEqual(STEPS.map(() => "ACTIVE"));
    expect(await unsound(ostler)).toEqual([]);
  });
});

test("every step of a commission is swept", async () => {
  await using lab = await engineUnderTest();
  const node = await lab.aNode().made();
  const answer = await lab.submit("COMMISSION", [node], { dryRun: true });
  expect(answer.results[0]?.plan?.steps.map((step) => `${step.interface}.${step.name}`)).toEqual(
    STEPS.map(({ step }) => step),
  );
});
