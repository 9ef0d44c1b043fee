/** Host groups through the API: their settings, counts, and why a run waits for one. */
import { afterAll, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

test("host groups are set and read, and a run that waits for one says why, with numbers [R-1086]", async () => {
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
    `{ node(by: { name: "w1" }) { currentRun { state waitReason waiting { reason description } } }
       cluster(by: { name: "roles" }) { otherHostGroups hostGroups { name nodeCount inServiceCount } } }`,
  );
  expect(worker).toEqual({
    currentRun: {
      state: "QUEUED",
      waitReason: "GROUP",
      waiting: {
        reason: "GROUP",
        description: "The run starts when these are ACTIVE: 1 of 1 nodes of host group masters (0 are).",
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
