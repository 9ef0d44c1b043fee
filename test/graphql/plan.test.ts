/** Plans: steps before execution, points of no return, and estimates from the site's history. */
import { afterAll, describe, expect, test, vi } from "vitest";
import { verbOf } from "../../src/lifecycle/verbs.ts";
import type { NodeVerb } from "../../src/lifecycle/verbs.ts";
import { aGate } from "../support/builders.ts";
import { inputTypeOf } from "../support/input-type.ts";
import { registeredNode, serviceUnderTest } from "../support/service.ts";
import { VERB_EXAMPLES } from "../support/verbs.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

interface Estimate {
  readonly medianSeconds: number;
  readonly p90Seconds: number;
  readonly samples: number;
  readonly model: string | null;
}

interface Plan {
  readonly planHash: string | null;
  readonly acceptedCount: number;
  readonly refusedCount: number;
  readonly errors: readonly {
    readonly code: string;
    readonly path: readonly string[] | null;
    readonly message: string;
  }[];
  readonly results: readonly {
    readonly ref: string;
    readonly accepted: boolean;
    readonly target: string | null;
    readonly error: { readonly code: string } | null;
    readonly pointOfNoReturn: { readonly index: number; readonly name: string } | null;
    readonly estimate: Estimate | null;
    readonly steps:
      | readonly { readonly name: string; readonly changes: readonly string[]; readonly estimate: Estimate | null }[]
      | null;
  }[];
}

const ESTIMATE = "estimate { medianSeconds p90Seconds samples model }";
const FIELDS = `planHash acceptedCount refusedCount errors { code path message } results { ref accepted target error { code } pointOfNoReturn { index name } ${ESTIMATE} steps { name changes ${ESTIMATE} } }`;

async function plan(kind: NodeVerb, names: readonly string[], more: object = {}): Promise<Plan> {
  const data = await ostler.query<{ plan: Plan }>(
    `query Plan($input: PlanInput!) { plan(input: $input) { ${FIELDS} } }`,
    { input: { [verbOf(kind).mutation]: { nodes: { names }, ...more } } },
  );
  return data.plan;
}

async function ask(
  verb: string,
  names: readonly string[],
  more: object = {},
): Promise<Plan & { readonly operation: { readonly uuid: string } | null }> {
  const data = await ostler.query<Record<string, Plan & { operation: { uuid: string } | null }>>(
    `mutation Ask($input: ${inputTypeOf(verb)}!) { ${verb}(input: $input) { operation { uuid } ${FIELDS} } }`,
    { input: { nodes: { names }, ...more } },
  );
  return data[verb] as never;
}

type From = "ENROLLED" | "MANAGEABLE" | "AVAILABLE" | "ACTIVE";

const aNode = (state?: From, steps?: object) => registeredNode(ostler, state, steps);

describe("the query plan", () => {
  test.each<{ kind: NodeVerb; verb: string; from: From; input: object }>([
    ...VERB_EXAMPLES,
    {
      kind: "CLEAN",
      verb: "cleanNodes",
      from: "AVAILABLE",
      input: {
        steps: [
          { name: "update_firmware", args: { version: "2.1" } },
          { interface: "ENGINE", name: "hold" },
        ],
      },
    },
    {
      kind: "COMMISSION",
      verb: "commissionNodes",
      from: "ENROLLED",
      input: { until: "AVAILABLE", maxParallel: 3, waves: { sizes: [{ count: 1 }] } },
    },
    { kind: "DECOMMISSION", verb: "decommissionNodes", from: "ACTIVE", input: { force: true } },
    { kind: "DEPLOY", verb: "deployNodes", from: "AVAILABLE", input: { maxParallel: 0 } },
  ])(
    "plan of $kind $input equals $verb with dryRun, including the hash [R-049]",
    async ({ kind, verb, from, input }) => {
      const names = [await aNode(from), await aNode("ENROLLED")];
      for (const acceptance of ["BEST_EFFORT", "ALL_OR_NOTHING"]) {
        const { operation, ...dry } = await ask(verb, names, { ...input, acceptance, dryRun: true });
        expect(operation).toBeNull();
        expect(await plan(kind, names, { ...input, acceptance })).toEqual(dry);
      }
    },
  );

  test("plan returns steps, target and estimate per node, and the number of accepted nodes [R-050]", async () => {
    const [wrong, ready] = [await aNode("ENROLLED"), await aNode("AVAILABLE")];
    const found = await plan("DEPLOY", [wrong, ready], { acceptance: "BEST_EFFORT" });
    expect(found).toMatchObject({ acceptedCount: 1, refusedCount: 1, errors: [], planHash: expect.any(String) });
    expect(found.results).toMatchObject([
      {
        ref: wrong,
        accepted: false,
        target: null,
        error: { code: "INVALID_STATE" },
        pointOfNoReturn: null,
        estimate: null,
        steps: null,
      },
      { ref: ready, accepted: true, target: "ACTIVE", error: null, pointOfNoReturn: { index: 1, name: "write_image" } },
    ]);
    expect(found.results[1]?.steps).toMatchObject([
      { name: "prepare", changes: ["NETWORK"] },
      { name: "write_image", changes: ["DISKS"] },
      { name: "boot_system", changes: [] },
      { name: "configure", changes: [] },
    ]);
    expect(await plan("DEPLOY", [wrong, ready])).toMatchObject({
      acceptedCount: 1,
      refusedCount: 1,
      errors: [{ code: "INVALID_STATE" }],
      planHash: null,
    });
  });

  test("plan writes nothing and does not change the cluster [R-116]", async () => {
    const name = "planned-1";
    await ostler.query('mutation { createCluster(input: { name: "planned" }) { errors { message } } }');
    await ostler.query(
      `mutation { registerNodes(input: { nodes: [{ name: "${name}", driver: { fake: {} }, cluster: { name: "planned" } }] }) { errors { message } } }`,
    );
    const cluster = () =>
      ostler.query('query { cluster(by: { name: "planned" }) { state nodeCounts { state count } } }');
    const before = [await cluster(), await ostler.dump()];
    expect(await plan("COMMISSION", [name])).toMatchObject({ acceptedCount: 1 });
    expect(await ask("commissionNodes", [name], { dryRun: true })).toMatchObject({
      operation: null,
      acceptedCount: 1,
    });
    expect([await cluster(), await ostler.dump()]).toEqual(before);
    expect(before[0]).toEqual({ cluster: { state: "NEW", nodeCounts: [{ state: "ENROLLED", count: 1 }] } });
  });

  test("plan with an unknown runbook is refused, and unknown nodes are named", async () => {
    const name = await aNode("AVAILABLE");
    expect((await plan("CLEAN", [name], { runbook: "ghost" })).errors).toMatchObject([
      { code: "NOT_FOUND", path: ["input", "runbook"] },
    ]);
    expect((await plan("CLEAN", [name, "ghost-7"])).errors).toMatchObject([
      { code: "NOT_FOUND", message: expect.stringContaining("ghost-7") },
    ]);
  });
});

describe("planHash", () => {
  test("planHash is accepted while the plan is the same and refused after a change [R-052]", async () => {
    const name = await aNode("AVAILABLE");
    const { planHash } = await plan("DEPLOY", [name]);
    const taken = await ask("deployNodes", [name], { planHash });
    expect(taken).toMatchObject({
      errors: [],
      planHash,
      acceptedCount: 1,
      refusedCount: 0,
      results: [{ target: "ACTIVE", pointOfNoReturn: { name: "write_image" } }],
    });
    expect(await ostler.operationEnds(taken.operation?.uuid ?? "")).toBe("SUCCEEDED");
    expect(await ask("deployNodes", [name], { planHash, reinstall: true })).toMatchObject({
      operation: null,
      errors: [{ code: "STALE_REVISION", path: ["input", "planHash"] }],
      planHash: null,
    });
  });

  test.each(["COMMISSION", "DEPLOY", "REDEPLOY"] as const)(
    "planHash of %s covers the host group, which the node joins at the end [R-163]",
    async (kind) => {
      const name = await aNode(kind === "REDEPLOY" ? "ACTIVE" : "AVAILABLE");
      const more = { hostGroup: "service-master", ...(kind === "REDEPLOY" && { reinstall: true }) };
      const { planHash } = await plan(kind, [name], more);
      const { mutation } = verbOf(kind);
      expect(await ask(mutation, [name], { ...more, hostGroup: "service-worker", planHash })).toMatchObject({
        operation: null,
        errors: [{ code: "STALE_REVISION", message: expect.stringContaining("hostGroup") }],
      });
      const taken = await ask(mutation, [name], { ...more, planHash });
      expect(await ostler.operationEnds(taken.operation?.uuid ?? "")).toBe("SUCCEEDED");
      expect(await ostler.query(`{ node(by: { name: "${name}" }) { state hostGroup } }`)).toEqual({
        node: { state: "ACTIVE", hostGroup: "service-master" },
      });
    },
  );

  test("commissionNodes with an invalid host group is refused with its path", async () => {
    const name = await aNode("AVAILABLE");
    expect(await ask("commissionNodes", [name], { hostGroup: "two words" })).toMatchObject({
      operation: null,
      errors: [{ code: "INVALID_INPUT", path: ["input", "hostGroup"] }],
    });
  });
});

describe("an estimate", () => {
  /** Sets the duration of every attempt so far. */
  const lasted = (seconds: number) =>
    ostler.test
      .sql`update attempts set started_at = finished_at - make_interval(secs => ${seconds}) where state = 'SUCCEEDED'`;

  test("an estimate exists only after the first commission", async () => {
    await using fresh = await serviceUnderTest();
    const [name = ""] = await fresh.register(1, {});
    const asked = `query { plan(input: { commissionNodes: { nodes: { names: ["${name}"] } } }) { results { ${ESTIMATE} steps { ${ESTIMATE} } } } }`;
    const before = await fresh.query<{ plan: Plan }>(asked);
    expect(before.plan.results).toEqual([
      { estimate: null, steps: Array.from({ length: 8 }, () => ({ estimate: null })) },
    ]);
    const [first = ""] = await fresh.register(1, {});
    await fresh.commission([first]);
    const after = await fresh.query<{ plan: Plan }>(asked);
    const one = expect.objectContaining({ samples: 1, medianSeconds: expect.any(Number) });
    expect(after.plan.results).toEqual([
      { estimate: one, steps: Array.from({ length: 8 }, () => ({ estimate: one })) },
    ]);
  });

  test("the estimate of a node is the sum of the estimates of its steps [R-050]", async () => {
    const name = await aNode("AVAILABLE");
    await lasted(60);
    const { results } = await plan("DEPLOY", [name]);
    const samples = Math.min(...(results[0]?.steps ?? []).map(({ estimate }) => estimate?.samples ?? 0));
    expect(results[0]?.steps).toMatchObject(
      Array.from({ length: 4 }, () => ({ estimate: { medianSeconds: 60, p90Seconds: 60 } })),
    );
    expect(results[0]?.estimate).toMatchObject({ medianSeconds: 240, p90Seconds: 240, samples });
  });

  test("a node has no estimate while one of its steps has no history", async () => {
    const name = await aNode("AVAILABLE");
    const steps = [{ name: "erase_disks" }, { name: "update_firmware", args: { version: "2.1" } }];
    const { results } = await plan("CLEAN", [name], { steps });
    expect(results[0]).toMatchObject({
      estimate: null,
      steps: [{ estimate: { medianSeconds: expect.any(Number) } }, { estimate: null }],
    });
  });

  test("an estimate uses nodes of the same model if there are any, and names the model", async () => {
    const [old, young, other] = [await aNode("AVAILABLE"), await aNode("AVAILABLE"), await aNode("AVAILABLE")];
    for (const [name, model] of [
      [old, "Slow 1"],
      [young, "Quick 2"],
      [other, "Quick 2"],
    ] as const)
      await ostler.test.sql`update nodes set model = ${model} where name = ${name}`;
    await ostler.operationEnds(await ostler.begin("cleanNodes", [old]));
    await ostler.operationEnds(await ostler.begin("cleanNodes", [young]));
    await ostler.test.sql`update attempts set started_at = finished_at - interval '100 seconds' where model = 'Slow 1'`;
    await ostler.test.sql`update attempts set started_at = finished_at - interval '5 seconds' where model = 'Quick 2'`;
    const { results } = await plan("CLEAN", [old, other]);
    expect(results.map(({ estimate }) => estimate)).toMatchObject([
      { medianSeconds: 200, samples: 1, model: "Slow 1" },
      { medianSeconds: 10, samples: 1, model: "Quick 2" },
    ]);
  });

  test("the estimate of a reserved wait is its duration, and a hold has none", async () => {
    const name = await aNode("AVAILABLE");
    await lasted(60);
    const wait = { interface: "ENGINE", name: "wait", args: { seconds: 90 } };
    const waited = await plan("CLEAN", [name], { steps: [wait, { name: "erase_disks" }] });
    expect(waited.results[0]).toMatchObject({
      estimate: { medianSeconds: 150 },
      steps: [{ changes: [], estimate: { medianSeconds: 90, samples: 0 } }, {}],
    });
    const held = await plan("CLEAN", [name], {
      steps: [{ name: "erase_disks" }, { interface: "ENGINE", name: "hold" }],
    });
    expect(held.results[0]).toMatchObject({
      estimate: null,
      steps: [{ estimate: { medianSeconds: 60 } }, { estimate: null }],
    });
  });

  test("estimates of any number of nodes and steps take one statement", async () => {
    const names = await ostler.register(50, {});
    const execute = vi.spyOn(ostler.database.bounded, "execute");
    try {
      const found = await plan("COMMISSION", names);
      expect(found.results).toHaveLength(50);
      expect(found.results.every(({ estimate }) => estimate !== null)).toBe(true);
      expect(execute).toHaveBeenCalledTimes(1);
    } finally {
      execute.mockRestore();
    }
  });
});

describe("a run", () => {
  test("a run returns changes, estimates and point of no return before, during and after it [R-070]", async () => {
    const gate = aGate();
    const name = await aNode("AVAILABLE", { "deploy.prepare": { gate: gate.name } });
    const uuid = await ostler.begin("deployNodes", [name]);
    await gate.arrivals();
    const look = async () => {
      const { operation } = await ostler.query<{
        operation: { runs: { edges: { node: { pointOfNoReturn: object; steps: object[] } }[] } };
      }>(
        `query Look($uuid: ID!) { operation(id: $uuid) { runs { edges { node { pointOfNoReturn { name index state } steps { name changes ${ESTIMATE} } } } } } }`,
        { uuid },
      );
      return operation.runs.edges[0]?.node;
    };
    expect(await look()).toMatchObject({
      pointOfNoReturn: { name: "write_image", index: 1, state: "PENDING" },
      steps: [
        { name: "prepare", changes: ["NETWORK"], estimate: { medianSeconds: expect.any(Number) } },
        { changes: ["DISKS"] },
        {},
        {},
      ],
    });
    gate.open();
    await ostler.operationEnds(uuid);
    expect(await look()).toMatchObject({ pointOfNoReturn: { name: "write_image", state: "SUCCEEDED" } });
  });

  test("Run.machineCondition of an aborted run returns what its steps touched [R-084]", async () => {
    const gate = aGate();
    const name = await aNode("AVAILABLE", { "deploy.prepare": { gate: gate.name } });
    const uuid = await ostler.begin("deployNodes", [name]);
    await gate.arrivals();
    await ostler.query(
      "mutation Abort($name: String!) { abort(input: { work: { names: [$name] } }) { errors { code } } }",
      { name },
    );
    await ostler.operationEnds(uuid);
    const { operation } = await ostler.query(
      "query Left($uuid: ID!) { operation(id: $uuid) { runs { edges { node { machineCondition { disksChanged firmwareChanged networkAttached } } } } } }",
      { uuid },
    );
    expect(operation).toEqual({
      runs: {
        edges: [{ node: { machineCondition: { disksChanged: false, firmwareChanged: false, networkAttached: true } } }],
      },
    });
  });
});
