/** Timeouts: the defaults, one timer for each, and how long the lease of a dead process lasts. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { afterAll, describe, expect, test } from "vitest";
import type { DiscoverCall, Driver } from "../../src/drivers/driver.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";
import type { AnySettings } from "../support/driver.ts";
import { eventually } from "../support/eventually.ts";
import { heldIn } from "../support/held-work.ts";

/** Seconds that each call of a driver was given, by purpose. */
const given = new Map<string, number>();
const note = (what: string, { deadline }: { readonly deadline: Date }) =>
  given.set(what, (deadline.getTime() - Date.now()) / 1000);

const plain = aDriver("timed") as unknown as Driver<AnySettings>;
const timed = {
  ...plain,
  power: {
    ...plain.power,
    // The first call ends with the patience, and the second one has the whole time.
    read: async (call: Parameters<typeof plain.power.read>[0]) => {
      const isFirst = !given.has("power.read");
      note("power.read", call);
      if (isFirst) await once(call.signal, "abort");
      return plain.power.read(call);
    },
  },
  discover: {
    settings: plain.settings,
    probe: async (call: DiscoverCall) => {
      note("probe", call);
      return { settings: {} };
    },
  },
} as unknown as Driver<never>;

const impatient = aDriver("impatient", {
  clean: stepsOf(
    aStep("listen", "clean", async () => ({ kind: "wait", callback: true, memo: null }), { timeoutSeconds: 1 }),
  ),
});

const patient = aDriver("patient", {
  clean: stepsOf(
    aStep("listen", "clean", async () => ({ kind: "wait", callback: true, memo: null }), { timeoutSeconds: 86_400 }),
  ),
});

const ostler = await engineUnderTest({ drivers: [timed, impatient, patient], patienceMs: 100 });
afterAll(() => ostler[Symbol.asyncDispose]());

describe("default timeout", () => {
  test("default timeout of a BMC call is 30 seconds, for a power reading and for a probe [R-146]", async () => {
    const node = await ostler.aNode().with("timed").made();
    await ostler.engine.readPower({ ids: [node.id] });
    const { operationId } = await ostler.engine.discoverNodes(ALICE, { addresses: ["10.1.0.1"], driver: "timed" });
    await ostler.operationEnds(operationId ?? "");
    for (const what of ["power.read", "probe"]) {
      expect(given.get(what), what).toBeGreaterThan(28);
      expect(given.get(what), what).toBeLessThanOrEqual(30);
    }
  });

  test("default timeout of a wait for a callback is half an hour [R-142]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").with("patient").made();
    const id = await ostler.begin("CLEAN", [node]);
    await ostler.nodeBecomes(node, "CLEAN_WAIT");
    const seconds = (((await ostler.run(id, node)).wakeAt?.getTime() ?? 0) - Date.now()) / 1000;
    expect(seconds).toBeGreaterThan(1_790);
    expect(seconds).toBeLessThanOrEqual(1_801);
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
  });

  test("default timeout of a stop is ten minutes [R-145]", async () => {
    const { gate, id } = await heldIn(ostler, "deploy.prepare");
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    const { interruptAt, stopUntil } = await ostler.operation(id);
    expect((stopUntil?.getTime() ?? 0) - (interruptAt?.getTime() ?? 0)).toBe(600_000);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
  });
});

test("timeouts of a hundred nodes run at the same time, each with its own timer [R-148]", async () => {
  const nodes = await ostler.aNode().in("AVAILABLE").with("impatient").named(`impatient-${randomUUID()}`).times(100);
  const id = await ostler.begin("CLEAN", nodes, { onFailure: "LEAVE" });
  // One after the other they would take a hundred seconds.
  await eventually("every timeout has fired", async () => (await ostler.operation(id)).finishedAt !== null, 60_000);
  const runs = await ostler.runs(id);
  expect(new Set(runs.map(({ state, failure }) => `${state} ${failure?.code}`))).toEqual(new Set(["FAILED TIMEOUT"]));
}, 80_000);

test("work of a process that was killed is taken over by another process within the lease time [R-132, R-135]", async () => {
  await using lab = await engineUnderTest({ started: false });
  const gate = aGate();
  gate.open();
  const node = await lab
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.write_image": { gate: gate.name } })
    .made();
  const victim = await lab.inAnotherProcess();
  const id = await lab.begin("DEPLOY", [node]);
  await eventually("the step is entered", () => lab.entered(node).includes("deploy.write_image"));
  await victim.kill();
  const killedAt = Date.now();
  await lab.engine.start();
  await eventually("the operation ends", async () => (await lab.operation(id)).finishedAt !== null, 45_000);
  expect((await lab.operation(id)).state).toBe("SUCCEEDED");
  expect((Date.now() - killedAt) / 1000).toBeLessThan(45);
  expect((await lab.story(node, id)).filter((line) => line.startsWith("recover"))).toHaveLength(1);
}, 60_000);
