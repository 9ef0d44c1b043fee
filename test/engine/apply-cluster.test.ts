/** `applyCluster`: a cluster says what it wants, and its nodes are brought there with the least work. */
import { describe, expect, test } from "vitest";
import * as z from "zod";
import type { ApplyRequest } from "../../src/engine/admission/apply-cluster.ts";
import type { PendingChanges } from "../../src/engine/admission/pending-changes.ts";
import type { Step } from "../../src/drivers/driver.ts";
import type { NodePatch } from "../../src/engine/inventory/node-patch.ts";
import { clusterByName } from "../../src/store/nodes/clusters.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnySettings } from "../support/driver.ts";

const CLUSTER = { name: "berlin" };

async function aCluster(
  ostler: EngineUnderTest,
  variables: Record<string, unknown> = { ntp: "10.0.0.1" },
): Promise<void> {
  expect((await ostler.engine.createCluster(ALICE, { ...CLUSTER, variables })).refusals).toEqual([]);
}

function apply(ostler: EngineUnderTest, more: Partial<ApplyRequest> = {}) {
  return ostler.engine.applyCluster(ALICE, { cluster: CLUSTER, ...more });
}

/** The operation, after its end; fails the test if the request was refused. */
async function applied(ostler: EngineUnderTest, more: Partial<ApplyRequest> = {}) {
  const { operationId, refusals } = await apply(ostler, more);
  expect(refusals).toEqual([]);
  return ostler.operationEnds(operationId ?? "");
}

async function reasons(ostler: EngineUnderTest, more: Partial<ApplyRequest> = {}): Promise<Record<string, unknown>> {
  const { results } = await apply(ostler, { ...more, dryRun: true });
  return Object.fromEntries(results.map(({ ref, reason, refusal }) => [ref, refusal?.code ?? reason ?? null]));
}

async function pending(ostler: EngineUnderTest): Promise<PendingChanges | undefined> {
  const { reader } = ostler.database;
  const id = (await clusterByName(reader, CLUSTER.name))?.id ?? "";
  return (await ostler.engine.pendingChanges(reader, [id])).get(id);
}

async function groups(ostler: EngineUnderTest): Promise<Record<string, number>> {
  return Object.fromEntries(((await pending(ostler))?.groups ?? []).map((one) => [one.reason, one.nodeCount]));
}

async function change(ostler: EngineUnderTest, variables: Record<string, unknown>): Promise<void> {
  expect((await ostler.engine.updateCluster(ALICE, CLUSTER, { variables })).refusals).toEqual([]);
}

async function edit(ostler: EngineUnderTest, { id }: TestNode, patch: NodePatch): Promise<void> {
  const answer = await ostler.engine.updateNodes(ALICE, {
    nodes: { ids: [id] },
    acceptance: "ALL_OR_NOTHING",
    dryRun: false,
    patch,
  });
  expect(answer.refusals).toEqual([]);
}

const scripted = (steps: Record<string, object>): NodePatch => ({
  settingsOfDrivers: [{ driver: "fake", settings: { steps } }],
});

/** A deploy step after the installed system. */
function afterwards(name: string): Step<AnySettings> {
  const { reaches: _installs, ...step } = aStep(name, "deploy", async () => ({ kind: "done" }), { priority: 5 });
  return step;
}

function enteredBy(ostler: EngineUnderTest, node: TestNode): string[] {
  return ostler.entered(node).map((step) => step.replace(/^deploy\./, ""));
}

describe("nodes without a system", () => {
  test("new and AVAILABLE nodes are deployed in one operation [R-1045]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    const enrolled = await ostler.aNode().inCluster("berlin").made();
    const available = await ostler.aNode().in("AVAILABLE").inCluster("berlin").made();
    expect(await reasons(ostler)).toEqual({ [enrolled.name]: "new", [available.name]: "new" });
    expect(await pending(ostler)).toMatchObject({
      count: 2,
      groups: [{ reason: "new", nodeCount: 2, kind: "DEPLOY" }],
    });
    const operation = await applied(ostler);
    expect(operation).toMatchObject({ kind: "APPLY", state: "SUCCEEDED", totalCount: 2, onFailure: "LEAVE" });
    expect(await ostler.nodeStates()).toEqual({ [enrolled.name]: "ACTIVE", [available.name]: "ACTIVE" });
    expect(enteredBy(ostler, available)).toEqual(["prepare", "write_image", "boot_system", "configure"]);
    expect(await pending(ostler)).toBeUndefined();
  });

  test("cluster that stands as it should answers so, and stores no operation [R-1046]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    const nodes = await ostler.aNode().in("AVAILABLE").inCluster("berlin").times(2);
    await applied(ostler);
    const before = await ostler.dump();
    const answer = await apply(ostler);
    expect(answer).toMatchObject({ operationId: null, refusals: [] });
    expect(answer.results.map(({ accepted, refusal, plan }) => ({ accepted, refusal, plan }))).toEqual(
      nodes.map(() => ({ accepted: false, refusal: null, plan: null })),
    );
    expect(await ostler.changesSince(before)).toEqual([]);
  });
});

describe("ACTIVE nodes", () => {
  test("changed variable runs the steps after PROVISIONED again, and names both values [R-1047]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    const node = await ostler.aNode().in("AVAILABLE").inCluster("berlin").made();
    await applied(ostler);
    await change(ostler, { ntp: "10.0.0.2" });
    const reason = "variables.ntp: 10.0.0.1 → 10.0.0.2";
    expect(await reasons(ostler)).toEqual({ [node.name]: reason });
    expect(await groups(ostler)).toEqual({ [reason]: 1 });
    const entered = ostler.entered(node).length;
    const { id } = await applied(ostler);
    expect(enteredBy(ostler, node).slice(entered)).toEqual(["boot_system", "configure"]);
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", stage: "DEPLOYED" });
    const steps = await ostler.steps(await ostler.run(id, node));
    expect(steps.map(({ name, kept }) => [name, kept])).toEqual([
      ["deploy.prepare", true],
      ["deploy.write_image", true],
      ["deploy.boot_system", false],
      ["deploy.configure", false],
    ]);
    expect(await pending(ostler)).toBeUndefined();
  });

  test("variables that are added and removed, and another host group, are reasons too", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler, { ntp: "10.0.0.1", old: { a: [1, 2] } });
    const node = await ostler.aNode().in("AVAILABLE").inCluster("berlin").made();
    await applied(ostler);
    await change(ostler, { old: null, fresh: 7 });
    await edit(ostler, node, { hostGroup: "db" });
    expect(await reasons(ostler)).toEqual({
      [node.name]: 'host group: none → db; variables.fresh: none → 7; variables.old: {"a":[1,2]} → none',
    });
  });

  test("variable of each level is compared as it takes effect on the node [R-1047]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    const node = await ostler.aNode().in("AVAILABLE").inCluster("berlin").made();
    await applied(ostler);
    await ostler.engine.updateSite(ALICE, { variables: { dns: "10.0.0.53", ntp: "of the site" } });
    expect(await groups(ostler)).toEqual({ "variables.dns: none → 10.0.0.53": 1 });
    const hostGroups = [{ name: "db", variables: { dns: "10.0.1.53" } }];
    expect((await ostler.engine.updateCluster(ALICE, CLUSTER, { hostGroups })).refusals).toEqual([]);
    await edit(ostler, node, { hostGroup: "db" });
    expect(await groups(ostler)).toEqual({ "host group: none → db; variables.dns: none → 10.0.1.53": 1 });
    await edit(ostler, node, { hostGroup: null, variables: { dns: "10.0.2.53" } });
    expect(await groups(ostler)).toEqual({ "variables.dns: none → 10.0.2.53": 1 });
    expect(await reasons(ostler)).toEqual({ [node.name]: "variables.dns: none → 10.0.2.53" });
  });

  test("failure of a step after PROVISIONED leaves the power as it is [R-1048]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    const node = await ostler.aNode().in("AVAILABLE").inCluster("berlin").made();
    await applied(ostler);
    await change(ostler, { ntp: "10.0.0.2" });
    await edit(ostler, node, scripted({ "deploy.configure": { fail: "no route" } }));
    expect(await applied(ostler)).toMatchObject({ state: "FAILED" });
    expect(await ostler.node(node)).toMatchObject({ state: "DEPLOY_FAILED", stage: "PROVISIONED", powerState: "ON" });
    expect(ostler.powerCalls(node).at(-1)).toBe("ON");
    expect(await reasons(ostler)).toEqual({ [node.name]: "failed in configure" });
    expect(await groups(ostler)).toEqual({ "failed in configure": 1 });
    await edit(ostler, node, scripted({}));
    const entered = ostler.entered(node).length;
    expect(await applied(ostler)).toMatchObject({ state: "SUCCEEDED" });
    expect(enteredBy(ostler, node).slice(entered)).toEqual(["boot_system", "configure"]);
    expect(await pending(ostler)).toBeUndefined();
  });

  test("abort and restart of work on a system in service never install it again [R-1048]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    const gate = aGate();
    const node = await ostler.aNode().in("AVAILABLE").inCluster("berlin").made();
    await applied(ostler);
    await change(ostler, { ntp: "10.0.0.2" });
    await edit(ostler, node, scripted({ "deploy.boot_system": { gate: gate.name } }));
    const { operationId } = await apply(ostler);
    await gate.arrivals();
    const entered = ostler.entered(node).length;
    await ostler.engine.abort(ALICE, { work: { operationId: operationId ?? "" } });
    await ostler.operationEnds(operationId ?? "");
    expect(await ostler.node(node)).toMatchObject({ state: "DEPLOY_FAILED", powerState: "ON" });
    gate.open();
    const restarted = await ostler.engine.restart(ALICE, {
      work: { operationId: operationId ?? "" },
      from: "BEGINNING",
    });
    await ostler.operationEnds(restarted.operationId ?? "");
    expect(enteredBy(ostler, node).slice(entered)).toEqual(["boot_system", "configure"]);
  });

  test("node with unknown inputs starts nothing [R-1049]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    const node = await ostler.aNode().in("ACTIVE").inCluster("berlin").made();
    expect(await reasons(ostler)).toEqual({ [node.name]: null });
    expect(await pending(ostler)).toBeUndefined();
  });

  test("inputs outlive the operations that stored them, and another engine reads them", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    await ostler.aNode().in("AVAILABLE").inCluster("berlin").made();
    await applied(ostler);
    await change(ostler, { ntp: "10.0.0.3" });
    const other = await ostler.another();
    const { results } = await other.engine.applyCluster(ALICE, { cluster: CLUSTER, dryRun: true });
    expect(results.map(({ reason }) => reason)).toEqual(["variables.ntp: 10.0.0.1 → 10.0.0.3"]);
    await other[Symbol.asyncDispose]();
  });
});

describe("secrets", () => {
  const declared = aDriver("guarded", {
    variables: z.looseObject({ token: z.string().optional().meta({ writeOnly: true }) }),
    deploy: stepsOf(
      aStep("install", "deploy", async () => ({ kind: "done" })),
      afterwards("join"),
      aStep("remove", "undeploy", async () => ({ kind: "done" })),
    ),
  });

  test("changed secret variable is only changed: neither value is in plans, rows or pending changes [R-1050]", async () => {
    await using ostler = await engineUnderTest({ drivers: [declared] });
    await aCluster(ostler, { token: "first-secret-7313" });
    const node = await ostler.aNode().with("guarded").in("AVAILABLE").inCluster("berlin").made();
    await applied(ostler);
    expect(await reasons(ostler)).toEqual({ [node.name]: null });
    await change(ostler, { token: "second-secret-4242" });
    const answer = await apply(ostler, { dryRun: true });
    expect(answer.results.map(({ reason }) => reason)).toEqual(["variables.token: changed"]);
    const shown = JSON.stringify([answer, await pending(ostler), await ostler.dump()]);
    expect(shown).not.toMatch(/first-secret-7313|second-secret-4242/);
    await applied(ostler);
    expect(await reasons(ostler)).toEqual({ [node.name]: null });
  });
});

describe("images", () => {
  const writing = aDriver("writer", {
    usesAgent: true,
    deploy: stepsOf(
      aStep("write", "deploy", async () => ({ kind: "done" })),
      afterwards("join"),
      aStep("remove", "undeploy", async () => ({ kind: "done" })),
    ),
    clean: stepsOf(aStep("wipe", "clean", async () => ({ kind: "done" }))),
  });
  const provisioning = { url: "http://127.0.0.1:9", mediaFor: () => ({ version: "1", protocol: 2 }) };
  const setup = { drivers: [writing], provisioning };

  async function register(ostler: EngineUnderTest, name: string, checksum: string, userData?: string): Promise<void> {
    const answer = await ostler.engine.registerImages(ALICE, [
      {
        name,
        url: `https://images.example/${name}.raw`,
        format: "RAW",
        sizeBytes: 1_000,
        checksum: { algorithm: "SHA256", value: checksum.repeat(64) },
        architecture: "X64",
        bootMode: null,
        ...(userData !== undefined && { userData }),
      },
    ]);
    expect(answer.refusals).toEqual([]);
  }

  const setImage = async (ostler: EngineUnderTest, name: string | null) =>
    expect(
      (await ostler.engine.updateCluster(ALICE, CLUSTER, { image: name === null ? null : { name } })).refusals,
    ).toEqual([]);

  const aWriter = (ostler: EngineUnderTest) => ostler.aNode().with("writer").in("AVAILABLE").inCluster("berlin").made();

  test("the nodes of a pending change are in the order of their names, also if other things differ [R-1349]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    const [b, a, c] = [
      await ostler.aNode().named("b-1").inCluster(CLUSTER.name).in("AVAILABLE").made(),
      await ostler.aNode().named("A-1").inCluster(CLUSTER.name).in("AVAILABLE").made(),
      await ostler.aNode().named("c-1").inCluster(CLUSTER.name).in("AVAILABLE").made(),
    ];
    await edit(ostler, b, { variables: { rack: "r1" } });
    expect((await pending(ostler))?.groups).toMatchObject([{ reason: "new", nodeIds: [a.id, b.id, c.id] }]);
  });

  test("another image installs again only with reinstall, and is pending until then [R-1056]", async () => {
    await using ostler = await engineUnderTest(setup);
    await aCluster(ostler);
    await register(ostler, "debian-12", "a");
    await register(ostler, "debian-13", "b");
    await setImage(ostler, "debian-12");
    const node = await aWriter(ostler);
    await applied(ostler);
    await setImage(ostler, "debian-13");
    expect(await pending(ostler)).toMatchObject({
      groups: [{ reason: "image: debian-12 → debian-13", kind: "REINSTALL", nodeCount: 1 }],
    });
    expect((await apply(ostler)).refusals).toMatchObject([{ code: "INVALID_STATE", path: ["input", "reinstall"] }]);
    await change(ostler, { ntp: "10.0.0.2" });
    const both = "variables.ntp: 10.0.0.1 → 10.0.0.2; image: debian-12 → debian-13 (only with reinstall: true)";
    expect(await reasons(ostler)).toEqual({ [node.name]: both });
    const configured = await applied(ostler);
    expect((await ostler.steps(await ostler.run(configured.id, node))).map(({ kept }) => kept)).toEqual([true, false]);
    expect(await reasons(ostler)).toEqual({ [node.name]: "INVALID_STATE" });
    const { results } = await apply(ostler, { reinstall: true, dryRun: true });
    expect(results).toMatchObject([{ reason: "image: debian-12 → debian-13", erasesData: true, accepted: true }]);
    const installed = await applied(ostler, { reinstall: true });
    expect((await ostler.steps(await ostler.run(installed.id, node))).map(({ kept }) => kept)).toEqual([false, false]);
    expect(await pending(ostler)).toBeUndefined();
    expect(
      (await ostler.engine.deleteImages(ALICE, { images: [{ name: "debian-13" }], force: true })).refusals,
    ).toMatchObject([{ code: "IN_USE" }]);
  });

  test("new user data of the image is only changed, and another file under the same name is a checksum [R-1056]", async () => {
    await using ostler = await engineUnderTest(setup);
    await aCluster(ostler);
    await register(ostler, "debian-12", "a", "#cloud-config\n# first-secret-7313");
    await setImage(ostler, "debian-12");
    const node = await aWriter(ostler);
    await applied(ostler);
    expect(await reasons(ostler)).toEqual({ [node.name]: null });
    await ostler.engine.updateImage(ALICE, { name: "debian-12" }, { userData: "#cloud-config\n# second-secret-4242" });
    expect(await groups(ostler)).toEqual({ "user data: changed": 1 });
    expect(JSON.stringify([await pending(ostler), await ostler.dump()])).not.toMatch(/secret-(7313|4242)/);
    await setImage(ostler, null);
    expect(await pending(ostler)).toBeUndefined();
    await ostler.engine.deleteImages(ALICE, { images: [{ name: "debian-12" }], force: true });
    await register(ostler, "debian-12", "c", "#cloud-config\n# first-secret-7313");
    await setImage(ostler, "debian-12");
    expect(Object.keys(await groups(ostler))).toEqual([
      expect.stringMatching(/^checksum of image debian-12: a+… → c+…$/),
    ]);
  });

  test("without an image of the cluster, that of the last deployment is installed again", async () => {
    await using ostler = await engineUnderTest(setup);
    await aCluster(ostler);
    await register(ostler, "debian-12", "a");
    const node = await aWriter(ostler);
    expect(await reasons(ostler)).toEqual({ [node.name]: "INVALID_INPUT" });
    await applied(ostler, { image: { name: "debian-12" } });
    expect(await reasons(ostler)).toEqual({ [node.name]: null });
    await ostler.operationEnds(await ostler.begin("UNDEPLOY", [node]));
    expect(await reasons(ostler)).toEqual({ [node.name]: "not deployed" });
    const { id } = await applied(ostler);
    expect(await ostler.operation(id)).toMatchObject({ imageId: (await ostler.node(node)).imageId });
  });
});

describe("chosen steps", () => {
  test("node that a runbook deployed is compared with the runbook as it is now [R-1057]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    const node = await ostler.aNode().in("AVAILABLE").inCluster("berlin").made();
    const steps = ["prepare", "write_image", "boot_system"].map(
      (name) => ({ interface: "deploy", name, args: {} }) as const,
    );
    await ostler.engine.createRunbook(ALICE, { name: "gold", phase: "deploy", steps });
    await ostler.operationEnds(await ostler.begin("DEPLOY", [node], { options: { runbook: "gold" } }));
    expect(await reasons(ostler)).toEqual({ [node.name]: null });
    const longer = [...steps, { interface: "deploy", name: "configure", args: {} } as const];
    await ostler.engine.updateRunbook(ALICE, "gold", { steps: longer });
    expect(await groups(ostler)).toEqual({ "steps: deploy.configure added": 1 });
    const entered = ostler.entered(node).length;
    await applied(ostler);
    expect(enteredBy(ostler, node).slice(entered)).toEqual(["boot_system", "configure"]);
    expect(await pending(ostler)).toBeUndefined();
  });
});

describe("unfinished work", () => {
  test("stopped and failed nodes continue from the stage, each with its reason [R-1051]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    const gate = aGate();
    const stopped = await ostler
      .aNode()
      .in("AVAILABLE")
      .inCluster("berlin")
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .made();
    const failed = await ostler
      .aNode()
      .in("AVAILABLE")
      .inCluster("berlin")
      .scripted({ "deploy.write_image": { fail: "disk", retryable: false } })
      .made();
    const { operationId } = await apply(ostler);
    await gate.arrivals();
    await ostler.nodeBecomes(failed, "DEPLOY_FAILED");
    await ostler.engine.stop(ALICE, { work: { ids: [stopped.id] } });
    gate.open();
    await ostler.operationEnds(operationId ?? "");
    expect(await reasons(ostler)).toEqual({
      [stopped.name]: "stopped in boot_system",
      [failed.name]: "failed in write_image",
    });
    expect(await groups(ostler)).toEqual({ "stopped in boot_system": 1, "failed in write_image": 1 });
    const entered = ostler.entered(stopped).length;
    await edit(ostler, failed, scripted({}));
    const { id } = await applied(ostler);
    expect(enteredBy(ostler, stopped).slice(entered)).toEqual(["boot_system", "configure"]);
    expect(await ostler.nodeStates()).toEqual({ [stopped.name]: "ACTIVE", [failed.name]: "ACTIVE" });
    expect(await ostler.run(id, stopped)).toMatchObject({ attempt: 2 });
    expect(await pending(ostler)).toBeUndefined();
  });
});

describe("nodes that are left alone", () => {
  test("flags, faults and other work are reported, and the others start [R-1052]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    const gate = aGate();
    const inBerlin = () => ostler.aNode().in("AVAILABLE").inCluster("berlin");
    const [free, retired, protectedNode, kept, away, faulty] = await inBerlin().times(6);
    const busy = await inBerlin()
      .scripted({ "clean.erase_metadata": { gate: gate.name } })
      .made();
    if (!free || !retired || !protectedNode || !kept || !away || !faulty) throw new Error("Nodes are missing.");
    await ostler.test
      .sql`update nodes set fault_kind = 'CLEAN_UP_FAILED', fault_since = now(), fault_message = 'odd' where id = ${faulty.id}`;
    await ostler.engine.setRetired(ALICE, { ids: [retired.id] }, "old");
    await edit(ostler, protectedNode, { isProtected: true });
    await ostler.engine.setMaintenance(ALICE, { ids: [kept.id] }, "fan");
    await ostler.engine.reportPresence(ALICE, "DISAPPEARED", [{ name: away.name }] as never);
    const cleaning = await ostler.begin("CLEAN", [busy]);
    await gate.arrivals();
    expect(await reasons(ostler)).toEqual({
      [free.name]: "new",
      [retired.name]: "PROTECTED",
      [protectedNode.name]: "PROTECTED",
      [kept.name]: "IN_MAINTENANCE",
      [away.name]: "INVALID_STATE",
      [faulty.name]: "INVALID_STATE",
      [busy.name]: "BUSY",
    });
    expect(await pending(ostler)).toMatchObject({ count: 1 });
    const { operationId, refusals } = await apply(ostler);
    expect(refusals).toEqual([]);
    expect(await ostler.operationEnds(operationId ?? "")).toMatchObject({ state: "SUCCEEDED", totalCount: 1 });
    gate.open();
    await ostler.operationEnds(cleaning);
  });

  test("named nodes outside of the cluster are refused by name, and nothing starts [R-1053]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    const member = await ostler.aNode().in("AVAILABLE").inCluster("berlin").made();
    const stranger = await ostler.aNode().in("AVAILABLE").made();
    const before = await ostler.dump();
    expect((await apply(ostler, { nodes: { names: [member.name, stranger.name] } })).refusals).toEqual([
      {
        code: "NOT_FOUND",
        message: `${stranger.name} is not in cluster berlin.`,
        missing: [stranger.name],
        path: ["input", "nodes"],
      },
    ]);
    expect(await apply(ostler, { nodes: { names: ["nowhere", stranger.name] } })).toMatchObject({
      refusals: [
        { code: "NOT_FOUND", missing: ["nowhere"] },
        { code: "NOT_FOUND", missing: [stranger.name] },
      ],
    });
    expect(await ostler.engine.applyCluster(ALICE, { cluster: { name: "paris" } })).toMatchObject({
      refusals: [{ code: "NOT_FOUND" }],
    });
    expect(await ostler.changesSince(before)).toEqual([]);
    const all = await apply(ostler, { nodes: { all: true }, dryRun: true });
    expect(all.results.map(({ ref }) => ref)).toEqual([member.name]);
  });
});

describe("requests", () => {
  test("of two at once exactly one wins, and the other is BUSY or has nothing to do [R-1054]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    await ostler.aNode().in("AVAILABLE").inCluster("berlin").times(10);
    const answers = await Promise.all([apply(ostler), apply(ostler), apply(ostler)]);
    const won = answers.filter(({ operationId }) => operationId !== null);
    expect(won).toHaveLength(1);
    for (const { operationId, refusals } of answers)
      if (operationId === null) expect(refusals.every(({ code }) => code === "BUSY")).toBe(true);
    await ostler.operationEnds(won[0]?.operationId ?? "");
  });

  test("planHash of a plan holds until an input changes [R-1055]", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    await ostler.aNode().in("AVAILABLE").inCluster("berlin").made();
    const { planHash } = await apply(ostler, { dryRun: true });
    await change(ostler, { ntp: "10.0.0.9" });
    const stale = await apply(ostler, { planHash: planHash ?? "" });
    expect(stale.refusals).toMatchObject([{ code: "STALE_REVISION" }]);
    const fresh = await apply(ostler, { dryRun: true });
    await applied(ostler, { planHash: fresh.planHash ?? "" });
  });

  test("repeated idempotency key answers the same operation", async () => {
    await using ostler = await engineUnderTest();
    await aCluster(ostler);
    await ostler.aNode().in("AVAILABLE").inCluster("berlin").made();
    const first = await apply(ostler, { idempotencyKey: "once" });
    await ostler.operationEnds(first.operationId ?? "");
    expect(await apply(ostler, { idempotencyKey: "once" })).toMatchObject({
      operationId: first.operationId,
      replayed: true,
    });
    expect(await apply(ostler, { idempotencyKey: "once", reinstall: true })).toMatchObject({
      refusals: [{ code: "IDEMPOTENCY_MISMATCH" }],
    });
  });
});
