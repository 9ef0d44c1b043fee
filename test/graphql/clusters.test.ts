/** Clusters through the API: made, shown, changed, taken away. */
import { afterAll, describe, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { AUDIT, serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

interface Payload {
  readonly cluster: {
    readonly id: string;
    readonly name: string;
    readonly revision: number;
    readonly [field: string]: unknown;
  } | null;
  readonly errors: readonly { readonly code: string; readonly message: string; readonly [field: string]: unknown }[];
}

async function change(verb: "createCluster" | "updateCluster" | "deleteCluster", input: object): Promise<Payload> {
  const type = `${verb[0]?.toUpperCase()}${verb.slice(1)}Input`;
  const data = await ostler.query<Record<string, Payload>>(
    `mutation Change($input: ${type}!) { ${verb}(input: $input) {
      ${verb === "deleteCluster" ? "" : "cluster { id name state variables revision nodeCounts { state count } nodes { totalCount edges { node { name } } } }"}
      errors { type: __typename code status message path count refs ... on NotFoundError { missing } ... on ConflictError { operation { uuid } node { name } } }
    } }`,
    { input },
  );
  return data[verb] as Payload;
}

let made = 0;
async function aCluster(more: object = {}): Promise<{ id: string; name: string; revision: number }> {
  const { cluster, errors } = await change("createCluster", { name: `cluster-${(made += 1)}`, ...more });
  expect(errors).toEqual([]);
  return cluster as never;
}

const show = async (name: string) =>
  (
    await ostler.query<{ cluster: Record<string, unknown> | null }>(
      "query Show($name: String!) { cluster(by: { name: $name }) { name state variables revision nodeCounts { state count } nodes { edges { node { name cluster { name } } } } operations { edges { node { kind state } } } } }",
      { name },
    )
  ).cluster;

describe("a cluster", () => {
  test("createCluster stores settings and nodes; the cluster is found by name, by ID and in the list", async () => {
    const names = await ostler.register(3);
    const { id, name } = await aCluster({ variables: { ntp: "10.0.0.1", none: null }, nodes: { names } });
    expect(await show(name)).toMatchObject({
      name,
      state: "NEW",
      variables: { ntp: "10.0.0.1" },
      revision: 1,
      nodeCounts: [{ state: "ENROLLED", count: 3 }],
      nodes: { edges: names.map((node) => ({ node: { name: node, cluster: { name } } })) },
      operations: { edges: [] },
    });
    const { byId, again, clusters } = await ostler.query<{
      byId: object;
      again: object;
      clusters: { edges: { node: { name: string } }[] };
    }>(
      "query Same($id: ID!) { byId: cluster(by: { id: $id }) { name } again: fetch__Cluster(id: $id) { name } clusters(first: 100) { edges { node { name } } } }",
      { id },
    );
    expect([byId, again]).toEqual([{ name }, { name }]);
    expect(clusters.edges.map(({ node }) => node.name)).toContain(name);
  });

  test("Cluster.state follows from its nodes and their unfinished runs [R-108]", async () => {
    const gate = aGate();
    const [slow = "", quick = ""] = [
      ...(await ostler.register(1, { steps: { "deploy.configure": { gate: gate.name } } })),
      ...(await ostler.register(1)),
    ];
    const { name } = await aCluster({ nodes: { names: [slow, quick] } });
    const uuid = await ostler.begin("commissionNodes", [slow]);
    await gate.arrivals();
    expect(await show(name)).toMatchObject({ state: "DEPLOYING" });
    gate.open();
    await ostler.operationEnds(uuid);
    expect(await show(name)).toMatchObject({ state: "PARTIALLY_DEPLOYED" });
    await ostler.commission([quick]);
    expect(await show(name)).toMatchObject({ state: "OPERATIONAL", nodeCounts: [{ state: "ACTIVE", count: 2 }] });
  });

  test("Cluster.operations does not leave out work that selected its members without naming the cluster [R-260]", async () => {
    const [member = "", other = ""] = await ostler.register(2);
    const { name } = await aCluster({ nodes: { names: [member] } });
    const empty = await aCluster();
    const begin = async (nodes: string) => {
      const { setPower } = await ostler.query<{ setPower: { operation: { uuid: string } } }>(
        `mutation { setPower(input: { nodes: ${nodes}, action: ON }) { operation { uuid } } }`,
      );
      await ostler.operationEnds(setPower.operation.uuid);
      return setPower.operation.uuid;
    };
    const list = async (filter: object) =>
      (
        await ostler.query<{ operations: { edges: { node: { uuid: string } }[] } }>(
          "query List($filter: OperationFilter) { operations(filter: $filter) { edges { node { uuid } } } }",
          { filter },
        )
      ).operations.edges.map(({ node }) => node.uuid);
    const uuids = [
      await begin(`{ names: ["${member}", "${other}"] }`),
      await begin(`{ cluster: { name: "${name}" } }`),
      await begin(`{ filter: { name: { eq: "${member}" } } }`),
    ];
    await begin(`{ names: ["${other}"] }`);
    const newestFirst = uuids.toReversed();
    const read = async () =>
      ostler.query(
        "query Show($name: String!) { cluster(by: { name: $name }) { operations { edges { node { uuid cluster { name } } } } first: operations(first: 1) { edges { node { uuid } } pageInfo { hasNextPage } } } }",
        { name },
      );
    expect(await read()).toEqual({
      cluster: {
        operations: {
          edges: newestFirst.map((uuid, index) => ({ node: { uuid, cluster: index === 1 ? { name } : null } })),
        },
        first: { edges: [{ node: { uuid: newestFirst[0] } }], pageInfo: { hasNextPage: true } },
      },
    });
    expect(await list({ cluster: { name } })).toEqual(newestFirst);
    expect(await list({ cluster: { name }, kinds: ["POWER"], states: ["SUCCEEDED"] })).toEqual(newestFirst);
    expect(await list({ cluster: { name }, kinds: ["CLEAN"] })).toEqual([]);
    expect(await list({ cluster: { name: empty.name } })).toEqual([]);
    // It was a member when the work was accepted.
    await change("updateCluster", { cluster: { name }, remove: { names: [member] } });
    expect(await list({ cluster: { name } })).toEqual(newestFirst);
  });

  test("createCluster refuses duplicate or invalid names, invalid settings, and nodes of another cluster", async () => {
    const [taken = ""] = await ostler.register(1);
    const { name } = await aCluster({ nodes: { names: [taken] } });
    const before = await ostler.dump(AUDIT);
    expect((await change("createCluster", { name })).errors).toMatchObject([
      {
        type: "SimpleError",
        code: "INVALID_INPUT",
        message: `A cluster ${name} exists already.`,
        path: ["input", "name"],
      },
    ]);
    expect((await change("createCluster", { name: "a b" })).errors).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "name"] },
    ]);
    expect((await change("createCluster", { name: "ok", variables: [1] })).errors).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "variables"] },
    ]);
    expect((await change("createCluster", { name: "ok", nodes: { names: [taken] } })).errors).toMatchObject([
      { type: "ConflictError", code: "INVALID_STATE", path: ["input", "nodes"], node: { name: taken } },
    ]);
    expect((await change("createCluster", { name: "ok", nodes: { names: ["ghost"] } })).errors).toMatchObject([
      { type: "NotFoundError", missing: ["ghost"], path: ["input", "nodes", "names"] },
    ]);
    expect(await ostler.dump(AUDIT)).toBe(before);
  });
});

describe("changing a cluster", () => {
  test("updateCluster merges settings, renames, removes and adds nodes, and increases the revision once", async () => {
    const [out = "", stays = "", comes = ""] = await ostler.register(3);
    const { name, revision } = await aCluster({ variables: { a: 1, b: 2 }, nodes: { names: [out, stays] } });
    const { cluster, errors } = await change("updateCluster", {
      cluster: { name },
      ifRevision: revision,
      name: `${name}-new`,
      variables: { b: null, c: 3 },
      remove: { names: [out] },
      add: { names: [comes] },
    });
    expect(errors).toEqual([]);
    expect(cluster).toMatchObject({
      name: `${name}-new`,
      variables: { a: 1, c: 3 },
      revision: revision + 1,
      nodes: { totalCount: 2, edges: [{ node: { name: stays } }, { node: { name: comes } }] },
    });
  });

  test("updateCluster with an outdated revision is refused", async () => {
    const { name, revision } = await aCluster();
    await change("updateCluster", { cluster: { name }, variables: { a: 1 } });
    expect(
      (await change("updateCluster", { cluster: { name }, ifRevision: revision, variables: { a: 2 } })).errors,
    ).toMatchObject([{ type: "ConflictError", code: "STALE_REVISION", status: 409, path: ["input", "ifRevision"] }]);
    expect((await change("deleteCluster", { cluster: { name }, ifRevision: revision })).errors).toMatchObject([
      { code: "STALE_REVISION" },
    ]);
    expect(await show(name)).toMatchObject({ variables: { a: 1 } });
  });

  test("updateCluster is refused while the cluster is deploying, with the conflicting operation, and accepted afterwards [R-107]", async () => {
    const gate = aGate();
    const names = await ostler.register(1, { steps: { "power.read": { gate: gate.name } } });
    const { name } = await aCluster({ nodes: { names } });
    const uuid = await ostler.begin("manageNodes", names);
    await gate.arrivals();
    for (const verb of ["updateCluster", "deleteCluster"] as const) {
      expect((await change(verb, { cluster: { name } })).errors).toMatchObject([
        { type: "ConflictError", code: "CLUSTER_LOCKED", status: 409, operation: { uuid } },
      ]);
    }
    gate.open();
    await ostler.operationEnds(uuid);
    expect((await change("updateCluster", { cluster: { name }, variables: { a: 1 } })).errors).toEqual([]);
  });

  test.each([{ name: "nowhere" }, { id: "garbage" }, { id: "-".repeat(36) }])(
    "that does not exist (%j) is refused",
    async (cluster) => {
      for (const verb of ["updateCluster", "deleteCluster"] as const) {
        expect((await change(verb, { cluster })).errors).toMatchObject([
          { type: "NotFoundError", code: "NOT_FOUND", status: 404, missing: [Object.values(cluster)[0]] },
        ]);
      }
    },
  );

  test("several nodes of other clusters are one error with their count and names, when added and when removed", async () => {
    const members = await ostler.register(2);
    await aCluster({ nodes: { names: members } });
    const { name } = await aCluster();
    const refs = members.toSorted();
    expect((await change("updateCluster", { cluster: { name }, remove: { names: members } })).errors).toMatchObject([
      { code: "NOT_FOUND", count: 2, refs, path: ["input", "remove"] },
    ]);
    expect((await change("updateCluster", { cluster: { name }, add: { names: members } })).errors).toMatchObject([
      { code: "INVALID_STATE", count: 2, refs, path: ["input", "add"] },
    ]);
  });

  test("updateCluster removes only nodes of the cluster", async () => {
    const [stranger = ""] = await ostler.register(1);
    const { name } = await aCluster();
    expect((await change("updateCluster", { cluster: { name }, remove: { names: [stranger] } })).errors).toMatchObject([
      { type: "NotFoundError", missing: [stranger], path: ["input", "remove"] },
    ]);
  });
});

describe("deleting a cluster", () => {
  test("deleteCluster keeps its nodes without a cluster", async () => {
    const names = await ostler.register(2);
    const { name } = await aCluster({ nodes: { names } });
    expect(await change("deleteCluster", { cluster: { name } })).toMatchObject({ errors: [] });
    expect(await show(name)).toBeNull();
    const { node } = await ostler.query(
      "query Node($name: String!) { node(by: { name: $name }) { name cluster { name } } }",
      { name: names[0] },
    );
    expect(node).toEqual({ name: names[0], cluster: null });
  });
});

describe("the list of clusters", () => {
  test("clusters can be paged in both directions", async () => {
    const wanted = Array.from({ length: 23 }, (_, index) => `listed-${String(index).padStart(2, "0")}`);
    for (const name of wanted) await change("createCluster", { name });
    type Page = {
      clusters: {
        edges: { node: { name: string } }[];
        pageInfo: {
          endCursor: string | null;
          startCursor: string | null;
          hasNextPage: boolean;
          hasPreviousPage: boolean;
        };
      };
    };
    const page = (variables: object) =>
      ostler.query<Page>(
        "query Page($first: Int, $after: String, $last: Int, $before: String) { clusters(first: $first, after: $after, last: $last, before: $before) { edges { node { name } } pageInfo { endCursor startCursor hasNextPage hasPreviousPage } } }",
        variables as never,
      );
    const forward: string[] = [];
    for (let after: string | null = null, more = true; more;) {
      const { clusters }: Page = await page({ first: 7, after });
      forward.push(...clusters.edges.map(({ node }) => node.name));
      ({ endCursor: after, hasNextPage: more } = clusters.pageInfo);
    }
    expect(forward).toEqual([...new Set(forward)].toSorted());
    expect(forward).toEqual(expect.arrayContaining(wanted));
    const backward: string[] = [];
    for (let before: string | null = null, more = true; more;) {
      const { clusters }: Page = await page({ last: 5, before });
      backward.unshift(...clusters.edges.map(({ node }) => node.name));
      ({ startCursor: before, hasPreviousPage: more } = clusters.pageInfo);
    }
    expect(backward).toEqual(forward);
  });
});
