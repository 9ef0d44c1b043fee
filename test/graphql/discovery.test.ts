/**
 * Discoveries and reports of presence through the API: what is asked, what comes back at once, and what one reads
 * later.
 */
import { afterAll, describe, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";

const PASSWORD = "Xyzzy-plugh-7#!";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

interface Discovered {
  readonly operation: { readonly uuid: string; readonly state: string } | null;
  readonly addresses: readonly string[];
  readonly errors: readonly { readonly code: string; readonly message: string; readonly path: readonly string[] }[];
  readonly replayed: boolean;
}

const discover = async ({
  settings = {},
  ...input
}: {
  readonly settings?: object;
  readonly [key: string]: unknown;
}): Promise<Discovered> =>
  (
    await ostler.query<{ discoverNodes: Discovered }>(
      "mutation Discover($input: DiscoverNodesInput!) { discoverNodes(input: $input) { operation { uuid state } addresses errors { code message path } replayed } }",
      { input: { driver: { fake: settings }, ...input } },
    )
  ).discoverNodes;

const begin = async (input: Parameters<typeof discover>[0]): Promise<string> => {
  const { operation, errors } = await discover(input);
  expect(errors).toEqual([]);
  return operation?.uuid ?? "";
};

const OPERATION = `query Discovery($uuid: ID!) { operation(id: $uuid) {
  kind state totalCount finishedCount failedCount progress reason cluster { name } discoveryTerms { driver settings { fake { dead names } } namePrefix } failedAddresses runCounts { count } firstFailure { code }
  discoveries { edges { node { address state node { name state labels { key value } cluster { name } } failure { code message retryable } finishedAt } } }
  transitions { edges { node { nodeName event to } } }
} }`;
const operation = async (uuid: string) =>
  (await ostler.query<{ operation: Record<string, unknown> }>(OPERATION, { uuid })).operation;

interface Change {
  readonly operationChanges: {
    readonly operation?: {
      readonly state: string;
      readonly progress: number;
      readonly finishedCount: number;
      readonly failedAddresses: readonly string[];
    };
  };
}

/** Changes of an operation, from its present state. */
const changesOf = (id: string) =>
  ostler.overEvents<Change>(
    "subscription Watch($id: ID!) { operationChanges(filter: { ids: [$id] }, snapshot: true) { ... on OperationUpserted { operation { state progress finishedCount failedAddresses } } } }",
    { id },
  );

describe("discoverNodes", () => {
  test("discoverNodes returns the operation and its addresses at once; Operation.discoveries has the results", async () => {
    await ostler.query('mutation { createCluster(input: { name: "row-7" }) { errors { message } } }');
    const answer = await discover({
      addresses: ["10.1.0.0/30", "bmc-7.example"],
      settings: { password: PASSWORD, dead: ["10.1.0.2"], names: { "bmc-7.example": "rack7-u1" } },
      cluster: { name: "row-7" },
      labels: [{ key: "row", value: "7" }],
      namePrefix: "row7-",
      reason: "new row",
    });
    expect(answer).toMatchObject({
      addresses: ["10.1.0.1", "10.1.0.2", "bmc-7.example"],
      errors: [],
      replayed: false,
      operation: { state: expect.stringMatching(/QUEUED|RUNNING/) },
    });
    const uuid = answer.operation?.uuid ?? "";
    expect(await ostler.operationEnds(uuid)).toBe("PARTIALLY_SUCCEEDED");
    const found = { state: "ENROLLED", labels: [{ key: "row", value: "7" }], cluster: { name: "row-7" } };
    expect(await operation(uuid)).toMatchObject({
      kind: "DISCOVER",
      totalCount: 3,
      finishedCount: 3,
      failedCount: 1,
      progress: 1,
      reason: "new row",
      cluster: { name: "row-7" },
      discoveryTerms: {
        driver: "fake",
        settings: { fake: { dead: ["10.1.0.2"], names: { "bmc-7.example": "rack7-u1" } } },
        namePrefix: "row7-",
      },
      failedAddresses: ["10.1.0.2"],
      runCounts: [],
      firstFailure: { code: "BACKEND_FAILED" },
      discoveries: {
        edges: [
          {
            node: {
              address: "10.1.0.1",
              state: "REGISTERED",
              node: { name: "row7-10.1.0.1", ...found },
              failure: null,
              finishedAt: expect.any(String),
            },
          },
          {
            node: {
              address: "10.1.0.2",
              state: "FAILED",
              node: null,
              failure: { code: "BACKEND_FAILED", message: expect.stringContaining("10.1.0.2"), retryable: true },
            },
          },
          { node: { address: "bmc-7.example", state: "REGISTERED", node: { name: "rack7-u1", ...found } } },
        ],
      },
    });
  });

  test("discoverNodes with failedAddresses tries the failed addresses again [R-017]", async () => {
    const first = await begin({ addresses: ["10.2.0.0/29"], settings: { dead: ["10.2.0.2", "10.2.0.5"] } });
    await ostler.operationEnds(first);
    const { failedAddresses } = await operation(first);
    const second = await begin({ addresses: failedAddresses });
    expect(await ostler.operationEnds(second)).toBe("SUCCEEDED");
    expect(await operation(second)).toMatchObject({ totalCount: 2, failedAddresses: [], firstFailure: null });
    const third = await begin({ addresses: ["10.2.0.0/29"] });
    expect(await ostler.operationEnds(third)).toBe("SUCCEEDED");
    expect(await operation(third)).toMatchObject({
      transitions: { edges: [] },
      discoveries: { edges: Array.from({ length: 6 }, () => ({ node: { state: "KNOWN" } })) },
    });
  });

  test("discoverNodes with invalid input returns every error with its path", async () => {
    const {
      operation: none,
      addresses,
      errors,
    } = await discover({
      addresses: ["10.0.0.300", "10.3.0.1", "10.0.0.0/8"],
      settings: { delayMs: -1 },
      cluster: { name: "ghost" },
    });
    expect([none, addresses]).toEqual([null, []]);
    expect(errors.map(({ code, path }) => `${code} ${path.join(".")}`)).toEqual([
      "INVALID_INPUT input.addresses.0",
      "INVALID_INPUT input.addresses.2",
      "INVALID_INPUT input.driver.fake.delayMs",
      "NOT_FOUND input.cluster",
    ]);
  });

  test("discoverNodes with dryRun returns the addresses and writes nothing", async () => {
    const before = await ostler.dump();
    expect(await discover({ addresses: ["2001:db8::/127", "2001:DB8::1"], dryRun: true })).toEqual({
      operation: null,
      addresses: ["2001:db8::", "2001:db8::1"],
      errors: [],
      replayed: false,
    });
    expect(await ostler.dump()).toBe(before);
  });

  test("discoverNodes with a repeated idempotency key returns the same operation", async () => {
    const input = { addresses: ["10.4.0.1"], idempotencyKey: "once" };
    const [first, again] = [await discover(input), await discover(input)];
    expect(again).toMatchObject({ operation: { uuid: first.operation?.uuid }, replayed: true });
  });

  test("Driver.discoverySchema is the JSON Schema of discovery settings, or null", async () => {
    const { drivers } = await ostler.query<{
      drivers: { name: string; discoverySchema: { properties: Record<string, { writeOnly?: boolean }> } | null }[];
    }>("{ drivers { name discoverySchema } }");
    expect(drivers.find(({ name }) => name === "fake")?.discoverySchema?.properties).toMatchObject({
      dead: expect.anything(),
      password: { writeOnly: true },
    });
  });
});

describe("an operation of kind DISCOVER", () => {
  test("Operation.discoveries filters by state and pages from either end", async () => {
    const uuid = await begin({ addresses: ["10.5.0.0/26"], settings: { dead: ["10.5.0.10", "10.5.0.20"] } });
    await ostler.operationEnds(uuid);
    interface Page {
      readonly operation: {
        readonly discoveries: {
          readonly edges: readonly { readonly cursor: string; readonly node: { readonly address: string } }[];
          readonly pageInfo: {
            readonly hasNextPage: boolean;
            readonly hasPreviousPage: boolean;
            readonly endCursor: string | null;
          };
        };
      };
    }
    const page = async (variables: object) =>
      (
        await ostler.query<Page>(
          "query Page($uuid: ID!, $states: [DiscoveryState!], $first: Int, $after: String, $last: Int, $before: String) { operation(id: $uuid) { discoveries(states: $states, first: $first, after: $after, last: $last, before: $before) { edges { cursor node { address } } pageInfo { hasNextPage hasPreviousPage endCursor } } } }",
          { uuid, ...variables },
        )
      ).operation.discoveries;
    const seen: string[] = [];
    for (let after: string | null = null, more = true; more;) {
      const { edges, pageInfo }: Page["operation"]["discoveries"] = await page({ first: 25, after });
      seen.push(...edges.map(({ node }) => node.address));
      [after, more] = [pageInfo.endCursor, pageInfo.hasNextPage];
    }
    expect(seen).toEqual(Array.from({ length: 62 }, (_, index) => `10.5.0.${index + 1}`));
    const last = await page({ last: 2 });
    expect([last.edges.map(({ node }) => node.address), last.pageInfo.hasPreviousPage]).toEqual([
      ["10.5.0.61", "10.5.0.62"],
      true,
    ]);
    expect((await page({ states: ["FAILED"] })).edges.map(({ node }) => node.address)).toEqual([
      "10.5.0.10",
      "10.5.0.20",
    ]);
    expect((await page({ states: [] })).edges).toEqual([]);
  });

  test("operationChanges of a discovery sends its progress at most five times a second", async () => {
    const gate = aGate();
    const uuid = await begin({ addresses: ["10.6.0.0/26"], settings: { gate: gate.name } });
    await gate.arrivals();
    const changes = changesOf(uuid);
    await takeUntil(changes, ({ operationChanges: { operation: of } }) => of?.state === "RUNNING");
    const began = performance.now();
    gate.open();
    const rest = await takeUntil(changes, ({ operationChanges: { operation: of } }) => of?.state === "SUCCEEDED");
    const seconds = (performance.now() - began) / 1_000;
    await changes.return?.();
    expect(rest.at(-1)?.operationChanges.operation).toMatchObject({ state: "SUCCEEDED", progress: 1 });
    expect(rest.filter(({ operationChanges }) => operationChanges.operation).length).toBeLessThanOrEqual(
      5 * seconds + 2,
    );
  });

  test("a discovery reports its progress while one address does not answer", async () => {
    const uuid = await begin({ addresses: ["10.7.0.0/29"], settings: { silent: ["10.7.0.3"] } });
    const changes = changesOf(uuid);
    await takeUntil(
      changes,
      ({ operationChanges: { operation: of } }) => of?.state === "RUNNING" && of.finishedCount === 5,
    );
    await ostler.query(
      "mutation Abort($id: ID!) { abort(input: { work: { operationId: $id } }) { errors { code } } }",
      { id: uuid },
    );
    const rest = await takeUntil(changes, ({ operationChanges: { operation: of } }) => of?.state === "ABORTED");
    await changes.return?.();
    expect(rest.at(-1)?.operationChanges.operation).toMatchObject({ finishedCount: 6, failedAddresses: ["10.7.0.3"] });
  });

  test("a discovery can be aborted and stopped by its ID, but not restarted", async () => {
    const gate = aGate();
    const uuid = await begin({ addresses: ["10.8.0.0/27"], settings: { gate: gate.name } });
    await gate.arrivals(16);
    const { abort } = await ostler.query(
      'mutation Abort($id: ID!) { abort(input: { work: { operationId: $id }, reason: "wrong row" }) { operation { state interrupt interruptReason finishedAt } results { ref } errors { code } } }',
      { id: uuid },
    );
    expect(abort).toMatchObject({
      operation: { state: "ABORTED", interrupt: "ABORT", interruptReason: "wrong row", finishedAt: expect.any(String) },
      results: [],
      errors: [],
    });
    gate.open();
    const after = await operation(uuid);
    expect(after).toMatchObject({ state: "ABORTED", finishedCount: 30, progress: 1 });
    expect(after["failedAddresses"]).toHaveLength(30);
    const { stop } = await ostler.query(
      "mutation Stop($id: ID!) { stop(input: { work: { operationId: $id } }) { operation { state } errors { code } } }",
      { id: uuid },
    );
    expect(stop).toEqual({ operation: { state: "ABORTED" }, errors: [] });
    const { restart } = await ostler.query(
      "mutation Restart($id: ID!) { restart(input: { work: { operationId: $id } }) { operation { uuid } errors { code message } } }",
      { id: uuid },
    );
    expect(restart).toEqual({
      operation: null,
      errors: [{ code: "NOTHING_TO_RESTART", message: expect.stringContaining("discoverNodes") }],
    });
  });
});

describe("what a discovery logs in with", () => {
  test("credentials of a discovery are never returned, and never stored in clear", async () => {
    const gate = aGate();
    const uuid = await begin({
      addresses: ["10.9.0.0/30"],
      settings: { password: PASSWORD, gate: gate.name, refusesLogin: ["10.9.0.2"] },
      idempotencyKey: "secret-row",
    });
    await gate.arrivals(2);
    expect(await ostler.dump()).not.toContain(PASSWORD);
    gate.open();
    await ostler.operationEnds(uuid);
    expect(await ostler.dump()).not.toContain(PASSWORD);
    const answer = await ostler.ask(OPERATION, { uuid });
    expect(answer.text).not.toContain(PASSWORD);
    const refused = await ostler.ask(
      "mutation Discover($input: DiscoverNodesInput!) { discoverNodes(input: $input) { errors { message } } }",
      { input: { driver: { fake: { password: [PASSWORD] } }, addresses: ["10.9.0.1"] } },
    );
    expect(refused.text).not.toContain(PASSWORD);
    expect(refused.text).toContain("password");
    expect(ostler.logLines.filter((line) => line.includes(PASSWORD))).toEqual([]);
  });
});

describe("reportPresence", () => {
  const REPORT = `mutation Report($input: ReportPresenceInput!) { reportPresence(input: $input) {
    results { ref change node { name state presence } error { code status message path ... on NotFoundError { missing } } }
    errors { code path }
  } }`;
  const report = async (event: string, nodes: readonly object[]) =>
    (await ostler.query<{ reportPresence: Record<string, unknown> }>(REPORT, { input: { event, nodes } }))
      .reportPresence;

  test("reportPresence returns a result per node and accepts the valid ones", async () => {
    const [name = ""] = await ostler.register(1);
    expect(
      await report("DISCOVERED", [
        { name: "stranger" },
        { name },
        { name: "newcomer", driver: { fake: { password: PASSWORD } }, labels: [{ key: "seen", value: "yes" }] },
      ]),
    ).toMatchObject({
      errors: [],
      results: [
        {
          ref: "stranger",
          change: null,
          node: null,
          error: {
            code: "INVALID_INPUT",
            status: 400,
            path: ["input", "nodes", "0", "driver"],
            message: expect.stringContaining("Name its driver"),
          },
        },
        { ref: name, change: "UPDATED", node: { name, presence: "DISCOVERED" }, error: null },
        { ref: "newcomer", change: "REGISTERED", node: { state: "ENROLLED", presence: "DISCOVERED" }, error: null },
      ],
    });
    expect(await report("DISAPPEARED", [{ name: "ghost" }, { name }])).toMatchObject({
      errors: [],
      results: [
        { ref: "ghost", change: null, error: { code: "NOT_FOUND", status: 404, missing: ["ghost"] } },
        { ref: name, change: "UPDATED", node: { presence: "DISAPPEARED" } },
      ],
    });
  });

  test("repeating reportPresence changes no revision [R-039]", async () => {
    const [name = ""] = await ostler.register(1);
    const revision = async () =>
      (await ostler.query("query Revision($name: String!) { node(by: { name: $name }) { revision } }", { name }))[
        "node"
      ];
    await report("DISAPPEARED", [{ name }]);
    const before = await revision();
    expect(await report("DISAPPEARED", [{ name }])).toMatchObject({ results: [{ change: "UNCHANGED" }] });
    expect(await revision()).toEqual(before);
  });

  test("reportPresence without nodes is refused", async () => {
    expect(await report("DISCOVERED", [])).toEqual({
      results: [],
      errors: [{ code: "INVALID_INPUT", path: ["input", "nodes"] }],
    });
  });
});
