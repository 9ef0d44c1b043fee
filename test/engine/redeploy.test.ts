/** redeployNodes: undeploys an ACTIVE node, cleans it and deploys it again, with another host group if requested. */
import { afterAll, describe, expect, test } from "vitest";
import type { Script } from "../../plugins/fake/settings.ts";
import type { VerbRequest } from "../../src/engine/admission/request-terms.ts";
import { NODE_STATE_NAMES } from "../../src/lifecycle/node-states.ts";
import { isAtRest } from "../../src/lifecycle/machine.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { heldIn } from "../support/held-work.ts";
import { unsound } from "../support/soundness.ts";
import { changeNode } from "../support/change-node.ts";
import { fakeSteps } from "../support/fake-steps.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

async function active(
  scripts: Record<string, Script> = {},
  hostGroup: string | null = "service-worker",
): Promise<TestNode> {
  const node = await ostler.aNode().in("ACTIVE").scripted(scripts).made();
  await ostler.test.sql`update nodes set host_group = ${hostGroup} where id = ${node.id}`;
  return node;
}

const redeploy = (nodes: readonly TestNode[], hostGroup?: string, more: Partial<VerbRequest> = {}) =>
  ostler.begin("REDEPLOY", nodes, {
    options: { reinstall: true, ...(hostGroup !== undefined && { hostGroup }) },
    ...more,
  });

/** The variables that the last step of a deployment received. */
async function variablesOf(id: string, node: TestNode): Promise<unknown> {
  return (await ostler.steps(await ostler.run(id, node)))
    .find(({ name }) => name === "deploy.configure")
    ?.attempts.at(-1)?.output;
}

const WAY = ["undeploy → UNDEPLOYING", "clean → CLEANING", "done → AVAILABLE", "deploy → DEPLOYING", "done → ACTIVE"];
const STEPS = fakeSteps("undeploy", "clean", "deploy");

describe("redeployNodes", () => {
  test("redeployNodes leads through UNDEPLOYING, CLEANING, AVAILABLE and DEPLOYING back to ACTIVE [R-031]", async () => {
    const node = await active();
    const id = await redeploy([node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.story(node, id)).toEqual(WAY);
    expect(ostler.entered(node)).toEqual(STEPS);
    expect(await ostler.node(node)).toMatchObject({
      state: "ACTIVE",
      stage: "DEPLOYED",
      hostGroup: "service-worker",
      lastError: null,
    });
    expect(await unsound(ostler)).toEqual([]);
  });

  test("redeployNodes without a host group passes the present one to the drivers", async () => {
    const node = await active();
    const id = await redeploy([node]);
    await ostler.operationEnds(id);
    expect(await variablesOf(id, node)).toEqual({ variables: { host_group: "service-worker" } });
  });

  test("redeployNodes to another host group passes it to the drivers, and stores it with the node at the end [R-031]", async () => {
    const gate = aGate();
    const node = await active({ "deploy.configure": { gate: gate.name } });
    const id = await redeploy([node], "service-master");
    await gate.arrivals();
    expect((await ostler.node(node)).hostGroup).toBe("service-worker");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect((await ostler.node(node)).hostGroup).toBe("service-master");
    expect(await variablesOf(id, node)).toEqual({ variables: { host_group: "service-master" } });
  });

  test.each(NODE_STATE_NAMES.filter((state) => isAtRest(state) && state !== "ACTIVE"))(
    "redeployNodes of a node that is %s is refused [R-031]",
    async (state) => {
      const node = await ostler.aNode().in(state).made();
      expect((await ostler.submit("REDEPLOY", [node])).refusals).toMatchObject([
        { code: "INVALID_STATE", nodeId: node.id, allowedStates: ["ACTIVE"] },
      ]);
      expect(await ostler.nodeState(node)).toBe(state);
    },
  );

  test("redeployNodes without reinstall is refused for a node that would lose data, and erases nothing", async () => {
    const node = await active();
    expect(await ostler.submit("REDEPLOY", [node], { options: { hostGroup: "db" } })).toMatchObject({
      operationId: null,
      refusals: [
        { code: "INVALID_STATE", nodeId: node.id, message: expect.stringContaining("Send reinstall: true to do so") },
      ],
    });
    expect(await ostler.nodeState(node)).toBe("ACTIVE");
    expect(ostler.entered(node)).toEqual([]);
  });

  test.each(["", "two words", "x".repeat(64), "nul\u0000"])(
    "redeployNodes to the invalid host group %j is refused",
    async (hostGroup) => {
      const node = await active();
      expect(await ostler.submit("REDEPLOY", [node], { options: { hostGroup } })).toMatchObject({
        operationId: null,
        refusals: [{ code: "INVALID_INPUT", path: ["input", "hostGroup"] }],
      });
      expect(await ostler.nodeState(node)).toBe("ACTIVE");
    },
  );

  test("redeployNodes without automatic cleaning runs no clean step and still passes through CLEANING", async () => {
    await ostler.engine.updateSite(ALICE, { automaticCleaning: false });
    const node = await active();
    const id = await redeploy([node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.story(node, id)).toEqual(WAY);
    expect(ostler.entered(node).filter((step) => step.startsWith("clean."))).toEqual([]);
    await ostler.engine.updateSite(ALICE, { automaticCleaning: null });
  });
});

describe("redeployNodes that fails", () => {
  test.each([
    { where: "the undeployment", script: "deploy.remove_system", state: "UNDEPLOY_FAILED" },
    { where: "the cleaning", script: "clean.erase_disks", state: "CLEAN_FAILED" },
    { where: "the deployment", script: "deploy.prepare", state: "DEPLOY_FAILED" },
  ] as const)(
    "redeployNodes that fails in $where stops there: the node is $state, in its old host group, and no later step runs [R-032]",
    async ({ script, state }) => {
      const node = await active({ [script]: { fail: "no luck" } });
      const id = await redeploy([node], "service-master");
      expect(await ostler.operationEnds(id)).toMatchObject({
        state: "FAILED",
        firstFailure: { step: script, nodeId: node.id },
      });
      expect(await ostler.node(node)).toMatchObject({
        state,
        hostGroup: "service-worker",
        stage: "NONE",
        lastError: { step: script },
      });
      expect(ostler.entered(node)).toEqual(STEPS.slice(0, STEPS.indexOf(script) + 1));
      expect(await ostler.run(id, node)).toMatchObject({ state: "FAILED", target: "ACTIVE" });
    },
  );

  test("redeployNodes that fails for one node does not affect the others", async () => {
    const [bad, good] = [await active({ "clean.erase_metadata": { fail: "no luck" } }), await active()];
    const id = await redeploy([bad, good], "service-master");
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
    expect(await ostler.node(good)).toMatchObject({ state: "ACTIVE", hostGroup: "service-master" });
  });
});

describe("restart of redeployNodes", () => {
  test.each([
    { after: "a failed undeployment", script: "deploy.remove_system", again: STEPS },
    { after: "a failed cleaning", script: "clean.erase_disks", again: STEPS.slice(STEPS.indexOf("clean.erase_disks")) },
    {
      after: "a failure before the system was installed",
      script: "deploy.prepare",
      again: STEPS.filter((step) => !step.startsWith("clean.erase_")),
    },
    {
      after: "a failure after the system was installed",
      script: "deploy.boot_system",
      again: STEPS.slice(STEPS.indexOf("deploy.boot_system")),
    },
  ])(
    "restart of redeployNodes after $after continues, and ends in the requested host group",
    async ({ script, again }) => {
      const node = await active({ [script]: { failures: 1, retryable: false } });
      const id = await redeploy([node], "service-master");
      expect((await ostler.operationEnds(id)).state).toBe("FAILED");
      const mark = ostler.entered(node).length;
      const { operationId, refusals } = await ostler.engine.restart(ALICE, { work: { operationId: id } });
      expect(refusals).toEqual([]);
      expect(await ostler.operationEnds(operationId ?? "")).toMatchObject({
        state: "SUCCEEDED",
        kind: "REDEPLOY",
        restartOf: id,
      });
      expect(ostler.entered(node).slice(mark)).toEqual(again);
      expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", hostGroup: "service-master" });
    },
  );

  test("restart of redeployNodes after a stop continues from the unfinished step if requested", async () => {
    const gate = aGate();
    const node = await active({ "clean.erase_metadata": { gate: gate.name } });
    const id = await redeploy([node], "service-master");
    await gate.arrivals();
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect(await ostler.node(node)).toMatchObject({ state: "STOPPED", hostGroup: "service-worker" });
    const again =
      (await ostler.engine.restart(ALICE, { work: { operationId: id }, from: "UNFINISHED_STEP" })).operationId ?? "";
    expect((await ostler.operationEnds(again)).state).toBe("SUCCEEDED");
    expect(ostler.entered(node)).toEqual(STEPS);
    expect((await ostler.node(node)).hostGroup).toBe("service-master");
  });
});

describe("host group of a node", () => {
  test("variable host_group does not rewrite the role of a node: the name is reserved [R-163]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const variables = { host_group: "evil" };
    const refusal = { code: "INVALID_INPUT", path: ["input", "variables", "host_group"] };
    expect((await ostler.submit("DEPLOY", [node], { variables })).refusals).toMatchObject([refusal]);
    expect((await ostler.engine.createCluster(ALICE, { name: "evil", variables })).refusals).toMatchObject([refusal]);
    await ostler.engine.createCluster(ALICE, { name: "good" });
    expect((await ostler.engine.updateCluster(ALICE, { name: "good" }, { variables })).refusals).toMatchObject([
      refusal,
    ]);
  });

  test("variable host_group from before it was reserved gives no node a role [R-163]", async () => {
    await ostler.engine.createCluster(ALICE, { name: "old", variables: { image: "debian-13" } });
    await ostler.test.sql`update clusters set variables = '{"host_group": "evil"}' where name = 'old'`;
    const node = await ostler.aNode().in("AVAILABLE").inCluster("old").made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.operationEnds(id);
    expect((await ostler.run(id, node)).variables).toEqual({});
    expect((await ostler.node(node)).hostGroup).toBeNull();
  });

  test("updateNodes of the host group during a deployment is not undone at its end [R-163]", async () => {
    const { gate, node, id } = await heldIn(ostler, "deploy.configure");
    expect((await changeNode(ostler.engine, ALICE, node.id, { hostGroup: "service-master" })).refusals).toEqual([]);
    gate.open();
    await ostler.operationEnds(id);
    expect((await ostler.node(node)).hostGroup).toBe("service-master");
  });

  test("updateNodes to a host group other than the one of the running redeployNodes is refused [R-163]", async () => {
    const gate = aGate();
    const node = await active({ "deploy.configure": { gate: gate.name } });
    const id = await redeploy([node], "service-master");
    await gate.arrivals();
    expect((await changeNode(ostler.engine, ALICE, node.id, { hostGroup: "service-worker" })).refusals).toMatchObject([
      { code: "BUSY", operationId: id, path: ["input", "hostGroup"] },
    ]);
    gate.open();
    await ostler.operationEnds(id);
    expect((await ostler.node(node)).hostGroup).toBe("service-master");
  });
});
