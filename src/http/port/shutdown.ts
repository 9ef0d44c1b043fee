/**
 * Orderly shutdown of the HTTP server. Each phase has a time limit:
 *
 * 1. Accept the connections that wait at the port: closing it would reset them.
 * 2. Close the port. Streams send their last item; requests that have just arrived are still read.
 * 3. Close the sockets, and answer the running requests.
 * 4. Refuse the requests that are still running with 503, then close all connections.
 */
import type { Server, ServerResponse } from "node:http";
import { setTimeout as delay, setImmediate as nextTurn } from "node:timers/promises";
import type { Log } from "../../log.ts";
import { graphqlError, sendJson } from "../graphql/respond.ts";
import type { Sockets } from "../sockets/sockets.ts";
import type { WebServer } from "./web-server.ts";

/** Time for streams to send their last item, in milliseconds. */
const LAST_WORD_MS = 1_000;
/** Time after that for sockets to close, in milliseconds. */
const CLOSE_SOCKETS_MS = 2_000;
/** Time after that for requests to be answered, in milliseconds. */
const ANSWER_MS = 3_000;
/** Time for clients to read a refusal, in milliseconds. */
const REFUSE_MS = 200;
/** Maximum age of a request that has arrived and was not read yet, in milliseconds. */
const UNREAD_MS = 100;
/** Maximum time to accept waiting connections while clients make new ones, in milliseconds. */
const ACCEPT_ALL_MS = 500;
const CHECK_EVERY_MS = 20;

interface ShutdownParts {
  readonly server: Server;
  readonly sockets: Sockets;
  readonly unanswered: ReadonlySet<ServerResponse>;
  readonly silent: WebServer["silent"];
  readonly log: Log;
}

export async function shutDown(parts: ShutdownParts): Promise<void> {
  const { server, sockets, silent } = parts;
  await acceptAll(server);
  // `close` ends all idle connections, also those with a request that has arrived and was not read yet.
  await readArrived();
  const closed = new Promise<void>((done) => server.close(() => done()));
  // A connection whose response ends from now on would be kept alive for another request.
  const sweep = setInterval(() => server.closeIdleConnections(), CHECK_EVERY_MS);
  const lastWords = performance.now() + LAST_WORD_MS;
  while (performance.now() < lastWords && sockets.isTalking()) await delay(CHECK_EVERY_MS);
  await readArrived();
  for (const socket of silent.values()) socket.destroy();
  const terminate = setTimeout(() => sockets.terminate(), CLOSE_SOCKETS_MS);
  const cut = setTimeout(() => refuseRemaining(parts), CLOSE_SOCKETS_MS + ANSWER_MS);
  await sockets.close();
  await closed;
  clearTimeout(terminate);
  clearTimeout(cut);
  clearInterval(sweep);
}

/** Waits until the process has read the requests that have arrived. */
async function readArrived(): Promise<void> {
  await delay(UNREAD_MS);
  await nextTurn();
  await nextTurn();
}

/**
 * Accepts the connections that wait at the port; there are many after the process was paused. The event loop accepts
 * one per turn, so a turn without a new connection means that none is waiting.
 */
async function acceptAll(server: Server): Promise<void> {
  let accepted = 0;
  const count = () => void (accepted += 1);
  server.on("connection", count);
  await delay(UNREAD_MS);
  const until = performance.now() + ACCEPT_ALL_MS;
  for (let before = -1; before < accepted && performance.now() < until;) {
    before = accepted;
    await nextTurn();
    await nextTurn();
  }
  server.off("connection", count);
}

function refuseRemaining({ server, unanswered, log }: ShutdownParts): void {
  log.warn({ requests: unanswered.size }, "refusing the requests that are still running at shutdown");
  for (const response of unanswered) refuse(response);
  setTimeout(() => server.closeAllConnections(), REFUSE_MS).unref();
}

/** The client cannot know whether its request took effect, so the message says how to find out. */
function refuse(response: ServerResponse): void {
  if (response.headersSent) return;
  response.setHeader("connection", "close");
  response.setHeader("retry-after", "1");
  const message =
    "This process shut down before your request was answered. The request may have taken effect: send it again with the same idempotencyKey, and another process will answer.";
  sendJson(response, 503, graphqlError(message, "SHUTTING_DOWN"));
}
