/**
 * Capacity limits: runs per phase and runs per management controller. A run above a limit waits for a slot and is never
 * lost.
 */
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { SiteChange } from "../../src/engine/inventory/site.ts";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { EngineUnderTest, TestNode } from "../support/builders.ts";
import { eventually } from "../support/eventually.ts";
import { expectOrder } from "../support/order.ts";
import { unsound } from "../support/soundness.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());
afterEach(() => site({ phaseLimits: null, controllerLimit: null }));

async function site(change: SiteChange, lab: EngineUnderTest = ostler): Promise<void> {
  expect(await lab.engine.updateSite(ALICE, change)).toEqual({ done: true, refusals: [] });
}

const limit = (phase: string, most: number, lab?: EngineUnderTest) =>
  site({ phaseLimits: [{ phase, limit: most }] }, lab);

const cleanable = () => ostler.aNode().in("AVAILABLE");
/** Nodes whose machines block in a step of the phase until the gate opens. */
const blockedIn = (step: string, gate: { readonly name: string }) =>
  ostler
    .aNode()
    .in("AVAILABLE")
    .scripted({ [step]: { gate: gate.name } });

/** The maximum number of nodes that were in one of the states at the same time, by the log. */
async function mostAtOnce(
  nodes: readonly TestNode[],
  states: readonly string[],
  lab: EngineUnderTest = ostler,
): Promise<number> {
  const rows = (await Promise.all(nodes.map((node) => lab.transitions(node))))
    .flat()
    .filter(({ operationId }) => operationId !== null)
    .toSorted((a, b) => a.position - b.position);
  const inside = new Set<string>();
  let most = 0;
  for (const { nodeId, toState } of rows) {
    if (states.includes(toState ?? "")) inside.add(nodeId);
    else inside.delete(nodeId);
    most = Math.max(most, inside.size);
  }
  return most;
}

/** Names of nodes in the order in which an event happened to them in some operations. */
async function orderOf(
  event: string,
  nodes: readonly TestNode[],
  operations: readonly string[],
  lab: EngineUnderTest = ostler,
): Promise<string[]> {
  const rows = (await Promise.all(nodes.map((node) => lab.transitions(node)))).flat();
  return rows
    .filter((row) => row.event === event && operations.includes(row.operationId ?? ""))
    .toSorted((a, b) => a.position - b.position)
    .map(({ nodeName }) => nodeName);
}

const names = (nodes: readonly TestNode[]) => nodes.map(({ name }) => name);
const CLEANING = ["CLEANING", "CLEAN_WAIT", "CLEAN_HOLD"];

describe("phase limit", () => {
  test("phase limit holds over all operations: it is never exceeded, and the longest waiting runs get the next slots [R-054]", async () => {
    await limit("clean", 2);
    const nodes = await ostler.aNode().in("AVAILABLE").with("fake", { delayMs: 5 }).times(12);
    const operations: string[] = [];
    for (const from of [0, 6]) operations.push(await ostler.begin("CLEAN", nodes.slice(from, from + 6)));
    for (const id of operations) expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await mostAtOnce(nodes, CLEANING)).toBe(2);
    expectOrder(await orderOf("clean", nodes, operations), names(nodes), 2);
    expect(await unsound(ostler)).toEqual([]);
  });

  test("phase limit leaves a node that waits to start QUEUED and untouched, and reports what it waits for [R-056]", async () => {
    await limit("deploy", 1);
    const gate = aGate();
    const [first, second] = (await blockedIn("deploy.prepare", gate).times(2)) as [TestNode, TestNode];
    const id = await ostler.begin("DEPLOY", [first, second]);
    await gate.arrivals();
    expect(await ostler.run(id, first)).toMatchObject({ state: "RUNNING", slotPhase: "deploy", waitFor: null });
    expect(await ostler.run(id, second)).toMatchObject({
      state: "QUEUED",
      waitFor: "phase:deploy",
      waitingSince: expect.any(Date),
      startedAt: null,
    });
    expect([await ostler.nodeState(second), ostler.journal(second), await ostler.story(second, id)]).toEqual([
      "AVAILABLE",
      [],
      [],
    ]);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.run(id, second)).toMatchObject({ waitFor: null, waitingSince: null, slotPhase: null });
  });

  test("phase limit between two phases: the run is WAITING, its node at rest, and no process holds it [R-182]", async () => {
    await limit("clean", 1);
    const gate = aGate();
    const [first, second] = (await ostler
      .aNode()
      .scripted({ "clean.erase_metadata": { gate: gate.name } })
      .times(2)) as [TestNode, TestNode];
    const id = await ostler.begin("COMMISSION", [first, second], { options: { until: "AVAILABLE" } });
    const [inside] = await gate.arrivals();
    const other = inside === first.name ? second : first;
    await eventually("the other run waits for a slot", async () => (await ostler.run(id, other)).waitFor !== null);
    expect(await ostler.run(id, other)).toMatchObject({
      state: "WAITING",
      waitReason: "CAPACITY",
      waitFor: "phase:clean",
      owner: null,
      wakeAt: null,
      slotPhase: null,
    });
    expect(await ostler.nodeState(other)).toBe("MANAGEABLE");
    expect(ostler.entered(other)).toEqual(["inspect.collect_inventory"]);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await mostAtOnce([first, second], CLEANING)).toBe(1);
    expect(await unsound(ostler)).toEqual([]);
  });

  test("phase limit between tear-down and cleaning: the node waits in UNDEPLOY_WAIT, because the route has no state at rest [R-182]", async () => {
    await limit("clean", 1);
    const gate = aGate();
    const inside = await blockedIn("clean.erase_metadata", gate).made();
    const cleaning = await ostler.begin("CLEAN", [inside]);
    await gate.arrivals();
    const node = await ostler.aNode().in("ACTIVE").made();
    const id = await ostler.begin("UNDEPLOY", [node]);
    await ostler.nodeBecomes(node, "UNDEPLOY_WAIT");
    gate.open();
    for (const one of [cleaning, id]) expect((await ostler.operationEnds(one)).state).toBe("SUCCEEDED");
    expect(await ostler.nodeState(node)).toBe("AVAILABLE");
  });

  test("phase limit counts a run that is parked in a step of the phase", async () => {
    await limit("clean", 1);
    const nodes = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "clean.erase_metadata": { waitSeconds: 0.3 } })
      .times(2);
    const id = await ostler.begin("CLEAN", nodes);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await mostAtOnce(nodes, CLEANING)).toBe(1);
  });

  // The slot was free, but without a notification each waiting run got it only at the next poll.
  test("phase limit hands a slot on as soon as a run enters its next phase", async () => {
    await limit("clean", 1);
    const gate = aGate();
    const nodes = await ostler
      .aNode()
      .in("MANAGEABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(6);
    const id = await ostler.begin("COMMISSION", nodes);
    await eventually(
      "all have been cleaned",
      async () => (await ostler.runs(id)).every(({ slotPhase }) => slotPhase === "deploy"),
      8_000,
    );
    expect(await mostAtOnce(nodes, CLEANING)).toBe(1);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("phase limit counts the clean-up of failed nodes", async () => {
    await limit("clean", 1);
    const nodes = await cleanable()
      .scripted({ "deploy.prepare": { fail: "no luck" }, "clean.erase_disks": { delayMs: 20 } })
      .times(3);
    const id = await ostler.begin("COMMISSION", nodes);
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect((await ostler.runs(id)).filter(({ purpose }) => purpose === "CLEAN_UP").length).toBeGreaterThan(0);
    expect(await mostAtOnce(nodes, ["CLEANING"])).toBe(1);
    for (const node of nodes) expect(await ostler.nodeState(node)).toBe("AVAILABLE");
    expect(await unsound(ostler)).toEqual([]);
  });

  test("phase limit combines with maxParallel: a run that waits for the service counts in its operation", async () => {
    await limit("deploy", 1);
    const gate = aGate();
    const [blocker] = await blockedIn("deploy.prepare", gate).times(1);
    const before = await ostler.begin("DEPLOY", [blocker as TestNode]);
    await gate.arrivals();
    const nodes = await cleanable().times(4);
    const id = await ostler.begin("DEPLOY", nodes, { maxParallel: 2 });
    expect((await ostler.runs(id)).map(({ state, waitFor }) => [state, waitFor])).toEqual([
      ["QUEUED", "phase:deploy"],
      ["QUEUED", "phase:deploy"],
      ["QUEUED", null],
      ["QUEUED", null],
    ]);
    gate.open();
    expect((await ostler.operationEnds(before)).state).toBe("SUCCEEDED");
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await mostAtOnce([blocker as TestNode, ...nodes], ["DEPLOYING"])).toBe(1);
    expect(await orderOf("deploy", nodes, [id])).toEqual(names(nodes));
  });
});

describe("change of a limit", () => {
  test("limit that is removed lets all waiting runs start", async () => {
    await limit("deploy", 1);
    const gate = aGate();
    const nodes = await blockedIn("deploy.prepare", gate).times(4);
    const id = await ostler.begin("DEPLOY", nodes);
    expect(await gate.arrivals(1)).toHaveLength(1);
    await site({ phaseLimits: null });
    await gate.arrivals(4);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("limit that is raised lets more runs start; a limit that is lowered lets the running ones end", async () => {
    await limit("deploy", 1);
    const [gate, last] = [aGate(), aGate()];
    const nodes = [
      ...(await blockedIn("deploy.prepare", gate).times(3)),
      ...(await blockedIn("deploy.prepare", last).times(2)),
    ];
    const id = await ostler.begin("DEPLOY", nodes);
    await gate.arrivals(1);
    await limit("deploy", 3);
    await gate.arrivals(3);
    await limit("deploy", 1);
    gate.open();
    expect(await last.arrivals(1)).toHaveLength(1);
    expect((await ostler.runs(id)).map(({ state }) => state)).toEqual([
      "SUCCEEDED",
      "SUCCEEDED",
      "SUCCEEDED",
      "RUNNING",
      "QUEUED",
    ]);
    last.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("limit that is introduced counts the runs that started before", async () => {
    const gate = aGate();
    const early = await blockedIn("deploy.prepare", gate).made();
    const first = await ostler.begin("DEPLOY", [early]);
    await gate.arrivals();
    await limit("deploy", 1);
    const late = await cleanable().made();
    const second = await ostler.begin("DEPLOY", [late]);
    expect(await ostler.run(second, late)).toMatchObject({ state: "QUEUED", waitFor: "phase:deploy" });
    gate.open();
    for (const id of [first, second]) expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await mostAtOnce([early, late], ["DEPLOYING"])).toBe(1);
  });
});

describe("controller limit", () => {
  const behind = (controller: string, script: object = {}) =>
    ostler
      .aNode()
      .in("AVAILABLE")
      .with("fake", { controller, ...script })
      .sharingController();

  test("controller limit applies to the nodes of each controller separately [R-055]", async () => {
    await site({ controllerLimit: 1 });
    const chassis = await behind("10.0.0.7", { delayMs: 5 }).times(4);
    const gate = aGate();
    const others = [
      await behind("10.0.0.8", { steps: { "deploy.prepare": { gate: gate.name } } }).made(),
      await blockedIn("deploy.prepare", gate).made(),
      await blockedIn("deploy.prepare", gate).made(),
    ];
    const id = await ostler.begin("DEPLOY", [...chassis, ...others]);
    await gate.arrivals(3);
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await mostAtOnce(chassis, ["DEPLOYING"])).toBe(1);
    expect(await orderOf("deploy", chassis, [id])).toEqual(names(chassis));
  });

  test("controller limit counts a run from its first phase to its end", async () => {
    await site({ controllerLimit: 1 });
    const nodes = await ostler.aNode().with("fake", { controller: "10.0.0.9" }).sharingController().times(2);
    const id = await ostler.begin("COMMISSION", nodes);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    const begun = await orderOf("verify", nodes, [id]);
    expect(begun).toHaveLength(2);
    const [first, second] = begun.map((name) => nodes.find((node) => node.name === name) as TestNode);
    const [end, start] = [
      (await ostler.transitions(first as TestNode)).at(-1),
      (await ostler.transitions(second as TestNode)).find(({ event }) => event === "verify"),
    ];
    expect(end?.toState).toBe("ACTIVE");
    expect(start?.position).toBeGreaterThan(end?.position ?? Infinity);
  });

  // A run that waits for a controller used to be recorded one poll at a time, while all others waited behind it.
  test("controller limit does not delay runs that wait for a phase", async () => {
    await site({ phaseLimits: [{ phase: "deploy", limit: 2 }], controllerLimit: 1 });
    const [chassisGate, gate] = [aGate(), aGate()];
    const chassis = await behind("10.0.1.1", { steps: { "deploy.prepare": { gate: chassisGate.name } } }).times(15);
    const other = await blockedIn("deploy.prepare", gate).made();
    const id = await ostler.begin("DEPLOY", [...chassis, other]);
    await Promise.race([
      gate.arrivals(),
      new Promise((_, reject) => setTimeout(() => reject(new Error("It waits behind them.")), 10_000).unref()),
    ]);
    expect(await chassisGate.arrivals(1)).toHaveLength(1);
    expect((await ostler.run(id, chassis[14] as TestNode)).waitFor).toBe("controller:10.0.1.1");
    gate.open();
    chassisGate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await mostAtOnce(chassis, ["DEPLOYING"])).toBe(1);
  });
});

describe("run that waits for a slot", () => {
  async function blockedAndWaiting() {
    await limit("deploy", 1);
    const gate = aGate();
    const nodes = await blockedIn("deploy.prepare", gate).times(3);
    const id = await ostler.begin("DEPLOY", nodes);
    await gate.arrivals();
    return { gate, nodes: nodes as [TestNode, TestNode, TestNode], id };
  }

  test.each([
    { verb: "abort", end: "ABORTED" },
    { verb: "stop", end: "STOPPED" },
  ] as const)(
    "run that waits to start is left untouched by a(n) $verb, and the next run gets the slot",
    async ({ verb, end }) => {
      const { gate, nodes, id } = await blockedAndWaiting();
      const answer = await ostler.engine[verb](ALICE, { work: { ids: [nodes[1].id] } });
      expect(answer.results).toMatchObject([{ accepted: true }]);
      expect(await ostler.run(id, nodes[1])).toMatchObject({ state: end, startedAt: null, waitFor: null });
      expect([await ostler.nodeState(nodes[1]), ostler.journal(nodes[1])]).toEqual(["AVAILABLE", []]);
      gate.open();
      await ostler.operationEnds(id);
      expect([await ostler.nodeState(nodes[0]), await ostler.nodeState(nodes[2])]).toEqual(["ACTIVE", "ACTIVE"]);
    },
  );

  test.each([
    { verb: "abort", run: "ABORTED" },
    { verb: "stop", run: "STOPPED" },
  ] as const)(
    "run that waits between two phases is ended at once by a(n) $verb, and its node stays at rest [R-182]",
    async ({ verb, run }) => {
      await limit("clean", 1);
      const gate = aGate();
      const inside = await blockedIn("clean.erase_metadata", gate).made();
      const cleaning = await ostler.begin("CLEAN", [inside]);
      await gate.arrivals();
      const node = await ostler.aNode().made();
      const id = await ostler.begin("COMMISSION", [node]);
      await eventually("the run waits for a slot", async () => (await ostler.run(id, node)).waitFor !== null);
      expect(await ostler.nodeState(node)).toBe("MANAGEABLE");
      const answer = await ostler.engine[verb](ALICE, { work: { operationId: id } });
      expect(answer).toMatchObject({ operationId: id, refusals: [], results: [{ accepted: true }] });
      expect((await ostler.operationEnds(id)).state).toBe(run);
      expect([await ostler.nodeState(node), (await ostler.run(id, node)).state]).toEqual(["MANAGEABLE", run]);
      expect(ostler.entered(node)).toEqual(["inspect.collect_inventory"]);
      gate.open();
      await ostler.operationEnds(cleaning);
      const again = await ostler.engine.restart(ALICE, { work: { operationId: id } });
      expect((await ostler.operationEnds(again.operationId ?? "")).state).toBe("SUCCEEDED");
      expect(await unsound(ostler)).toEqual([]);
    },
  );

  test("run that waits for a slot and is restarted obeys the limits of that moment", async () => {
    const { gate, nodes, id } = await blockedAndWaiting();
    await ostler.engine.stop(ALICE, { work: { ids: [nodes[2].id] } });
    const again = await ostler.engine.restart(ALICE, { work: { ids: [nodes[2].id] } });
    expect(again.refusals).toEqual([]);
    expect(await ostler.run(again.operationId ?? "", nodes[2])).toMatchObject({
      state: "QUEUED",
      waitFor: "phase:deploy",
    });
    gate.open();
    for (const one of [id, again.operationId ?? ""]) await ostler.operationEnds(one);
    expect(await orderOf("deploy", nodes, [id, again.operationId ?? ""])).toEqual(names(nodes));
    expect(await mostAtOnce(nodes, ["DEPLOYING"])).toBe(1);
  });
});

// The state of the waves was read without the operation's lock, so the halt was answered before the node started.
test("run of an operation that is halted at that moment does not start", async () => {
  await site({
    phaseLimits: [
      { phase: "deploy", limit: 1 },
      { phase: "clean", limit: 1 },
    ],
  });
  const gate = aGate();
  const inside = [
    await blockedIn("deploy.prepare", gate).made(),
    await blockedIn("clean.erase_metadata", gate).made(),
  ] as const;
  const first = [await ostler.begin("DEPLOY", [inside[0]]), await ostler.begin("CLEAN", [inside[1]])];
  await gate.arrivals(2);
  const [halted, other] = [await cleanable().made(), await cleanable().made()];
  const [id, second] = [
    await ostler.begin("DEPLOY", [halted], { waves: { sizes: [{ count: 1 }] } }),
    await ostler.begin("CLEAN", [other]),
  ];
  await ostler.test.sql.begin(async (sql) => {
    await sql`update operations set wave_state = 'HALTED' where id = ${id}`;
    await site({ phaseLimits: null });
    // Both get their slots in one pass of the scheduler.
    await ostler.operationEnds(second);
  });
  expect(await ostler.run(id, halted)).toMatchObject({ state: "QUEUED", startedAt: null });
  expect([await ostler.nodeState(halted), await ostler.story(halted, id)]).toEqual(["AVAILABLE", []]);
  expect((await ostler.engine.steerWaves(ALICE, { operationId: id, action: "RESUME" })).refusals).toEqual([]);
  gate.open();
  for (const one of [...first, id]) expect((await ostler.operationEnds(one)).state).toBe("SUCCEEDED");
});

describe("queued run that another transaction has locked", () => {
  async function whileHeld(id: string, node: TestNode, happens: () => Promise<unknown>) {
    await ostler.test.sql.begin(async (sql) => {
      await sql`select from runs where operation_id = ${id} and node_id = ${node.id} for update`;
      await happens();
    });
  }

  test("queued run that is locked when its slot is free starts after the lock is released", async () => {
    const gate = aGate();
    const [node, queued] = [await blockedIn("clean.erase_metadata", gate).made(), await cleanable().made()];
    const id = await ostler.begin("CLEAN", [node, queued], { maxParallel: 1 });
    await gate.arrivals();
    await whileHeld(id, queued, async () => {
      gate.open();
      await ostler.nodeBecomes(node, "AVAILABLE");
    });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await ostler.nodeState(queued)).toBe("AVAILABLE");
  });

  test("queued run that is locked when a failure stops it ends after the lock is released, and the clean-up of all starts", async () => {
    const gate = aGate();
    const [node, queued] = [
      await ostler
        .aNode()
        .in("AVAILABLE")
        .scripted({ "deploy.prepare": { gate: gate.name, fail: "no luck" } })
        .made(),
      await cleanable().made(),
    ];
    const id = await ostler.begin("DEPLOY", [node, queued], { maxParallel: 1, onFailure: "CLEAN_UP_ALL" });
    await gate.arrivals();
    await whileHeld(id, queued, async () => {
      gate.open();
      await ostler.nodeBecomes(node, "DEPLOY_FAILED");
    });
    expect((await ostler.operationEnds(id)).state).toBe("FAILED");
    expect(await ostler.run(id, queued)).toMatchObject({ state: "STOPPED", startedAt: null });
    expect([await ostler.nodeState(node), ostler.journal(queued)]).toEqual(["AVAILABLE", []]);
  });
});

describe("limits with several processes", () => {
  test("phase limit holds over several processes [R-054]", async () => {
    await using lab = await engineUnderTest({ started: false });
    await Promise.all([lab.another({ started: true }), lab.another({ started: true })]);
    await limit("clean", 3, lab);
    const nodes = await lab.aNode().with("fake", { delayMs: 2 }).times(20);
    const ids = [await lab.begin("COMMISSION", nodes.slice(0, 10)), await lab.begin("COMMISSION", nodes.slice(10))];
    for (const id of ids) expect((await lab.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await mostAtOnce(nodes, CLEANING, lab)).toBeLessThanOrEqual(3);
    expect(await unsound(lab)).toEqual([]);
  });

  test("phase limit: the slot of a dead process moves with its run and is free when the run ends [R-056]", async () => {
    await using lab = await engineUnderTest({ started: false });
    await limit("deploy", 1, lab);
    const gate = aGate();
    gate.open();
    // Gates belong to one process: they stay shut in the other one and are open here.
    const nodes = await lab
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.write_image": { gate: gate.name } })
      .times(3);
    const victim = await lab.inAnotherProcess();
    const id = await lab.begin("DEPLOY", nodes);
    await eventually("one node runs its step", () =>
      nodes.some((node) => lab.entered(node).includes("deploy.write_image")),
    );
    await victim.kill();
    expect((await lab.runs(id)).filter(({ slotPhase }) => slotPhase === "deploy")).toHaveLength(1);
    await lab.leasesRunOut();
    await lab.engine.start();
    expect((await lab.operationEnds(id)).state).toBe("SUCCEEDED");
    expect(await mostAtOnce(nodes, ["DEPLOYING"], lab)).toBe(1);
    expect(await unsound(lab)).toEqual([]);
  });
});
