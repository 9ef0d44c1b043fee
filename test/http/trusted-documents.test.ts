/** Registered documents, and tokens that send nothing else, over every transport. */
import { once } from "node:events";
import { ApolloClient, HttpLink, InMemoryCache, gql } from "@apollo/client";
import { PersistedQueryLink } from "@apollo/client/link/persisted-queries";
import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { unfitDocuments } from "../../src/graphql/execution/document-reading.ts";
import { documents } from "../../src/store/tables.ts";
import { documentIdOf } from "../../src/runtime/document-id.ts";
import { administratorOf, as } from "../support/accounts.ts";
import { eventually } from "../support/eventually.ts";
import { serviceUnderTest } from "../support/service.ts";
import type { Variables } from "../support/service.ts";
import { EACH_TRANSPORT, TRANSPORTS } from "./transports.ts";
import type { ApiRequest, Result } from "./transports.ts";

const TOKEN = "a-token-of-some-length";
const ostler = await serviceUnderTest({ token: TOKEN });
afterAll(() => ostler[Symbol.asyncDispose]());

const WHO = "query Who { viewer { subject } }";
const FIND =
  "query Find($name: String!, $skips: Boolean! = false) { node(by: { name: $name }) { name @skip(if: $skips) } }";
const HOLD = `mutation Hold($names: [String!]!, $reason: String!) {
  setMaintenance(input: { nodes: { names: $names }, reason: $reason }) { errors { code } }
}`;
const FOLLOW = "subscription Follow { nodeTransitions(snapshot: true) { __typename } }";

interface Edited {
  readonly errors: readonly {
    readonly code: string;
    readonly message: string;
    readonly path: readonly string[] | null;
  }[];
  readonly documents?: readonly { readonly id: string; readonly operation: string | null; readonly kind: string }[];
  readonly secret?: string;
  readonly token?: { readonly tokenId: string };
}

async function register(input: Variables): Promise<Edited> {
  const { registerDocuments } = await ostler.query<{ registerDocuments: Edited }>(
    "mutation Register($input: RegisterDocumentsInput!) { registerDocuments(input: $input) { documents { id operation kind } errors { code message path } } }",
    { input },
  );
  return registerDocuments;
}

const registerTexts = (...texts: readonly string[]) => register({ documents: texts.map((text) => ({ text })) });

const administrator = administratorOf(ostler);

/** The token of a new account with a role, bound to documents. */
async function robot(bound: readonly Variables[] | undefined, role: string | null = "operator"): Promise<string> {
  const { token } = await administrator.accountWith({
    roles: role === null ? [] : [role],
    token: { documents: bound },
  });
  return token;
}

/** The rows of a token in the audit. */
async function rowsOf(secret: string, { sql } = ostler.test): Promise<unknown[]> {
  const tokenId = secret.slice("ost_".length).slice(0, 10);
  return [...(await sql`select action, outcome, code, document from audit where credential = ${tokenId} order by id`)];
}

const id = documentIdOf;
const persisted = (text: string) => ({ persistedQuery: { version: 1, sha256Hash: id(text).slice("sha256:".length) } });
const codeOf = ({ errors = [] }: Result) => errors[0]?.extensions?.["code"];

beforeAll(async () => {
  await ostler.register(["one", "two"]);
  await registerTexts(WHO, FIND, HOLD, FOLLOW);
});

describe.each(EACH_TRANSPORT)("over $name", ({ name, ask }) => {
  const send = (secret: string, request: ApiRequest) => ask(ostler.url, { ...request, headers: as(secret) });
  const mayWrite = name !== "GET";

  test("a registered document is sent by its id, in each of its forms [R-1005]", async () => {
    const viewer = await administrator.account("viewer");
    const forms = [{ documentId: id(WHO) }, { extensions: persisted(WHO) }, { extensions: { documentId: id(WHO) } }];
    for (const form of forms)
      expect((await send(viewer.token, form)).data).toEqual({ viewer: { subject: `account:${viewer.name}` } });
    expect(
      (await send(viewer.token, { documentId: id(FIND), variables: { name: "one" }, operationName: "Find" })).data,
    ).toEqual({ node: { name: "one" } });
  });

  test("an unknown id is PERSISTED_QUERY_NOT_IN_LIST, and a request registers nothing [R-1006]", async () => {
    const text = `query Unregistered${name.replaceAll(/\W/g, "")} { viewer { subject } }`;
    expect(codeOf(await send(TOKEN, { documentId: id(text) }))).toBe("PERSISTED_QUERY_NOT_IN_LIST");
    expect((await send(TOKEN, { query: text, extensions: persisted(text) })).errors).toBeUndefined();
    expect(codeOf(await send(TOKEN, { extensions: persisted(text) }))).toBe("PERSISTED_QUERY_NOT_IN_LIST");
    expect(codeOf(await send(await robot([{ id: id(WHO) }]), { documentId: "unknown" }))).toBe(
      "PERSISTED_QUERY_NOT_IN_LIST",
    );
  });

  test("an id and another text, or two ids, are a BAD_REQUEST [R-1007]", async () => {
    const bound = await robot([{ id: id(WHO) }, { id: id(FIND) }]);
    for (const secret of [TOKEN, bound]) {
      expect(codeOf(await send(secret, { documentId: id(WHO), query: `${WHO} ` }))).toBe("BAD_REQUEST");
      expect(codeOf(await send(secret, { query: FIND, extensions: persisted(WHO) }))).toBe("BAD_REQUEST");
      expect(codeOf(await send(secret, { documentId: id(WHO), extensions: persisted(FIND) }))).toBe("BAD_REQUEST");
      expect((await send(secret, { documentId: id(WHO), query: WHO })).errors).toBeUndefined();
    }
  });

  test("a token that is bound to documents sends only these, by id or exact text [R-1008]", async () => {
    const bound = await robot([{ id: id(WHO) }]);
    expect((await send(bound, { query: WHO })).errors).toBeUndefined();
    expect((await send(bound, { documentId: id(WHO) })).errors).toBeUndefined();
    const others = [
      { query: `${WHO} ` },
      { query: "{ viewer { subject } }" },
      { query: "{ __schema { queryType { name } } }" },
      { query: `${WHO} query Other { nodes { totalCount } }`, operationName: "Other" },
      { query: FIND, variables: { name: "one" } },
      { documentId: id(FIND), variables: { name: "one" } },
    ];
    for (const request of others) expect(codeOf(await send(bound, request)), request.query).toBe("FORBIDDEN");
  });

  test("a fixed variable has no other value, and one that is left out has the fixed one [R-1009]", async () => {
    const bound = await robot([{ id: id(FIND), variables: { name: "one", skips: true } }, { id: id(WHO) }]);
    const find = (variables?: Variables) => send(bound, { documentId: id(FIND), ...(variables && { variables }) });
    expect((await find({ name: "one", skips: true })).data).toEqual({ node: {} });
    expect((await find({ skips: true })).data).toEqual({ node: {} });
    const others = [
      { name: "two", skips: true },
      { name: null, skips: true },
      { name: ["one"], skips: true },
      { skips: null },
      { skips: false },
      // The default of the document is false.
      { name: "one" },
      undefined,
    ];
    for (const variables of others) expect(codeOf(await find(variables)), JSON.stringify(variables)).toBe("FORBIDDEN");
    expect(codeOf(await send(bound, { query: FIND, variables: { name: "two", skips: true } }))).toBe("FORBIDDEN");
  });

  test.runIf(mayWrite)("the role of a token counts beside its documents [R-1010]", async () => {
    const bound = [{ id: id(HOLD), variables: { names: ["one"] } }];
    const hold = { documentId: id(HOLD), variables: { reason: "test" } };
    expect((await send(await robot(bound), hold)).data).toEqual({ setMaintenance: { errors: [] } });
    const refused = await send(await robot(bound, "viewer"), hold);
    expect(refused.errors?.[0]?.message).toContain("requires the scope OPERATE");
    expect((await send(await robot(bound, null), hold)).errors?.[0]?.message).toContain("no role is granted");
  });

  test("the audit has each document that a bound token was denied [R-1015]", async () => {
    const bound = await robot([{ id: id(FIND), variables: { name: "one", skips: true } }]);
    await send(bound, { query: WHO });
    await send(bound, { documentId: id(FIND), variables: { name: "two" } });
    const denied = { action: "DOCUMENT", outcome: "FORBIDDEN", code: "FORBIDDEN" };
    expect(await rowsOf(bound)).toEqual([
      { ...denied, document: null },
      { ...denied, document: id(FIND) },
    ]);
  });

  test.runIf(mayWrite)("a row of the audit names the registered document that was sent [R-1016]", async () => {
    const bound = await robot([{ id: id(HOLD), variables: { names: ["one"] } }]);
    await send(bound, { documentId: id(HOLD), variables: { reason: "test" } });
    expect(await rowsOf(bound)).toMatchObject([{ action: "setMaintenance", document: id(HOLD) }]);
    const free = await robot(undefined);
    await send(free, { documentId: id(HOLD), variables: { names: ["one"], reason: "test" } });
    await send(free, { query: HOLD, variables: { names: ["one"], reason: "test" } });
    expect(await rowsOf(free)).toMatchObject([{ document: id(HOLD) }, { document: null }]);
  });
});

test.each(["server-sent events", "WebSocket"] as const)("a registered subscription begins over %s", async (name) => {
  const bound = await robot([{ id: id(FOLLOW) }]);
  const first = await TRANSPORTS[name](ostler.url, { documentId: id(FOLLOW), headers: as(bound) });
  expect(first.errors).toBeUndefined();
  expect(Object.keys(first.data ?? {})).toEqual(["nodeTransitions"]);
});

test("a document without a query is sent over a WebSocket, and its refusal leaves the socket open", async () => {
  const socket = new WebSocket(`${ostler.url.replace("http", "ws")}/graphql`, "graphql-transport-ws", {
    headers: as(await robot([{ id: id(WHO) }])),
  });
  const received: { id?: string; type: string }[] = [];
  socket.on("message", (data: Buffer) => received.push(JSON.parse(data.toString()) as { type: string }));
  await once(socket, "open");
  socket.send(JSON.stringify({ type: "connection_init" }));
  await eventually("the connection is acknowledged", () => received.length === 1);
  const send = (key: string, payload: object) => socket.send(JSON.stringify({ id: key, type: "subscribe", payload }));
  send("forbidden", { documentId: id(FIND) });
  send("good", { documentId: id(WHO) });
  await eventually("both are answered", () => received.length >= 4);
  expect(received.map(({ id: key, type }) => `${key ?? ""} ${type}`).toSorted()).toEqual(
    [" connection_ack", "forbidden error", "good complete", "good next"].toSorted(),
  );
  socket.close();
  await once(socket, "close");
});

test("a caller without a role learns nothing about documents", async () => {
  const roleless = await robot(undefined, null);
  expect(codeOf(await TRANSPORTS.POST(ostler.url, { documentId: id(FIND), headers: as(roleless) }))).toBe(
    "PERSISTED_QUERY_NOT_IN_LIST",
  );
});

test.each(["/metrics", "/schema.graphql"])(
  "%s is not for a token that is bound to documents [R-1008]",
  async (path) => {
    await using watched = await serviceUnderTest({ token: TOKEN, watched: true });
    const { edit, accountWith } = administratorOf(watched);
    await edit("registerDocuments", { documents: [{ text: WHO }] });
    const { token } = await accountWith({ roles: ["admin"], token: { documents: [{ id: id(WHO) }] } });
    const response = await fetch(`${watched.url}${path}`, { headers: as(token) });
    expect(response.status).toBe(403);
    expect(await response.text()).toContain("bound to documents");
    const rows = () => rowsOf(token, watched.test);
    await eventually("the denial has a row", async () => (await rows()).length > 0);
    expect(await rows()).toMatchObject([{ action: path, outcome: "FORBIDDEN" }]);
  },
);

test("a mutation is not sent by GET, by its id neither", async () => {
  const secret = await robot([{ id: id(HOLD), variables: { names: ["one"] } }]);
  const response = await fetch(`${ostler.url}/graphql?documentId=${encodeURIComponent(id(HOLD))}`, {
    headers: { accept: "application/json", ...as(secret) },
  });
  expect(response.status).toBe(405);
});

test("several requests in one body are refused, those of documents too", async () => {
  const response = await fetch(`${ostler.url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", ...as(await robot([{ id: id(WHO) }])) },
    body: JSON.stringify([{ documentId: id(WHO) }, { documentId: id(WHO) }]),
  });
  expect([response.status, await response.text()]).toMatchObject([400, expect.stringContaining("BAD_REQUEST")]);
});

test("Apollo Client sends what is registered by hash, and another query in full", async () => {
  const sent: string[] = [];
  const link = new PersistedQueryLink({ sha256: (text) => createHash("sha256").update(text).digest("hex") }).concat(
    new HttpLink({
      uri: `${ostler.url}/graphql`,
      headers: as(TOKEN),
      fetch(url, init) {
        sent.push(typeof init?.body === "string" && "query" in (JSON.parse(init.body) as object) ? "text" : "hash");
        return fetch(url, init);
      },
    }),
  );
  const client = new ApolloClient({ link, cache: new InMemoryCache() });
  const registered = "query Registered {\n  viewer {\n    subject\n    __typename\n  }\n}";
  await registerTexts(registered);
  expect((await client.query({ query: gql(registered) })).data).toMatchObject({ viewer: { subject: "token" } });
  expect(sent).toEqual(["hash"]);
  expect((await client.query({ query: gql("query Free { service { version } }") })).data).toMatchObject({
    service: { version: "0.0.0-test" },
  });
  expect(sent).toEqual(["hash", "hash", "text"]);
  client.stop();
});

describe("registration", () => {
  const shown = async () =>
    (await ostler.query<{ trustedDocuments: { id: string }[] }>("{ trustedDocuments { id } }")).trustedDocuments.map(
      (document) => document.id,
    );

  test.each([
    ["two operations", "query A { viewer { subject } } query B { viewer { subject } }", /has 2/],
    ["no operation", "fragment A on Viewer { subject }", /has none/],
    ["a syntax error", "query {", /Syntax Error/],
    ["an unknown field", "{ unknown }", /Cannot query field "unknown"/],
    [
      "a cost above the limit",
      "{ nodes(first: 1000) { edges { node { verbs { code } actions { code } } } } }",
      /objects in the response/,
    ],
    ["introspection", "{ __schema { queryType { name } } }", /[Ii]ntrospection/],
    ["too many bytes", `# ${"x".repeat(65_536)}\n${WHO}`, /bytes/],
  ])(
    "a document with %s is refused with its path, and nothing is registered [R-1011]",
    async (_what, text, message) => {
      const good = `query Good { viewer { subject roles } } # ${text.length}`;
      const { errors } = await registerTexts(good, text);
      expect(errors).not.toEqual([]);
      expect(errors[0]).toMatchObject({ code: "INVALID_INPUT", path: ["input", "documents", "1", "text"] });
      expect(errors[0]?.message).toMatch(message);
      expect(await shown()).not.toContain(id(good));
    },
  );

  test("a text that is registered stays, and its name is that of its operation", async () => {
    const { documents: first } = await registerTexts(WHO);
    expect(first).toEqual([{ id: id(WHO), operation: "Who", kind: "QUERY" }]);
    const text = "{ viewer { groups } }";
    expect((await register({ documents: [{ text, name: "groups of mine" }] })).documents).toEqual([
      { id: id(text), operation: "groups of mine", kind: "QUERY" },
    ]);
  });

  test("nothing to do, and the removal of an unknown document, are refused", async () => {
    expect((await register({})).errors).toMatchObject([{ code: "INVALID_INPUT" }]);
    const text = "{ viewer { roles groups } }";
    expect((await register({ documents: [{ text }], remove: ["sha256:0"] })).errors).toMatchObject([
      { code: "NOT_FOUND", path: ["input", "remove", "0"] },
    ]);
    expect(await shown()).not.toContain(id(text));
  });

  test("a document is not removed while a token that can be used is bound to it [R-1012]", async () => {
    const text = "query Removed { viewer { subject } }";
    await registerTexts(text);
    const bound = await administrator.accountWith({ roles: [], token: { documents: [{ id: id(text) }] } });
    expect((await register({ remove: [id(text)] })).errors).toMatchObject([
      {
        code: "IN_USE",
        path: ["input", "remove", "0"],
        message: expect.stringContaining(bound.tokenId) as string,
      },
    ]);
    await administrator.revoke(bound);
    expect((await TRANSPORTS.POST(ostler.url, { documentId: id(text), headers: as(TOKEN) })).errors).toBeUndefined();
    expect((await register({ remove: [id(text)] })).errors).toEqual([]);
    expect(codeOf(await TRANSPORTS.POST(ostler.url, { documentId: id(text), headers: as(TOKEN) }))).toBe(
      "PERSISTED_QUERY_NOT_IN_LIST",
    );
  });

  test("a document that the schema no longer has is named with its flaws, and by a start [R-1013]", async () => {
    const text = "query Gone { xyzzy }";
    await ostler.database.transaction((tx) =>
      tx.insert(documents).values({ id: id(text), text, operation: "Gone", kind: "QUERY", registeredBy: "test" }),
    );
    const { trustedDocuments } = await ostler.query<{ trustedDocuments: { operation: string; flaws: string[] }[] }>(
      "{ trustedDocuments { operation flaws } }",
    );
    expect(trustedDocuments.filter(({ flaws }) => flaws.length > 0)).toEqual([
      { operation: "Gone", flaws: ['Cannot query field "xyzzy" on type "Query".'] },
    ]);
    expect(await unfitDocuments(ostler.database.reader, ostler.schema)).toEqual(["Gone"]);
    expect(codeOf(await TRANSPORTS.POST(ostler.url, { documentId: id(text), headers: as(TOKEN) }))).toBe(
      "GRAPHQL_VALIDATION_FAILED",
    );
  });
});

describe("a token for documents", () => {
  test.each<[string, readonly Variables[], string, readonly string[]]>([
    ["no document", [], "INVALID_INPUT", ["input", "documents"]],
    ["an unknown document", [{ id: "sha256:0" }], "NOT_FOUND", ["input", "documents", "0", "id"]],
    ["a document twice", [{ id: id(WHO) }, { id: id(WHO) }], "INVALID_INPUT", ["input", "documents", "1", "id"]],
    [
      "an unknown variable",
      [{ id: id(FIND), variables: { nome: "one" } }],
      "INVALID_INPUT",
      ["input", "documents", "0", "variables"],
    ],
    [
      "a value of another type",
      [{ id: id(FIND), variables: { name: 1 } }],
      "INVALID_INPUT",
      ["input", "documents", "0", "variables"],
    ],
  ])("is not created with %s [R-1014]", async (_what, bound, code, path) => {
    await administrator.request("createAccount", { name: "bound" });
    const { errors } = await administrator.request("createToken", { account: "bound", documents: bound });
    expect(errors).toMatchObject([{ code, path }]);
  });

  test("shows its documents with the fixed variables", async () => {
    const bound = [{ id: id(FIND), variables: { name: "one" } }, { id: id(WHO) }];
    const robotOfTwo = await administrator.accountWith({ roles: [], token: { documents: bound } });
    const { accounts } = await ostler.query<{ accounts: { name: string; tokens: unknown[] }[] }>(
      "{ accounts { name tokens { documents { id variables } } } }",
    );
    expect(accounts.find(({ name }) => name === robotOfTwo.name)?.tokens).toEqual([
      {
        documents: [
          { id: id(FIND), variables: { name: "one" } },
          { id: id(WHO), variables: {} },
        ],
      },
    ]);
    const { trustedDocuments } = await ostler.query<{ trustedDocuments: { id: string; tokens: unknown[] }[] }>(
      "{ trustedDocuments { id tokens { tokenId } } }",
    );
    expect(trustedDocuments.find((document) => document.id === id(WHO))?.tokens.length).toBeGreaterThan(0);
  });
});
