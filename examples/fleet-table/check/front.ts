/**
 * Serves the built page and hands /graphql to the service, as a reverse proxy in front of both does. Counts what
 * passes, and cuts connections.
 */
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { extname, join, normalize } from "node:path";
import { passOn, passUpgradeOn } from "../../../test/console/browser/proxy.ts";

export interface Front extends AsyncDisposable {
  readonly url: string;
  /** Requests of the API over HTTP, those of them that ask for a page of nodes, and WebSockets that were opened. */
  readonly counts: { http: number; pages: number; sockets: number };
  /** Cuts the present sockets as a cable does; returns how many there were. */
  cut(): number;
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
};

/** `folder`: the built page. `target`: the service, as `http://host:port`. `port`: 0 for a free one. */
export async function startFront(folder: string, target: string, port = 0): Promise<Front> {
  const { hostname, port: targetPort } = new URL(target);
  const counts = { http: 0, pages: 0, sockets: 0 };
  const open = new Set<Socket>();
  const server = createServer((asked, answer) => {
    if (!asked.url?.startsWith("/graphql")) return void sendFile(folder, asked, answer);
    counts.http += 1;
    asked.once("data", (text: Buffer) => {
      if (text.includes('"operationName":"FleetPage"')) counts.pages += 1;
    });
    passOn(asked, answer, { hostname, port: targetPort });
  });
  server.on("upgrade", (asked: IncomingMessage, near: Socket, head: Buffer) => {
    counts.sockets += 1;
    passUpgradeOn(asked, near, head, { hostname, port: targetPort, open });
  });
  const cut = () => {
    const present = [...open];
    for (const socket of present) socket.resetAndDestroy();
    return present.length;
  };
  await new Promise<void>((listening) => void server.listen(port, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts,
    cut,
    async [Symbol.asyncDispose]() {
      cut();
      const closed = new Promise<void>((done) => void server.close(() => done()));
      server.closeAllConnections();
      await closed;
    },
  };
}

async function sendFile(folder: string, asked: IncomingMessage, answer: ServerResponse): Promise<void> {
  const { pathname } = new URL(asked.url ?? "/", "http://page");
  const path = join(folder, normalize(pathname === "/" ? "/index.html" : pathname));
  try {
    const content = await readFile(path);
    answer.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" }).end(content);
  } catch {
    answer.writeHead(404).end();
  }
}
