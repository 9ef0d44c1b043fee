/**
 * A proxy between browser and service, as companies have them: it passes everything on, and on request it cuts
 * connections, lets no WebSocket pass, or answers in place of the service.
 */
import { createServer, request } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect } from "node:net";
import type { AddressInfo, Socket } from "node:net";

export interface Proxy extends AsyncDisposable {
  readonly url: string;
  /** The service, as `http://host:port`; another one has the requests and connections from then on. */
  target: string;
  /** Requests over HTTP, and WebSockets that were opened. */
  readonly counts: { http: number; sockets: number };
  /** Answers requests of the API with this; null: the service answers. */
  replacement: { readonly status: number; readonly type: string; readonly body: string } | null;
  refusesSockets: boolean;
  /** Cuts the present sockets as a cable does; returns how many there were. */
  cut(): number;
}

export async function startProxy(target: string): Promise<Proxy> {
  const open = new Set<Socket>();
  const server = createServer((asked, answer) => {
    proxy.counts.http += 1;
    const { replacement } = proxy;
    if (replacement && asked.url?.startsWith("/graphql")) {
      asked.resume();
      answer.writeHead(replacement.status, { "content-type": replacement.type }).end(replacement.body);
    } else passOn(asked, answer, new URL(proxy.target));
  });
  server.on("upgrade", (asked: IncomingMessage, near: Socket, head: Buffer) => {
    if (proxy.refusesSockets) return near.end("HTTP/1.1 403 Forbidden\r\nconnection: close\r\n\r\n");
    proxy.counts.sockets += 1;
    const { hostname, port } = new URL(proxy.target);
    passUpgradeOn(asked, near, head, { hostname, port, open });
  });
  const proxy: Proxy = {
    url: "",
    target,
    counts: { http: 0, sockets: 0 },
    replacement: null,
    refusesSockets: false,
    cut() {
      const present = [...open];
      for (const socket of present) socket.resetAndDestroy();
      return present.length;
    },
    async [Symbol.asyncDispose]() {
      proxy.cut();
      const closed = new Promise<void>((done) => void server.close(() => done()));
      server.closeAllConnections();
      await closed;
    },
  };
  await new Promise<void>((listening) => void server.listen(0, "127.0.0.1", listening));
  return Object.assign(proxy, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

type Target = Pick<URL, "hostname" | "port">;

/** Passes a request on, and answers as a proxy does for a service that it cannot reach. */
function passOn(asked: IncomingMessage, answer: ServerResponse, { hostname, port }: Target): void {
  const { url: path, method, headers } = asked;
  const passed = request({ hostname, port, path, method, headers }, (answered) => {
    answer.writeHead(answered.statusCode ?? 502, answered.headers);
    answered.pipe(answer);
  });
  passed.on("error", () => answer.headersSent || answer.writeHead(502, { "content-type": "text/html" }).end("<h1>502"));
  asked.pipe(passed);
}

/** Connects a socket to the service, with the request for an upgrade. `open`: has the socket until it is closed. */
function passUpgradeOn(
  asked: IncomingMessage,
  near: Socket,
  head: Buffer,
  { hostname, port, open }: Target & { readonly open: Set<Socket> },
): void {
  const far = connect({ host: hostname, port: Number(port) });
  const headers = asked.rawHeaders.flatMap((text, index, all) => (index % 2 ? [] : [`${text}: ${all[index + 1]}`]));
  far.write([`GET ${asked.url} HTTP/1.1`, ...headers, "", ""].join("\r\n"));
  far.write(head);
  open.add(near);
  for (const [one, other] of [
    [near, far],
    [far, near],
  ] as const)
    one
      .on("error", () => {})
      .on("close", () => {
        open.delete(near);
        other.destroy();
      })
      .pipe(other);
}
