/** Shutdown under load: in order, with the responses that are due, and in under ten seconds. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { fileURLToPath } from "node:url";
import { createClient } from "graphql-ws";
import type { FormattedExecutionResult } from "graphql";
import postgres from "postgres";
import { afterAll, expect, inject, test } from "vitest";
import { WebSocket } from "ws";
import { TEST_KEYS } from "../support/keyring.ts";
import { testDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { urlOf } from "../support/global-setup.ts";

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const STREAM = "subscription { nodeTransitions { __typename ... on StreamReset { code } } }";
const END_MS = 10_000;

/** Resources of a failed test, released in reverse order. */
const left = new AsyncDisposableStack();
const database = left.use(await testDatabase());
afterAll(() => left.disposeAsync());

/** A transaction that holds a lock until it is released. */
function holding(url: string, lock: string): { readonly held: Promise<void>; release(): Promise<void> } {
  const sql = postgres(url, { max: 1, connection: { application_name: "test" } });
  const released = Promise.withResolvers<void>();
  const got = Promise.withResolvers<void>();
  const done = sql.begin(async (tx) => {
    await tx.unsafe(lock);
    got.resolve();
    await released.promise;
  });
  const release = async () => {
    released.resolve();
    await done;
    await sql.end();
  };
  left.defer(release);
  return { held: got.promise, release };
}

/** The service as a process of its own, ready. */
async function startProcess(): Promise<{
  readonly url: string;
  readonly child: ChildProcess;
  readonly exited: Promise<unknown[]>;
  readonly databaseUrl: string;
}> {
  const databaseUrl = urlOf(inject("server").url, database.sql.options.database);
  const child = spawn(process.execPath, [MAIN, "--port", "0", "--log", "warn"], {
    env: {
      PATH: process.env["PATH"],
      NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"],
      DATABASE_URL: databaseUrl,
      OSTLER_SECRET_KEYS: TEST_KEYS,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = once(child, "exit");
  left.defer(async () => {
    if (child.exitCode === null && child.kill("SIGKILL")) await exited;
  });
  let output = "";
  child.stdout.on("data", (part: Buffer) => (output += part.toString()));
  const url = await eventually("it is ready", () => /(http:\/\/\S+)\/graphql/.exec(output)?.[1], 30_000);
  return { url, child, exited, databaseUrl };
}

test("shutdown of a process that was paused answers the requests that arrived meanwhile", async () => {
  const { url, child, exited } = await startProcess();
  const body = JSON.stringify({ query: "{ service { version } }" });
  child.kill("SIGSTOP");
  const sockets = await Promise.all(
    Array.from({ length: 5 }, async () => {
      const socket = connect(Number(new URL(url).port), "127.0.0.1");
      await once(socket, "connect");
      await new Promise<void>(
        (written) =>
          void socket.write(
            `POST /graphql HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
            () => written(),
          ),
      );
      return socket;
    }),
  );
  const answers = sockets.map(async (socket) => (await socket.setEncoding("utf8").toArray()).join(""));
  child.kill("SIGTERM");
  child.kill("SIGCONT");
  for (const answer of await Promise.all(answers)) expect(answer).toMatch(/^HTTP\/1\.1 200 .*"version"/s);
  expect(await exited).toEqual([0, null]);
}, 60_000);

test("shutdown on SIGTERM ends streams with a last item, answers due requests, refuses hanging ones, and exits with 0 [R-128]", async () => {
  const { url, child, exited, databaseUrl } = await startProcess();
  const post = (query: string, accept = "application/json") =>
    fetch(`${url}/graphql`, {
      method: "POST",
      headers: { "content-type": "application/json", accept },
      body: JSON.stringify({ query }),
    });
  const ask = async (query: string) => (await post(query)).json();

  await ask(
    `mutation { registerNodes(input: { nodes: [{ name: "rack-1", driver: { fake: {} } }, { name: "rack-2", driver: { fake: { delayMs: 60000 } } }] }) { errors { message } } }`,
  );
  const work = await ask(
    `mutation { commissionNodes(input: { nodes: { names: ["rack-2"] } }) { operation { uuid } errors { message } } }`,
  );
  expect(work).toMatchObject({ data: { commissionNodes: { errors: [] } } });

  // The trigger that records changes of nodes reads clusters, and would wait for the table too.
  await database.sql`alter table nodes disable trigger nodes_recorded_update`;
  const stuck = holding(databaseUrl, "lock table clusters in access exclusive mode");
  const soon = holding(databaseUrl, "select from nodes where name = 'rack-1' for update");
  await Promise.all([stuck.held, soon.held]);
  const mutation = ask(`mutation { createCluster(input: { name: "stuck" }) { errors { code } } }`);
  const query = ask("{ clusters { edges { node { name } } } }");
  const due = ask(
    `mutation { setMaintenance(input: { nodes: { names: ["rack-1"] }, reason: "due" }) { nodes { maintenance { reason } } errors { message } } }`,
  );

  const events = await post(STREAM, "text/event-stream");
  const eventsText = events.text();
  const client = createClient({
    url: `${url.replace("http", "ws")}/graphql`,
    webSocketImpl: WebSocket,
    retryAttempts: 0,
    lazy: false,
    onNonLazyError: () => {},
  });
  const closed = new Promise<number>((code) => client.on("closed", (event) => code((event as CloseEvent).code)));
  const items: unknown[] = [];
  const overSocket = (async () => {
    for await (const { data } of client.iterate<FormattedExecutionResult>({ query: STREAM })) items.push(data);
  })().then(
    () => "completed",
    (error: unknown) => error,
  );
  const { hostname, port } = new URL(url);
  const body = JSON.stringify({ query: STREAM.replace("nodeTransitions", 'nodeTransitions(after: "0")') });
  const stalledReader = connect(Number(port), hostname, () => {
    stalledReader.write(
      `POST /graphql HTTP/1.1\r\nhost: ${hostname}\r\ncontent-type: application/json\r\naccept: text/event-stream\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    stalledReader.pause();
  });
  stalledReader.on("error", () => {});
  const stalledSocket = new WebSocket(`${url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
  stalledSocket.on("error", () => {});
  await once(stalledSocket, "open");
  stalledSocket.pause();
  await eventually("both streams are live, and three requests wait for a lock", async () => {
    const [row] =
      await database.sql`select count(*)::int as count from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
    return items.length > 0 && Number(row?.["count"]) >= 3;
  });

  const began = Date.now();
  child.kill("SIGTERM");
  await eventually("new connections are refused", () =>
    fetch(`${url}/livez`).then(
      () => false,
      () => true,
    ),
  );
  await soon.release();
  expect(await due).toMatchObject({
    data: { setMaintenance: { nodes: [{ maintenance: { reason: "due" } }], errors: [] } },
  });
  const sent = await eventsText;
  expect(sent).toContain('"StreamReset","code":"SHUTTING_DOWN"');
  expect(sent).not.toContain("event: complete");
  expect(await overSocket).toMatchObject({ code: 1001 });
  expect(items.at(-1)).toEqual({ nodeTransitions: { __typename: "StreamReset", code: "SHUTTING_DOWN" } });
  expect(await closed).toBe(1001);
  expect(await exited).toEqual([0, null]);
  expect(Date.now() - began).toBeLessThan(END_MS);
  for (const hung of [mutation, query])
    expect(await hung).toMatchObject({ errors: [{ extensions: { code: "SHUTTING_DOWN" } }] });
  stalledSocket.terminate();
  stalledReader.destroy();
  await stuck.release();
  // Another process takes over the step that did not end: at once, or as soon as the lease has expired.
  expect(
    await database.sql`select from runs where finished_at is null and (due_at is not null or lease_until is not null)`,
  ).toHaveLength(1);
}, 90_000);
