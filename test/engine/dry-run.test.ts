/**
 * Dry runs and plan hashes: what a dry run returns, that it leaves no trace, and how a request is bound to a reviewed
 * plan.
 */
import { afterAll, describe, expect, test } from "vitest";
import type { SubmitAnswer } from "../../src/engine/input/answers.ts";
import type { VerbRequest } from "../../src/engine/admission/request-terms.ts";
import type { NodeState } from "../../src/lifecycle/node-states.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { fakeSteps } from "../support/fake-steps.ts";
import { heldIn } from "../support/held-work.ts";
import { VERB_EXAMPLES } from "../support/verbs.ts";

const ostler = await engineUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const namesOf = (answer: SubmitAnswer) =>
  answer.results.map(({ plan }) => plan?.steps.map((step) => `${step.interface}.${step.name}`) ?? null);

/** The plan of a dry run and its hash. */
async function planned(kind: VerbRequest["kind"], nodes: readonly TestNode[], more: Partial<VerbRequest> = {}) {
  const answer = await ostler.submit(kind, nodes, { ...more, dryRun: true });
  expect(answer).toMatchObject({
    operationId: null,
    refusals: [],
    planHash: expect.stringMatching(/^[\w-]+\.[\w-]*\.[\w-]{43}$/),
  });
  return answer.planHash ?? "";
}

describe("dry run", () => {
  test("dry run returns the steps in order and the state at their end [R-049]", async () => {
    const [first, second] = await ostler.aNode().times(2);
    const answer = await ostler.submit("COMMISSION", [first, second] as TestNode[], {
      dryRun: true,
      options: { until: "AVAILABLE" },
    });
    const steps = fakeSteps("verify", "inspect", "clean");
    expect(namesOf(answer)).toEqual([steps, steps]);
    expect(answer).toMatchObject({
      operationId: null,
      replayed: false,
      results: [
        { accepted: true, target: "AVAILABLE", runId: null },
        { accepted: true, target: "AVAILABLE", runId: null },
      ],
    });
  });

  test("dry run returns the refusals of each node, and the plans of the others [R-049]", async () => {
    const ready = await ostler.aNode().in("AVAILABLE").made();
    const wrong = await ostler.aNode().made();
    const answer = await ostler.submit("DEPLOY", [ready, wrong], { dryRun: true });
    expect(answer).toMatchObject({
      refusals: [{ code: "INVALID_STATE", nodeId: wrong.id }],
      results: [
        { accepted: true, refusal: null, target: "ACTIVE" },
        { accepted: false, plan: null },
      ],
    });
    expect(answer.planHash ?? null).toBeNull();
    const { results } = await ostler.submit("DEPLOY", [ready, wrong]);
    expect(results.map(({ accepted }) => accepted)).toEqual([false, false]);
    const best = await ostler.submit("DEPLOY", [ready, wrong], { dryRun: true, acceptance: "BEST_EFFORT" });
    expect(best).toMatchObject({
      refusals: [],
      results: [{ accepted: true }, { accepted: false, refusal: { code: "INVALID_STATE" } }],
      planHash: expect.any(String),
    });
  });

  const cases: readonly {
    readonly what: string;
    readonly kind: VerbRequest["kind"];
    readonly from: NodeState;
    readonly more?: Partial<VerbRequest>;
  }[] = [
    ...VERB_EXAMPLES.map(({ kind, from, options }) => ({
      what: `${kind} ${JSON.stringify(options)}`,
      kind,
      from,
      more: { options },
    })),
    {
      what: "a commission with terms",
      kind: "COMMISSION",
      from: "ENROLLED",
      more: { idempotencyKey: "dry", maxParallel: 1, variables: { image: "a" } },
    },
    { what: "a refused request", kind: "DEPLOY", from: "ENROLLED" },
  ];

  test.each(cases)("dry run of $what writes nothing and calls no driver [R-051]", async ({ kind, from, more }) => {
    const node = await ostler.aNode().in(from).made();
    const before = await ostler.dump();
    await ostler.submit(kind, [node], { ...more, dryRun: true });
    expect(await ostler.changesSince(before)).toEqual([]);
    expect(ostler.journal(node)).toEqual([]);
  });

  test("dry run of a restart writes nothing and reports the kept steps", async () => {
    const { id } = await heldIn(ostler, "deploy.boot_system");
    await ostler.engine.abort(ALICE, { work: { operationId: id }, powerOff: false });
    await ostler.operationEnds(id);
    const before = await ostler.dump();
    const answer = await ostler.engine.restart(ALICE, { work: { operationId: id }, dryRun: true });
    expect(answer.results[0]?.plan?.steps.map(({ name, kept }) => [name, kept])).toEqual([
      ["prepare", true],
      ["write_image", true],
      ["boot_system", false],
      ["configure", false],
    ]);
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  test("dry run neither waits for a lock on the node nor takes one [R-051]", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    await ostler.test.sql.begin(async (sql) => {
      await sql`select 1 from nodes where id = ${node.id} for update`;
      expect(await ostler.submit("DEPLOY", [node], { dryRun: true })).toMatchObject({
        refusals: [],
        results: [{ accepted: true }],
      });
    });
  });

  test("dry run does not use up the idempotency key", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    await planned("DEPLOY", [node], { idempotencyKey: "spent-1" });
    const answer = await ostler.submit("DEPLOY", [node], { idempotencyKey: "spent-1" });
    expect(answer).toMatchObject({ replayed: false, operationId: expect.any(String) });
  });
});

describe("request with a plan hash", () => {
  const STALE = { operationId: null, results: [], refusals: [{ code: "STALE_REVISION", path: ["input", "planHash"] }] };

  test("request with a plan hash is accepted while nothing has changed, and runs the plan [R-052]", async () => {
    const nodes = await ostler.aNode().in("AVAILABLE").times(2);
    const planHash = await planned("DEPLOY", nodes);
    expect(await planned("DEPLOY", nodes)).toBe(planHash);
    const answer = await ostler.submit("DEPLOY", nodes, { planHash });
    expect(answer).toMatchObject({ refusals: [], planHash });
    expect((await ostler.operationEnds(answer.operationId ?? "")).state).toBe("SUCCEEDED");
  });

  test("request with a plan hash is refused without a trace when a node's state has changed, though the verb is allowed there too [R-052]", async () => {
    const [node, other] = (await ostler.aNode().in("AVAILABLE").times(2)) as [TestNode, TestNode];
    const planHash = await planned("DECOMMISSION", [node, other]);
    await ostler.operationEnds(await ostler.begin("DEPLOY", [node]));
    const before = await ostler.dump();
    expect(await ostler.submit("DECOMMISSION", [node, other], { planHash })).toMatchObject(STALE);
    expect(await ostler.changesSince(before)).toEqual([]);
  });

  test("request with a plan hash is refused when a node's state has changed, though its steps are the same", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { fail: "no image" } })
      .made();
    const planHash = await planned("DEPLOY", [node]);
    await ostler.operationEnds(await ostler.begin("DEPLOY", [node]));
    expect(await ostler.nodeState(node)).toBe("DEPLOY_FAILED");
    expect(await ostler.submit("DEPLOY", [node], { planHash })).toMatchObject(STALE);
  });

  test("request with a plan hash that is refused names the nodes whose state has changed, and what else differs [R-844]", async () => {
    const nodes = await ostler.aNode().in("AVAILABLE").times(3);
    const planHash = await planned("DECOMMISSION", nodes);
    await ostler.operationEnds(await ostler.begin("DEPLOY", nodes.slice(1)));
    const [refusal] = (await ostler.submit("DECOMMISSION", nodes, { planHash, onFailure: "CLEAN_UP_ALL" })).refusals;
    const changed = nodes.slice(1).map(({ name }) => name);
    expect(refusal).toMatchObject({ ...STALE.refusals[0], nodes: { count: 2, refs: changed } });
    expect(refusal?.message).toContain("onFailure (the plan has LEAVE, the request CLEAN_UP_ALL)");
    expect(refusal?.message).toContain(`the state of ${changed.join(", ")}, the steps of ${changed.join(", ")}`);
    expect(refusal?.message).not.toMatch(/variables|hostGroup|image|powerOnFailure|verb/);
  });

  test("request with a plan hash that is refused says which term of it differs", async () => {
    const [node, other] = (await ostler.aNode().in("AVAILABLE").times(2)) as [TestNode, TestNode];
    const planHash = await planned("DEPLOY", [node]);
    const messageOf = async (nodes: readonly TestNode[], more: object) =>
      (await ostler.submit("DEPLOY", nodes, { planHash, ...more })).refusals[0]?.message;
    expect(await messageOf([node, other], {})).toContain(": the nodes or their order.");
    expect(await messageOf([node], { powerOnFailure: "LEAVE" })).toContain(`: powerOnFailure of ${node.name}.`);
    expect(await messageOf([node], { planHash: "0".repeat(64) })).toContain(": this is not its planHash.");
  });

  test("request with a plan hash is refused with the node's own refusal when the node no longer accepts the verb", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const planHash = await planned("DEPLOY", [node]);
    await ostler.engine.setMaintenance(ALICE, { ids: [node.id] }, "a new fan");
    expect(await ostler.submit("DEPLOY", [node], { planHash })).toMatchObject({
      operationId: null,
      refusals: [{ code: "IN_MAINTENANCE", nodeId: node.id }],
    });
  });

  test.each([
    { what: "gives a step another priority", change: { steps: [{ step: "clean.erase_disks", priority: 99 }] } },
    { what: "switches a step off", change: { steps: [{ step: "clean.erase_metadata", priority: 0 }] } },
    { what: "forbids a step", change: { steps: [{ step: "clean.erase_disks", forbidden: true }] } },
    { what: "switches automatic cleaning off", change: { automaticCleaning: false } },
  ])("request with a plan hash is refused when the site's policy $what", async ({ change }) => {
    const node = await ostler.aNode().in("ACTIVE").made();
    const planHash = await planned("UNDEPLOY", [node]);
    expect(await ostler.engine.updateSite(ALICE, change)).toEqual({ done: true, refusals: [] });
    try {
      expect(await ostler.submit("UNDEPLOY", [node], { planHash })).toMatchObject(STALE);
    } finally {
      await ostler.engine.updateSite(ALICE, { steps: null, automaticCleaning: null });
    }
    expect(await planned("UNDEPLOY", [node])).toBe(planHash);
  });

  test.each<{ what: string; more: Partial<VerbRequest> }>([
    { what: "has a later target", more: { options: { until: "ACTIVE" } } },
    { what: "is another verb", more: { kind: "MANAGE" } },
  ])("request with a plan hash is refused when it $what", async ({ more }) => {
    const node = await ostler.aNode().made();
    const planHash = await planned("COMMISSION", [node], { options: { until: "AVAILABLE" } });
    expect(
      await ostler.submit("COMMISSION", [node], { options: { until: "AVAILABLE" }, ...more, planHash }),
    ).toMatchObject(STALE);
  });

  test("request with a plan hash is refused when it names other, more or fewer nodes", async () => {
    const [first, second] = (await ostler.aNode().in("AVAILABLE").times(2)) as [TestNode, TestNode];
    const planHash = await planned("DEPLOY", [first]);
    for (const nodes of [[second], [first, second]])
      expect(await ostler.submit("DEPLOY", nodes, { planHash })).toMatchObject(STALE);
    expect(
      await ostler.submit("DEPLOY", [second], { planHash: await planned("DEPLOY", [first, second]) }),
    ).toMatchObject(STALE);
  });

  test("request with a plan hash is refused when its steps have other arguments or another order", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const firmware = (version: string) => ({ interface: "clean", name: "update_firmware", args: { version } }) as const;
    const erase = { interface: "clean", name: "erase_disks", args: {} } as const;
    const planHash = await planned("CLEAN", [node], { options: { steps: [firmware("2.1"), erase] } });
    for (const steps of [[firmware("2.2"), erase], [erase, firmware("2.1")], [firmware("2.1")]]) {
      expect(await ostler.submit("CLEAN", [node], { options: { steps }, planHash })).toMatchObject(STALE);
    }
    expect(
      (await ostler.submit("CLEAN", [node], { options: { steps: [firmware("2.1"), erase] }, planHash })).refusals,
    ).toEqual([]);
  });

  test("request with a plan hash is refused when a node that the plan left out is now admissible", async () => {
    const ready = await ostler.aNode().in("AVAILABLE").made();
    const late = await ostler.aNode().in("MANAGEABLE").made();
    const planHash = await planned("DEPLOY", [ready, late], { acceptance: "BEST_EFFORT" });
    await ostler.operationEnds(await ostler.begin("COMMISSION", [late], { options: { until: "AVAILABLE" } }));
    expect(await ostler.submit("DEPLOY", [ready, late], { acceptance: "BEST_EFFORT", planHash })).toMatchObject(STALE);
  });

  test("request with a plan hash is replayed for the same idempotency key, though the nodes have changed", async () => {
    const node = await ostler.aNode().in("AVAILABLE").made();
    const terms = { planHash: await planned("DEPLOY", [node]), idempotencyKey: "planned-1" };
    const first = await ostler.submit("DEPLOY", [node], terms);
    await ostler.operationEnds(first.operationId ?? "");
    expect(await ostler.submit("DEPLOY", [node], terms)).toMatchObject({
      operationId: first.operationId,
      replayed: true,
      refusals: [],
    });
  });

  test("request with a plan hash can be a restart", async () => {
    const node = await ostler
      .aNode()
      .in("AVAILABLE")
      .scripted({ "deploy.prepare": { failures: 1, retryable: false } })
      .made();
    const id = await ostler.begin("DEPLOY", [node]);
    await ostler.operationEnds(id);
    const work = { operationId: id };
    const { planHash } = await ostler.engine.restart(ALICE, { work, dryRun: true });
    expect(await ostler.engine.restart(ALICE, { work, planHash: "0".repeat(64) })).toMatchObject({
      operationId: null,
      refusals: [{ code: "STALE_REVISION" }],
    });
    const answer = await ostler.engine.restart(ALICE, { work, planHash: planHash ?? "" });
    expect((await ostler.operationEnds(answer.operationId ?? "")).state).toBe("SUCCEEDED");
  });
});
