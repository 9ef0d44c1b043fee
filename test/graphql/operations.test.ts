/**
 * Operations and their runs through the API: how far they came, what failed and why, page by page; and garbage of all
 * kinds.
 */
import { afterAll, describe, expect, test } from "vitest";
import { aGate } from "../support/builders.ts";
import { range } from "../support/feed.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const id = (text: string) => Buffer.from(text).toString("base64url");

describe("an operation", () => {
  test("a stopped operation that did nothing for a node does not report it as progress [R-183]", async () => {
    const gate = aGate();
    const names = await ostler.register(4, { steps: { "power.read": { gate: gate.name } } });
    const uuid = await ostler.begin("manageNodes", names, { maxParallel: 1 });
    await gate.arrivals();
    const read = async () =>
      (
        await ostler.query<{ operation: unknown }>(
          `query Far($uuid: ID!) { operation(id: $uuid) {
             state progress reachedCount etaSeconds finishedCount runs { edges { node { progress steps { progressPercent } } } }
           } }`,
          { uuid },
        )
      ).operation;
    await ostler.query(
      "mutation Stop($id: ID!) { stop(input: { work: { operationId: $id } }) { errors { message } } }",
      {
        id: uuid,
      },
    );
    gate.open();
    await ostler.operationEnds(uuid);
    expect(await read()).toMatchObject({
      progress: null,
      reachedCount: 1,
      etaSeconds: null,
      finishedCount: 4,
      runs: { edges: [1, 0, 0, 0].map((progress) => ({ node: { progress } })) },
    });
  });

  test("a stopped run has the step before which it stopped, and a failed one has none [R-1347]", async () => {
    const gate = aGate();
    const [stops = ""] = await ostler.register(1, { steps: { "clean.erase_disks": { gate: gate.name } } });
    const [fails = ""] = await ostler.register(1, { steps: { "inspect.collect_inventory": { fail: "no luck" } } });
    const uuid = await ostler.begin("commissionNodes", [stops, fails], { onFailure: "LEAVE" });
    await gate.arrivals();
    await ostler.query(
      "mutation Stop($id: ID!) { stop(input: { work: { operationId: $id } }) { errors { message } } }",
      {
        id: uuid,
      },
    );
    gate.open();
    await ostler.operationEnds(uuid);
    expect(
      await ostler.query(
        "query Where($uuid: ID!) { operation(id: $uuid) { runs { nodes { state currentStep { name index } } } } }",
        { uuid },
      ),
    ).toEqual({
      operation: {
        runs: {
          nodes: [
            { state: "STOPPED", currentStep: { name: "prepare", index: 4 } },
            { state: "FAILED", currentStep: null },
          ],
        },
      },
    });
  });

  test("a running operation returns the state of each node and its overall progress [R-070]", async () => {
    const gate = aGate();
    const quick = await ostler.register(3);
    const slow = await ostler.register(1, { steps: { "clean.erase_disks": { gate: gate.name } } });
    const uuid = await ostler.begin("commissionNodes", [...quick, ...slow], {
      until: "AVAILABLE",
      variables: { a: 1 },
      maxParallel: 4,
    });
    await gate.arrivals();
    await expect
      .poll(
        async () =>
          (await ostler.query("query Far($uuid: ID!) { operation(id: $uuid) { finishedCount } }", { uuid }))[
            "operation"
          ],
      )
      .toEqual({ finishedCount: 3 });
    const { operation } = await ostler.query(
      `query Far($uuid: ID!) { operation(id: $uuid) {
        kind state totalCount finishedCount failedCount reachedCount progress etaSeconds runCounts { state count } onFailure maxParallel variables startedAt finishedAt
        runs(states: [RUNNING, WAITING]) { edges { node { nodeName state currentStep { name index } steps { name state attempts { number entries state } } } } }
      } }`,
      { uuid },
    );
    expect(operation).toMatchObject({
      kind: "COMMISSION",
      state: "RUNNING",
      totalCount: 4,
      finishedCount: 3,
      failedCount: 0,
      reachedCount: 3,
      // The running step counts when it has ended.
      progress: expect.closeTo(0.85, 0.11),
      onFailure: "CLEAN_UP_ALL",
      maxParallel: 4,
      variables: { a: 1 },
      finishedAt: null,
      runs: {
        edges: [
          {
            node: {
              nodeName: slow[0],
              state: "RUNNING",
              currentStep: { name: "erase_disks", index: 3 },
              steps: [
                { name: "verify", state: "SUCCEEDED" },
                { state: "SUCCEEDED" },
                { state: "SUCCEEDED" },
                { name: "erase_disks", state: "RUNNING", attempts: [{ number: 1, entries: 1, state: "RUNNING" }] },
              ],
            },
          },
        ],
      },
    });
    gate.open();
    expect(await ostler.operationEnds(uuid)).toBe("SUCCEEDED");
  });

  test("a failed operation returns the first failure and the state of each step", async () => {
    const [bad = ""] = await ostler.register(1, { steps: { "clean.erase_metadata": { fail: "disk 0 is locked" } } });
    const uuid = await ostler.begin("commissionNodes", [bad], { onFailure: "LEAVE" });
    expect(await ostler.operationEnds(uuid)).toBe("FAILED");
    const { operation } = await ostler.query(
      "query Why($uuid: ID!) { operation(id: $uuid) { failedCount firstFailure { code message step nodeName retryable at } runs { edges { node { state failure { message } steps { name state failure { message } } } } } } }",
      { uuid },
    );
    const message = `Node ${bad}: clean.erase_metadata failed: disk 0 is locked.`;
    expect(operation).toMatchObject({
      failedCount: 1,
      firstFailure: { code: "BACKEND_FAILED", message, step: "clean.erase_metadata", nodeName: bad, retryable: false },
      runs: {
        edges: [
          {
            node: {
              state: "FAILED",
              failure: { message },
              steps: [
                { state: "SUCCEEDED" },
                { state: "SUCCEEDED" },
                { name: "erase_metadata", state: "FAILED", failure: { message } },
                { name: "erase_disks", state: "SKIPPED", failure: null },
                ...["prepare", "write_image", "boot_system", "configure"].map((name) => ({ name, state: "SKIPPED" })),
              ],
            },
          },
        ],
      },
    });
  });

  test("Operation.runs are in the order of the request in both directions, clean-up runs last", async () => {
    const good = await ostler.register(30);
    const [bad = ""] = await ostler.register(1, { steps: { "inspect.collect_inventory": { fail: "no answer" } } });
    const uuid = await ostler.begin("commissionNodes", [...good, bad]);
    expect(await ostler.operationEnds(uuid)).toBe("FAILED");
    interface Page {
      readonly operation: {
        readonly runs: {
          readonly edges: readonly {
            readonly cursor: string;
            readonly node: { readonly nodeName: string; readonly purpose: string };
          }[];
          readonly pageInfo: { readonly hasNextPage: boolean; readonly hasPreviousPage: boolean };
        };
      };
    }
    const page = async (variables: object) =>
      (
        await ostler.query<Page>(
          "query Runs($uuid: ID!, $first: Int, $after: String, $last: Int, $before: String) { operation(id: $uuid) { runs(first: $first, after: $after, last: $last, before: $before) { edges { cursor node { nodeName purpose } } pageInfo { hasNextPage hasPreviousPage } } } }",
          { uuid, ...variables },
        )
      ).operation.runs;
    const forward: string[] = [];
    for (let after: string | undefined, more = true; more;) {
      const { edges, pageInfo } = await page({ first: 7, after });
      forward.push(...edges.map(({ node }) => `${node.purpose} ${node.nodeName}`));
      after = edges.at(-1)?.cursor;
      more = pageInfo.hasNextPage;
    }
    const backward: string[] = [];
    for (let before: string | undefined, more = true; more;) {
      const { edges, pageInfo } = await page({ last: 9, before });
      backward.unshift(...edges.map(({ node }) => `${node.purpose} ${node.nodeName}`));
      before = edges[0]?.cursor;
      more = pageInfo.hasPreviousPage;
    }
    expect(forward.slice(0, 31)).toEqual([...good, bad].map((name) => `WORK ${name}`));
    expect(forward.slice(31).every((run) => run.startsWith("CLEAN_UP "))).toBe(true);
    expect(new Set(forward).size).toBe(forward.length);
    expect(backward).toEqual(forward);
  });

  test("Operation.transitions can be read from either end", async () => {
    const names = await ostler.register(4);
    const uuid = await ostler.begin("commissionNodes", names);
    await ostler.operationEnds(uuid);
    interface Page {
      readonly operation: {
        readonly transitions: {
          readonly edges: readonly { readonly cursor: string; readonly node: { readonly cursor: string } }[];
          readonly pageInfo: {
            readonly hasNextPage: boolean;
            readonly hasPreviousPage: boolean;
            readonly endCursor: string;
          };
        };
      };
    }
    const page = async (variables: object) =>
      (
        await ostler.query<Page>(
          "query Log($uuid: ID!, $first: Int, $after: String, $last: Int, $before: String) { operation(id: $uuid) { transitions(first: $first, after: $after, last: $last, before: $before) { edges { cursor node { cursor } } pageInfo { hasNextPage hasPreviousPage endCursor } } } }",
          { uuid, ...variables },
        )
      ).operation.transitions;
    const whole = await page({ first: 500 });
    const cursors = whole.edges.map(({ cursor }) => Number.parseInt(cursor, 10));
    expect(cursors).toEqual(range(cursors[0] ?? 0, (cursors[0] ?? 0) + 31));
    expect(whole.pageInfo).toMatchObject({ hasNextPage: false, hasPreviousPage: false });
    const [first, second] = [await page({ first: 20 }), await page({ first: 20, after: String(cursors[19]) })];
    expect([...first.edges, ...second.edges]).toEqual(whole.edges);
    expect([first.pageInfo.hasNextPage, second.pageInfo.hasNextPage, second.pageInfo.hasPreviousPage]).toEqual([
      true,
      false,
      true,
    ]);
    const [last, before] = [await page({ last: 20 }), await page({ last: 20, before: String(cursors[12]) })];
    expect([...before.edges, ...last.edges]).toEqual(whole.edges);
    expect([last.pageInfo.hasPreviousPage, before.pageInfo.hasPreviousPage, before.pageInfo.hasNextPage]).toEqual([
      true,
      false,
      true,
    ]);
  });
});

describe("the list of operations", () => {
  test("operations are listed newest first and filtered by kind, state, node and cluster", async () => {
    const [name = ""] = await ostler.register(1);
    await ostler.query(
      'mutation Create($name: String!) { createCluster(input: { name: "listed", nodes: { names: [$name] } }) { errors { message } } }',
      { name },
    );
    const uuids = [];
    for (const verb of ["manageNodes", "inspectNodes", "cleanNodes"]) {
      uuids.push(await ostler.begin(verb, [name]));
      await ostler.operationEnds(uuids.at(-1) ?? "");
    }
    const { setPower } = await ostler.query<{ setPower: { operation: { uuid: string } } }>(
      'mutation { setPower(input: { nodes: { cluster: { name: "listed" } }, action: ON }) { operation { uuid } } }',
    );
    await ostler.operationEnds(setPower.operation.uuid);
    const { node } = await ostler.query<{ node: { id: string } }>(
      "query Id($name: String!) { node(by: { name: $name }) { id } }",
      { name },
    );
    const list = async (filter: object) =>
      (
        await ostler.query<{ operations: { edges: { node: { uuid: string } }[] } }>(
          "query List($filter: OperationFilter) { operations(filter: $filter) { edges { node { uuid } } } }",
          { filter },
        )
      ).operations.edges.map((edge) => edge.node.uuid);
    const newestFirst = [setPower.operation.uuid, ...uuids.toReversed()];
    expect(await list({ node: { id: node.id } })).toEqual(newestFirst);
    expect((await list({})).slice(0, 4)).toEqual(newestFirst);
    expect(await list({ node: { id: node.id }, kinds: ["CLEAN", "MANAGE"] })).toEqual([uuids[2], uuids[0]]);
    expect(await list({ node: { id: node.id }, states: ["FAILED"] })).toEqual([]);
    expect(await list({ cluster: { name: "listed" } })).toEqual(newestFirst);
    expect(await list({ cluster: { name: "nowhere" } })).toEqual([]);
    expect(await list({ node: { id: "garbage" } })).toEqual([]);
  });
});

describe("the log", () => {
  test("transitions are listed once each, in the order of positions, with the cursors of the stream", async () => {
    const seen: number[] = [];
    for (let after: string | null = null, more = true; more;) {
      const {
        transitions,
      }: {
        transitions: { edges: { node: { cursor: string } }[]; pageInfo: { hasNextPage: boolean; endCursor: string } };
      } = await ostler.query(
        "query Log($after: String) { transitions(first: 40, after: $after) { edges { node { cursor } } pageInfo { hasNextPage endCursor } } }",
        { after },
      );
      seen.push(...transitions.edges.map(({ node }) => Number.parseInt(node.cursor, 10)));
      after = transitions.pageInfo.endCursor;
      more = transitions.pageInfo.hasNextPage;
    }
    expect(seen).toEqual(
      range(1, Number((await ostler.test.sql`select position from feed_position`)[0]?.["position"])),
    );
  });

  test("transitions return at most 500 per page, as ServiceInfo states", async () => {
    expect(await ostler.query("{ service { maxPageSize maxNodesPageSize maxTransitionsPageSize } }")).toEqual({
      service: { maxPageSize: 100, maxNodesPageSize: 1_000, maxTransitionsPageSize: 500 },
    });
    expect((await ostler.ask("{ transitions(first: 501) { edges { cursor } } }")).errors).toMatchObject([
      { message: expect.stringContaining("1 to 500") as string, extensions: { code: "BAD_USER_INPUT" } },
    ]);
    expect((await ostler.ask("{ transitions(last: 500) { edges { cursor } } }")).errors).toEqual([]);
  });
});

describe("garbage", () => {
  const GARBAGE = [
    "",
    "x",
    "🦄",
    "-".repeat(36),
    id("Node:"),
    id(`Node:${"-".repeat(36)}`),
    id(`Operation:${"-".repeat(36)}`),
    id("Operation:1b671a64-40d5-491e-99b0-da01ff1f3341"),
    id("Transition:1"),
    id("Driver:none"),
    id("Run:x"),
    "\uFFFD".repeat(50),
    "x".repeat(10_000),
  ];

  test.each(GARBAGE)("an invalid ID finds nothing (%#)", async (garbage) => {
    const found = await ostler.query(
      `query Garbage($id: ID!) {
        node(by: { id: $id }) { name } cluster(by: { id: $id }) { name } operation(id: $id) { kind }
        fetch__Node(id: $id) { name } fetch__Cluster(id: $id) { name } fetch__Operation(id: $id) { kind }
        nodes(filter: { ids: [$id] }) { edges { cursor } } operations(filter: { node: { id: $id }, cluster: { id: $id } }) { edges { cursor } }
      }`,
      { id: garbage },
    );
    expect(found).toEqual({
      node: null,
      cluster: null,
      operation: null,
      fetch__Node: null,
      fetch__Cluster: null,
      fetch__Operation: null,
      nodes: { edges: [] },
      operations: { edges: [] },
    });
  });

  test.each(GARBAGE)("a mutation of an invalid ID is refused with a typed error (%#)", async (garbage) => {
    const answer = await ostler.query<Record<string, { errors: { code: string }[] }>>(
      `mutation Garbage($id: ID!) {
        updateNodes(input: { nodes: { ids: [$id] }, name: "x" }) { errors { code } }
        deleteNodes(input: { nodes: { ids: [$id] } }) { errors { code } }
        deleteCluster(input: { cluster: { id: $id } }) { errors { code } }
        abort(input: { work: { operationId: $id } }) { errors { code } }
        stop(input: { work: { ids: [$id] } }) { errors { code } }
        restart(input: { work: { operationId: $id } }) { errors { code } }
        commissionNodes(input: { nodes: { ids: [$id] } }) { errors { code } }
      }`,
      { id: garbage },
    );
    for (const { errors } of Object.values(answer)) expect(errors).toMatchObject([{ code: "NOT_FOUND" }]);
  });

  test.each(["x", "-1", "1.5", "", "99999999999", "9".repeat(30), "1; drop table runs"])(
    "as a cursor is refused (%j)",
    async (cursor) => {
      const [name = ""] = await ostler.register(1);
      const uuid = await ostler.begin("manageNodes", [name]);
      await ostler.operationEnds(uuid);
      for (const list of [
        `operation(id: "${uuid}") { runs(after: $cursor) { edges { cursor } } }`,
        `operation(id: "${uuid}") { runs(before: $cursor) { edges { cursor } } }`,
        "operations(after: $cursor) { edges { cursor } }",
        "clusters(before: $cursor) { edges { cursor } }",
      ]) {
        const { errors } = await ostler.ask(`query Garbage($cursor: String) { ${list} }`, { cursor });
        expect(errors, list).toMatchObject([{ extensions: { code: "BAD_USER_INPUT" } }]);
      }
      if (/^\d{1,15}$/.test(cursor)) return;
      for (const list of [
        "transitions(after: $cursor) { edges { cursor } }",
        "transitions(last: 3, before: $cursor) { edges { cursor } }",
      ]) {
        expect((await ostler.ask(`query Garbage($cursor: String) { ${list} }`, { cursor })).errors, list).toMatchObject(
          [{ extensions: { code: "BAD_USER_INPUT" } }],
        );
      }
    },
  );

  test.each([
    { what: "a number for a name", text: "{ node(by: { name: 7 }) { name } }" },
    { what: "a UUID that is none", text: `{ node(by: { uuid: "x" }) { name } }` },
    { what: "two members of a choice", text: `{ node(by: { name: "a", id: "b" }) { name } }` },
    { what: "no member of a choice", text: "{ node(by: {}) { name } }" },
    { what: "null for a choice's member", text: "{ node(by: { name: null }) { name } }" },
    { what: "an unknown state", text: "{ nodes(filter: { states: [BROKEN] }) { totalCount } }" },
    { what: "an unknown field", text: "{ nodes { colour } }" },
    { what: "a page size that is not a number", text: `{ nodes(first: "many") { totalCount } }` },
    { what: "a number too large", text: "{ nodes(first: 99999999999) { totalCount } }" },
    { what: "no query", text: "" },
    { what: "half a query", text: "{ nodes {" },
    { what: "two operations and no name", text: "query A { viewer { subject } } query B { viewer { subject } }" },
  ])("as a document is refused with a code ($what)", async ({ text }) => {
    const answer = await ostler.ask(text);
    expect(answer.errors.length).toBeGreaterThan(0);
    for (const { extensions } of answer.errors)
      expect([
        "BAD_USER_INPUT",
        "GRAPHQL_VALIDATION_FAILED",
        "GRAPHQL_PARSE_FAILED",
        "BAD_REQUEST",
        "OPERATION_RESOLUTION_FAILURE",
      ]).toContain(extensions?.["code"]);
  });

  test.each(["a\u0000b", "a\ud800b"])(
    "that the database cannot hold is refused wherever it stands (%#)",
    async (text) => {
      const documents = [
        ["query Q($t: String!) { node(by: { name: $t }) { name } }", { t: text }],
        ["query Q($t: ID!) { node(by: { id: $t }) { name } }", { t: text }],
        ["query Q($t: String!) { nodes(filter: { or: [{ name: { contains: $t } }] }) { totalCount } }", { t: text }],
        [
          "query Q($t: String!) { clusters { edges { node { nodes(filter: { labels: [{ key: $t, value: $t }] }) { totalCount } } } } nodes(filter: { labels: [{ key: $t, value: $t }] }) { totalCount } }",
          { t: text },
        ],
        ["mutation M($t: String!) { manageNodes(input: { nodes: { names: [$t] } }) { errors { code } } }", { t: text }],
        [
          'mutation M($t: JSON!) { createCluster(input: { name: "odd", variables: $t }) { errors { code } } }',
          { t: { deep: [{ down: text }] } },
        ],
        [
          'mutation M($t: JSON!) { createCluster(input: { name: "odd", variables: $t }) { errors { code } } }',
          { t: { [text]: 1 } },
        ],
      ] as const;
      for (const [document, variables] of documents)
        expect((await ostler.ask(document, variables)).errors, document).toMatchObject([
          { extensions: { code: "BAD_USER_INPUT" } },
        ]);
    },
  );

  test("a deeply nested input is refused", async () => {
    const deep = JSON.parse(`${"[".repeat(500)}${"]".repeat(500)}`) as unknown;
    expect(
      (
        await ostler.ask(
          'mutation M($t: JSON!) { createCluster(input: { name: "deep", variables: { t: $t } }) { errors { code } } }',
          { t: deep },
        )
      ).errors,
    ).toMatchObject([
      {
        message: expect.stringContaining("At most 32 nested brackets") as string,
        extensions: { code: "LIMIT_EXCEEDED" },
      },
    ]);
  });

  test("no invalid input causes an unexpected error", () => {
    expect(
      ostler.logLines.filter((line) => line.includes("unexpected error") || line.includes("a request failed")),
    ).toEqual([]);
  });
});
