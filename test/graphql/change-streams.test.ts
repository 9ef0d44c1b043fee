/** Streams of operations, runs and clusters over the wire: their items, their arguments and what they refuse. */
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { LIMITS } from "../../src/graphql/base/request-limits.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const OPERATION_CHANGES = `subscription Changes($filter: OperationFilter, $after: String, $snapshot: Boolean! = false) {
  operationChanges(filter: $filter, after: $after, snapshot: $snapshot) {
    type: __typename
    ... on OperationUpserted { cursor at changed operation { id kind state totalCount finishedCount runCounts { state count } } }
    ... on OperationLeft { cursor at id uuid }
    ... on StreamBookmark { cursor at caughtUp snapshotComplete }
    ... on StreamReset { cursor code }
  }
}`;

interface Item {
  readonly operationChanges: {
    readonly type: string;
    readonly cursor: string;
    readonly changed?: readonly string[] | null;
    readonly caughtUp?: boolean;
    readonly code?: string;
    readonly operation?: { readonly id: string; readonly state: string; readonly finishedCount: number };
  };
}

const isCaughtUp = ({ operationChanges: item }: Item) => item.caughtUp === true;
const isEnd = ({ operationChanges: { operation } }: Item) => operation?.state === "SUCCEEDED";

describe("operationChanges", () => {
  test.each(["overSocket", "overEvents"] as const)(
    "operationChanges %s emits an operation of another client from its beginning to its end, and resumes after a cursor [R-620]",
    async (way) => {
      const names = await ostler.register(2);
      const stream = ostler[way]<Item>(OPERATION_CHANGES, {});
      const { cursor } = (await takeUntil(stream, isCaughtUp)).at(-1)?.operationChanges ?? { cursor: "" };
      await ostler.commission(names, "AVAILABLE");
      const items = await takeUntil(stream, isEnd);
      await stream.return?.();
      const [first, ...rest] = items.flatMap(({ operationChanges: item }) =>
        item.type === "OperationUpserted" ? item : [],
      );
      expect(first).toMatchObject({ type: "OperationUpserted", changed: null, operation: { kind: "COMMISSION" } });
      expect(items.at(-1)?.operationChanges).toMatchObject({ operation: { totalCount: 2, finishedCount: 2 } });
      expect(rest.map(({ changed }) => changed)).not.toContain(null);
      const resumed = ostler[way]<Item>(OPERATION_CHANGES, { after: cursor });
      const again = await takeUntil(resumed, isCaughtUp);
      await resumed.return?.();
      expect(again.at(-2)?.operationChanges).toMatchObject({ operation: { state: "SUCCEEDED", finishedCount: 2 } });
    },
  );

  test("operationChanges emits that an operation left a filter by states, with a snapshot before [R-621]", async () => {
    const names = await ostler.register(1);
    await ostler.commission(names, "AVAILABLE");
    const stream = ostler.overSocket<Item>(OPERATION_CHANGES, {
      filter: { states: ["QUEUED", "RUNNING"], node: { name: names[0] } },
      snapshot: true,
    });
    expect((await takeUntil(stream, isCaughtUp)).map(({ operationChanges: { type } }) => type)).toEqual([
      "StreamBookmark",
      "StreamBookmark",
    ]);
    const answer = await ostler.query<{ cleanNodes: { operation: { id: string } } }>(
      `mutation Clean($input: CleanNodesInput!) { cleanNodes(input: $input) { operation { id } } }`,
      { input: { nodes: { names } } },
    );
    const items = await takeUntil(stream, ({ operationChanges: { type } }) => type === "OperationLeft");
    await stream.return?.();
    expect(items.at(-1)?.operationChanges).toMatchObject({ id: answer.cleanNodes.operation.id });
  });

  test.each([
    ["a cursor of transitions", { after: "284-mf3k2a9x" }, "is a cursor of transitions"],
    ["a text of another form", { after: "x" }, "is not a cursor of a stream"],
    ["a cursor and a snapshot", { after: "c1-mf3k2a9x", snapshot: true }, "not both"],
    ["an unknown node", { filter: { node: { name: "no-such" } } }, 'Node "no-such" does not exist'],
    ["an unknown cluster", { filter: { cluster: { name: "no-such" } } }, 'Cluster "no-such" does not exist'],
    ["a filter that is too long", { filter: { ids: Array.from({ length: 2_000 }, () => randomUUID()) } }, "filter"],
  ])("operationChanges with %s is refused [R-622]", async (_what, variables, message) => {
    await expect(ostler.overSocket<Item>(OPERATION_CHANGES, variables).next()).rejects.toThrow(message);
  });

  test("operationChanges with a snapshot of more operations than the limit is refused, and a filter helps [R-622]", async () => {
    const limits: { snapshot: number } = LIMITS;
    const { snapshot } = limits;
    const names = await ostler.register(2);
    const [first = ""] = await Promise.all(names.map((name) => ostler.begin("manageNodes", [name])));
    const begin = (filter: object) => ostler.overSocket<Item>(OPERATION_CHANGES, { snapshot: true, filter });
    try {
      limits.snapshot = 1;
      await expect(begin({}).next()).rejects.toThrow(
        /LIMIT_EXCEEDED: At most 1 operations in a snapshot are allowed\. Filter by/,
      );
      const stream = begin({ ids: [first] });
      expect((await stream.next()).value).toMatchObject({ operationChanges: { type: "OperationUpserted" } });
      await stream.return?.();
    } finally {
      limits.snapshot = snapshot;
    }
  });

  test("operationChanges after a cursor of the future ends with CURSOR_EXPIRED, over the wire too [R-622]", async () => {
    const { value } = (await ostler.overSocket<Item>(OPERATION_CHANGES, { after: "c999999999-mf3k2a9x" }).next()) as {
      value: Item;
    };
    expect(value.operationChanges).toMatchObject({ type: "StreamReset", code: "CURSOR_EXPIRED" });
  });

  test("operationChanges with ids and clusters that match nothing emits bookmarks only [R-621]", async () => {
    const filter = { ids: [randomUUID()], cluster: { id: randomUUID() } };
    const stream = ostler.overSocket<Item>(OPERATION_CHANGES, { filter, snapshot: true });
    const items = await takeUntil(stream, isCaughtUp);
    await stream.return?.();
    expect(items.map(({ operationChanges: { type } }) => type)).toEqual(["StreamBookmark", "StreamBookmark"]);
  });
});

const RUN_CHANGES = `subscription Changes($operation: ID, $node: NodeRef, $after: String, $snapshot: Boolean! = false) {
  items: runChanges(operation: $operation, node: $node, after: $after, snapshot: $snapshot) {
    type: __typename
    ... on RunUpserted { cursor at changed run { id nodeName state progress currentStep { name } } }
    ... on StreamBookmark { cursor caughtUp }
    ... on StreamReset { cursor code }
  }
}`;
const CLUSTER_CHANGES = `subscription Changes($filter: ClusterFilter, $after: String, $snapshot: Boolean! = false) {
  items: clusterChanges(filter: $filter, after: $after, snapshot: $snapshot) {
    type: __typename
    ... on ClusterUpserted { cursor at changed cluster { id name state revision nodeCounts { state count } } }
    ... on ClusterLeft { cursor at id name deleted }
    ... on StreamBookmark { cursor caughtUp }
    ... on StreamReset { cursor code }
  }
}`;

interface AnyItem {
  readonly items: {
    readonly type: string;
    readonly changed?: readonly string[] | null;
    readonly caughtUp?: boolean;
    readonly code?: string;
    readonly run?: { readonly nodeName: string; readonly state: string };
    readonly cluster?: { readonly name: string; readonly nodeCounts: readonly { state: string; count: number }[] };
  };
}

const hasCaughtUp = ({ items }: AnyItem) => items.caughtUp === true;

describe("runChanges", () => {
  test("runChanges emits the runs of an operation to their ends, and those of a node after a break [R-625]", async () => {
    const names = await ostler.register(2);
    const node = { name: names[0] };
    const stream = ostler.overSocket<AnyItem>(RUN_CHANGES, { node });
    await takeUntil(stream, hasCaughtUp);
    const operation = await ostler.begin("commissionNodes", names);
    const ofOperation = ostler.overSocket<AnyItem>(RUN_CHANGES, { operation, snapshot: true });
    const ended = new Set<string>();
    await takeUntil(ofOperation, ({ items: { run } }) => {
      if (run?.state === "SUCCEEDED") ended.add(run.nodeName);
      return ended.size === 2;
    });
    await ofOperation.return?.();
    const seen = await takeUntil(stream, ({ items: { run } }) => run !== undefined && run.state !== "QUEUED");
    await stream.return?.();
    expect(new Set(seen.map(({ items: { run } }) => run?.nodeName))).toEqual(new Set([names[0]]));
  });

  test.each([
    ["neither an operation nor a node", {}, "Give either `operation` or `node`"],
    ["an operation and a node", { operation: randomUUID(), node: { name: "x" } }, "Give either `operation` or `node`"],
    ["an unknown operation", { operation: randomUUID() }, "does not exist"],
    ["an unknown node", { node: { name: "no-such" } }, 'Node "no-such" does not exist'],
    ["an unknown node by ID", { node: { id: randomUUID() } }, "does not exist"],
  ])("runChanges with %s is refused [R-627]", async (_what, variables, message) => {
    await expect(ostler.overSocket<AnyItem>(RUN_CHANGES, variables).next()).rejects.toThrow(message);
  });

  test("runChanges after a cursor of transitions is refused [R-627]", async () => {
    const [name] = await ostler.register(1);
    const variables = { node: { name }, after: "284-mf3k2a9x" };
    await expect(ostler.overSocket<AnyItem>(RUN_CHANGES, variables).next()).rejects.toThrow("cursor of transitions");
  });
});

describe("clusterChanges", () => {
  test("clusterChanges emits a cluster as its nodes change, and that it was deleted [R-628]", async () => {
    const name = `c-${randomUUID()}`;
    const names = await ostler.register(1);
    const filter = { name: { startsWith: name } };
    const stream = ostler.overSocket<AnyItem>(CLUSTER_CHANGES, { filter, snapshot: true });
    await takeUntil(stream, hasCaughtUp);
    await ostler.query(
      `mutation Make($input: CreateClusterInput!) { createCluster(input: $input) { errors { message } } }`,
      { input: { name, nodes: { names } } },
    );
    await ostler.commission(names, "AVAILABLE");
    const items = await takeUntil(
      stream,
      ({ items: { cluster } }) => cluster?.nodeCounts.some(({ state }) => state === "AVAILABLE") === true,
    );
    expect(items.at(-1)?.items.cluster).toMatchObject({ name, nodeCounts: [{ state: "AVAILABLE", count: 1 }] });
    await ostler.query(`mutation { deleteCluster(input: { cluster: { name: "${name}" } }) { errors { message } } }`);
    const left = await takeUntil(stream, ({ items: { type } }) => type === "ClusterLeft");
    await stream.return?.();
    expect(left.at(-1)?.items).toMatchObject({ name, deleted: true });
  });

  test("clusterChanges with a filter that matches nothing emits bookmarks only [R-629]", async () => {
    const stream = ostler.overSocket<AnyItem>(CLUSTER_CHANGES, { filter: { ids: [] }, snapshot: true });
    const items = await takeUntil(stream, hasCaughtUp);
    await stream.return?.();
    expect(new Set(items.map(({ items: { type } }) => type))).toEqual(new Set(["StreamBookmark"]));
  });

  test.each([
    ["a cursor of transitions", { after: "284-mf3k2a9x" }, "is a cursor of transitions"],
    ["a cursor and a snapshot", { after: "c1-mf3k2a9x", snapshot: true }, "not both"],
  ])("clusterChanges with %s is refused [R-630]", async (_what, variables, message) => {
    await expect(ostler.overSocket<AnyItem>(CLUSTER_CHANGES, variables).next()).rejects.toThrow(message);
  });
});
