/**
 * Events that are ready together are executed together: a page of a snapshot takes as many statements as one item, its
 * items are what a page of the list has, and no object is older than one that the subscriber has seen.
 */
import { GraphQLError, buildSchema, getNamedType, isLeafType, isObjectType, parse } from "graphql";
import type { ExecutionResult, GraphQLObjectType } from "graphql";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { Listeners } from "../../src/feed/listeners.ts";
import { pulled } from "../../src/feed/pull.ts";
import { shareEvents } from "../../src/graphql/execution/shared-events.ts";
import { loggedHere, withLogged } from "../../src/log.ts";
import { executionsOf } from "../support/event-executions.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest, takeUntil } from "../support/service.ts";

let statements = 0;
const ostler = await serviceUnderTest({ onStatement: () => (statements += 1) });
afterAll(() => ostler[Symbol.asyncDispose]());

const NODES = 40;
const THREE_RELATIONS = "name cluster { name } currentRun { state } targetState";

interface Item {
  readonly nodeTransitions: {
    readonly node?: Readonly<Record<string, unknown>>;
    readonly snapshotComplete?: boolean;
    readonly caughtUp?: boolean;
  };
}

const snapshotOf = (selection: string, limit = "") =>
  `subscription { nodeTransitions(snapshot: true${limit}) { ... on NodeSnapshot { node { ${selection} } } ... on StreamBookmark { snapshotComplete } } }`;

async function snapshotItems(selection: string, limit?: string): Promise<unknown[]> {
  const items = ostler.overSocket<Item>(snapshotOf(selection, limit));
  const all = await takeUntil(items, ({ nodeTransitions }) => nodeTransitions.snapshotComplete === true);
  await items.return?.();
  return all.flatMap(({ nodeTransitions }) => nodeTransitions.node ?? []);
}

beforeAll(async () => {
  const names = await ostler.register(NODES);
  await ostler.query(
    'mutation Make($nodes: NodeSelector!) { createCluster(input: { name: "pages", nodes: $nodes }) { errors { message } } }',
    { nodes: { names: names.slice(0, 25) } },
  );
  await ostler.commission(names.slice(0, 10), "AVAILABLE");
  await ostler.begin("cleanNodes", names.slice(0, 5), { steps: [{ interface: "ENGINE", name: "hold" }] });
  await eventually("all runs hold", async () => {
    const { nodes } = await ostler.query<{ nodes: { totalCount: number } }>(
      "{ nodes(filter: { states: [CLEAN_HOLD] }) { totalCount } }",
    );
    return nodes.totalCount === 5;
  });
}, 60_000);

describe("snapshot by stream", () => {
  test("the nodes of a snapshot equal those of the list in every field [R-555]", async () => {
    const schema = buildSchema(await (await fetch(`${ostler.url}/schema.graphql`)).text());
    for (const selection of selectionsOf(schema.getType("Node") as GraphQLObjectType)) {
      const { nodes } = await ostler.query<{ nodes: { nodes: unknown[] } }>(
        `{ nodes(first: ${NODES}) { nodes { name ${selection} } } }`,
      );
      expect(await snapshotItems(`name ${selection}`), selection).toEqual(nodes.nodes);
    }
  }, 60_000);

  test("a snapshot with three relations takes a constant number of statements for a page of nodes [R-556]", async () => {
    // The first item of an operation shows that it reads.
    await snapshotItems(THREE_RELATIONS, ", filter: { states: [CLEAN_HOLD] }");
    const counted = async (limit: string) => {
      await snapshotItems(THREE_RELATIONS, limit);
      const before = statements;
      const nodes = await snapshotItems(THREE_RELATIONS, limit);
      return { nodes: nodes.length, statements: statements - before };
    };
    const few = await counted(", filter: { states: [CLEAN_HOLD] }");
    const many = await counted("");
    expect([few.nodes, many.nodes]).toEqual([5, NODES]);
    // A turn of the stream has 20 items.
    expect(many.statements).toBeLessThanOrEqual(2 * few.statements + 2);
    expect(few.statements).toBeLessThan(2 * 5);
  });

  test("transitions that a stream replays read their nodes together [R-556]", async () => {
    const replay = async () => {
      const items = ostler.overSocket<Item>(
        'subscription { nodeTransitions(after: "0") { ... on Transition { node { name } } ... on StreamBookmark { caughtUp } } }',
      );
      const all = await takeUntil(items, ({ nodeTransitions }) => nodeTransitions.caughtUp === true);
      await items.return?.();
      return all.length;
    };
    await replay();
    const before = statements;
    const count = await replay();
    expect(count).toBeGreaterThan(2 * NODES);
    expect(statements - before).toBeLessThan(count / 4);
  });
});

/** Selections of each field of a type without required arguments; and of the values of its objects. */
function selectionsOf(type: GraphQLObjectType, depth = 0): string[] {
  return Object.values(type.getFields()).flatMap(({ name, type: given, args }) => {
    if (args.length > 0) return [];
    const inner = getNamedType(given);
    if (isLeafType(inner)) return name;
    if (depth === 1 || !isObjectType(inner)) return [];
    const below = selectionsOf(inner, depth + 1);
    return below.length === 0 ? [] : `${name} { ${below.join(" ")} }`;
  });
}

/** The plugin alone; its source has events that are ready together. */
function pluginUnderTest() {
  const state = { revision: 1, executions: 0, faulty: new Set<string>() };
  const schema = buildSchema(`
    type Query { none: Int }
    type Subscription { changed: Change }
    type Change { key: String revision: Int }
  `);
  const field = schema.getSubscriptionType()?.getFields()["changed"];
  if (!field) throw new Error("The subscription field is missing.");
  field.extensions = { eventKey: (key: string) => (key.startsWith("own") ? null : key) };
  field.subscribe = (_root, _args, { source }: { source: AsyncIterator<string> }) => source;
  field.resolve = (key: string) => ({
    key,
    revision: async () => {
      state.executions += 1;
      const { revision } = state;
      await Promise.resolve();
      if (state.faulty.has(key)) throw new Error(`${key} is faulty`);
      return revision;
    },
  });
  const plugin = shareEvents((error) => new GraphQLError((error as Error).message));
  const ALL = parse("subscription All { changed { key revision } }");

  async function subscriber(keys: readonly string[], document = ALL): Promise<AsyncIterableIterator<ExecutionResult>> {
    const events = [...keys];
    const source = {
      next: async () => {
        const value = events.shift();
        return value === undefined ? { done: true, value: undefined } : { done: false, value };
      },
      get hasReady() {
        return events.length > 0;
      },
      takeReady: (most: number) => events.splice(0, most),
      return: async () => ({ done: true, value: undefined }),
      [Symbol.asyncIterator]: () => source,
    };
    return executionsOf(plugin, {
      schema,
      document,
      contextValue: { source, services: { database: ostler.database } },
    });
  }
  return { state, subscriber };
}

describe("page of events", () => {
  const next = async (items: AsyncIterator<ExecutionResult>): Promise<unknown> => {
    const { value } = (await items.next()) as { value: ExecutionResult };
    return value.errors ? value.errors[0]?.message : value.data?.["changed"];
  };
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  test("events that are ready are executed together once their operation has read, and delivered in order", async () => {
    const { state, subscriber } = pluginUnderTest();
    const items = await subscriber(["own1", "own2", "own3", "own4"]);
    expect(await next(items)).toEqual({ key: "own1", revision: 1 });
    expect(state.executions).toBe(1);
    expect(await next(items)).toEqual({ key: "own2", revision: 1 });
    expect(state.executions).toBe(4);
    state.revision = 2;
    for (const key of ["own3", "own4"]) expect(await next(items)).toEqual({ key, revision: 1 });
    expect((await items.next()).done).toBe(true);
  });

  test("results that wait for a second are dropped, and their events executed again [R-557]", async () => {
    vi.useFakeTimers({ toFake: ["Date", "performance"] });
    const { state, subscriber } = pluginUnderTest();
    const items = await subscriber(["own1", "own2", "own3", "own4", "own5"]);
    for (const key of ["own1", "own2"]) expect(await next(items)).toEqual({ key, revision: 1 });
    state.revision = 2;
    vi.advanceTimersByTime(1_001);
    for (const key of ["own3", "own4", "own5"]) expect(await next(items)).toEqual({ key, revision: 2 });
  });

  test("streams with many events that are ready do not hold up the event loop [R-693]", async () => {
    const { subscriber } = pluginUnderTest();
    const keys = Array.from({ length: 100 }, (_, index) => `t${index}`);
    const streams = await Promise.all(
      Array.from({ length: 20 }, () => subscriber(keys, parse("subscription { changed { key } }"))),
    );
    // Each look at the clock takes a millisecond.
    let now = performance.now();
    vi.spyOn(performance, "now").mockImplementation(() => (now += 1));
    let [delivered, inTurn, mostInTurn, isOver] = [0, 0, 0, false];
    const count = () => {
      mostInTurn = Math.max(mostInTurn, inTurn);
      inTurn = 0;
      if (!isOver) setImmediate(count);
    };
    count();
    await Promise.all(
      streams.map(async (items) => {
        for await (const _ of items) [delivered, inTurn] = [delivered + 1, inTurn + 1];
      }),
    );
    isOver = true;
    expect(delivered).toBe(2_000);
    expect(Math.max(mostInTurn, inTurn)).toBeLessThan(200);
  });

  test("an event that fails in a page fails alone", async () => {
    const { state, subscriber } = pluginUnderTest();
    state.faulty.add("own3");
    const items = await subscriber(["own1", "own2", "own3", "own4"]);
    for (const key of ["own1", "own2"]) expect(await next(items)).toEqual({ key, revision: 1 });
    expect(await next(items)).toBe("own3 is faulty");
    expect(await next(items)).toEqual({ key: "own4", revision: 1 });
  });

  test("subscribers with equal requests share the executions of a page", async () => {
    const { state, subscriber } = pluginUnderTest();
    const [a, b] = [await subscriber(["t1", "t2", "t3", "t4"]), await subscriber(["t1", "t2", "t3", "t4"])];
    for (const key of ["t1", "t2", "t3", "t4"]) expect(await next(a)).toEqual({ key, revision: 1 });
    for (const key of ["t1", "t2", "t3", "t4"]) expect(await next(b)).toEqual({ key, revision: 1 });
    expect(state.executions).toBe(4);
  });

  test("a subscriber never receives an older object after a page of its own [R-557]", async () => {
    const { state, subscriber } = pluginUnderTest();
    const [a, b] = [await subscriber(["t0", "t1", "t2"]), await subscriber(["own1", "own2", "own3", "t1", "t2"])];
    for (const key of ["t0", "t1", "t2"]) expect(await next(a)).toEqual({ key, revision: 1 });
    state.revision = 2;
    for (const key of ["own1", "own2", "own3", "t1", "t2"]) expect(await next(b)).toEqual({ key, revision: 2 });
  });
});

describe("execution of a live event", () => {
  const schema = buildSchema("type Query { a: Int } type Subscription { changed: String }");
  const field = schema.getSubscriptionType()?.getFields()["changed"];
  if (!field) throw new Error("The subscription field is missing.");
  field.subscribe = (_root, _args, { source }: { source: AsyncIterator<string> }) => source;

  test.each([
    { what: "resolver", fails: false },
    { what: "masking of an error", fails: true },
  ])(
    "a $what has the request id of its subscription in the log, not that of the request that wrote [R-706]",
    async ({ fails }) => {
      const seen: unknown[] = [];
      field.resolve = (value: string) => {
        if (fails) throw new Error("the event is faulty");
        seen.push(loggedHere().requestId);
        return value;
      };
      const plugin = shareEvents((error) => {
        seen.push(loggedHere().requestId);
        return new GraphQLError((error as Error).message);
      });
      const listeners = new Listeners();
      const events: string[] = [];
      const source = pulled({
        onChange: (listener) => listeners.add(listener),
        produce: () => (events.length > 0 ? events.splice(0) : { pauseMs: 60_000 }),
      });
      const results = await withLogged({ requestId: "subscription" }, () =>
        executionsOf(plugin, {
          schema,
          document: parse("subscription { changed }"),
          contextValue: { source, services: { database: ostler.database } },
        }),
      );
      const result = results.next();
      events.push("written");
      withLogged({ requestId: "mutation" }, () => listeners.notify());
      expect(seen).toEqual(["subscription"]);
      expect((await result).done).toBe(false);
      await results.return?.();
    },
  );
});
