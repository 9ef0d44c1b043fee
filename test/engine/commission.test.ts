/** Commission: the steps that a node goes through, their order, and what they store. */
import { afterAll, describe, expect, test } from "vitest";
import { newestInventories } from "../../src/store/nodes/nodes.ts";
import { engineUnderTest } from "../support/builders.ts";
import { fakeSteps } from "../support/fake-steps.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const ALL_STEPS = fakeSteps("verify", "inspect", "clean", "deploy");

describe("commission", () => {
  test("commission leads a new node through every phase to ACTIVE [R-022, R-024]", async () => {
    const node = await ostler.aNode().made();
    const id = await ostler.begin("COMMISSION", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.story(node)).toEqual([
      "register → ENROLLED",
      "verify → VERIFYING",
      "done → MANAGEABLE",
      "inspect → INSPECTING",
      "done → MANAGEABLE",
      "clean → CLEANING",
      "done → AVAILABLE",
      "deploy → DEPLOYING",
      "done → ACTIVE",
    ]);
    expect(await ostler.node(node)).toMatchObject({
      state: "ACTIVE",
      stage: "DEPLOYED",
      powerState: "ON",
      lastError: null,
    });
    expect(await ostler.run(id, node)).toMatchObject({
      state: "SUCCEEDED",
      target: "ACTIVE",
      failure: null,
      attempt: 1,
    });
  });

  test("commission runs each step once, in the order of priority", async () => {
    const node = await ostler.aNode().made();
    const id = await ostler.begin("COMMISSION", [node]);
    await ostler.operationEnds(id);
    const steps = await ostler.steps(await ostler.run(id, node));
    expect(steps.map(({ name }) => name)).toEqual(ALL_STEPS);
    expect(steps.map(({ attempts }) => attempts.map(({ state, entries }) => `${state} ${entries}`).join())).toEqual(
      ALL_STEPS.map(() => "SUCCEEDED 1"),
    );
    expect(ostler.entered(node)).toEqual(ALL_STEPS.slice(1));
  });

  test("commission stores the result of the inspection [R-020]", async () => {
    const node = await ostler.aNode().with("fake", { serial: "SN-4711" }).made();
    await ostler.operationEnds(await ostler.begin("COMMISSION", [node]));
    const inventory = (await newestInventories(ostler.database.reader, [node.id])).get(node.id);
    expect(inventory?.data).toMatchObject({ serial: "SN-4711", model: "Fake 1000" });
  });

  test("commission records the caller, the operation and the target in every transition [R-008]", async () => {
    const node = await ostler.aNode().made();
    const id = await ostler.begin("COMMISSION", [node], { reason: "new rack" });
    await ostler.operationEnds(id);
    const [, first, ...rest] = await ostler.transitions(node);
    const run = await ostler.run(id, node);
    expect(first).toMatchObject({ fromState: "ENROLLED", toState: "VERIFYING", actor: "alice", reason: "new rack" });
    for (const row of [first, ...rest])
      expect(row).toMatchObject({ operationId: id, runId: run.id, target: "ACTIVE", nodeName: node.name });
    for (const row of rest) expect(row.actor).toBe("engine");
    expect((await ostler.transitions(node)).map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  test("commission runs only the missing phases [R-024]", async () => {
    const node = await ostler.aNode().in("MANAGEABLE").made();
    const id = await ostler.begin("COMMISSION", [node]);
    await ostler.operationEnds(id);
    expect(ostler.entered(node)).toEqual(ALL_STEPS.slice(1));
    expect(await ostler.story(node, id)).toEqual([
      "inspect → INSPECTING",
      "done → MANAGEABLE",
      "clean → CLEANING",
      "done → AVAILABLE",
      "deploy → DEPLOYING",
      "done → ACTIVE",
    ]);
  });

  test("commission until AVAILABLE ends there [R-024]", async () => {
    const node = await ostler.aNode().made();
    await ostler.operationEnds(await ostler.begin("COMMISSION", [node], { options: { until: "AVAILABLE" } }));
    expect(await ostler.node(node)).toMatchObject({ state: "AVAILABLE", stage: "NONE" });
    expect(ostler.entered(node)).toEqual(fakeSteps("inspect", "clean"));
  });

  test("commission of a node that has reached its target succeeds at once and does nothing [R-024]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("COMMISSION", [node], { options: { until: "AVAILABLE" } });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.story(node, id)).toEqual([]);
  });

  test("commission of a hundred nodes makes each ACTIVE, and the log shows it [R-004]", async () => {
    const nodes = await ostler.aNode().times(100);
    expect((await ostler.operationEnds(await ostler.begin("COMMISSION", nodes))).state).toBe("SUCCEEDED");
    const states = await ostler.nodeStates();
    expect(nodes.filter(({ name }) => states[name] !== "ACTIVE")).toEqual([]);
    expect(await ostler.foldedLog()).toEqual(states);
  });

  test("commission parks a node whose step waits, and resumes it when the wait is over", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("fake", { waitSeconds: 0.2 }).made();
    const id = await ostler.begin("COMMISSION", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.story(node, id)).toEqual([
      "deploy → DEPLOYING",
      "wait → DEPLOY_WAIT",
      "resume → DEPLOYING",
      "done → ACTIVE",
    ]);
    expect(
      ostler
        .journal(node)
        .filter(({ step, done }) => step === "deploy.boot_system" && !done)
        .map(({ memo }) => memo),
    ).toEqual([null, "waited"]);
  });

  test("commission that is parked is held by no process [R-006]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("fake", { waitSeconds: 3600 }).made();
    const id = await ostler.begin("COMMISSION", [node]);
    await ostler.nodeBecomes(node, "DEPLOY_WAIT");
    const run = await ostler.run(id, node);
    expect(run).toMatchObject({ state: "WAITING", waitReason: "TIME", owner: null });
    const seconds = ((run.wakeAt?.getTime() ?? 0) - Date.now()) / 1000;
    // The step's timeout of ten minutes ends before its wait of an hour.
    expect(seconds).toBeGreaterThan(590);
    expect(seconds).toBeLessThan(601);
    await ostler.engine.abort(
      { actor: "alice", project: "default", scope: "ADMIN" as const },
      { work: { operationId: id } },
    );
    await ostler.operationEnds(id);
  });
});
