/** Outputs of deploy steps that nodes of later host groups take as variables. */
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import * as z from "zod";
import type { Driver, Json } from "../../src/drivers/driver.ts";
import type { GivenHostGroup } from "../../src/engine/inventory/host-groups.ts";
import { ALICE, engineUnderTest } from "../support/builders.ts";
import type { TestNode } from "../support/builders.ts";
import { aDriver, aStep, stepsOf } from "../support/driver.ts";

const received = new Map<string, Json | undefined>();
let gives = true;

const joining: Driver<never> = aDriver("joining", {
  variables: z.object({ token: z.string().min(5).optional(), address: z.string().optional() }),
  deploy: stepsOf(
    aStep(
      "join",
      "deploy",
      async ({ node, variables, log }) => {
        received.set(node.name, variables["token"]);
        log(`joins with ${JSON.stringify(variables["token"])}`);
        return gives
          ? { kind: "done", output: { join_token: `canary-${node.name}`, endpoint: node.name } }
          : { kind: "done" };
      },
      {
        priority: 20,
        outputs: z.object({
          join_token: z.string().optional().meta({ writeOnly: true }),
          endpoint: z.string().optional(),
        }),
      },
    ),
    aStep("report", "deploy", async ({ node, log }) => {
      log(`gave canary-${node.name}`);
      return { kind: "done" };
    }),
    aStep("remove", "undeploy", async () => ({ kind: "done" })),
  ),
});

const ostler = await engineUnderTest({ drivers: [joining] });
afterAll(() => ostler[Symbol.asyncDispose]());
const { engine } = ostler;

beforeEach(() => {
  gives = true;
});

const TOKEN = { fromGroup: "masters", output: "join_token" };
let made = 0;

async function aCluster(
  variables: object,
  after = ["masters"],
): Promise<{ masters: TestNode[]; workers: TestNode[]; name: string }> {
  const name = `outputs-${(made += 1)}`;
  const hostGroups: GivenHostGroup[] = [
    { name: "masters" },
    { name: "workers", after: after.map((group) => ({ group })), variables },
  ];
  expect(await engine.createCluster(ALICE, { name, hostGroups })).toMatchObject({ refusals: [] });
  const nodes = async (hostGroup: string, count: number) => {
    const found = await ostler
      .aNode()
      .named(`${name}-${hostGroup}`)
      .with("joining")
      .in("AVAILABLE")
      .inCluster(name)
      .times(count);
    const selected = { ids: found.map(({ id }) => id) };
    await engine.updateNodes(ALICE, {
      nodes: selected,
      acceptance: "ALL_OR_NOTHING",
      dryRun: false,
      patch: { hostGroup },
    });
    return found;
  };
  return { name, masters: await nodes("masters", 2), workers: await nodes("workers", 2) };
}

describe("an output of an earlier host group", () => {
  test("is a variable of later ones, of the first node by name that has it, and a secret one is shown nowhere [R-1103]", async () => {
    const { name, masters, workers } = await aCluster({
      token: TOKEN,
      address: { fromGroup: "masters", output: "endpoint" },
    });
    const id = await ostler.begin("DEPLOY", [...workers, ...masters]);
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
    const [first] = masters;
    expect(workers.map((worker) => received.get(worker.name))).toEqual([
      `canary-${first?.name}`,
      `canary-${first?.name}`,
    ]);
    const [worker] = workers;
    if (!worker || !first) throw new Error("No node was made.");
    expect((await ostler.run(id, worker)).variables).toMatchObject({
      address: first.name,
      token: expect.stringMatching(/^v1\./),
    });
    const [step] = await ostler.steps(await ostler.run(id, first));
    expect(step?.attempts[0]?.output).toEqual({ join_token: "***", endpoint: first.name });
    expect((await ostler.dump()).filter((row) => row.includes("canary"))).toEqual([]);
    // The value that a node took is its input, whatever the output becomes.
    const applied = await engine.applyCluster(ALICE, { cluster: { name }, dryRun: true });
    expect(applied.results.map(({ accepted }) => accepted)).toEqual([false, false, false, false]);
  });

  test("that no driver declares refuses the plan, and that of no earlier group the definition [R-1104]", async () => {
    const { workers, masters } = await aCluster({ token: { fromGroup: "masters", output: "jion_token" } });
    const { results } = await ostler.submit("DEPLOY", [...masters, ...workers], { dryRun: true });
    const messages = results.flatMap(({ refusal }) => refusal?.message ?? []);
    expect(messages).toHaveLength(2);
    expect(messages[0]).toContain(
      "is the output jion_token of host group masters, which no deploy step of a loaded driver declares",
    );
    for (const after of [[], ["workers"]]) {
      const hostGroups = [
        { name: "masters", after: after.map((group) => ({ group })) },
        { name: "workers", variables: { token: TOKEN } },
      ];
      expect((await engine.createCluster(ALICE, { name: "wrong", hostGroups })).refusals).toMatchObject([
        { code: "INVALID_INPUT", path: ["input", "hostGroups", "1", "variables", "token"] },
      ]);
    }
    expect((await engine.createCluster(ALICE, { name: "wrong", variables: { token: TOKEN } })).refusals).toMatchObject([
      {
        message: expect.stringContaining("Only the variables of host groups can be outputs."),
        path: ["input", "variables", "token"],
      },
    ]);
  });

  test("that no node has fails the nodes that need it, before their first step [R-1105]", async () => {
    gives = false;
    const { masters, workers } = await aCluster({ token: TOKEN });
    const id = await ostler.begin("DEPLOY", [...masters, ...workers]);
    await ostler.operationEnds(id);
    const [worker] = workers;
    if (!worker) throw new Error("No node was made.");
    const run = await ostler.run(id, worker);
    expect(run).toMatchObject({
      state: "FAILED",
      failure: { code: "GROUP_REQUIRED", message: expect.stringContaining("which no ACTIVE node of the group has") },
    });
    expect((await ostler.steps(run)).flatMap(({ attempts }) => attempts)).toEqual([]);
  });
});
