/** GraphQL over WebSocket, protocol graphql-transport-ws. What a document may ask is bounded by Yoga's plugins, as for HTTP. */
import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { GraphQLError } from "graphql";
import { useServer } from "graphql-ws/use/ws";
import { WebSocketServer } from "ws";
import { identify } from "../access/access.ts";
import { createContext } from "../graphql/context.ts";
import type { Services } from "../graphql/context.ts";
import { shown } from "../graphql/mask.ts";
import { BODY_BYTES_MAX } from "./graphql.ts";
import type { Yoga } from "./graphql.ts";

const KEEP_ALIVE_MS = 12_000;

export interface SocketOptions {
  readonly yoga: Yoga;
  readonly services: Services;
  readonly token: string | null;
}

export interface Sockets {
  /** Makes a socket of a request that asked for one. */
  open(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Whether anybody still has a subscription running. */
  isTalking(): boolean;
  /** Tells every client that we go (1001), and answers when all are gone. */
  close(): Promise<void>;
  /** Cuts whoever has not gone by itself. */
  terminate(): void;
}

export function createSockets({ yoga, services, token }: SocketOptions): Sockets {
  /** Clients with a socket, each with its running subscriptions. */
  const talking = new Set<{ readonly subscriptions: object }>();
  const sockets = new WebSocketServer({ noServer: true, maxPayload: BODY_BYTES_MAX, perMessageDeflate: false });
  const streams = useServer<Record<string, unknown>, { readonly request: IncomingMessage }>(
    {
      connectionInitWaitTimeout: 3_000,
      onConnect: (client) => {
        const known = identify(authorizationOf(client.connectionParams) ?? client.extra.request.headers.authorization, token) !== null;
        if (known) talking.add(client);
        return known;
      },
      onClose: (client) => void talking.delete(client),
      onSubscribe: async ({ connectionParams, extra }, _id, payload) => {
        const actor = identify(authorizationOf(connectionParams) ?? extra.request.headers.authorization, token);
        if (!actor) return [new GraphQLError("The token is not good any more.", { extensions: { code: "UNAUTHENTICATED" } })];
        const { schema: served, parse, validate, execute, subscribe, contextFactory } = yoga.getEnveloped({ context: createContext(services, actor, randomUUID()) });
        try {
          // A syntax error that is thrown here would close the socket with 4500, and every other stream on it with it.
          const document = parse(payload.query);
          const errors = validate(served, document);
          if (errors.length > 0) return errors;
          return {
            schema: served,
            document,
            operationName: payload.operationName,
            variableValues: payload.variables,
            contextValue: await contextFactory(),
            rootValue: { execute, subscribe },
          };
        } catch (error) {
          return [error instanceof GraphQLError ? shown(error) : new GraphQLError("Unexpected error.")];
        }
      },
      execute: (args) => (args.rootValue as { execute: (given: unknown) => never }).execute(args),
      subscribe: (args) => (args.rootValue as { subscribe: (given: unknown) => never }).subscribe(args),
    },
    sockets,
    KEEP_ALIVE_MS,
  );

  return {
    open: (request, socket, head) => sockets.handleUpgrade(request, socket, head, (opened) => sockets.emit("connection", opened, request)),
    isTalking: () => [...talking].some(({ subscriptions }) => Object.keys(subscriptions).length > 0),
    async close() {
      for (const client of sockets.clients) client.close(1001, "Going down");
      await streams.dispose();
    },
    terminate() {
      for (const client of sockets.clients) client.terminate();
    },
  };
}

function authorizationOf(connectionParams: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const value = connectionParams?.["authorization"] ?? connectionParams?.["Authorization"];
  return typeof value === "string" ? value : undefined;
}
