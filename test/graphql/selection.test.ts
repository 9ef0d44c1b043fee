/** Selection of nodes: a request that changes something reaches only the nodes that its caller meant. */
import { afterAll, describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { inputTypeOf } from "../support/input-type.ts";
import { serviceUnderTest } from "../support/service.ts";
import { VERB_MUTATIONS } from "../support/verbs.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const NAMES = await ostler.register(["fleet-1", "fleet-2", "fleet-3"]);

interface Answer {
  readonly errors: readonly { readonly code: string; readonly message: string; readonly path: string[] | null }[];
}

const ERRORS = "errors { code message path }";
const WORK = new Set(["abort", "stop", "restart", "withdrawAbort", "releaseHolds"]);
const VERBS = [
  ...VERB_MUTATIONS.keys(),
  "deleteNodes",
  "setMaintenance",
  "setRetired",
  "readPower",
  "readNodes",
  ...WORK,
];
const MORE: Readonly<Record<string, object>> = {
  readNodes: { what: ["FIRMWARE"] },
  setMaintenance: { reason: "fan" },
  setRetired: { reason: "old" },
};

/** Sends a request on a selection of nodes, and returns its errors and the name of its selector. */
async function select(field: string, selector: object): Promise<Answer["errors"]> {
  const member = WORK.has(field) ? "work" : "nodes";
  const kind = field === "plan" ? "query" : "mutation";
  const input = { [member]: selector, ...VERB_MUTATIONS.get(field)?.input, ...MORE[field] };
  const answer = await ostler.query<Record<string, Answer>>(
    `${kind} Select($input: ${inputTypeOf(field)}!) { ${field}(input: $input) { ${ERRORS} } }`,
    { input: field === "plan" ? { decommissionNodes: input } : input },
  );
  return answer[field]?.errors ?? [];
}

async function expectUntouched(): Promise<void> {
  const { nodes } = await ostler.query<{ nodes: { edges: { node: object }[] } }>(
    "{ nodes { edges { node { name state retired maintenance { reason } currentRun { id } } } } }",
  );
  expect(nodes.edges.map(({ node }) => node)).toMatchObject(
    NAMES.map((name) => ({ name, state: "ENROLLED", retired: false, maintenance: null, currentRun: null })),
  );
}

describe("a filter without a condition", () => {
  test.each([...VERBS, "plan"])(
    "%s with a filter without a condition does not select the whole fleet [R-150]",
    async (field) => {
      const path = ["input", WORK.has(field) ? "work" : "nodes", "filter"];
      expect(await select(field, { filter: {} })).toEqual([
        {
          code: "INVALID_INPUT",
          message:
            "The filter has no condition and would select 3 nodes. Add one; to select all nodes, use `all: true`.",
          path,
        },
      ]);
      expect(await select(field, { filter: { name: {} } })).toMatchObject([
        { code: "INVALID_INPUT", path: [...path, "name"] },
      ]);
      await expectUntouched();
    },
  );

  test.each([
    [{ name: { startsWith: null } }, ["name", "startsWith"]],
    [{ name: { startsWith: "" } }, ["name", "startsWith"]],
    [{ name: { contains: "" } }, ["name", "contains"]],
    [{ name: { in: [] } }, ["name", "in"]],
    [{ name: null }, ["name"]],
    [{ labels: [] }, ["labels"]],
    [{ labels: null }, ["labels"]],
    [{ cluster: null }, ["cluster"]],
    [{ driver: null }, ["driver"]],
    [{ hostGroup: "" }, ["hostGroup"]],
    [{ maintenance: null }, ["maintenance"]],
    [{ ids: [] }, ["ids"]],
    [{ states: [] }, ["states"]],
    [{ or: [] }, ["or"]],
    [{ or: [{}] }, ["or", "0"]],
    [{ or: [{ name: { eq: "fleet-1" } }, { cluster: null }] }, ["or", "1", "cluster"]],
    [{ not: {} }, ["not"]],
    [{ not: { states: [] } }, ["not", "states"]],
    [{ driver: "fake", name: { contains: "" } }, ["name", "contains"]],
  ] as const)(
    "a mutation with the filter %j is refused and names the member without a value",
    async (filter, member) => {
      const [error, ...others] = await select("deleteNodes", { filter });
      expect(others).toEqual([]);
      expect(error).toMatchObject({ code: "INVALID_INPUT", path: ["input", "nodes", "filter", ...member] });
      expect(error?.message).toMatch(/^`.+` has no value, and the filter would select \d nodes?\. .+`all: true`\.$/);
      await expectUntouched();
    },
  );

  test("deleteNodes with a filter whose variable is not set does not delete every node", async () => {
    const { deleteNodes } = await ostler.query<{ deleteNodes: Answer & { count: number } }>(
      `mutation D($prefix: String) { deleteNodes(input: { nodes: { filter: { name: { startsWith: $prefix } } } }) { count ${ERRORS} } }`,
    );
    expect(deleteNodes).toMatchObject({ count: 0, errors: [{ code: "INVALID_INPUT" }] });
    await expectUntouched();
  });

  test("a dry run with a filter without a condition is refused like the verb", async () => {
    expect(
      await ostler.query(
        `mutation { decommissionNodes(input: { nodes: { filter: { labels: [] } }, dryRun: true }) { acceptedCount errors { code } } }`,
      ),
    ).toEqual({ decommissionNodes: { acceptedCount: 0, errors: [{ code: "INVALID_INPUT" }] } });
  });

  test("a filter by a label with an empty value has a condition", async () => {
    expect(await select("manageNodes", { filter: { labels: [{ key: "room", value: "" }] } })).toMatchObject([
      { code: "NOT_FOUND", message: "No node matches the filter." },
    ]);
  });
});

describe("all: true", () => {
  test("all: true selects all nodes, and all: false is refused", async () => {
    expect(
      await ostler.query(
        `{ plan(input: { decommissionNodes: { nodes: { all: true } } }) { results { ref } errors { code } } }`,
      ),
    ).toEqual({ plan: { results: NAMES.map((ref) => ({ ref })), errors: [] } });
    expect(await select("readPower", { all: false })).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "nodes", "all"] },
    ]);
    expect(await select("stop", { all: false })).toMatchObject([
      { code: "INVALID_INPUT", path: ["input", "work", "all"] },
    ]);
  });

  test("all: true beside another member of the selector is refused", async () => {
    const { errors } = await ostler.ask(
      "mutation { deleteNodes(input: { nodes: { all: true, names: [] } }) { count } }",
    );
    expect(errors).not.toEqual([]);
    await expectUntouched();
  });
});

describe("an empty list in a query", () => {
  test("an empty list in the filter of a query matches nothing, labels included [R-151]", async () => {
    const counts = await ostler.query(
      `{ ids: nodes(filter: { ids: [] }) { totalCount } names: nodes(filter: { name: { in: [] } }) { totalCount }
         states: nodes(filter: { states: [] }) { totalCount } power: nodes(filter: { powerStates: [] }) { totalCount }
         presence: nodes(filter: { presences: [] }) { totalCount } labels: nodes(filter: { labels: [] }) { totalCount }
         or: nodes(filter: { or: [] }) { totalCount } images: images(filter: { labels: [] }) { totalCount }
         none: nodes(filter: {}) { totalCount } }`,
    );
    expect(counts).toEqual({
      ...Object.fromEntries(
        ["ids", "names", "states", "power", "presence", "labels", "or", "images"].map((name) => [
          name,
          { totalCount: 0 },
        ]),
      ),
      none: { totalCount: NAMES.length },
    });
  });

  test("an empty list of states or kinds of operations and runs matches nothing [R-151]", async () => {
    await ostler.operationEnds(await ostler.begin("manageNodes", ["fleet-1"]));
    expect(
      await ostler.query(
        `{ kinds: operations(filter: { kinds: [] }) { edges { cursor } } states: operations(filter: { states: [] }) { edges { cursor } }
           operations { edges { node { none: runs(states: []) { edges { cursor } } all: runs { edges { node { state } } } } } } }`,
      ),
    ).toEqual({
      kinds: { edges: [] },
      states: { edges: [] },
      operations: { edges: [{ node: { none: { edges: [] }, all: { edges: [{ node: { state: "SUCCEEDED" } }] } } }] },
    });
  });
});

describe("a label that is given twice", () => {
  const DRIVER = { fake: {} };
  const TWICE = [
    { key: "rack", value: "r1" },
    { key: "rack", value: "r2" },
  ];

  test("a filter by two values of a label matches no object, and no mutation reaches one [R-1321]", async () => {
    await ostler.query(
      'mutation { updateNodes(input: { nodes: { names: ["fleet-1"] }, setLabels: [{ key: "rack", value: "r2" }] }) { changedCount } }',
    );
    await ostler.query(
      `mutation { registerImages(input: { images: [{ name: "racked", labels: [{ key: "rack", value: "r2" }], format: RAW, architecture: X64,
         sizeBytes: 1, url: "https://images.example/racked", checksum: { algorithm: SHA256, value: "${"a".repeat(64)}" } }] }) { errors { code } } }`,
    );
    const found = (labels: object) =>
      ostler.query(
        "query Q($labels: [LabelInput!]) { nodes(filter: { labels: $labels }) { totalCount } images(filter: { labels: $labels }) { totalCount } }",
        { labels },
      );
    expect(await found(TWICE)).toEqual({ nodes: { totalCount: 0 }, images: { totalCount: 0 } });
    expect(await found([TWICE[1], TWICE[1]])).toEqual({ nodes: { totalCount: 1 }, images: { totalCount: 1 } });
    expect(await select("setMaintenance", { filter: { labels: TWICE } })).toMatchObject([{ code: "NOT_FOUND" }]);
  });

  test.each([
    ["registerNodes", { nodes: [{ name: "twice", driver: DRIVER, labels: TWICE }] }],
    ["registerNodes", { nodes: [{ name: "twice", driver: DRIVER, labels: [TWICE[0], TWICE[0]] }] }],
    ["updateNodes", { nodes: { names: ["fleet-1"] }, labels: TWICE }],
    ["discoverNodes", { addresses: ["192.0.2.1"], driver: DRIVER, labels: TWICE }],
    ["updateImage", { image: { name: "racked" }, labels: TWICE }],
  ])("%s with a label that is given twice is refused with its key [R-1321]", async (field, input) => {
    const answer = await ostler.query<Record<string, Answer>>(
      `mutation Twice($input: ${inputTypeOf(field)}!) { ${field}(input: $input) { ${ERRORS} } }`,
      { input },
    );
    expect(answer[field]?.errors).toMatchObject([{ code: "INVALID_INPUT", message: "rack: given more than once." }]);
  });

  test("a report of an unknown node with a label that is given twice registers none [R-1321]", async () => {
    expect(
      await ostler.query(
        'mutation Report($labels: [LabelInput!]) { reportPresence(input: { event: DISCOVERED, nodes: [{ name: "seen", driver: { fake: {} }, labels: $labels }] }) { results { error { code } } } }',
        { labels: TWICE },
      ),
    ).toEqual({ reportPresence: { results: [{ error: { code: "INVALID_INPUT" } }] } });
  });
});

describe("pick", () => {
  test("pick does not take a member of a cluster, unless the filter has a condition on clusters [R-420]", async () => {
    const [member, spare] = await ostler.register(["pick-1", "pick-2"]);
    const { createCluster } = await ostler.query<{ createCluster: { cluster: { id: string } } }>(
      'mutation { createCluster(input: { name: "reserved", nodes: { names: ["pick-1"] } }) { cluster { id } } }',
    );
    for (const verb of ["manageNodes", "provideNodes"])
      await ostler.operationEnds(await ostler.begin(verb, ["pick-1", "pick-2"]));
    const picked = async (count: number, condition?: object) => {
      const { plan } = await ostler.query<{
        plan: { results: { ref: string }[]; errors: { code: string; available?: number }[] };
      }>(
        "query P($pick: NodePickInput!) { plan(input: { deployNodes: { nodes: { pick: $pick } } }) { results { ref } errors { code ... on CapacityError { available } } } }",
        { pick: { count, ...(condition && { filter: { name: { startsWith: "pick-" }, ...condition } }) } },
      );
      return plan.errors.length > 0 ? plan.errors : plan.results.map(({ ref }) => ref);
    };
    expect(await picked(2)).toEqual([{ code: "CAPACITY", available: 1 }]);
    expect(await picked(1, {})).toEqual([spare]);
    expect(await picked(1, { cluster: { name: "reserved" } })).toEqual([member]);
    expect(await picked(1, { cluster: { id: createCluster.cluster.id } })).toEqual([member]);
    expect(await picked(2, { or: [{ inCluster: true }, { inCluster: false }] })).toEqual([member, spare]);
    expect(await picked(2, { not: { cluster: { name: "other" } } })).toEqual([member, spare]);
  });
});

describe("refused nodes", () => {
  test("missing has at most 100 names and a count, so that a small request cannot make a large answer", async () => {
    const names = Array.from({ length: 5_000 }, (_, index) => `ghost-${index}`);
    const { manageNodes } = await ostler.query<{
      manageNodes: { errors: readonly { readonly missing: string[]; readonly missingCount: number }[] };
    }>(
      "mutation M($names: [String!]!) { manageNodes(input: { nodes: { names: $names } }) { errors { ... on NotFoundError { missing missingCount } } } }",
      { names },
    );
    expect(manageNodes.errors).toEqual([{ missing: names.slice(0, 100), missingCount: 5_000 }]);
  });

  test("stop with nothing to stop has operation null, one error with a count, and a result per node", async () => {
    const { stop } = await ostler.query<{ stop: object }>(
      `mutation { stop(input: { work: { names: ["fleet-2", "fleet-3"] } }) {
        operation { id } errors { code count refs } results { ref accepted error { code count refs } }
      } }`,
    );
    const error = { code: "NOTHING_RUNNING", count: 1, refs: [] };
    expect(stop).toEqual({
      operation: null,
      errors: [{ code: "NOTHING_RUNNING", count: 2, refs: ["fleet-2", "fleet-3"] }],
      results: ["fleet-2", "fleet-3"].map((ref) => ({ ref, accepted: false, error })),
    });
  });

  test("three unknown names are one error with their count and names, for verbs, restart and abort [R-152]", async () => {
    const names = ["ghost-1", "ghost-2", "ghost-3"];
    const list = JSON.stringify(names);
    const answer = `{ errors { code count refs } }`;
    const answers = await ostler.query(
      `mutation {
        manageNodes(input: { nodes: { names: ${list} } }) ${answer}
        restart(input: { work: { names: ${list} } }) ${answer}
        abort(input: { work: { names: ${list} } }) ${answer}
      }`,
    );
    const expected = { errors: [{ code: "NOT_FOUND", count: 3, refs: names }] };
    expect(answers).toEqual({ manageNodes: expected, restart: expected, abort: expected });
  });

  test("releaseHolds and withdrawAbort with BEST_EFFORT, the default, name an unknown node in errors and results", async () => {
    const input = `{ work: { names: ["fleet-2", "ghost"] } }`;
    const answer = `{ errors { code ... on NotFoundError { missing } } results { ref node { name } error { code } } }`;
    const expected = {
      errors: [{ code: expect.any(String) }, { code: "NOT_FOUND", missing: ["ghost"] }],
      results: [
        { ref: "fleet-2", node: { name: "fleet-2" }, error: { code: "NOTHING_RUNNING" } },
        { ref: "ghost", node: null, error: { code: "NOT_FOUND" } },
      ],
    };
    expect(
      await ostler.query(
        `mutation { releaseHolds(input: ${input}) ${answer} withdrawAbort(input: ${input}) ${answer} }`,
      ),
    ).toEqual({ releaseHolds: expected, withdrawAbort: expected });
  });
});

test.each(["abort", "stop", "releaseHolds"])("%s of several operations lists all of them", async (field) => {
  const names = await ostler.register([`${field}-1`, `${field}-2`, `${field}-3`]);
  const work = [names.slice(0, 1), names.slice(1)];
  const steps = [{ interface: "ENGINE", name: "hold", args: {} }];
  const uuids: string[] = [];
  for (const some of work) {
    await ostler.operationEnds(await ostler.begin("manageNodes", some));
    uuids.push(await ostler.begin("cleanNodes", some, { steps }));
  }
  await eventually("all runs hold", async () => {
    const { nodes } = await ostler.query<{ nodes: { nodes: { currentRun: { state: string } | null }[] } }>(
      "query Held($names: [String!]!) { nodes(filter: { name: { in: $names } }) { nodes { currentRun { state } } } }",
      { names },
    );
    return nodes.nodes.every(({ currentRun }) => currentRun?.state === "HOLDING");
  });
  const answer = await ostler.query<Record<string, { operation: unknown; operations: { uuid: string }[] }>>(
    `mutation End($names: [String!]!) { ${field}(input: { work: { names: $names } }) { operation { uuid } operations { uuid } } }`,
    { names },
  );
  expect(answer[field]).toEqual({ operation: null, operations: uuids.map((uuid) => ({ uuid })) });
  for (const uuid of uuids) await ostler.operationEnds(uuid);
});
