/** Automatic and requested cleaning: which steps run, in which states, under which policy of the site. */
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { SiteChange } from "../../src/engine/inventory/site.ts";
import { changeNodeRows } from "../../src/store/nodes/nodes.ts";
import type { StepChoice } from "../../src/store/records.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import { heldIn } from "../support/held-work.ts";
import { fakeSteps } from "../support/fake-steps.ts";

const entered: string[] = [];
const noting = (name: string) => async () => {
  entered.push(name);
  return { kind: "done" } as const;
};
const tied = aDriver("tied", {
  clean: stepsOf(
    ...["delta", "alpha", "first", "charlie", "bravo"].map((name) =>
      aStep(name, "clean", noting(name), { priority: name === "first" ? 6 : 5 }),
    ),
  ),
});

/** Offers no inspection. */
const cleaner = aDriver("cleaner", { clean: stepsOf(aStep("wipe", "clean", async () => ({ kind: "done" }))) });

const ostler = await engineUnderTest({ drivers: [tied, cleaner] });
afterAll(() => ostler[Symbol.asyncDispose]());
afterEach(() => site({ automaticCleaning: null, steps: null }));

const { engine } = ostler;
const step = (name: string, args: object = {}, from: StepChoice["interface"] = "clean") =>
  ({ interface: from, name, args }) as StepChoice;

async function site(change: SiteChange): Promise<void> {
  expect(await engine.updateSite(ALICE, change)).toEqual({ done: true, refusals: [] });
}

/** The node's own setting of automatic cleaning. */
async function setAutomaticCleaning(node: TestNode, automaticCleaning: boolean): Promise<void> {
  await ostler.transact(({ tx }) => changeNodeRows(tx, [node.id], { automaticCleaning }));
}

async function succeeds(id: string): Promise<void> {
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
}

const cleanSteps = (node: TestNode) => ostler.entered(node).filter((name) => name.startsWith("clean."));
const ALL = fakeSteps("clean");

describe("automatic cleaning", () => {
  const WAYS = [
    { kind: "COMMISSION", from: "MANAGEABLE", more: { options: { until: "AVAILABLE" } }, end: "AVAILABLE" },
    { kind: "PROVIDE", from: "MANAGEABLE", more: {}, end: "AVAILABLE" },
    { kind: "UNDEPLOY", from: "ACTIVE", more: {}, end: "AVAILABLE" },
    { kind: "DECOMMISSION", from: "ACTIVE", more: {}, end: "DECOMMISSIONED" },
  ] as const;

  test.each(WAYS)(
    "automatic cleaning that is switched off for the site runs no clean step in $kind and keeps the states [R-022]",
    async ({ kind, from, more, end }) => {
      const [usual, spared] = [await ostler.aNode().in(from).made(), await ostler.aNode().in(from).made()];
      const first = await ostler.begin(kind, [usual], more);
      await succeeds(first);
      await site({ automaticCleaning: false });
      const second = await ostler.begin(kind, [spared], more);
      await succeeds(second);
      expect(await ostler.nodeState(spared)).toBe(end);
      expect(await ostler.story(spared, second)).toEqual(await ostler.story(usual, first));
      expect(await ostler.story(spared, second)).toContain("clean → CLEANING");
      expect([cleanSteps(usual), cleanSteps(spared)]).toEqual([ALL, []]);
    },
  );

  test("automatic cleaning follows the node's own setting first [R-022]", async () => {
    await site({ automaticCleaning: false });
    const [wants, obeys] = await ostler.aNode().in("MANAGEABLE").times(2);
    await setAutomaticCleaning(wants as TestNode, true);
    await succeeds(
      await ostler.begin("COMMISSION", [wants as TestNode, obeys as TestNode], { options: { until: "AVAILABLE" } }),
    );
    expect(cleanSteps(wants as TestNode)).toEqual(ALL);
    expect(cleanSteps(obeys as TestNode)).toEqual([]);
    await site({ automaticCleaning: true });
    const spared = await ostler.aNode().in("ACTIVE").made();
    await setAutomaticCleaning(spared, false);
    await succeeds(await ostler.begin("UNDEPLOY", [spared]));
    expect(cleanSteps(spared)).toEqual([]);
  });

  test("automatic cleaning that is switched off skips the clean steps of a clean-up after a failure too", async () => {
    await site({ automaticCleaning: false });
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { fail: "no image" } })
      .made();
    const id = await ostler.begin("COMMISSION", [node]);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.nodeState(node)).toBe("AVAILABLE");
    expect(ostler.entered(node)).toEqual(["deploy.prepare", "deploy.remove_system"]);
  });

  test("automatic cleaning that is switched off does not affect requested cleaning, with or without a list of steps", async () => {
    await site({ automaticCleaning: false });
    const node = await ostler.aNode().in("AVAILABLE").made();
    await setAutomaticCleaning(node, false);
    await succeeds(await ostler.begin("CLEAN", [node]));
    expect(cleanSteps(node)).toEqual(ALL);
    await succeeds(await ostler.begin("CLEAN", [node], { options: { steps: [step("erase_disks")] } }));
    expect(cleanSteps(node)).toEqual([...ALL, "clean.erase_disks"]);
  });
});

describe("provision", () => {
  test("a node whose driver cannot inspect becomes AVAILABLE by cleaning alone [R-230]", async () => {
    const node = await ostler.aNode().in("MANAGEABLE").with("cleaner").made();
    const id = await ostler.begin("PROVIDE", [node]);
    await succeeds(id);
    expect(await ostler.story(node, id)).toEqual(["clean → CLEANING", "done → AVAILABLE"]);
  });

  test("a failed provision is repeated, and restarted, from CLEAN_FAILED to AVAILABLE [R-230]", async () => {
    const [again, restarted] = await ostler
      .aNode()
      .in("MANAGEABLE")
      .scripted({ "clean.erase_metadata": { failures: 1, retryable: false } })
      .times(2);
    const id = await ostler.begin("PROVIDE", [again as TestNode, restarted as TestNode]);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    await succeeds(await ostler.begin("PROVIDE", [again as TestNode]));
    const work = { names: [(restarted as TestNode).name] };
    const { operationId } = await engine.restart(ALICE, { work });
    await succeeds(operationId ?? "");
    expect([await ostler.nodeState(again as TestNode), await ostler.nodeState(restarted as TestNode)]).toEqual([
      "AVAILABLE",
      "AVAILABLE",
    ]);
  });
});

describe("order of clean steps", () => {
  test("clean steps run by priority, and in their order of declaration where that is equal", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("tied").made();
    await succeeds(await ostler.begin("CLEAN", [node]));
    expect(entered).toEqual(["first", "delta", "alpha", "charlie", "bravo"]);
  });

  test("clean steps follow the site's priorities: a disabled step still runs by name, a forbidden one does not [R-063]", async () => {
    await site({
      steps: [
        { step: "clean.erase_disks", priority: 21 },
        { step: "clean.erase_metadata", driver: "fake", priority: 0 },
        { step: "clean.update_firmware", forbidden: true },
      ],
    });
    const node = await ostler.aNode().in("MANAGEABLE").made();
    await succeeds(await ostler.begin("CLEAN", [node]));
    const without = ALL.filter((one) => one !== "clean.erase_metadata");
    expect(cleanSteps(node)).toEqual(without);
    const both = { options: { steps: [step("erase_metadata"), step("update_firmware", { version: "1.0" })] } };
    expect((await ostler.submit("CLEAN", [node], both)).refusals).toMatchObject([
      { code: "INVALID_INPUT", nodeId: node.id, path: ["input", "steps", "1", "name"] },
    ]);
    await succeeds(await ostler.begin("CLEAN", [node], { options: { steps: [step("erase_metadata")] } }));
    expect(cleanSteps(node)).toEqual([...without, "clean.erase_metadata"]);
  });

  test("clean steps of accepted work stay when the policy changes; its restart follows the new policy", async () => {
    const { gate, node, id } = await heldIn(ostler, "clean.erase_metadata");
    await site({ steps: [{ step: "clean.erase_disks", forbidden: true }] });
    gate.open();
    await succeeds(id);
    expect(cleanSteps(node)).toEqual(ALL);
    const shut = aGate();
    const stopped = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { gate: shut.name } })
      .made();
    await site({ steps: null });
    const second = await ostler.begin("CLEAN", [stopped]);
    await shut.arrivals();
    await engine.stop(ALICE, { work: { operationId: second } });
    shut.open();
    await ostler.operationEnds(second);
    await site({ steps: [{ step: "clean.erase_disks", forbidden: true }] });
    const again = await engine.restart(ALICE, { work: { operationId: second }, from: "UNFINISHED_STEP" });
    await succeeds(again.operationId ?? "");
    expect(cleanSteps(stopped)).toEqual(ALL.filter((one) => one !== "clean.erase_disks"));
  });
});

describe("list of steps", () => {
  test("list of clean steps runs in its order, with power changes and waits between, and the node ends where it began [R-021]", async () => {
    for (const state of ["MANAGEABLE", "AVAILABLE"] as const) {
      const node = await ostler.aNode().in(state).made();
      const steps = [
        step("power_on", {}, "power"),
        step("wait", { seconds: 0 }, "engine"),
        step("update_firmware", { version: "2.1" }),
        step("reboot", {}, "power"),
        step("update_firmware", { version: "2.2" }),
        step("power_off", {}, "power"),
      ];
      const id = await ostler.begin("CLEAN", [node], { options: { steps } });
      await succeeds(id);
      expect(await ostler.nodeState(node)).toBe(state);
      expect(ostler.powerCalls(node)).toEqual(["ON", "REBOOT", "OFF"]);
      const seen = await ostler.steps(await ostler.run(id, node));
      expect(
        seen.map(({ name, phase, attempts }) => [name, phase, attempts.map((attempt) => attempt.state).join()]),
      ).toEqual(steps.map(({ interface: from, name }) => [`${from}.${name}`, "clean", "SUCCEEDED"]));
      expect([seen[2], seen[4]].map((one) => one?.attempts[0]?.output)).toEqual([
        { version: "2.1" },
        { version: "2.2" },
      ]);
    }
  });

  test("list of deploy steps replaces the automatic ones and sets where the node ends", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [node], {
      options: { steps: [step("write_image", {}, "deploy"), step("power_on", {}, "power")] },
    });
    await succeeds(id);
    expect(await ostler.node(node)).toMatchObject({ state: "ACTIVE", stage: "DEPLOYED", powerState: "ON" });
    expect(ostler.entered(node)).toEqual(["deploy.write_image"]);
  });

  test("list of steps with no step or more than 100 is refused and leaves no trace", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const before = await ostler.dump();
    for (const kind of ["CLEAN", "DEPLOY"] as const) {
      for (const steps of [[], Array.from({ length: 101 }, () => step("erase_disks"))]) {
        expect(
          (await ostler.submit(kind, [node], { options: { steps }, maxParallel: 0 })).refusals.map(
            ({ code, path }) => `${code} ${path?.join(".")}`,
          ),
        ).toEqual(["INVALID_INPUT input.maxParallel", "INVALID_INPUT input.steps"]);
      }
    }
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  test("list of steps with errors is refused with every error on every node [R-064]", async () => {
    const fake = await ostler.aNode().in("AVAILABLE").made();
    const other = await ostler.aNode().in("AVAILABLE").with("tied").made();
    const before = await ostler.dump();
    const { results, refusals } = await ostler.submit("CLEAN", [fake, other], {
      options: {
        steps: [step("alpha"), step("erase_disks", { deep: 1, twice: 2 }), step("wait", { seconds: -5 }, "engine")],
      },
    });
    const of = (node: TestNode, ...places: string[]) => places.map((place) => `${node.name} input.steps.${place}`);
    const wrong = [
      of(fake, "0.name", "1.args.deep", "1.args.twice", "2.args.seconds"),
      of(other, "1.name", "2.args.seconds"),
    ];
    const nameOf = (id: string | undefined) => [fake, other].find((node) => node.id === id)?.name;
    expect(
      results.map(({ refusal, further = [] }) =>
        [refusal, ...further].map((one) => `${nameOf(one?.nodeId)} ${one?.path?.join(".")}`),
      ),
    ).toEqual(wrong);
    expect(refusals).toMatchObject([{ code: "INVALID_INPUT", nodes: { count: 2, refs: [fake.id, other.id] } }]);
    expect(await ostler.changesSince(before)).toEqual([]);
  });
});

describe("restart of a list of steps", () => {
  const steps = [
    step("reboot", {}, "power"),
    step("erase_metadata"),
    step("reboot", {}, "power"),
    step("erase_disks"),
    step("reboot", {}, "power"),
  ];

  test("restart of a list of steps from the unfinished step keeps the finished ones, counting repeated names one by one", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("MANAGEABLE")
      .scripted({ "clean.erase_metadata": { gate: gate.name } })
      .made();
    const id = await ostler.begin("CLEAN", [node], { options: { steps } });
    await gate.arrivals();
    await engine.stop(ALICE, { work: { operationId: id } });
    gate.open();
    await ostler.operationEnds(id);
    const again = await engine.restart(ALICE, { work: { operationId: id }, from: "UNFINISHED_STEP" });
    await succeeds(again.operationId ?? "");
    expect((await ostler.steps(await ostler.run(again.operationId ?? "", node))).map(({ kept }) => kept)).toEqual([
      true,
      true,
      false,
      false,
      false,
    ]);
    expect(ostler.powerCalls(node)).toEqual(["REBOOT", "REBOOT", "REBOOT"]);
  });

  test("restart of a list of steps after an abort that switched the node off does not rely on the power", async () => {
    const gate = aGate();
    const node = await ostler
      .aNode()
      .in("MANAGEABLE")
      .scripted({ "clean.erase_disks": { gate: gate.name } })
      .made();
    const id = await ostler.begin("CLEAN", [node], {
      options: { steps: [step("erase_metadata"), step("power_on", {}, "power"), step("erase_disks")] },
    });
    await gate.arrivals();
    await engine.abort(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    gate.open();
    const again = await engine.restart(ALICE, { work: { operationId: id }, from: "UNFINISHED_STEP" });
    await succeeds(again.operationId ?? "");
    expect((await ostler.steps(await ostler.run(again.operationId ?? "", node))).map(({ kept }) => kept)).toEqual([
      true,
      false,
      false,
    ]);
    expect(ostler.powerCalls(node)).toEqual(["ON", "OFF", "ON"]);
  });

  test("restart of a list of steps is refused with the step that the site has forbidden since", async () => {
    const node = await ostler
      .aNode()
      .in("MANAGEABLE")
      .scripted({ "clean.erase_disks": { failures: 1, retryable: false } })
      .made();
    const id = await ostler.begin("CLEAN", [node], { options: { steps: [step("erase_disks")] } });
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    await site({ steps: [{ step: "clean.erase_disks", forbidden: true }] });
    const { operationId, refusals } = await engine.restart(ALICE, { work: { operationId: id } });
    expect(operationId).toBeNull();
    expect(refusals).toEqual([
      {
        code: "INVALID_INPUT",
        nodeId: node.id,
        message: `Step clean.erase_disks on node ${node.name}: the site's policy forbids it. Leave it out, or change the policy with updateSite.`,
      },
    ]);
  });
});

test("manual cleaning of a MANAGEABLE node that was aborted and repeated ended AVAILABLE: it ends MANAGEABLE [R-195]", async () => {
  const gate = aGate();
  const node = await ostler
    .aNode()
    .in("MANAGEABLE")
    .scripted({ "clean.erase_disks": { gate: gate.name } })
    .made();
  const steps = [{ interface: "clean", name: "erase_disks", args: {} }] as const;
  const first = await ostler.begin("CLEAN", [node], { options: { steps } });
  await gate.arrivals();
  await ostler.engine.abort(ALICE, { work: { operationId: first } });
  await ostler.operationEnds(first);
  expect(await ostler.nodeState(node)).toBe("CLEAN_FAILED");
  gate.open();
  await ostler.operationEnds(await ostler.begin("CLEAN", [node]));
  expect(await ostler.nodeState(node)).toBe("MANAGEABLE");
});
