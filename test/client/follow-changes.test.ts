/** `followChanges` on a real server: one way to follow each stream of objects or answers. */
import { afterAll, afterEach, describe, expect, expectTypeOf, test } from "vitest";
import { connect, followChanges } from "../../packages/client/src/index.ts";
import type { ItemsView, ListPage, Store, TypedDocument, ValueView } from "../../packages/client/src/index.ts";
import { typed } from "../support/client-documents.ts";
import { cutter } from "../support/cutter.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());
const connection = connect({ url: `${ostler.url}/graphql`, firstPauseMs: 20 });

interface Named {
  readonly id: string;
  readonly name: string;
}

/** The types that a generator makes of a stream. */
type Changes<Field extends string, Row> = {
  readonly __typename?: "Subscription";
  readonly changes:
    | ({ readonly __typename: "Upserted"; readonly cursor: string } & Readonly<Record<Field, Row>>)
    | { readonly __typename: "Left"; readonly cursor: string; readonly id: string }
    | { readonly __typename: "StreamBookmark"; readonly cursor: string; readonly caughtUp: boolean };
};

function stream<Field extends string, Row, Variables>(
  field: Field,
  selection: string,
  { declared = "", args = "", leaves = true } = {},
): TypedDocument<Changes<Field, Row>, Variables & { readonly after: string | null; readonly snapshot: boolean }> {
  const type = `${field.charAt(0).toUpperCase()}${field.slice(1)}`;
  return typed(`subscription Changes(${declared} $after: String, $snapshot: Boolean!) {
    changes: ${field}Changes(${args} after: $after, snapshot: $snapshot) {
      __typename
      ... on ${type}Upserted { cursor ${field} { id ${selection} } }
      ${leaves ? `... on ${type}Left { cursor id }` : ""}
      ... on StreamBookmark { cursor snapshotComplete caughtUp }
      ... on StreamReset { cursor code }
    }
  }`);
}

const NODES = stream<"node", Named, { readonly filter?: object }>("node", "name", {
  declared: "$filter: NodeFilter",
  args: "filter: $filter",
});

const RUNS = stream<"run", { id: string; nodeName: string; state: string }, { operation: string }>(
  "run",
  "nodeName state",
  { declared: "$operation: ID!", args: "operation: $operation", leaves: false },
);

/** Follows until the test ends. */
const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});
function followed<View extends { readonly isLive: boolean }>(store: Store<View>) {
  const views: View[] = [];
  const end = store.subscribe(() => void views.push(store.getSnapshot()));
  ends.push(end);
  const when = (what: string, holds: (view: View) => boolean) =>
    eventually(what, () => holds(store.getSnapshot()) && store.getSnapshot());
  return { views, end, when, now: () => store.getSnapshot(), live: () => when("it is live", ({ isLive }) => isLive) };
}

describe("followed stream", () => {
  test("nodes, operations, runs, clusters, counts and what needs a person are followed in one way [R-796]", async () => {
    const [name = ""] = await ostler.register(1);
    const only = { filter: { name: { eq: name } } };
    const operation = await ostler.begin("manageNodes", [name]);
    await ostler.operationEnds(operation);
    await ostler.query(`mutation { createCluster(input: { name: "berlin" }) { errors { message } } }`);
    const nodes = followed(followChanges(connection, NODES, only));
    const operations = followed(
      followChanges(connection, stream<"operation", { id: string; state: string }, object>("operation", "state"), {}),
    );
    const runs = followed(followChanges(connection, RUNS, { operation }));
    const clusters = followed(followChanges(connection, stream<"cluster", Named, object>("cluster", "name"), {}));
    const counts = followed(
      followChanges(
        connection,
        typed<{ nodeCountChanges: { totalCount: number } }, typeof only>(
          "subscription Counts($filter: NodeFilter) { nodeCountChanges(by: [{ field: STATE }], filter: $filter) { totalCount } }",
        ),
        only,
      ),
    );
    const attention = followed(
      followChanges(
        connection,
        typed<{ attentionChanges: { nodeCount: number } }, typeof only>(
          "subscription Attention($filter: NodeFilter) { attentionChanges(filter: $filter) { nodeCount } }",
        ),
        only,
      ),
    );
    expectTypeOf<Awaited<ReturnType<typeof operations.live>>>().toEqualTypeOf<
      ItemsView<{ id: string; state: string }>
    >();
    expectTypeOf<Awaited<ReturnType<typeof counts.live>>>().toEqualTypeOf<ValueView<{ totalCount: number }>>();
    const rowsOf = async <Row>({ live }: { live(): Promise<ItemsView<Row>> }) => [...(await live()).items.values()];
    expect(await rowsOf(nodes)).toMatchObject([{ name }]);
    expect(await rowsOf(operations)).toMatchObject([{ state: "SUCCEEDED" }]);
    expect(await rowsOf(runs)).toMatchObject([{ nodeName: name }]);
    expect(await rowsOf(clusters)).toMatchObject([{ name: "berlin" }]);
    expect(await counts.live()).toEqual({ value: { totalCount: 1 }, isLive: true, error: null });
    expect(await attention.live()).toEqual({ value: { nodeCount: 0 }, isLive: true, error: null });
    await ostler.test
      .sql`update nodes set fault_kind = 'BMC_UNREACHABLE', fault_since = now(), fault_message = 'silent' where name = ${name}`;
    await attention.when("the fault is shown", ({ value }) => value?.nodeCount === 1);
  });

  test("an operation, its runs and counts are those of the service after a connection was lost during the work [R-796]", async () => {
    await using proxy = await cutter(ostler.url);
    const cuttable = connect({ url: `${proxy.url}/graphql`, firstPauseMs: 20 });
    const names = await ostler.register(3);
    const waves = { sizes: [{ count: 1 }, { percent: 100 }], manual: true };
    const id = await ostler.begin("manageNodes", names, { waves });
    const operation = followed(
      followChanges(
        cuttable,
        stream<"operation", { id: string; state: string }, { filter: object }>("operation", "state", {
          declared: "$filter: OperationFilter",
          args: "filter: $filter",
        }),
        { filter: { ids: [id] } },
      ),
    );
    const runs = followed(followChanges(cuttable, RUNS, { operation: id }));
    const counts = followed(
      followChanges(
        cuttable,
        typed<{ nodeCountChanges: { totalCount: number } }, { filter: object }>(
          "subscription Counts($filter: NodeFilter) { nodeCountChanges(by: [{ field: STATE }], filter: $filter) { totalCount } }",
        ),
        { filter: { name: { in: names }, states: ["MANAGEABLE"] } },
      ),
    );
    await Promise.all([operation.live(), runs.live(), counts.live()]);
    const statesOf = ({ items }: ItemsView<{ state: string }>) => [...items.values()].map(({ state }) => state);
    expect(statesOf(operation.now())).not.toEqual(["SUCCEEDED"]);
    const resume = proxy.stall();
    await eventually("the rest may begin", async () => {
      const { advanceWaves } = await ostler.query<{ advanceWaves: { errors: readonly object[] } }>(
        "mutation Advance($id: ID!) { advanceWaves(input: { operationId: $id }) { errors { message } } }",
        { id },
      );
      return advanceWaves.errors.length === 0;
    });
    await ostler.operationEnds(id);
    proxy.cut();
    resume();
    const all = (states: readonly string[], count: number) =>
      states.length === count && states.every((state) => state === "SUCCEEDED");
    await operation.when("the operation has ended", (view) => all(statesOf(view), 1));
    await runs.when("all runs have ended", (view) => all(statesOf(view), 3));
    await counts.when("all nodes are counted", ({ value }) => value?.totalCount === 3);
    await Promise.all([operation.live(), runs.live(), counts.live()]);
  });

  test("a view never changes, and a subscriber that comes back goes on without a snapshot", async () => {
    const [one = ""] = await ostler.register(1);
    const store = followChanges(connection, NODES, {});
    const first = followed(store);
    const before = await first.live();
    first.end();
    expect(store.getSnapshot()).toMatchObject({ isLive: false, isWhole: true, error: null });
    const [other = ""] = await ostler.register(1);
    const second = followed(store);
    // The new node may get its position after the stream has caught up.
    const after = await second.when("the other node is there", ({ items }) => items.size > before.items.size);
    const names = (view: ItemsView<Named>) => [...view.items.values()].map(({ name }) => name);
    expect([names(before).includes(one), names(before).includes(other)]).toEqual([true, false]);
    expect(names(after)).toEqual([...names(before), other]);
    // A snapshot would have led to a view that is not whole, or to nodes in another order.
    expect(second.views.every(({ isWhole }) => isWhole)).toBe(true);
  });

  test("pages of a list stand in place of the snapshot, and what changed meanwhile is there [R-796]", async () => {
    const names = await ostler.register(3);
    type Page = { asOf: string; nodes: Named[]; pageInfo: { hasNextPage: boolean; endCursor: string } };
    async function* pages(): AsyncGenerator<ListPage<Named>> {
      for (let after: string | null = null, more = true; more;) {
        const { nodes }: { nodes: Page } = await ostler.query<{ nodes: Page }>(
          "query Page($names: [String!]!, $after: String) { nodes(filter: { name: { in: $names } }, first: 2, after: $after) { asOf nodes { id name } pageInfo { hasNextPage endCursor } } }",
          { names: [...names, "renamed"], after },
        );
        if (after === null)
          await ostler.test.sql`update nodes set name = 'renamed' where name = ${nodes.nodes[0]?.name ?? ""}`;
        yield { rows: nodes.nodes, asOf: nodes.asOf };
        ({ hasNextPage: more, endCursor: after } = nodes.pageInfo);
      }
    }
    const filter = { name: { in: [...names, "renamed"] } };
    const { views, when } = followed(followChanges(connection, NODES, { filter }, { pages, throttleMs: 0 }));
    const view = await when("all is there", ({ isLive, isWhole }) => isLive && isWhole);
    expect([...view.items.values()].map(({ name }) => name).toSorted()).toEqual([...names.slice(1), "renamed"]);
    expect(views.find(({ isWhole }) => !isWhole)?.items.size).toBe(2);
  });

  test("that a stream is live is shown at once, also while other changes are held back", async () => {
    const [name = ""] = await ostler.register(1);
    const filter = { name: { eq: name } };
    async function* pages(): AsyncGenerator<ListPage<Named>> {
      const { nodes } = await ostler.query<{ nodes: { asOf: string; nodes: Named[] } }>(
        "query Page($filter: NodeFilter) { nodes(filter: $filter, first: 2) { asOf nodes { id name } } }",
        { filter },
      );
      yield { rows: nodes.nodes, asOf: nodes.asOf };
    }
    const { when } = followed(followChanges(connection, NODES, { filter }, { pages, throttleMs: 3_600_000 }));
    await when("the page is shown", ({ items }) => items.size === 1);
    await when("it is live", ({ isLive }) => isLive);
  });

  test("a stream that is refused has the error, its code, and no further attempts", async () => {
    const runs = stream<"run", { id: string }, { operation: string }>("run", "state", {
      declared: "$operation: ID!",
      args: "operation: $operation",
      leaves: false,
    });
    const { when } = followed(followChanges(connection, runs, { operation: "nowhere" }));
    const { error, isLive } = await when("there is an error", (view) => view.error !== null);
    expect([isLive, error]).toMatchObject([false, { name: "WatchError", code: "NOT_FOUND", closeCode: null }]);
  });

  test("a reset of a stream of values keeps the last one, which is not live", async () => {
    const sent: ((item: object) => void)[] = [];
    const scripted = {
      ...connection,
      client: {
        on: () => () => {},
        subscribe(_: unknown, { next }: { next(result: object): void }) {
          sent.push((item) => next({ data: { attentionChanges: item } }));
          return () => {};
        },
      },
    } as unknown as typeof connection;
    const document = typed<{ attentionChanges: { nodeCount: number } }, object>(
      "subscription A { attentionChanges { nodeCount } }",
    );
    const { live, when } = followed(followChanges(scripted, document, {}));
    await eventually("it is followed", () => sent.length === 1);
    sent[0]?.({ nodeCount: 1 });
    expect((await live()).value).toEqual({ nodeCount: 1 });
    sent[0]?.({ __typename: "StreamReset", code: "TOO_SLOW" });
    expect((await when("it is not live", ({ isLive }) => !isLive)).value).toEqual({ nodeCount: 1 });
  });

  test.each([
    {
      text: "subscription A { nodeChanges { ... on NodeUpserted { cursor node { id } } } }",
      says: "The document lacks $after, $snapshot, snapshotComplete, caughtUp, code.",
    },
    { text: "subscription A { nodeTransitions { __typename } }", says: "The document follows none of nodeChanges" },
  ])("a document that cannot be followed is refused: $text", ({ text, says }) => {
    expect(() => followChanges(connection, typed<Changes<"node", Named>, object>(text), {})).toThrow(says);
  });
});
