/** BMCs that give no answer: how many runs they hold, and what becomes of the work on other nodes meanwhile. */
import { expect, test } from "vitest";
import type { Driver, PowerInterface } from "../../src/drivers/driver.ts";
import { CrowdedError, TroubledSlots } from "../../src/engine/execution/call/patience.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnyCall, AnySettings } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";

const CONCURRENCY = 4;

/** A driver whose machines give no answer while their name is in `silent`. */
function aLab() {
  const silent = new Set<string>();
  const asked = new Map<string, number>();
  const inStep = new Set<string>();
  const made = aDriver("lab");
  const own = made.power as unknown as PowerInterface<AnySettings>;
  const untilOver = ({ signal }: Pick<AnyCall, "signal">) =>
    new Promise<never>((_, fail) =>
      signal.addEventListener("abort", () => fail(signal.reason as Error), { once: true }),
    );
  const power: PowerInterface<AnySettings> = {
    async read(call) {
      asked.set(call.node.name, (asked.get(call.node.name) ?? 0) + 1);
      return silent.has(call.node.name) ? untilOver(call) : own.read(call);
    },
    set: async (call, action) => own.set?.(call, action),
  };
  const look = aStep("look", "inspect", async (call) => {
    inStep.add(call.node.name);
    return silent.has(call.node.name) ? untilOver(call) : { kind: "done" };
  });
  const driver: Driver<never> = Object.assign(made, { power, inspect: stepsOf(look) });
  return { driver, silent, asked, inStep };
}

test("power changes of nodes whose BMCs give no answer do not delay those of other nodes [R-515]", async () => {
  const { driver, silent } = aLab();
  await using ostler = await engineUnderTest({ drivers: [driver], concurrency: CONCURRENCY, patienceMs: 50 });
  const dead = await ostler
    .aNode()
    .with("lab")
    .in("AVAILABLE")
    .times(3 * CONCURRENCY);
  const sound = await ostler.aNode().with("lab").in("AVAILABLE").times(CONCURRENCY);
  for (const { name } of dead) silent.add(name);
  const stuck = await ostler.begin("POWER", dead, { options: { powerAction: "ON" } });
  const changed = await ostler.begin("POWER", sound, { options: { powerAction: "ON" } });
  expect((await ostler.operationEnds(changed)).state).toBe("SUCCEEDED");
  expect((await ostler.operation(stuck)).finishedAt).toBeNull();
});

test("run that is parked because its BMC gave no answer goes on automatically when the BMC answers [R-516]", async () => {
  const { driver, silent, asked } = aLab();
  await using ostler = await engineUnderTest({ drivers: [driver], concurrency: CONCURRENCY, patienceMs: 50 });
  const nodes = await ostler.aNode().with("lab").in("AVAILABLE").times(3);
  for (const { name } of nodes) silent.add(name);
  const id = await ostler.begin("POWER", nodes, { options: { powerAction: "ON" } });
  // Of four runs one may wait for a BMC without an answer.
  await eventually("two runs are parked", async () => {
    const runs = await Promise.all(nodes.map((node) => ostler.run(id, node)));
    return runs.filter(({ waitReason }) => waitReason === "TIME").length === 2;
  });
  expect([...asked.values()].toSorted((a, b) => a - b)).toEqual([1, 1, 2]);
  silent.clear();
  const holder = nodes.find(({ name }) => asked.get(name) === 2);
  if (!holder) throw new Error("No run has the slot.");
  await ostler.engine.abort(ALICE, { work: { ids: [holder.id] } });
  const { state } = await ostler.operationEnds(id);
  expect(state).toBe("PARTIALLY_SUCCEEDED");
  expect((await ostler.runs(id)).map((run) => run.state).toSorted()).toEqual(["ABORTED", "SUCCEEDED", "SUCCEEDED"]);
});

test("driver's step on a machine whose last call had no answer needs a slot, and is not entered without one", async () => {
  const { driver, silent, inStep } = aLab();
  await using ostler = await engineUnderTest({ drivers: [driver], concurrency: CONCURRENCY, patienceMs: 50 });
  const nodes = await ostler.aNode().with("lab").in("MANAGEABLE").times(3);
  for (const { name } of nodes) silent.add(name);
  const parked = async (id: string) => (await ostler.runs(id)).filter(({ waitReason }) => waitReason === "TIME").length;
  const power = await ostler.begin("POWER", nodes, { options: { powerAction: "ON" } });
  await eventually("two runs are parked", async () => (await parked(power)) === 2);
  await ostler.engine.abort(ALICE, { work: { operationId: power } });
  await ostler.operationEnds(power);
  const inspection = await ostler.begin("INSPECT", nodes);
  await eventually("two runs are parked", async () => (await parked(inspection)) === 2);
  expect(inStep.size).toBe(1);
});

test("slot of a machine that was changed is given above the limit, because its work must not be cut", () => {
  const slots = new TroubledSlots(CONCURRENCY);
  const [first, second] = [slots.slot(), slots.slot()];
  first.onLate();
  expect(() => second.onLate()).toThrow(CrowdedError);
  second.commit?.();
  expect(second.onLate()).toBe("STEP");
  first.release();
  expect(() => slots.slot().onLate()).toThrow(CrowdedError);
  second.release();
  second.release();
  const third = slots.slot();
  third.onLate();
  expect(() => slots.slot().onLate()).toThrow(CrowdedError);
});
