/** Runbooks: what is checked when one is saved and when one is used, and what an operation keeps of it. */
import { afterAll, describe, expect, test } from "vitest";
import type { StepChoice } from "../../src/store/records.ts";
import { allRunbooks, runbookByName } from "../../src/store/runbooks.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const plain = aDriver("plain", { clean: stepsOf(aStep("wipe", "clean", async () => ({ kind: "done" }))) });
const ostler = await engineUnderTest({ drivers: [plain] });
afterAll(() => ostler[Symbol.asyncDispose]());

const { engine } = ostler;
const reader = ostler.database.reader;
const step = (name: string, args: unknown = {}, from: StepChoice["interface"] = "clean") =>
  ({ interface: from, name, args }) as StepChoice;

let made = 0;
async function aRunbook(...steps: StepChoice[]): Promise<string> {
  const name = `runbook-${(made += 1)}`;
  expect(await engine.createRunbook(ALICE, { name, steps })).toMatchObject({ refusals: [] });
  return name;
}

const clean = (nodes: readonly TestNode[], options: object, more: object = {}) =>
  ostler.submit("CLEAN", nodes, { options, ...more });
const labels = async (operationId: string, node: TestNode) =>
  (await ostler.steps(await ostler.run(operationId, node))).map(({ name }) => name);

describe("runbook", () => {
  test("runbook that is saved has its steps and its name", async () => {
    const steps = [
      step("erase_disks"),
      step("wait", { seconds: 5 }, "engine"),
      step("update_firmware", { version: "2.1" }),
    ];
    expect(
      await engine.createRunbook(ALICE, { name: "returned", description: "For machines that came back.", steps }),
    ).toEqual({ runbookId: expect.any(String), refusals: [] });
    expect(await runbookByName(reader, "returned")).toMatchObject({
      name: "returned",
      description: "For machines that came back.",
      steps,
      revision: 1,
    });
    expect((await allRunbooks(reader)).map(({ name }) => name)).toContain("returned");
  });

  test("runbook with errors is refused with every error", async () => {
    const { runbookId, refusals } = await engine.createRunbook(ALICE, {
      name: "no name",
      description: "x".repeat(1_001),
      steps: [
        step(""),
        step("erase_disks", "all"),
        step("wait", {}, "engine"),
        step("reboot", { now: true }, "power"),
        step("whatever_a_driver_has", { any: 1 }),
        step("nap", {}, "engine"),
      ],
    });
    expect(runbookId).toBeNull();
    expect(refusals.map(({ path }) => path?.join("."))).toEqual([
      "input.name",
      "input.description",
      "input.steps.0.name",
      "input.steps.1.args",
      "input.steps.2.args.seconds",
      "input.steps.3.args.now",
      "input.steps.5.name",
    ]);
    for (const { code, message } of refusals) {
      expect(code).toBe("INVALID_INPUT");
      expect(message).toMatch(/^[A-Z].+\.$/);
    }
  });

  test.each([
    { what: "no steps", steps: [] },
    { what: "more than 100 steps", steps: Array.from({ length: 101 }, () => step("erase_disks")) },
  ])("runbook cannot have $what", async ({ steps }) => {
    expect((await engine.createRunbook(ALICE, { name: "odd", steps })).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "steps"] },
    ]);
    const name = await aRunbook(step("erase_disks"));
    expect((await engine.updateRunbook(ALICE, name, { steps })).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "steps"] },
    ]);
  });

  test("runbook may have 100 steps", async () => {
    expect(
      (
        await engine.createRunbook(ALICE, {
          name: "long",
          steps: Array.from({ length: 100 }, () => step("erase_disks")),
        })
      ).refusals,
    ).toEqual([]);
  });

  test("runbook cannot take the name of another, when created or renamed", async () => {
    const [first, second] = [await aRunbook(step("erase_disks")), await aRunbook(step("erase_disks"))];
    const taken = [{ code: "INVALID_INPUT", message: `A runbook ${first} exists already.`, path: ["input", "name"] }];
    expect(await engine.createRunbook(ALICE, { name: first, steps: [step("erase_disks")] })).toEqual({
      runbookId: null,
      refusals: taken,
    });
    expect(await engine.updateRunbook(ALICE, second, { name: first })).toEqual({ runbookId: null, refusals: taken });
  });
});

describe("updateRunbook", () => {
  test("updateRunbook keeps absent fields, clears the description with null, and increases the revision", async () => {
    await engine.createRunbook(ALICE, { name: "changing", description: "old", steps: [step("erase_disks")] });
    await engine.updateRunbook(ALICE, "changing", { steps: [step("erase_metadata")] });
    expect(await runbookByName(reader, "changing")).toMatchObject({
      description: "old",
      steps: [step("erase_metadata")],
      revision: 2,
    });
    await engine.updateRunbook(ALICE, "changing", { name: "changed", description: null, ifRevision: 2 });
    expect(await runbookByName(reader, "changing")).toBeUndefined();
    expect(await runbookByName(reader, "changed")).toMatchObject({
      description: null,
      steps: [step("erase_metadata")],
      revision: 3,
    });
    for (const change of [{}, { name: "changed", description: null, steps: [step("erase_metadata")] }])
      await engine.updateRunbook(ALICE, "changed", change);
    expect(await runbookByName(reader, "changed")).toMatchObject({ revision: 3 });
  });

  test("updateRunbook and deleteRunbook with a stale revision are refused", async () => {
    const name = await aRunbook(step("erase_disks"));
    await engine.updateRunbook(ALICE, name, { description: "mine" });
    const stale = [
      {
        code: "STALE_REVISION",
        message: `Runbook ${name} is at revision 2, not 1. Read it again and repeat the change.`,
        path: ["input", "ifRevision"],
      },
    ];
    expect((await engine.updateRunbook(ALICE, name, { ifRevision: 1, description: "yours" })).refusals).toEqual(stale);
    expect((await engine.deleteRunbook(ALICE, name, 1)).refusals).toEqual(stale);
    expect(await runbookByName(reader, name)).toMatchObject({ description: "mine" });
    expect((await engine.deleteRunbook(ALICE, name, 2)).refusals).toEqual([]);
    expect(await runbookByName(reader, name)).toBeUndefined();
  });

  test("updateRunbook and deleteRunbook of an unknown runbook are refused with its name", async () => {
    const missing = [
      { code: "NOT_FOUND", message: "There is no runbook nowhere.", missing: ["nowhere"], path: ["input", "runbook"] },
    ];
    expect((await engine.updateRunbook(ALICE, "nowhere", { description: "x" })).refusals).toEqual(missing);
    expect((await engine.deleteRunbook(ALICE, "nowhere", undefined)).refusals).toEqual(missing);
  });
});

describe("cleaning by a runbook", () => {
  test("cleaning by a runbook runs its steps in order and stores its name [R-021]", async () => {
    const name = await aRunbook(
      step("erase_disks"),
      step("power_on", {}, "power"),
      step("erase_metadata"),
      step("power_off", {}, "power"),
      step("erase_disks"),
    );
    const node = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("CLEAN", [node], { options: { runbook: name } });
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "SUCCEEDED", options: { runbook: name } });
    expect(await ostler.nodeState(node)).toBe("AVAILABLE");
    expect(ostler.entered(node)).toEqual(["clean.erase_disks", "clean.erase_metadata", "clean.erase_disks"]);
    expect(ostler.powerCalls(node)).toEqual(["ON", "OFF"]);
    expect(await labels(id, node)).toEqual([
      "clean.erase_disks",
      "power.power_on",
      "clean.erase_metadata",
      "power.power_off",
      "clean.erase_disks",
    ]);
  });

  test("cleaning by an unknown runbook is refused, together with every unknown node", async () => {
    const before = await ostler.dump();
    const answer = await engine.submit(ALICE, {
      kind: "CLEAN",
      nodes: { names: ["ghost-1", "ghost-2"] },
      options: { runbook: "nowhere" },
    });
    expect(answer.refusals).toMatchObject([
      { code: "NOT_FOUND", missing: ["nowhere"], path: ["input", "runbook"] },
      { code: "NOT_FOUND", missing: ["ghost-1", "ghost-2"] },
    ]);
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  test("cleaning by a runbook and a list of steps at once is refused", async () => {
    const name = await aRunbook(step("erase_disks"));
    const node = await ostler.aNode().in("AVAILABLE").made();
    expect((await clean([node], { runbook: name, steps: [step("erase_disks")] })).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "runbook"] },
    ]);
    expect((await clean([node], { runbook: name, steps: [] })).refusals.map(({ path }) => path?.join("."))).toEqual([
      "input.runbook",
      "input.steps",
    ]);
  });

  test("cleaning by a runbook checks it for each node: every step that does not fit every node is named", async () => {
    const name = await aRunbook(step("erase_disks"), step("update_firmware", { version: "two" }), step("wipe"));
    const fake = await ostler.aNode().in("AVAILABLE").made();
    const other = await ostler.aNode().in("AVAILABLE").with("plain").made();
    const answer = await clean([fake, other], { runbook: name });
    expect(
      answer.results.map(({ refusal, further = [] }) =>
        [refusal, ...further].map((one) => `${one?.nodeId} ${one?.path?.join(".")}`),
      ),
    ).toEqual([
      [`${fake.id} input.runbook.steps.1.args.version`, `${fake.id} input.runbook.steps.2.name`],
      [`${other.id} input.runbook.steps.0.name`, `${other.id} input.runbook.steps.1.name`],
    ]);
    expect(
      answer.results.flatMap(({ refusal, further = [] }) => [refusal, ...further].map((one) => one?.message)),
    ).toEqual([
      expect.stringContaining(`Step clean.update_firmware on node ${fake.name}: `),
      expect.stringContaining(`Step clean.wipe on node ${fake.name}: `),
      expect.stringContaining(`Step clean.erase_disks on node ${other.name}: `),
      expect.stringContaining(`Step clean.update_firmware on node ${other.name}: `),
    ]);
  });

  test("cleaning by a runbook names the right node in the messages of similar nodes", async () => {
    const name = await aRunbook(step("polish"));
    const nodes = await ostler.aNode().in("AVAILABLE").times(3);
    expect(
      (await clean(nodes, { runbook: name })).results.map(({ refusal, nodeId }) => [
        nodeId,
        /on node (\S+):/.exec(refusal?.message ?? "")?.[1],
      ]),
    ).toEqual(nodes.map(({ id, name: of }) => [id, of]));
  });

  test("cleaning by a runbook with BEST_EFFORT starts the nodes that it fits", async () => {
    const name = await aRunbook(step("wipe"));
    const fake = await ostler.aNode().in("AVAILABLE").made();
    const other = await ostler.aNode().in("AVAILABLE").with("plain").made();
    const { operationId, results } = await clean([fake, other], { runbook: name }, { acceptance: "BEST_EFFORT" });
    expect(results.map(({ accepted }) => accepted)).toEqual([false, true]);
    expect((await ostler.operationEnds(operationId ?? "")).state).toBe("SUCCEEDED");
    expect(await ostler.nodeState(fake)).toBe("AVAILABLE");
  });

  test("cleaning by a runbook as a dry run returns its steps and writes nothing", async () => {
    const name = await aRunbook(step("erase_disks"), step("hold", { reason: "look" }, "engine"));
    const node = await ostler.aNode().in("MANAGEABLE").made();
    const before = await ostler.dump();
    const { results, operationId } = await clean([node], { runbook: name }, { dryRun: true });
    expect(operationId).toBeNull();
    expect(results[0]?.plan?.steps.map((one) => `${one.interface}.${one.name}`)).toEqual([
      "clean.erase_disks",
      "engine.hold",
    ]);
    expect(await ostler.changesSince(before)).toEqual([]);
  });
});

describe("operation with a runbook", () => {
  test("operation with a runbook keeps its steps when the runbook changes, and so does its restart", async () => {
    const gate = aGate();
    const name = await aRunbook(step("erase_metadata"), step("erase_disks"));
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { gate: gate.name } })
      .made();
    const id = await ostler.begin("CLEAN", [node], { options: { runbook: name } });
    await gate.arrivals();
    expect((await engine.updateRunbook(ALICE, name, { steps: [step("polish")] })).refusals).toEqual([]);
    await engine.stop(ALICE, { work: { operationId: id } });
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect((await engine.deleteRunbook(ALICE, name, undefined)).refusals).toEqual([]);
    const again = await engine.restart(ALICE, { work: { operationId: id }, from: "BEGINNING" });
    expect(again.refusals).toEqual([]);
    expect(await ostler.operationEnds(again.operationId ?? "")).toMatchObject({
      state: "SUCCEEDED",
      options: { runbook: name },
    });
    expect(await labels(again.operationId ?? "", node)).toContain("clean.erase_disks");
    expect(ostler.entered(node)).toEqual(["clean.erase_metadata", "clean.erase_metadata", "clean.erase_disks"]);
  });

  test("operation with a runbook is replayed for its idempotency key after the runbook has changed or is deleted", async () => {
    const name = await aRunbook(step("erase_disks"));
    const node = await ostler.aNode().in("AVAILABLE").made();
    const ask = () => clean([node], { runbook: name }, { idempotencyKey: `key-${name}` });
    const { operationId } = await ask();
    await ostler.operationEnds(operationId ?? "");
    await engine.updateRunbook(ALICE, name, { steps: [step("erase_metadata")] });
    expect(await ask()).toMatchObject({ operationId, replayed: true });
    await engine.deleteRunbook(ALICE, name, undefined);
    expect(await ask()).toMatchObject({ operationId, replayed: true });
    expect(ostler.entered(node)).toEqual(["clean.erase_disks"]);
  });
});
