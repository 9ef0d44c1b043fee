/**
 * Cookies of the service. A request has the rights of its cookie only if a page of the service itself sent it: the
 * browser says so in a header that pages cannot set. Pages of OSTLER_ORIGINS need a token.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { parseCookie, stringifySetCookie } from "cookie";
import { isLoopback } from "../../config/values.ts";
import { isOwnOrigin } from "../port/origins.ts";
import type { Senders } from "../port/senders.ts";

type Secured = Pick<Senders, "isSecure">;

/** The session. */
export const SESSION = "ostler";

/**
 * The name of a cookie as browsers have it: bound to this host over TLS. Without TLS there are cookies on loopback
 * only; null: none can be set.
 */
export function cookieName(name: string, request: IncomingMessage, senders: Secured): string | null {
  if (senders.isSecure(request)) return `__Host-${name}`;
  const hostname = URL.parse(`http://${request.headers.host ?? ""}`)?.hostname ?? "";
  return isLoopback(hostname.replace(/^\[|\]$/g, "")) ? name : null;
}

export function readCookie(name: string, request: IncomingMessage, senders: Secured): string | undefined {
  const full = cookieName(name, request, senders);
  return full === null ? undefined : parseCookie(request.headers.cookie ?? "")[full];
}

interface NewCookie {
  readonly name: string;
  readonly value: string;
  readonly seconds: number;
}

export function setCookie(
  response: ServerResponse,
  request: IncomingMessage,
  senders: Secured,
  { name, value, seconds }: NewCookie,
): void {
  const full = cookieName(name, request, senders);
  if (full === null) return;
  const secure = full !== name;
  const cookie = { name: full, value, maxAge: seconds, path: "/", httpOnly: true, sameSite: "lax", secure } as const;
  response.appendHeader("set-cookie", stringifySetCookie(cookie));
}

export function clearCookie(response: ServerResponse, request: IncomingMessage, senders: Secured, name: string): void {
  setCookie(response, request, senders, { name, value: "", seconds: 0 });
}

/** Whether a page of the service itself sent the request. */
export function isFromOwnPage(request: IncomingMessage, senders: Secured): boolean {
  const { origin } = request.headers;
  const site = request.headers["sec-fetch-site"];
  if (origin !== undefined && !isOwnOrigin(origin, request, senders)) return false;
  return site === undefined ? origin !== undefined : site === "same-origin";
}

/** The secret of the session with whose rights a request comes; undefined: without any. */
export function countedSession(request: IncomingMessage, senders: Secured): string | undefined {
  return isFromOwnPage(request, senders) ? readCookie(SESSION, request, senders) : undefined;
}
