/**
 * A server of HTTP/1.1, in clear or over TLS. HTTP/2 is left to proxies: corking and the detection of stalled readers
 * work on the socket of one request, and `ws` has no WebSocket over HTTP/2.
 */
import { createServer as createHttpServer } from "node:http";
import type { RequestListener, Server, ServerOptions } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { Socket } from "node:net";
import { admit, createFairPlaces } from "../../runtime/fair-places.ts";

/** A certificate with its chain, and its private key, as PEM. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

/** The settings of TLS with a certificate, for a server and for the exchange of its certificate. */
export function tlsOptions({ cert, key }: KeyPair) {
  return { cert, key, minVersion: "TLSv1.2" } as const;
}

export interface WebServer {
  readonly server: Server;
  /**
   * Connections that have not sent a request yet, by address and port of the client. During a handshake it is the one
   * below TLS.
   */
  readonly silent: ReadonlyMap<string, Socket>;
  /**
   * To be called with the socket of each upgrade, by servers that accept some. The others have no listener of upgrades,
   * so Node answers these as plain requests.
   */
  upgraded(socket: Socket): void;
}

/** Time for a handshake, in milliseconds. */
const HANDSHAKE_MS = 10_000;
/** Maximum number of unfinished handshakes; addresses share them. */
const HANDSHAKES_MAX = 2_000;

const USE_HTTPS = "This port speaks TLS. Use a URL that begins with https:// or wss://.\n";

/** Without a pair, the server speaks HTTP in clear. */
export function createWebServer(
  options: ServerOptions,
  pair: KeyPair | null,
  answer: RequestListener,
  handshakesMax = HANDSHAKES_MAX,
): WebServer {
  const server =
    pair === null
      ? createHttpServer(options, answer)
      : createHttpsServer({ ...options, ...tlsOptions(pair), handshakeTimeout: HANDSHAKE_MS, noDelay: true }, answer);
  const silent = new Map<string, Socket>();
  const add = (socket: Socket) => {
    const peer = peerOf(socket);
    silent.set(peer, socket);
    socket.once("close", () => {
      if (silent.get(peer) === socket) silent.delete(peer);
    });
  };
  server.on("connection", add);
  server.on("secureConnection", add);
  const spoken = (socket: Socket) => void silent.delete(peerOf(socket));
  server.on("request", ({ socket }) => spoken(socket));
  if (pair !== null) {
    limitHandshakes(server, handshakesMax);
    answerPlainHttp(server, silent);
  }
  return { server, silent, upgraded: spoken };
}

/** The only link between a connection and the one of TLS within it. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

function limitHandshakes(server: Server, most: number): void {
  const places = createFairPlaces(most, { taken: "OLDEST" });
  const unfinished = new Map<string, () => void>();
  server.on("connection", (socket) => {
    const peer = peerOf(socket);
    unfinished.set(peer, admit(places, socket));
    socket.once("close", () => unfinished.delete(peer));
  });
  server.on("secureConnection", (socket: Socket) => unfinished.get(peerOf(socket))?.());
}

/** Answers a client that speaks HTTP in clear to a port of TLS. Other failures of a handshake need no answer. */
function answerPlainHttp(server: Server, silent: ReadonlyMap<string, Socket>): void {
  server.on("tlsClientError", ({ code }: NodeJS.ErrnoException, socket: Socket) => {
    if (code !== "ERR_SSL_HTTP_REQUEST") return;
    const head = `HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain; charset=utf-8`;
    silent.get(peerOf(socket))?.end(`${head}\r\ncontent-length: ${USE_HTTPS.length}\r\n\r\n${USE_HTTPS}`);
  });
}
