/** What a client meets whose cursor is older than what is kept: the same by a stream and by a list, and a way on. */
import { afterAll, describe, expect, test } from "vitest";
import { serviceUnderTest, takeUntil } from "../support/service.ts";

const ostler = await serviceUnderTest({ started: false });
afterAll(() => ostler[Symbol.asyncDispose]());
const [first = ""] = await ostler.register(20);
await ostler.test.sql`delete from transitions where position <= 10`;

const LIST =
  "query Log($after: String, $last: Int, $first: Int) { transitions(after: $after, first: $first, last: $last) { edges { cursor } } }";
const OF_NODE =
  "query History($name: String!) { node(by: { name: $name }) { transitionCount transitions { edges { cursor } } } }";
const STREAM =
  "subscription Log($after: String, $snapshot: Boolean! = false) { nodeTransitions(after: $after, snapshot: $snapshot) { type: __typename ... on Transition { cursor } ... on StreamReset { cursor code } ... on StreamBookmark { caughtUp snapshotComplete } } }";

const cursors = ({ edges }: { readonly edges: readonly { readonly cursor: string }[] }) =>
  edges.map(({ cursor }) => Number(cursor));
const kept = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20];

interface Item {
  readonly nodeTransitions: {
    readonly type: string;
    readonly cursor?: string;
    readonly code?: string;
    readonly caughtUp?: boolean;
    readonly snapshotComplete?: boolean;
  };
}

describe("of a log whose first ten transitions were deleted", () => {
  test.each([
    { after: "0", last: null },
    { after: "9", last: null },
    { after: "9", last: 3 },
    { after: "21", last: null },
    { after: "999999", last: null },
  ])("a list after $after (last: $last) is refused, and told where it may begin", async (variables) => {
    const { errors } = await ostler.ask(LIST, variables);
    expect(errors).toMatchObject([{ path: ["transitions"], extensions: { code: "CURSOR_EXPIRED", cursor: "10" } }]);
  });

  test.each([
    { after: null, expected: kept },
    { after: "10", expected: kept },
    { after: "15", expected: kept.slice(5) },
    { after: "20", expected: [] },
  ])("a list after $after is whole", async ({ after, expected }) => {
    const { transitions } = await ostler.query<{ transitions: { edges: { cursor: string }[] } }>(LIST, { after });
    expect(cursors(transitions)).toEqual(expected);
  });

  test("Node.transitions of a truncated log has the remaining rows, and transitionCount the total", async () => {
    expect(await ostler.query(OF_NODE, { name: first })).toEqual({
      node: { transitionCount: 1, transitions: { edges: [] } },
    });
  });

  test.each(["overSocket", "overEvents"] as const)(
    "a stream %s ends with the same, and goes on from the cursor that it names, or from a snapshot [R-121]",
    async (way) => {
      const expired = await ostler[way]<Item>(STREAM, { after: "9" }).next();
      expect(expired.value).toEqual({ nodeTransitions: { type: "StreamReset", cursor: "10", code: "CURSOR_EXPIRED" } });
      const again = ostler[way]<Item>(STREAM, { after: "10" });
      const told = await takeUntil(again, ({ nodeTransitions }) => nodeTransitions.caughtUp === true);
      expect(
        told.flatMap(({ nodeTransitions }) =>
          nodeTransitions.type === "Transition" ? [Number(nodeTransitions.cursor)] : [],
        ),
      ).toEqual(kept);
      await again.return?.();
      const anew = ostler[way]<Item>(STREAM, { snapshot: true });
      const snapshot = await takeUntil(anew, ({ nodeTransitions }) => nodeTransitions.snapshotComplete === true);
      expect(snapshot.filter(({ nodeTransitions }) => nodeTransitions.type === "NodeSnapshot")).toHaveLength(20);
      await anew.return?.();
    },
  );
});
