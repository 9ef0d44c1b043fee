/**
 * GraphQL over WebSocket: the sockets, and limits on what each of them may cost. socket-protocol.ts has the protocol.
 *
 * A stream is pulled: its next item is requested at once while less than a page waits for the client, otherwise when
 * the previous one has left for the kernel. Items of one turn of the event loop leave together. A client that does not
 * read stops its streams, and has 12 seconds to answer a ping; then it is closed with 1013. While too many bytes wait
 * for a client, or it has too many operations, nothing more is read from it either.
 */
import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { CloseCode, handleProtocols } from "graphql-ws";
import { WebSocketServer } from "ws";
import type { WebSocket } from "ws";
import { isRejection } from "../../access/access.ts";
import type { Actor } from "../../access/access.ts";
import { maskError } from "../../graphql/base/error-masking.ts";
import { createEventBudget } from "../../graphql/execution/event-budget.ts";
import type { Log } from "../../log.ts";
import { noopObserver } from "../../observer.ts";
import type { Observer } from "../../observer.ts";
import { Cork } from "./corked.ts";
import { BODY_BYTES_MAX } from "../graphql/graphql.ts";
import { LEFT_OPEN, OPERATIONS_MAX, closeReason, createProtocol, isForServers } from "./socket-protocol.ts";
import type { Client, ProtocolParts, SocketState } from "./socket-protocol.ts";
import { withReusedIds } from "../workarounds/reused-ids.ts";

/** Interval of pings, and time for their answers, in milliseconds. */
const PING_MS = 12_000;
/** Time that a disconnected client has to read the reason, in milliseconds. */
const LAST_WORD_MS = 2_000;
/** Time for the last items of streams before a socket closes whose credential has ended, in milliseconds. */
const LAST_ITEMS_MS = 100;
/** Maximum number of sockets; one more is closed with 1013. */
const SOCKETS_MAX = 10_000;
/** Bytes that may wait for a client before reading from it is paused. */
const WAITING_BYTES_MAX = 1024 * 1024;

/** Bytes that may wait for a client before its streams wait too. */
const PAGE_BYTES = 64 * 1024;

/** Close codes of WebSocket on which clients reconnect. */
const GOING_AWAY = 1001;
const TRY_AGAIN_LATER = 1013;

export interface SocketOptions extends ProtocolParts {
  readonly log: Log;
  readonly observer?: Observer | undefined;
  readonly socketsMax?: number;
  /** Interval of pings, in milliseconds. */
  readonly pingMs?: number;
  /** Maximum size of a message in bytes: that of an HTTP request, so that the same mutations work over both. */
  readonly messageBytesMax?: number;
}

export interface Sockets {
  /** Upgrades a request to a socket. */
  open(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Whether a client still has a running subscription. */
  isTalking(): boolean;
  /** Closes all sockets with 1001, and resolves when all are closed. */
  close(): Promise<void>;
  /** Terminates the sockets that have not closed. */
  terminate(): void;
}

export function createSockets(options: SocketOptions): Sockets {
  const { log, observer = noopObserver, socketsMax = SOCKETS_MAX, pingMs = PING_MS } = options;
  const clients = new Set<Client>();
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: options.messageBytesMax ?? BODY_BYTES_MAX,
    perMessageDeflate: false,
    handleProtocols,
  });
  const { access } = options.services;
  const parts: SocketParts = { protocol: createProtocol(options, clients), access, log, observer, pingMs };

  function serve(socket: WebSocket, request: IncomingMessage): void {
    socket.on("error", (error) => log.debug({ err: error }, "a socket failed"));
    if (server.clients.size > socketsMax) cut(socket, TRY_AGAIN_LATER, "Too many connections");
    else serveSocket(parts, socket, request);
  }

  return {
    open: (request, socket, head) => server.handleUpgrade(request, socket, head, serve),
    isTalking: () => [...clients].some(({ subscriptions }) => Object.keys(subscriptions).length > 0),
    async close() {
      for (const client of server.clients) client.close(GOING_AWAY, "Going down");
      await new Promise<void>((done) => server.close(() => done()));
    },
    terminate() {
      for (const client of server.clients) client.terminate();
    },
  };
}

interface SocketParts {
  readonly protocol: ReturnType<typeof createProtocol>;
  readonly access: Access;
  readonly log: Log;
  readonly observer: Observer;
  readonly pingMs: number;
}

type Access = ProtocolParts["services"]["access"];

/** A socket with the state of its operations. */
class OpenSocket implements SocketState {
  readonly request: IncomingMessage;
  readonly budget = createEventBudget();
  operations: SocketState["operations"] = {};
  isFull = false;
  rejection: string | null = null;
  readonly #socket: WebSocket;
  readonly #access: Access;
  readonly #cork: Cork;
  #actor: Actor | null = null;
  #unwatch = () => {};

  constructor(socket: WebSocket, request: IncomingMessage, access: Access) {
    this.request = request;
    this.#socket = socket;
    this.#access = access;
    this.#cork = new Cork(request.socket);
    socket.once("close", () => this.#unwatch());
  }

  get actor(): Actor | null {
    return this.#actor;
  }

  login(actor: Actor): void {
    this.#actor = actor;
    this.#watch(actor);
  }

  #watch(actor: Actor): void {
    const socket = this.#socket;
    if (socket.readyState !== socket.OPEN) return;
    this.#unwatch = this.#access.watch(actor, (present) => {
      if (!isRejection(present)) return this.#watch(present);
      setTimeout(() => {
        cut(socket, CloseCode.Forbidden, closeReason(CloseCode.Forbidden, "", present.message));
      }, LAST_ITEMS_MS);
    });
  }

  send(message: string): Promise<void> | undefined {
    const socket = this.#socket;
    this.#cork.hold();
    // Not at once: a loop that keeps sending would never let the socket close.
    if (socket.readyState !== socket.OPEN) return nextTurn();
    if (socket.bufferedAmount + message.length < PAGE_BYTES) {
      socket.send(message);
      return undefined;
    }
    return new Promise((sent) => {
      socket.send(message, (error) => {
        updateReading(socket, this);
        if (error) setImmediate(sent);
        else sent();
      });
    });
  }
}

function serveSocket(
  { protocol, access, log, observer, pingMs }: SocketParts,
  socket: WebSocket,
  request: IncomingMessage,
) {
  const state = new OpenSocket(socket, request, access);
  const closed = protocol.opened(
    {
      protocol: socket.protocol,
      send: (message) => state.send(message),
      close: (code = CloseCode.InternalServerError, reason) =>
        socket.close(code, closeReason(code, reason, state.rejection)),
      onMessage: (take) => receive(socket, state, (text) => takeMessage(socket, text, take, log)),
    },
    state,
  );
  const onSlow = () => {
    for (const _ of Object.keys(state.operations)) observer.streamReset("STALLED");
    cut(socket, TRY_AGAIN_LATER, "Too slow");
  };
  const stopPinging = ping(socket, state, { everyMs: pingMs, onSlow });
  socket.once("close", (code, reason) => {
    stopPinging();
    closed(code, String(reason)).catch((error: unknown) => log.error({ err: error }, "closing a socket failed"));
  });
}

/** Passes the messages of a socket to `handle`, with a limit on its operations. */
function receive(socket: WebSocket, state: SocketState, handle: (text: string) => Promise<void>): void {
  const take = withReusedIds(
    {
      handle,
      isLive: (id) => id in state.operations,
      liveCount: () => Object.keys(state.operations).length,
      onFull(isFull) {
        state.isFull = isFull;
        updateReading(socket, state);
      },
      onSurplus: () => cut(socket, TRY_AGAIN_LATER, "Too many messages"),
    },
    OPERATIONS_MAX,
  );
  socket.on("message", (data: Buffer) => {
    updateReading(socket, state);
    take(data.toString());
  });
}

async function takeMessage(
  socket: WebSocket,
  text: string,
  take: (text: string) => Promise<void>,
  log: Log,
): Promise<void> {
  // A message that had to wait may be due only after the client has disconnected.
  if (socket.readyState !== socket.OPEN) return;
  await take(text).catch((error: unknown) => {
    if (error === LEFT_OPEN) return;
    if (isForServers(error)) return socket.close(CloseCode.BadRequest, closeReason(CloseCode.BadRequest));
    const { extensions } = maskError(error, randomUUID(), log);
    // The caller could not be looked up.
    if (extensions["code"] === "DATABASE_UNAVAILABLE") return cut(socket, TRY_AGAIN_LATER, "No database at present");
    socket.close(CloseCode.InternalServerError, "Internal server error");
  });
}

/** Pauses or resumes reading: paused while too many bytes wait for the client, or while it has too many operations. */
function updateReading(socket: WebSocket, { isFull }: SocketState): void {
  const mayRead = !isFull && socket.bufferedAmount <= WAITING_BYTES_MAX;
  if (mayRead && socket.isPaused) socket.resume();
  else if (!mayRead && !socket.isPaused) socket.pause();
}

/**
 * Pings periodically until the returned function is called. A client that has not answered before the next ping is
 * disconnected, unless reading is paused on our side.
 */
function ping(
  socket: WebSocket,
  state: SocketState,
  { everyMs, onSlow }: { readonly everyMs: number; readonly onSlow: () => void },
): () => void {
  let isAnswered = true;
  socket.on("pong", () => {
    isAnswered = true;
  });
  const timer = setInterval(() => {
    if (socket.readyState !== socket.OPEN || state.isFull) return;
    if (!isAnswered && socket.bufferedAmount > 0) return onSlow();
    if (!isAnswered) return socket.terminate();
    isAnswered = false;
    socket.ping();
  }, everyMs);
  return () => clearInterval(timer);
}

/** Closes with a code on which clients reconnect, and terminates the socket soon after. */
function cut(socket: WebSocket, code: number, reason: string): void {
  socket.close(code, reason);
  const timer = setTimeout(() => socket.terminate(), LAST_WORD_MS);
  socket.once("close", () => clearTimeout(timer));
}
