/**
 * The service as its clients meet it, in this process: server, engine and feed on a database of the test's own, and the
 * three ways to talk to it: HTTP, WebSocket (graphql-ws) and server-sent events.
 */
import { createClient } from "graphql-ws";
import type { Client } from "graphql-ws";
import type { FormattedExecutionResult, GraphQLSchema } from "graphql";
import { expect } from "vitest";
import { WebSocket } from "ws";
import { Authenticator } from "../../src/access/authenticator.ts";
import { Directory } from "../../src/access/directory.ts";
import { signInAt } from "../../src/access/issuer-sign-in.ts";
import { JwtVerifier } from "../../src/access/jwt.ts";
import createFake from "../../plugins/fake/index.ts";
import type { IssuerConfig } from "../../src/config/oidc.ts";
import type { TlsFiles } from "../../src/config/values.ts";
import type { Driver } from "../../src/drivers/driver.ts";
import { createRegistry } from "../../src/drivers/registry.ts";
import type { AnyDriver } from "../../src/drivers/interfaces.ts";
import { createEngine } from "../../src/engine/engine.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { createTransact } from "../../src/engine/transaction.ts";
import type { Transact } from "../../src/engine/transaction.ts";
import { createTail } from "../../src/feed/log/tail.ts";
import type { Tail } from "../../src/feed/log/tail.ts";
import { buildSchema, hashOfSchema, schemaText } from "../../src/graphql/schema/schema.ts";
import { createLog } from "../../src/log.ts";
import type { Log } from "../../src/log.ts";
import { startServer } from "../../src/http/port/server.ts";
import type { RunningServer } from "../../src/http/port/server.ts";
import { createNotifier } from "../../src/store/postgres/notifier.ts";
import { openDatabase } from "../../src/store/postgres/database.ts";
import type { Database } from "../../src/store/postgres/database.ts";
import { createTelemetry } from "../../src/telemetry/telemetry.ts";
import { testDatabase } from "./database.ts";
import type { TestDatabase } from "./database.ts";
import { eventually } from "./eventually.ts";
import { countListeners } from "./feed.ts";
import { testKeyring } from "./keyring.ts";
import { inputTypeOf } from "./input-type.ts";

export type Variables = Readonly<Record<string, unknown>>;

/** The response to one request, including its bytes. */
export interface Answer<Data = Record<string, unknown>> {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly data: Data | null | undefined;
  readonly errors: readonly {
    readonly message: string;
    readonly path?: readonly (string | number)[];
    readonly extensions?: Readonly<Record<string, unknown>>;
  }[];
}

/** A subscription. `return()` leaves it, as a client does that goes away. */
export type Items<Data> = AsyncIterableIterator<Data>;

export interface ServiceSetup {
  /** Folder with the files of stored images. */
  readonly imageFolder?: string;
  readonly token?: string;
  /** Another one, whose database this one shares, as replicas do. */
  readonly beside?: Pick<ServiceUnderTest, "test">;
  /** Principals that are always administrators. */
  readonly admins?: readonly string[];
  /** Issuers of JWTs. */
  readonly issuers?: readonly IssuerConfig[];
  /** Drivers in addition to `fake`. */
  readonly drivers?: readonly Driver<never>[];
  readonly concurrency?: number;
  /** false: requests are admitted and wait. */
  readonly started?: boolean;
  readonly introspection?: boolean;
  /** Folder of the package of the web console. */
  readonly consoleFolder?: string;
  readonly origins?: readonly string[];
  /** The certificate of the port. The requests of this harness need HTTP in clear. */
  readonly tls?: TlsFiles;
  readonly proxies?: readonly string[];
  readonly bodyBytesMax?: number;
  /** How long a query may take, and an answer wait for its client, in milliseconds. */
  readonly queryMs?: number;
  readonly takeMs?: number;
  /** How long an idle connection stays open, in milliseconds. */
  readonly keepAliveMs?: number;
  /** Queries, and mutations, executed at a time; and how long others wait, in milliseconds. */
  readonly requestsMax?: number;
  readonly waitMs?: number;
  /** Another address of the test's database, given its URL. */
  readonly databaseUrl?: (url: string) => string;
  /** Whether the database answers, in place of asking it. */
  readonly isAnswering?: () => Promise<boolean>;
  /** Called with the text of each statement that a request reads by. */
  readonly onStatement?: (text: string) => void;
  /** Whether metrics and, as far as the environment asks for them, traces are made of what it does. */
  readonly watched?: true;
}

export interface ServiceUnderTest extends AsyncDisposable {
  readonly url: string;
  readonly engine: Engine;
  readonly database: Database;
  readonly tail: Tail;
  readonly schema: GraphQLSchema;
  /** How many streams listen to the log of transitions at this moment. */
  listeners(): number;
  /** How many streams listen to the log of changes at this moment. */
  changeListeners(): number;
  /** Resolves when every change has its position. A list may be ahead of its cursor until then. */
  changesNumbered(): Promise<unknown>;
  readonly transact: Transact;
  readonly test: TestDatabase;
  /** Every line that was logged so far, of every level. */
  readonly logLines: readonly string[];
  /** The data of an answer without errors; anything else fails the test. */
  query<Data = Record<string, unknown>>(text: string, variables?: Variables): Promise<Data>;
  /** The whole answer, whatever it is. */
  ask<Data = Record<string, unknown>>(
    text: string,
    variables?: Variables,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Answer<Data>>;
  /** A client of graphql-ws that does not reconnect. */
  client(token?: string): Client;
  /** A subscription over a WebSocket of its own. `token`: in place of the configured one. */
  overSocket<Data>(text: string, variables?: Variables, token?: string): Items<Data>;
  /** A subscription over server-sent events. */
  overEvents<Data>(text: string, variables?: Variables, token?: string): Items<Data>;
  /** Registers fake nodes, by count or by name, with settings. Returns their names. */
  register(names: readonly string[] | number, settings?: unknown): Promise<string[]>;
  /** Starts a verb on named nodes; fails the test when it is refused. Answers the operation's UUID. */
  begin(verb: string, names: readonly string[], more?: Variables): Promise<string>;
  /** The operation's final state, as soon as it has one. */
  operationEnds(uuid: string, withinMs?: number): Promise<string>;
  /** Takes nodes through a commission and waits for its end. */
  commission(names: readonly string[], until?: "AVAILABLE" | "ACTIVE"): Promise<void>;
  /** Every byte of every table of ours but those named and the log of changes, without leases. */
  dump(except?: readonly string[]): Promise<string>;
  /** Ends the server, and leaves database and engine for a look afterwards. */
  close(): Promise<void>;
}

/** Tables of the audit: a request that changes nothing has a row there. */
export const AUDIT = ["audit", "audit_position"];

const ABORT_GRACE_MS = 200;
const ABORT_CLEAN_UP_MS = 1_000;
const DRAIN_MS = 500;

let nodesMade = 0;

interface ServedSchema {
  readonly schema: GraphQLSchema;
  readonly text: string;
  readonly hash: string;
}

/** The schema with the driver `fake` alone. It holds no service, so all of this process share it. */
let schemaOfFake: ServedSchema | undefined;

function schemaOf(drivers: readonly AnyDriver[]): ServedSchema {
  const schema = buildSchema(drivers);
  const text = schemaText(schema);
  return { schema, text, hash: hashOfSchema(text) };
}

export async function serviceUnderTest(setup: ServiceSetup = {}): Promise<ServiceUnderTest> {
  await using making = new AsyncDisposableStack();
  const logLines: string[] = [];
  const log: Log = createLog("trace", { write: (line: string) => void logLines.push(line) });
  const test = setup.beside?.test ?? making.use(await testDatabase());
  const database = making.use(
    await openDatabase({
      connection: setup.databaseUrl ? { url: setup.databaseUrl(test.url) } : test.connection,
      connectionsMax: 10,
      ...(setup.onStatement && {
        // Looking for changes of access is periodic.
        onStatement: (text: string) => void (text.includes('"access_version"') || setup.onStatement?.(text)),
      }),
    }),
  );
  const notifier = making.use(await createNotifier(database, (error) => log.warn({ err: error }, "notifier")));
  const telemetry = setup.watched && making.use(await createTelemetry({ log, version: "0.0.0-test" }));
  const observer = telemetry ? { observer: telemetry.observer } : {};
  const counted = countListeners(making.use(await createTail({ database, notifier, log, ...observer })));
  const { tail } = counted;
  const fake = createFake({ log: (message) => log.info(message) }) as unknown as AnyDriver;
  const registry = making.use(createRegistry([fake, ...((setup.drivers ?? []) as unknown as AnyDriver[])]));
  const working = making.use(
    await createEngine({
      database,
      registry,
      keyring: await testKeyring(database),
      notifier,
      log,
      ...observer,
      concurrency: setup.concurrency ?? 32,
      abortGraceMs: ABORT_GRACE_MS,
      abortCleanUpMs: ABORT_CLEAN_UP_MS,
      drainMs: DRAIN_MS,
      principals: { admins: setup.admins ?? [], issuers: (setup.issuers ?? []).map(({ name }) => name) },
      ...(setup.imageFolder !== undefined && { imageFolder: setup.imageFolder }),
    }),
  );
  const engine = telemetry?.watch(working) ?? working;
  const { schema, text, hash } = setup.drivers ? schemaOf(registry.drivers) : (schemaOfFake ??= schemaOf([fake]));
  const asked = { ...database, ...(setup.isAnswering && { isAnswering: setup.isAnswering }) };
  const directory = making.use(
    await Directory.open({
      reader: database.bounded,
      transaction: database.transaction,
      admins: setup.admins ?? [],
      onFailure: (error) => log.warn({ err: error }, "directory"),
    }),
  );
  const jwts = making.use(new JwtVerifier({ issuers: setup.issuers ?? [] }));
  const authenticator = new Authenticator({ directory, token: setup.token ?? null, jwts });
  const services = {
    database: asked,
    registry,
    engine,
    tail,
    access: authenticator,
    schema,
    version: "0.0.0-test",
    schemaHash: hash,
  };
  let server: RunningServer | null = await startServer({
    host: "127.0.0.1",
    port: 0,
    authenticator,
    signInAt: signInAt(setup.issuers ?? []),
    keepAliveMs: setup.keepAliveMs ?? 75_000,
    ...httpOptions(setup),
    schema,
    schemaText: text,
    services,
    log,
    ...observer,
    ...(telemetry && { scrape: telemetry.scrapeOf(database.bounded, registry.circuits) }),
  });
  const { url } = server;
  const close = async () => {
    const open = server;
    server = null;
    await open?.[Symbol.asyncDispose]();
  };
  making.defer(close);
  if (setup.started ?? true) await engine.start();
  const owned = making.move();
  const clients = new Set<Client>();
  const authorizationOf = (token = setup.token): Readonly<Record<string, string>> =>
    token === undefined ? {} : { authorization: `Bearer ${token}` };
  const authorization = authorizationOf();

  const ask = async <Data>(
    query: string,
    variables: Variables = {},
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer<Data>> => {
    const response = await fetch(`${url}/graphql`, {
      method: "POST",
      headers: { "content-type": "application/json", ...authorization, ...headers },
      body: JSON.stringify({ query, variables }),
    });
    const body = await response.text();
    const read = (
      response.headers.get("content-type")?.includes("json") ? JSON.parse(body) : {}
    ) as FormattedExecutionResult;
    return {
      status: response.status,
      headers: response.headers,
      text: body,
      data: read.data as Data | null | undefined,
      errors: read.errors ?? [],
    };
  };

  const query = async <Data>(request: string, variables?: Variables): Promise<Data> => {
    const answer = await ask<Data>(request, variables);
    expect(answer.errors, request).toEqual([]);
    return answer.data as Data;
  };

  const client = (token?: string) => {
    const made = createClient({
      url: `${url.replace("http", "ws")}/graphql`,
      webSocketImpl: WebSocket,
      retryAttempts: 0,
      lazy: true,
      connectionParams: authorizationOf(token),
    });
    clients.add(made);
    return made;
  };

  const begin: ServiceUnderTest["begin"] = async (verb, names, more = {}) => {
    const data = await query<Record<string, { operation: { uuid: string } | null; errors: unknown[] }>>(
      `mutation Begin($input: ${inputTypeOf(verb)}!) { ${verb}(input: $input) { operation { uuid } errors { code message } } }`,
      {
        input: { nodes: { names }, ...more },
      },
    );
    expect(data[verb]?.errors).toEqual([]);
    return data[verb]?.operation?.uuid ?? "";
  };

  const operationEnds: ServiceUnderTest["operationEnds"] = (uuid, withinMs) =>
    eventually(
      `operation ${uuid} ends`,
      async () => {
        const { operation } = await query<{ operation: { state: string; finishedAt: string | null } }>(
          "query State($id: ID!) { operation(id: $id) { state finishedAt } }",
          { id: uuid },
        );
        return operation.finishedAt !== null && operation.state;
      },
      withinMs,
    );

  return {
    url,
    engine,
    database,
    tail,
    schema,
    listeners: counted.listeners,
    changeListeners: counted.changeListeners,
    changesNumbered: () =>
      eventually("every change is numbered", async () => (await test.sql`select from change_inbox`).length === 0),
    transact: createTransact(database, notifier),
    test,
    logLines,
    ask,
    query,
    client,
    overSocket: <Data>(request: string, variables: Variables = {}, token?: string) =>
      dataOf(
        client(token).iterate({ query: request, variables }) as AsyncIterableIterator<FormattedExecutionResult<Data>>,
      ),
    overEvents: <Data>(request: string, variables: Variables = {}, token?: string) =>
      events<Data>(`${url}/graphql`, { query: request, variables }, authorizationOf(token)),
    async register(names, settings) {
      const list =
        typeof names === "number"
          ? Array.from({ length: names }, () => `node-${String((nodesMade += 1)).padStart(4, "0")}`)
          : [...names];
      const { registerNodes } = await query<{ registerNodes: { errors: unknown[] } }>(
        "mutation Register($input: RegisterNodesInput!) { registerNodes(input: $input) { errors { message } } }",
        {
          input: { nodes: list.map((name) => ({ name, driver: { fake: settings ?? {} } })) },
        },
      );
      expect(registerNodes.errors).toEqual([]);
      return list;
    },
    begin,
    operationEnds,
    async commission(names, until = "ACTIVE") {
      expect(await operationEnds(await begin("commissionNodes", names, { until }))).toBe("SUCCEEDED");
    },
    async dump(except = []) {
      const tables = await test.sql<
        { name: string }[]
      >`select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE' and table_name not in ('clock', 'change_inbox', 'changes', 'change_position', 'audit_position') order by 1`;
      const parts: string[] = [];
      for (const { name } of tables.filter((table) => !except.includes(table.name))) {
        // Written later than what they belong to.
        const later = ["lease_until", "last_used_at", ...(name === "audit" ? ["position"] : [])];
        const [row] =
          await test.sql`select jsonb_agg(t - ${later}::text[] order by t::text)::text as rows from (select to_jsonb(t) as t from ${test.sql(name)} t) t`;
        parts.push(`${name} ${String(row?.["rows"])}`);
      }
      return parts.join("\n");
    },
    close,
    async [Symbol.asyncDispose]() {
      for (const made of clients) await made.dispose();
      await owned.disposeAsync();
    },
  };
}

/** A fake node in the state that a verification or a commission leads to; `steps` script its steps. */
export async function registeredNode(
  ostler: ServiceUnderTest,
  state: "ENROLLED" | "MANAGEABLE" | "AVAILABLE" | "ACTIVE" = "ENROLLED",
  steps: object = {},
): Promise<string> {
  const [name = ""] = await ostler.register(1, { steps });
  if (state === "MANAGEABLE") await ostler.operationEnds(await ostler.begin("manageNodes", [name]));
  else if (state !== "ENROLLED") await ostler.commission([name], state);
  return name;
}

function httpOptions(setup: ServiceSetup) {
  const { introspection, consoleFolder, origins, tls, proxies, bodyBytesMax, queryMs, requestsMax, waitMs, takeMs } =
    setup;
  return {
    ...(tls && { tls }),
    ...(proxies && { proxies }),
    ...(introspection !== undefined && { introspection }),
    ...(consoleFolder !== undefined && { consoleFolder }),
    ...(origins && { origins }),
    ...(bodyBytesMax !== undefined && { bodyBytesMax }),
    ...(queryMs !== undefined && { queryMs }),
    ...(requestsMax !== undefined && { requestsMax }),
    ...(waitMs !== undefined && { waitMs }),
    ...(takeMs !== undefined && { takeMs }),
  };
}

/** The data of each item of a graphql-ws subscription; errors end it. */
function dataOf<Data>(results: AsyncIterableIterator<FormattedExecutionResult<Data>>): Items<Data> {
  return {
    async next() {
      const { done, value } = await results.next().catch((errors: unknown) => {
        throw Array.isArray(errors) ? new Error(sentence(errors as Answer["errors"])) : errors;
      });
      return done ? { done, value: undefined } : { done: false, value: dataOrThrow(value) };
    },
    async return() {
      await results.return?.();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

function dataOrThrow<Data>({ data, errors }: FormattedExecutionResult<Data>): Data {
  if (errors) throw new Error(sentence(errors));
  return data as Data;
}

function sentence(errors: Answer["errors"]): string {
  return errors.map(({ message, extensions }) => `${String(extensions?.["code"])}: ${message}`).join(" ");
}

/** Reads `text/event-stream` as graphql-sse's distinct connections mode has it. `return()` cuts the connection. */
function events<Data>(
  url: string,
  request: { readonly query: string; readonly variables: Variables },
  headers: Readonly<Record<string, string>>,
): Items<Data> {
  const leave = new AbortController();
  const read = eventsUntil<Data>(url, request, headers, leave.signal);
  return {
    next: () => read.next(),
    return() {
      leave.abort();
      return Promise.resolve({ done: true, value: undefined });
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

async function* eventsUntil<Data>(
  url: string,
  request: { readonly query: string; readonly variables: Variables },
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Items<Data> {
  const response = await fetch(url, {
    method: "POST",
    signal,
    headers: { "content-type": "application/json", accept: "text/event-stream", ...headers },
    body: JSON.stringify(request),
  });
  if (!response.ok || !response.body)
    throw new Error(`The stream was answered with ${response.status}: ${await response.text()}`);
  let pending = "";
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const whole = (pending + chunk).split("\n\n");
    pending = whole.pop() ?? "";
    for (const event of whole) {
      if (/^event: complete/m.test(event)) return;
      const data = /^data: (.*)$/m.exec(event)?.[1];
      if (data !== undefined) yield dataOrThrow(JSON.parse(data) as FormattedExecutionResult<Data>);
    }
  }
  throw new Error("The stream broke off.");
}

/** Takes items until one fits, and answers all of them, that one last. The stream goes on. */
export async function takeUntil<Item>(items: AsyncIterator<Item>, fits: (item: Item) => boolean): Promise<Item[]> {
  const taken: Item[] = [];
  for (;;) {
    const { done, value } = await items.next();
    if (done)
      throw new Error(
        `The stream ended after ${taken.length} items, before what was waited for: ${JSON.stringify(taken.at(-1))}.`,
      );
    taken.push(value);
    if (fits(value)) return taken;
  }
}

/** Takes all items until the stream ends. */
export async function takeAll<Item>(items: AsyncIterator<Item>): Promise<Item[]> {
  const taken: Item[] = [];
  for (;;) {
    const { done, value } = await items.next();
    if (done) return taken;
    taken.push(value);
  }
}
