/**
 * GraphQL over WebSocket, protocol graphql-transport-ws. graphql-ws speaks it; this file gives it sockets and sees that
 * none of them costs more than its share. What a document may ask is bounded by Yoga's plugins, as for HTTP.
 *
 * A stream is pulled: its next item is asked for when the one before has left for the kernel. A client that does not read
 * stops that, and has 12 seconds to answer a ping; then it is told 1013 and cut. While more than its share of answers
 * waits for a client, or more than its share of operations has to end first, nothing more is read from it either.
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { GraphQLError } from "graphql";
import type { ExecutionResult, FormattedExecutionResult, GraphQLFormattedError } from "graphql";
import { CloseCode, handleProtocols, makeServer } from "graphql-ws";
import { WebSocketServer } from "ws";
import type { WebSocket } from "ws";
import { identify } from "../access/access.ts";
import { createContext } from "../graphql/base/context.ts";
import type { Context, Services } from "../graphql/base/context.ts";
import { unnamedOperation } from "../graphql/execution/guards.ts";
import { shown } from "../graphql/base/error-masking.ts";
import type { ReadyResult } from "../graphql/execution/shared-events.ts";
import { withLogged } from "../log.ts";
import type { Log } from "../log.ts";
import { noopObserver } from "../observer.ts";
import type { Observer } from "../observer.ts";
import { BODY_BYTES_MAX } from "./graphql.ts";
import type { Yoga } from "./graphql.ts";
import { withReusedIds } from "./workarounds/reused-ids.ts";

/** Within this time the first message, `connection_init`, must come. */
const INIT_MS = 3_000;
/** How often a client is pinged, and how long it has for the answer. */
const PING_MS = 12_000;
/** How long one that is cut has left to read why. */
const LAST_WORD_MS = 2_000;
/** Sockets at a time; one more is told 1013, to come back later. */
const SOCKETS_MAX = 10_000;
/** Operations under way at a time on one socket. */
const OPERATIONS_MAX = 100;
/** Bytes that may wait for a client before nothing more is read from it. */
const WAITING_BYTES_MAX = 1024 * 1024;

/** Close codes of WebSocket itself, on which clients come back. */
const GOING_AWAY = 1001;
const TRY_AGAIN_LATER = 1013;

export interface SocketOptions {
  readonly yoga: Yoga;
  readonly services: Services;
  readonly token: string | null;
  readonly log: Log;
  readonly observer?: Observer | undefined;
  readonly socketsMax?: number;
  /** How often a client is pinged, in milliseconds. */
  readonly pingMs?: number;
  /** How large a message may be: as large as a request over HTTP, so that the same mutations go both ways. */
  readonly messageBytesMax?: number;
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

/** What we keep of a socket. */
interface Extra {
  readonly request: IncomingMessage;
  /** Operations under way that their client has not completed, by their ids. */
  operations: Readonly<Record<string, unknown>>;
  /** The text of the result that is being put into a message just now. */
  ready: string | null;
  /** Whether nothing is read until an operation has ended. */
  isFull: boolean;
}

export function createSockets({
  yoga,
  services,
  token,
  log,
  observer = noopObserver,
  socketsMax = SOCKETS_MAX,
  pingMs = PING_MS,
  messageBytesMax = BODY_BYTES_MAX,
}: SocketOptions): Sockets {
  /** Clients with a socket, each with its running subscriptions. */
  const talking = new Set<{ readonly subscriptions: object }>();
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: messageBytesMax,
    perMessageDeflate: false,
    handleProtocols,
  });

  const protocol = makeServer<Record<string, unknown>, Extra>({
    connectionInitWaitTimeout: INIT_MS,
    onConnect: (client) => {
      const known =
        identify(authorizationOf(client.connectionParams) ?? client.extra.request.headers.authorization, token) !==
        null;
      if (known) talking.add(client);
      client.extra.operations = client.subscriptions;
      return known;
    },
    onClose: (client) => void talking.delete(client),
    onSubscribe: async ({ connectionParams, extra, subscriptions }, _id, payload) => {
      const actor = identify(authorizationOf(connectionParams) ?? extra.request.headers.authorization, token);
      if (!actor)
        return [new GraphQLError("The token is not good any more.", { extensions: { code: "UNAUTHENTICATED" } })];
      if (Object.keys(subscriptions).length > OPERATIONS_MAX) {
        return [
          new GraphQLError(
            `A socket has at most ${OPERATIONS_MAX} operations at a time; end one, or open another socket.`,
            { extensions: { code: "CAPACITY" } },
          ),
        ];
      }
      const {
        schema: served,
        parse,
        validate,
        execute,
        subscribe,
        contextFactory,
      } = yoga.getEnveloped({ context: createContext(services, actor, randomUUID()) });
      try {
        // A syntax error that is thrown here would close the socket with 4500, and every other stream on it with it.
        const document = parse(payload.query);
        const errors = validate(served, document);
        if (errors.length > 0) return errors;
        const unnamed = unnamedOperation(document, payload.operationName);
        if (unnamed) return [unnamed];
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
    execute: (args) =>
      withLogged(requestOf(args), () => (args.rootValue as { execute: (given: unknown) => never }).execute(args)),
    subscribe: (args) =>
      withLogged(requestOf(args), () => (args.rootValue as { subscribe: (given: unknown) => never }).subscribe(args)),
    onNext: ({ extra }, _id, _payload, _args, result) => toSend(extra, result),
    // An error that ends a stream comes wrapped, and its code would be lost.
    onError: (_client, _id, _payload, errors) =>
      errors.map((error) => formatted(error.cause instanceof GraphQLError ? error.cause : error)),
  });

  function serve(socket: WebSocket, request: IncomingMessage): void {
    socket.on("error", (error) => log.debug({ err: error }, "a socket failed"));
    if (server.clients.size > socketsMax) {
      cut(socket, "Too many connections");
      return;
    }
    const extra: Extra = { request, operations: {}, ready: null, isFull: false };
    const closed = protocol.opened(
      {
        protocol: socket.protocol,
        send: (message) => send(socket, withReady(extra, message), () => readOrNot(socket, extra)),
        close: (code, reason) => socket.close(code, reason),
        onMessage: (take) => {
          const handle = async (text: string) => {
            // What waited may come when the client has gone.
            if (socket.readyState !== socket.OPEN) return;
            await take(text).catch((error: unknown) => {
              if (isForServers(error)) return socket.close(CloseCode.BadRequest, "Invalid message received");
              log.error({ err: error }, "a message over WebSocket could not be handled");
              socket.close(CloseCode.InternalServerError, "Internal server error");
            });
          };
          const operations = {
            handle,
            isLive: (id: string) => id in extra.operations,
            liveCount: () => Object.keys(extra.operations).length,
            onFull(isFull: boolean) {
              extra.isFull = isFull;
              readOrNot(socket, extra);
            },
            onSurplus: () => cut(socket, "Too many messages"),
          };
          const receive = withReusedIds(operations, OPERATIONS_MAX);
          socket.on("message", (data: Buffer) => {
            readOrNot(socket, extra);
            receive(data.toString());
          });
        },
      },
      extra,
    );
    const onSlow = () => {
      for (const _ of Object.keys(extra.operations)) observer.streamReset("STALLED");
      cut(socket, "Too slow");
    };
    const stopPinging = ping(socket, extra, { everyMs: pingMs, onSlow });
    socket.once("close", (code, reason) => {
      stopPinging();
      closed(code, String(reason)).catch((error: unknown) =>
        log.error({ err: error }, "a socket could not be cleared away"),
      );
    });
  }

  return {
    open: (request, socket, head) => server.handleUpgrade(request, socket, head, serve),
    isTalking: () => [...talking].some(({ subscriptions }) => Object.keys(subscriptions).length > 0),
    async close() {
      for (const client of server.clients) client.close(GOING_AWAY, "Going down");
      await new Promise<void>((done) => server.close(() => done()));
    },
    terminate() {
      for (const client of server.clients) client.terminate();
    },
  };
}

function requestOf({ contextValue }: { readonly contextValue?: unknown }): Pick<Context, "requestId"> {
  return { requestId: (contextValue as Context).requestId };
}

/** Resolves when the message has left for the kernel, or the socket is gone: until then nobody is asked for the next. */
function send(socket: WebSocket, message: string, onSent: () => void): Promise<void> {
  return new Promise((sent) => {
    // Not at once: whoever goes on sending must let the socket be closed, which is what ends it.
    const isGone = () => void setImmediate(sent);
    if (socket.readyState !== socket.OPEN) return isGone();
    socket.send(message, (error) => {
      onSent();
      if (error) isGone();
      else sent();
    });
  });
}

/** Reads from a client, unless more than its share of answers waits for it or its operations have to end first. */
function readOrNot(socket: WebSocket, { isFull }: Extra): void {
  const mayRead = !isFull && socket.bufferedAmount <= WAITING_BYTES_MAX;
  if (mayRead && socket.isPaused) socket.resume();
  else if (!mayRead && !socket.isPaused) socket.pause();
}

/** Pings until told to stop. Who has not answered one when the next is due is cut, unless we are the ones who do not read. */
function ping(
  socket: WebSocket,
  extra: Extra,
  { everyMs, onSlow }: { readonly everyMs: number; readonly onSlow: () => void },
): () => void {
  let isAnswered = true;
  socket.on("pong", () => {
    isAnswered = true;
  });
  const timer = setInterval(() => {
    if (socket.readyState !== socket.OPEN || extra.isFull) return;
    if (!isAnswered && socket.bufferedAmount > 0) return onSlow();
    if (!isAnswered) return socket.terminate();
    isAnswered = false;
    socket.ping();
  }, everyMs);
  return () => clearInterval(timer);
}

/** Closes with a reason on which clients come back, and does not wait for long. */
function cut(socket: WebSocket, reason: string): void {
  socket.close(TRY_AGAIN_LATER, reason);
  const timer = setTimeout(() => socket.terminate(), LAST_WORD_MS);
  socket.once("close", () => clearTimeout(timer));
}

/**
 * A result that has its text goes out as that text. graphql-ws stringifies a message and hands it to `send` in one go; so
 * a stand-in is put into the message in place of the result, is asked for its JSON there, notes the text and says `null`,
 * which `withReady` replaces. Others go out without what errors say to HTTP alone.
 */
function toSend(extra: Extra, result: unknown): FormattedExecutionResult | undefined {
  const { stringify, ...given } = result as ExecutionResult & Partial<ReadyResult>;
  const errors = given.errors?.map(formatted);
  if (!stringify) return errors && { ...given, errors };
  const text = stringify((errors ? { ...given, errors } : given) as ExecutionResult);
  const standIn = {
    toJSON() {
      extra.ready = text;
      return null;
    },
  };
  return standIn as FormattedExecutionResult;
}

/** An error as it is told over a socket. */
function formatted(error: GraphQLError): GraphQLFormattedError {
  const { extensions = {}, ...rest } = error.toJSON();
  const { http: _, ...told } = extensions;
  return { ...rest, ...(Object.keys(told).length > 0 && { extensions: told }) };
}

/** The message with the text that was noted for it, if one was, in the place of its last value. */
function withReady(extra: { ready: string | null }, message: string): string {
  const { ready } = extra;
  if (ready === null) return message;
  extra.ready = null;
  return `${message.slice(0, -"null}".length)}${ready}}`;
}

/** Whether a message was of a type that only servers send: the client's mistake, which graphql-ws takes for its own. */
function isForServers(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith("Unexpected message of type");
}

function authorizationOf(connectionParams: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const value = connectionParams?.["authorization"] ?? connectionParams?.["Authorization"];
  return typeof value === "string" ? value : undefined;
}
