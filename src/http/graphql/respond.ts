/** Request ids, reading bodies with a limit, and writing responses. */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestErrorCode } from "../../errors.ts";

const requestIds = new WeakMap<IncomingMessage, string>();

/** The ID of a request in the log, the audit and the response: the caller's own if it is valid. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers["x-request-id"];
  if (typeof given === "string" && /^[\w.-]{1,64}$/.test(given)) return given;
  const id = requestIds.get(request) ?? randomUUID();
  requestIds.set(request, id);
  return id;
}

/** Path and query of a request, without the address that a client may put before it, as to a proxy. */
export function targetOf({ url = "/" }: IncomingMessage): string {
  return url.replace(/^https?:\/\/[^/?]*/i, "") || "/";
}

/** The path of a request, without its query. */
export function pathOf(request: IncomingMessage): string {
  return targetOf(request).split("?")[0] || "/";
}

/**
 * The bytes of the body; null if it is too large. Then the rest is discarded, and the response must close the
 * connection (`refuseBody`). Rejects if the client disconnects before the end.
 */
export function readBody(request: IncomingMessage, bytesMax: number): Promise<Buffer | null> {
  if (Number(request.headers["content-length"] ?? 0) > bytesMax) return Promise.resolve(null);
  const { promise, resolve, reject } = Promise.withResolvers<Buffer | null>();
  const chunks: Buffer[] = [];
  let bytes = 0;
  const take = (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= bytesMax) return void chunks.push(chunk);
    request.off("data", take);
    resolve(null);
  };
  request.on("data", take);
  request.once("end", () => resolve(Buffer.concat(chunks)));
  request.once("error", reject);
  return promise;
}

/** Whether a request failed because its client disconnected before the end of the request. */
export function hasLeft(request: IncomingMessage, error: unknown): boolean {
  return !request.complete && error === request.errored;
}

/** Time for which the rest of a refused body is read and discarded, so that the client reads the response. */
const REST_MS = 2_000;

/** Answers 413 and closes the connection. */
export function refuseBody(request: IncomingMessage, response: ServerResponse, body: unknown): void {
  response.setHeader("connection", "close");
  sendJson(response, 413, body);
  request.resume();
  const cut = setTimeout(() => request.destroy(), REST_MS);
  response.once("close", () => clearTimeout(cut));
}

/** Answers 400, as RFC 9112 says for a request with more than one Host header. */
export function refuseTwoHosts(response: ServerResponse): void {
  sendJson(response, 400, { error: "The request has more than one Host header." });
}

/** A GraphQL response with one error and no data. */
export function graphqlError(
  message: string,
  code: RequestErrorCode,
  more: Readonly<Record<string, unknown>> = {},
): { readonly errors: readonly unknown[] } {
  return { errors: [{ message, extensions: { code, ...more } }] };
}

const GRAPHQL_TYPE = "application/graphql-response+json";

/** Answers a GraphQL request without executing it. */
export function sendGraphql(request: IncomingMessage, response: ServerResponse, status: number, body: unknown): void {
  const type = request.headers.accept?.includes(GRAPHQL_TYPE) ? GRAPHQL_TYPE : "application/json";
  response.writeHead(status, { "content-type": `${type}; charset=utf-8` }).end(JSON.stringify(body));
}

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json; charset=utf-8" }).end(JSON.stringify(body));
}

export function sendText(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8" }).end(body);
}
