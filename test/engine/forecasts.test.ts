/**
 * Dry runs of requests about unfinished work: the forecast of each is compared with what the request then does, in
 * every situation of a run.
 */
import { afterAll, describe, expect, test } from "vitest";
import type { Script } from "../../plugins/fake/settings.ts";
import type { VerbRequest } from "../../src/engine/admission/request-terms.ts";
import type { SubmitAnswer } from "../../src/engine/input/answers.ts";
import type { AbortRequest } from "../../src/engine/input/interrupt-request.ts";
import type { WaveAction } from "../../src/engine/scheduling/waves.ts";
import { ABORT_MODES } from "../../src/lifecycle/interrupts.ts";
import type { AbortMode } from "../../src/lifecycle/interrupts.ts";
import { countFailed } from "../../src/store/operations/operation-runs.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

/** A node whose run is in one situation. `open` lets its step end. */
interface Situated {
  readonly node: TestNode;
  readonly id: string;
  open(): void;
}

async function inStep(step: string, script: Script, kind: VerbRequest["kind"], more: Partial<VerbRequest> = {}) {
  const gate = aGate();
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ [step]: { gate: gate.name, ...script } })
    .made();
  const id = await ostler.begin(kind, [node], more);
  return { gate, node, id, open: () => gate.open() };
}

async function running(step: string, kind: "DEPLOY" | "CLEAN", more: Partial<VerbRequest> = {}): Promise<Situated> {
  const found = await inStep(step, {}, kind, more);
  await found.gate.arrivals();
  return found;
}

async function waiting(step: string, script: Script, kind: "DEPLOY" | "CLEAN", more: Partial<VerbRequest> = {}) {
  const node = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ [step]: script })
    .made();
  const id = await ostler.begin(kind, [node], more);
  await eventually("the run is parked", async () => {
    const { state } = await ostler.run(id, node);
    return state === "WAITING" || state === "HOLDING";
  });
  return { node, id, open: () => {} };
}

const firmware = { interface: "clean", name: "update_firmware", args: { version: "2.1" } } as const;
const erase = { interface: "clean", name: "erase_disks", args: {} } as const;
const hold = { interface: "engine", name: "hold", args: {} } as const;
const steps = (...chosen: readonly (typeof firmware | typeof erase | typeof hold)[]) => ({
  options: { steps: chosen },
});

async function queued(): Promise<Situated> {
  const gate = aGate();
  const [first, second] = await ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.prepare": { gate: gate.name } })
    .times(2);
  if (!first || !second) throw new Error("No nodes were made.");
  const id = await ostler.begin("DEPLOY", [first, second], { maxParallel: 1 });
  await gate.arrivals();
  return { node: second, id, open: () => gate.open() };
}

const SITUATIONS: Readonly<Record<string, () => Promise<Situated>>> = {
  "queued behind another node": queued,
  "in a step that can be canceled": () => running("deploy.write_image", "DEPLOY"),
  "in a step that ends at its boundary": () => running("clean.erase_metadata", "CLEAN"),
  "in the first step, which changes no disk": () => running("deploy.prepare", "DEPLOY"),
  "in a step that must not be interrupted": () =>
    running("clean.update_firmware", "CLEAN", steps(erase, firmware, erase)),
  "in the last step, which must not be interrupted": () => running("clean.update_firmware", "CLEAN", steps(firmware)),
  "parked for a time": () => waiting("deploy.boot_system", { waitSeconds: 3600 }, "DEPLOY"),
  "parked for a callback": () => waiting("deploy.boot_system", { callback: true }, "DEPLOY"),
  "between two attempts": () => waiting("deploy.write_image", { failures: 9 }, "DEPLOY"),
  "on hold": () => waiting("deploy.prepare", {}, "CLEAN", steps(erase, hold, erase)),
};

/** The forecast of one node, in the words of `happened`. */
async function foreseen({ forecast }: SubmitAnswer, node: TestNode) {
  const entry = forecast?.entries.find(({ answer }) => answer?.nodeId === node.id);
  if (!entry) return null;
  const { effect, endsAs, nodeState, powersOff, changed, isConditionKnown } = entry;
  return { effect, endsAs, nodeState, powersOff, changed: [...changed].toSorted(), isConditionKnown };
}

const PARTS = { disksTouched: "DISKS", firmwareTouched: "FIRMWARE", networkAttached: "NETWORK" } as const;

async function happened({ id, node }: Situated) {
  await eventually("the run ends", async () => (await ostler.run(id, node)).finishedAt !== null);
  const { state, leftAs } = await ostler.run(id, node);
  const changed = leftAs
    ? Object.entries(PARTS).flatMap(([field, part]) => (leftAs[field as keyof typeof PARTS] ? [part] : []))
    : null;
  return {
    endsAs: state,
    nodeState: await ostler.nodeState(node),
    changed,
    power: leftAs?.power ?? null,
    isForced: (leftAs?.tearDownError ?? "").includes("forced"),
  };
}

const REQUESTS = [
  ...(Object.keys(ABORT_MODES) as AbortMode[]).map((mode) => ({
    what: `abort with ${mode}`,
    mode,
    powerOff: undefined,
  })),
  { what: "abort with powerOff: true", mode: "CUT", powerOff: true },
  { what: "abort with powerOff: false", mode: "CUT", powerOff: false },
] as const;

const CASES = Object.entries(SITUATIONS).flatMap(([where, situate]) =>
  REQUESTS.map((request) => ({ ...request, where, situate })),
);

describe("the forecast of an abort", () => {
  test.each(CASES)("$what of a run $where is what the abort does [R-567]", async ({ situate, mode, powerOff }) => {
    const situated = await situate();
    const { node } = situated;
    const request: AbortRequest = {
      work: { ids: [node.id] },
      mode,
      reason: "test",
      ...(powerOff !== undefined && { powerOff }),
    };
    const dry = await ostler.engine.abort(ALICE, { ...request, dryRun: true });
    const real = await ostler.engine.abort(ALICE, request);
    expect(dry.results.map(({ accepted, refusal }) => ({ accepted, refusal }))).toEqual(
      real.results.map(({ accepted, refusal }) => ({ accepted, refusal })),
    );
    expect(dry.refusals).toEqual(real.refusals);
    const forecast = await foreseen(dry, node);
    const [result] = real.results;
    if (!result?.accepted) {
      expect(forecast).toBeNull();
      await ostler.engine.abort(ALICE, { ...request, mode: "FORCE" });
      situated.open();
      return;
    }
    expect(forecast?.effect).toBe(result.effect);
    situated.open();
    const after = await happened(situated);
    expect(after).toMatchObject({ endsAs: forecast?.endsAs, nodeState: forecast?.nodeState });
    expect(after.changed?.toSorted() ?? []).toEqual(forecast?.effect === "BEFORE_START" ? [] : forecast?.changed);
    expect(after.isForced).toBe(forecast?.isConditionKnown === false);
    if (forecast?.powersOff === true) expect(after.power).toBe("OFF");
    if (forecast?.powersOff === false) expect(ostler.powerCalls(node)).not.toContain("OFF");
  });

  test.each(["CUT", "FORCE"] as const)("an abort with %s cuts a step that runs, and no hold [R-567]", async (mode) => {
    for (const where of ["in a step that can be canceled", "on hold"]) {
      const situated = await SITUATIONS[where]?.();
      if (!situated) throw new Error(`There is no situation "${where}".`);
      const request = { work: { ids: [situated.node.id] }, mode, reason: "test" };
      const { forecast } = await ostler.engine.abort(ALICE, { ...request, dryRun: true });
      expect(forecast?.entries.map(({ cutsStep }) => cutsStep)).toEqual([where !== "on hold"]);
      await ostler.engine.abort(ALICE, request);
      await happened(situated);
    }
  });

  test("an abort that was requested before, and goes as far, has no effect [R-567]", async () => {
    const situated = await SITUATIONS["in a step that ends at its boundary"]?.();
    if (!situated) throw new Error("There is no such situation.");
    const request = { work: { ids: [situated.node.id] } };
    await ostler.engine.abort(ALICE, request);
    const ask = async (mode: AbortMode) =>
      foreseen(await ostler.engine.abort(ALICE, { ...request, mode, reason: "again", dryRun: true }), situated.node);
    expect(await ask("NOW")).toMatchObject({ effect: "NONE", endsAs: "ABORTED", nodeState: "CLEAN_FAILED" });
    expect(await ask("CUT")).toMatchObject({ effect: "NOW", endsAs: "ABORTED" });
    expect(await ask("FORCE")).toMatchObject({ effect: "NOW", isConditionKnown: false });
    situated.open();
    expect(await happened(situated)).toMatchObject({ endsAs: "ABORTED", nodeState: "CLEAN_FAILED" });
  });
});

describe("the forecast of a stop", () => {
  const cases = Object.entries(SITUATIONS).flatMap(([where, situate]) =>
    (["node", "operation"] as const).map((of) => ({ of, where, situate })),
  );
  test.each(cases)(
    "stop of the $of of a run $where does what its forecast says [R-568]",
    async ({ of, where, situate }) => {
      const situated = await situate();
      const { node, id } = situated;
      const work = of === "node" ? { ids: [node.id] } : { operationId: id };
      const dry = await ostler.engine.stop(ALICE, { work, dryRun: true });
      const forecast = await foreseen(dry, node);
      const real = await ostler.engine.stop(ALICE, { work });
      expect(dry.results.map(({ accepted }) => accepted)).toEqual(real.results.map(({ accepted }) => accepted));
      expect((await ostler.engine.stop(ALICE, { work, dryRun: true })).forecast?.entries).toMatchObject(
        real.results.map(() => ({ effect: "NONE" })),
      );
      // A machine that is parked calls back, or its time is over, only much later.
      if (where === "parked for a time" || where === "parked for a callback") {
        expect(forecast).toMatchObject({ effect: "PENDING", endsAs: "STOPPED" });
        await ostler.engine.abort(ALICE, { work, mode: "FORCE", reason: "end of the test" });
        return;
      }
      situated.open();
      const after = await happened(situated);
      expect(after).toMatchObject({ endsAs: forecast?.endsAs, nodeState: forecast?.nodeState });
    },
  );

  test("stop of a node without unfinished work is refused in a dry run too [R-568]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const request = { work: { ids: [node.id] } };
    const dry = await ostler.engine.stop(ALICE, { ...request, dryRun: true });
    expect(dry).toMatchObject({ refusals: [{ code: "NOTHING_RUNNING" }], forecast: { entries: [] } });
    expect(dry.refusals).toEqual((await ostler.engine.stop(ALICE, request)).refusals);
  });
});

describe("the forecast of what undoes an abort or a hold", () => {
  test("withdrawAbort lets the run continue, and one without an abort is refused [R-569]", async () => {
    const situated = await running("clean.erase_metadata", "CLEAN");
    const request = { work: { ids: [situated.node.id] } };
    expect(await ostler.engine.withdrawAbort(ALICE, { ...request, dryRun: true })).toMatchObject({
      refusals: [{ code: "NOTHING_RUNNING" }],
      forecast: { entries: [] },
    });
    await ostler.engine.abort(ALICE, request);
    const dry = await ostler.engine.withdrawAbort(ALICE, { ...request, dryRun: true });
    expect(await foreseen(dry, situated.node)).toMatchObject({ effect: "CONTINUES", endsAs: null });
    expect(await ostler.run(situated.id, situated.node)).toMatchObject({ interrupt: "ABORT" });
    await ostler.engine.withdrawAbort(ALICE, request);
    situated.open();
    expect(await happened(situated)).toMatchObject({ endsAs: "SUCCEEDED" });
  });

  test("withdrawAbort of one node leaves the stop of its operation, which the forecast shows [R-569]", async () => {
    const gate = aGate();
    const nodes = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { gate: gate.name } })
      .times(2);
    const id = await ostler.begin("CLEAN", nodes);
    await gate.arrivals(2);
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    const [node] = nodes;
    if (!node) throw new Error("No node was made.");
    const request = { work: { ids: [node.id] } };
    await ostler.engine.abort(ALICE, request);
    const dry = await ostler.engine.withdrawAbort(ALICE, { ...request, dryRun: true });
    const forecast = await foreseen(dry, node);
    expect(forecast).toMatchObject({ effect: "PENDING", endsAs: "STOPPED", nodeState: "STOPPED" });
    await ostler.engine.withdrawAbort(ALICE, request);
    gate.open();
    expect(await happened({ node, id, open: () => {} })).toMatchObject({ endsAs: "STOPPED", nodeState: "STOPPED" });
  });

  test("releaseHolds lets the run continue, and one that is not on hold is refused [R-569]", async () => {
    const situated = await waiting("deploy.prepare", {}, "CLEAN", steps(erase, hold, erase));
    const other = await running("clean.erase_metadata", "CLEAN");
    const request = { work: { ids: [situated.node.id, other.node.id] } };
    const dry = await ostler.engine.unhold(ALICE, { ...request, dryRun: true });
    expect(await foreseen(dry, situated.node)).toMatchObject({ effect: "CONTINUES", endsAs: null });
    expect(await foreseen(dry, other.node)).toBeNull();
    const real = await ostler.engine.unhold(ALICE, request);
    expect(dry.results.map(({ refusal }) => refusal)).toEqual(real.results.map(({ refusal }) => refusal));
    other.open();
    expect(await happened(situated)).toMatchObject({ endsAs: "SUCCEEDED" });
  });
});

describe("the forecast of a request about waves", () => {
  const seen = async (id: string) => {
    const runs = await ostler.runs(id);
    const { wave, waveState, waves } = await ostler.operation(id);
    const isWaiting = ({ state, waitReason }: (typeof runs)[number]) => state === "QUEUED" && waitReason === null;
    return { wave, waveState, forgiven: waves?.forgiven ?? 0, waiting: runs.filter(isWaiting).length };
  };

  async function inWaves(count: number, sizes: readonly number[], more: Partial<VerbRequest> = {}) {
    const gate = aGate();
    const nodes = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(count);
    const waves = { sizes: sizes.map((size) => ({ count: size })), manual: true };
    const id = await ostler.begin("DEPLOY", nodes, { waves, ...more });
    await gate.arrivals(Math.min(sizes[0] ?? 0, more.maxParallel ?? count));
    return { gate, nodes, id };
  }

  const foresee = async (operationId: string, action: WaveAction) => {
    const before = await ostler.dump();
    const dry = await ostler.engine.steerWaves(ALICE, { operationId, action, dryRun: true });
    expect(await ostler.changesSince(before)).toEqual([]);
    return dry;
  };

  test("advanceWaves and resumeWaves start what their forecast says [R-570]", async () => {
    const { gate, nodes, id } = await inWaves(6, [2, 3, 1], { maxParallel: 4 });
    const resume = await foresee(id, "RESUME");
    expect(resume).toMatchObject({ operationId: null, refusals: [{ code: "INVALID_STATE" }] });
    expect(resume).toEqual(await ostler.engine.steerWaves(ALICE, { operationId: id, action: "RESUME" }));
    const advance = await foresee(id, "ADVANCE");
    expect(advance).toMatchObject({
      operationId: id,
      forecast: {
        waveState: "RUNNING",
        wave: 1,
        counts: { starting: 2, active: 2, waiting: 2, nodeIds: nodes.slice(2, 4).map((node) => node.id) },
      },
    });
    await ostler.engine.steerWaves(ALICE, { operationId: id, action: "ADVANCE" });
    expect(await seen(id)).toMatchObject({ wave: 1, waveState: "RUNNING", waiting: 2 });
    await gate.arrivals(4);
    expect(await foresee(id, "HALT")).toMatchObject({
      forecast: { waveState: "HALTED", wave: 1, counts: { starting: 0, withdrawn: 0, active: 4, waiting: 2 } },
    });
    await ostler.engine.steerWaves(ALICE, { operationId: id, action: "HALT" });
    expect(await seen(id)).toMatchObject({ wave: 1, waveState: "HALTED", waiting: 2 });
    expect(await foresee(id, "RESUME")).toMatchObject({
      forecast: { waveState: "RUNNING", wave: 1, counts: { starting: 0, active: 4, waiting: 2 } },
    });
    gate.open();
    await eventually(
      "four have ended",
      async () => (await ostler.runs(id)).filter((run) => run.finishedAt).length === 4,
    );
    const last = await foresee(id, "RESUME");
    expect(last).toMatchObject({
      forecast: { waveState: "RUNNING", wave: 1, counts: { starting: 1, active: 0, waiting: 1 } },
    });
    await ostler.engine.steerWaves(ALICE, { operationId: id, action: "RESUME" });
    await eventually("wave 2 ends", async () => (await seen(id)).waveState === "AWAITING");
    await ostler.engine.steerWaves(ALICE, { operationId: id, action: "ADVANCE" });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await foresee(id, "ADVANCE")).toMatchObject({ refusals: [{ code: "INVALID_STATE" }] });
  });

  test("haltWaves withdraws the starts that its forecast counts, and resumeWaves forgives the failures [R-570]", async () => {
    await using idle = await engineUnderTest({ started: false });
    const nodes = await idle.aNode().in("AVAILABLE").times(3);
    const id = await idle.begin("DEPLOY", nodes, { waves: { sizes: [{ count: 2 }] } });
    const halt = { operationId: id, action: "HALT" } as const;
    const dry = await idle.engine.steerWaves(ALICE, { ...halt, dryRun: true });
    expect(dry.forecast).toMatchObject({ waveState: "HALTED", counts: { withdrawn: 2, active: 0, waiting: 3 } });
    await idle.engine.steerWaves(ALICE, halt);
    expect((await idle.runs(id)).filter(({ waitReason }) => waitReason === "CONCURRENCY")).toEqual([]);
    await idle.test.sql`update runs set state = 'FAILED', finished_at = now() where node_id = ${nodes[0]?.id ?? ""}`;
    const resume = { operationId: id, action: "RESUME" } as const;
    const back = await idle.engine.steerWaves(ALICE, { ...resume, dryRun: true });
    expect(back.forecast).toMatchObject({ forgivenFailures: 1, counts: { starting: 1, waiting: 1 } });
    await idle.engine.steerWaves(ALICE, resume);
    const after = await idle.operation(id);
    expect(after.waves?.forgiven).toBe(await countFailed(idle.database.reader, id));
    expect((await idle.runs(id)).filter(({ waitReason }) => waitReason === "CONCURRENCY")).toHaveLength(1);
  });
});

describe("a dry run of a request about unfinished work", () => {
  test("writes nothing, waits for no lock and takes none [R-566]", async () => {
    const situated = await running("clean.erase_metadata", "CLEAN");
    const [work, whole] = [{ ids: [situated.node.id] }, { operationId: situated.id }];
    const before = await ostler.dump();
    await ostler.database.transaction(async (tx) => {
      await tx.execute("select from runs for update");
      await tx.execute("select from operations for update");
      await tx.execute("select from nodes for update");
      for (const mode of Object.keys(ABORT_MODES) as AbortMode[])
        expect((await ostler.engine.abort(ALICE, { work, mode, reason: "test", dryRun: true })).forecast).toBeDefined();
      expect((await ostler.engine.stop(ALICE, { work, dryRun: true })).forecast).toBeDefined();
      expect((await ostler.engine.stop(ALICE, { work: whole, dryRun: true })).forecast).toBeDefined();
      expect((await ostler.engine.withdrawAbort(ALICE, { work, dryRun: true })).forecast).toBeDefined();
      expect((await ostler.engine.unhold(ALICE, { work, dryRun: true })).forecast).toBeDefined();
    });
    expect(await ostler.changesSince(before)).toEqual([]);
    situated.open();
    expect(await happened(situated)).toMatchObject({ endsAs: "SUCCEEDED" });
  });

  test("an invalid one is refused as the request is [R-566]", async () => {
    const work = { operationId: "no-uuid" };
    for (const dryRun of [true, false]) {
      expect(await ostler.engine.abort(ALICE, { work, dryRun })).toMatchObject({ refusals: [{ code: "NOT_FOUND" }] });
      expect(await ostler.engine.stop(ALICE, { work, dryRun })).toMatchObject({ refusals: [{ code: "NOT_FOUND" }] });
      expect(await ostler.engine.stop(ALICE, { work, timeoutSeconds: 0, dryRun })).toMatchObject({
        refusals: [{ code: "INVALID_INPUT" }],
      });
      expect(await ostler.engine.abort(ALICE, { work, mode: "FORCE", dryRun })).toMatchObject({
        refusals: [{ code: "INVALID_INPUT", path: ["input", "reason"] }],
      });
    }
  });
});
