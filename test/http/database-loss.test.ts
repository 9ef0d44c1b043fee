/** The answers to requests when the database does not answer, or its connections are lost, through a real socket. */
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, inject, test } from "vitest";
import { cutter } from "../support/cutter.ts";
import type { Cutter } from "../support/cutter.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";
import type { ServiceUnderTest } from "../support/service.ts";

const QUERY_MS = 300;
const parts = new AsyncDisposableStack();
const proxy: Cutter = parts.use(await cutter(inject("server").url));
const ostler: ServiceUnderTest = parts.use(
  await serviceUnderTest({
    started: false,
    queryMs: QUERY_MS,
    databaseUrl(url) {
      const proxied = new URL(url);
      proxied.host = new URL(proxy.url).host;
      return proxied.href;
    },
  }),
);
afterAll(() => parts.disposeAsync());

const CLUSTERS = "{ clusters(first: 3) { edges { node { name } } } }";
const CREATE = 'mutation { createCluster(input: { name: "lost" }) { errors { message } } }';
const codesOf = ({ errors }: Awaited<ReturnType<ServiceUnderTest["ask"]>>) =>
  errors.map(({ extensions }) => extensions?.["code"]);
/** Runs `meanwhile` while statements on a table wait, on a connection that does not pass the proxy. */
async function holding<Result>(
  table: "clusters" | "runs",
  meanwhile: (isWaiting: () => Promise<boolean>) => Promise<Result>,
): Promise<Result> {
  return (await ostler.test.sql.begin(async (tx) => {
    await tx`lock table ${tx(table)} in access exclusive mode`;
    return meanwhile(async () => {
      const waiting =
        await tx`select 1 from pg_locks where not granted and database = (select oid from pg_database where datname = current_database())`;
      return waiting.length > 0;
    });
  })) as Result;
}

test("query that a stalled database does not answer gets DATABASE_UNAVAILABLE, and the next one succeeds [R-290]", async () => {
  const resume = proxy.stall();
  try {
    const answer = await ostler.ask(CLUSTERS, {}, { accept: "application/graphql-response+json" });
    expect(codesOf(answer)).toEqual(["DATABASE_UNAVAILABLE"]);
    expect(answer.status).toBe(503);
    expect(answer.headers.get("retry-after")).toBe("5");
  } finally {
    resume();
  }
  await eventually("the service reads again", async () => codesOf(await ostler.ask(CLUSTERS)).length === 0);
});

test("slow queries that occupy all connections for requests are not reported as an unavailable database [R-290]", async () => {
  const count = ostler.database.pools.readers + 3;
  const answers = await holding("clusters", () =>
    Promise.all(Array.from({ length: count }, () => ostler.ask(CLUSTERS))),
  );
  expect(answers.map(codesOf)).toEqual(Array.from({ length: count }, () => ["LIMIT_EXCEEDED"]));
});

test("query during which the database hung until a moment ago is DATABASE_UNAVAILABLE, not a slow query [R-881]", async () => {
  const answers = [false, true];
  const isAnswering = async () => answers.shift() ?? true;
  await using hung = await serviceUnderTest({ started: false, queryMs: QUERY_MS, isAnswering });
  const [answer] = await hung.test.sql.begin(async (tx) => {
    await tx`lock table clusters in access exclusive mode`;
    return [await hung.ask(CLUSTERS)];
  });
  expect([answer && codesOf(answer), answers]).toEqual([["DATABASE_UNAVAILABLE"], []]);
});

describe("connection that is lost during a statement is reported as DATABASE_UNAVAILABLE [R-290]", () => {
  test.each([
    ["a query", CLUSTERS, "clusters"],
    ["a mutation", CREATE, "createCluster"],
  ])("%s", async (_what, text, field) => {
    const before = ostler.logLines.length;
    const answer = await holding("clusters", async (isWaiting) => {
      const asked = ostler.ask(text);
      await eventually("the statement waits", isWaiting);
      proxy.cut();
      return asked;
    });
    expect(answer.errors).toMatchObject([{ path: [field], extensions: { code: "DATABASE_UNAVAILABLE" } }]);
    expect(answer.text).not.toMatch(/ECONN|CONNECTION_|127\.0\.0\.1/);
    expect(ostler.logLines.slice(before).join("")).toContain("a request failed because the database is not available");
    await eventually("the service reads again", async () => codesOf(await ostler.ask(CLUSTERS)).length === 0);
  });
});

test("callback that a lost database did not take is 503, to be sent again, and no error of the service [R-290]", async () => {
  const before = ostler.logLines.length;
  const answer = await holding("runs", async (isWaiting) => {
    const asked = fetch(`${ostler.url}/callback/${randomUUID()}.${"x".repeat(43)}`, { method: "POST" });
    await eventually("the statement waits", isWaiting);
    proxy.cut();
    return asked;
  });
  expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "5"]);
  expect(await answer.text()).toContain("DATABASE_UNAVAILABLE");
  expect(ostler.logLines.slice(before).filter((line) => line.includes('"level":"error"'))).toEqual([]);
});

test("write that a full disk refuses is DATABASE_UNAVAILABLE, and the replica is not ready until writes succeed [R-880]", async () => {
  const { sql } = ostler.test;
  const ready = async () => (await fetch(`${ostler.url}/readyz`)).status;
  await sql.unsafe(
    `create function refuse() returns trigger language plpgsql as $$ begin raise 'No space left on device' using errcode = '53100'; end $$`,
  );
  await sql`create trigger full_disk before insert on clusters execute function refuse()`;
  expect([codesOf(await ostler.ask(CREATE)), await ready()]).toEqual([["DATABASE_UNAVAILABLE"], 503]);
  await sql`drop trigger full_disk on clusters`;
  expect([codesOf(await ostler.ask(CREATE)), await ready()]).toEqual([[], 200]);
});
