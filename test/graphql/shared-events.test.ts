/** Subscribers with equal requests share one execution and one text of each event; other subscribers get their own. */
import { randomUUID } from "node:crypto";
import { BasePgAsyncDatabase, PgAsyncTransaction } from "drizzle-orm/pg-core";
import { GraphQLError, buildSchema, parse } from "graphql";
import type { DocumentNode, ExecutionResult, OperationDefinitionNode } from "graphql";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Loaders } from "../../src/graphql/base/loaders.ts";
import type { Context, Services } from "../../src/graphql/base/context.ts";
import { buildSchema as buildOstler } from "../../src/graphql/schema/schema.ts";
import { variablesBelowRoot } from "../../src/graphql/execution/event-scope.ts";
import { executeAtOneMoment } from "../../src/graphql/execution/moment.ts";
import { shareEvents } from "../../src/graphql/execution/shared-events.ts";
import type { EventKey } from "../../src/graphql/execution/event-scope.ts";
import { openDatabase } from "../../src/store/postgres/database.ts";
import { nodes } from "../../src/store/tables.ts";
import { executionsOf } from "../support/event-executions.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest, takeAll, takeUntil } from "../support/service.ts";
import type { Items } from "../support/service.ts";

const ostler = await serviceUnderTest({ started: false });
afterAll(() => ostler[Symbol.asyncDispose]());

/** Each execution reads the node once. */
const FOLLOW = `
  subscription Follow($after: String, $filter: NodeFilter, $withNode: Boolean! = true) {
    nodeTransitions(after: $after, filter: $filter) {
      type: __typename
      ... on Transition { cursor nodeName event node @include(if: $withNode) { name labels { key value } } }
      ... on StreamBookmark { cursor caughtUp }
    }
  }`;

interface Item {
  readonly nodeTransitions: {
    readonly type: string;
    readonly cursor?: string;
    readonly nodeName?: string;
    readonly caughtUp?: boolean;
    readonly node?: { readonly name: string } | null;
  };
}

const isOf =
  (name: string) =>
  ({ nodeTransitions }: Item) =>
    nodeTransitions.nodeName === name;
const isCaughtUp = ({ nodeTransitions }: Item) => nodeTransitions.caughtUp === true;
const newest = async () => Number((await ostler.test.sql`select position from feed_position`)[0]?.["position"]);

const followers: Items<Item>[] = [];
async function follow(
  way: "overSocket" | "overEvents",
  count: number,
  variables: (index: number) => Record<string, unknown> = () => ({}),
  text = FOLLOW,
): Promise<Items<Item>[]> {
  const made = Array.from({ length: count }, (_, index) => ostler[way]<Item>(text, variables(index)));
  followers.push(...made);
  await Promise.all(made.map((items) => takeUntil(items, isCaughtUp)));
  return made;
}

beforeEach(async () => {
  for (const items of followers.splice(0)) await items.return?.();
  await eventually("earlier streams are closed", () => ostler.listeners() === 0);
});

/** Counts the selects that start during `action`: those of streams and their events, and not of the engine. */
async function statementsOf(
  action: () => Promise<unknown>,
  isCounted = (reader: unknown) => !(reader instanceof PgAsyncTransaction),
): Promise<number> {
  const select = vi.spyOn(BasePgAsyncDatabase.prototype, "select");
  await action();
  const count = select.mock.contexts.filter(isCounted).length;
  select.mockRestore();
  return count;
}

/** Registers one node; returns the item that each stream receives for it, and the number of statements. */
async function itemsOfRegistration(
  streams: readonly Items<Item>[],
): Promise<{ readonly received: Item[]; readonly statements: number }> {
  let received: Item[] = [];
  const statements = await statementsOf(async () => {
    const [name = ""] = await ostler.register(1);
    received = (await Promise.all(streams.map((items) => takeUntil(items, isOf(name))))).map(
      (items) => items.at(-1) as Item,
    );
  });
  return { received, statements };
}

describe.each(["overSocket", "overEvents"] as const)("shared events %s", (way) => {
  test("40 subscribers with equal requests receive equal items from fewer than 40 statements [R-129]", async () => {
    const { received, statements } = await itemsOfRegistration(await follow(way, 40));
    expect(new Set(received.map((item) => JSON.stringify(item))).size).toBe(1);
    expect(received[0]?.nodeTransitions.node?.name).toBe(received[0]?.nodeTransitions.nodeName);
    expect(statements).toBeLessThan(25);
  });

  test("40 subscribers with different cursors and filters share executions", async () => {
    await ostler.register(40);
    const from = await newest();
    const streams = await follow(way, 40, (index) => ({
      after: String(from - index),
      filter: { not: { hostGroup: `group-${index}` } },
    }));
    const { received, statements } = await itemsOfRegistration(streams);
    expect(new Set(received.map((item) => JSON.stringify(item))).size).toBe(1);
    expect(statements).toBeLessThan(25);
  });

  test("40 subscribers with different variables receive the fields they requested", async () => {
    const streams = await follow(way, 40, (index) => ({ withNode: index % 2 === 0 }));
    const { received } = await itemsOfRegistration(streams);
    received.forEach(({ nodeTransitions }, index) => expect("node" in nodeTransitions).toBe(index % 2 === 0));
  });

  test("40 subscribers with different documents receive the fields they requested", async () => {
    const plain = await follow(way, 20);
    const other = await follow(way, 20, () => ({}), FOLLOW.replace("cursor nodeName event", "cursor nodeName to"));
    const { received } = await itemsOfRegistration([...plain, ...other]);
    received.forEach(({ nodeTransitions }, index) => expect("to" in nodeTransitions).toBe(index >= 20));
  });
});

describe("rows of events", async () => {
  // Not the database of the service, whose tail reads now and then.
  const database = await openDatabase({ connection: ostler.test.connection, connectionsMax: 4 });
  afterAll(() => database[Symbol.asyncDispose]());
  const services = { database } as Services;
  const operation = parse("{ none }").definitions[0] as OperationDefinitionNode;
  /** Events that begin to read a row at once. */
  const read = (count: number, what: keyof Pick<Loaders, "node" | "operation" | "run">) =>
    Array.from({ length: count }, async () =>
      executeAtOneMoment(operation, { services } as Context, async ({ load }) => {
        await load[what].load(randomUUID());
        return { data: {} };
      }),
    );
  // The tail of the service reads now and then.
  const isOwn = (reader: unknown) => reader !== ostler.database.reader && reader !== ostler.database.bounded;
  const ofOwn = () => vi.mocked(BasePgAsyncDatabase.prototype.select).mock.contexts.filter(isOwn).length;

  test.each(["node", "operation", "run"] as const)(
    "one statement reads rows for all subscriptions that load at the same time: %s",
    async (what) => {
      expect(await statementsOf(() => Promise.all(read(25, what)), isOwn)).toBe(1);
    },
  );

  test("one statement reads the rows that are requested while another moment is in use", async () => {
    const statements = await statementsOf(async () => {
      const first = read(1, "node");
      // The answer of the first statement cannot arrive meanwhile, because the event loop does not poll for I/O.
      for (let tick = 0; tick < 10; tick += 1) await new Promise(process.nextTick);
      await Promise.all([...first, ...read(24, "node")]);
    }, isOwn);
    expect(statements).toBe(2);
  });

  test("rows of events are read while an earlier statement hangs", async () => {
    const release = Promise.withResolvers<void>();
    const locked = Promise.withResolvers<void>();
    const lock = ostler.test.sql.begin(async (tx) => {
      await tx`lock table nodes in access exclusive mode`;
      locked.resolve();
      await release.promise;
    });
    await locked.promise;
    const statements = await statementsOf(async () => {
      try {
        const hanging = read(1, "node");
        await eventually("the first statement is sent", () => ofOwn() === 1);
        const behind = read(1, "node");
        await eventually("the second statement is sent", () => ofOwn() === 2);
        release.resolve();
        await Promise.all([...hanging, ...behind, lock]);
      } finally {
        release.resolve();
      }
    }, isOwn);
    expect(statements).toBe(2);
  });
});

describe("shared result", () => {
  test("a shared result expires, and a later subscriber receives the present node", async () => {
    await follow("overSocket", 2);
    const [name = ""] = await ostler.register(1);
    const from = (await newest()) - 1;
    await follow("overSocket", 1, () => ({ after: String(from) }));
    const { node } = await ostler.query<{ node: { id: string; revision: number } }>(
      "query Id($name: String!) { node(by: { name: $name }) { id revision } }",
      { name },
    );
    await ostler.query(
      "mutation Label($input: UpdateNodesInput!) { updateNodes(input: $input) { errors { message } } }",
      { input: { revisions: [{ node: node.id, revision: node.revision }], labels: [{ key: "seen", value: "later" }] } },
    );
    const labels = async () => {
      const items = ostler.overSocket<{ nodeTransitions: { node?: { labels: unknown[] } } }>(FOLLOW, {
        after: String(from),
      });
      const { value } = (await items.next()) as { value: { nodeTransitions: { node?: { labels: unknown[] } } } };
      await items.return?.();
      return value.nodeTransitions.node?.labels.length;
    };
    await eventually("a new subscriber receives the label", async () => (await labels()) === 1);
  });

  test("a shared result with an error is masked for each subscriber and has no cause", async () => {
    const streams = await follow("overSocket", 3);
    const { select } = BasePgAsyncDatabase.prototype;
    const failing = vi.spyOn(BasePgAsyncDatabase.prototype, "select").mockImplementation(function (
      this: typeof ostler.database.reader,
      ...given: [never]
    ) {
      const statement = select.apply(this, given);
      if (this === ostler.database.reader) return statement;
      const from = (table: never) => {
        if (table === nodes) throw new Error("password=hunter2");
        return statement.from(table);
      };
      return { from };
    } as never);
    const [row] = await ostler.test.sql`select id from nodes limit 1`;
    const settled = Promise.allSettled(streams.map((items) => takeUntil(items, () => false)));
    await ostler.transact(async (work) => work.log(aTransition(String(row?.["id"]))));
    const ends = await settled;
    failing.mockRestore();
    for (const end of ends) {
      expect(end.status).toBe("rejected");
      expect(String((end as PromiseRejectedResult).reason)).toMatch(
        /INTERNAL: Unexpected error\. The log has the cause under request/,
      );
    }
    expect(ostler.logLines.some((line) => line.includes("hunter2"))).toBe(true);
  });
});

/** A recovery without a change of state: a transition that can be logged without a change of the node. */
function aTransition(nodeId: string) {
  return {
    nodeId,
    nodeName: "ghost",
    project: "default",
    fromState: "ENROLLED",
    toState: "ENROLLED",
    event: "recover",
    sequence: 1_000_000,
    nodeRevision: 1,
    target: null,
    operationId: null,
    runId: null,
    step: null,
    actor: "test",
    reason: null,
  } as const;
}

describe("snapshot", () => {
  const SNAPSHOT = `
    subscription Snapshot($filter: NodeFilter, $snapshot: Boolean! = true) {
      nodeTransitions(filter: $filter, snapshot: $snapshot) {
        ... on NodeSnapshot { node { revision labels { value } cluster { name } } }
        ... on StreamBookmark { snapshotComplete caughtUp }
      }
    }`;
  type SnapshotItem = {
    readonly nodeTransitions: {
      readonly snapshotComplete?: boolean;
      readonly caughtUp?: boolean;
      readonly node?: { readonly revision: number; readonly labels: readonly { readonly value: string }[] };
    };
  };
  const isComplete = ({ nodeTransitions }: SnapshotItem) => nodeTransitions.snapshotComplete === true;

  test("a snapshot contains changes that did not advance the position", async () => {
    await follow("overSocket", 1, () => ({ snapshot: false }), SNAPSHOT);
    const [name = ""] = await ostler.register(1);
    const { node } = await ostler.query<{ node: { id: string } }>(
      "query Id($name: String!) { node(by: { name: $name }) { id } }",
      { name },
    );
    const readNode = async () => {
      const items = ostler.overSocket<SnapshotItem>(SNAPSHOT, { filter: { ids: [node.id] } });
      const [first] = await takeUntil(items, isComplete);
      await items.return?.();
      return first?.nodeTransitions.node;
    };
    for (let revision = 1; revision <= 5; revision += 1) {
      expect(await readNode()).toMatchObject({ revision, labels: revision === 1 ? [] : [{ value: String(revision) }] });
      await ostler.query(
        "mutation Label($input: UpdateNodesInput!) { updateNodes(input: $input) { errors { message } } }",
        { input: { nodes: { ids: [node.id] }, labels: [{ key: "seen", value: String(revision + 1) }] } },
      );
    }
  });

  test("snapshots with the same position and different revisions have different event keys", () => {
    const field = buildOstler([]).getSubscriptionType()?.getFields()["nodeTransitions"];
    const eventKey = field?.extensions["eventKey"] as EventKey<unknown>;
    const keys = [1, 2, 2].map((revision) =>
      eventKey({ kind: "snapshot", cursor: { position: 7, at: null }, node: { id: "n", revision } }),
    );
    expect(new Set(keys).size).toBe(2);
  });

  test("concurrent snapshots share executions", async () => {
    await follow("overSocket", 1, () => ({ snapshot: false }), SNAPSHOT);
    const names = await ostler.register(5);
    const statements = await statementsOf(async () => {
      const all = await Promise.all(
        Array.from({ length: 40 }, async () => {
          const items = ostler.overSocket<SnapshotItem>(SNAPSHOT, { filter: { name: { in: names } } });
          const received = await takeUntil(items, isComplete);
          await items.return?.();
          return received;
        }),
      );
      for (const received of all) expect(received).toHaveLength(6);
    });
    expect(statements).toBeLessThan(40);
  });
});

/** The plugin alone, with a field that reads `state.revision` at each execution. */
function pluginUnderTest() {
  const state = { revision: 1, executions: 0, fault: null as Error | null, closed: 0 };
  const schema = buildSchema(`
    type Query { none: Int }
    type Subscription { changed: Change }
    type Change { key: String revision: Int given(value: Int = 7): String }
  `);
  const field = schema.getSubscriptionType()?.getFields()["changed"];
  if (!field) throw new Error("The subscription field is missing.");
  field.extensions = { eventKey: ({ key }: Event) => (key.startsWith("own") ? null : key) };
  field.subscribe = (_root, _args, { source }: { source: AsyncIterator<Event> }) => source;
  field.resolve = (event: Event) => ({
    ...event,
    revision: async () => {
      state.executions += 1;
      const { revision, fault } = state;
      await Promise.resolve();
      if (fault) throw fault;
      return revision;
    },
    given: ({ value }: { value: number | null }) => String(value),
  });
  let masked = 0;
  const plugin = shareEvents((error) => new GraphQLError(`fault ${(masked += 1)}: ${(error as Error).message}`));

  interface Event {
    readonly key: string;
  }
  const ALL = parse("subscription All { changed { key revision } }");

  /** A subscriber whose source has events with these keys and then ends. */
  async function subscriber(
    keys: readonly string[],
    document: DocumentNode = ALL,
    variableValues: Record<string, unknown> = {},
  ): Promise<AsyncIterableIterator<ExecutionResult>> {
    const events = keys.map((key): Event => ({ key }));
    const source: AsyncIterableIterator<Event> = {
      next: async () => {
        const value = events.shift();
        return value ? { done: false, value } : { done: true, value: undefined };
      },
      return: async () => {
        state.closed += 1;
        return { done: true, value: undefined };
      },
      [Symbol.asyncIterator]: () => source,
    };
    return executionsOf(plugin, {
      schema,
      document,
      variableValues,
      contextValue: { source, services: { database: ostler.database } },
    });
  }
  return { state, subscriber };
}

describe("subscriber", () => {
  const next = async (items: AsyncIterator<ExecutionResult>): Promise<unknown> =>
    ((await items.next()) as { value: ExecutionResult }).value.data?.["changed"];
  afterEach(() => void vi.useRealTimers());

  test("a subscriber receives a result that its group executed after it subscribed", async () => {
    const { state, subscriber } = pluginUnderTest();
    const [a, b] = [await subscriber(["t6", "t7"]), await subscriber(["t6", "t7"])];
    for (const items of [a, b, a, b]) await next(items);
    expect(state.executions).toBe(2);
  });

  test("a subscriber receives the result of an execution in progress", async () => {
    const { state, subscriber } = pluginUnderTest();
    const all = await Promise.all(Array.from({ length: 10 }, async () => subscriber(["t6", "t7", "t8"])));
    expect(new Set(await Promise.all(all.map(async (items) => JSON.stringify(await takeAll(items))))).size).toBe(1);
    expect(state.executions).toBe(3);
  });

  test("a subscriber does not receive a result from before its subscription", async () => {
    const { state, subscriber } = pluginUnderTest();
    const [a] = [await subscriber(["t6"]), await subscriber([])];
    expect(await next(a)).toMatchObject({ revision: 1 });
    state.revision = 2;
    expect(await next(await subscriber(["t6"]))).toMatchObject({ revision: 2 });
  });

  test("a subscriber never receives an older node after an execution of its own", async () => {
    const { state, subscriber } = pluginUnderTest();
    const [a, b] = [await subscriber(["t6", "t7"]), await subscriber(["own", "t7"])];
    for (const key of ["t6", "t7"]) expect(await next(a)).toEqual({ key, revision: 1 });
    state.revision = 2;
    for (const key of ["own", "t7"]) expect(await next(b)).toEqual({ key, revision: 2 });
  });

  test("a subscriber never receives an older node after a result expired and was executed again", async () => {
    vi.useFakeTimers({ toFake: ["Date", "performance"] });
    const { state, subscriber } = pluginUnderTest();
    const [a, b] = [await subscriber(["t6", "t7"]), await subscriber(["t6", "t7"])];
    expect(await next(a)).toEqual({ key: "t6", revision: 1 });
    vi.advanceTimersByTime(200);
    expect(await next(a)).toEqual({ key: "t7", revision: 1 });
    vi.advanceTimersByTime(100);
    state.revision = 2;
    for (const key of ["t6", "t7"]) expect(await next(b)).toEqual({ key, revision: 2 });
  });

  test("a shared result expires even if the system clock is set back", async () => {
    vi.useFakeTimers({ toFake: ["Date", "performance"] });
    const { state, subscriber } = pluginUnderTest();
    const [a, b] = [await subscriber(["t6"]), await subscriber(["t6"])];
    await next(a);
    state.revision = 2;
    vi.advanceTimersByTime(300);
    vi.setSystemTime(Date.now() - 3_600_000);
    expect(await next(b)).toMatchObject({ revision: 2 });
  });

  test("subscribers do not share errors, and the next execution can succeed", async () => {
    const { state, subscriber } = pluginUnderTest();
    const [a, b, c] = [await subscriber(["t6"]), await subscriber(["t6"]), await subscriber(["t6"])];
    state.fault = new Error("connection lost");
    const messages = await Promise.all(
      [a, b].map(async (items) => ((await items.next()) as { value: ExecutionResult }).value.errors?.[0]?.message),
    );
    expect(new Set(messages)).toEqual(new Set(["fault 1: connection lost", "fault 2: connection lost"]));
    state.fault = null;
    expect(await next(c)).toEqual({ key: "t6", revision: 1 });
  });

  test("subscribers with an omitted variable and with null are in different groups", async () => {
    const { subscriber } = pluginUnderTest();
    const document = parse("subscription Given($value: Int) { changed { given(value: $value) } }");
    const given = [{}, { value: null }, { value: 1 }, {}];
    const all = await Promise.all(given.map(async (variables) => subscriber(["t6"], document, variables)));
    const received: unknown[] = [];
    for (const items of all) received.push(await next(items));
    expect(received).toEqual([{ given: "7" }, { given: "null" }, { given: "1" }, { given: "7" }]);
  });

  test("a subscriber whose event fails outside its fields closes its source once", async () => {
    const { state, subscriber } = pluginUnderTest();
    const [, items] = [await subscriber([]), await subscriber([null as unknown as string, "t7"])];
    await expect(items.next()).rejects.toThrow(/^fault 1: /);
    expect(state.closed).toBe(1);
  });
});

describe("variables below the root field", () => {
  const below = (text: string) => {
    const { definitions } = parse(text);
    const operation = definitions.find(({ kind }) => kind === "OperationDefinition") as OperationDefinitionNode;
    const fragments = Object.fromEntries(
      definitions.flatMap((one) => (one.kind === "FragmentDefinition" ? [[one.name.value, one]] : [])),
    );
    return variablesBelowRoot(operation, fragments);
  };

  test.each([
    {
      where: "in the root field's arguments only",
      text: "subscription ($a: Int, $b: [Int]) { f(a: $a, b: { c: [$b] }) { x } }",
      found: [],
    },
    { where: "in arguments below", text: "subscription ($a: Int, $b: Int) { f(a: $a) { x(b: $b) } }", found: ["b"] },
    { where: "in arguments and below", text: "subscription ($a: Int) { f(a: $a) { x(b: { c: $a }) } }", found: ["a"] },
    {
      where: "in a directive on the root field",
      text: "subscription ($a: Boolean!) { f @include(if: $a) { x } }",
      found: ["a"],
    },
    {
      where: "in directives below",
      text: "subscription ($a: Boolean!, $b: Boolean!) { f { x @skip(if: $a) ... @include(if: $b) { y } } }",
      found: ["a", "b"],
    },
    {
      where: "in a fragment below, within another",
      text: "subscription ($a: Int) { f { ...G } } fragment G on T { g { ...H } } fragment H on U { x(a: $a) }",
      found: ["a"],
    },
    {
      where: "below a root field in fragments",
      text: "subscription ($a: Int, $b: Int) { ...G } fragment G on S { ... { f(a: $a) { x(b: $b) } } }",
      found: ["b"],
    },
    {
      where: "in a directive of a fragment at the root",
      text: "subscription ($a: Boolean!) { ...G @include(if: $a) } fragment G on S { f { x } }",
      found: ["a"],
    },
  ])("variablesBelowRoot returns $found for variables $where", ({ text, found }) => {
    expect(below(text)).toEqual(found);
  });
});
