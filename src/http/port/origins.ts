/**
 * Protection against pages of other origins: only our own page and the configured origins may use the API from a
 * browser. A cookie counts only for our own pages (cookies.ts), so no other page can act as a user. But without a token
 * it could read data, send requests that need no CORS preflight, or open WebSockets, to which the same-origin policy
 * does not apply.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { isLoopback } from "../../config/values.ts";
import type { Senders } from "./senders.ts";

export interface OriginOptions {
  /** Origins of other pages that may use the API, as `https://name:port`. */
  readonly origins: readonly string[];
  /** Whether callers need no credential. */
  readonly isOpen: boolean;
  readonly senders: Senders;
}

const METHODS = "GET, POST";
/** Headers that a page may send if its preflight names none. */
const HEADERS = "authorization, content-type, x-ostler-cost, x-request-id";
const SEEN_SECONDS = 600;

/** Whether a request does not come from a page, or comes from our own page or a configured origin. */
export function isAllowedOrigin(request: IncomingMessage, { origins, senders }: OriginOptions): boolean {
  const { origin } = request.headers;
  return origin === undefined || origins.includes(origin) || isOwnOrigin(origin, request, senders);
}

/** Whether an origin is that of this service, as the request addresses it. */
export function isOwnOrigin(origin: string, request: IncomingMessage, senders: Pick<Senders, "isSecure">): boolean {
  const { host } = request.headers;
  // A page that came in clear may be forged.
  if (senders.isSecure(request)) return URL.parse(`https://${host}`)?.origin === origin;
  // A proxy that is not configured may have ended TLS.
  return URL.parse(origin)?.host === host;
}

/**
 * Whether the host name of a request is ours. Protects a service without a token from DNS rebinding: a page could point
 * its own host name at this machine and would then have our origin. So only local names and those of configured origins
 * are accepted.
 */
export function isMeantForUs(
  request: IncomingMessage,
  { origins, isOpen }: Pick<OriginOptions, "origins" | "isOpen">,
): boolean {
  const { host } = request.headers;
  if (!isOpen || host === undefined) return true;
  if (!URL.canParse(`http://${host}`)) return false;
  const { hostname } = new URL(`http://${host}`);
  return (
    isLoopback(hostname.replace(/^\[|\]$/g, "")) || origins.some((origin) => new URL(origin).hostname === hostname)
  );
}

/**
 * Whether a request has a header more than once, of which Node passes on the first. An intermediary may read another
 * one than this service does.
 */
export function isRepeated({ rawHeaders }: IncomingMessage, header: "authorization" | "host"): boolean {
  return rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === header).length > 1;
}

/** Sets the CORS headers that let a page of a configured origin read the response. */
export function allowReading(
  request: IncomingMessage,
  response: ServerResponse,
  { origins }: Pick<OriginOptions, "origins">,
): void {
  response.setHeader("vary", "origin");
  const { origin } = request.headers;
  if (origin === undefined || !origins.includes(origin)) return;
  response.setHeader("access-control-allow-origin", origin);
  response.setHeader("access-control-expose-headers", "x-request-id");
}

/** Answers a CORS preflight. */
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
 * Whether a browser sent a request for a page of another origin without a preflight, like a link or an image. A header
 * that requires a preflight proves that there was one, or that no browser is involved. A page that may read the
 * response needs no preflight: urql sends such requests by default.
 */
export function isSentUnasked(request: IncomingMessage, response: ServerResponse): boolean {
  const { headers } = request;
  const { host, origin } = headers;
  if (response.hasHeader("access-control-allow-origin")) return false;
  const site = headers["sec-fetch-site"];
  const isOfAnother =
    site === undefined
      ? origin !== undefined && URL.parse(origin)?.host !== host
      : site !== "same-origin" && site !== "none";
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
