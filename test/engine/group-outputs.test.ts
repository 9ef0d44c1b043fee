/** Outputs of deploy steps that nodes of later host groups take as variables. */
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import * as z from "zod";
import type { Driver, Json } from "../../src/drivers/driver.ts";
import type { GivenHostGroup } from "../../src/engine/inventory/host-groups.ts";
import { clusterByName } from "../../src/store/nodes/clusters.ts";
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

/** The output of a step after PROVISIONED, by the name of its node. */
const given = new Map<string, Record<string, Json>>();

const { reaches: _installs, ...configure } = aStep(
  "configure",
  "deploy",
  async ({ node, variables }) => {
    received.set(node.name, variables["token"]);
    return { kind: "done", output: given.get(node.name) ?? {} };
  },
  {
    priority: 5,
    outputs: z.object({
      join_token: z.string().optional().meta({ writeOnly: true }),
      endpoint: z.string().optional(),
      gateway: z.string().optional(),
    }),
  },
);

const configured: Driver<never> = aDriver("configured", {
  deploy: stepsOf(
    aStep("install", "deploy", async () => ({ kind: "done" })),
    configure,
    aStep("remove", "undeploy", async () => ({ kind: "done" })),
  ),
});

const ostler = await engineUnderTest({ drivers: [joining, configured] });
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
  driver = "joining",
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
      .with(driver)
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

describe("an output on nodes in service", () => {
  /** Deployed, with an output for each of the two masters. */
  async function inService(variables: object) {
    const cluster = await aCluster(variables, ["masters"], "configured");
    for (const { name } of cluster.masters)
      given.set(name, { join_token: `hidden-${name}`, endpoint: `${name}.example`, gateway: "10.0.0.1" });
    await apply(cluster);
    return cluster;
  }

  async function apply({ name }: { readonly name: string }) {
    const { operationId, refusals } = await engine.applyCluster(ALICE, { cluster: { name } });
    expect(refusals).toEqual([]);
    expect((await ostler.operationEnds(operationId ?? "")).state).toBe("SUCCEEDED");
    return operationId ?? "";
  }

  /** The reason of each worker, of which all have the same, or null. */
  async function reasonOf({ name, workers }: { readonly name: string; readonly workers: TestNode[] }) {
    const { results } = await engine.applyCluster(ALICE, { cluster: { name }, dryRun: true });
    const ofWorkers = results.filter(({ ref }) => workers.some((worker) => worker.name === ref));
    const reasons = new Set(ofWorkers.map(({ reason }) => reason ?? null));
    const { reader } = ostler.database;
    const id = (await clusterByName(reader, name))?.id ?? "";
    const pending = (await engine.pendingChanges(reader, [id])).get(id);
    expect(new Set(pending?.groups.map(({ reason }) => reason) ?? [null])).toEqual(reasons);
    expect(JSON.stringify([results, pending])).not.toMatch(/hidden/);
    return [...reasons].join();
  }

  async function setVariables({ name }: { readonly name: string }, variables: object) {
    const hostGroups = [{ name: "masters" }, { name: "workers", after: [{ group: "masters" }], variables }];
    expect((await engine.updateCluster(ALICE, { name }, { hostGroups })).refusals).toEqual([]);
  }

  /** Configures a master again; `output`: what it gives from now on. */
  async function configureAgain(master: TestNode | undefined, output: Record<string, Json>) {
    if (!master) throw new Error("No node was made.");
    given.set(master.name, output);
    const id = await ostler.begin("DEPLOY", [master], { options: { reinstall: true } });
    expect((await ostler.operationEnds(id)).state).toBe("SUCCEEDED");
  }

  const ENDPOINT = { fromGroup: "masters", output: "endpoint" };

  test("is a change of a variable that had another value, or was another output, and only its value counts [R-1383]", async () => {
    const cluster = await inService({ token: "plain", address: "10.0.0.9" });
    const [first] = cluster.masters;
    expect(await reasonOf(cluster)).toBe("");
    await setVariables(cluster, { token: TOKEN, address: "10.0.0.9" });
    expect(await reasonOf(cluster)).toBe("variables.token: changed");
    await setVariables(cluster, { token: TOKEN, address: ENDPOINT });
    expect(await reasonOf(cluster)).toBe(
      `variables.address: 10.0.0.9 → ${first?.name}.example; variables.token: changed`,
    );
    const id = await apply(cluster);
    expect(cluster.workers.map(({ name }) => received.get(name))).toEqual(Array(2).fill(`hidden-${first?.name}`));
    for (const worker of cluster.workers) {
      const steps = await ostler.steps(await ostler.run(id, worker));
      expect(steps.map(({ name, kept }) => [name, kept])).toEqual([
        ["deploy.install", true],
        ["deploy.configure", false],
      ]);
    }
    expect(await reasonOf(cluster)).toBe("");
    await setVariables(cluster, { token: TOKEN, address: { fromGroup: "masters", output: "gateway" } });
    expect(await reasonOf(cluster)).toBe(`variables.address: ${first?.name}.example → 10.0.0.1`);
    await setVariables(cluster, { token: TOKEN, address: `${first?.name}.example` });
    expect(await reasonOf(cluster)).toBe("");
    await setVariables(cluster, { token: "plain", address: ENDPOINT });
    expect(await reasonOf(cluster)).toBe("variables.token: changed");
    expect((await ostler.dump()).filter((row) => row.includes("hidden"))).toEqual([]);
  });

  test("that no node of its group has any longer, while an ACTIVE one has another, is a change [R-1384]", async () => {
    const cluster = await inService({ token: TOKEN, address: ENDPOINT });
    const [first, second] = cluster.masters;
    // The first by name has another value, and the second has that of the workers.
    given.set(second?.name ?? "", { join_token: `hidden-${first?.name}`, endpoint: `${first?.name}.example` });
    await configureAgain(second, given.get(second?.name ?? "") ?? {});
    await configureAgain(first, { join_token: "hidden-new", endpoint: "new.example" });
    expect(await reasonOf(cluster)).toBe("");
    await configureAgain(second, { join_token: "hidden-newer", endpoint: "newer.example" });
    expect(await reasonOf(cluster)).toBe(
      `variables.address: ${first?.name}.example → new.example; variables.token: changed`,
    );
    await apply(cluster);
    expect(cluster.workers.map(({ name }) => received.get(name))).toEqual(["hidden-new", "hidden-new"]);
    expect(await reasonOf(cluster)).toBe("");
  });

  test("that no ACTIVE node has is not known, and starts nothing [R-1385]", async () => {
    const cluster = await inService({ token: "plain" });
    for (const master of cluster.masters) await configureAgain(master, {});
    await setVariables(cluster, { token: TOKEN });
    expect(await reasonOf(cluster)).toBe("");
    await configureAgain(cluster.masters[1], { join_token: "hidden-late" });
    expect(await reasonOf(cluster)).toBe("variables.token: changed");
  });
});
