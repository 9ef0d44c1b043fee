/** A web server for images on the provisioning network that can also behave as broken servers do. */
import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import type { ServerResponse } from "node:http";
import { once } from "node:events";
import { HOST } from "./network.ts";

/**
 * - `/good/…` sends the file.
 * - `/slow/…` sends it at 2 MiB per second.
 * - `/stall/…` sends a third and then nothing, with the connection open.
 * - `/cut/…` sends a third and closes the connection.
 * - `/moved/…` redirects to the file.
 * - `/loop/…` redirects to itself.
 */
export const BEHAVIOURS = ["good", "slow", "stall", "cut", "moved", "loop"] as const;
export type Behaviour = (typeof BEHAVIOURS)[number];

export interface ImageServer {
  /** Address of a file with a behaviour. */
  url(behaviour: Behaviour, name: string): string;
  /** Paths that were requested, in order. */
  readonly requests: readonly string[];
}

const PORT = 8080;
const SLOW_BYTES = 2 ** 20;
const SLOW_MS = 500;

/** Serves files by name. */
export async function startImageServer(
  files: Readonly<Record<string, string>>,
  parts: AsyncDisposableStack,
): Promise<ImageServer> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? "/";
    requests.push(path);
    const [, behaviour = "", name = ""] = path.split("/");
    const file = files[name];
    const known = BEHAVIOURS.find((one) => one === behaviour);
    if (file === undefined || known === undefined) return void response.writeHead(404).end();
    if (known === "loop") return void response.writeHead(302, { location: path }).end();
    if (known === "moved") return void response.writeHead(302, { location: `/good/${name}` }).end();
    void send(known, file, response);
  });
  server.listen(PORT, HOST);
  await once(server, "listening");
  parts.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: (behaviour, name) => `http://${HOST}:${PORT}/${behaviour}/${name}`, requests };
}

async function send(behaviour: Behaviour, file: string, response: ServerResponse): Promise<void> {
  const { size } = statSync(file);
  response.writeHead(200, { "content-length": size, "content-type": "application/octet-stream" });
  const isPartial = behaviour === "stall" || behaviour === "cut";
  const end = isPartial ? Math.floor(size / 3) : size - 1;
  const stream = createReadStream(file, { end, highWaterMark: SLOW_BYTES });
  response.once("close", () => stream.destroy());
  try {
    for await (const part of stream) {
      if (!response.write(part)) await drained(response);
      if (behaviour === "slow") await pause(response, SLOW_MS);
      if (response.destroyed) return;
    }
  } catch {
    // The machine has closed the connection.
    return;
  }
  if (behaviour === "stall") return;
  if (behaviour === "cut") response.destroy();
  else response.end();
}

/** Ends early with the connection. */
const drained = (response: ServerResponse): Promise<void> => firstOf(response, ["drain", "close"]);

function pause(response: ServerResponse, ms: number): Promise<void> {
  const timer = setTimeout(() => response.emit("resume"), ms);
  return firstOf(response, ["resume", "close"]).finally(() => clearTimeout(timer));
}

/** Removes its listeners, of which a long download would otherwise leave thousands. */
function firstOf(response: ServerResponse, events: readonly string[]): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      for (const event of events) response.off(event, end);
      resolve();
    };
    for (const event of events) response.on(event, end);
    if (response.destroyed) end();
  });
}
