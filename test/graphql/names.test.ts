/** Names are equal without regard to case, and are shown as they were given. */
import { afterAll, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

await ostler.register(["Rack1-U01", "rack1-u02", "RACK1-u10", "other"]);

type Errors = readonly { readonly code: string; readonly message: string; readonly path: readonly string[] }[];

async function errorsOf(mutation: string): Promise<Errors> {
  const data = await ostler.query<Record<string, { errors: Errors }>>(
    `mutation { ${mutation} { errors { code message path } } }`,
  );
  return Object.values(data)[0]?.errors ?? [];
}

async function namesOf(args: string): Promise<string[]> {
  const { nodes } = await ostler.query<{ nodes: { nodes: { name: string }[] } }>(
    `{ nodes(${args}) { nodes { name } } }`,
  );
  return nodes.nodes.map(({ name }) => name);
}

const register = (...names: string[]) =>
  errorsOf(
    `registerNodes(input: { nodes: [${names.map((name) => `{ name: "${name}", driver: { fake: {} } }`).join(" ")}] })`,
  );

describe("nodes", () => {
  test("a node whose name differs from another one in case only is refused with the name that exists [R-845]", async () => {
    expect(await register("free", "rACK1-u01")).toEqual([
      { code: "INVALID_INPUT", message: "A node Rack1-U01 exists already.", path: ["input", "nodes", "1", "name"] },
    ]);
    expect(await register("twin", "TWIN")).toMatchObject([{ path: ["input", "nodes", "1", "name"] }]);
    expect(await namesOf('filter: { name: { in: ["free", "twin"] } }')).toEqual([]);
  });

  test("registrations of the same name in two cases at the same time make one node", async () => {
    const errors = await Promise.all(["race", "RACE", "Race", "rAcE"].map((name) => register(name)));
    expect(errors.filter((one) => one.length === 0)).toHaveLength(1);
    expect(await namesOf('filter: { name: { eq: "race" } }')).toHaveLength(1);
  });

  test("node(by:) finds a name in any case, and shows the registered one [R-846]", async () => {
    const { node } = await ostler.query<{ node: object }>('{ node(by: { name: "RACK1-U01" }) { name } }');
    expect(node).toEqual({ name: "Rack1-U01" });
  });

  test("a selection with two spellings of a name is one node, and an unknown name is reported as it was sent", async () => {
    const { readPower } = await ostler.query<{ readPower: object }>(
      'mutation { readPower(input: { nodes: { names: ["RACK1-u02", "rack1-U02", "rack9-u99"] } }) { errors { ... on NotFoundError { missing } } } }',
    );
    expect(readPower).toEqual({ errors: [{ missing: ["rack9-u99"] }] });
    const { plan } = await ostler.query<{ plan: object }>(
      '{ plan(input: { manageNodes: { nodes: { names: ["RACK1-u02", "rack1-U02"] } } }) { acceptedCount results { ref node { name } } } }',
    );
    expect(plan).toEqual({ acceptedCount: 1, results: [{ ref: "RACK1-u02", node: { name: "rack1-u02" } }] });
  });

  test("verbs by names in another case at the same time each have their operation", async () => {
    const uuids = await Promise.all(["rack1-u01", "RACK1-U02"].map((name) => ostler.begin("manageNodes", [name])));
    expect(new Set(uuids).size).toBe(2);
    for (const uuid of uuids) expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
  });

  test.each([
    ['eq: "rack1-u01"', ["Rack1-U01"]],
    ['in: ["RACK1-U01", "rack1-u01", "OTHER"]', ["other", "Rack1-U01"]],
    ['startsWith: "rAck1-"', ["Rack1-U01", "rack1-u02", "RACK1-u10"]],
    ['contains: "1-U0"', ["Rack1-U01", "rack1-u02"]],
  ])("the filter { %s } ignores case in lists, counts and streams", async (test_, expected) => {
    const filter = `filter: { name: { ${test_} } }`;
    expect(await namesOf(filter)).toEqual(expected);
    const { nodeCounts } = await ostler.query<{ nodeCounts: object }>(
      `{ nodeCounts(${filter}, by: [{ field: DRIVER }]) { totalCount } }`,
    );
    expect(nodeCounts).toEqual({ totalCount: expected.length });
    const items = ostler.overSocket(
      `subscription { nodeTransitions(snapshot: true, ${filter}) { ... on NodeSnapshot { node { name } } } }`,
    );
    const seen: string[] = [];
    while (seen.length < expected.length) {
      const { value } = await items.next();
      seen.push((value as { nodeTransitions: { node: { name: string } } }).nodeTransitions.node.name);
    }
    await items.return?.();
    expect(seen.toSorted()).toEqual(expected.toSorted());
  });

  test.each([
    ["NAME", ["Rack1-U01", "rack1-u02", "RACK1-u10"]],
    ["NATURAL_NAME", ["Rack1-U01", "rack1-u02", "RACK1-u10"]],
  ])("pages by %s are in one order without regard to case, and lose no node", async (field, expected) => {
    const found: string[] = [];
    let after: string | null = null;
    do {
      const { nodes }: { nodes: { nodes: { name: string }[]; pageInfo: { endCursor: string; hasNextPage: boolean } } } =
        await ostler.query(
          `query Page($after: String) { nodes(first: 1, after: $after, orderBy: { field: ${field} }, filter: { name: { startsWith: "rack1" } }) { nodes { name } pageInfo { endCursor hasNextPage } } }`,
          { after },
        );
      found.push(...nodes.nodes.map(({ name }) => name));
      after = nodes.pageInfo.hasNextPage ? nodes.pageInfo.endCursor : null;
    } while (after !== null);
    expect(found).toEqual(expected);
  });

  test("a node is renamed to another spelling of its name, and not to that of another node", async () => {
    const rename = (from: string, to: string) =>
      errorsOf(`updateNodes(input: { nodes: { names: ["${from}"] }, name: "${to}" })`);
    expect(await rename("OTHER", "rack1-U10")).toMatchObject([{ message: "A node RACK1-u10 exists already." }]);
    expect(await rename("OTHER", "Other")).toEqual([]);
    expect(await namesOf('filter: { name: { eq: "other" } }')).toEqual(["Other"]);
  });

  test("a report of presence finds a node in any case", async () => {
    const { reportPresence } = await ostler.query<{ reportPresence: object }>(
      'mutation { reportPresence(input: { event: DISCOVERED, nodes: [{ name: "rack1-U01" }, { name: "RACK1-U01" }] }) { results { ref change node { name } } } }',
    );
    const node = { name: "Rack1-U01" };
    expect(reportPresence).toEqual({
      results: [
        { ref: "rack1-U01", change: "UPDATED", node },
        { ref: "RACK1-U01", change: "UNCHANGED", node },
      ],
    });
  });
});

const IMAGE =
  'format: RAW, sizeBytes: 1, url: "http://images.example/a.raw", checksum: { algorithm: SHA256, value: "' +
  "a".repeat(64) +
  '" }, architecture: X64';

test.each([
  {
    what: "cluster",
    create: (name: string) => `createCluster(input: { name: "${name}" })`,
    find: (name: string) => `cluster(by: { name: "${name}" }) { name }`,
  },
  {
    what: "runbook",
    create: (name: string) =>
      `createRunbook(input: { name: "${name}", steps: [{ interface: CLEAN, name: "erase_disks" }] })`,
    find: (name: string) => `runbook(by: { name: "${name}" }) { name }`,
  },
  {
    what: "image",
    create: (name: string) => `registerImages(input: { images: [{ name: "${name}", ${IMAGE} }] })`,
    find: (name: string) => `image(by: { name: "${name}" }) { name }`,
  },
])("a $what is unique and found without regard to case [R-845, R-846]", async ({ what, create, find }) => {
  expect(await errorsOf(create("Berlin"))).toEqual([]);
  const article = what === "image" ? "An" : "A";
  expect(await errorsOf(create("berLIN"))).toMatchObject([{ message: `${article} ${what} Berlin exists already.` }]);
  expect(await ostler.query(`{ ${find("BERLIN")} }`)).toEqual({ [what]: { name: "Berlin" } });
});

test("a cluster is named in any case by its members, filters and selections", async () => {
  expect(
    await errorsOf(
      'registerNodes(input: { nodes: [{ name: "member", driver: { fake: {} }, cluster: { name: "BERLIN" } }] })',
    ),
  ).toEqual([]);
  expect(await namesOf('filter: { cluster: { name: "berlin" } }')).toEqual(["member"]);
  const { plan } = await ostler.query<{ plan: object }>(
    '{ plan(input: { manageNodes: { nodes: { cluster: { name: "berLIN" } } } }) { acceptedCount } }',
  );
  expect(plan).toEqual({ acceptedCount: 1 });
});
