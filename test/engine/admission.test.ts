/** Admission of requests on many nodes: decided as a whole, stored once, replayed for the same idempotency key. */
import { afterAll, describe, expect, test } from "vitest";
import { ALICE, aGate, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import type { VerbRequest } from "../../src/engine/admission/request-terms.ts";
import { expectOrder } from "../support/order.ts";
import { changeNode } from "../support/change-node.ts";
import { FAKE_STEPS } from "../support/fake-steps.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const names = (nodes: readonly TestNode[]) => nodes.map(({ name }) => name);

describe("request that is refused as a whole", () => {
  test("request without nodes is refused with INVALID_INPUT [R-040]", async () => {
    const answer = await ostler.engine.submit(ALICE, { kind: "COMMISSION", nodes: { names: [] } });
    expect(answer).toMatchObject({
      operationId: null,
      refusals: [{ code: "INVALID_INPUT", path: ["input", "nodes", "names"] }],
    });
  });

  test("request with unknown nodes is refused, even with BEST_EFFORT, and lists all of them [R-041]", async () => {
    const node = await ostler.aNode().made();
    const answer = await ostler.engine.submit(ALICE, {
      kind: "COMMISSION",
      nodes: { names: ["ghost-1", node.name, "ghost-2"] },
      acceptance: "BEST_EFFORT",
    });
    expect(answer.refusals).toMatchObject([{ code: "NOT_FOUND", missing: ["ghost-1", "ghost-2"] }]);
    expect(await ostler.nodeState(node)).toBe("ENROLLED");
  });

  test("request with malformed or unknown ids is refused with NOT_FOUND", async () => {
    const answer = await ostler.engine.submit(ALICE, {
      kind: "COMMISSION",
      nodes: { ids: ["7", "00000000-0000-4000-8000-000000000000"] },
    });
    expect(answer.refusals).toMatchObject([
      { code: "NOT_FOUND", missing: ["7", "00000000-0000-4000-8000-000000000000"] },
    ]);
  });

  test("request with 10,000 unknown nodes returns all of them and names the first ten in the message", async () => {
    const ghosts = Array.from({ length: 10_000 }, (_, index) => `ghost-${index}`);
    const { refusals } = await ostler.engine.submit(ALICE, { kind: "DEPLOY", nodes: { names: ghosts } });
    expect(refusals).toEqual([
      {
        code: "NOT_FOUND",
        message: `Nodes ${ghosts.slice(0, 10).join(", ")} and 9,990 others do not exist.`,
        path: ["input", "nodes", "names"],
        missing: ghosts,
        nodes: { count: 10_000, refs: ghosts.slice(0, 10) },
      },
    ]);
  });

  test("request by a filter without matches, an empty cluster or an unknown cluster is refused [R-040]", async () => {
    await ostler.engine.createCluster(ALICE, { name: "empty" });
    const codes = [];
    for (const nodes of [
      { filter: { name: { eq: "ghost" } } },
      { cluster: { name: "empty" } },
      { cluster: { name: "ghost" } },
    ]) {
      const { refusals } = await ostler.engine.submit(ALICE, { kind: "COMMISSION", nodes });
      codes.push(refusals.map(({ code }) => code).join());
    }
    expect(codes).toEqual(["NOT_FOUND", "INVALID_INPUT", "NOT_FOUND"]);
  });

  test("request with one node in the wrong state is refused and names every such node [R-042]", async () => {
    const ready = await ostler.aNode().in("AVAILABLE").made();
    const wrong = await ostler.aNode().times(2);
    const answer = await ostler.submit("DEPLOY", [ready, ...wrong]);
    expect(answer.operationId).toBeNull();
    expect(answer.results.flatMap(({ refusal }) => (refusal ? [[refusal.code, refusal.nodeId]] : []))).toEqual(
      wrong.map(({ id }) => ["INVALID_STATE", id]),
    );
    expect(answer.results.map(({ accepted }) => accepted)).toEqual([false, false, false]);
    expect(await ostler.nodeState(ready)).toBe("AVAILABLE");
  });

  test("request with malformed terms is refused with every error", async () => {
    const node = await ostler.aNode().made();
    const answer = await ostler.submit("COMMISSION", [node], {
      maxParallel: 0,
      idempotencyKey: "",
      reason: "x".repeat(1001),
      variables: [1],
    });
    expect(answer.refusals.map(({ code, path }) => `${code} ${path?.at(-1)}`)).toEqual([
      "INVALID_INPUT maxParallel",
      "INVALID_INPUT idempotencyKey",
      "INVALID_INPUT reason",
      "INVALID_INPUT variables",
    ]);
  });

  test("request is refused for each node that is busy, in maintenance, protected, disappeared or without its driver [R-042]", async () => {
    const gate = aGate();
    const busy = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .made();
    const [maintained, protectedNode, disappeared, orphan] = (await ostler.aNode().in("AVAILABLE").times(4)) as [
      TestNode,
      TestNode,
      TestNode,
      TestNode,
    ];
    const running = await ostler.begin("DEPLOY", [busy]);
    await gate.arrivals();
    await ostler.engine.setMaintenance(ALICE, { ids: [maintained.id] }, "new disk");
    await changeNode(ostler.engine, ALICE, protectedNode.id, { isProtected: true });
    await ostler.test.sql`update nodes set presence = 'DISAPPEARED' where id = ${disappeared.id}`;
    await ostler.test.sql`update nodes set driver = 'unloaded' where id = ${orphan.id}`;
    const answer = await ostler.submit("DEPLOY", [busy, maintained, protectedNode, disappeared, orphan], {
      acceptance: "BEST_EFFORT",
    });
    expect(answer.refusals.map(({ code }) => code)).toEqual([
      "BUSY",
      "IN_MAINTENANCE",
      "PROTECTED",
      "INVALID_STATE",
      "UNSUPPORTED_BY_DRIVER",
    ]);
    expect(answer.refusals[0]).toMatchObject({ operationId: running, nodeId: busy.id });
    gate.open();
    await ostler.operationEnds(running);
  });
});

describe("acceptance BEST_EFFORT", () => {
  test("acceptance BEST_EFFORT starts the admissible nodes and returns a refusal for each of the others [R-043]", async () => {
    const ready = await ostler.aNode().in("AVAILABLE").made();
    const wrong = await ostler.aNode().made();
    const answer = await ostler.submit("DEPLOY", [wrong, ready], { acceptance: "BEST_EFFORT" });
    expect(answer.results.map(({ ref, accepted, refusal }) => [ref, accepted, refusal?.code])).toEqual([
      [wrong.id, false, "INVALID_STATE"],
      [ready.id, true, undefined],
    ]);
    const operation = await ostler.operationEnds(answer.operationId ?? "");
    expect(operation).toMatchObject({ state: "SUCCEEDED", totalCount: 1 });
    expect(await ostler.nodeState(wrong)).toBe("ENROLLED");
  });

  test("acceptance BEST_EFFORT refuses a request without an admissible node [R-043]", async () => {
    const answer = await ostler.submit("DEPLOY", await ostler.aNode().times(2), { acceptance: "BEST_EFFORT" });
    expect(answer.operationId).toBeNull();
    expect(answer.refusals).toMatchObject([{ code: "INVALID_STATE", nodes: { count: 2 } }]);
  });

  test("a request that is refused for 500 nodes has one error per code, not 500 copies of a sentence [R-152]", async () => {
    const ready = await ostler.aNode().in("AVAILABLE").made();
    const wrong = await ostler.aNode().times(500);
    await ostler.engine.setMaintenance(ALICE, { names: [wrong[0]?.name ?? ""] }, "fan");
    const { operationId, results, refusals } = await ostler.submit("DEPLOY", [...wrong, ready]);
    expect(operationId).toBeNull();
    expect(results.flatMap(({ refusal }) => (refusal ? [refusal.code] : []))).toHaveLength(500);
    const others = wrong.slice(1, 11).map(({ id }) => id);
    expect(refusals).toMatchObject([
      { code: "IN_MAINTENANCE", nodeId: wrong[0]?.id },
      { code: "INVALID_STATE", nodeId: wrong[1]?.id, nodes: { count: 499, refs: others } },
    ]);
    expect(refusals[1]?.message).toMatch(
      `499 nodes are refused with INVALID_STATE: ${others.join(", ")} and 489 others. The first reason: Node ${wrong[1]?.name}`,
    );
  });
});

test("request that names a node twice counts it once, at its first position [R-059]", async () => {
  const [first, second] = (await ostler.aNode().in("AVAILABLE").times(2)) as [TestNode, TestNode];
  const answer = await ostler.engine.submit(ALICE, {
    kind: "DEPLOY",
    nodes: { names: [second.name, first.name, second.name] },
  });
  expect(answer.results.map(({ ref }) => ref)).toEqual(names([second, first]));
  expect(await ostler.operationEnds(answer.operationId ?? "")).toMatchObject({ totalCount: 2, state: "SUCCEEDED" });
});

test("requests that overlap at the same moment: one is admitted whole, the other is BUSY with its operation [R-046]", async () => {
  const gate = aGate();
  const operations: string[] = [];
  for (let round = 0; round < 8; round += 1) {
    const [a, b, c] = (await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(3)) as [TestNode, TestNode, TestNode];
    const answers = await Promise.all([ostler.submit("DEPLOY", [a, b]), ostler.submit("DEPLOY", [c, b])]);
    const winners = answers.flatMap(({ operationId }) => operationId ?? []);
    const losers = answers.filter(({ operationId }) => operationId === null);
    expect([winners.length, losers.length]).toEqual([1, 1]);
    expect(losers[0]?.refusals).toMatchObject([{ code: "BUSY", nodeId: b.id, operationId: winners[0] }]);
    operations.push(...winners);
  }
  gate.open();
  for (const id of operations) expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
});

describe("refused request", async () => {
  const ready = await ostler.aNode().in("AVAILABLE").made();
  const enrolled = await ostler.aNode().made();
  const cases: readonly { why: string; request: VerbRequest }[] = [
    { why: "an unknown node", request: { kind: "DEPLOY", nodes: { names: [ready.name, "ghost"] } } },
    { why: "a node in the wrong state", request: { kind: "DEPLOY", nodes: { names: [ready.name, enrolled.name] } } },
    { why: "malformed variables", request: { kind: "DEPLOY", nodes: { names: [ready.name] }, variables: "x" } },
    {
      why: "an unknown clean step",
      request: {
        kind: "CLEAN",
        nodes: { names: [ready.name] },
        options: { steps: [{ interface: "clean", name: "polish", args: {} }] },
      },
    },
    {
      why: "invalid arguments of a clean step",
      request: {
        kind: "CLEAN",
        nodes: { names: [ready.name] },
        options: { steps: [{ interface: "clean", name: "update_firmware", args: { version: "new" } }] },
      },
    },
    { why: "a dry run", request: { kind: "DEPLOY", nodes: { names: [ready.name] }, dryRun: true } },
    {
      why: "a dry run with a key",
      request: { kind: "DEPLOY", nodes: { names: [ready.name] }, dryRun: true, idempotencyKey: "dry" },
    },
  ];

  test.each(cases)("refused request with $why leaves no trace [R-045]", async ({ request }) => {
    const before = await ostler.dump();
    const { operationId } = await ostler.engine.submit(ALICE, request);
    expect(operationId).toBeNull();
    expect(await ostler.changesSince(before)).toEqual([]);
  });
});

test("dry run returns every step of every node in order, and the refusals", async () => {
  const node = await ostler.aNode().made();
  const answer = await ostler.submit("COMMISSION", [node], { dryRun: true });
  expect(answer.refusals).toEqual([]);
  expect(answer.results[0]?.plan?.steps.map(({ phase, interface: of, name }) => `${phase} ${of}.${name}`)).toEqual(
    (["verify", "inspect", "clean", "deploy"] as const).flatMap((phase) =>
      FAKE_STEPS[phase].map((step) => `${phase} ${step}`),
    ),
  );
  expect((await ostler.submit("DEPLOY", [node], { dryRun: true })).refusals).toMatchObject([{ code: "INVALID_STATE" }]);
});

describe("idempotency key", () => {
  test("idempotency key answers the same request with the same operation [R-047]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const first = await ostler.submit("DEPLOY", [node], { idempotencyKey: "a" });
    const again = await ostler.submit("DEPLOY", [node], { idempotencyKey: "a" });
    expect(again).toMatchObject({
      operationId: first.operationId,
      replayed: true,
      results: [{ nodeId: node.id, accepted: true, runId: first.results[0]?.runId }],
    });
    await ostler.operationEnds(first.operationId ?? "");
    expect(await ostler.submit("DEPLOY", [node], { idempotencyKey: "a" })).toMatchObject({
      operationId: first.operationId,
      replayed: true,
    });
    expect(await ostler.story(node, first.operationId ?? "")).toEqual(["deploy → DEPLOYING", "done → ACTIVE"]);
  });

  test("replayed answers of a verb and of a restart have the accepted nodes and no refusals [R-421]", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { fail: "no luck" } })
      .made();
    const busy = await ostler.aNode().made();
    const deploy = async () =>
      ostler.submit("DEPLOY", [node, busy], { acceptance: "BEST_EFFORT", idempotencyKey: "partly" });
    const restart = async () =>
      ostler.engine.restart(ALICE, {
        work: { names: [node.name, busy.name, "ghost"] },
        idempotencyKey: "partly again",
      });
    for (const { ask, refused } of [
      { ask: deploy, refused: [busy.id] },
      { ask: restart, refused: [busy.name, "ghost"] },
    ]) {
      const first = await ask();
      expect(first.results.flatMap(({ ref, refusal }) => (refusal ? [ref] : []))).toEqual(refused);
      await ostler.operationEnds(first.operationId ?? "");
      expect(await ask()).toMatchObject({
        replayed: true,
        operationId: first.operationId,
        results: [{ nodeId: node.id, accepted: true, refusal: null }],
        refusals: [],
      });
    }
  });

  test("idempotency key with another input is refused with the operation it was used for [R-048]", async () => {
    const [one, two] = (await ostler.aNode().in("AVAILABLE").times(2)) as [TestNode, TestNode];
    const id = await ostler.begin("DEPLOY", [one], { idempotencyKey: "b" });
    const answer = await ostler.submit("DEPLOY", [two], { idempotencyKey: "b" });
    expect(answer).toMatchObject({ operationId: null, refusals: [{ code: "IDEMPOTENCY_MISMATCH", operationId: id }] });
    await ostler.operationEnds(id);
  });

  test("idempotency key belongs to its caller", async () => {
    const [one, two] = (await ostler.aNode().in("AVAILABLE").times(2)) as [TestNode, TestNode];
    const id = await ostler.begin("DEPLOY", [one], { idempotencyKey: "c" });
    const other = await ostler.engine.submit(
      { ...ALICE, actor: "bob" },
      { kind: "DEPLOY", nodes: { ids: [two.id] }, idempotencyKey: "c" },
    );
    expect(other.replayed).toBe(false);
    expect(other.operationId).not.toBe(id);
    await Promise.all([ostler.operationEnds(id), ostler.operationEnds(other.operationId ?? "")]);
  });

  test("idempotency key that is used five times at the same moment creates one operation [R-047]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => ostler.submit("DEPLOY", [node], { idempotencyKey: "d" })),
    );
    expect(answers.map(({ refusals }) => refusals)).toEqual([[], [], [], [], []]);
    expect(new Set(answers.map(({ operationId }) => operationId)).size).toBe(1);
    expect(answers.filter(({ replayed }) => replayed)).toHaveLength(4);
    await ostler.operationEnds(answers[0]?.operationId ?? "");
  });

  test("idempotency key that is used at the same moment for different inputs admits one of them [R-048]", async () => {
    const [one, two] = (await ostler.aNode().in("AVAILABLE").times(2)) as [TestNode, TestNode];
    const answers = await Promise.all(
      [one, two].map((node) => ostler.submit("DEPLOY", [node], { idempotencyKey: "e" })),
    );
    expect(answers.flatMap(({ refusals }) => refusals.map(({ code }) => code))).toEqual(["IDEMPOTENCY_MISMATCH"]);
    await ostler.operationEnds(answers.find(({ operationId }) => operationId !== null)?.operationId ?? "");
  });
});

describe("maxParallel", () => {
  test("maxParallel holds back the remaining nodes, untouched, until a slot is free [R-053]", async () => {
    const gate = aGate();
    const nodes = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { gate: gate.name } })
      .times(5);
    const id = await ostler.begin("DEPLOY", nodes, { maxParallel: 2 });
    expect([...(await gate.arrivals(2))].toSorted()).toEqual(names(nodes.slice(0, 2)).toSorted());
    expect((await ostler.runs(id)).map(({ state }) => state)).toEqual([
      "RUNNING",
      "RUNNING",
      "QUEUED",
      "QUEUED",
      "QUEUED",
    ]);
    for (const node of nodes.slice(2)) expect(await ostler.nodeState(node)).toBe("AVAILABLE");
    gate.open();
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  });

  test("maxParallel is never exceeded, and the nodes start in the order of the request [R-053]", async () => {
    const nodes = (await ostler.aNode().in("AVAILABLE").with("fake", { delayMs: 3 }).times(9)).toReversed();
    const id = await ostler.begin("DEPLOY", nodes, { maxParallel: 3 });
    await ostler.operationEnds(id);
    const rows = await ostler.test.sql<
      { node_name: string; event: string }[]
    >`select node_name, event from transitions where operation_id = ${id} order by position`;
    const begun = rows.filter(({ event }) => event === "deploy").map(({ node_name: name }) => name);
    expectOrder(begun, names(nodes), 3);
    let active = 0;
    let most = 0;
    for (const { event } of rows) {
      active += event === "deploy" ? 1 : -1;
      most = Math.max(most, active);
    }
    expect(most).toBe(3);
  });

  test("maxParallel gives the slot of a failed node to the next node", async () => {
    const failing = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { fail: "no luck" } })
      .times(2);
    const healthy = await ostler.aNode().in("AVAILABLE").made();
    const id = await ostler.begin("DEPLOY", [...failing, healthy], { maxParallel: 1, onFailure: "LEAVE" });
    expect((await ostler.operationEnds(id)).state).toBe("PARTIALLY_SUCCEEDED");
    expect(await ostler.nodeState(healthy)).toBe("ACTIVE");
  });
});
