/** Several drivers that deploy a node, drivers without power, and revisions of what a driver runs. */
import { describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import type { Driver, PowerInterface } from "../../src/drivers/driver.ts";
import type { BorrowedInterfaces } from "../../src/engine/inventory/node-settings.ts";
import { isPoweredOffByAbort } from "../../src/lifecycle/verbs.ts";
import { plansByHashes } from "../../src/store/runs/plans.ts";
import { changeNode } from "../support/change-node.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnySettings } from "../support/driver.ts";

const done = async () => ({ kind: "done" as const });

/** Installs a system, as the driver `agent` does. */
function installer(): Driver<never> {
  return aDriver("installer", {
    deploy: stepsOf(
      aStep("write_image", "deploy", done, { priority: 80, reaches: "PROVISIONED" }),
      aStep("await_call_home", "deploy", done, { priority: 20 }),
      aStep("erase_disks", "undeploy", done, { priority: 50 }),
    ),
    clean: stepsOf(aStep("erase", "clean", done)),
  });
}

interface Configurer {
  revision: string;
  reads: number;
  fails: boolean;
}

/** Configures a system, as the driver `ansible` does: without power, with a revision. */
function configurer(made: Configurer): Driver<never> {
  const power: PowerInterface<AnySettings> = {
    async read() {
      made.reads += 1;
      return "UNKNOWN";
    },
  };
  const driver = aDriver("configurer", {
    deploy: stepsOf(
      aStep("check_system", "deploy", done, { priority: 10, reaches: "PROVISIONED" }),
      aStep(
        "configure",
        "deploy",
        async () => (made.fails ? { kind: "failed", reason: "the play failed", retryable: false } : { kind: "done" }),
        { priority: 5 },
      ),
      aStep("unconfigure", "undeploy", done, { priority: 120 }),
    ),
    clean: stepsOf(aStep("reset", "clean", done, { touches: [] })),
  });
  const revision = () => {
    if (made.revision === "") throw new Error("the project is lost.");
    return made.revision;
  };
  return Object.assign(driver, { power, revision });
}

async function lab() {
  const made: Configurer = { revision: "one", reads: 0, fails: false };
  const ostler = await engineUnderTest({ drivers: [aDriver("bmc"), installer(), configurer(made)] });
  return { ...ostler, made };
}

/** A node whose BMC has a driver of its own, that one driver installs and another configures. */
function composed(ostler: EngineUnderTest) {
  return ostler
    .aNode()
    .with("bmc")
    .borrowing([
      { kinds: ["deploy", "clean"], driver: "installer" },
      { kinds: ["deploy"], driver: "configurer" },
    ]);
}

const planned = async (ostler: EngineUnderTest, id: string, node: TestNode) => {
  const steps = await ostler.steps(await ostler.run(id, node));
  return steps.map(({ name: label, kept }) => {
    const name = label.split(".").at(-1) ?? "";
    return kept ? `${name} (kept)` : name;
  });
};

describe("deployment by several drivers", () => {
  test("the steps of all drivers that deploy a node run by priority [R-1231]", async () => {
    await using ostler = await lab();
    const node = await composed(ostler).in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await planned(ostler, id, node)).toEqual(["write_image", "await_call_home", "check_system", "configure"]);
    const undeploy = await ostler.begin("UNDEPLOY", [node]);
    expect(await planned(ostler, undeploy, node)).toEqual(["unconfigure", "erase_disks", "erase"]);
    expect((await ostler.operationEnds(undeploy)).state).toBe("SUCCEEDED");
  });

  test("a restart keeps the system that one driver has installed, and another one configures it [R-1231]", async () => {
    await using ostler = await lab();
    const node = await composed(ostler).in("AVAILABLE").made();
    ostler.made.fails = true;
    const id = await ostler.begin("DEPLOY", [node], { onFailure: "LEAVE" });
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    ostler.made.fails = false;
    const { operationId } = await ostler.engine.restart(ALICE, { work: { ids: [node.id] }, from: "STAGE" });
    const again = operationId ?? "";
    expect((await ostler.operationEnds(again)).state).toBe("SUCCEEDED");
    expect(await planned(ostler, again, node)).toEqual([
      "write_image (kept)",
      "await_call_home",
      "check_system",
      "configure",
    ]);
  });

  test("an edit of another field keeps which driver installs, and which one configures [R-1231]", async () => {
    await using ostler = await lab();
    const node = await composed(ostler).in("AVAILABLE").made();
    const before = await ostler.node(node);
    expect([before.borrowed["deploy"], before.fallbacks["deploy"]]).toEqual(["installer", ["configurer"]]);
    await changeNode(ostler.engine, ALICE, node.id, { driver: "bmc", settings: {} });
    const after = await ostler.node(node);
    expect([after.borrowed, after.fallbacks]).toEqual([before.borrowed, before.fallbacks]);
  });

  test("another interface of steps is given once, and DEPLOY has no fallback", async () => {
    await using ostler = await lab();
    const refusalOf = async (interfaces: readonly BorrowedInterfaces[]) => {
      const answer = await ostler.engine.registerNodes(ALICE, [{ name: "n", driver: "bmc", settings: {}, interfaces }]);
      return answer.refusals.map(({ message }) => message).join(" ");
    };
    const twice = [
      { kinds: ["clean"], driver: "installer" },
      { kinds: ["clean"], driver: "configurer" },
    ];
    expect(await refusalOf(twice)).toContain("clean is given twice");
    expect(await refusalOf([{ kinds: [], fallbackFor: ["deploy"], driver: "configurer" }])).toContain("no fallbacks");
  });
});

describe("a driver without power", () => {
  const alone = (ostler: EngineUnderTest) => ostler.aNode().with("configurer");

  test("changes of power are refused with UNSUPPORTED_BY_DRIVER, in a list of steps too [R-1216]", async () => {
    await using ostler = await lab();
    const node = await alone(ostler).in("AVAILABLE").made();
    const power = await ostler.submit("POWER", [node], { options: { powerAction: "ON" } });
    expect(power.refusals).toMatchObject([{ code: "UNSUPPORTED_BY_DRIVER" }]);
    const steps = [{ interface: "power" as const, name: "power_off", args: {} }];
    const list = await ostler.submit("CLEAN", [node], { options: { steps } });
    expect(list.refusals[0]?.message).toContain("cannot change the power");
  });

  test("a node is verified by the login, and its power is not read in the background [R-1215]", async () => {
    await using ostler = await lab();
    const node = await alone(ostler).made();
    const id = await ostler.begin("MANAGE", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    const { reads } = ostler.made;
    expect(reads).toBe(1);
    const other = await ostler.aNode().with("bmc").in("MANAGEABLE").made();
    await using reader = await ostler.another({ powerSeconds: 0.05 });
    void reader;
    await eventually("a node with power is read", async () => (await ostler.node(other)).powerState === "OFF");
    await eventually("the other is not forgotten", async () => (await ostler.node(node)).powerCheckedAt !== null);
    expect([ostler.made.reads, (await ostler.node(node)).powerState]).toEqual([reads, "UNKNOWN"]);
  });

  test("a failure leaves the power, and reports no error because of it [R-1217]", async () => {
    await using ostler = await lab();
    const node = await alone(ostler).in("AVAILABLE").made();
    ostler.made.fails = true;
    const id = await ostler.begin("DEPLOY", [node], { onFailure: "LEAVE" });
    await ostler.operationEnds(id);
    const { leftAs, failure } = await ostler.run(id, node);
    expect(failure?.message).toContain("the play failed");
    expect(leftAs).toMatchObject({ power: "UNKNOWN", tearDownError: null });
    expect((await ostler.node(node)).state).toBe("DEPLOY_FAILED");
  });
});

test("an abort of work on a node without power cuts it only if it says so [R-1217]", () => {
  const place = { state: "DEPLOYING", phase: "deploy" } as const;
  const without = { ...place, keepsPower: true } as const;
  expect([isPoweredOffByAbort(null, place), isPoweredOffByAbort(null, without)]).toEqual([true, false]);
  expect(isPoweredOffByAbort(true, without)).toBe(true);
});

describe("the revision of what a driver runs", () => {
  const alone = (ostler: EngineUnderTest) => ostler.aNode().with("configurer").in("AVAILABLE").made();

  test("a plan has the revision, and its hash does not hold for another one [R-1218]", async () => {
    await using ostler = await lab();
    const node = await alone(ostler);
    const { planHash } = await ostler.submit("DEPLOY", [node], { dryRun: true });
    ostler.made.revision = "two";
    const stale = await ostler.submit("DEPLOY", [node], { planHash: planHash ?? "" });
    expect(stale.refusals).toMatchObject([{ code: "STALE_REVISION" }]);
    ostler.made.revision = "one";
    const id = await ostler.begin("DEPLOY", [node], { planHash: planHash ?? "" });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    const [plan] = (await plansByHashes(ostler.database.reader, [(await ostler.run(id, node)).planHash])).values();
    expect(plan?.steps.map(({ revision }) => revision)).toEqual(["one", "one"]);
  });

  test("a step is refused if what it runs has changed since the plan, and a restart works with that [R-1219]", async () => {
    await using ostler = await lab();
    const node = await alone(ostler);
    const steps = [
      { interface: "deploy" as const, name: "check_system", args: {} },
      { interface: "engine" as const, name: "hold", args: {} },
      { interface: "deploy" as const, name: "configure", args: {} },
    ];
    const id = await ostler.begin("DEPLOY", [node], { options: { steps }, onFailure: "LEAVE" });
    await eventually("it holds", async () => (await ostler.run(id, node)).state === "HOLDING");
    ostler.made.revision = "two";
    await ostler.engine.unhold(ALICE, { work: { ids: [node.id] } });
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect((await ostler.run(id, node)).failure).toMatchObject({ code: "STALE_REVISION", retryable: false });
  });

  test("a driver that cannot state its revision refuses the plan with the reason", async () => {
    await using ostler = await lab();
    const node = await alone(ostler);
    ostler.made.revision = "";
    const answer = await ostler.submit("DEPLOY", [node]);
    expect(answer.refusals[0]).toMatchObject({
      code: "UNSUPPORTED_BY_DRIVER",
      message: expect.stringContaining("configurer: the project is lost.") as string,
    });
  });
});
