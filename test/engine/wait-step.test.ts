/** The reserved steps that need no caller: power changes and waits, in every list that may contain them. */
import { afterAll, describe, expect, test } from "vitest";
import type { Script } from "../../plugins/fake/settings.ts";
import type { StepChoice } from "../../src/store/records.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { unsound } from "../support/soundness.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const step = (from: StepChoice["interface"], name: string, args: StepChoice["args"] = {}): StepChoice => ({
  interface: from,
  name,
  args,
});
const power = (name: string, args: StepChoice["args"] = {}) => step("power", name, args);
const wait = (seconds: number) => step("engine", "wait", { seconds });
const ERASE = step("clean", "erase_metadata");

/** A node with its power on or off, and a machine that follows the scripts. */
async function node(
  powerState: "ON" | "OFF" = "OFF",
  steps: Record<string, Script> = {},
  lab: EngineUnderTest = ostler,
): Promise<TestNode> {
  const made = await lab.aNode().in("AVAILABLE").scripted(steps).made();
  await lab.test.sql`update nodes set power_state = ${powerState} where id = ${made.id}`;
  return made;
}

const LISTS = [
  { kind: "CLEAN", work: ERASE, end: "AVAILABLE" },
  { kind: "DEPLOY", work: step("deploy", "write_image"), end: "ACTIVE" },
] as const;

describe.each(LISTS)("reserved steps among the steps of $kind", ({ kind, work, end }) => {
  test("power steps run in their order, and do nothing if the machine is in that state already [R-069]", async () => {
    const made = await node("OFF");
    const steps = [
      power("power_on"),
      power("power_on"),
      work,
      power("reboot"),
      power("soft_power_off"),
      power("power_off"),
      power("power_on"),
      power("power_off"),
    ];
    const id = await ostler.begin(kind, [made], { options: { steps } });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(ostler.powerCalls(made)).toEqual(["ON", "REBOOT", "SOFT_OFF", "ON", "OFF"]);
    expect(await ostler.node(made)).toMatchObject({ state: end, powerState: "OFF", wantedPower: "OFF" });
    expect(
      (await ostler.steps(await ostler.run(id, made))).map(({ attempts }) => attempts.map(({ state }) => state)),
    ).toEqual(steps.map(() => ["SUCCEEDED"]));
  });

  test("reserved wait parks the run for its duration, and no process holds it [R-069]", async () => {
    const made = await node();
    const id = await ostler.begin(kind, [made], { options: { steps: [work, wait(0.4), work] } });
    await eventually("the run waits", async () => (await ostler.run(id, made)).state === "WAITING");
    expect(await ostler.run(id, made)).toMatchObject({
      waitReason: "TIME",
      owner: null,
      wakeAt: expect.any(Date),
      position: 1,
    });
    expect(ostler.entered(made)).toHaveLength(1);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    const log = await ostler.transitions(made);
    const at = (event: string) =>
      log.find((row) => row.operationId === id && row.event === event)?.at.getTime() ?? Number.NaN;
    expect(at("resume") - at("wait")).toBeGreaterThanOrEqual(399);
    expect((await ostler.story(made, id)).slice(1)).toEqual([
      expect.stringMatching(/^wait → .*_WAIT$/),
      expect.stringMatching(/^resume → .*ING$/),
      `done → ${end}`,
    ]);
    expect((await ostler.steps(await ostler.run(id, made)))[1]?.attempts).toMatchObject([
      { state: "SUCCEEDED", entries: 2 },
    ]);
    expect(ostler.entered(made)).toHaveLength(2);
  });
});

test("reserved wait of zero seconds continues at once", async () => {
  const made = await node();
  const id = await ostler.begin("CLEAN", [made], { options: { steps: [wait(0), ERASE, wait(0)] } });
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
});

test("reserved step with invalid arguments is refused with its path in the list", async () => {
  const made = await node();
  const answer = await ostler.submit("CLEAN", [made], {
    options: {
      steps: [ERASE, wait(-1), step("engine", "wait"), power("explode"), step("engine", "hold", { until: "noon" })],
    },
  });
  expect(answer.operationId).toBeNull();
  expect(answer.refusals.map(({ code, path }) => [code, path?.slice(0, 4).join(".")])).toEqual(
    [1, 2, 3, 4].map((index) => ["INVALID_INPUT", `input.steps.${index}.${index === 3 ? "name" : "args"}`]),
  );
});

describe("reserved wait", () => {
  test("reserved wait survives a restart of the service and keeps its end [R-006]", async () => {
    await using lab = await engineUnderTest({ started: false });
    const first = await lab.another({ started: true });
    const made = await node("OFF", {}, lab);
    const id = await lab.begin("CLEAN", [made], { options: { steps: [wait(1), ERASE] } });
    await lab.nodeBecomes(made, "CLEAN_WAIT");
    const { wakeAt } = await lab.run(id, made);
    await first[Symbol.asyncDispose]();
    await lab.engine.start();
    expect((await lab.operationEnds(id)).state).toBe("SUCCEEDED");
    const resumed = (await lab.transitions(made)).find(
      ({ event, operationId }) => event === "resume" && operationId === id,
    );
    expect(resumed?.at.getTime()).toBeGreaterThanOrEqual((wakeAt?.getTime() ?? Infinity) - 1);
    expect(await unsound(lab)).toEqual([]);
  });

  test("reserved wait does not fail if no process runs at its end, however late", async () => {
    await using lab = await engineUnderTest({ started: false });
    const first = await lab.another({ started: true });
    const made = await node("OFF", {}, lab);
    const id = await lab.begin("CLEAN", [made], { options: { steps: [wait(600), ERASE] } });
    await lab.nodeBecomes(made, "CLEAN_WAIT");
    await first[Symbol.asyncDispose]();
    await lab.test.sql`update attempts set deadline_at = deadline_at - interval '1 day' where finished_at is null`;
    await lab.test.sql`update runs set wake_at = wake_at - interval '1 day', due_at = now() where finished_at is null`;
    await lab.engine.start();
    expect((await lab.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("reserved wait ends early for a stop, and nothing is lost", async () => {
    const made = await node();
    const id = await ostler.begin("CLEAN", [made], {
      options: { steps: [ERASE, wait(3600), step("clean", "erase_disks")] },
    });
    await ostler.nodeBecomes(made, "CLEAN_WAIT");
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect(await ostler.story(made, id)).toEqual(["clean → CLEANING", "wait → CLEAN_WAIT", "stop → STOPPED"]);
    expect((await ostler.steps(await ostler.run(id, made))).map(({ attempts }) => attempts[0]?.state)).toEqual([
      "SUCCEEDED",
      "ABORTED",
      undefined,
    ]);
  });
});

/**
 * Power calls of a step that is cancelled before it has changed anything, and of its abort, which leaves a machine
 * alone that is off.
 */
const INSIDE = [
  { name: "power_on", inside: power("power_on"), from: "OFF", calls: ["ON"] },
  { name: "power_off", inside: power("power_off"), from: "ON", calls: ["OFF", "OFF"] },
  {
    name: "soft_power_off",
    inside: power("soft_power_off", { timeoutSeconds: 600 }),
    from: "ON",
    calls: ["SOFT_OFF", "OFF"],
  },
  { name: "reboot", inside: power("reboot"), from: "ON", calls: ["REBOOT", "OFF"] },
] as const;

test.each(INSIDE)(
  "abort during the reserved step $name takes effect now and switches the machine off",
  async ({ inside, from, calls }) => {
    const gate = aGate();
    const made = await node(from, { "power.set": { gate: gate.name } });
    const id = await ostler.begin("CLEAN", [made], {
      options: { steps: [ERASE, inside, step("clean", "erase_disks")] },
    });
    await gate.arrivals();
    expect((await ostler.engine.abort(ALICE, { work: { operationId: id } })).results).toMatchObject([
      { accepted: true, effect: "NOW" },
    ]);
    // The power off of the abort waits at the same gate.
    if (calls.length > 1) void gate.arrivals(calls.length).then(gate.open);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect([await ostler.nodeState(made), (await ostler.run(id, made)).leftAs?.power]).toEqual(["CLEAN_FAILED", "OFF"]);
    expect(ostler.powerCalls(made)).toEqual(calls);
    expect((await ostler.steps(await ostler.run(id, made))).map(({ attempts }) => attempts[0]?.state)).toEqual([
      "SUCCEEDED",
      "ABORTED",
      undefined,
    ]);
  },
);

test("abort during a reserved wait takes effect now", async () => {
  const made = await node("ON");
  const id = await ostler.begin("CLEAN", [made], {
    options: { steps: [ERASE, wait(3600), step("clean", "erase_disks")] },
  });
  await ostler.nodeBecomes(made, "CLEAN_WAIT");
  expect((await ostler.engine.abort(ALICE, { work: { ids: [made.id] } })).results).toMatchObject([
    { accepted: true, effect: "NOW" },
  ]);
  expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
  expect(await ostler.node(made)).toMatchObject({ state: "CLEAN_FAILED", powerState: "OFF" });
  expect(ostler.entered(made)).toEqual(["clean.erase_metadata"]);
});
