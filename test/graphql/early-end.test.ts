/** Where a stream ends whose caller's access has changed: after the last item that was delivered, whatever is due. */
import { GraphQLError, parse } from "graphql";
import type { ExecutionResult } from "graphql";
import { afterAll, describe, expect, test, vi } from "vitest";
import type { Actor } from "../../src/access/access.ts";
import { createContext } from "../../src/graphql/base/context.ts";
import type { Services } from "../../src/graphql/base/context.ts";
import { shareEvents } from "../../src/graphql/execution/shared-events.ts";
import { buildSchema } from "../../src/graphql/schema/schema.ts";
import { executionsOf } from "../support/event-executions.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest, takeAll } from "../support/service.ts";

const ostler = await serviceUnderTest({ started: false });
afterAll(() => ostler[Symbol.asyncDispose]());
const names = await ostler.register(250);
/** Asks while the connection of the test holds a lock. */
const other = await testDatabase();
afterAll(() => other[Symbol.asyncDispose]());

const schema = buildSchema([]);
const actor = { scope: "READ", roles: ["viewer"], subject: "account:a", groups: [] } as unknown as Actor;
const errors: unknown[] = [];
const plugin = shareEvents((error) => {
  errors.push(error);
  return new GraphQLError("masked");
});

interface Shown {
  readonly type: string;
  readonly cursor: string;
  readonly code?: string;
}

/** A stream as a transport meets it, and what ends it. */
async function streamUnderTest(field: string, variableValues: Record<string, unknown> = {}) {
  let end = () => {};
  const access = {
    watch(_actor: unknown, listener: () => void) {
      end = listener;
      return () => {};
    },
  };
  const services = { database: ostler.database, tail: ostler.tail, access } as unknown as Services;
  const results = await executionsOf(plugin, {
    schema,
    document: parse(
      `subscription S($after: String, $snapshot: Boolean! = false) { item: ${field}(after: $after, snapshot: $snapshot) {
        type: __typename
        ... on NodeSnapshot { cursor }
        ... on Transition { cursor node { name } }
        ... on NodeUpserted { cursor }
        ... on StreamBookmark { cursor }
        ... on StreamReset { cursor code }
      } }`.replace(field === "nodeChanges" ? /... on (NodeSnapshot|Transition) .*\n/g : /... on NodeUpserted .*\n/, ""),
    ),
    variableValues,
    contextValue: {
      ...createContext(services, { actor, requestId: "r", showsCost: false, address: "192.0.2.1", transport: "SSE" }),
    },
  });
  return { results, end: () => end() };
}

const shownOf = (result: ExecutionResult) => result.data?.["item"] as Shown;
async function next(results: AsyncIterator<ExecutionResult>): Promise<Shown> {
  const { value } = (await results.next()) as { value: ExecutionResult };
  return shownOf(value);
}
const rest = async (results: AsyncIterator<ExecutionResult>) => (await takeAll(results)).map(shownOf);
const RESET = { type: "StreamReset", code: "ACCESS_CHANGED" };

/** Each with the cursor before everything. */
describe.each([
  ["nodeTransitions", "0"],
  ["nodeChanges", "c0"],
])("%s whose caller's access has changed", (field, beginning) => {
  test("a stream ends after the last delivered item, in the middle of a page [R-970]", async () => {
    const { results, end } = await streamUnderTest(field, { after: beginning });
    await next(results);
    const { cursor } = await next(results);
    end();
    expect(await rest(results)).toEqual([{ ...RESET, cursor }]);
  });

  test("a stream that has delivered nothing ends at its cursor [R-970]", async () => {
    const first = await streamUnderTest(field, { after: beginning });
    const { cursor: after } = await next(first.results);
    await first.results.return?.();
    const { results, end } = await streamUnderTest(field, { after });
    end();
    expect(await rest(results)).toEqual([{ ...RESET, cursor: after }]);
  });

  test("a stream ends within its snapshot at the beginning, and gives the snapshot up [R-972]", async () => {
    const released = vi.fn<() => void>();
    const { snapshot } = ostler.tail;
    const claim = vi.spyOn(ostler.tail, "snapshot").mockImplementation((content) => {
      const taken = snapshot(content);
      return {
        taken: taken.taken,
        release() {
          released();
          taken.release();
        },
      };
    });
    const { results, end } = await streamUnderTest(field, { snapshot: true });
    for (let taken = 0; taken < 120; taken += 1) await next(results);
    expect(released).not.toHaveBeenCalled();
    end();
    expect(released).toHaveBeenCalledTimes(1);
    expect(await rest(results)).toEqual([{ ...RESET, cursor: beginning }]);
    claim.mockRestore();
  });

  test("a stream ends after its snapshot at the cursor of the snapshot [R-972]", async () => {
    const { results, end } = await streamUnderTest(field, { snapshot: true });
    for (const _ of names) await next(results);
    const { type, cursor } = await next(results);
    expect(type).toBe("StreamBookmark");
    end();
    expect(await rest(results)).toEqual([{ ...RESET, cursor }]);
    expect(cursor).not.toBe(beginning);
  });

  test("a stream whose reader asks for nothing gives up what it holds at once [R-973]", async () => {
    const before = [ostler.listeners(), ostler.changeListeners()];
    const { results, end } = await streamUnderTest(field, { after: beginning });
    await next(results);
    end();
    expect([ostler.listeners(), ostler.changeListeners()]).toEqual(before);
    expect((await rest(results)).map(({ code }) => code)).toEqual(["ACCESS_CHANGED"]);
  });
});

describe("stream whose database does not answer", () => {
  /** Ends a stream that waits for a statement on locked tables; what it delivers then. */
  async function endedWhileLocked(
    tables: readonly string[],
    { results, end }: Awaited<ReturnType<typeof streamUnderTest>>,
  ): Promise<unknown> {
    const locked = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const lock = ostler.test.sql.begin(async (tx) => {
      for (const table of tables) await tx`lock table ${tx(table)} in access exclusive mode`;
      locked.resolve();
      await release.promise;
    });
    await locked.promise;
    try {
      const waiting = next(results);
      await eventually("it waits for a lock", async () => {
        const [row] =
          await other.sql`select count(*)::int as waiting from pg_locks where not granted and database = (select oid from pg_database where datname = ${ostler.test.sql.options.database})`;
        return Number(row?.["waiting"]) > 0;
      });
      end();
      return [await waiting, ...(await rest(results))];
    } finally {
      release.resolve();
      await lock;
    }
  }

  test("a stream that waits for its beginning ends at once [R-973]", async () => {
    const stream = await streamUnderTest("nodeTransitions");
    expect(await endedWhileLocked(["feed_position"], stream)).toEqual([{ ...RESET, cursor: "0" }]);
  });

  test("a stream that waits for the content of an item ends at once, after the item before [R-973]", async () => {
    const stream = await streamUnderTest("nodeTransitions", { after: "0" });
    const { cursor } = await next(stream.results);
    expect(await endedWhileLocked(["nodes"], stream)).toEqual([{ ...RESET, cursor }]);
  });

  test("what ends early fails nothing", () => {
    expect(errors).toEqual([]);
  });
});
