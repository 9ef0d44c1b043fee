/** Automatic persisted queries of Apollo Client: no request registers one, so the client sends the query. */
import { createHash } from "node:crypto";
import { ApolloClient, ApolloLink, HttpLink, InMemoryCache, gql } from "@apollo/client";
import { PersistedQueryLink } from "@apollo/client/link/persisted-queries";
import { once } from "node:events";
import { WebSocket } from "ws";
import { eventually } from "../support/eventually.ts";
import { afterAll, describe, expect, test } from "vitest";
import { serviceUnderTest } from "../support/service.ts";
import { EACH_TRANSPORT } from "./transports.ts";

const ostler = await serviceUnderTest();
afterAll(() => ostler[Symbol.asyncDispose]());

const query = "{ viewer { subject } }";
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const extensions = { persistedQuery: { version: 1, sha256Hash: sha256(query) } };

describe.each(EACH_TRANSPORT)("over $name", ({ ask }) => {
  test("the hash of an unknown query without the query is answered so that Apollo Client sends the query [R-841]", async () => {
    const { errors } = await ask(ostler.url, { extensions });
    expect(errors).toMatchObject([
      { message: "PersistedQueryNotSupported", extensions: { code: "PERSISTED_QUERY_NOT_IN_LIST" } },
    ]);
  });

  test("a persisted query of another form is answered with PERSISTED_QUERY_NOT_SUPPORTED", async () => {
    const { errors } = await ask(ostler.url, { extensions: { persistedQuery: { version: 2 } } });
    expect(errors).toMatchObject([
      { message: "PersistedQueryNotSupported", extensions: { code: "PERSISTED_QUERY_NOT_SUPPORTED" } },
    ]);
  });

  test("a query with its hash is executed", async () => {
    const answer = await ask(ostler.url, { query, extensions });
    expect(answer).toEqual({ data: { viewer: { subject: "anonymous" } } });
  });
});

test("a hash over WebSocket is refused, and the socket with its streams stays open", async () => {
  const socket = new WebSocket(`${ostler.url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
  const received: unknown[] = [];
  socket.on("message", (data: Buffer) => received.push(JSON.parse(data.toString())));
  await once(socket, "open");
  const send = (id: string, payload: object) => socket.send(JSON.stringify({ id, type: "subscribe", payload }));
  socket.send(JSON.stringify({ type: "connection_init" }));
  await eventually("the connection is acknowledged", () => received.length === 1);
  send("stream", { query: "subscription { nodeTransitions { __typename } }" });
  send("hash", { extensions });
  send("query", { query, extensions });
  await eventually("the query is answered", () => received.length >= 5);
  expect(received).toContainEqual({
    id: "hash",
    type: "error",
    payload: [{ message: "PersistedQueryNotSupported", extensions: { code: "PERSISTED_QUERY_NOT_IN_LIST" } }],
  });
  expect(received).toContainEqual(expect.objectContaining({ id: "query", type: "next" }));
  expect(received).not.toContainEqual({ id: "stream", type: "complete" });
  socket.close();
  await once(socket, "close");
});

test.each([{ useGETForHashedQueries: false }, { useGETForHashedQueries: true }])(
  "Apollo Client with automatic persisted queries (%j) gets the data",
  async (options) => {
    const persisted = new PersistedQueryLink({ sha256, ...options });
    const client = new ApolloClient({
      link: ApolloLink.from([persisted, new HttpLink({ uri: `${ostler.url}/graphql` })]),
      cache: new InMemoryCache(),
    });
    expect((await client.query({ query: gql(query) })).data).toMatchObject({ viewer: { subject: "anonymous" } });
    client.stop();
  },
);
