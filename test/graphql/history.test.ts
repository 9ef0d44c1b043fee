/** The history of a fleet by time and actor: `cursorAt` and the filters of transitions and operations. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

interface Log {
  readonly transitions: {
    readonly totalCount: number;
    readonly nodes: readonly { readonly nodeName: string; readonly event: string; readonly cursor: string }[];
  };
}

const LOG = `query Log($where: TransitionFilter, $filter: NodeFilter, $after: String, $last: Int) {
  transitions(where: $where, filter: $filter, after: $after, last: $last) { totalCount nodes { nodeName event cursor at } }
}`;
const CURSOR = "query At($time: DateTime!) { cursorAt(time: $time) }";
const OPERATIONS =
  "query Operations($filter: OperationFilter) { operations(filter: $filter) { totalCount nodes { uuid } } }";

let operation = "";
const time = (second: number) => `2026-01-31T09:30:0${second}.000Z`;

beforeAll(async () => {
  await ostler.register(["a", "b", "c"]);
  operation = await ostler.begin("manageNodes", ["a"], { reason: "Broken FAN in rack 7" });
  await ostler.operationEnds(operation);
  await ostler.test.sql.begin(async (tx) => {
    // Disables the trigger that keeps the log as it is.
    await tx`set local session_replication_role = replica`;
    await tx`update transitions set at = ${time(0)}::timestamptz + position * interval '1 s'`;
    await tx`update operations set created_at = ${time(5)}`;
  });
});

const log = async (variables: object) => {
  const { transitions } = await ostler.query<Log>(LOG, { ...variables });
  expect(transitions.totalCount).toBe(transitions.nodes.length);
  return transitions.nodes.map(({ nodeName, event }) => `${nodeName} ${event}`);
};

describe("transitions", () => {
  test("a cursor of a time begins a list with the first transition at that time [R-529]", async () => {
    const { cursorAt } = await ostler.query<{ cursorAt: string }>(CURSOR, { time: time(3) });
    const { transitions } = await ostler.query<Log>(LOG, { after: cursorAt });
    expect(transitions.nodes[0]).toMatchObject({ nodeName: "c", event: "REGISTER", at: time(3) });
    expect(await ostler.query(CURSOR, { time: "2026-01-01T00:00:00Z" })).toEqual({ cursorAt: "0" });
    const newest = (await ostler.query<Log>(LOG, { last: 1 })).transitions.nodes[0]?.cursor;
    expect(await ostler.query(CURSOR, { time: "2999-01-01T00:00:00Z" })).toEqual({ cursorAt: newest });
  });

  test("a stream that begins with the cursor of a time emits the transitions since then [R-529]", async () => {
    const { cursorAt } = await ostler.query<{ cursorAt: string }>(CURSOR, { time: time(3) });
    const items = ostler.overSocket<{ nodeTransitions: object }>(
      "subscription From($after: String) { nodeTransitions(after: $after) { ... on Transition { nodeName event } } }",
      { after: cursorAt },
    );
    expect((await items.next()).value).toEqual({ nodeTransitions: { nodeName: "c", event: "REGISTER" } });
    await items.return?.();
  });

  test("transitions are filtered by time, actor, event, verb, operation, text and nodes [R-530]", async () => {
    expect(await log({ where: { until: time(3) } })).toEqual(["a REGISTER", "b REGISTER"]);
    expect(await log({ where: { since: time(2), until: time(4) } })).toEqual(["b REGISTER", "c REGISTER"]);
    expect(await log({ where: { events: ["REGISTER"] }, filter: { name: { eq: "c" } } })).toEqual(["c REGISTER"]);
    const ofOperation = await log({ where: { operationId: operation } });
    expect(ofOperation.length).toBeGreaterThan(0);
    expect(await log({ where: { kinds: ["MANAGE"] } })).toEqual(ofOperation);
    expect(await log({ where: { kinds: ["DEPLOY"] } })).toEqual([]);
    expect(await log({ where: { text: "B", events: ["REGISTER"] } })).toEqual(["b REGISTER"]);
    expect(await log({ where: { actors: ["ghost"] } })).toEqual([]);
    expect(await log({ where: { operationId: "ghost" } })).toEqual([]);
    expect(await log({ where: {} })).toEqual(await log({}));
  });

  test("a time before the kept log has no cursor, and the error names the earliest [R-529]", async () => {
    await using other = await serviceUnderTest({ started: false });
    await other.register(3);
    await other.test.sql`delete from transitions where position <= 2`;
    expect((await other.ask(CURSOR, { time: time(0) })).errors).toMatchObject([
      {
        message: `The log is no longer kept back to ${time(0)}. Continue from 2, the earliest valid cursor.`,
        extensions: { code: "CURSOR_EXPIRED", cursor: "2" },
      },
    ]);
  });

  test.each([
    "2026-01-31",
    "2026-01-31T09:30:00",
    "2026-02-30T00:00:00Z",
    "2026-01-31T24:00:00Z",
    "Sat Jan 31 2026",
    "1",
  ])("the time %j, which would be read as another one, is refused [R-1322]", async (given) => {
    expect((await ostler.ask(CURSOR, { time: given })).errors[0]?.message).toMatch(/is not an RFC 3339 timestamp/);
  });

  test.each([
    "2026-01-31T09:30:00.123456Z",
    "2026-01-31t09:30:00z",
    "2026-01-31T23:30:00-05:30",
    "2024-02-29T00:00:00Z",
  ])("the time %s is taken [R-1322]", async (given) => {
    expect((await ostler.ask(CURSOR, { time: given })).errors).toEqual([]);
  });

  test.each(["+275760-09-13T00:00:00.000Z", "-000001-01-01T00:00:00Z", "0000-06-01T00:00:00Z", "now"])(
    "the time %s was an internal error, and is refused",
    async (given) => {
      expect((await ostler.ask(CURSOR, { time: given })).errors[0]?.message).toMatch(/is not an RFC 3339 timestamp/);
      const { errors } = await ostler.ask(
        "query N($at: DateTime) { nodes(filter: { changedSince: $at }) { totalCount } }",
        {
          at: given,
        },
      );
      expect(errors[0]?.message).toMatch(/is not an RFC 3339 timestamp/);
    },
  );
});

test("operations are filtered by actor, text and time [R-530]", async () => {
  const found = async (filter: object) => {
    const { operations } = await ostler.query<{
      operations: { totalCount: number; nodes: { uuid: string }[] };
    }>(OPERATIONS, { filter });
    expect(operations.totalCount).toBe(operations.nodes.length);
    return operations.nodes.map(({ uuid }) => uuid);
  };
  const { operation: one } = await ostler.query<{ operation: { requestedBy: string } }>(
    "query One($id: ID!) { operation(id: $id) { requestedBy } }",
    { id: operation },
  );
  expect(await found({ requestedBy: [one.requestedBy] })).toEqual([operation]);
  expect(await found({ requestedBy: ["ghost"] })).toEqual([]);
  expect(await found({ requestedBy: [] })).toEqual([]);
  expect(await found({ text: "fan IN" })).toEqual([operation]);
  expect(await found({ text: "%" })).toEqual([]);
  expect(await found({ createdSince: time(5), createdBefore: time(6) })).toEqual([operation]);
  expect(await found({ createdSince: time(6) })).toEqual([]);
  expect(await found({ createdBefore: time(5) })).toEqual([]);
  await ostler.test
    .sql`update operations set first_failure = '{"code": "TIMEOUT", "message": "The BMC is slow."}'::jsonb`;
  expect(await found({ text: "bmc is", kinds: ["MANAGE"] })).toEqual([operation]);
});
