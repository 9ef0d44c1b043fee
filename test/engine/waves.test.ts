/** Waves: an operation starts its nodes in groups, and halts when too many of them fail. */
import { afterAll, describe, expect, test } from "vitest";
import type { VerbRequest } from "../../src/engine/admission/request-terms.ts";
import type { WaveAction } from "../../src/engine/scheduling/waves.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { unsound } from "../support/soundness.ts";
import { changeNode } from "../support/change-node.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

type Waves = NonNullable<VerbRequest["waves"]>;

const steer = (operationId: string, action: WaveAction, reason?: string) =>
  ostler.engine.steerWaves(ALICE, { operationId, action, reason });

/** Nodes that run until the gate opens, and then succeed or fail. */
const blocked = (gate: { readonly name: string }, fail?: string) =>
  ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ "deploy.prepare": { gate: gate.name, ...(fail !== undefined && { fail }) } });
const healthy = () => ostler.aNode().in("AVAILABLE");
const failing = () => healthy().scripted({ "deploy.prepare": { fail: "no luck" } });

const deploy = (nodes: readonly TestNode[], waves: Waves, more: Partial<VerbRequest> = {}) =>
  ostler.begin("DEPLOY", nodes, { waves, ...more });

async function waveBecomes(id: string, state: string, from: EngineUnderTest = ostler) {
  return eventually(`the waves of ${id} become ${state}`, async () => {
    const operation = await from.operation(id);
    return operation.waveState === state && operation;
  });
}

/** Waits until another pause, which began later and is longer, has ended. */
async function pausesRunDown(): Promise<void> {
  const id = await deploy(await healthy().times(2), { sizes: [{ count: 1 }], pauseSeconds: 1 });
  await ostler.operationEnds(id);
}

/** The run of the node has not started, and the node is unchanged. */
async function expectUntouched(id: string, nodes: readonly TestNode[], state = "QUEUED") {
  for (const node of nodes) {
    expect(await ostler.run(id, node), node.name).toMatchObject({ state, startedAt: null });
    expect([ostler.journal(node), await ostler.story(node, id)], node.name).toEqual([[], []]);
  }
}

/** Sizes of the groups in which the nodes were started: a group starts when the one before has ended. */
async function groupsSeen(nodes: readonly TestNode[], id: string): Promise<number[]> {
  const groups: number[] = [];
  let ended = 0;
  let end = -1;
  for (const node of nodes) {
    const positions = (await ostler.transitions(node))
      .filter(({ operationId }) => operationId === id)
      .map(({ position }) => position);
    if ((positions[0] ?? 0) > end) {
      groups.push(0);
      ended = 0;
    }
    groups[groups.length - 1] = (groups.at(-1) ?? 0) + 1;
    ended = Math.max(ended, positions.at(-1) ?? 0);
    if (ended > end) end = ended;
  }
  return groups;
}

describe("next wave", () => {
  test.each([
    { sizes: [{ count: 1 }, { count: 2 }], waves: [1, 2, 2, 1], by: "count, the last size repeated" },
    { sizes: [{ percent: 10 }, { percent: 50 }], waves: [1, 3, 2], by: "percent of all nodes" },
  ])("next wave starts when the one before has ended, with sizes by $by [R-057]", async ({ sizes, waves }) => {
    const gates = waves.map(() => aGate());
    const groups: TestNode[][] = [];
    for (const [wave, size] of waves.entries()) groups.push(await blocked(gates[wave] ?? aGate()).times(size));
    const id = await deploy(groups.flat(), { sizes });
    for (const [wave, nodes] of groups.entries()) {
      expect((await gates[wave]?.arrivals(nodes.length))?.toSorted()).toEqual(nodes.map(({ name }) => name).toSorted());
      expect(await ostler.operation(id)).toMatchObject({ wave, waveState: "RUNNING", waves: { sizes: waves } });
      await expectUntouched(id, groups.slice(wave + 1).flat());
      gates[wave]?.open();
    }
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await groupsSeen(groups.flat(), id)).toEqual(waves);
    expect(await unsound(ostler)).toEqual([]);
  });

  test("next wave starts after failures up to maxFailures", async () => {
    const nodes = [await failing().made(), await healthy().made(), await healthy().made()];
    const id = await deploy(nodes, { sizes: [{ count: 2 }, { count: 1 }], maxFailures: { count: 1 } });
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
    expect(await ostler.nodeState(nodes[2] as TestNode)).toBe("ACTIVE");
  });

  test("next wave does not wait for a slow clean-up, and the operation does", async () => {
    const gate = aGate();
    const bad = await healthy()
      .scripted({ "deploy.prepare": { fail: "no luck" }, "deploy.remove_system": { gate: gate.name } })
      .made();
    const next = await healthy().made();
    const id = await deploy([bad, next], { sizes: [{ count: 1 }] }, { onFailure: "CLEAN_UP_FAILED" });
    await ostler.nodeBecomes(next, "ACTIVE");
    expect((await ostler.operation(id)).finishedAt).toBeNull();
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
    expect(await ostler.nodeState(bad)).toBe("AVAILABLE");
  });

  test("next wave starts after the pause [R-057]", async () => {
    const nodes = await healthy().times(2);
    const id = await deploy(nodes, { sizes: [{ count: 1 }], pauseSeconds: 0.5 });
    const paused = await waveBecomes(id, "PAUSED");
    expect(paused).toMatchObject({
      wave: 0,
      waveBy: "engine",
      waveReason: expect.stringContaining("Wave 1 of 2 has ended"),
      waveUntil: expect.any(Date),
    });
    await expectUntouched(id, nodes.slice(1));
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    const [first] = (await ostler.transitions(nodes[1] as TestNode)).filter(({ operationId }) => operationId === id);
    expect(first?.at.getTime()).toBeGreaterThanOrEqual((paused.waveUntil?.getTime() ?? Infinity) - 100);
    expect(await ostler.operation(id)).toMatchObject({ waveReason: null, waveUntil: null });
  });

  // The end of the pause was set by one clock and checked by another: the only timer fired too early, and no other
  // followed.
  test("next wave starts after the pause, though the timer fires before the stored end", async () => {
    const nodes = await healthy().times(2);
    const id = await deploy(nodes, { sizes: [{ count: 1 }], pauseSeconds: 1 });
    await waveBecomes(id, "PAUSED");
    const [row] = await ostler.test.sql<
      { until: Date }[]
    >`update operations set wave_until = now() + interval '3 seconds' where id = ${id} returning wave_until as until`;
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    const [first] = (await ostler.transitions(nodes[1] as TestNode)).filter(({ operationId }) => operationId === id);
    expect(first?.at.getTime()).toBeGreaterThanOrEqual((row?.until.getTime() ?? Infinity) - 100);
  });

  test("next wave starts during a pause on advanceWaves, once", async () => {
    const gates = [aGate(), aGate()];
    const nodes = [
      await healthy().made(),
      await blocked(gates[0] ?? aGate()).made(),
      await blocked(gates[1] ?? aGate()).made(),
    ];
    const id = await deploy(nodes, { sizes: [{ count: 1 }], pauseSeconds: 1 });
    await waveBecomes(id, "PAUSED");
    expect(await steer(id, "ADVANCE")).toEqual({ operationId: id, refusals: [] });
    await gates[0]?.arrivals();
    // The timer of the interrupted pause fires, and finds that the wave has started.
    await pausesRunDown();
    expect(await ostler.operation(id)).toMatchObject({ wave: 1, waveState: "RUNNING" });
    await expectUntouched(id, nodes.slice(2));
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    await ostler.operationEnds(id);
  });

  test("next wave that requires advanceWaves starts on it [R-057]", async () => {
    const nodes = await healthy().times(3);
    const id = await deploy(nodes, { sizes: [{ count: 1 }], manual: true });
    for (const wave of [0, 1]) {
      await eventually(
        "the next wave is awaited",
        async () => (await ostler.operation(id)).wave === wave && (await ostler.operation(id)).waveState === "AWAITING",
      );
      await expectUntouched(id, nodes.slice(wave + 1));
      expect((await steer(id, "ADVANCE")).refusals).toEqual([]);
    }
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("next wave can be started before the one before has ended", async () => {
    const gate = aGate();
    const nodes = await blocked(gate).times(2);
    const id = await deploy(nodes, { sizes: [{ count: 1 }] });
    await gate.arrivals(1);
    await steer(id, "ADVANCE");
    await gate.arrivals(2);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  // The next wave used to start without a node left in it, and the one after it never started.
  test("next wave is the first one with a node left, if others were aborted while queued", async () => {
    const gate = aGate();
    const nodes = [await blocked(gate).made(), ...(await healthy().times(3))];
    const id = await deploy(nodes, { sizes: [{ count: 1 }] });
    await gate.arrivals();
    const answer = await ostler.engine.abort(ALICE, { work: { ids: [nodes[1]?.id ?? "", nodes[2]?.id ?? ""] } });
    expect(answer.results).toMatchObject([{ effect: "BEFORE_START" }, { effect: "BEFORE_START" }]);
    await expectUntouched(id, nodes.slice(1, 3), "ABORTED");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
    expect(await ostler.nodeState(nodes[3] as TestNode)).toBe("ACTIVE");
  });

  test("next wave does not exist if all remaining nodes were aborted: no pause follows", async () => {
    const gate = aGate();
    const nodes = [await blocked(gate).made(), ...(await healthy().times(2))];
    const id = await deploy(nodes, { sizes: [{ count: 1 }], manual: true });
    await gate.arrivals();
    await ostler.engine.abort(ALICE, { work: { ids: nodes.slice(1).map((node) => node.id) } });
    gate.open();
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "PARTIALLY_SUCCEEDED", waveState: "RUNNING" });
  });
});

describe("too many failures in waves", () => {
  test.each([
    { maxFailures: { count: 0 }, fails: 1, left: 3, by: "count" },
    { maxFailures: { percent: 25 }, fails: 2, left: 2, by: "percent" },
  ])(
    "too many failures by $by halt the waves: the remaining nodes are untouched and the operation shows the reason [R-058]",
    async ({ maxFailures, fails, left }) => {
      const nodes = [...(await failing().times(fails)), ...(await healthy().times(left))];
      const id = await deploy(nodes, { sizes: [{ count: 1 }], maxFailures });
      const before = await ostler.operation(id);
      const halted = await waveBecomes(id, "HALTED");
      expect(halted).toMatchObject({
        state: "RUNNING",
        finishedAt: null,
        wave: fails - 1,
        waveBy: "engine",
        waveReason: expect.stringMatching(new RegExp(`^${fails} nodes? failed and at most ${fails - 1} may`)),
      });
      // Streams report an operation only if its revision has changed.
      expect(halted.revision).toBeGreaterThan(before.revision);
      await expectUntouched(id, nodes.slice(fails));
      expect(await ostler.engine.stop(ALICE, { work: { operationId: id } })).toMatchObject({
        operationId: id,
        refusals: [],
      });
      expect(await ostler.operation(id)).toMatchObject({ state: "STOPPED", finishedAt: expect.any(Date) });
      await expectUntouched(id, nodes.slice(fails), "STOPPED");
      expect(await unsound(ostler)).toEqual([]);
    },
  );

  test("too many failures let started runs continue, and start no more nodes of the same wave [R-058]", async () => {
    const gate = aGate();
    const going = await blocked(gate).made();
    const bad = await failing().made();
    const rest = await healthy().times(2);
    const id = await deploy(
      [going, bad, ...rest],
      { sizes: [{ count: 4 }], maxFailures: { count: 0 } },
      { maxParallel: 2 },
    );
    await waveBecomes(id, "HALTED");
    gate.open();
    await ostler.nodeBecomes(going, "ACTIVE");
    await expectUntouched(id, rest);
    expect((await ostler.operation(id)).waveState).toBe("HALTED");
    await ostler.engine.abort(ALICE, { work: { operationId: id } });
    expect(await ostler.operation(id)).toMatchObject({ state: "ABORTED", finishedAt: expect.any(Date) });
    await expectUntouched(id, rest, "ABORTED");
  });

  test("too many failures do not halt an operation of which every node has started", async () => {
    const nodes = await failing().times(2);
    const id = await deploy(nodes, { sizes: [{ count: 1 }], maxFailures: { count: 1 } });
    expect(await ostler.operationEnds(id)).toMatchObject({ state: "FAILED", waveState: "RUNNING" });
  });

  test("too many failures that were resumed once do not count again [R-058]", async () => {
    const nodes = [await failing().made(), await healthy().made(), await failing().made(), await healthy().made()];
    const id = await deploy(nodes, { sizes: [{ count: 1 }], maxFailures: { count: 0 } });
    await waveBecomes(id, "HALTED");
    expect(await steer(id, "RESUME", "a bad cable")).toEqual({ operationId: id, refusals: [] });
    await ostler.nodeBecomes(nodes[1] as TestNode, "ACTIVE");
    const again = await waveBecomes(id, "HALTED");
    expect(again).toMatchObject({
      wave: 2,
      waves: { forgiven: 1 },
      waveReason: expect.stringContaining("1 node failed"),
    });
    await expectUntouched(id, nodes.slice(3));
    await steer(id, "RESUME");
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
    expect(await ostler.nodeState(nodes[3] as TestNode)).toBe("ACTIVE");
  });

  test("too many failures do not count again after the next wave was started by advanceWaves", async () => {
    const gate = aGate();
    const nodes = [await failing().made(), await blocked(gate).made(), await healthy().made()];
    const id = await deploy(nodes, { sizes: [{ count: 1 }], maxFailures: { count: 0 } });
    await waveBecomes(id, "HALTED");
    expect((await steer(id, "ADVANCE")).refusals).toEqual([]);
    await gate.arrivals();
    await expectUntouched(id, nodes.slice(2));
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
    expect(await ostler.nodeState(nodes[2] as TestNode)).toBe("ACTIVE");
  });

  test("too many failures of a commission in waves clean up the failed nodes only, by default", async () => {
    const nodes = [await failing().made(), await healthy().made()];
    const id = await ostler.begin("COMMISSION", nodes, { waves: { sizes: [{ count: 1 }], maxFailures: { count: 1 } } });
    expect(await ostler.operationEnds(id)).toMatchObject({
      state: "PARTIALLY_SUCCEEDED",
      onFailure: "CLEAN_UP_FAILED",
    });
    expect([await ostler.nodeState(nodes[0] as TestNode), await ostler.nodeState(nodes[1] as TestNode)]).toEqual([
      "AVAILABLE",
      "ACTIVE",
    ]);
  });

  test("waves with a policy that undoes everything are refused", async () => {
    const nodes = await healthy().times(2);
    const before = await ostler.dump();
    const answer = await ostler.submit("COMMISSION", nodes, {
      waves: { sizes: [{ count: 1 }], maxFailures: { percent: 10 } },
      onFailure: "CLEAN_UP_ALL",
    });
    expect(answer).toMatchObject({
      operationId: null,
      refusals: [
        { code: "INVALID_INPUT", path: ["input", "onFailure"], message: expect.stringContaining("CLEAN_UP_FAILED") },
      ],
    });
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  // A run that waited for a slot was skipped because its operation was halted, though the halt does not concern
  // clean-ups.
  test("too many failures do not keep the clean-up of failed nodes from getting a slot of a limit", async () => {
    await ostler.engine.updateSite(ALICE, { phaseLimits: [{ phase: "undeploy", limit: 1 }] });
    const nodes = [await failing().made(), await healthy().made()];
    const id = await deploy(
      nodes,
      { sizes: [{ count: 1 }], maxFailures: { count: 0 } },
      { onFailure: "CLEAN_UP_FAILED" },
    );
    await waveBecomes(id, "HALTED");
    await ostler.nodeBecomes(nodes[0] as TestNode, "AVAILABLE");
    await ostler.engine.updateSite(ALICE, { phaseLimits: null });
    expect((await ostler.operation(id)).waveState).toBe("HALTED");
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    expect((await ostler.operationEnds(id)).state).toBe("STOPPED");
  });
});

test("failure under CLEAN_UP_ALL ends all waves: started nodes are cleaned up, the others untouched", async () => {
  const nodes = [await healthy().made(), await failing().made(), await healthy().made()];
  const id = await ostler.begin("COMMISSION", nodes, { waves: { sizes: [{ count: 1 }] } });
  expect((await ostler.operationEnds(id)).state).toBe("FAILED");
  await expectUntouched(id, nodes.slice(2), "STOPPED");
  expect([await ostler.nodeState(nodes[0] as TestNode), await ostler.nodeState(nodes[1] as TestNode)]).toEqual([
    "AVAILABLE",
    "AVAILABLE",
  ]);
});

describe("halt by request", () => {
  test("halt by request holds back nodes that wait for a worker, too [R-181]", async () => {
    await using lab = await engineUnderTest({ started: false });
    const nodes = await lab.aNode().in("AVAILABLE").times(3);
    const id = await lab.begin("DEPLOY", nodes, { waves: { sizes: [{ count: 3 }] } });
    await lab.engine.steerWaves(ALICE, { operationId: id, action: "HALT" });
    expect((await lab.runs(id)).map(({ state, waitReason }) => [state, waitReason])).toEqual(
      nodes.map(() => ["QUEUED", null]),
    );
    await lab.engine.start();
    await eventually(
      "nothing is due",
      async () => (await lab.test.sql`select from runs where due_at is not null`).length === 0,
    );
    expect(nodes.flatMap((node) => lab.entered(node))).toEqual([]);
    await lab.engine.steerWaves(ALICE, { operationId: id, action: "RESUME" });
    expect((await lab.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("halt by request starts no more nodes, and records caller and reason", async () => {
    const gate = aGate();
    const nodes = [await blocked(gate).made(), ...(await healthy().times(2))];
    const id = await deploy(nodes, { sizes: [{ count: 1 }] });
    await gate.arrivals();
    expect(await steer(id, "HALT", "the rack gets hot")).toEqual({ operationId: id, refusals: [] });
    expect(await ostler.operation(id)).toMatchObject({
      waveState: "HALTED",
      waveReason: "the rack gets hot",
      waveBy: "alice",
      state: "RUNNING",
    });
    gate.open();
    await ostler.nodeBecomes(nodes[0] as TestNode, "ACTIVE");
    await expectUntouched(id, nodes.slice(1));
    await steer(id, "RESUME");
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("halt by request ends a pause, and its timer starts nothing", async () => {
    const nodes = await healthy().times(2);
    const id = await deploy(nodes, { sizes: [{ count: 1 }], pauseSeconds: 0.5 });
    await waveBecomes(id, "PAUSED");
    await steer(id, "HALT");
    await pausesRunDown();
    await expectUntouched(id, nodes.slice(1));
    expect((await ostler.operation(id)).waveState).toBe("HALTED");
    await steer(id, "ADVANCE");
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test.each(["stop", "abort"] as const)(
    "halt by request does not prevent a(n) %s: started runs end, the others never start",
    async (verb) => {
      const gate = aGate();
      const nodes = [await blocked(gate).made(), await healthy().made()];
      const id = await deploy(nodes, { sizes: [{ count: 1 }] });
      await gate.arrivals();
      await steer(id, "HALT");
      await ostler.engine[verb](ALICE, { work: { operationId: id } });
      gate.open();
      expect((await ostler.operationEnds(id)).state).toBe(verb === "stop" ? "STOPPED" : "ABORTED");
      await expectUntouched(id, nodes.slice(1), verb === "stop" ? "STOPPED" : "ABORTED");
      expect((await steer(id, "RESUME")).refusals).toMatchObject([
        { code: "INVALID_STATE", operationId: id, message: expect.stringContaining("has ended") },
      ]);
    },
  );

  test("halt by request leaves an operation that can be restarted, in waves again", async () => {
    const nodes = [await failing().made(), ...(await healthy().times(2))];
    const id = await deploy(nodes, { sizes: [{ count: 1 }], maxFailures: { count: 0 } });
    await waveBecomes(id, "HALTED");
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    for (const { id: nodeId } of nodes) await changeNode(ostler.engine, ALICE, nodeId, { settings: { steps: null } });
    const again =
      (await ostler.engine.restart(ALICE, { work: { operationId: id }, waves: { sizes: [{ count: 2 }] } }))
        .operationId ?? "";
    expect(await ostler.operationEnds(again)).toMatchObject({ state: "SUCCEEDED", waves: { sizes: [2, 1] } });
    expect(await groupsSeen(nodes, again)).toEqual([2, 1]);
  });
});

test("waves combine with maxParallel: it limits the nodes of a wave that run at the same time", async () => {
  const gates = [aGate(), aGate()];
  const nodes = [...(await blocked(gates[0] ?? aGate()).times(3)), ...(await blocked(gates[1] ?? aGate()).times(2))];
  const id = await deploy(nodes, { sizes: [{ count: 3 }] }, { maxParallel: 2 });
  expect(await gates[0]?.arrivals(2)).toHaveLength(2);
  await expectUntouched(id, nodes.slice(2));
  gates[0]?.open();
  await gates[1]?.arrivals(2);
  expect((await ostler.runs(id)).slice(0, 3).map(({ state }) => state)).toEqual([
    "SUCCEEDED",
    "SUCCEEDED",
    "SUCCEEDED",
  ]);
  gates[1]?.open();
  expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
});

describe("invalid waves", () => {
  test.each([
    { waves: { sizes: [] }, path: ["input", "waves", "sizes"] },
    { waves: { sizes: [{ count: 1 }, { count: 0 }] }, path: ["input", "waves", "sizes", "1"] },
    { waves: { sizes: [{ count: 1.5 }] }, path: ["input", "waves", "sizes", "0"] },
    { waves: { sizes: [{ percent: 0 }] }, path: ["input", "waves", "sizes", "0"] },
    { waves: { sizes: [{ percent: 101 }] }, path: ["input", "waves", "sizes", "0"] },
    { waves: { sizes: [{ count: 1 }], pauseSeconds: -1 }, path: ["input", "waves", "pauseSeconds"] },
    { waves: { sizes: [{ count: 1 }], maxFailures: { count: -1 } }, path: ["input", "waves", "maxFailures"] },
    { waves: { sizes: [{ count: 1 }], maxFailures: { percent: 100.5 } }, path: ["input", "waves", "maxFailures"] },
  ])("waves of $waves are refused with the path of the error", async ({ waves, path }) => {
    const node = await healthy().made();
    expect(await ostler.submit("DEPLOY", [node], { waves })).toMatchObject({
      operationId: null,
      refusals: [{ code: "INVALID_INPUT", path }],
    });
    expect(await ostler.nodeState(node)).toBe("AVAILABLE");
  });

  test("advance, halt and resume of waves are refused with the reason where they do not apply", async () => {
    const gate = aGate();
    const plain = await ostler.begin("DEPLOY", [await blocked(gate).made()]);
    expect((await steer(plain, "HALT")).refusals).toMatchObject([
      { code: "INVALID_STATE", operationId: plain, message: expect.stringContaining("has no waves") },
    ]);
    expect((await steer("7f2", "HALT")).refusals).toMatchObject([{ code: "NOT_FOUND", missing: ["7f2"] }]);
    const id = await deploy([await blocked(gate).made()], { sizes: [{ count: 1 }] });
    expect((await steer(id, "RESUME")).refusals).toMatchObject([
      { code: "INVALID_STATE", message: expect.stringContaining("is not halted (RUNNING)") },
    ]);
    expect((await steer(id, "ADVANCE")).refusals).toMatchObject([
      { code: "INVALID_STATE", message: expect.stringContaining("is at its last wave") },
    ]);
    expect((await steer(id, "HALT", "x".repeat(1001))).refusals).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "reason"] },
    ]);
    await gate.arrivals(2);
    await ostler.engine.stop(ALICE, { work: { operationId: id } });
    expect((await steer(id, "HALT")).refusals).toMatchObject([
      { code: "INVALID_STATE", message: expect.stringContaining("is being stopped") },
    ]);
    gate.open();
    await Promise.all([ostler.operationEnds(plain), ostler.operationEnds(id)]);
  });
});

describe("waves when the process ends", () => {
  test("waves continue in another process if the process ends during a wave", async () => {
    await using lab = await engineUnderTest({ started: false });
    const gate = aGate();
    gate.open();
    // Gates belong to one process: they stay shut in the other one and are open here.
    const nodes = await lab
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .times(3);
    const victim = await lab.inAnotherProcess();
    const id = await lab.begin("DEPLOY", nodes, { waves: { sizes: [{ count: 1 }] } });
    await eventually("the first node runs its step", () =>
      lab.entered(nodes[0] as TestNode).includes("deploy.write_image"),
    );
    await victim.kill();
    await lab.leasesRunOut();
    await lab.engine.start();
    expect((await lab.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await unsound(lab)).toEqual([]);
  });

  test("waves pause until the stored end, though the process ends during the pause", async () => {
    await using lab = await engineUnderTest({ started: false });
    const first = await lab.another({ started: true });
    const nodes = await lab.aNode().in("AVAILABLE").times(2);
    const id = await lab.begin("DEPLOY", nodes, { waves: { sizes: [{ count: 1 }], pauseSeconds: 1 } });
    const { waveUntil } = await waveBecomes(id, "PAUSED", lab);
    await first[Symbol.asyncDispose]();
    await lab.engine.start();
    expect((await lab.operationEnds(id)).state).toBe("SUCCEEDED");
    const [begun] = (await lab.transitions(nodes[1] as TestNode)).filter(({ operationId }) => operationId === id);
    expect(begun?.at.getTime()).toBeGreaterThanOrEqual((waveUntil?.getTime() ?? Infinity) - 100);
  });
});
