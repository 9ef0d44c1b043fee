/** Restarts of the work of several requests, and what a restart carries over from each of them. */
import { afterAll, describe, expect, test } from "vitest";
import { passGate } from "../../plugins/fake/gates.ts";
import type { RestartRequest } from "../../src/engine/admission/restart.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { changeNode } from "../support/change-node.ts";

const done = async () => ({ kind: "done" }) as const;
const preparing = aGate();
const { reaches: _, ...prepare } = aStep("prepare", "deploy", async ({ node }) => {
  await passGate(preparing.name, node.name, null);
  return { kind: "done" };
});
const forgetful = aDriver("forgetful", {
  clean: stepsOf(
    aStep("wipe", "clean", done),
    aStep("lock", "clean", done, { repeatOnRestart: true }),
    aStep("check", "clean", done, { touches: [] }),
  ),
  deploy: stepsOf(prepare, aStep("install", "deploy", done)),
});

const ostler = await engineUnderTest({ drivers: [forgetful] });
afterAll(() => ostler[Symbol.asyncDispose]());

const restart = (nodes: readonly TestNode[], more: Partial<RestartRequest> = {}) =>
  ostler.engine.restart(ALICE, { work: { names: nodes.map(({ name }) => name) }, ...more });

const broken = { "deploy.prepare": { fail: "no luck" } };

/** A node whose deployment failed, with the operation. */
async function failed(more: Parameters<typeof ostler.begin>[2] = {}) {
  const node = await ostler.aNode().in("AVAILABLE").scripted(broken).made();
  const id = await ostler.begin("DEPLOY", [node], more);
  await ostler.operationEnds(id);
  return { node, id };
}

describe("restart of nodes with different requests", () => {
  test("restart is not refused as a whole because nodes were left by different requests [R-164]", async () => {
    const first = await failed({ variables: { image: "debian-12" } });
    const second = await failed({ variables: { image: "debian-13" } });
    const fresh = await ostler.aNode().in("AVAILABLE").made();
    const answer = await restart([first.node, second.node, fresh], { idempotencyKey: "both" });
    expect(answer).toMatchObject({ operationId: null, refusals: [] });
    expect(answer.operationIds).toHaveLength(2);
    expect(answer.results.find(({ nodeId }) => nodeId === fresh.id)).toMatchObject({
      accepted: false,
      refusal: { code: "NOTHING_TO_RESTART" },
    });
    const operations = await Promise.all((answer.operationIds ?? []).map((id) => ostler.operationEnds(id)));
    expect(operations.map(({ restartOf, variables }) => [restartOf, variables])).toEqual([
      [second.id, { image: "debian-13" }],
      [first.id, { image: "debian-12" }],
    ]);
    const again = await restart([first.node, second.node, fresh], { idempotencyKey: "both" });
    expect(again.replayed).toBe(true);
    expect([...(again.operationIds ?? [])].toSorted()).toEqual([...(answer.operationIds ?? [])].toSorted());
  });

  test("results of a restart by cluster are in the order of the nodes' names, not of their earlier requests [R-422]", async () => {
    const first = await failed({ variables: { image: "a" } });
    const second = await failed({ variables: { image: "b" } });
    const fresh = await ostler.aNode().in("AVAILABLE").made();
    const names = [first.node.name, second.node.name, fresh.name].toSorted();
    await ostler.engine.createCluster(ALICE, { name: "restarted-in-order", nodes: { names } });
    const work = { cluster: { name: "restarted-in-order" } };
    const planned = await ostler.engine.restart(ALICE, { work, dryRun: true });
    expect(planned.results.map(({ ref }) => ref)).toEqual(names);
    const answer = await restart([fresh, second.node, first.node]);
    expect(answer.results.map(({ ref }) => ref)).toEqual([fresh.name, second.node.name, first.node.name]);
    await Promise.all((answer.operationIds ?? []).map((id) => ostler.operationEnds(id)));
  });

  test("restartOf of a restart over two operations does not name one of them only [R-261]", async () => {
    const first = await failed();
    const second = await failed();
    const answer = await restart([first.node, second.node]);
    expect(await ostler.operationEnds(answer.operationId ?? "")).toMatchObject({
      restarts: [second.id, first.id],
      restartOf: second.id,
    });
  });

  test("restart refuses a node in maintenance alone, or the whole request with ALL_OR_NOTHING [R-164]", async () => {
    const first = await failed({ variables: { image: "debian-12" } });
    const second = await failed({ variables: { image: "debian-13" } });
    await ostler.test.sql`update nodes set maintenance_since = now() where id = ${first.node.id}`;
    expect(await restart([first.node, second.node], { acceptance: "ALL_OR_NOTHING" })).toMatchObject({
      operationId: null,
      refusals: [{ code: "IN_MAINTENANCE", nodeId: first.node.id }],
    });
    const answer = await restart([first.node, second.node], { acceptance: "BEST_EFFORT" });
    expect(await ostler.operationEnds(answer.operationId ?? "")).toMatchObject({ restartOf: second.id });
  });

  test("restart is not refused as a whole because of an unknown name [R-335]", async () => {
    const { node, id } = await failed();
    const work = { names: ["ghost-2", node.name, "ghost-1"] };
    const unknown = { code: "NOT_FOUND", missing: ["ghost-2", "ghost-1"] };
    const whole = await ostler.engine.restart(ALICE, { work, acceptance: "ALL_OR_NOTHING" });
    expect(whole).toMatchObject({ operationId: null, results: [], refusals: [unknown] });
    const answer = await ostler.engine.restart(ALICE, { work, idempotencyKey: "ghosts" });
    expect(answer.refusals).toMatchObject([{ ...unknown, nodes: { count: 2, refs: ["ghost-2", "ghost-1"] } }]);
    expect(answer.results).toMatchObject([
      { ref: "ghost-2", nodeId: null, accepted: false, refusal: { code: "NOT_FOUND" } },
      { ref: node.name, accepted: true },
      { ref: "ghost-1", nodeId: null, accepted: false, refusal: { code: "NOT_FOUND" } },
    ]);
    const again = await ostler.engine.restart(ALICE, { work, idempotencyKey: "ghosts" });
    expect(again).toMatchObject({ replayed: true, operationId: answer.operationId });
    expect(await ostler.operationEnds(answer.operationId ?? "")).toMatchObject({ restartOf: id });
  });

  test("restart of unknown nodes alone is refused with NOT_FOUND [R-335]", async () => {
    const answer = await ostler.engine.restart(ALICE, { work: { names: ["ghost"] } });
    expect(answer).toMatchObject({ operationId: null, refusals: [{ code: "NOT_FOUND", missing: ["ghost"] }] });
    expect(answer.refusals).toHaveLength(1);
    const idle = await ostler.aNode().in("AVAILABLE").made();
    const both = await ostler.engine.restart(ALICE, { work: { names: ["ghost", idle.name] } });
    expect(both.refusals.map(({ code }) => code)).toEqual(["NOTHING_TO_RESTART", "NOT_FOUND"]);
    expect(both.results.map(({ ref }) => ref)).toEqual(["ghost", idle.name]);
  });
});

describe("rollout of a restart", () => {
  const careful = { waves: { sizes: [{ count: 1 }], manual: true, maxFailures: { count: 3 } }, maxParallel: 1 };

  async function halted() {
    const nodes = await ostler.aNode().in("AVAILABLE").scripted(broken).times(3);
    const id = await ostler.begin("DEPLOY", nodes, { ...careful, onFailure: "LEAVE" });
    await ostler.nodeBecomes(nodes[0] ?? nodes[1] ?? { id: "", name: "" }, "DEPLOY_FAILED");
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
    return nodes;
  }

  test("restart does not forget waves, maxParallel and maxFailures of the first request [R-165]", async () => {
    const nodes = await halted();
    const answer = await restart(nodes);
    expect(await ostler.operation(answer.operationId ?? "")).toMatchObject({
      maxParallel: 1,
      waves: { sizes: [1, 1, 1], manual: true, maxFailures: 3 },
    });
    await ostler.engine.stop(ALICE, { work: { operationId: answer.operationId ?? "" } });
    await ostler.operationEnds(answer.operationId ?? "");
    const free = await restart(nodes, { waves: null, maxParallel: null });
    expect(await ostler.operationEnds(free.operationId ?? "")).toMatchObject({ maxParallel: null, waves: null });
  });

  test("restart with other waves replaces those of the first request [R-165]", async () => {
    const answer = await restart(await halted(), { waves: { sizes: [{ percent: 100 }] } });
    expect(await ostler.operationEnds(answer.operationId ?? "")).toMatchObject({
      maxParallel: 1,
      waves: { sizes: [3], manual: false, maxFailures: null },
    });
  });
});

describe("variables of a restart", () => {
  test("restart with keepVariables false drops the variables of the first request, and the plan names sources [R-166]", async () => {
    const settings = { constructor: "acme", image: "debian-13", ntp: "10.0.0.1" };
    await ostler.engine.createCluster(ALICE, { name: "site", variables: settings });
    const node = await ostler.aNode().in("AVAILABLE").inCluster("site").scripted(broken).made();
    await ostler.operationEnds(await ostler.begin("DEPLOY", [node], { variables: { image: "bad" } }));
    const variables = { ntp: "10.0.0.2" };
    const acme = { name: "constructor", value: "acme", source: "CLUSTER" };
    expect((await restart([node], { dryRun: true, variables })).results[0]?.variables).toEqual([
      acme,
      { name: "image", value: "bad", source: "EARLIER_REQUEST" },
      { name: "ntp", value: "10.0.0.2", source: "REQUEST" },
    ]);
    const answer = await restart([node], { keepVariables: false });
    expect(answer.results[0]?.variables).toEqual([
      acme,
      { name: "image", value: "debian-13", source: "CLUSTER" },
      { name: "ntp", value: "10.0.0.1", source: "CLUSTER" },
    ]);
    await ostler.operationEnds(answer.operationId ?? "");
    expect((await ostler.run(answer.operationId ?? "", node)).variables).toEqual(settings);
  });
});

describe("plan hash", () => {
  test("planHash is refused after a change of variables, host group, failure policy or powerOnFailure [R-167]", async () => {
    await ostler.engine.createCluster(ALICE, { name: "hashed", variables: { image: "debian-13" } });
    const node = await ostler.aNode().in("AVAILABLE").inCluster("hashed").made();
    const hashOf = async (more: Parameters<typeof ostler.submit>[2] = {}) =>
      (await ostler.submit("DEPLOY", [node], { dryRun: true, ...more })).planHash;
    const planHash = await hashOf();
    expect(await hashOf()).toBe(planHash);
    const changed = [
      await hashOf({ variables: { image: "windows" } }),
      await hashOf({ onFailure: "CLEAN_UP_ALL" }),
      await hashOf({ powerOnFailure: "LEAVE" }),
    ];
    await changeNode(ostler.engine, ALICE, node.id, { hostGroup: "service-master" });
    changed.push(await hashOf());
    await ostler.engine.updateCluster(ALICE, { name: "hashed" }, { variables: { image: "windows" } });
    changed.push(await hashOf());
    expect(new Set([planHash, ...changed]).size).toBe(6);
    expect((await ostler.submit("DEPLOY", [node], { planHash: planHash ?? "" })).refusals).toMatchObject([
      { code: "STALE_REVISION", path: ["input", "planHash"] },
    ]);
  });
});

describe("power after a failure", () => {
  test("plan shows the power after a failure, as the request, the restarted one or the site says [R-336]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").scripted(broken).made();
    const planned = async (kind: "DEPLOY" | "POWER", more: Parameters<typeof ostler.submit>[2] = {}) =>
      ostler.submit(kind, [node], { dryRun: true, ...more });
    const [byRequest, bySite] = [await planned("DEPLOY", { powerOnFailure: "LEAVE" }), await planned("DEPLOY")];
    expect(byRequest.results).toMatchObject([{ powerOnFailure: "LEAVE" }]);
    expect(bySite.results).toMatchObject([{ powerOnFailure: "OFF" }]);
    expect((await planned("POWER", { options: { powerAction: "ON" } })).results[0]?.powerOnFailure).toBe(null);
    await ostler.engine.updateSite(ALICE, { powerOnFailure: "LEAVE" });
    const sinceSite = await planned("DEPLOY");
    await ostler.engine.updateSite(ALICE, { powerOnFailure: "OFF" });
    expect(sinceSite).toMatchObject({ planHash: byRequest.planHash, results: [{ powerOnFailure: "LEAVE" }] });
    expect(sinceSite.planHash).not.toBe(bySite.planHash);
    await ostler.operationEnds(await ostler.begin("DEPLOY", [node], { powerOnFailure: "LEAVE" }));
    expect((await restart([node], { dryRun: true })).results).toMatchObject([{ powerOnFailure: "LEAVE" }]);
    expect((await restart([node], { dryRun: true, powerOnFailure: "OFF" })).results).toMatchObject([
      { powerOnFailure: "OFF" },
    ]);
  });
});

describe("restart from STAGE", () => {
  test("restart from STAGE does not repeat erasures that succeeded, unless a step declares it [R-168]", async () => {
    const node = await ostler.aNode().in("CLEAN_FAILED").with("forgetful").made();
    const id = await ostler.begin("COMMISSION", [node]);
    await preparing.arrivals();
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    preparing.open();
    await ostler.operationEnds(id);
    expect(await ostler.nodeState(node)).toBe("STOPPED");
    const answer = await restart([node]);
    expect(answer.results[0]?.erasesData).toBe(true);
    expect(answer.results[0]?.plan?.steps.map(({ name, kept }) => [name, kept])).toEqual([
      ["wipe", true],
      ["lock", false],
      ["check", false],
      ["prepare", false],
      ["install", false],
    ]);
    expect((await ostler.operationEnds(answer.operationId ?? "")).state).toBe("SUCCEEDED");
  });

  test("restart whose erasures are kept does not say that it erases data [R-336]", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const id = await ostler.begin("COMMISSION", [node]);
    await gate.arrivals();
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    gate.open();
    await ostler.operationEnds(id);
    const planned = async (more: Partial<RestartRequest>) =>
      (await restart([node], { dryRun: true, ...more })).results[0]?.erasesData;
    expect(await planned({})).toBe(false);
    expect(await planned({ from: "UNFINISHED_STEP" })).toBe(false);
    expect(await planned({ from: "BEGINNING" })).toBe(true);
  });
});
