/** `nodeChanges` over WebSocket and server-sent events: its items, its arguments and what they refuse. */
import { afterAll, describe, expect, test } from "vitest";
import { serviceUnderTest, takeUntil } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const NODE_CHANGES = `subscription Changes($filter: NodeFilter, $after: String, $snapshot: Boolean! = false) {
  nodeChanges(filter: $filter, after: $after, snapshot: $snapshot) {
    type: __typename
    ... on NodeUpserted { cursor at changed node { id name description labels { key value } currentRun { state } } }
    ... on NodeLeft { cursor at id uuid name deleted }
    ... on StreamBookmark { cursor at caughtUp snapshotComplete }
    ... on StreamReset { cursor code }
  }
}`;

interface Item {
  readonly nodeChanges: {
    readonly type: string;
    readonly cursor: string;
    readonly changed?: readonly string[] | null;
    readonly name?: string;
    readonly deleted?: boolean;
    readonly caughtUp?: boolean;
    readonly node?: { readonly name: string; readonly description: string };
  };
}

const isCaughtUp = ({ nodeChanges: item }: Item) => item.caughtUp === true;
const edit = (name: string, input: object) =>
  ostler.query(`mutation Edit($input: UpdateNodesInput!) { updateNodes(input: $input) { errors { message } } }`, {
    input: { nodes: { names: [name] }, ...input },
  });

describe("nodeChanges", () => {
  test.each(["overSocket", "overEvents"] as const)(
    "nodeChanges %s emits a snapshot, then changes, then that a node left, and resumes after a cursor [R-540]",
    async (way) => {
      const label = { key: "way", value: way };
      const [name = ""] = await ostler.register(1);
      await edit(name, { labels: [label] });
      // Otherwise this change and the next one can be one item, in which the node is new.
      await ostler.test.sql`select number_changes(1000)`;
      const filter = { labels: [label] };
      const stream = ostler[way]<Item>(NODE_CHANGES, { filter, snapshot: true });
      const first = await takeUntil(stream, isCaughtUp);
      expect(first[0]?.nodeChanges).toMatchObject({ type: "NodeUpserted", changed: null, node: { name } });
      await edit(name, { description: "third from the top" });
      const changed = await takeUntil(
        stream,
        ({ nodeChanges: { node } }) => node?.description === "third from the top",
      );
      const { cursor } = changed.at(-1)?.nodeChanges ?? { cursor: "" };
      expect(cursor).toMatch(/^c\d+-\w+$/);
      expect(changed.at(-1)?.nodeChanges.changed).toContain("DESCRIPTION");
      await stream.return?.();
      await edit(name, { labels: [] });
      const resumed = ostler[way]<Item>(NODE_CHANGES, { filter, after: cursor });
      const items = await takeUntil(resumed, ({ nodeChanges: { type } }) => type === "NodeLeft");
      await resumed.return?.();
      expect(items.at(-1)?.nodeChanges).toMatchObject({ name, deleted: false });
    },
  );

  test("nodeChanges emits the run of a node as it begins and ends [R-538]", async () => {
    const names = await ostler.register(1);
    const stream = ostler.overSocket<Item>(NODE_CHANGES, { filter: { name: { in: names } } });
    await takeUntil(stream, isCaughtUp);
    await ostler.commission(names, "AVAILABLE");
    await edit(names[0] ?? "", { description: "ready" });
    const items = await takeUntil(stream, ({ nodeChanges: { node } }) => node?.description === "ready");
    await stream.return?.();
    expect(items.flatMap(({ nodeChanges: { changed } }) => changed ?? [])).toEqual(
      expect.arrayContaining(["STATE", "CURRENT_RUN", "INVENTORY"]),
    );
  });

  test.each([
    ["a cursor of transitions", { after: "284-mf3k2a9x" }, "is a cursor of transitions"],
    ["a text of another form", { after: "x" }, "is not a cursor of a stream"],
    ["a cursor and a snapshot", { after: "c1-mf3k2a9x", snapshot: true }, "not both"],
    ["a filter by inventory", { filter: { serial: "x" } }, "cannot filter by `serial`"],
  ])("nodeChanges with %s is refused [R-541]", async (_what, variables, message) => {
    await expect(ostler.overSocket<Item>(NODE_CHANGES, variables).next()).rejects.toThrow(message);
  });

  test("nodeChanges with a hundred filters on one socket sends each stream its nodes, and refuses one more [R-692]", async () => {
    const names = await ostler.register(3);
    const [changed = "", first = "", last = ""] = names;
    // Otherwise the streams begin with the registrations, which have no position yet.
    await ostler.test.sql`select number_changes(100000)`;
    const client = ostler.client();
    const late = { key: "hundred", value: "filters" };
    const filters = [
      undefined,
      { labels: [late] },
      { name: { in: [first, last] } },
      ...Array.from({ length: 97 }, (_, index) => ({ name: { in: [changed, `absent-${index}`] } })),
    ];
    const open = (filter: object | undefined) =>
      client.iterate<Item>({ query: NODE_CHANGES, variables: { filter, snapshot: false } });
    type Stream = ReturnType<typeof open>;
    const streams = filters.map(open);
    const next = async (stream: Stream) => (await stream.next()).value?.data?.nodeChanges;
    const marks = await Promise.all(streams.map(next));
    expect(marks.map((item) => item?.caughtUp)).toEqual(filters.map(() => true));
    await expect(open(undefined).next()).rejects.toMatchObject([{ extensions: { code: "CAPACITY" } }]);
    for (const name of [first, changed, last]) await edit(name, { description: "follows a hundred filters" });
    const [ofAll, ofLate, ofTwo, ...ofChanged] = streams as [Stream, Stream, Stream, ...Stream[]];
    // The streams that it matches have the earlier change before the node matches one more.
    const items = await Promise.all([ofAll, ofTwo, ...ofChanged].map(next));
    expect(items.map((item) => item?.node?.name)).toEqual([first, first, ...ofChanged.map(() => changed)]);
    await edit(changed, { labels: [late] });
    expect(await next(ofLate)).toMatchObject({ node: { name: changed }, changed: null });
    expect((await next(ofTwo))?.node?.name).toBe(last);
    await client.dispose();
  });

  test.each(["overSocket", "overEvents"] as const)(
    "nodeChanges %s after a cursor of the future or of a restored database ends with CURSOR_EXPIRED and the earliest cursor [R-541]",
    async (way) => {
      await ostler.register(1);
      const stream = ostler[way]<Item>(NODE_CHANGES);
      const { cursor } = (await takeUntil(stream, isCaughtUp)).at(-1)?.nodeChanges ?? { cursor: "" };
      await stream.return?.();
      const restored = cursor.replace(/-.*/, "-mf3k2a9x");
      expect(restored).not.toBe(cursor);
      for (const after of ["c999999999-mf3k2a9x", restored]) {
        const { value } = (await ostler[way]<Item>(NODE_CHANGES, { after }).next()) as { value: Item };
        expect(value.nodeChanges).toEqual({ type: "StreamReset", cursor: "c0", code: "CURSOR_EXPIRED" });
      }
    },
  );

  test("nodeTransitions with a cursor of changes is refused [R-541]", async () => {
    const text = `subscription { nodeTransitions(after: "c1-mf3k2a9x") { __typename } }`;
    await expect(ostler.overSocket(text).next()).rejects.toThrow("is a cursor of a stream of changes");
  });
});
