/**
 * Sweeps over every step of a commission: a failure, an abort, a stop and a process death at the step, and an owner
 * that loses its lease there and continues later. Each sweep has one node per step, all in one operation.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { fakeSteps } from "../support/fake-steps.ts";
import { unsound } from "../support/soundness.ts";
import { changeNode } from "../support/change-node.ts";

/** The state in which a node is left by a failure in a step of this part. */
const FAILED: Readonly<Record<string, string>> = {
  power: "ENROLLED",
  inspect: "INSPECT_FAILED",
  clean: "CLEAN_FAILED",
  deploy: "DEPLOY_FAILED",
};
const AT_BOUNDARY: ReadonlySet<string> = new Set(["clean.erase_metadata", "deploy.configure"]);
/** The steps of a commission in order, how each is scripted, and the state in which a node is left there. */
const STEPS = fakeSteps("verify", "inspect", "clean", "deploy").map((step) => ({
  step,
  script: step === "power.verify" ? "power.read" : step,
  failed: FAILED[step.split(".")[0] ?? ""],
  boundary: AT_BOUNDARY.has(step),
}));
const LAST = STEPS.length - 1;
/** After this step the system is installed; later steps need the machine to run. */
const INSTALLED = STEPS.findIndex(({ step }) => step === "deploy.write_image");

let ostler: EngineUnderTest;
const using = (setup?: Parameters<typeof engineUnderTest>[0]) => {
  beforeEach(async () => {
    ostler = await engineUnderTest(setup);
  });
  afterEach(() => ostler[Symbol.asyncDispose]());
};

/** Node k of the fleet runs `script(k)` at step k. */
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

/** Waits until each node runs its step. */
async function allInside(id: string): Promise<void> {
  await eventually("every node runs its step", async () => {
    const runs = await ostler.runs(id);
    const entered = await Promise.all(
      runs.map(async (run) => (await ostler.steps(run))[run.ordinal]?.attempts.at(-1)?.state === "RUNNING"),
    );
    return entered.every(Boolean);
  });
}

describe("sweep over the steps of a commission", () => {
  using();

  test("sweep: a failure at every step fails the node there, keeps earlier results and starts no later step", async () => {
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

  test("sweep: a failure with clean-up at every step leaves the node AVAILABLE, or where it began", async () => {
    const nodes = await fleet(() => ({ failures: 1, retryable: false }));
    const id = await ostler.begin("COMMISSION", nodes, { onFailure: "CLEAN_UP_FAILED" });
    await ostler.operationEnds(id);
    // A script of power.read counts no failures of a clean-up: a node has no clean-up before it is verified.
    expect(await Promise.all(nodes.map((node) => ostler.nodeState(node)))).toEqual([
      "ENROLLED",
      ...Array.from({ length: LAST }, () => "AVAILABLE"),
    ]);
    expect(await unsound(ostler)).toEqual([]);
  });

  test("sweep: an abort at every step ends the node there, or after a step that must not be interrupted", async () => {
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

  test("sweep: a stop at every step leaves the node STOPPED after the step; a restart makes it ACTIVE and installs nothing twice [R-091]", async () => {
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

  test("sweep: an abort and a restart from the unfinished step repeat no succeeded step, except those that need the machine to run [R-102]", async () => {
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

describe("process that is killed", () => {
  using({ started: false });

  test("process that is killed inside every step: another process enters each step again and continues to the end [R-132, R-133, R-135]", async () => {
    const gates = STEPS.map(() => aGate());
    // Gates belong to one process: they stay shut in the other one and are open here.
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

  test("process that is killed inside a step that must not run twice: the run fails with INTERRUPTED and can be restarted [R-105, R-134]", async () => {
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

  test("process that is killed during an abort: another process carries the abort out", async () => {
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
    await eventually("the abort clean-up has started", () => ostler.journal(node).some((entry) => entry.abort));
    await victim.kill();
    await ostler.leasesRunOut();
    await ostler.engine.start();
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(ostler.entered(node).filter((entered) => entered === "deploy.write_image")).toHaveLength(1);
    expect(await ostler.nodeState(node)).toBe("DEPLOY_FAILED");
    expect(await unsound(ostler)).toEqual([]);
  });
});

describe("owner that loses its lease", () => {
  using({ started: false });

  test("owner that loses its lease and continues in any step is fenced off and writes nothing [R-137]", async () => {
    const gates = STEPS.map(() => aGate());
    const end = aGate();
    const nodes = await fleet((index) => ({ gate: gates[index]?.name, ignoreSignal: true }));
    const sleeper = await ostler.another({ started: true, abortGraceMs: 60_000 });
    const id = await begin(nodes);
    await allInside(id);
    for (const node of nodes)
      await changeNode(ostler.engine, ALICE, node.id, {
        settings: { steps: { "deploy.configure": { gate: end.name } } },
      });
    const rows = await ostler.test.sql<{ owner: string }[]>`select distinct owner from runs where owner is not null`;
    const owners = rows.map(({ owner }) => owner);
    await ostler.engine.start();
    await eventually("every run has a new owner", async () => {
      await ostler.leasesRunOut(owners);
      return (await ostler.runs(id)).every(({ owner }) => owner !== null && !owners.includes(owner));
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

test("sweep covers every step of a commission", async () => {
  await using lab = await engineUnderTest();
  const node = await lab.aNode().made();
  const answer = await lab.submit("COMMISSION", [node], { dryRun: true });
  expect(answer.results[0]?.plan?.steps.map((step) => `${step.interface}.${step.name}`)).toEqual(
    STEPS.map(({ step }) => step),
  );
});
