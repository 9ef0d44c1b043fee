/** Host groups through the API: their settings, counts, and why a run waits for one. */
import { afterAll, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

test("host groups are set and read, and a run that waits for one says why, with numbers [R-1086, R-1292]", async () => {
  const gate = aGate();
  const { createCluster } = await ostler.query<{ createCluster: unknown }>(
    `mutation { createCluster(input: { name: "roles", hostGroups: [
      { name: "workers", after: [{ group: "masters", share: { percent: 50 } }], tolerates: { percent: 2.5 } }
      { name: "masters", minActive: { count: 1 }, tolerates: { count: 0 } }
    ] }) { cluster { hostGroups { name after { group share { count percent } } tolerates { count percent } minActive { count percent } } } errors { message } } }`,
  );
  expect(createCluster).toEqual({
    cluster: {
      hostGroups: [
        { name: "masters", after: [], tolerates: { count: 0, percent: null }, minActive: { count: 1, percent: null } },
        {
          name: "workers",
          after: [{ group: "masters", share: { count: null, percent: 50 } }],
          tolerates: { count: null, percent: 2.5 },
          minActive: null,
        },
      ],
    },
    errors: [],
  });
  const node = (name: string, hostGroup: string, steps = {}) => ({
    name,
    hostGroup,
    driver: { fake: { steps } },
    cluster: { name: "roles" },
  });
  const held = { "inspect.collect_inventory": { gate: gate.name } };
  const { registerNodes } = await ostler.query<{ registerNodes: { errors: unknown[] } }>(
    "mutation ($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { errors { message } } }",
    {
      nodes: [
        node("m1", "masters", { "inspect.collect_inventory": held["inspect.collect_inventory"] }),
        node("w1", "workers"),
        node("x1", "edge"),
      ],
    },
  );
  expect(registerNodes.errors).toEqual([]);
  const id = await ostler.begin("commissionNodes", ["m1", "w1"]);
  await gate.arrivals();
  const { node: worker, cluster } = await ostler.query(
    `{ node(by: { name: "w1" }) { currentRun { state waitReason waiting { reason description hostGroups { group needed present } } } }
       cluster(by: { name: "roles" }) { otherHostGroups hostGroups { name nodeCount inServiceCount } } }`,
  );
  expect(worker).toEqual({
    currentRun: {
      state: "QUEUED",
      waitReason: "GROUP",
      waiting: {
        reason: "GROUP",
        description: "The run starts when these are ACTIVE: 1 of 1 node of host group masters (0 are).",
        hostGroups: [{ group: "masters", needed: 1, present: 0 }],
      },
    },
  });
  expect(cluster).toEqual({
    otherHostGroups: ["edge"],
    hostGroups: [
      { name: "masters", nodeCount: 1, inServiceCount: 0 },
      { name: "workers", nodeCount: 1, inServiceCount: 0 },
    ],
  });
  gate.open();
  expect(await ostler.operationEnds(id)).toBe("SUCCEEDED");
  const off = await ostler.ask(
    'mutation { setPower(input: { nodes: { names: ["m1"] }, action: OFF }) { errors { code message } } }',
  );
  expect(off.text).toContain('"code":"LAST_OF_GROUP"');
});

test("a plan has its host groups in the order in which they begin, with the numbers that they wait for [R-1293]", async () => {
  const groups = [
    { name: "workers", after: [{ group: "masters", share: { percent: 50 } }, { group: "stores" }] },
    { name: "stores" },
    { name: "masters", minActive: { count: 1 } },
  ];
  const { createCluster } = await ostler.query<{ createCluster: { errors: unknown[] } }>(
    'mutation ($groups: [HostGroupInput!]) { createCluster(input: { name: "planned", hostGroups: $groups }) { errors { message } } }',
    { groups },
  );
  expect(createCluster.errors).toEqual([]);
  const gate = aGate();
  const steps = { "deploy.write_image": { gate: gate.name } };
  const nodes = ["pm1", "pm2", "pm3", "ps1", "pw1", "pw2", "px1"].map((name) => ({
    name,
    hostGroup: { m: "masters", s: "stores", w: "workers" }[name.charAt(1)] ?? null,
    driver: { fake: { steps: name === "pm2" ? steps : {} } },
    cluster: { name: "planned" },
  }));
  await ostler.query(
    "mutation ($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { errors { message } } }",
    { nodes },
  );
  const planOf = async (mutation: string, names: readonly string[], more: object = {}) => {
    const { plan } = await ostler.query<{ plan: { summary: { hostGroups: unknown } | null; errors: unknown } }>(
      "query ($input: PlanInput!) { plan(input: $input) { errors { message } summary { hostGroups { cluster { name } name nodeCount waitsFor { group needed present } } } } }",
      { input: { [mutation]: { nodes: { names }, ...more } } },
    );
    return plan.summary?.hostGroups;
  };
  const cluster = { name: "planned" };
  const stores = { cluster, name: "stores", nodeCount: 1, waitsFor: [] };
  const all = nodes.map(({ name }) => name);
  expect(await planOf("commissionNodes", all)).toEqual([
    { cluster, name: "masters", nodeCount: 3, waitsFor: [] },
    stores,
    {
      cluster,
      name: "workers",
      nodeCount: 2,
      waitsFor: [
        { group: "masters", needed: 2, present: 0 },
        { group: "stores", needed: 1, present: 0 },
      ],
    },
  ]);
  gate.open();
  expect(await ostler.operationEnds(await ostler.begin("commissionNodes", ["pm1", "pm2", "pm3"]))).toBe("SUCCEEDED");
  // Nodes that are ACTIVE count; a node without a host group is in none of the plan.
  expect(await planOf("commissionNodes", ["ps1", "pw1", "px1"])).toEqual([
    stores,
    { cluster, name: "workers", nodeCount: 1, waitsFor: [{ group: "stores", needed: 1, present: 0 }] },
  ]);
  expect(await planOf("cleanNodes", ["px1"])).toEqual([]);
});

test("the consequence of a failure in a plan names the failures that host groups tolerate [R-787]", async () => {
  await ostler.query(
    'mutation { createCluster(input: { name: "tolerant", hostGroups: [{ name: "masters", tolerates: { count: 0 } }, { name: "workers", tolerates: { percent: 50 } }] }) { errors { message } } }',
  );
  const nodes = ["tm1", "tw1", "tw2", "tw3"].map((name) => ({
    name,
    hostGroup: name.startsWith("tm") ? "masters" : "workers",
    driver: { fake: {} },
    cluster: { name: "tolerant" },
  }));
  await ostler.query(
    "mutation ($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { errors { message } } }",
    { nodes },
  );
  const { plan } = await ostler.query<{ plan: { summary: unknown } }>(
    'query { plan(input: { commissionNodes: { nodes: { cluster: { name: "tolerant" } }, onFailure: LEAVE } }) { summary { failureConsequence } } }',
  );
  expect(plan.summary).toEqual({
    failureConsequence:
      "One failure leaves its node as it is; the other 3 continue. But host group masters tolerates no failure, workers tolerates 1: one more stops the rest.",
  });
});

test("a run that waits for the budget of its host group has the numbers [R-1292]", async () => {
  const gate = aGate();
  await ostler.query(
    'mutation { createCluster(input: { name: "kept", hostGroups: [{ name: "masters", minActive: { count: 1 } }] }) { errors { message } } }',
  );
  const nodes = ["k1", "k2"].map((name) => ({
    name,
    hostGroup: "masters",
    driver: { fake: {} },
    cluster: { name: "kept" },
  }));
  await ostler.query(
    "mutation ($nodes: [RegisterNodeInput!]!) { registerNodes(input: { nodes: $nodes }) { errors { message } } }",
    { nodes },
  );
  expect(await ostler.operationEnds(await ostler.begin("commissionNodes", ["k1", "k2"]))).toBe("SUCCEEDED");
  await ostler.query("mutation ($input: UpdateNodesInput!) { updateNodes(input: $input) { errors { message } } }", {
    input: {
      nodes: { names: ["k1", "k2"] },
      driver: { fake: { steps: { "deploy.prepare": { gate: gate.name } } } },
    },
  });
  const id = await ostler.begin("redeployNodes", ["k1", "k2"], { reinstall: true });
  await gate.arrivals();
  const { node } = await ostler.query<{ node: unknown }>(
    '{ node(by: { name: "k2" }) { currentRun { waiting { reason hostGroups { group needed present } } } } }',
  );
  expect(node).toEqual({
    currentRun: { waiting: { reason: "BUDGET", hostGroups: [{ group: "masters", needed: 1, present: 1 }] } },
  });
  gate.open();
  expect(await ostler.operationEnds(id)).toBe("SUCCEEDED");
});
