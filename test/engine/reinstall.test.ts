/**
 * Deployments and commissions of nodes on which a system is installed: what they keep, what they erase, what they
 * refuse.
 */
import { afterAll, describe, expect, test } from "vitest";
import type { StepChoice } from "../../src/store/records.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const done = async () => ({ kind: "done" }) as const;
const { reaches: _, ...boot } = aStep("boot", "deploy", done);
const optional = aDriver("optional", {
  clean: stepsOf(aStep("wipe", "clean", done)),
  deploy: stepsOf(aStep("install", "deploy", done, { priority: 0 }), boot),
});
const bare = aDriver("bare", { deploy: stepsOf(boot) });

const ostler = await engineUnderTest({ drivers: [optional, bare] });
afterAll(() => ostler[Symbol.asyncDispose]());

const step = (name: string, from: StepChoice["interface"] = "deploy"): StepChoice => ({
  interface: from,
  name,
  args: {},
});

/** A node whose deployment was stopped after its system had been installed. */
async function stoppedWhenInstalled(kind: "DEPLOY" | "COMMISSION" = "COMMISSION") {
  const gate = aGate();
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.boot_system": { gate: gate.name } })
    .made();
  const id = await ostler.begin(kind, [node]);
  await gate.arrivals();
  await ostler.engine.stop(ALICE, { work: { operationId: id } });
  gate.open();
  await ostler.operationEnds(id);
  expect(await ostler.node(node)).toMatchObject({ state: "STOPPED", stage: "PROVISIONED" });
  return node;
}

describe("deployment of an ACTIVE node", () => {
  test("deployNodes does not reinstall an ACTIVE node unasked [R-161]", async () => {
    const node = await ostler.aNode().in("ACTIVE").made();
    const answer = await ostler.submit("DEPLOY", [node]);
    expect(answer.refusals).toMatchObject([
      {
        code: "INVALID_STATE",
        message: expect.stringContaining("reinstall: true"),
        allowedStates: ["AVAILABLE", "DEPLOY_FAILED"],
      },
    ]);
    expect(ostler.entered(node)).toEqual([]);
  });

  test("deployNodes with reinstall erases an ACTIVE node, as its plan says [R-161]", async () => {
    const node = await ostler.aNode().in("ACTIVE").made();
    const options = { reinstall: true };
    expect((await ostler.submit("DEPLOY", [node], { options, dryRun: true })).results).toMatchObject([
      { accepted: true, erasesData: true },
    ]);
    await ostler.operationEnds(await ostler.begin("DEPLOY", [node], { options }));
    expect(ostler.entered(node)).toContain("deploy.write_image");
  });

  test("plan of an AVAILABLE node erases no data, nor does one that only starts the installed system", async () => {
    const [available, active] = [await ostler.aNode().in("AVAILABLE").made(), await ostler.aNode().in("ACTIVE").made()];
    expect((await ostler.submit("DEPLOY", [available], { dryRun: true })).results).toMatchObject([
      { erasesData: false },
    ]);
    const options = { reinstall: true, steps: [step("boot_system")] };
    expect((await ostler.submit("DEPLOY", [active], { dryRun: true, options })).results).toMatchObject([
      { erasesData: false },
    ]);
  });
});

describe("commission of a node with an installed system", () => {
  test("commissionNodes does not erase and install again what a stopped commission installed [R-160]", async () => {
    const node = await stoppedWhenInstalled();
    const mark = ostler.entered(node).length;
    const id = await ostler.begin("COMMISSION", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(ostler.entered(node).slice(mark)).toEqual(["deploy.boot_system", "deploy.configure"]);
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", stage: "DEPLOYED" });
  });

  test("commission from BEGINNING erases the installed system, as its plan says [R-160]", async () => {
    const node = await stoppedWhenInstalled();
    const [kept, erased] = [
      await ostler.submit("COMMISSION", [node], { dryRun: true }),
      await ostler.submit("COMMISSION", [node], { dryRun: true, options: { from: "BEGINNING" } }),
    ];
    expect(kept.results).toMatchObject([{ erasesData: false }]);
    expect(erased.results).toMatchObject([{ erasesData: true }]);
    expect(erased.results[0]?.plan?.steps.map(({ name }) => name)).toContain("erase_disks");
  });

  test("commission until AVAILABLE refuses to erase an installed system unasked [R-160]", async () => {
    const node = await stoppedWhenInstalled("DEPLOY");
    const until = "AVAILABLE" as const;
    expect((await ostler.submit("COMMISSION", [node], { options: { until } })).refusals).toMatchObject([
      { code: "INVALID_STATE", message: expect.stringContaining("from: BEGINNING") },
    ]);
    await ostler.operationEnds(await ostler.begin("COMMISSION", [node], { options: { until, from: "BEGINNING" } }));
    expect(await ostler.node(node)).toMatchObject({ state: "AVAILABLE", stage: "NONE" });
  });
});

describe("deployment that installs nothing", () => {
  test("deployNodes with steps that install nothing does not make a node ACTIVE [R-162]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const options = { steps: [step("prepare"), step("hold", "engine")] };
    expect((await ostler.submit("DEPLOY", [node], { options })).refusals).toMatchObject([
      {
        code: "INVALID_INPUT",
        message: expect.stringContaining("add deploy.write_image to the steps"),
        path: ["input", "steps"],
        nodeId: node.id,
      },
    ]);
    expect(await ostler.nodeState(node)).toBe("AVAILABLE");
  });

  test.each(["DEPLOY", "COMMISSION", "REDEPLOY"] as const)(
    "%s of a node whose driver installs only on request is refused [R-162]",
    async (kind) => {
      const node = await ostler
        .aNode()
        .in(kind === "REDEPLOY" ? "ACTIVE" : "AVAILABLE")
        .with("optional")
        .made();
      expect((await ostler.submit(kind, [node])).refusals).toMatchObject([
        { code: "UNSUPPORTED_BY_DRIVER", message: expect.stringContaining("deploy.install") },
      ]);
    },
  );

  test("deployment with a driver without a step that installs is refused [R-162]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("bare").made();
    expect((await ostler.submit("DEPLOY", [node])).refusals).toMatchObject([
      { code: "UNSUPPORTED_BY_DRIVER", message: expect.stringContaining("driver bare has no such step") },
    ]);
  });

  test("deployment of an installed node with steps that install nothing keeps its system [R-162]", async () => {
    const node = await ostler
      .aNode()
      .in("ACTIVE")
      .scripted({ "deploy.configure": { fail: "no route" } })
      .made();
    const options = { reinstall: true, steps: [step("boot_system"), step("configure")] };
    await ostler.operationEnds(await ostler.begin("DEPLOY", [node], { options }));
    expect(await ostler.node(node)).toMatchObject({ state: "DEPLOY_FAILED", stage: "PROVISIONED" });
  });
});

describe("site policy", () => {
  test.each([
    { what: "forbids", rule: { step: "deploy.write_image", forbidden: true } },
    { what: "disables", rule: { step: "deploy.write_image", driver: "fake", priority: 0 } },
  ])("updateSite that $what the only step that installs a system is refused [R-162]", async ({ rule }) => {
    expect(
      (await ostler.engine.updateSite(ALICE, { steps: [{ step: "deploy.configure", priority: 5 }, rule] })).refusals,
    ).toMatchObject([
      {
        code: "INVALID_INPUT",
        message: expect.stringContaining("nodes of driver fake"),
        path: ["input", "steps", "1", "step"],
      },
    ]);
  });

  test("updateSite may disable a step that installs a system for drivers that never run it automatically", async () => {
    const rule = { step: "deploy.install", driver: "optional" };
    expect((await ostler.engine.updateSite(ALICE, { steps: [{ ...rule, priority: 0 }] })).refusals).toEqual([]);
    expect((await ostler.engine.updateSite(ALICE, { steps: [{ ...rule, forbidden: true }] })).refusals).toHaveLength(1);
    expect((await ostler.engine.updateSite(ALICE, { steps: [] })).done).toBe(true);
  });
});
