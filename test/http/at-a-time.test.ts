/** The concurrency limit of requests: requests above it wait for a slot, and fail if they get none in time. */
import { parse } from "graphql";
import { afterAll, describe, expect, test } from "vitest";
import { atATime } from "../../src/graphql/execution/concurrency-limit.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";
import { TRANSPORTS } from "./transports.ts";

const patient = await serviceUnderTest({ requestsMax: 2, waitMs: 60_000 });
const hasty = await serviceUnderTest({ requestsMax: 2, waitMs: 100 });
afterAll(async () => {
  await patient[Symbol.asyncDispose]();
  await hasty[Symbol.asyncDispose]();
});

/** Two queries that occupy every slot until they are released. */
async function filled({ test: { sql }, ask }: typeof patient) {
  const [held, locked] = [Promise.withResolvers<void>(), Promise.withResolvers<typeof sql>()];
  const holding = sql.begin(async (tx) => {
    await tx`lock table images in access exclusive mode`;
    locked.resolve(tx as unknown as typeof sql);
    await held.promise;
  });
  const tx = await locked.promise;
  const queries = [1, 2].map(() => ask("{ images(first: 1) { edges { node { name } } } }"));
  await eventually(
    "both wait for the table",
    async () =>
      (
        await tx`select count(*)::int as waiting from pg_locks where not granted and relation = 'images'::regclass`
      )[0]?.["waiting"] === 2,
  );
  return {
    async [Symbol.asyncDispose]() {
      held.resolve();
      await holding;
      for (const { errors } of await Promise.all(queries)) expect(errors).toEqual([]);
    },
  };
}

test("concurrency limit makes further queries wait, and mutations have their own slots", async () => {
  let waiting: Promise<unknown>;
  {
    await using _ = await filled(patient);
    let isAnswered = false;
    waiting = patient.query("{ viewer { subject } }").finally(() => (isAnswered = true));
    await patient.query(
      'mutation { createRunbook(input: { name: "meanwhile", steps: [{ interface: CLEAN, name: "erase_disks" }] }) { errors { code } } }',
    );
    expect(isAnswered).toBe(false);
  }
  expect(await waiting).toEqual({ viewer: { subject: "anonymous" } });
});

test("concurrency limit answers a request that waits too long with 503 and Retry-After, over a socket too", async () => {
  await using _ = await filled(hasty);
  const refused = await hasty.ask("{ viewer { subject } }");
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
  expect(refused.errors).toMatchObject([
    { message: expect.stringContaining("Nothing was done"), extensions: { code: "CAPACITY" } },
  ]);
  const { errors } = await TRANSPORTS.WebSocket(hasty.url, { query: "{ viewer { subject } }" });
  expect(errors).toMatchObject([{ extensions: { code: "CAPACITY" } }]);
});

test("concurrency limit releases the slots whatever happened to the requests", async () => {
  for (let turn = 0; turn < 5; turn += 1) {
    await hasty.ask("{ nodes(first: -1) { totalCount } viewer { subject } }");
    await hasty.query("{ viewer { subject } }");
  }
  const answers = await Promise.all(Array.from({ length: 40 }, () => patient.query("{ viewer { subject } }")));
  expect(answers).toHaveLength(40);
});

describe("slots of the concurrency limit", () => {
  /** The plugin's handling of an execution that ends when it is cancelled. */
  function places(options: Parameters<typeof atATime>[0]) {
    const plugin = atATime(options);
    return (signal?: AbortSignal) => {
      const end = Promise.withResolvers<{ data: null }>();
      let execute: (given: unknown) => unknown = () => end.promise;
      void plugin.onExecute?.({
        args: { document: parse("{ a }"), contextValue: { request: signal && { signal } } },
        executeFn: () => end.promise,
        setExecuteFn: (set: typeof execute) => (execute = set),
      } as never);
      return { end: () => end.resolve({ data: null }), answer: Promise.resolve(execute({})) };
    };
  }
  const refused = {
    errors: [expect.objectContaining({ message: expect.stringContaining("limit of concurrent requests") })],
  };

  test("slots of the concurrency limit are granted in the order of the requests", async () => {
    const ask = places({ requestsMax: 1 });
    const [first, second, third] = [ask(), ask(), ask()];
    third.end();
    second.end();
    expect(await Promise.race([second.answer, third.answer, Promise.resolve("waiting")])).toBe("waiting");
    first.end();
    expect(await Promise.race([third.answer.then(() => "third"), second.answer.then(() => "second")])).toBe("second");
    expect(await third.answer).toEqual({ data: null });
  });

  test("slots of the concurrency limit are released by an execution that throws at once", () => {
    let execute: (given: unknown) => unknown = () => {};
    const boom = () => {
      throw new Error("boom");
    };
    void atATime({ requestsMax: 1 }).onExecute?.({
      args: { document: parse("{ a }"), contextValue: {} },
      executeFn: boom,
      setExecuteFn: (set: typeof execute) => (execute = set),
    } as never);
    for (let turn = 0; turn < 3; turn += 1) expect(() => execute({})).toThrow("boom");
  });

  test("slots of the concurrency limit have a bounded queue, which clients leave when they disconnect", async () => {
    const ask = places({ requestsMax: 1, waitingMax: 1 });
    const leave = new AbortController();
    const [first, second, third] = [ask(), ask(leave.signal), ask()];
    expect(await third.answer).toEqual(refused);
    leave.abort();
    expect(await second.answer).toEqual(refused);
    const fourth = ask();
    first.end();
    fourth.end();
    expect(await fourth.answer).toEqual({ data: null });
  });
});
