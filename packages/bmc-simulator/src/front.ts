/**
 * The network side of many BMCs in one process: one socket that listens for each BMC, one HTTP server for all. The
 * address at which a connection arrives names the BMC.
 */
import { createServer as createHttpServer } from "node:http";
import type { IncomingMessage, Server as HttpServer, ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { createServer } from "node:net";
import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { makeCertificate } from "./certificates.ts";
import type { TlsCertificate } from "./certificates.ts";
import type { Bmc } from "./bmc.ts";
import type { CertificateProblem } from "./faults.ts";
import { serve } from "./serve.ts";

export interface Front {
  /** Certificate of all BMCs behind this front, null without TLS. */
  readonly certificate: TlsCertificate | null;
  /** Listens at an address; port 0 is any free port. */
  listen(host: string, port: number): Promise<Listener>;
}

export interface Listener {
  readonly url: string;
  readonly port: number;
  /** Connections belong to this BMC from now on. */
  attach(bmc: Bmc): void;
  /** Refuses connections for a time, and ends those that are open. */
  pause(ms: number): Promise<void>;
  close(): Promise<void>;
}

export interface FrontSettings {
  readonly tls: boolean;
  /** Addresses that the certificate names, beside the loopback address. */
  readonly hosts: readonly string[];
}

type CertificateKind = CertificateProblem | "good";

const DAY_MS = 86_400_000;
/** Idle connections end so that clients meet a closed one now and then, as with a real BMC. */
const KEEP_ALIVE_MS = 30_000;

export function createFront({ tls, hosts }: FrontSettings): Front {
  const owners = new Map<string, Bmc>();
  const certificates = new Map<CertificateKind, TlsCertificate>();
  const servers = new Map<CertificateKind | "plain", HttpServer>();
  const certificateOf = (kind: CertificateKind): TlsCertificate => {
    const made =
      certificates.get(kind) ??
      makeCertificate({ ...requestFor(kind, hosts), issuer: kind === "good" ? null : certificateOf("good") });
    certificates.set(kind, made);
    return made;
  };
  const serverOf = (kind: CertificateKind) => {
    const name = tls ? kind : "plain";
    const known = servers.get(name);
    if (known) return known;
    const handle = (request: IncomingMessage, response: ServerResponse) => handleRequest(owners, request, response);
    const options = { keepAliveTimeout: KEEP_ALIVE_MS };
    const { certificate: cert, key } = tls ? certificateOf(kind) : { certificate: "", key: "" };
    const made = tls ? createHttpsServer({ ...options, cert, key }, handle) : createHttpServer(options, handle);
    servers.set(name, made);
    return made;
  };
  const accept = (bmc: Bmc, socket: Socket) => {
    socket.on("error", () => undefined);
    if (bmc.faults.find("deaf") !== undefined) return;
    serverOf(bmc.faults.find("certificate")?.problem ?? "good").emit("connection", socket);
  };
  return {
    certificate: tls ? certificateOf("good") : null,
    listen: (host, port) => listen({ scheme: tls ? "https" : "http", owners, accept }, host, port),
  };
}

function requestFor(kind: CertificateKind, hosts: readonly string[]) {
  const now = Date.now();
  return {
    name: kind === "good" ? "Simulated BMC" : `Simulated BMC (${kind})`,
    hosts: kind === "wrong-name" ? ["another-machine.invalid"] : [...new Set(["127.0.0.1", "localhost", ...hosts])],
    notBefore: new Date(now - 30 * DAY_MS),
    notAfter: new Date(kind === "expired" ? now - DAY_MS : now + 365 * DAY_MS),
  };
}

function handleRequest(owners: ReadonlyMap<string, Bmc>, request: IncomingMessage, response: ServerResponse): void {
  const { socket } = request;
  const bmc = owners.get(`${socket.localAddress}:${socket.localPort}`);
  if (bmc === undefined) {
    socket.destroy();
    return;
  }
  serve(bmc, request, response).catch(() => {
    // The client has disconnected in the middle of its request, or the address cannot be decoded.
    if (response.headersSent) socket.destroy();
    else response.writeHead(400).end();
  });
}

interface Wiring {
  readonly scheme: "http" | "https";
  readonly owners: Map<string, Bmc>;
  readonly accept: (bmc: Bmc, socket: Socket) => void;
}

async function listen({ scheme, owners, accept }: Wiring, host: string, asked: number): Promise<Listener> {
  const sockets = new Set<Socket>();
  let owner: Bmc | null = null;
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    if (owner) accept(owner, socket);
    else socket.destroy();
  });
  const open = (at: number) =>
    new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(at, host, resolve);
    });
  const shut = async () => {
    for (const socket of sockets) socket.destroy();
    if (server.listening) await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  let isClosed = false;
  await open(asked);
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : asked;
  const key = `${host}:${port}`;
  return {
    url: `${scheme}://${host}:${port}`,
    port,
    attach(bmc) {
      owner = bmc;
      owners.set(key, bmc);
    },
    async pause(ms) {
      await shut();
      await delay(ms);
      if (!isClosed) await open(port);
    },
    async close() {
      isClosed = true;
      owners.delete(key);
      await shut();
    },
  };
}
