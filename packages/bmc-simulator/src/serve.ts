/**
 * Serves one request of one BMC. The order: faults that replace the answer, the delay, the restart of the BMC, its
 * quirks, the login, the route, If-Match, the handler, the form of the answer.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { Bmc } from "./bmc.ts";
import { BODIES, LOGIN_PAGE, answeredByFault, resetConnection, sendBody } from "./faulty-answers.ts";
import type { Fault } from "./faults.ts";
import { latencyOf } from "./latency.ts";
import { queried } from "./query.ts";
import { quirkAnswer, shownByQuirks } from "./quirks.ts";
import type { QuirkRequest } from "./quirks.ts";
import { shaped, spelledLink, withLinks } from "./render.ts";
import { ROOT, isBody, messageBody, notFound, refuse } from "./resource.ts";
import type { Answer, Body, Call, Handler, Route } from "./resource.ts";
import { monitorAnswer } from "./resources/tasks.ts";
import { pushUpdate } from "./resources/update.ts";
import { routerOf } from "./router.ts";
import type { Match } from "./router.ts";

const BODY_BYTES_MAX = 256 * 2 ** 20;

/** Readable without a login, as the specification demands. */
const PUBLIC: readonly string[] = ["", "/odata", "/$metadata"];

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly method: string;
  /** Path as requested, without a trailing slash. */
  readonly target: string;
  readonly query: URLSearchParams;
  readonly faults: readonly Fault[];
}

export async function serve(bmc: Bmc, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "http://bmc");
  const target = decodeURI(url.pathname).replace(/(.)\/$/, "$1");
  const method = request.method ?? "GET";
  const faults = bmc.faults.take(method, target + url.search);
  const exchange: Exchange = { request, response, method, target, query: url.searchParams, faults };
  const slow = faults.reduce((sum, fault) => sum + (fault.kind === "slow" ? fault.ms : 0), 0);
  const waitMs = slow + latencyOf(bmc.latency, bmc.traits.latency, target);
  if (waitMs > 0) await delay(waitMs, undefined, { ref: false });
  if (answeredByFault(exchange, faults)) return;
  const raw = await bodyOf(request);
  if (response.destroyed) return;
  if (raw === null) return send(bmc, exchange, refuse(413, "PayloadTooLarge", "The body is too large."));
  const isLost = faults.some(({ kind }) => kind === "lost-session");
  const login = isLost ? loseSession(bmc, request) : logInOf(bmc, request);
  await answerRequest(bmc, exchange, { raw, login });
}

interface Received {
  readonly raw: Buffer;
  readonly login: Login;
}

async function answerRequest(bmc: Bmc, exchange: Exchange, { raw, login }: Received): Promise<void> {
  const { method, target, request } = exchange;
  if (bmc.state.restartingUntil > Date.now())
    return send(bmc, exchange, {
      ...refuse(503, "ServiceTemporarilyUnavailable", "The BMC restarts.", "1"),
      headers: { "Retry-After": "1" },
    });
  if (target === "/redfish") return send(bmc, exchange, { status: 200, body: { v1: `${ROOT}/` } });
  const { push } = bmc.traits.update;
  if (target === LOGIN_PAGE)
    return send(bmc, exchange, { status: 200, body: BODIES.page, headers: { "Content-Type": "text/html" } });
  const isPush = method === "POST" && target === push;
  if (!isPush && !isBelowRoot(target)) return send(bmc, exchange, notFound(target));
  const body = parsedBody(raw, request);
  if (body === null) return send(bmc, exchange, refuse(400, "MalformedJSON", "The body is not a JSON object."));
  const asked: QuirkRequest = {
    bmc,
    method,
    path: target.slice(ROOT.length),
    url: request.url ?? "/",
    body,
    ifMatch: request.headers["if-match"],
  };
  const quirk = quirkAnswer(asked);
  if ("status" in quirk) return send(bmc, exchange, quirk);
  const { path } = quirk;
  const isLogin = method === "POST" && path.toLowerCase() === "/sessionservice/sessions";
  const isPublic = PUBLIC.includes(path.toLowerCase()) && (method === "GET" || method === "HEAD");
  if (login.kind === "none" && !isLogin && !isPublic) return send(bmc, exchange, unauthorized(bmc));
  if (isPush) return send(bmc, exchange, pushUpdate({ bmc, raw }));
  const fixed = fixedAnswer(path) ?? monitorAnswer(bmc, path);
  if (fixed) return send(bmc, exchange, fixed);
  if (method === "GET" && bmc.traits.events.stream !== null && path === bmc.traits.events.stream)
    return openStream(bmc, exchange);
  const match = routerOf(bmc.traits).match(path);
  if (match === null) return send(bmc, exchange, notFound(target));
  const call: Call = {
    bmc,
    path: match.path,
    params: match.params,
    body,
    raw,
    contentType: request.headers["content-type"] ?? "",
    sessionId: login.kind === "session" ? login.id : null,
  };
  const answer = await routed(call, match, exchange);
  const isShown = method === "GET" && answer.status === 200 && isBody(answer.body);
  send(bmc, exchange, isShown ? { ...answer, body: shownByQuirks(asked, answer.body) } : answer);
}

const isBelowRoot = (target: string) => target === ROOT || target.startsWith(`${ROOT}/`);

function fixedAnswer(path: string): Answer | null {
  if (path === "/odata")
    return {
      status: 200,
      body: { "@odata.context": `${ROOT}/$metadata`, value: [{ name: "Service", kind: "Singleton", url: `${ROOT}/` }] },
    };
  if (path !== "/$metadata") return null;
  const edmx = `<?xml version="1.0" encoding="UTF-8"?><edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0"/>`;
  return { status: 200, body: edmx, headers: { "Content-Type": "application/xml" } };
}

function openStream(bmc: Bmc, exchange: Exchange): void {
  if (!bmc.events.stream(exchange.response))
    send(bmc, exchange, refuse(503, "EventSubscriptionLimitExceeded", "The limit of event streams is reached."));
}

async function routed(call: Call, { route }: Match, { method, query, request }: Exchange): Promise<Answer> {
  if (method === "GET" || method === "HEAD") return route.get ? readAnswer(call, route, query) : notAllowed(route);
  const handler = handlerOf(route, method);
  if (handler === undefined) return notAllowed(route);
  const refusal = method === "PATCH" ? etagRefusal(call, route, request.headers["if-match"]) : null;
  return refusal ?? handler(call);
}

function handlerOf(route: Route, method: string): Handler | undefined {
  if (method === "POST") return route.post;
  if (method === "PATCH") return route.patch;
  return method === "DELETE" ? route.delete : undefined;
}

function notAllowed(route: Route): Answer {
  const allowed = [route.get && "GET, HEAD", route.post && "POST", route.patch && "PATCH", route.delete && "DELETE"];
  return {
    ...refuse(405, "OperationNotAllowed", "The method is not allowed for this resource."),
    headers: { Allow: allowed.filter(Boolean).join(", ") },
  };
}

function readAnswer(call: Call, route: Route, query: URLSearchParams): Answer {
  const { bmc, path } = call;
  const body = route.get?.(call) ?? null;
  if (body === null) return notFound(path);
  const whole = shaped(bmc.traits, body);
  const result = queried(bmc.traits, whole, query, (other) => read(call, other));
  if (result.refused !== null) return result.refused;
  const etag = whole["@odata.etag"];
  return { status: 200, body: result.body, headers: typeof etag === "string" ? { ETag: etag } : {} };
}

function read(call: Call, path: string): Body | null {
  const match = routerOf(call.bmc.traits).match(path);
  const body = match?.route.get?.({ ...call, path: match.path, params: match.params }) ?? null;
  return body === null ? null : shaped(call.bmc.traits, body);
}

function etagRefusal(call: Call, route: Route, ifMatch: string | undefined): Answer | null {
  const { etags } = call.bmc.traits;
  const current = route.get?.(call) ?? null;
  if (etags === "none" || current === null) return null;
  if (ifMatch === undefined)
    return etags === "required" ? refuse(428, "PreconditionRequired", "The request needs a header If-Match.") : null;
  const etag = String(shaped(call.bmc.traits, current)["@odata.etag"]);
  if (ifMatch === "*" || ifMatch.replace(/^W\//, "") === etag.replace(/^W\//, "")) return null;
  return refuse(412, "PreconditionFailed", "The resource has changed: its ETag does not match If-Match.");
}

type Login = { readonly kind: "session"; readonly id: string } | { readonly kind: "basic" } | { readonly kind: "none" };

function logInOf({ sessions, state, traits }: Bmc, { headers }: IncomingMessage): Login {
  const token = headers["x-auth-token"];
  if (typeof token === "string") {
    const session = sessions.use(token);
    return session === null ? { kind: "none" } : { kind: "session", id: session.id };
  }
  const { userName, password } = state.account;
  const expected = `Basic ${Buffer.from(`${userName}:${password}`).toString("base64")}`;
  return traits.login.basic && headers.authorization === expected ? { kind: "basic" } : { kind: "none" };
}

function loseSession({ sessions }: Bmc, { headers }: IncomingMessage): Login {
  const token = headers["x-auth-token"];
  const session = typeof token === "string" ? sessions.use(token) : null;
  if (session) sessions.end(session.id);
  return { kind: "none" };
}

function unauthorized({ traits }: Bmc): Answer {
  const headers = traits.login.basic ? { "WWW-Authenticate": 'Basic realm="redfish"' } : {};
  switch (traits.login.refusal) {
    case "empty":
      return { status: 401, headers };
    case "text":
      return { status: 401, headers: { ...headers, "Content-Type": "text/plain" }, body: "Unauthorized" };
    case "extended-info":
    case "general-error": {
      const message = "There is no valid session, and the login is wrong or missing.";
      return { ...refuse(401, "NoValidSession", message), headers };
    }
  }
}

/** Null if the body is too large. */
async function bodyOf(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) continue;
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Null if the body is not a JSON object. Files are not parsed. */
function parsedBody(raw: Buffer, { headers }: IncomingMessage): Body | null {
  const type = headers["content-type"] ?? "application/json";
  if (raw.length === 0 || /^multipart\/|octet-stream/.test(type)) return {};
  try {
    const body: unknown = JSON.parse(raw.toString("utf8"));
    return isBody(body) ? body : null;
  } catch {
    return null;
  }
}

function send(bmc: Bmc, { request, response, method, faults }: Exchange, answer: Answer): void {
  if (faults.some(({ kind }) => kind === "lost-answer")) return resetConnection(request);
  const { status, refusal, headers } = answer;
  const body = refusal ? messageBody(bmc.traits, refusal) : answer.body;
  response.statusCode = status;
  response.setHeader("OData-Version", "4.0");
  response.setHeader("Cache-Control", "no-cache");
  for (const [name, value] of Object.entries(headers ?? {}))
    response.setHeader(name, name === "Location" ? spelledLink(bmc, value) : value);
  if (body === undefined || method === "HEAD") {
    response.end();
    return;
  }
  if (typeof body !== "string") response.setHeader("Content-Type", "application/json; charset=utf-8");
  sendBody(response, typeof body === "string" ? body : JSON.stringify(withLinks(bmc, body)), faults);
}
