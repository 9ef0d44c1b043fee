/** `applyCluster` through the API: its answer, its plan, and the pending changes of a cluster. */
import { afterAll, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const PENDING = `query Pending { cluster(by: { name: "berlin" }) {
  image { name } pendingChanges { count groupCount groups { reason needsReinstall nodeCount nodes(first: 1) { name } } }
} }`;
const STARTED = `operation { kind state } acceptedCount refusedCount planHash errors { code }
  results { ref accepted reason error { code } steps { name } }
  summary { unchangedCount reasons { reason nodeCount examples(first: 1) { ref } } }`;

test("attention has the pending changes of each cluster, with applyCluster as the suggestion [R-1059]", async () => {
  const names = await ostler.register(3);
  const [first = ""] = names;
  await ostler.query(
    `mutation Make($names: [String!]!, $ntp: JSON) { createCluster(input: { name: "rome", nodes: { names: $names }, variables: $ntp }) { errors { code } } }`,
    { names, ntp: { ntp: "10.0.0.1" } },
  );
  const read = async (filter: object | null) => {
    const { attention } = await ostler.query<{ attention: { groups: object[]; nodeCount: number } }>(
      `query Attention($filter: NodeFilter) { attention(filter: $filter, kinds: [PENDING_CHANGES], nodesMax: 1) {
        nodeCount groups { kind cause causeCount nodeCount nodes { name } cluster { name } suggestion { action mutation input inputForAll } }
      } }`,
      { filter },
    );
    return attention;
  };
  const all = await read({ cluster: { name: "rome" } });
  expect(all).toMatchObject({
    nodeCount: 3,
    groups: [
      {
        kind: "PENDING_CHANGES",
        cause: "new",
        causeCount: 1,
        nodeCount: 3,
        nodes: [{ name: first }],
        cluster: { name: "rome" },
        suggestion: { action: "APPLY", mutation: "applyCluster", inputForAll: { nodes: { filter: {} } } },
      },
    ],
  });
  expect(await read({ name: { in: [first] } })).toMatchObject({ nodeCount: 1, groups: [{ nodeCount: 1 }] });
});

test("applyCluster answers with a reason for each node, as its plan and the pending changes do", async () => {
  const names = await ostler.register(2);
  await ostler.query(
    `mutation Make($nodes: NodeSelector!) { createCluster(input: { name: "berlin", nodes: $nodes }) { errors { code } } }`,
    { nodes: { names } },
  );
  const group = { reason: "new", nodeCount: 2 };
  expect(await ostler.query(PENDING)).toEqual({
    cluster: {
      image: null,
      pendingChanges: {
        count: 2,
        groupCount: 1,
        groups: [{ ...group, needsReinstall: false, nodes: [{ name: names[0] }] }],
      },
    },
  });
  const reasons = [{ ...group, examples: [{ ref: names[0] }] }];
  const { plan } = await ostler.query<{ plan: { results: object[]; planHash: string } }>(
    `query Plan { plan(input: { applyCluster: { cluster: { name: "berlin" } } }) {
      planHash errors { code } results { ref accepted reason } summary { unchangedCount reasons { reason nodeCount examples(first: 1) { ref } } }
    } }`,
  );
  expect(plan).toMatchObject({
    errors: [],
    results: names.map((ref) => ({ ref, accepted: true, reason: "new" })),
    summary: { unchangedCount: 0, reasons },
  });
  const { applyCluster } = await ostler.query<{ applyCluster: object }>(
    `mutation Apply($hash: String) { applyCluster(input: { cluster: { name: "berlin" }, planHash: $hash }) { ${STARTED} } }`,
    { hash: plan.planHash },
  );
  expect(applyCluster).toMatchObject({
    operation: { kind: "APPLY" },
    acceptedCount: 2,
    refusedCount: 0,
    errors: [],
    summary: { reasons },
  });
});

test("retired member is reported with its reason, and nothing starts", async () => {
  await ostler.query(`mutation Make { createCluster(input: { name: "oslo" }) { errors { code } } }`);
  const [name = ""] = await ostler.register(1);
  await ostler.query(
    `mutation Retire($names: [String!]!) {
      updateCluster(input: { cluster: { name: "oslo" }, add: { names: $names } }) { errors { code } }
      setRetired(input: { nodes: { names: $names }, reason: "old" }) { errors { code } }
    }`,
    { names: [name] },
  );
  const { applyCluster } = await ostler.query<{ applyCluster: object }>(
    `mutation Apply { applyCluster(input: { cluster: { name: "oslo" } }) { ${STARTED} } }`,
  );
  expect(applyCluster).toMatchObject({
    operation: null,
    planHash: null,
    errors: [{ code: "PROTECTED" }],
    results: [{ ref: name, accepted: false, reason: "new", error: { code: "PROTECTED" }, steps: null }],
  });
});
