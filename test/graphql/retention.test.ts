/**
 * Cursors older than the oldest kept transition: streams and lists refuse them alike and return a cursor to continue
 * from.
 */
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
  edges.map(({ cursor }) => Number.parseInt(cursor, 10));
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

describe("log whose first ten transitions were deleted", () => {
  test.each([
    { after: "0", last: null },
    { after: "9", last: null },
    { after: "9", last: 3 },
    { after: "21", last: null },
    { after: "999999", last: null },
  ])(
    "a list of transitions after the expired cursor $after (last: $last) is refused with the first valid cursor",
    async (variables) => {
      const { errors } = await ostler.ask(LIST, variables);
      expect(errors).toMatchObject([{ path: ["transitions"], extensions: { code: "CURSOR_EXPIRED", cursor: "10" } }]);
    },
  );

  test.each([
    { after: null, expected: kept },
    { after: "10", expected: kept },
    { after: "15", expected: kept.slice(5) },
    { after: "20", expected: [] },
  ])("a list of transitions after $after has every kept transition after the cursor", async ({ after, expected }) => {
    const { transitions } = await ostler.query<{ transitions: { edges: { cursor: string }[] } }>(LIST, { after });
    expect(cursors(transitions)).toEqual(expected);
  });

  test("Node.transitions of a truncated log has the remaining rows, and transitionCount the total", async () => {
    expect(await ostler.query(OF_NODE, { name: first })).toEqual({
      node: { transitionCount: 1, transitions: { edges: [] } },
    });
  });

  test.each(["overSocket", "overEvents"] as const)(
    "a stream %s with an expired cursor ends with CURSOR_EXPIRED, and resumes from the returned cursor or a snapshot [R-121]",
    async (way) => {
      const expired = await ostler[way]<Item>(STREAM, { after: "9" }).next();
      expect(expired.value).toEqual({ nodeTransitions: { type: "StreamReset", cursor: "10", code: "CURSOR_EXPIRED" } });
      const again = ostler[way]<Item>(STREAM, { after: "10" });
      const resumed = await takeUntil(again, ({ nodeTransitions }) => nodeTransitions.caughtUp === true);
      expect(
        resumed.flatMap(({ nodeTransitions }) =>
          nodeTransitions.type === "Transition" ? [Number.parseInt(nodeTransitions.cursor ?? "", 10)] : [],
        ),
      ).toEqual(kept);
      await again.return?.();
      const restarted = ostler[way]<Item>(STREAM, { snapshot: true });
      const snapshot = await takeUntil(restarted, ({ nodeTransitions }) => nodeTransitions.snapshotComplete === true);
      expect(snapshot.filter(({ nodeTransitions }) => nodeTransitions.type === "NodeSnapshot")).toHaveLength(20);
      await restarted.return?.();
    },
  );
});
