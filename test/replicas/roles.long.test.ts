/** An API replica and a worker replica: each does its part, and requests to one reach the other. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { testDatabase } from "../support/database.ts";
import type { TestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { ask, commission, entered, operationOf, register, scratch, startReplica } from "./lab.ts";
import type { Replica } from "./lab.ts";

const parts = new AsyncDisposableStack();
let database: TestDatabase;
let folder: string;
let api: Replica;
const start = async (role: string) =>
  parts.use(
    await startReplica(folder, {
      databaseUrl: database.url,
      environment: { OSTLER_ROLE: role, OSTLER_DB_POOL: "6", OSTLER_POWER_SECONDS: "1" },
    }),
  );
beforeAll(async () => {
  database = parts.use(await testDatabase());
  ({ folder } = parts.use(scratch()));
  api = await start("api");
});
afterAll(() => parts.disposeAsync());

const ended = (uuid: string) =>
  eventually("the operation has ended", async () => {
    const { state, finishedAt } = await operationOf(api.url, uuid);
    return finishedAt !== null && state;
  });

describe("API replica without a worker replica", () => {
  test("requests are admitted and wait until a worker replica starts", async () => {
    await register(api.url, ["patient", "unlucky"], { steps: { "inspect.collect_inventory": { delayMs: 200 } } });
    const waiting = await commission(api.url, ["patient"]);
    const aborted = await commission(api.url, ["unlucky"]);
    await ask(api.url, "mutation ($id: ID!) { abort(input: { work: { operationId: $id } }) { errors { message } } }", {
      id: aborted,
    });
    expect(await ended(aborted)).toBe("ABORTED");
    expect((await operationOf(api.url, waiting)).finishedAt).toBeNull();
    expect(api.journal()).toEqual([]);
    const engine = await start("engine");
    expect(await ended(waiting)).toBe("SUCCEEDED");
    expect(entered(engine.journal()).every(({ node }) => node === "patient")).toBe(true);
    // The API replica does not even read the power of nodes at rest.
    expect(api.journal()).toEqual([]);
    await engine.end();
  }, 60_000);
});

describe("worker replica", () => {
  let engine: Replica;
  beforeAll(async () => {
    engine = await start("engine");
  });

  test.each([
    ["abort", "ABORTED"],
    ["stop", "STOPPED"],
  ])("a worker replica carries out an interrupt (%s) that another replica accepted", async (verb, state) => {
    const name = `stuck-${verb}`;
    await register(api.url, [name], {
      steps: { "inspect.collect_inventory": verb === "abort" ? { silent: true } : { delayMs: 1_000 } },
    });
    const operation = await commission(api.url, [name]);
    await eventually("the step is entered", () => entered(engine.journal()).some(({ node }) => node === name));
    await ask(
      api.url,
      `mutation ($id: ID!) { ${verb}(input: { work: { operationId: $id } }) { errors { message } } }`,
      { id: operation },
    );
    expect(await ended(operation)).toBe(state);
  });

  test.each([
    ["POST", "/graphql"],
    ["GET", "/graphql"],
    ["GET", "/schema.graphql"],
    ["POST", "/callback/0190f1c4-0000-7000-8000-000000000000.x"],
    ["POST", "/readyz"],
  ])("%s %s is answered with 421 and the role of the replica", async (method, path) => {
    const response = await fetch(engine.url + path, { method, ...(method === "POST" && { body: "{}" }) });
    expect(response.status).toBe(421);
    expect(((await response.json()) as { error: string }).error).toMatch(/OSTLER_ROLE is engine.*api or all/);
  });

  test("WebSocket connections are rejected", async () => {
    const socket = new WebSocket(`${engine.url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
    await new Promise((failed) => socket.addEventListener("error", failed));
    expect(socket.readyState).not.toBe(WebSocket.OPEN);
  });

  test("a worker replica reports its health, and exits with 0 after SIGTERM", async () => {
    expect(
      await Promise.all(["/livez", "/readyz"].map(async (path) => (await fetch(engine.url + path)).text())),
    ).toEqual(["ok\n", "ok\n"]);
    expect((await engine.end()).code).toBe(0);
    expect((await api.end()).code).toBe(0);
  });
});
