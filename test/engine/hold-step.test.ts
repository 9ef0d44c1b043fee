/** The reserved step `hold`: the run parks without a timeout until `unhold`, then continues with the next step. */
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, describe, expect, test } from "vitest";
import type { NodeState } from "../../src/lifecycle/node-states.ts";
import type { StepChoice } from "../../src/store/records.ts";
import { chance } from "../durability/lab.ts";
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
const HOLD = step("engine", "hold", { reason: "look at the cabling" });

/** Lists of steps with a hold in the middle, by kind of operation. */
const LISTS = {
  CLEAN: {
    steps: [step("clean", "erase_metadata"), HOLD, step("clean", "erase_disks")],
    running: "CLEANING",
    holds: "CLEAN_HOLD",
    waits: "CLEAN_WAIT",
    failed: "CLEAN_FAILED",
    end: "AVAILABLE",
  },
  DEPLOY: {
    steps: [step("deploy", "prepare"), HOLD, step("deploy", "write_image")],
    running: "DEPLOYING",
    holds: "DEPLOY_HOLD",
    waits: "DEPLOY_WAIT",
    failed: "DEPLOY_FAILED",
    end: "ACTIVE",
  },
} as const satisfies Record<
  string,
  { steps: readonly StepChoice[] } & Record<"running" | "holds" | "waits" | "failed" | "end", NodeState>
>;
type Kind = keyof typeof LISTS;
const KINDS = (["CLEAN", "DEPLOY"] as const).map((kind) => ({ kind, ...LISTS[kind] }));

const unhold = (nodes: readonly TestNode[], reason?: string, lab: EngineUnderTest = ostler) =>
  lab.engine.unhold(ALICE, { work: { ids: nodes.map(({ id }) => id) }, reason });

/** A node whose run is on hold. */
async function onHold(
  kind: Kind = "CLEAN",
  steps: readonly StepChoice[] = LISTS[kind].steps,
  lab: EngineUnderTest = ostler,
) {
  const node = await lab.aNode().in("AVAILABLE").made();
  const id = await lab.begin(kind, [node], { options: { steps } });
  await lab.nodeBecomes(node, LISTS[kind].holds);
  return { node, id };
}

const attemptsOf = async (id: string, node: TestNode, lab: EngineUnderTest = ostler) =>
  (await lab.steps(await lab.run(id, node))).map(({ attempts }) => attempts.map(({ state }) => state).join(" "));

describe.each(KINDS)("hold among the steps of $kind", ({ kind, steps, running, holds, waits, failed, end }) => {
  test(`hold parks the run with the node in ${holds}, shows the reason, and has no job [R-007, R-069]`, async () => {
    const { node, id } = await onHold(kind);
    const run = await ostler.run(id, node);
    expect(run).toMatchObject({
      state: "HOLDING",
      waitReason: "HOLD",
      waitingSince: expect.any(Date),
      owner: null,
      wakeAt: null,
      dueAt: null,
      leaseUntil: null,
      position: 1,
    });
    expect((await ostler.transitions(node)).at(-1)).toMatchObject({
      event: "hold",
      fromState: running,
      toState: holds,
      reason: "look at the cabling",
      step: "engine.hold",
      runId: run.id,
    });
    expect(ostler.entered(node)).toEqual([`${steps[0].interface}.${steps[0].name}`]);
    await unhold([node]);
    await ostler.operationEnds(id);
  });

  test("hold that is lifted continues with the next step, and records the caller and the reason [R-007]", async () => {
    const { node, id } = await onHold(kind);
    expect(await unhold([node], "seen to")).toMatchObject({
      operationId: id,
      refusals: [],
      results: [{ nodeId: node.id, accepted: true, refusal: null }],
    });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.nodeState(node)).toBe(end);
    expect(await attemptsOf(id, node)).toEqual(["SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]);
    expect((await ostler.steps(await ostler.run(id, node)))[1]?.attempts[0]?.output).toEqual({
      liftedBy: "alice",
      reason: "seen to",
    });
    expect((await ostler.transitions(node)).find(({ event }) => event === "unhold")).toMatchObject({
      fromState: holds,
      toState: waits,
      actor: "alice",
      reason: "seen to",
      step: "engine.hold",
    });
    expect((await ostler.story(node, id)).slice(1)).toEqual([
      `hold → ${holds}`,
      `unhold → ${waits}`,
      `resume → ${running}`,
      `done → ${end}`,
    ]);
    expect(await unsound(ostler)).toEqual([]);
  });

  test("hold is ended at once by an abort: the node fails and no later step runs [R-075]", async () => {
    const { node, id } = await onHold(kind);
    expect((await ostler.engine.abort(ALICE, { work: { ids: [node.id] } })).results).toMatchObject([
      { accepted: true, effect: "NOW", afterStep: null },
    ]);
    expect((await ostler.operationEnds(id)).state).toBe("ABORTED");
    expect(await ostler.nodeState(node)).toBe(failed);
    expect(await attemptsOf(id, node)).toEqual(["SUCCEEDED", "ABORTED", ""]);
    expect(await ostler.run(id, node)).toMatchObject({
      state: "ABORTED",
      leftAs: { power: "OFF", tearDownError: null },
    });
    expect(await unsound(ostler)).toEqual([]);
  });

  test("hold is ended at once by a stop, and a restart reaches the hold again", async () => {
    const { node, id } = await onHold(kind);
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
    expect(await ostler.nodeState(node)).toBe("STOPPED");
    const again =
      (await ostler.engine.restart(ALICE, { work: { operationId: id }, from: "UNFINISHED_STEP" })).operationId ?? "";
    await ostler.nodeBecomes(node, holds);
    expect(ostler.entered(node)).toHaveLength(1);
    await unhold([node]);
    expect((await ostler.operationEnds(again)).state).toBe("SUCCEEDED");
    expect(ostler.entered(node)).toHaveLength(2);
  });
});

test("hold may be the first step, the last step, and follow another hold", async () => {
  const { node, id } = await onHold("CLEAN", [HOLD, HOLD, step("clean", "erase_metadata"), HOLD]);
  for (const position of [0, 1, 3]) {
    await eventually(`the run is on hold at ${position}`, async () => {
      const run = await ostler.run(id, node);
      return run.state === "HOLDING" && run.position === position;
    });
    expect(await ostler.nodeState(node)).toBe("CLEAN_HOLD");
    expect((await unhold([node])).refusals).toEqual([]);
  }
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  expect([ostler.entered(node), await ostler.nodeState(node)]).toEqual([["clean.erase_metadata"], "AVAILABLE"]);
});

describe("unhold", () => {
  test("unhold of an operation lifts every hold and reports the nodes that are not on hold", async () => {
    const gate = aGate();
    const busy = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { gate: gate.name } })
      .made();
    const nodes = await ostler.aNode().in("AVAILABLE").times(2);
    const id = await ostler.begin("CLEAN", [busy, ...nodes], { options: { steps: LISTS.CLEAN.steps } });
    for (const node of nodes) await ostler.nodeBecomes(node, "CLEAN_HOLD");
    const answer = await ostler.engine.unhold(ALICE, { work: { operationId: id } });
    expect(answer).toMatchObject({ operationId: id, refusals: [] });
    expect(answer.results.map(({ accepted, refusal }) => [accepted, refusal?.code])).toEqual([
      [false, "INVALID_STATE"],
      [true, undefined],
      [true, undefined],
    ]);
    for (const node of nodes) await ostler.nodeBecomes(node, "AVAILABLE");
    gate.open();
    await ostler.nodeBecomes(busy, "CLEAN_HOLD");
    await unhold([busy]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("unhold without a run on hold is refused and leaves no trace", async () => {
    const gate = aGate();
    const busy = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_disks": { gate: gate.name } })
      .made();
    const idle = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("CLEAN", [busy]);
    await gate.arrivals();
    const before = await ostler.dump();
    const answer = await unhold([busy, idle]);
    expect(answer.results.map(({ refusal }) => refusal?.code)).toEqual(["INVALID_STATE", "NOTHING_RUNNING"]);
    expect(answer.refusals).toMatchObject([
      {
        code: "INVALID_STATE",
        nodeId: busy.id,
        operationId: id,
        message: `The run on node ${busy.name} is not on hold (RUNNING).`,
      },
      { code: "NOTHING_RUNNING", nodeId: idle.id },
    ]);
    expect((await ostler.engine.unhold(ALICE, { work: { operationId: "7f2" } })).refusals).toMatchObject([
      { code: "NOT_FOUND" },
    ]);
    expect(await ostler.changesSince(before)).toEqual([]);
    gate.open();
    await ostler.operationEnds(id);
    expect((await ostler.engine.unhold(ALICE, { work: { operationId: id } })).refusals).toMatchObject([
      { code: "NOTHING_RUNNING", operationId: id },
    ]);
  });

  // The slot scheduler skips locked runs; an unhold that waited with its lock used to cost the queued node its slot.
  test("unhold skips runs that have not started, and does not wait for their locks", async () => {
    const [node, queued] = (await ostler.aNode().in("AVAILABLE").times(2)) as [TestNode, TestNode];
    const id = await ostler.begin("CLEAN", [node, queued], { maxParallel: 1, options: { steps: LISTS.CLEAN.steps } });
    await ostler.nodeBecomes(node, "CLEAN_HOLD");
    await ostler.test.sql.begin(async (sql) => {
      await sql`select from runs where operation_id = ${id} and state = 'QUEUED' for update`;
      let answer: Awaited<ReturnType<typeof unhold>> | undefined;
      void ostler.engine.unhold(ALICE, { work: { operationId: id } }).then((given) => (answer = given));
      await eventually("the request is answered", () => answer !== undefined);
      expect(answer?.results).toMatchObject([
        { nodeId: node.id, accepted: true },
        {
          nodeId: queued.id,
          accepted: false,
          refusal: { code: "INVALID_STATE", message: expect.stringContaining("QUEUED") },
        },
      ]);
    });
    await ostler.nodeBecomes(queued, "CLEAN_HOLD");
    await unhold([queued]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("unhold that comes twice at the same moment lifts each hold once", async () => {
    const { node, id } = await onHold("CLEAN", [HOLD, step("clean", "erase_metadata"), HOLD]);
    const answers = await Promise.all([unhold([node]), unhold([node])]);
    // The second one may find the run continuing, or at its next hold already.
    await eventually("the run is on hold again or has ended", async () => {
      const { state, position } = await ostler.run(id, node);
      return (state === "HOLDING" && position === 2) || state === "SUCCEEDED";
    });
    const lifted = answers.filter(({ results }) => results[0]?.accepted).length;
    expect((await ostler.transitions(node)).filter(({ event }) => event === "unhold")).toHaveLength(lifted);
    await unhold([node]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });
});

describe("run on hold", () => {
  test("run on hold never times out and does not count as lost, however processes come and go [R-147]", async () => {
    await using lab = await engineUnderTest({ started: false });
    const first = await lab.another({ started: true });
    const { node, id } = await onHold("CLEAN", LISTS.CLEAN.steps, lab);
    await first[Symbol.asyncDispose]();
    await lab.test.sql`update attempts set deadline_at = now() - interval '1 day'`;
    await lab.test
      .sql`update runs set updated_at = now() - interval '1 year', waiting_since = now() - interval '1 year'`;
    await lab.engine.start();
    // Work that starts after the process has been recovered at its start.
    const other = await lab.aNode().in("AVAILABLE").made();
    await lab.operationEnds(await lab.begin("CLEAN", [other]));
    expect([await lab.nodeState(node), (await lab.run(id, node)).state]).toEqual(["CLEAN_HOLD", "HOLDING"]);
    expect((await unhold([node], undefined, lab)).refusals).toEqual([]);
    expect((await lab.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await attemptsOf(id, node, lab)).toEqual(["SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]);
  });

  test("run on hold that is lifted while no process runs continues at the next start", async () => {
    await using lab = await engineUnderTest({ started: false });
    const first = await lab.another({ started: true });
    const { node, id } = await onHold("DEPLOY", LISTS.DEPLOY.steps, lab);
    await first[Symbol.asyncDispose]();
    await unhold([node], undefined, lab);
    expect(await lab.nodeState(node)).toBe("DEPLOY_WAIT");
    await lab.engine.start();
    expect((await lab.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await lab.nodeState(node)).toBe("ACTIVE");
  });

  test("run on hold gives its slot of a limit to others, and waits for a slot when it is lifted", async () => {
    await ostler.engine.updateSite(ALICE, { phaseLimits: [{ phase: "clean", limit: 1 }], controllerLimit: 1 });
    const gate = aGate();
    const [holds, other] = [
      await ostler.aNode().in("AVAILABLE").with("fake", { controller: "bmc-1" }).made(),
      await ostler
        .aNode()
        .in("AVAILABLE")
        .with("fake", { controller: "bmc-1", steps: { "clean.erase_metadata": { gate: gate.name } } })
        .sharingController()
        .made(),
    ];
    const id = await ostler.begin("CLEAN", [holds], { options: { steps: LISTS.CLEAN.steps } });
    const second = await ostler.begin("CLEAN", [other]);
    await ostler.nodeBecomes(holds, "CLEAN_HOLD");
    expect(await ostler.run(id, holds)).toMatchObject({ slotPhase: null, slotController: null });
    await gate.arrivals();
    await unhold([holds]);
    await eventually("the run waits for a slot", async () => (await ostler.run(id, holds)).waitFor === "phase:clean");
    expect(await ostler.run(id, holds)).toMatchObject({ state: "WAITING", waitReason: "CAPACITY" });
    expect(ostler.entered(holds)).toEqual(["clean.erase_metadata"]);
    gate.open();
    for (const one of [id, second]) expect((await ostler.operationEnds(one)).state).toBe("SUCCEEDED");
    await ostler.engine.updateSite(ALICE, { phaseLimits: null, controllerLimit: null });
  });

  // The stop of the other nodes was recorded on the operation only, which a run on hold never reads.
  test("run on hold is stopped when the failure of another node undoes the operation", async () => {
    const [gate, end] = [aGate(), aGate()];
    const bad = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name, fail: "no luck" } })
      .made();
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.remove_system": { gate: end.name } })
      .made();
    const id = await ostler.begin("DEPLOY", [bad, node], {
      onFailure: "CLEAN_UP_ALL",
      options: { steps: LISTS.DEPLOY.steps },
    });
    await ostler.nodeBecomes(node, "DEPLOY_HOLD");
    gate.open();
    await end.arrivals();
    expect(await ostler.run(id, node)).toMatchObject({ state: "UNDONE" });
    end.open();
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect([await ostler.nodeState(bad), await ostler.nodeState(node)]).toEqual(["AVAILABLE", "AVAILABLE"]);
  });
});

// A run that is parked without a job depends on a wake-up, and the process that sends it may be busy at that moment.
test.each([7, 42])(
  "run that is parked without a job is always resumed: holds, waits, limits, maintenance, waves, stops and aborts at once (%i)",
  async (seed) => {
    await using lab = await engineUnderTest();
    const other = await lab.another({ started: true });
    const random = chance(seed);
    const steps = [
      step("clean", "erase_metadata"),
      HOLD,
      step("engine", "wait", { seconds: 0.05 }),
      step("clean", "erase_disks"),
    ];
    const nodes = await lab
      .aNode()
      .in("AVAILABLE")
      .with("fake", { delayMs: 5, controller: "bmc" })
      .sharingController()
      .times(12);
    const bad = await lab
      .aNode()
      .in("AVAILABLE")
      .with("fake", { delayMs: 8, steps: { "clean.erase_metadata": { fail: "no luck" } } })
      .times(2);
    const ids = [
      await lab.begin("CLEAN", [...nodes.slice(0, 6), ...bad.slice(0, 1)], {
        options: { steps },
        onFailure: "CLEAN_UP_ALL",
      }),
      await lab.begin("CLEAN", [...nodes.slice(6), ...bad.slice(1)], {
        options: { steps },
        onFailure: "CLEAN_UP_FAILED",
        waves: { sizes: [{ count: 3 }, { count: 5 }] },
      }),
    ];
    const waves = ids[1] ?? "";
    const all = { ids: nodes.map((node) => node.id) };
    for (let round = 0; round < 40; round += 1) {
      const { engine } = random.one([lab, other]);
      const one = { ids: [random.one(nodes).id] };
      const asks: readonly (() => Promise<unknown>)[] = [
        () => engine.unhold(ALICE, { work: one }),
        () => engine.unhold(ALICE, { work: { operationId: random.one(ids) } }),
        () => engine.abort(ALICE, { work: one }),
        () => engine.withdrawAbort(ALICE, { work: one }),
        () => engine.stop(ALICE, { work: one }),
        () =>
          engine
            .restart(ALICE, { work: one, from: "UNFINISHED_STEP" })
            .then(({ operationId }) => operationId && ids.push(operationId)),
        () => engine.setMaintenance(ALICE, one, "new fan"),
        () => engine.clearMaintenance(ALICE, all),
        () =>
          engine.updateSite(ALICE, {
            phaseLimits: [{ phase: "clean", limit: random.whole(1, 3) }],
            controllerLimit: random.one([null, 2]),
          }),
        () => engine.updateSite(ALICE, { phaseLimits: null, controllerLimit: null }),
        () => engine.steerWaves(ALICE, { operationId: waves, action: random.one(["HALT", "RESUME", "ADVANCE"]) }),
      ];
      await random.one(asks)();
      await delay(random.next() * 10);
    }
    await lab.engine.clearMaintenance(ALICE, all);
    await lab.engine.updateSite(ALICE, { phaseLimits: [{ phase: "clean", limit: 1 }] });
    await eventually("everything ends once holds are lifted and waves resumed", async () => {
      const unfinished = await lab.test.sql<{ id: string }[]>`select id from operations where finished_at is null`;
      await lab.engine.steerWaves(ALICE, { operationId: waves, action: "RESUME" });
      for (const { id } of unfinished) await lab.engine.unhold(ALICE, { work: { operationId: id } });
      return unfinished.length === 0;
    });
    expect(await unsound(lab)).toEqual([]);
  },
);
