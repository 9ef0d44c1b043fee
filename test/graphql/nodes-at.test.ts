/** The query `nodesAt`, compared with replaying the log. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

interface Past {
  readonly time: string;
  readonly cursor: string;
  readonly stateCounts: readonly { readonly state: string; readonly count: number }[];
  readonly nodes: {
    readonly totalCount: number;
    readonly nodes: readonly {
      readonly uuid: string;
      readonly name: string;
      readonly state: string;
      readonly until: string | null;
      readonly node: { readonly state: string } | null;
    }[];
    readonly pageInfo: {
      readonly endCursor: string | null;
      readonly startCursor: string | null;
      readonly hasNextPage: boolean;
    };
  };
}

const QUERY = `query At($time: DateTime!, $filter: NodeFilter, $first: Int, $after: String, $last: Int, $before: String) {
  nodesAt(time: $time, filter: $filter) {
    time cursor stateCounts { state count }
    nodes(first: $first, after: $after, last: $last, before: $before) {
      totalCount nodes { uuid name state until node { state } } pageInfo { endCursor startCursor hasNextPage }
    }
  }
}`;
const at = async (time: string, more: object = {}): Promise<Past> =>
  (await ostler.query<{ nodesAt: Past }>(QUERY, { time, ...more })).nodesAt;
const refusal = async (time: string, more: object = {}) => (await ostler.ask(QUERY, { time, ...more })).errors[0];

interface Logged {
  readonly nodeUuid: string;
  readonly to: string | null;
  readonly at: string;
}
const logAfter = async (after?: string): Promise<readonly Logged[]> =>
  (
    await ostler.query<{ transitions: { nodes: Logged[] } }>(
      "query Log($after: String) { transitions(first: 500, after: $after) { nodes { nodeUuid to at } } }",
      { after },
    )
  ).transitions.nodes;

/** The states after transitions, by node. */
function replayed(log: readonly Logged[], from: ReadonlyMap<string, string> = new Map()): Map<string, string> {
  const states = new Map(from);
  for (const { nodeUuid, to } of log) {
    if (to === null) states.delete(nodeUuid);
    else states.set(nodeUuid, to);
  }
  return states;
}
const statesOf = ({ nodes: { nodes } }: Past) => new Map(nodes.map(({ uuid, state }) => [uuid, state]));
const now = async () =>
  (await ostler.test.sql<{ now: Date }[]>`select clock_timestamp() as now`)[0]?.now.toISOString() ?? "";

const DAY_MS = 86_400_000;
const moments: string[] = [];
let names: string[] = [];
let log: readonly Logged[] = [];

/** Nodes are commissioned, deleted, registered again and left alone; `moments` are between. */
beforeAll(async () => {
  names = await ostler.register(6);
  moments.push(await now());
  await ostler.commission(names.slice(0, 3), "AVAILABLE");
  moments.push(await now());
  const { deleteNodes } = await ostler.query<{ deleteNodes: { errors: unknown[] } }>(
    "mutation Delete($names: [String!]) { deleteNodes(input: { nodes: { names: $names } }) { errors { message } } }",
    { names: [names[0], names[5]] },
  );
  if (deleteNodes.errors.length > 0) throw new Error(JSON.stringify(deleteNodes.errors));
  await ostler.register([names[5] ?? ""]);
  moments.push(await now());
  await ostler.commission(names.slice(3, 5), "ACTIVE");
  moments.push(await now());
  log = await logAfter();
});

describe("nodesAt", () => {
  test("the states at the time of each transition equal those of a replay of the log before it [R-638]", async () => {
    for (const time of new Set([...log.map((one) => one.at), ...moments])) {
      const past = await at(time, { first: 1000 });
      const expected = replayed(log.filter((one) => Date.parse(one.at) < Date.parse(time)));
      expect(statesOf(past), time).toEqual(expected);
      expect(past.nodes.totalCount).toBe(expected.size);
      expect(past.stateCounts).toEqual(
        [...Map.groupBy(expected.values(), (state) => state)]
          .map(([state, { length }]) => ({ state, count: length }))
          .toSorted((a, b) => (a.state < b.state ? -1 : 1)),
      );
    }
  });

  test("from the cursor of a time, the log brings its states up to the present [R-639]", async () => {
    const present = replayed(log);
    for (const time of moments) {
      const past = await at(time, { first: 1000 });
      expect(replayed(await logAfter(past.cursor), statesOf(past))).toEqual(present);
    }
  });

  test("a node deleted since is shown with its name then, and one registered later is not [R-638]", async () => {
    const past = await at(moments[1] ?? "", { first: 1000 });
    expect(past.nodes.nodes.map(({ name }) => name)).toEqual(names);
    expect(past.nodes.nodes.map(({ node }) => node === null)).toEqual([true, false, false, false, false, true]);
    expect(past.nodes.nodes[3]?.until).not.toBeNull();
    expect(past.nodes.nodes[2]).toMatchObject({ until: null, state: "AVAILABLE", node: { state: "AVAILABLE" } });
  });

  test("the filter by state is that of the time; other conditions are those of now, without deleted nodes [R-638]", async () => {
    const enrolled = await at(moments[0] ?? "", { filter: { states: ["ENROLLED"] } });
    expect(enrolled.nodes.nodes.map(({ name }) => name)).toEqual(names);
    const named = { name: { in: names.slice(0, 4) } };
    const some = await at(moments[1] ?? "", { filter: { ...named, states: ["AVAILABLE"] } });
    expect(some.nodes.nodes.map(({ name }) => name)).toEqual(names.slice(1, 3));
    expect(some.stateCounts).toEqual([{ state: "AVAILABLE", count: 2 }]);
    expect((await at(moments[1] ?? "", { filter: { states: [] } })).nodes.totalCount).toBe(0);
  });

  test("pages are by name, forward and backward, and complete", async () => {
    const time = moments[1] ?? "";
    const first = await at(time, { first: 4 });
    const rest = await at(time, { first: 4, after: first.nodes.pageInfo.endCursor });
    expect([first, rest].flatMap(({ nodes }) => nodes.nodes.map(({ name }) => name))).toEqual(names);
    expect([first, rest].map(({ nodes }) => nodes.pageInfo.hasNextPage)).toEqual([true, false]);
    const back = await at(time, { last: 3, before: rest.nodes.pageInfo.startCursor });
    expect(back.nodes.nodes.map(({ name }) => name)).toEqual(names.slice(1, 4));
  });

  test("before the first transition, nothing exists", async () => {
    expect(await at("2020-01-01T00:00:00Z")).toMatchObject({ cursor: "0", stateCounts: [], nodes: { totalCount: 0 } });
  });

  test("a time in the future is refused, with the present one [R-640]", async () => {
    const error = await refusal("2999-01-01T00:00:00Z");
    expect(error).toMatchObject({
      message: expect.stringMatching(/is in the future/),
      extensions: { code: "BAD_USER_INPUT", now: expect.stringMatching(/^20/) },
    });
  });

  test.each([{ or: [{ states: ["ACTIVE"] }] }, { not: { states: ["ACTIVE"] } }, { not: { or: [{ states: [] }] } }])(
    "a condition on states further in is refused: %j",
    async (filter) => {
      expect(await refusal(moments[0] ?? "", { filter })).toMatchObject({ extensions: { code: "BAD_USER_INPUT" } });
    },
  );

  // Deletes transitions: the last test.
  test("a time before the log that is kept is refused with the earliest one, which is accepted [R-640]", async () => {
    const [cut] = await ostler.test.sql<{ position: number }[]>`
      delete from transitions where position <= (select max(position) / 2 from transitions) returning position`;
    expect(cut).toBeDefined();
    const error = await refusal(moments[0] ?? "");
    expect(error).toMatchObject({ extensions: { code: "CURSOR_EXPIRED", earliest: expect.any(String) } });
    const earliest = String(error?.extensions?.["earliest"]);
    const past = await at(earliest, { first: 1000 });
    expect(statesOf(past)).toEqual(replayed(log.filter((one) => Date.parse(one.at) < Date.parse(earliest))));
    await ostler.test.sql`delete from transitions`;
    const longAgo = await refusal(new Date(Date.now() - 2 * DAY_MS).toISOString());
    expect(longAgo).toMatchObject({ extensions: { code: "CURSOR_EXPIRED" } });
    expect(Math.abs(Date.parse(String(longAgo?.extensions?.["earliest"])) - Date.now() + DAY_MS)).toBeLessThan(
      DAY_MS / 24,
    );
    expect(statesOf(await at(await now(), { first: 1000 }))).toEqual(replayed(log));
  });
});
