/**
 * Which pages a browser may let talk to us: our own, and those whose origins are listed in the configuration. There are
 * no cookies, so another page gains nothing from a user who is here; but it could read what needs no token, make requests
 * of a kind that browsers send without asking, or open sockets, to which no rule of browsers applies.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { isLoopback } from "../config.ts";

export interface OriginOptions {
  /** Origins of other pages that may talk to us, as `https://name:port`. */
  readonly origins: readonly string[];
  readonly token: string | null;
}

const METHODS = "GET, POST";
/** Headers that a page may send when it names none. */
const HEADERS = "authorization, content-type, x-request-id";
const SEEN_SECONDS = 600;

/** Whether a request comes from no page, from one of ours, or from one that is listed. */
export function isAllowedOrigin(request: IncomingMessage, { origins }: OriginOptions): boolean {
  const { origin, host } = request.headers;
  return origin === undefined || origins.includes(origin) || (URL.canParse(origin) && new URL(origin).host === host);
}

/**
 * Whether a request is meant for us, by the name that it calls us. Where no token is needed, a page could give itself a
 * name that leads to this machine, and would be of our own origin then; so only the names of this machine itself are
 * answered, and those of the listed origins.
 */
export function isMeantForUs(request: IncomingMessage, { origins, token }: OriginOptions): boolean {
  const { host } = request.headers;
  if (token !== null || host === undefined) return true;
  if (!URL.canParse(`http://${host}`)) return false;
  const { hostname } = new URL(`http://${host}`);
  return (
    isLoopback(hostname.replace(/^\[|\]$/g, "")) || origins.some((origin) => new URL(origin).hostname === hostname)
  );
}

/** Says to a browser whose page is listed that the page may read the answer. */
export function allowReading(request: IncomingMessage, response: ServerResponse, { origins }: OriginOptions): void {
  response.setHeader("vary", "origin");
  const { origin } = request.headers;
  if (origin === undefined || !origins.includes(origin)) return;
  response.setHeader("access-control-allow-origin", origin);
  response.setHeader("access-control-expose-headers", "x-request-id");
}

/** Answers a browser that asks first whether its page may make a request. */
export function answerPreflight(request: IncomingMessage, response: ServerResponse): void {
  const mayRead = response.hasHeader("access-control-allow-origin");
  response
    .writeHead(
      204,
      mayRead
        ? {
            "access-control-allow-methods": METHODS,
            "access-control-allow-headers": request.headers["access-control-request-headers"] ?? HEADERS,
            "access-control-max-age": String(SEEN_SECONDS),
          }
        : {},
    )
    .end();
}

/**
 * Whether a browser sent a request for a page of another origin without asking us first, as a link or an image would be.
 * A header that pages may not send unasked proves that it did ask, or that no browser is involved. A page that may read
 * the answer need not ask: that is how urql reads, unless told otherwise.
 */
export function isSentUnasked(request: IncomingMessage, response: ServerResponse): boolean {
  const { headers } = request;
  if (response.hasHeader("access-control-allow-origin")) return false;
  const site = headers["sec-fetch-site"];
  const isOfAnother = site === undefined ? headers.origin !== undefined : site !== "same-origin" && site !== "none";
  return (
    isOfAnother &&
    !ASKED_FOR.some((name) => headers[name] !== undefined) &&
    !/^application\/json\b/i.test(headers["content-type"] ?? "")
  );
}

const ASKED_FOR = [
  "authorization",
  "x-request-id",
  "x-requested-with",
  "apollo-require-preflight",
  "x-apollo-operation-name",
  "graphql-preflight",
  "x-graphql-yoga-csrf",
];
