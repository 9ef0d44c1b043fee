/** How many requests are executed at a time: others wait their turn, and are told when there is none for them. */
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

/** Two queries that fill every place until they are let go. */
async function filled({ test: { sql }, ask }: typeof patient) {
  const [held, locked] = [Promise.withResolvers<void>(), Promise.withResolvers<typeof sql>()];
  const holding = sql.begin(async (tx) => {
    await tx`lock table clusters in access exclusive mode`;
    locked.resolve(tx as unknown as typeof sql);
    await held.promise;
  });
  const tx = await locked.promise;
  const queries = [1, 2].map(() => ask("{ clusters(first: 1) { edges { node { name } } } }"));
  await eventually(
    "both wait for the table",
    async () =>
      (
        await tx`select count(*)::int as waiting from pg_locks where not granted and relation = 'clusters'::regclass`
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

test("more queries wait for their turn, and mutations have places of their own", async () => {
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

test("who waits too long is told 503, and when to come again; over a socket as well", async () => {
  await using _ = await filled(hasty);
  const refused = await hasty.ask("{ viewer { subject } }");
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
  expect(refused.errors).toMatchObject([
    { message: expect.stringContaining("Nothing of this one was done"), extensions: { code: "CAPACITY" } },
  ]);
  const { errors } = await TRANSPORTS.WebSocket(hasty.url, { query: "{ viewer { subject } }" });
  expect(errors).toMatchObject([{ extensions: { code: "CAPACITY" } }]);
});

test("places are free again, whatever became of the requests", async () => {
  for (let turn = 0; turn < 5; turn += 1) {
    await hasty.ask("{ nodes(first: -1) { totalCount } viewer { subject } }");
    await hasty.query("{ viewer { subject } }");
  }
  const answers = await Promise.all(Array.from({ length: 40 }, () => patient.query("{ viewer { subject } }")));
  expect(answers).toHaveLength(40);
});

describe("places", () => {
  /** What the plugin makes of an execution that ends when it is told. */
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
    errors: [expect.objectContaining({ message: expect.stringContaining("as many requests as it takes") })],
  };

  test("are given in the order of asking", async () => {
    const ask = places({ requestsMax: 1 });
    const [first, second, third] = [ask(), ask(), ask()];
    third.end();
    second.end();
    expect(await Promise.race([second.answer, third.answer, Promise.resolve("waiting")])).toBe("waiting");
    first.end();
    expect(await Promise.race([third.answer.then(() => "third"), second.answer.then(() => "second")])).toBe("second");
    expect(await third.answer).toEqual({ data: null });
  });

  test("are given back by an execution that throws at once", () => {
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

  test("are waited for by so many, and by nobody who has left", async () => {
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
