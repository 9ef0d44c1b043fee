/**
 * The web console at /console/: the files that `npm run console:build` has made (packages/console/build.ts). They need
 * no token, because they contain nothing of the fleet: the page asks the API. They are read for each request, so a new
 * build is served without a restart; browsers keep the files that have their hash in their name.
 */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { extname, join } from "node:path";
import { acceptedEncoding } from "./graphql/content-encoding.ts";
import { pathOf, sendText } from "./graphql/respond.ts";

export const CONSOLE = "/console/";

export interface Console {
  /** Answers a GET or HEAD request whose path is that of the console, or below it. */
  serve(request: IncomingMessage, response: ServerResponse): Promise<void>;
}

/** No other host, no code and no styles in the page, and no text that becomes code. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join("; ");

const ASSETS = `${CONSOLE}assets/`;
/** One name, so that no path leaves the folder. */
const ASSET_NAME = /^\w[\w.-]*$/;
/** No screen has a dot in its name. */
const FILE = /^[^/]+\.[^/]*$/;
const TYPES: Readonly<Record<string, string>> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};
/** The build has a file for each. */
const ENDINGS = { br: ".br", gzip: ".gz", identity: "" } as const;
const ENCODINGS = ["br", "gzip"] as const;

export function isOfConsole(path: string): boolean {
  return path === CONSOLE.slice(0, -1) || path.startsWith(CONSOLE);
}

/** `folder`: that of the package of the console, with the build in `dist`. */
export function createConsole(folder: string): Console {
  const dist = join(folder, "dist");

  async function sendAsset(name: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const encoding = acceptedEncoding(request.headers["accept-encoding"], ENCODINGS) ?? "identity";
    const type = TYPES[extname(name)];
    const content =
      type !== undefined && ASSET_NAME.test(name) ? await read(join(dist, "assets", name + ENDINGS[encoding])) : null;
    if (content === null || type === undefined)
      return sendText(response, 404, "This file is not part of the console. Load the page again.\n");
    response.setHeader("cache-control", "public, max-age=31536000, immutable");
    response.setHeader("vary", "accept-encoding");
    if (encoding !== "identity") response.setHeader("content-encoding", encoding);
    send(request, response, type, content);
  }

  async function sendPage(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const page = await read(join(dist, "index.html"));
    response.setHeader("cache-control", "no-cache");
    if (page === null) return sendText(response, 503, notBuilt(await read(join(folder, "build-error.txt"))));
    const tag = `"${createHash("sha256").update(page).digest("base64url")}"`;
    response.setHeader("etag", tag);
    if (request.headers["if-none-match"] === tag) return void response.writeHead(304).end();
    response.setHeader("content-security-policy", POLICY);
    response.setHeader("referrer-policy", "same-origin");
    send(request, response, "text/html; charset=utf-8", page);
  }

  return {
    async serve(request, response) {
      const path = pathOf(request);
      if (path === CONSOLE.slice(0, -1)) return void response.writeHead(302, { location: CONSOLE }).end();
      if (path.startsWith(ASSETS)) return sendAsset(path.slice(ASSETS.length), request, response);
      if (FILE.test(path.slice(CONSOLE.length))) return sendAsset("", request, response);
      await sendPage(request, response);
    },
  };
}

function send({ method }: IncomingMessage, response: ServerResponse, type: string, content: Buffer): void {
  response.writeHead(200, { "content-type": type, "content-length": content.length });
  response.end(method === "HEAD" ? undefined : content);
}

async function read(path: string): Promise<Buffer | null> {
  return readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "EISDIR") return null;
    throw error;
  });
}

function notBuilt(problem: Buffer | null): string {
  const why = problem === null ? "" : `\nThe last build failed: ${problem.toString().trim()}\n`;
  return `The console is not built. In the folder of Ostler: npm ci && npm run console:build\n${why}\nThe API works, and GraphiQL is at /graphql.\n`;
}
